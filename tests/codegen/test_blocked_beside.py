"""Scores whose keys lie beside each other: sinks, caches, and what is added to all of them."""

import math
from collections.abc import Callable
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest

import symattn as sa
from tests import loops
from tests.codegen.blocks import ROW, in_small_blocks, random_rows
from tests.codegen.test_blocked import BORDERS, turn

Array = np.ndarray[Any, Any]

c, d_k, d_v, n, m, h = sa.dims("c d_k d_v n m h")
each_layout = pytest.mark.parametrize("layout", ["column", "row"])


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_blocks(monkeypatch)


class Layout:
    """Formulas in rows, or all of their transposes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_row = name == "row"

    def matrix(self, label: str, rows: Any, columns: Any) -> Any:
        return sa.matrix(label, *((rows, columns) if self.is_row else (columns, rows)))

    def ones(self, rows: Any, columns: Any) -> Any:
        return sa.ones(*((rows, columns) if self.is_row else (columns, rows)))

    def product(self, left: Any, right: Any) -> Any:
        return left @ right if self.is_row else right @ left

    def beside(self, *parts: Any) -> Any:
        return sa.concat(*parts, axis=1 if self.is_row else 0)

    def stacked(self, *parts: Any) -> Any:
        return sa.concat(*parts, axis=0 if self.is_row else 1)

    def softmax(self, scores: Any, **options: Any) -> Any:
        return sa.softmax(scores, axis=1 if self.is_row else 0, **options)

    def positional(self, bias: Any, queries: Any, keys: Any) -> Any:
        return sa.positional(bias, queries, keys, layout=self.name)

    def scores(self, Q: Any, K: Any) -> Any:
        return self.product(Q, K.T) / sa.sqrt(d_k)

    def run(self, inputs: Any, formula: Any, *arrays: Array, **named: Any) -> Array:
        """The result in blocks, which is that with whole matrices, as rows."""
        f = sa.lambdify(inputs, formula, plan="blocked")
        assert "side_by_side(" in f.source
        given = [array if array.ndim == 1 else turn(self.name, array) for array in arrays]
        found = f(*given, **named)
        direct = sa.lambdify(inputs, formula, plan="direct")(*given, **named)
        np.testing.assert_allclose(found, direct, rtol=1e-11, atol=1e-13)
        np.testing.assert_array_equal(f(*given, workers=2, **named), found)
        return turn(self.name, found)


def rows_of(*shapes: tuple[int, ...], seed: int = 0) -> list[Array]:
    random = np.random.default_rng(seed)
    return [random.normal(size=shape) for shape in shapes]


def by_hand(scores: Callable[[int, int], float], v: Array, queries: int, seen: Any = None) -> Array:
    """Softmax of the scores of every query over the keys that it sees, times the values."""
    out = np.zeros((queries, v.shape[1]))
    for i in range(queries):
        js = [j for j in range(len(v)) if seen is None or seen(i, j)]
        for weight, j in zip(loops.softmax_of([scores(i, j) for j in js]), js, strict=True):
            out[i] += weight * v[j]
    return out


def scaled_dot(q: Array, k: Array) -> float:
    return loops.dot(q, k) / math.sqrt(len(q))


# A sink: one more logit of every query, whose value is zero.

SINKS: dict[str, tuple[Callable[[Layout], tuple[list[Any], Any]], Callable[[int], float]]] = {
    "of each query": (
        lambda to: ([s := sa.vector("s", n)], s if to.is_row else s.T),
        lambda i: math.sin(i),
    ),
    "of all queries": (
        lambda to: ([s := sa.matrix("s", 1, 1)], to.product(to.ones(n, 1), s)),
        lambda i: 0.25,
    ),
    "zero": (lambda to: ([], 0 * to.ones(n, 1)), lambda i: 0.0),
}


@pytest.mark.parametrize("name", SINKS)
@pytest.mark.parametrize("keys", BORDERS)
@each_layout
def test_a_sink(layout: str, keys: int, name: str) -> None:
    to, (written, sink) = Layout(layout), SINKS[name]
    Q, K, V = to.matrix("Q", n, d_k), to.matrix("K", m, d_k), to.matrix("V", m, d_v)
    more, logit = written(to)
    for parts, at in (((to.scores(Q, K), logit), keys), ((logit, to.scores(Q, K)), 0)):
        zero = 0 * to.ones(1, d_v)
        values = to.stacked(V, zero) if at else to.stacked(zero, V)
        weights = to.softmax(to.beside(*parts))
        q, k, v = rows_of((9, 5), (keys, 5), (keys, 3), seed=keys)
        of_sink = {
            "of each query": [np.sin(np.arange(9.0))],
            "of all queries": [np.array([[0.25]])],
            "zero": [],
        }[name]
        found = to.run([Q, K, V, *more], to.product(weights, values), q, k, v, *of_sink)

        def score(i: int, j: int, at: int = at, q: Array = q, k: Array = k) -> float:
            return sink(i) if j == at else scaled_dot(q[i], k[j - (j > at)])

        expected = by_hand(score, np.insert(v, at, 0.0, axis=0), 9)
        np.testing.assert_allclose(found, expected, rtol=1e-11)


@each_layout
def test_a_sink_of_each_head(layout: str) -> None:
    to, i = Layout(layout), sa.index("i", h)
    X = to.matrix("X", n, d_k)
    B = sa.family("B", h, 1, 1)
    scores = to.beside(to.scores(X, X), to.product(to.ones(n, 1), B[i]))
    values = to.stacked(X, 0 * to.ones(1, d_k))
    one = to.product(to.softmax(scores), values)
    (x,) = rows_of((9, 5))
    logits = np.array([0.5, -1.0, 2.0]).reshape(3, 1, 1)
    f = sa.lambdify([X, B], sa.heads(one, i, axis=1 if to.is_row else 0), plan="blocked")
    right = [
        by_hand(
            lambda i, j, a=a: logits[a, 0, 0] if j == 9 else scaled_dot(x[i], x[j]),
            np.append(x, np.zeros((1, 5)), axis=0),
            9,
        )
        for a in range(3)
    ]
    found = turn(layout, f(turn(layout, x), logits))
    np.testing.assert_allclose(found, np.concatenate(right, axis=1), rtol=1e-11)


# A cache: keys and values of two kinds.

MASKS: dict[str, tuple[Any, Callable[[int, int, int], bool]]] = {
    "all": (None, lambda i, j, more: True),
    "causal": (sa.causal("bottom_right"), lambda i, j, more: j <= i + more),
    "window": (sa.window(4, "bottom_right"), lambda i, j, more: abs(i + more - j) < 4),
    "keep": (sa.keep(), lambda i, j, more: (i * 7 + j * 5) % 3 > 0),
}


def cached(layout: str) -> tuple[Layout, list[Any], Any, Any]:
    """Scores of old keys (c) and new ones (m), and the values of both."""
    to = Layout(layout)
    Q, K, V = to.matrix("Q", n, d_k), to.matrix("K", m, d_k), to.matrix("V", m, d_v)
    C, U = to.matrix("C", c, d_k), to.matrix("U", c, d_v)
    inputs = [Q, C, U, K, V]
    bias = to.positional(lambda i, j: 0.125 * (i - j), n, m)
    return to, inputs, to.beside(to.scores(Q, C), to.scores(Q, K) + bias), to.stacked(U, V)


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("old", BORDERS)
@each_layout
def test_a_cache(layout: str, old: int, name: str) -> None:
    to, inputs, both, values = cached(layout)
    mask, seen = MASKS[name]
    of_all = to.positional(lambda i, j: (i - j) ** 2 / 64, n, c + m)
    weights = to.softmax(sa.tanh(both) + of_all, mask=mask)
    for queries, new in ((9, 7), (3, 10)):
        q, k_old, v_old, k, v = rows_of((queries, 5), (old, 5), (old, 3), (new, 5), (new, 3))
        more = old + new - queries
        named = {}
        if name == "keep":
            named["keep"] = np.array(
                [[seen(i, j, more) for j in range(old + new)] for i in range(queries)]
            )

        def score(i: int, j: int, q: Array = q, ks: Any = (k_old, k)) -> float:
            if j < old:
                one = scaled_dot(q[i], ks[0][j])
            else:
                one = scaled_dot(q[i], ks[1][j - old]) + 0.125 * (i - j + old)
            return math.tanh(one) + (i - j) ** 2 / 64

        found = to.run(inputs, to.product(weights, values), q, k_old, v_old, k, v, **named)
        expected = by_hand(
            score, np.concatenate([v_old, v]), queries, lambda i, j, more=more: seen(i, j, more)
        )
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13)


@each_layout
def test_parts_within_parts_and_as_a_second_term(layout: str) -> None:
    """[[S, S'], s] less [t, S', S], of which the second is made beside the first."""
    to, inputs, both, values = cached(layout)
    Q, C, _, K, _ = inputs
    one = to.beside(both, 0.5 * to.ones(n, 1))
    other = to.beside(2 * to.ones(n, 1), to.scores(Q, K), to.scores(Q, C))
    weights = to.softmax(one - sa.hadamard(other, other))
    formula = to.product(weights, to.stacked(values, to.ones(1, d_v)))
    q, k_old, v_old, k, v = rows_of((9, 5), (4, 5), (4, 3), (7, 5), (7, 3))
    found = to.run(inputs, formula, q, k_old, v_old, k, v)

    def score(i: int, j: int) -> float:
        old, new = ([scaled_dot(q[i], key) for key in keys] for keys in (k_old, k))
        first = [*old, *(s + 0.125 * (i - a) for a, s in enumerate(new)), 0.5]
        return first[j] - [2, *new, *old][j] ** 2

    expected = by_hand(score, np.concatenate([v_old, v, np.ones((1, 3))]), 9)
    np.testing.assert_allclose(found, expected, rtol=1e-11)


@each_layout
def test_without_a_softmax(layout: str) -> None:
    to, inputs, both, values = cached(layout)
    arrays = rows_of((9, 5), (4, 5), (4, 3), (7, 5), (7, 3))
    q, k_old, v_old, k, v = arrays
    found = to.run(inputs, to.product(sa.sigmoid(both), values), *arrays)
    expected = np.zeros((9, 3))
    for i in range(9):
        old, new = ([scaled_dot(q[i], key) for key in keys] for keys in (k_old, k))
        scores = [*old, *(s + 0.125 * (i - a) for a, s in enumerate(new))]
        for s, value in zip(scores, [*v_old, *v], strict=True):
            expected[i] += value / (1 + math.exp(-s))
    np.testing.assert_allclose(found, expected, rtol=1e-11)


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", range(5))
def test_no_finite_number_goes_where_it_goes_in_whole_matrices(where: int, poison: float) -> None:
    to, inputs, both, values = cached("row")
    arrays = rows_of((9, 5), (4, 5), (4, 3), (7, 5), (7, 3))
    arrays[where][3, 1] = poison
    for mask in (None, sa.causal("top_left")):
        weights = to.softmax(sa.tanh(both), mask=mask)
        with np.errstate(invalid="ignore"):
            to.run(inputs, to.product(weights, values), *arrays)


@each_layout
def test_saved_and_with_sums(layout: str, tmp_path: Path) -> None:
    to, inputs, both, values = cached(layout)
    formula = to.product(to.softmax(both), values)
    arrays = [turn(layout, x) for x in rows_of((9, 5), (4, 5), (4, 3), (7, 5), (7, 3))]
    f = sa.lambdify(inputs, formula)
    assert f.plan == "auto"
    compute = run_path(str(f.save(tmp_path / "cache.py")))["compute"]
    np.testing.assert_allclose(compute(*arrays), f(*arrays), rtol=1e-12)
    sums = [
        sa.lambdify(inputs, formula, plan=plan, returns="lse")(*arrays)[0]
        for plan in ("blocked", "direct")
    ]
    np.testing.assert_allclose(*sums, rtol=1e-12)


def test_queries_of_two_kinds_are_not_computed_in_blocks() -> None:
    Q, K, V = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
    R = sa.matrix("R", c, d_k)
    scores = sa.concat(Q @ K.T, R @ K.T, axis=0)
    f = sa.lambdify([Q, R, K, V], sa.softmax(scores, axis=1) @ V)
    assert "of several kinds" in f.plan_reason


@pytest.mark.parametrize("width", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parts_that_are_a_few_columns_of_a_block(
    width: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part is written to memory with gaps, where NumPy 2.4 negates wrongly for some of them."""
    Q, K, V = ROW
    u, one = sa.vector("u", n), sa.matrix("one", 1, d_v)
    S = sa.concat(-u, Q @ K.T, axis=1)
    f = sa.lambdify(
        [*ROW, u, one], sa.softmax(S, axis=1) @ sa.concat(one, V, axis=0), plan="blocked"
    )
    in_small_blocks(monkeypatch, 4 * width, 4)
    q, k, v = (array.astype(dtype) for array in random_rows(4, 2 * width - 1))
    first, row = q[:, 0].copy(), v[:1]
    scores = np.hstack([-first[:, None], q @ k.T]).astype(float)
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(f(q, k, v, first, row), weights @ np.vstack([row, v]), rtol=1e-4)
