"""The blocked plan for CuPy without a device: NumPy's memory, kernels through g++."""

import math
from typing import Any

import numpy as np
import pytest

import symattn as sa
from tests import loops
from tests.codegen.gpu.host_rows import HostDevice, in_strips, needs_compiler, rows_of
from tests.codegen.test_blocked import (
    INPUTS,
    MASKS,
    ROW,
    SCORES,
    by_hand,
    random_rows,
)
from tests.variants.points import (
    SIZES,
    arrays_in,
    each_layout,
    each_variant,
    looped,
    random_column_arrays,
    run_time,
)

pytestmark = [needs_compiler, pytest.mark.usefixtures("device")]

Array = np.ndarray[Any, Any]

d_k, d_v, n, m = sa.dims("d_k d_v n m")

WHY_NOT = {"luong_concat": "a product of a matrix with a vector of each pair"}
"""The entries of the catalogue that have no such plan, and the reason that they give."""


# Every formula.


@each_variant
@each_layout
def test_every_formula_in_strips_or_why_not(
    name: str, options: dict[str, bool], layout: str
) -> None:
    formula = sa.formula(name, layout=layout, **options)
    if name in WHY_NOT:
        f = sa.lambdify(formula.inputs, formula, backend="cupy")
        assert (f.plan, WHY_NOT[name] in f.plan_reason) == ("direct", True)
        return
    columns = random_column_arrays(sa.formula(name, layout="column", **options), seed=5)
    given = arrays_in(formula, columns)
    f = sa.lambdify(formula.inputs, formula, backend="cupy", plan="blocked")
    sizes = {tag: SIZES[tag] for tag in f._plans.sizes if tag in SIZES}
    found = in_strips(formula.inputs, formula)(*given, **(sizes | run_time(name)))
    expected = looped(name, columns)
    np.testing.assert_allclose(found if layout == "column" else found.T, expected, rtol=1e-10)


# At the borders of strips, under each mask.


@pytest.mark.parametrize("name", MASKS)
@each_layout
def test_masks_at_the_borders_of_strips(name: str, layout: str) -> None:
    mask, seen = MASKS[name]
    formula = sa.attention(*INPUTS[layout], mask=mask, layout=layout)
    sizes = {tag: size for tag, size in (("w", 2), ("p", 3)) if tag in formula.tags}
    for queries in (1, 3, 4, 9):
        for keys in (1, 5, 13):
            q, k, v = random_rows(queries, keys, seed=queries * 100 + keys)
            found = rows_of(layout, formula, q, k, v, **sizes)
            here = lambda i, j, q=queries, k=keys: seen(i, j, q, k)  # noqa: E731
            np.testing.assert_allclose(found, by_hand(q, k, v, seen=here), rtol=1e-11, atol=1e-13)


@each_layout
@pytest.mark.parametrize("shapes", ["keep", "padding", "both"])
def test_masks_given_at_the_call(layout: str, shapes: str) -> None:
    mask = {"keep": sa.keep(), "padding": sa.padding(), "both": sa.keep() & sa.padding()}[shapes]
    formula = sa.attention(*INPUTS[layout], mask=mask & sa.causal("bottom_right"), layout=layout)
    random = np.random.default_rng(3)
    for queries, keys in ((9, 13), (13, 7)):
        q, k, v = random_rows(queries, keys, seed=keys)
        given = {"keep": random.random((queries, keys)) < 0.5, "padding": random.random(keys) < 0.6}
        used = {name: array for name, array in given.items() if shapes in (name, "both")}

        def seen(i: int, j: int, used: Any = used, more: int = keys - queries) -> bool:
            all_say = all(array[(i, j)[-array.ndim :]] for array in used.values())
            return bool(all_say) and j <= i + more

        found = rows_of(layout, formula, q, k, v, **used)
        np.testing.assert_allclose(found, by_hand(q, k, v, seen=seen), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("mask", [None, sa.causal("top_left")], ids=str)
def test_scores(name: str, mask: Any) -> None:
    options, score = SCORES[name]
    formula = sa.attention(*ROW, mask=mask, layout="row", **options)
    for queries, keys in ((9, 13), (13, 7)):
        q, k, v = random_rows(queries, keys, seed=queries)
        expected = by_hand(q, k, v, score, lambda i, j: mask is None or j <= i)
        found = rows_of("row", formula, q, k, v)
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_parts_of_scores_put_together(dtype: str, device: HostDevice) -> None:
    """Two products, one of them twice, a given matrix, vectors of queries and of keys, scalars."""
    Q, K, V = ROW
    E, R, G = sa.matrix("E", m, d_k), sa.vector("g", m), sa.matrix("G", m, n)
    u, c = sa.vector("u", n), sa.scalar("c")
    S = Q @ K.T / sa.sqrt(d_k)
    scores = (
        c * sa.tanh(S / c) - sa.hadamard(G.T, Q @ E.T) + sa.ones(n, 1) @ R.T - u @ sa.ones(1, m) + S
    )
    random = np.random.default_rng(3)
    shapes = ((9, 5), (13, 5), (13, 3), (13, 5), (13,), (13, 9), (9,))
    arrays = [random.normal(size=shape).astype(dtype) for shape in shapes]
    q, k, v, e, r, g, more = (array.astype(float) for array in arrays)

    def score(i: int, j: int, s: float) -> float:
        return (
            2 * math.tanh(s / 2)
            - g[j, i] * loops.dot(q[i], e[j])
            + float(r[j])
            - float(more[i])
            + s
        )

    found = in_strips([Q, K, V, E, R, G, u, c], sa.softmax(scores, axis=1) @ V)(*arrays, 2.0)
    assert found.dtype == dtype
    tolerance = {"float64": 1e-11, "float32": 1e-5, "float16": 2e-3}[dtype]
    np.testing.assert_allclose(found, by_hand(q, k, v, score), rtol=tolerance, atol=tolerance)
    if dtype == "float16":
        assert {product[:2] for product in device.products} == {("float16", "float16")}


@pytest.mark.parametrize("mask", [None, sa.causal("top_left"), sa.keep()], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_weights_changed_entry_by_entry(mask: Any, dtype: str, device: HostDevice) -> None:
    """A dropout after the softmax, whose factors may be too large for two bytes."""
    Q, K, V = ROW
    D, r = sa.matrix("D", m, n), sa.scalar("r")
    P = sa.softmax(Q @ K.T / sa.sqrt(d_k), axis=1, mask=mask)
    random = np.random.default_rng(6)
    q, k, v = (x.astype(dtype) for x in random_rows(9, 13))
    keep = random.random((9, 13)) < 0.6
    drop = 40 * (random.random((13, 9)) < 0.7).astype(dtype)
    seen = {"None": lambda i, j: True, "keep()": lambda i, j: keep[i, j]}
    here = seen.get(str(mask), lambda i, j: j <= i)
    weights = by_hand(q.astype(float), k.astype(float), np.eye(13), seen=here)
    right = (weights * drop.T.astype(float) / 0.75) @ v.astype(float)
    named = {"keep": keep} if mask == sa.keep() else {}
    for formula in (
        sa.hadamard(P, D.T) / (1 - r) @ V,
        (V.T @ (-1 * sa.hadamard(P.T, D) / (r - 1))).T,
    ):
        found = in_strips([Q, K, V, D, r], formula)(q, k, v, drop, 0.25, **named)
        tolerance = {"float64": 1e-11, "float16": 3e-3}[dtype]
        np.testing.assert_allclose(found, right, rtol=tolerance, atol=tolerance)


def test_weights_times_the_products_that_they_are_made_of() -> None:
    Q, K, V = ROW
    S = Q @ K.T / sa.sqrt(d_k)
    q, k, v = random_rows(9, 13)
    found = in_strips(ROW, sa.hadamard(sa.softmax(S, axis=1), S) @ V)(q, k, v)
    weights = by_hand(q, k, np.eye(13)) * (q @ k.T / math.sqrt(5))
    np.testing.assert_allclose(found, weights @ v, rtol=1e-11)


def test_what_comes_before_and_after() -> None:
    X, Y = sa.matrix("X", n, "d"), sa.matrix("Y", m, "d")
    W_Q, W_K, W_V = (sa.matrix(f"W^{x}", "d", k) for x, k in (("Q", d_k), ("K", d_k), ("V", d_v)))
    W_O, c = sa.matrix("W^O", d_v, "d"), sa.scalar("c")
    scores = (X @ W_Q) @ (Y @ W_K).T / sa.sqrt(d_k)
    formula = c * sa.softmax(scores, axis=1, mask=sa.causal("top_left")) @ (Y @ W_V) @ W_O + X
    random = np.random.default_rng(2)
    shapes = ((2, 9, 4), (13, 4), (4, 5), (4, 5), (4, 3), (3, 4))
    arrays = [random.normal(size=shape) for shape in shapes]
    inputs = [X, Y, W_Q, W_K, W_V, W_O, c]
    for dtype, tolerance in (("float64", 1e-11), ("float16", 4e-3)):
        given = [array.astype(dtype) for array in arrays]
        expected = sa.lambdify(inputs, formula)(*(x.astype(float) for x in given), 0.5)
        found = in_strips(inputs, formula)(*given, 0.5)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_two_layers() -> None:
    X = sa.matrix("X", n, d_k)
    first = sa.softmax(X @ X.T, axis=1, mask=sa.causal()) @ X
    second = sa.softmax(first @ X.T, axis=1) @ first
    x = random_rows(9, 13)[0] / 2
    f = sa.lambdify([X], second, backend="cupy", plan="blocked")
    assert f.source.count("__global__") == 2
    np.testing.assert_allclose(in_strips([X], second)(x), sa.lambdify([X], second)(x), rtol=1e-12)
