"""Values times a sum of weights, in blocks: against float64 loops by hand, and the direct plan."""

import math
from collections.abc import Callable
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest

import symattn as sa
from tests import loops
from tests.codegen.blocks import COLUMN, ROW, in_small_blocks, turn
from tests.codegen.test_blocked import BORDERS, MASKS

Array = np.ndarray[Any, Any]
Seen = Callable[[int, int], bool]

d_k, d_v, n, m, h = sa.dims("d_k d_v n m h")
X = {"row": sa.matrix("X", n, d_k), "column": sa.matrix("X", d_k, n)}
Y = {"row": sa.matrix("Y", m, d_k), "column": sa.matrix("Y", d_k, m)}
D = {"row": sa.matrix("D", n, m), "column": sa.matrix("D", m, n)}
c = sa.scalar("c")
INPUTS = {
    layout: [*plain, X[layout], Y[layout], D[layout], c]
    for layout, plain in {"row": ROW, "column": COLUMN}.items()
}
each_layout = pytest.mark.parametrize("layout", ["column", "row"])


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_blocks(monkeypatch)


def two(layout: str, mask: Any = None) -> tuple[Any, Any]:
    """The weights of queries and keys, and of others that stand beside them."""
    Q, K, *_ = INPUTS[layout]
    pairs = ((Q, K), (X[layout], Y[layout]))
    scores = [k.T @ q if layout == "column" else q @ k.T for q, k in pairs]
    axis = 0 if layout == "column" else 1
    first, second = (sa.softmax(s / sa.sqrt(d_k), axis=axis, mask=mask) for s in scores)
    return first, second


def times(weights: Any, layout: str) -> Any:
    V = INPUTS[layout][2]
    return V @ weights if layout == "column" else weights @ V


def arrays(queries: int, keys: int, *batch: int, seed: int = 0) -> list[Array]:
    """Queries, keys and values, the other queries and keys, and D: all as rows."""
    random = np.random.default_rng(seed)
    shapes = [(queries, 5), (keys, 5), (keys, 3), (queries, 5), (keys, 5), (queries, keys)]
    return [random.normal(size=(*batch, *shape)) for shape in shapes]


def weights_by_hand(q: Array, k: Array, seen: Seen) -> Array:
    out = np.zeros((len(q), len(k)))
    for i in range(len(q)):
        js = [j for j in range(len(k)) if seen(i, j)]
        scores = [loops.dot(q[i], k[j]) / math.sqrt(q.shape[1]) for j in js]
        for weight, j in zip(loops.softmax_of(scores), js, strict=True):
            out[i, j] = weight
    return out


def every(_i: int, _j: int) -> bool:
    return True


C = 0.75
SUMS: dict[str, tuple[Callable[[Any, Any, Any], Any], Callable[..., float]]] = {
    "a difference": (lambda a, b, _: a - b, lambda a, b, _: a - b),
    "scaled": (lambda a, b, _: a - c * b / 2, lambda a, b, _: a - C * b / 2),
    "a scaled sum": (lambda a, b, _: -(c * (a + b)), lambda a, b, _: -C * (a + b)),
    "a quotient": (lambda a, b, _: (3 * a - b) / d_k, lambda a, b, _: (3 * a - b) / 5),
    "the first negated": (lambda a, b, _: -a + b, lambda a, b, _: b - a),
    "D in a term": (lambda a, b, d: a - sa.hadamard(d, b), lambda a, b, d: a - d * b),
    "D around": (lambda a, b, d: sa.hadamard(d, 2 * a - b), lambda a, b, d: d * (2 * a - b)),
    "D added": (lambda a, b, d: a + d - b, lambda a, b, d: a + d - b),
    "D alone added": (lambda a, _, d: 2 * d - a, lambda a, _, d: 2 * d - a),
    "parentheses": (lambda a, b, d: d - (a - (b - a / 2)), lambda a, b, d: d - a + b - a / 2),
    "turned twice": (lambda a, b, d: (a.T - (d + b).T).T, lambda a, b, d: a - d - b),
}


def checked(layout: str, weights: Any, *given: Array, **named: Any) -> Array:
    """The result in blocks, as rows: that of the direct plan, and of any number of workers."""
    formula = times(weights, layout)
    used = [item for item in INPUTS[layout] if item in formula.free_symbols]
    names = {str(item): turn(layout, array) for item, array in zip("QKVXYD", given, strict=True)}
    plain = {str(item): C if item == c else names[str(item)] for item in used}
    f = sa.lambdify(used, formula, plan="blocked")
    assert "weighted_sum(" in f.source
    found = f(**plain, **named)
    direct = sa.lambdify(used, formula, plan="direct")(**plain, **named)
    np.testing.assert_allclose(found, direct, rtol=1e-11, atol=1e-13)
    np.testing.assert_array_equal(f(**plain, workers=2, **named), found)
    out = np.empty_like(found)
    assert f(**plain, out=out, **named) is out
    np.testing.assert_array_equal(out, found)
    return turn(layout, found)


@pytest.mark.parametrize("name", SUMS)
@each_layout
def test_sums_at_the_borders(name: str, layout: str) -> None:
    formula, number = SUMS[name]
    for queries in BORDERS:
        given = arrays(queries, 13, seed=queries)
        q, k, v, x, y, d = given
        a, b = weights_by_hand(q, k, every), weights_by_hand(x, y, every)
        found = checked(layout, formula(*two(layout), D[layout]), *given)
        np.testing.assert_allclose(found, number(a, b, d) @ v, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", [name for name in MASKS if name != "all"])
@each_layout
def test_masks_of_a_sum(name: str, layout: str) -> None:
    mask, seen = MASKS[name]
    for queries in (3, 9):
        given = arrays(queries, 13, seed=queries)
        q, k, v, x, y, _ = given
        here = lambda i, j, n=queries: seen(i, j, n, 13)  # noqa: E731
        a, b = weights_by_hand(q, k, here), weights_by_hand(x, y, here)
        first, second = two(layout, mask)
        weights = first - second / 2
        tags = {str(tag) for tag in times(weights, layout).dims}
        sizes = {tag: size for tag, size in (("w", 2), ("p", 3)) if tag in tags}
        found = checked(layout, weights, *given, **sizes)
        np.testing.assert_allclose(found, (a - 0.5 * b) @ v, rtol=1e-10, atol=1e-13)


def test_nothing_as_large_as_all_weights_is_made() -> None:
    """A product beside the weights, F G, is multiplied with the values from the right."""
    first, second = two("row")
    formula = times(first - second + X["row"] @ Y["row"].T / d_k, "row")
    f = sa.lambdify([*ROW, X["row"], Y["row"]], formula, plan="blocked")
    before, after = f.source.split("    n = Q.shape")
    assert "(…, n, m)" in before  # with whole matrices
    assert "(…, n, m)" not in after
    q, k, v, x, y, _ = arrays(9, 13)
    expected = weights_by_hand(q, k, every) - weights_by_hand(x, y, every) + x @ y.T / 5
    np.testing.assert_allclose(f(q, k, v, x, y), expected @ v, rtol=1e-10)


def test_heads_with_projections_around() -> None:
    x, u = sa.matrix("x", n, d_k), sa.matrix("u", m, d_k)
    i = sa.index("i", h)
    families = [sa.family(name, h, d_k, d_k) for name in ("W", "U", "Z", "O")]
    W, U, Z, O = (family[i] for family in families)
    A = sa.softmax(x @ W @ u.T, axis=1, mask=sa.prefix(2))
    B = sa.softmax(x @ U @ u.T, axis=1)
    formula = sa.sum_over((A - B / 3) @ (u @ Z) @ O, i)
    inputs = [x, u, *families]
    f = sa.lambdify(inputs, formula, plan="blocked")
    assert f.source.count("weighted_sum(scores") == 2
    random = np.random.default_rng(5)
    shapes = [(9, 4), (13, 4), *[(2, 4, 4)] * 4]
    x_, u_, w, w2, z, o = given = [random.normal(size=shape) for shape in shapes]
    expected = np.zeros((9, 4))
    for head in range(2):
        scale = np.sqrt(4)  # the scores by hand are divided by it
        a = weights_by_hand(scale * x_ @ w[head], u_, lambda _, j: j < 2)
        b = weights_by_hand(scale * x_ @ w2[head], u_, every)
        expected += (a - b / 3) @ (u_ @ z[head]) @ o[head]
    np.testing.assert_allclose(f(*given), expected, rtol=1e-9)


@each_layout
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_finite_numbers(value: float, layout: str) -> None:
    """Where both terms see a key, ∞ times the difference of its weights; where none does, none."""
    mask, _ = MASKS["top_left"]
    for name in ("a difference", "D added", "D around"):
        given = arrays(9, 13, seed=3)
        given[2][7, 1] = value
        weights = SUMS[name][0](*two(layout, mask), D[layout])
        found = checked(layout, weights, *given)
        if name == "a difference":
            assert np.isfinite(found[:3]).all()
            assert not np.isfinite(found[8, 1])
            assert np.isnan(found[8, 1]) == np.isnan(value)


@each_layout
def test_scores_that_are_no_finite_numbers(layout: str) -> None:
    for value in (np.nan, np.inf):
        for at in (0, 4, 5):
            given = arrays(9, 13, seed=3)
            given[at][2, 0] = value
            checked(layout, SUMS["D added"][0](*two(layout), D[layout]), *given)


def test_saved_and_in_two_bytes(tmp_path: Path) -> None:
    first, second = two("row", sa.keep())
    f = sa.lambdify([*ROW, X["row"], Y["row"]], times(first - second / 2, "row"), plan="blocked")
    q, k, v, x, y, _ = arrays(9, 13, 2)
    v[0, 4, 1] = np.inf
    keep = np.random.default_rng(1).random((9, 13)) < 0.5
    for dtype in ("float16", "float32"):
        given = [array.astype(dtype) for array in (q, k, v, x, y)]
        module = run_path(str(f.save(tmp_path / f"{dtype}.py")))
        found = f(*given, keep=keep)
        np.testing.assert_array_equal(module["compute"](*given, keep=keep), found)
        for batch in range(2):
            wide = [array[batch].astype(float) for array in given]
            a, b = (weights_by_hand(wide[k], wide[k + 1], lambda i, j: keep[i, j]) for k in (0, 3))
            with np.errstate(invalid="ignore"):
                expected = np.where((a == 0)[..., None], 0, (a - b / 2)[..., None] * wide[2])
            np.testing.assert_allclose(found[batch], expected.sum(axis=1), rtol=2e-2, atol=2e-2)


def test_log_sums_of_one_softmax_in_a_sum() -> None:
    Q, K, V = ROW
    A = sa.softmax(Q @ K.T, axis=1)
    f = sa.lambdify(
        [Q, K, V, D["row"]], (A + D["row"]) @ V, plan="blocked", returns=("output", "lse")
    )
    q, k, v, _, _, d = arrays(9, 13)
    found, sums = f(q, k, v, d)
    np.testing.assert_allclose(sums, np.log(np.exp(q @ k.T).sum(axis=1)), rtol=1e-12)
    assert np.isfinite(found).all()
    v[3, 1] = np.inf
    again, the_same = f(q, k, v, d)
    np.testing.assert_allclose(the_same, sums, rtol=1e-12)
    assert not np.isfinite(again[:, 1]).any()


def test_a_sum_that_is_used_otherwise_says_where() -> None:
    V = ROW[2]
    first, second = two("row")
    weights = first - second
    f = sa.lambdify([*ROW, X["row"], Y["row"]], sa.relu(weights) @ V)
    assert f.plan == "direct"
    assert "are used in softmax(Q Kᵀ / √d_k) - softmax(X Yᵀ / √d_k), which" in f.plan_reason
    assert "multiplied with values" in f.plan_reason


@each_layout
def test_terms_with_masks_of_their_own(layout: str) -> None:
    """No softmax: a sum that is no function of scores, but whose terms are."""
    Q, K, *_ = INPUTS[layout]
    scores = (K.T @ Q if layout == "column" else Q @ K.T) / sa.sqrt(d_k)
    sizes, axis = ((m, n), 0) if layout == "column" else ((n, m), 1)
    causal, prefix = sa.causal("top_left"), sa.prefix(3)
    weights = (
        sa.hadamard(sa.relu(scores), sa.indicator(causal, *sizes, axis=axis))
        - sa.exp(scores + sa.additive_mask(prefix, *sizes, axis=axis))
        + sa.indicator(~prefix, *sizes, axis=axis) / 2
    )
    formula = times(weights, layout)
    f = sa.lambdify([Q, K, INPUTS[layout][2]], formula, plan="blocked")
    assert f.source.count("plain_sum(weights") == 2
    direct = sa.lambdify([Q, K, INPUTS[layout][2]], formula, plan="direct")
    for queries in BORDERS:
        q, k, v, *_ = arrays(queries, 13, seed=queries)
        s, i, j = q @ k.T / math.sqrt(5), np.arange(queries)[:, None], np.arange(13)
        expected = np.maximum(s, 0) * (j <= i) - np.exp(s) * (j < 3) + (j >= 3) / 2
        given = [turn(layout, array) for array in (q, k, v)]
        np.testing.assert_allclose(turn(layout, f(*given)), expected @ v, rtol=1e-10, atol=1e-12)
        given[2][1, 2] = np.inf
        np.testing.assert_allclose(f(*given), direct(*given), rtol=1e-10, atol=1e-12)
