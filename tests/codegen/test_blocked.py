"""Weighted sums in blocks: against float64 loops by hand, the direct plan, and at every border."""

import math
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import symattn as sa
from symattn.codegen import choice, strips
from symattn.nodes import Mask
from tests import loops
from tests.codegen.blocks import in_small_blocks
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

Array = np.ndarray[Any, Any]
Plain = Callable[..., Any]

TILE, ROWS = 24, 4
B = ROWS  # a strip; a block of a whole strip has TILE // ROWS = 6 keys
BORDERS = sorted({1, 2, B - 1, B, B + 1, 2 * B + 1, 5, 6, 7, 13})

d_k, d_v, n, m, w, p = sa.dims("d_k d_v n m w p")
COLUMN = (sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m))
ROW = (sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v))
INPUTS = {"column": COLUMN, "row": ROW}

WHY_NOT: dict[str, str] = {}
"""The entries of the catalogue that are not computed in blocks, and the reason that they give."""


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_blocks(monkeypatch, TILE, ROWS)


def turn(layout: str, array: Array) -> Array:
    return array.swapaxes(-1, -2) if layout == "column" else array


def random_rows(queries: int, keys: int, *batch: int, seed: int = 0) -> list[Array]:
    """Queries, keys and values as rows."""
    random = np.random.default_rng(seed)
    return [random.normal(size=(*batch, *shape)) for shape in ((queries, 5), (keys, 5), (keys, 3))]


def called(f: Any, layout: str, *arrays: Array, **named: Any) -> Array:
    return turn(layout, f(*(turn(layout, array) for array in arrays), **named))


def by_hand(
    q: Array,
    k: Array,
    v: Array,
    score: Callable[[int, int, float], float] = lambda i, j, s: s,
    seen: Callable[[int, int], bool] = lambda i, j: True,
) -> Array:
    """Rows of queries, keys and values: softmax over what is seen of the scaled inner products."""
    out = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        js = [j for j in range(len(k)) if seen(i, j)]
        scores = [score(i, j, loops.dot(q[i], k[j]) / math.sqrt(q.shape[1])) for j in js]
        for weight, j in zip(loops.softmax_of(scores), js, strict=True):
            out[i] += weight * v[j]
    return out


def blocked(layout: str, **options: Any) -> Any:
    inputs = INPUTS[layout]
    return sa.lambdify(inputs, sa.attention(*inputs, layout=layout, **options), plan="blocked")


# Every formula.


@each_variant
@each_layout
def test_every_formula_in_blocks_or_why_not(
    name: str, options: dict[str, bool], layout: str
) -> None:
    formula = sa.formula(name, layout=layout, **options)
    if name in WHY_NOT:
        f = sa.lambdify(formula.inputs, formula)
        assert (f.plan, WHY_NOT[name] in f.plan_reason) == ("direct", True)
        return
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
        if name not in WHY_NOT
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
    bad[12] = np.nan  # a weight of 0 counts as one, as in whole matrices
    found, direct = (
        sa.lambdify(inputs, sa.hadamard(P, D.T) / (1 - r) @ V, plan=plan)(
            q, k, bad, drop, 0.25, **named
        )
        for plan in ("blocked", "direct")
    )
    if mask is None:
        np.testing.assert_array_equal(np.isnan(found), np.isnan(direct))


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


# What has no blocks.

NOT_BLOCKED: list[tuple[Plain, str]] = [
    (lambda Q, K, V: Q @ K.T @ V, "no softmax"),
    (
        lambda Q, K, V: V + sa.softmax(Q @ K.T, axis=1) @ sa.softmax(Q @ K.T, axis=1) @ V,
        "more than",
    ),
    (lambda Q, K, V: V @ V.T @ sa.softmax(Q @ K.T, axis=1), "with no values"),
    (
        lambda Q, K, V: sa.softmax(sa.softmax(Q @ K.T, axis=1), axis=1) @ V,
        "for more than a product",
    ),
    (lambda Q, K, V: sa.softmax(sa.max(Q @ K.T, axis=0), axis=1) @ V, "max"),
    (
        lambda Q, K, V: sa.hadamard(P := sa.softmax(Q @ K.T, axis=1), P) @ V,
        "for more than a product",
    ),
]


@pytest.mark.parametrize(("formula", "reason"), NOT_BLOCKED)
def test_what_has_no_blocks_says_why(formula: Plain, reason: str) -> None:
    Q, K, V = sa.matrix("Q", m, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
    inputs = [Q, K, V]
    f = sa.lambdify(inputs, formula(Q, K, V))
    assert reason in f.plan_reason
    assert f.plan == "direct"
    with pytest.raises(sa.NotSupportedError, match=reason):
        sa.lambdify(inputs, formula(Q, K, V), plan="blocked")


# Which plan.


def test_the_plan_suits_the_sizes() -> None:
    f = sa.lambdify(ROW, sa.attention(*ROW, layout="row"))
    assert f.plan == "auto"
    assert set(f.sources) == {"direct", "blocked"}
    assert f.source == f.sources["direct"]
    assert "blocks" in f.plan_reason
    chosen = f._plans
    for shape, expected in [
        ((16, 1 << 13), "direct"),  # few queries
        ((256, 256), "direct"),  # few scores
        ((257, 256), "blocked"),
        ((16, 1 << 19), "blocked"),  # much memory
        ((4, 8, 256, 256), "direct"),
        ((17, 4, 256, 256), "blocked"),
        ((0, 5), "direct"),
    ]:
        *batch, queries, keys = shape
        given = [
            np.broadcast_to(np.float32(0), (*batch, size, 2)) for size in (queries, keys, keys)
        ]
        sizes = {"n": queries, "m": keys, "d_k": 2, "d_v": 2}
        assert chosen.chosen(sizes, given, {}) is chosen.by_name[expected], shape


def test_tests_of_each_plan_take_it(each_plan: str) -> None:
    f = sa.lambdify(ROW, sa.attention(*ROW, layout="row"))
    called_for = f._plans.chosen({}, [], {})
    assert called_for is f._plans.by_name[each_plan]
    assert bool(called_for.workers) == (each_plan == "blocked")


def test_only_the_plan_that_was_asked_for() -> None:
    formula = sa.attention(*ROW, layout="row")
    assert sa.lambdify(ROW, formula, plan="blocked").plan == "blocked"
    assert sa.lambdify(ROW, formula, plan="direct").plan == "direct"
    assert sa.lambdify(ROW, formula, backend="cupy").plan == "direct"
    f = pickle.loads(pickle.dumps(sa.lambdify(ROW, formula, plan="blocked", workers=2)))
    assert (f.plan, f._workers) == ("blocked", 2)


# Numbers that are none, large ones, and none at all.


@each_layout
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("mask", [None, sa.causal("top_left"), sa.keep()], ids=str)
def test_what_is_no_number_goes_where_it_goes_in_the_direct_plan(
    layout: str, bad: float, mask: Mask | None
) -> None:
    direct = sa.lambdify(
        INPUTS[layout],
        sa.attention(*INPUTS[layout], mask=mask, layout=layout),
        plan="direct",
    )
    f = blocked(layout, mask=mask)
    random = np.random.default_rng(4)
    named = {"keep": random.random((9, 13)) < 0.5} if mask == sa.keep() else {}
    for which in range(3):
        for at in ((0, 0), (5, 1), (8, 2)):
            arrays = random_rows(9, 13, seed=which)
            arrays[which][at] = bad
            expected = called(direct, layout, *arrays, **named)
            found = called(f, layout, *arrays, **named)
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)


@each_layout
def test_no_number_among_masked_out_keys_has_no_influence(layout: str) -> None:
    q, k, v = random_rows(9, 13)
    keep = np.random.default_rng(1).random((9, 13)) < 0.6
    keep[4] = False
    keep[:, [3, 10, 12]] = False
    expected = by_hand(q, k, v, seen=lambda i, j: keep[i, j])
    k[3], v[3], k[10], v[12] = np.nan, np.nan, np.inf, -np.inf
    found = called(blocked(layout, mask=sa.keep()), layout, q, k, v, keep=keep)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
    assert not found[4].any()


@each_layout
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shift", [-300, -60, 60, 300])
@pytest.mark.parametrize("scale", [1, 40])
def test_large_scores(layout: str, dtype: str, shift: float, scale: float) -> None:
    f = blocked(layout, bias=lambda i, j: sa.scalar("b") + 0 * (i + j))
    q, k, v = (array.astype(dtype) for array in random_rows(9, 13))
    q *= scale
    found = called(f, layout, q, k, v, b=shift)
    exact = by_hand(q.astype(float), k.astype(float), v.astype(float))
    assert found.dtype == dtype
    tolerance = {"float32": 1e-4, "float64": 1e-11}[dtype]
    np.testing.assert_allclose(found, exact, rtol=tolerance, atol=tolerance)


@each_layout
@pytest.mark.parametrize("mask", [None, sa.causal("top_left"), sa.keep()], ids=str)
@pytest.mark.parametrize("empty", ["queries", "keys", "batch", "values"])
def test_axes_of_size_zero(layout: str, mask: Mask | None, empty: str) -> None:
    f = blocked(layout, mask=mask)
    queries, keys = 0 if empty == "queries" else 9, 0 if empty == "keys" else 13
    batch = 0 if empty == "batch" else 2
    q, k, v = random_rows(queries, keys, batch)
    v = v[..., : 0 if empty == "values" else None]
    named = {"keep": np.ones((batch, queries, keys), bool)} if mask == sa.keep() else {}
    found = called(f, layout, q, k, v, **named)
    assert found.shape == (batch, queries, v.shape[-1])
    assert not found.any() or empty not in ("keys", "queries")


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


# Threads.


@pytest.mark.parametrize("mask", [None, sa.causal("top_left"), sa.keep()], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_same_bits_for_any_number_of_workers(
    mask: Mask | None, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("threadpoolctl", reason="without it there is one worker")
    used: list[int] = []
    workers_for = strips.workers_for

    def counted(*arguments: Any) -> int:
        used.append(workers_for(*arguments))
        return used[-1]

    monkeypatch.setattr(strips, "workers_for", counted)
    f = blocked("row", mask=mask)
    q, k, v = (array.astype(dtype) for array in random_rows(40, 50, 3))
    named = {"keep": np.random.default_rng(0).random((40, 50)) < 0.5} if mask == sa.keep() else {}
    one, *others = (f(q, k, v, workers=workers, **named) for workers in (1, 2, 3))
    assert used == [1, 2, 3]
    for other in others:
        np.testing.assert_array_equal(one, other)


def test_workers_are_a_number() -> None:
    formula = sa.attention(*ROW, layout="row")
    arrays = random_rows(3, 4)
    for wrong in (0, -1, 1.5, True, "2"):
        with pytest.raises(sa.InputError, match="workers"):
            sa.lambdify(ROW, formula, workers=wrong)  # pyright: ignore[reportArgumentType]
        with pytest.raises(sa.InputError, match="workers"):
            sa.lambdify(ROW, formula)(*arrays, workers=wrong)


def test_an_input_called_workers_is_an_input() -> None:
    Q, K, _ = ROW
    V, strip = sa.matrix("workers", m, d_v), sa.scalar("strip")
    f = sa.lambdify([Q, K, V, strip], strip * sa.softmax(Q @ K.T, axis=1) @ V, plan="blocked")
    q, k, v = random_rows(3, 4)
    expected = 2 * by_hand(q * math.sqrt(5), k, v)
    np.testing.assert_allclose(f(q, k, workers=v, strip=2.0), expected, rtol=1e-12)


def test_errors_of_a_strip_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("of a strip")

    with pytest.raises(RuntimeError, match="of a strip"):
        strips.run(fail, (2,), strips.strips_of(9, 9), 3, np.dtype("float64"), 2)


# Memory.


def test_memory_does_not_grow_with_the_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    f = blocked("row", mask=sa.causal("top_left"))
    q, k, v = (array.astype("float32") for array in random_rows(3000, 3000))
    f(q[:300], k[:300], v[:300], workers=1)
    tracemalloc.start()
    try:
        found = f(q, k, v, workers=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < found.nbytes + 2**20  # all scores would be 34 MiB


def test_few_widths_are_kept() -> None:
    for width in range(3 * strips.MOST_WIDTHS):
        strips.Space.unused(width, np.dtype("float32"))
    assert len(strips.Space.kept) <= strips.MOST_WIDTHS


def test_sizes_of_the_points_have_several_blocks() -> None:
    assert SIZES["n"] > ROWS
    assert SIZES["m"] > TILE // ROWS
    assert choice.FEW_QUERIES > 0
