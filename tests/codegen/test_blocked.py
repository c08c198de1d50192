"""Weighted sums in blocks: against float64 loops by hand, the direct plan, and at every border."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import symattn as sa
from symattn.nodes import Mask
from tests import loops
from tests.codegen.blocks import (
    COLUMN,
    INPUTS,
    ROW,
    blocked,
    by_hand,
    called,
    d_k,
    d_v,
    in_small_blocks,
    m,
    n,
    random_rows,
    turn,
)
from tests.variants.points import (
    SIZES,
    VARIANTS,
    arrays_in,
    each_layout,
    each_variant,
    looped,
    random_column_arrays,
    run_time,
)

TILE, ROWS = 24, 4
B = ROWS  # a strip; a block of a whole strip has TILE // ROWS = 6 keys
BORDERS = sorted({1, 2, B - 1, B, B + 1, 2 * B + 1, 5, 6, 7, 13})
assert SIZES["n"] > ROWS, "the formulas have several strips"
assert SIZES["m"] > TILE // ROWS, "and several blocks"

w, p = sa.dims("w p")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_blocks(monkeypatch, TILE, ROWS)


# Every formula.


@each_variant
@each_layout
def test_every_formula(name: str, options: dict[str, bool], layout: str) -> None:
    formula = sa.formula(name, layout=layout, **options)
    f = sa.lambdify(formula.inputs, formula, plan="blocked")
    columns = random_column_arrays(sa.formula(name, layout="column", **options), seed=5)
    given = arrays_in(formula, columns)
    found = f(*given, **run_time(name))
    direct = sa.lambdify(formula.inputs, formula, plan="direct")(*given, **run_time(name))
    np.testing.assert_allclose(found, direct, rtol=1e-12, atol=1e-13)
    expected = looped(name, columns)
    np.testing.assert_allclose(found if layout == "column" else found.T, expected, rtol=1e-10)


def test_the_formulas_cover_every_kind_of_part() -> None:
    sources = [
        sa.lambdify(formula.inputs, formula, plan="blocked").source
        for name, options in VARIANTS
        for formula in [sa.formula(name, layout="row", **options)]
    ]
    used = ("np.matmul(", "diagonals(", "np.tanh(", "np.concatenate(", "band(", "somewhere")
    for part in used:
        assert any(part in source for source in sources), part


# At the borders of strips and blocks, under each mask.

Seen = Callable[[int, int, int, int], bool]
MASKS: dict[str, tuple[Mask | None, Seen]] = {
    "all": (None, lambda i, j, n, m: True),
    "top_left": (sa.causal("top_left"), lambda i, j, n, m: j <= i),
    "bottom_right": (sa.causal("bottom_right"), lambda i, j, n, m: j <= i + m - n),
    "window": (sa.window(3, "top_left"), lambda i, j, n, m: abs(i - j) < 3),
    "later": (~sa.causal("top_left"), lambda i, j, n, m: j > i),
    "causal window": (
        sa.window(w, "bottom_right") & sa.causal("bottom_right"),
        lambda i, j, n, m: 0 <= i + m - n - j < 2,
    ),
    "outside a window": (~sa.window(2, "top_left"), lambda i, j, n, m: abs(i - j) >= 2),
    "prefix": (sa.prefix(p), lambda i, j, n, m: j < 3),
    "prefix or causal": (sa.prefix(3) | sa.causal("top_left"), lambda i, j, n, m: j < 3 or j <= i),
    "causal but a prefix": (
        sa.causal("top_left") & ~sa.prefix(2),
        lambda i, j, n, m: 2 <= j <= i,
    ),
}


@pytest.mark.parametrize("name", MASKS)
@each_layout
@pytest.mark.parametrize("queries", BORDERS)
def test_borders_of_strips_and_blocks(name: str, layout: str, queries: int) -> None:
    mask, seen = MASKS[name]
    f = blocked(layout, mask=mask)
    sizes = {"w": 2, "p": 3}
    named = {tag: sizes[tag] for tag in f.__signature__.parameters if tag in sizes}
    for keys in BORDERS:
        q, k, v = random_rows(queries, keys, seed=queries * 100 + keys)
        found = called(f, layout, q, k, v, **named)
        here = lambda i, j, keys=keys: seen(i, j, queries, keys)  # noqa: E731
        np.testing.assert_allclose(found, by_hand(q, k, v, seen=here), rtol=1e-11, atol=1e-13)


@each_layout
@pytest.mark.parametrize("shapes", ["keep", "padding", "both"])
@pytest.mark.parametrize("queries", BORDERS)
def test_masks_given_at_the_call(layout: str, shapes: str, queries: int) -> None:
    mask = {"keep": sa.keep(), "padding": sa.padding(), "both": sa.keep() & sa.padding()}[shapes]
    f = blocked(layout, mask=mask & sa.causal("bottom_right"))
    random = np.random.default_rng(queries)
    for keys in BORDERS:
        q, k, v = random_rows(queries, keys, seed=keys)
        given = {"keep": random.random((queries, keys)) < 0.5, "padding": random.random(keys) < 0.6}
        used = {name: array for name, array in given.items() if shapes in (name, "both")}
        found = called(f, layout, q, k, v, **used)

        def seen(i: int, j: int, used: Any = used, keys: int = keys) -> bool:
            all_say = all(array[(i, j)[-array.ndim :]] for array in used.values())
            return bool(all_say) and j <= i + keys - queries

        np.testing.assert_allclose(found, by_hand(q, k, v, seen=seen), rtol=1e-11, atol=1e-13)


SCORES: dict[str, tuple[dict[str, Any], Callable[[int, int, float], float]]] = {
    "softcap": (
        {"score": lambda q, k: 2 * sa.tanh(k.T @ q / sa.sqrt(d_k) / 2)},
        lambda i, j, s: 2 * math.tanh(s / 2),
    ),
    "minus": ({"score": lambda q, k: -(k.T @ q) / sa.sqrt(d_k)}, lambda i, j, s: -s),
    "alibi": ({"bias": lambda i, j: -0.5 * (i - j)}, lambda i, j, s: s - 0.5 * (i - j)),
    "of keys": ({"bias": lambda i, j: j / 8}, lambda i, j, s: s + j / 8),
    "of queries": ({"bias": lambda i, j: i / 8}, lambda i, j, s: s + i / 8),
    "of both": ({"bias": lambda i, j: i * j / 64}, lambda i, j, s: s + i * j / 64),
    "of squares": ({"bias": lambda i, j: (i - j) ** 2 / 64}, lambda i, j, s: s + (i - j) ** 2 / 64),
    "constant": ({"bias": lambda i, j: 1}, lambda i, j, s: s + 1),
    "sigmoid": (
        {"score": lambda q, k: sa.sigmoid(k.T @ q / sa.sqrt(d_k))},
        lambda i, j, s: 1 / (1 + math.exp(-s)),
    ),
}


@pytest.mark.parametrize("name", SCORES)
@each_layout
@pytest.mark.parametrize("mask", [None, sa.causal("top_left")], ids=str)
def test_scores(name: str, layout: str, mask: Mask | None) -> None:
    options, score = SCORES[name]
    f = blocked(layout, mask=mask, **options)
    for queries, keys in ((9, 13), (13, 7)):
        q, k, v = random_rows(queries, keys, seed=queries)
        expected = by_hand(q, k, v, score, lambda i, j: mask is None or j <= i)
        np.testing.assert_allclose(called(f, layout, q, k, v), expected, rtol=1e-11, atol=1e-13)


def test_parts_of_scores_put_together() -> None:
    """Two products, a bias of keys, a given matrix, ones, scalars, and a difference of them."""
    Q, K, V = ROW
    E, R, G = sa.matrix("E", m, d_k), sa.vector("g", m), sa.matrix("G", m, n)
    u = sa.vector("u", n)
    scores = (
        Q @ K.T / sa.sqrt(d_k)
        - sa.hadamard(G.T, Q @ E.T)
        + sa.ones(n, 1) @ R.T
        - u @ sa.ones(1, m)
        + 2 * sa.ones(n, m)
    )
    inputs = [Q, K, V, E, R, G, u]
    f = sa.lambdify(inputs, sa.softmax(scores, axis=1) @ V, plan="blocked")
    random = np.random.default_rng(3)
    q, k, v = random_rows(9, 13)
    e, r, g = random.normal(size=(13, 5)), random.normal(size=13), random.normal(size=(13, 9))
    more = random.normal(size=9)
    expected = by_hand(
        q, k, v, lambda i, j, s: s - g[j, i] * loops.dot(q[i], e[j]) + r[j] - more[i] + 2
    )
    np.testing.assert_allclose(f(q, k, v, e, r, g, more), expected, rtol=1e-11)


def test_weights_turned_over_and_a_projection_afterwards() -> None:
    Q, K, V = COLUMN
    W, c = sa.matrix("W", "d", d_v), sa.scalar("c")
    inputs = [Q, K, V, W, c]
    P = sa.softmax(K.T @ Q / sa.sqrt(d_k), axis=0)
    q, k, v = random_rows(9, 13)
    weight = np.random.default_rng(1).normal(size=(2, 3))
    right = by_hand(q, k, v)
    for formula in (c * P.T @ V.T @ W.T, (c * W @ V @ P).T, P.T @ (c * V.T) @ W.T):
        f = sa.lambdify(inputs, formula, plan="blocked")
        found = f(q.T, k.T, v.T, weight, 0.5)
        np.testing.assert_allclose(found, 0.5 * loops.times(right, weight.T), rtol=1e-11)


@pytest.mark.parametrize("mask", [None, sa.causal("top_left"), sa.keep()], ids=str)
@pytest.mark.parametrize("scale", [1, 40])
def test_weights_changed_entry_by_entry(mask: Mask | None, scale: float) -> None:
    """A dropout D / (1 - r) after the softmax, in either layout, and a product of queries."""
    Q, K, V = ROW
    D, r = sa.matrix("D", m, n), sa.scalar("r")
    P = sa.softmax(Q @ K.T / sa.sqrt(d_k), axis=1, mask=mask)
    inputs = [Q, K, V, D, r]
    random = np.random.default_rng(6)
    q, k, v = random_rows(9, 13)
    q *= scale
    keep, drop = random.random((9, 13)) < 0.6, (random.random((13, 9)) < 0.7).astype(float)
    named = {"keep": keep} if mask == sa.keep() else {}
    seen: dict[str, Callable[[int, int], bool]] = {
        "None": lambda i, j: True,
        "keep()": lambda i, j: keep[i, j],
    }
    weights = by_hand(q, k, np.eye(13), seen=seen.get(str(mask), lambda i, j: j <= i))
    right = (weights * drop.T / 0.75) @ v
    for formula in (
        sa.hadamard(P, D.T) / (1 - r) @ V,
        sa.hadamard(D.T, P / (1 - r)) @ V,
        (V.T @ (-1 * sa.hadamard(P.T, D) / (r - 1))).T,
    ):
        f = sa.lambdify(inputs, formula, plan="blocked")
        found = f(q, k, v, drop, 0.25, **named)
        np.testing.assert_allclose(found, right, rtol=1e-10, atol=1e-12)
    bad = v.copy()
    bad[12] = np.nan  # a weight of 0 counts as in whole matrices
    found, direct = (
        sa.lambdify(inputs, sa.hadamard(P, D.T) / (1 - r) @ V, plan=plan)(
            q, k, bad, drop, 0.25, **named
        )
        for plan in ("blocked", "direct")
    )
    np.testing.assert_array_equal(np.isnan(found), np.isnan(direct))


def test_a_factor_of_0_counts_where_a_value_is_no_number() -> None:
    """Without a mask 0 · NaN is NaN, as in whole matrices."""
    Q, K, V = ROW
    D = sa.matrix("D", n, m)
    f = sa.lambdify([Q, K, V, D], sa.hadamard(sa.softmax(Q @ K.T, axis=1), D) @ V, plan="blocked")
    q, k, v = random_rows(9, 13)
    drop = (np.random.default_rng(6).random((9, 13)) < 0.7).astype(float)
    assert not drop[:, 12].all()
    v[12, 1] = np.nan
    assert np.isnan(f(q, k, v, drop)).tolist() == [[False, True, False]] * 9


def test_two_layers() -> None:
    X = sa.matrix("X", n, d_k)
    first = sa.softmax(X @ X.T, axis=1, mask=sa.causal()) @ X
    second = sa.softmax(first @ X.T, axis=1) @ first
    x = random_rows(9, 13)[0] / 2
    found = sa.lambdify([X], second, plan="blocked")(x)
    np.testing.assert_allclose(found, sa.lambdify([X], second, plan="direct")(x), rtol=1e-12)


# Random scores, masks, sizes, blocks.

Part = tuple[Callable[..., Any], Callable[..., float]]
PARTS: dict[str, Part] = {
    "dot": (lambda s, of: s, lambda i, j, s, a: s),
    "cap": (lambda s, of: 3 * sa.tanh(s / 3), lambda i, j, s, a: 3 * math.tanh(s / 3)),
    "silu": (lambda s, of: sa.silu(s), lambda i, j, s, a: s / (1 + math.exp(-s))),
    "square": (lambda s, of: sa.square(s) / 4, lambda i, j, s, a: s * s / 4),
    "given": (lambda s, of: of["G"], lambda i, j, s, a: a["G"][i, j]),
    "times": (lambda s, of: -sa.hadamard(of["G"], s), lambda i, j, s, a: -a["G"][i, j] * s),
    "queries": (lambda s, of: of["u"], lambda i, j, s, a: a["u"][i]),
    "keys": (lambda s, of: of["g"], lambda i, j, s, a: a["g"][j]),
    "distance": (lambda s, of: of["bias"], lambda i, j, s, a: 0.25 * (i - j) + 0.5),
}


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(sorted(PARTS)), min_size=1, max_size=3, unique=True))
    return {
        "names": names,
        "mask": draw(st.sampled_from([None, *sorted(MASKS)])),
        "layout": draw(st.sampled_from(["row", "column"])),
        "sizes": (draw(st.integers(1, 14)), draw(st.integers(1, 14))),
        "tile": draw(st.integers(1, 40)),
        "rows": draw(st.integers(1, 9)),
        "scale": draw(st.sampled_from([1, 1, 30])),
        "seed": draw(st.integers(0, 999)),
    }


@settings(max_examples=120, deadline=None)
@given(cases())
def test_random_scores_under_random_masks(case: dict[str, Any]) -> None:
    layout, (queries, keys) = case["layout"], case["sizes"]
    Q, K, V = INPUTS[layout]
    row = layout == "row"
    G = sa.matrix("G", *((n, m) if row else (m, n)))
    u, g = sa.vector("u", n), sa.vector("g", m)
    of = {
        "G": G,
        "u": u @ sa.ones(1, m) if row else sa.ones(m, 1) @ u.T,
        "g": sa.ones(n, 1) @ g.T if row else g @ sa.ones(1, n),
        "bias": sa.positional(lambda i, j: 0.25 * (i - j) + 0.5, n, m, layout=layout),
    }
    plain = (Q @ K.T if row else K.T @ Q) / sa.sqrt(d_k)
    first, *others = (PARTS[name][0](plain, of) for name in case["names"])
    scores = sum(others, start=first) + 0 * plain
    mask, seen = MASKS[case["mask"] or "all"]
    P = sa.softmax(scores, axis=1 if row else 0, mask=mask)
    formula = P @ V if row else V @ P
    random = np.random.default_rng(case["seed"])
    q, k, v = random_rows(queries, keys, seed=case["seed"])
    q *= case["scale"]
    arrays = {
        "Q": q,
        "K": k,
        "V": v,
        "G": random.normal(size=(queries, keys)),
        "u": random.normal(size=queries),
        "g": random.normal(size=keys),
    }
    inputs = [symbol for symbol in (Q, K, V, G, u, g) if symbol in formula.inputs()]
    given = [
        array if array.ndim == 1 else turn(layout, array)
        for array in (arrays[symbol.label] for symbol in inputs)
    ]
    tags = {"w": 2, "p": 3}
    named = {tag: tags[tag] for tag in formula.tags if tag in tags}
    expected = by_hand(
        q,
        k,
        v,
        lambda i, j, s: sum(PARTS[name][1](i, j, s, arrays) for name in case["names"]),
        lambda i, j: seen(i, j, queries, keys),
    )
    f = sa.lambdify(inputs, formula, plan="blocked")
    with pytest.MonkeyPatch.context() as patch:
        in_small_blocks(patch, case["tile"], case["rows"])
        found = turn(layout, f(*given, **named))
    direct = turn(layout, sa.lambdify(inputs, formula, plan="direct")(*given, **named))
    for one in (found, direct):
        np.testing.assert_allclose(one, expected, rtol=1e-9, atol=1e-10)


# Arrays of every kind.


@each_layout
def test_batches_broadcast_and_any_strides(layout: str) -> None:
    f = blocked(layout, mask=sa.keep())
    direct = sa.lambdify(
        INPUTS[layout],
        sa.attention(*INPUTS[layout], mask=sa.keep(), layout=layout),
        plan="direct",
    )
    q, k, v = random_rows(18, 26, 2, 3)
    keep = np.random.default_rng(0).random((2, 1, 18, 26)) < 0.7
    kinds = [
        (q[:1, :, ::2], k[:, :1, ::-2], v[0, 0, ::2], keep[..., ::-2, ::2]),
        (q[0, 0, :9][::-1], k[..., :13, :], v[..., 13:, ::-1], keep[:, :, :9, :13]),
        (
            np.broadcast_to(q[0, 0, :1], (2, 3, 9, 5)),
            k[1, :, 13:],
            v[:, :, 13:],
            keep[0, 0, 9:, 13:],
        ),
        (np.asfortranarray(q)[..., :9, :], k[..., 0:1, :], v[..., 0:1, :], keep[..., :9, :1]),
    ]
    for *arrays, allowed in kinds:
        before = [array.copy() for array in (*arrays, allowed)]
        for array in (*arrays, allowed):
            array.flags.writeable = False
        found = called(f, layout, *arrays, keep=allowed)
        expected = called(direct, layout, *(a.copy() for a in arrays), keep=allowed)
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
        for array, was in zip((*arrays, allowed), before, strict=True):
            np.testing.assert_array_equal(array, was)
        assert found.flags.writeable
