"""Sums in blocks that have no softmax: against float64 loops by hand, and the direct plan."""

import math
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.codegen import strips
from tests import loops
from tests.codegen.blocks import in_small_blocks
from tests.codegen.test_blocked import BORDERS, COLUMN, MASKS, ROW, random_rows, turn

Array = np.ndarray[Any, Any]
Weight = Callable[[int, int, float], float]

d_k, d_v, n, m, h, g = sa.dims("d_k d_v n m h g")
INPUTS = {"column": COLUMN, "row": ROW}
each_layout = pytest.mark.parametrize("layout", ["column", "row"])


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_blocks(monkeypatch)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def by_hand(
    q: Array,
    k: Array,
    v: Array,
    weight: Weight,
    seen: Callable[[int, int], bool] = lambda i, j: True,
) -> Array:
    """Rows of queries, keys and values: the sum of what is seen, each value times its weight."""
    out = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        for j in range(len(k)):
            if seen(i, j):
                out[i] += weight(i, j, loops.dot(q[i], k[j]) / math.sqrt(q.shape[1])) * v[j]
    return out


def scores(layout: str) -> Any:
    Q, K, _ = INPUTS[layout]
    return (K.T @ Q if layout == "column" else Q @ K.T) / sa.sqrt(d_k)


def pairs(layout: str) -> tuple[Any, Any]:
    """The sizes of the scores."""
    return (m, n) if layout == "column" else (n, m)


def summed(layout: str, weights: Any) -> Any:
    V = INPUTS[layout][2]
    return V @ weights if layout == "column" else weights @ V


def added(mask: Any, layout: str) -> Any:
    return sa.additive_mask(mask, *pairs(layout), axis=0 if layout == "column" else 1)


def indicated(mask: Any, layout: str) -> Any:
    return sa.indicator(mask, *pairs(layout), axis=0 if layout == "column" else 1)


def both(inputs: Any, formula: Any, *arrays: Array, **named: Any) -> Array:
    """The result in blocks, which is that with whole matrices, NaN and infinities included."""
    f = sa.lambdify(inputs, formula, plan="blocked")
    assert "plain_sum(" in f.source
    found = f(*arrays, **named)
    direct = sa.lambdify(inputs, formula, plan="direct")(*arrays, **named)
    np.testing.assert_allclose(found, direct, rtol=1e-11, atol=1e-13)
    np.testing.assert_array_equal(f(*arrays, workers=2, **named), found)
    return found


# Weights of every kind, at the borders of strips and blocks.

WEIGHTS: dict[str, tuple[Callable[[Any, str], Any], Weight]] = {
    "sigmoid": (lambda s, _: sa.sigmoid(s), lambda i, j, s: sigmoid(s)),
    "exp": (lambda s, _: sa.exp(s), lambda i, j, s: math.exp(s)),
    "relu": (lambda s, _: sa.relu(s) / m, lambda i, j, s: max(s, 0) / 13),
    "squared relu": (lambda s, _: sa.square(sa.relu(s)), lambda i, j, s: max(s, 0) ** 2),
    "relu times relu": (
        lambda s, _: sa.hadamard(sa.relu(s), sa.relu(s)),
        lambda i, j, s: max(s, 0) ** 2,
    ),
    "reciprocal": (
        lambda s, layout: sa.reciprocal(sa.square(s) + 3 * sa.ones(*pairs(layout))),
        lambda i, j, s: 1 / (3 + s * s),
    ),
    "silu and minus": (
        lambda s, _: -(2 * sa.silu(s) - sa.tanh(s)),
        lambda i, j, s: math.tanh(s) - 2 * s * sigmoid(s),
    ),
    "a bias by position": (
        lambda s, layout: sa.sigmoid(
            s + sa.positional(lambda i, j: 0.25 * (i - j), n, m, layout=layout)
        ),
        lambda i, j, s: sigmoid(s + 0.25 * (i - j)),
    ),
    "a decay by position": (
        lambda s, layout: sa.hadamard(
            s, sa.positional(lambda i, j: 1 / (1 + (i - j) ** 2), n, m, layout=layout)
        ),
        lambda i, j, s: s / (1 + (i - j) ** 2),
    ),
}


@pytest.mark.parametrize("name", WEIGHTS)
@each_layout
def test_weights_at_the_borders(name: str, layout: str) -> None:
    formula, weight = WEIGHTS[name]
    weights = formula(scores(layout), layout)
    for queries in BORDERS:
        q, k, v = random_rows(queries, 13, seed=queries)
        found = both(INPUTS[layout], summed(layout, weights), *(turn(layout, x) for x in (q, k, v)))
        np.testing.assert_allclose(turn(layout, found), by_hand(q, k, v, weight), rtol=1e-10)


@pytest.mark.parametrize("how", ["added", "multiplied"])
@pytest.mark.parametrize("name", [name for name in MASKS if name != "all"])
@each_layout
def test_masks_at_the_borders(name: str, layout: str, how: str) -> None:
    mask, seen = MASKS[name]
    s = scores(layout)
    weights = (
        sa.exp(s + added(mask, layout))
        if how == "added"
        else sa.hadamard(sa.sigmoid(s) / 2, indicated(mask, layout))
    )
    formula = summed(layout, weights)
    tags = sa.lambdify(INPUTS[layout], formula).__signature__.parameters
    named = {tag: size for tag, size in (("w", 2), ("p", 3)) if tag in tags}

    def weight(_i: int, _j: int, s: float) -> float:
        return math.exp(s) if how == "added" else sigmoid(s) / 2

    for queries, keys in ((1, 13), (4, 6), (5, 7), (9, 13), (13, 5)):
        q, k, v = random_rows(queries, keys, seed=queries)
        found = both(INPUTS[layout], formula, *(turn(layout, x) for x in (q, k, v)), **named)
        expected = by_hand(q, k, v, weight, lambda i, j, a=queries, b=keys: seen(i, j, a, b))
        np.testing.assert_allclose(turn(layout, found), expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("how", ["added", "multiplied"])
@each_layout
def test_masks_given_at_the_call(layout: str, how: str) -> None:
    mask = sa.keep() & sa.padding()
    s = scores(layout)
    weights = (
        sa.exp((s + added(mask, layout)) / 2)
        if how == "added"
        else sa.hadamard(indicated(mask, layout), sa.exp(s / 2))
    )
    random = np.random.default_rng(3)
    q, k, v = random_rows(9, 13, 2)
    keep, padding = random.random((2, 9, 13)) < 0.5, random.random((2, 13)) < 0.7
    keep[:, 3:5] = False
    found = turn(
        layout,
        both(
            INPUTS[layout],
            summed(layout, weights),
            *(turn(layout, x) for x in (q, k, v)),
            keep=keep,
            padding=padding,
        ),
    )
    for at in range(2):
        expected = by_hand(
            q[at],
            k[at],
            v[at],
            lambda i, j, s: math.exp(s / 2),
            lambda i, j, at=at: keep[at, i, j] and padding[at, j],
        )
        np.testing.assert_allclose(found[at], expected, rtol=1e-10)
    assert not found[:, 3:5].any()


# What is no finite number.


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["q", "k", "v"])
@pytest.mark.parametrize("how", ["added", "multiplied", "no mask"])
@each_layout
def test_no_finite_number_goes_where_it_goes_in_whole_matrices(
    layout: str, how: str, where: str, poison: float
) -> None:
    mask, s = sa.causal("top_left"), scores(layout)
    weights = {
        "added": lambda: sa.exp(s + added(mask, layout)),
        "multiplied": lambda: sa.hadamard(sa.sigmoid(s), indicated(mask, layout)),
        "no mask": lambda: sa.sigmoid(s),
    }[how]()
    arrays = dict(zip("qkv", random_rows(9, 13), strict=True))
    arrays[where][7, 1] = poison  # key 7 is hidden from queries 0 to 6
    given = [turn(layout, array) for array in arrays.values()]
    found = turn(layout, both(INPUTS[layout], summed(layout, weights), *given))
    assert not np.isfinite(found[7:]).all() or how != "added" or where == "k"
    if how == "added":
        assert np.isfinite(found[:7]).all()
    elif where == "v":
        assert not np.isfinite(found[:7, 1]).any()


def test_what_a_factor_of_0_and_1_hides_is_skipped() -> None:
    weights = sa.hadamard(sa.exp(scores("row")), indicated(sa.causal("top_left"), "row"))
    f = sa.lambdify(ROW, weights @ ROW[2], plan="blocked")
    q, k, v = random_rows(9, 13)
    k[9:] *= 1e200  # e to this overflows, for queries that do not see it
    with np.errstate(all="raise"):
        found = f(q, k, v)
    expected = by_hand(q, k[:9], v[:9], lambda i, j, s: math.exp(s), lambda i, j: j <= i)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


# Heads, several sums, what comes before and after.


def test_heads_that_share_keys_and_projections() -> None:
    i, j = sa.index("i", h), sa.index("j", g)
    X, Wq, Wk = (
        sa.matrix("X", n, d_v),
        sa.family("Wq", (h, g), d_v, d_k),
        sa.family("Wk", h, d_v, d_k),
    )
    one = sa.sigmoid(X @ Wq[i, j] @ (X @ Wk[i]).T / sa.sqrt(d_k)) @ X
    formula = sa.heads(sa.heads(one, j, axis=1), i, axis=1)
    random = np.random.default_rng(0)
    x, wq, wk = (random.normal(size=size) for size in ((9, 3), (2, 4, 3, 5), (2, 3, 5)))
    found = both([X, Wq, Wk], formula, x, wq, wk)
    right = [
        by_hand(x @ wq[a, b], x @ wk[a], x, lambda i, j, s: sigmoid(s))
        for a in range(2)
        for b in range(4)
    ]
    np.testing.assert_allclose(found, np.concatenate(right, axis=1), rtol=1e-11)


def test_a_row_sum_that_is_written_out_is_a_softmax() -> None:
    Q, K, V = ROW
    E = sa.exp(scores("row") + added(sa.causal("top_left"), "row"))
    total = sa.reciprocal(E @ sa.ones(m, 1)) @ sa.ones(1, d_v)
    arrays = random_rows(9, 13)
    found = both([Q, K, V], sa.hadamard(E @ V, total), *arrays)
    softmax = sa.softmax(scores("row"), axis=1, mask=sa.causal("top_left")) @ V
    np.testing.assert_allclose(found, sa.lambdify([Q, K, V], softmax)(*arrays), rtol=1e-11)
    f = sa.lambdify([Q, K, V], sa.hadamard(E @ V, total), plan="blocked")
    assert f.source.count("plain_sum(") == 2


def test_beside_a_softmax_and_its_sums() -> None:
    Q, K, V = ROW
    formula = sa.softmax(scores("row"), axis=1) @ V - sa.sigmoid(scores("row")) @ V @ V.T @ V
    arrays = random_rows(9, 13)
    found = both([Q, K, V], formula, *arrays)
    f = sa.lambdify([Q, K, V], formula, plan="blocked", returns=("lse", "output"))
    lse, output = f(*arrays)
    np.testing.assert_array_equal(output, found)
    direct = sa.lambdify([Q, K, V], formula, plan="direct", returns="lse")(*arrays)
    np.testing.assert_allclose(lse, direct[0], rtol=1e-12)


def test_named_lines() -> None:
    V, S = ROW[2], scores("row")
    A = sa.sigmoid(S)
    both(ROW, sa.Program(S=S, A=A, weights=A @ V, hides=(A @ V) @ V.T @ V), *random_rows(9, 13))


def test_scores_from_what_is_summed_in_blocks() -> None:
    X = sa.matrix("X", n, d_k)
    first = sa.sigmoid(X @ X.T) @ X
    formula = sa.relu(first @ X.T) @ first
    f = sa.lambdify([X], formula, plan="blocked")
    assert f.source.count("plain_sum(") == 2
    both([X], formula, random_rows(9, 13)[0])


# Dtypes, memory, results.


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("masked", [True, False])
def test_dtypes_are_rounded_once(dtype: str, masked: bool) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    Q, K, V = ROW
    weights = sa.sigmoid(scores("row"))
    if masked:
        weights = sa.hadamard(weights, indicated(sa.causal("top_left"), "row"))
    f = sa.lambdify([Q, K, V], weights @ V, plan="blocked")
    arrays = [x.astype(np.dtype(dtype)) for x in random_rows(9, 13)]
    out = np.empty((9, 3), arrays[0].dtype)
    found = f(*arrays, out=out)
    assert found is out
    q, k, v = (x.astype(float) for x in arrays)
    right = by_hand(q, k, v, lambda i, j, s: sigmoid(s), lambda i, j: j <= i or not masked)
    epsilon = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 1e-5}[dtype]
    np.testing.assert_allclose(found.astype(float), right, rtol=epsilon, atol=1e-6)


def test_no_matrix_of_all_weights_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_blocks(monkeypatch, 2**12, 64)
    Q, K, V = ROW
    weights = sa.hadamard(sa.sigmoid(scores("row")), indicated(sa.causal("top_left"), "row"))
    f = sa.lambdify([Q, K, V], weights @ V, plan="blocked", workers=1)
    arrays = [np.ones((1500, size)) for size in (5, 5, 3)]
    f(*arrays)
    tracemalloc.start()
    try:
        f(*arrays)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1500 * 1500 * 8 / 20


def test_the_plan_suits_the_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    Q, K, V = ROW
    f = sa.lambdify([Q, K, V], sa.exp(scores("row")) @ V)
    assert f.plan == "auto"
    small, large = random_rows(9, 13), random_rows(20, 4000)
    blocks, whole = (
        sa.lambdify([Q, K, V], sa.exp(scores("row")) @ V, plan=plan)
        for plan in ("blocked", "direct")
    )
    np.testing.assert_array_equal(f(*small), whole(*small))
    np.testing.assert_array_equal(f(*large), blocks(*large))
    assert not np.array_equal(blocks(*large), whole(*large))


@each_layout
def test_saved_modules_compute_the_same(layout: str, tmp_path: Path) -> None:
    s = scores(layout)
    weights = sa.hadamard(sa.exp(s), indicated(sa.causal("top_left"), layout))
    f = sa.lambdify(INPUTS[layout], summed(layout, weights))
    compute = run_path(str(f.save(tmp_path / "kin.py")))["compute"]
    for queries, keys in ((9, 13), (300, 310)):
        given = [turn(layout, array) for array in random_rows(queries, keys)]
        np.testing.assert_allclose(compute(*given), f(*given), rtol=1e-11)


def test_sums_of_a_softmax_where_there_is_none() -> None:
    with pytest.raises(sa.NotSupportedError, match="no softmax"):
        sa.lambdify(ROW, sa.exp(scores("row")) @ ROW[2], returns="lse")


# What stays direct.

DIRECT: list[tuple[Callable[..., Any], str]] = [
    (lambda Q, K, V: Q @ K.T @ V, "no softmax in it, nor values times a function of scores"),
    (lambda Q, K, V: (Q @ K.T / 2 + sa.ones(m, m)) @ V, "nor values"),
    (lambda Q, K, V: sa.relu(Q) @ (sa.relu(K).T @ V), "nor values"),
    (lambda Q, K, V: sa.relu(V @ V.T @ Q) @ (K.T @ V), "nor values"),
    (lambda Q, K, V: (A := sa.sigmoid(Q @ K.T)) @ A @ V, "are used twice in σ"),
    (lambda Q, K, V: (A := sa.sigmoid(Q @ K.T)) @ V + A @ A.T @ V, "are used in σ"),
    (lambda Q, K, V: sa.sigmoid(sa.softmax(Q @ K.T, axis=1)) @ V, "the weights"),
    (
        lambda Q, K, V: sa.hadamard(sa.exp(Q @ K.T), sa.indicator(sa.causal(), m, m, axis=0)) @ V,
        "values are not those of its keys",
    ),
]


@pytest.mark.parametrize(("formula", "reason"), DIRECT)
def test_what_has_no_blocks_says_why(formula: Callable[..., Any], reason: str) -> None:
    Q, K, V = sa.matrix("Q", m, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
    f = sa.lambdify([Q, K, V], formula(Q, K, V))
    assert f.plan == "direct"
    assert reason in f.plan_reason
    with pytest.raises(sa.NotSupportedError, match=reason):
        sa.lambdify([Q, K, V], formula(Q, K, V), plan="blocked")


def test_a_layer_of_a_network_is_no_sum_over_keys() -> None:
    X, W, U = sa.matrix("X", n, d_k), sa.matrix("W", d_k, g), sa.matrix("U", g, d_k)
    for formula in (sa.relu(X @ W) @ U, U.T @ sa.relu(W.T @ X.T)):
        assert sa.lambdify([X, W, U], formula).plan == "direct"


# Biases by distance.


@each_layout
def test_a_bias_of_distance_is_made_once_for_all_strips_and_heads(
    layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slopes = [0.5, -0.25]
    s = scores(layout)
    for slope in slopes:
        s = s + sa.positional(lambda i, j, a=slope: a * (i - j) ** 2, n, m, layout=layout)
    f = sa.lambdify(INPUTS[layout], summed(layout, sa.sigmoid(s)), plan="blocked")
    before, _ = f.source.split("def attend")
    assert before.count("diagonals(") == f.source.count("diagonals(") == 2
    made: list[int] = []
    arange = np.arange
    monkeypatch.setattr(strips.np, "arange", lambda *a, **k: made.append(1) or arange(*a, **k))
    given = [turn(layout, array) for array in random_rows(9, 13, 7)]
    f(*given, workers=1)
    once = len(made)
    found = f(*(array[:1] for array in given), workers=1)
    assert len(made) == 2 * once  # for one head as many as for seven
    q, k, v = random_rows(9, 13, 7)
    right = by_hand(q[0], k[0], v[0], lambda i, j, s: sigmoid(s + 0.25 * (i - j) ** 2))
    np.testing.assert_allclose(turn(layout, found)[0], right, rtol=1e-11)


def test_few_tiles_of_diagonals_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strips, "MOST_TILES", 3)
    tile = strips.diagonals(lambda r: r, float)
    for _ in range(2):
        for j0 in range(8):
            np.testing.assert_array_equal(
                tile(2, 4, j0, j0 + 2), [[j0 - 2, j0 - 1], [j0 - 3, j0 - 2]]
            )
