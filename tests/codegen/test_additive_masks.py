"""Additive masks in numbers: against float64 loops, whatever is masked out, and where nothing is
allowed.
"""

import math
import warnings
from typing import Any

import numpy as np
import pytest
import sympy

import symattn as sa
from symattn.nodes import Mask
from symattn.nodes.core import Node

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.usefixtures("each_plan")

d_k, d_v, n, m = sa.dims("d_k d_v n m")
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
S = sa.matrix("S", m, n)
RIGHT = sa.causal("bottom_right")
N, M = 7, 4  # more queries than keys: the first three may attend to nothing
RANDOM = np.random.default_rng(5)
QUERIES, KEYS, VALUES = (RANDOM.normal(size=size) for size in ((3, N), (3, M), (2, M)))
PADDING = np.array([True, False, True, True])
KEEP = RANDOM.random((N, M)) < 0.5
KEEP[2] = False

ALLOWED: dict[Mask, Any] = {
    RIGHT: lambda i, j: j <= i + M - N,
    RIGHT & sa.padding(): lambda i, j: j <= i + M - N and PADDING[j],
    sa.keep() | sa.prefix(1) & sa.padding(): lambda i, j: KEEP[i, j] or (j < 1 and PADDING[j]),
    ~sa.keep(): lambda i, j: not KEEP[i, j],
}

each_mask = pytest.mark.parametrize("mask", ALLOWED, ids=str)
each_backend = pytest.mark.parametrize("backend", ["numpy", "cupy"])


@pytest.fixture(autouse=True)
def _no_warnings() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def given(expr: Node) -> dict[str, Array]:
    arrays = {"padding": PADDING, "keep": KEEP}
    return {array.label: arrays[array.label] for array in expr.booleans()}


def run(inputs: Any, expr: Any, backend: str, *arrays: Array, **booleans: Array) -> Array:
    """The generated function; the source for CuPy with NumPy in its place."""
    f = sa.lambdify(inputs, expr, backend=backend)
    if backend == "numpy":
        return f(*arrays, **booleans)
    namespace: dict[str, Any] = {}
    exec(f.source.replace("import cupy as", "import numpy as"), namespace)
    with np.errstate(invalid="ignore"):
        return namespace["compute"](*arrays, **booleans)


def weights_by_hand(scores: Array, allowed: Any) -> Array:
    """Exponentials (m, n) of the scores that a mask allows, 0 elsewhere."""
    exponentials = np.zeros(scores.shape)
    for j, i in np.ndindex(*scores.shape):
        if allowed(i, j):
            exponentials[j, i] = math.exp(scores[j, i])
    return exponentials


def attention_by_hand(allowed: Any) -> Array:
    scores = np.array([[q @ k / math.sqrt(len(q)) for q in QUERIES.T] for k in KEYS.T])
    exponentials = weights_by_hand(scores, allowed)
    out = np.zeros((len(VALUES), N))
    for i in range(N):
        total = exponentials[:, i].sum()
        for j in range(M):
            out[:, i] += VALUES[:, j] * exponentials[j, i] / total if total else 0
    return out


@each_mask
@each_backend
def test_attention_with_an_additive_mask(mask: Mask, backend: str) -> None:
    expected = attention_by_hand(ALLOWED[mask])
    added = sa.additive_mask(mask, m, n, axis=0)
    for scores in (
        (K.T @ Q + added) / sa.sqrt(d_k),
        K.T @ Q / sa.sqrt(d_k) + added,
        (Q.T @ K / sa.sqrt(d_k) + 2 * added.T).T,
    ):
        expr = V @ sa.softmax(scores, axis=0)
        found = run([Q, K, V], expr, backend, QUERIES, KEYS, VALUES, **given(expr))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
        lines = sa.Program(S=scores, P=sa.softmax(scores, axis=0), O=expr)
        np.testing.assert_array_equal(
            run([Q, K, V], lines, backend, QUERIES, KEYS, VALUES, **given(expr)), found
        )
        if not given(expr):
            plain = sympy.lambdify([Q, K, V, n, m], expr, "numpy")(QUERIES, KEYS, VALUES, N, M)
            np.testing.assert_allclose(plain, expected, rtol=1e-12, atol=1e-14)


@each_mask
@each_backend
def test_an_exp_with_an_additive_mask(mask: Mask, backend: str) -> None:
    added = sa.additive_mask(mask, m, n, axis=0)
    scores = RANDOM.normal(size=(M, N))
    expected = weights_by_hand(scores / 2, ALLOWED[mask])
    for expr in (
        sa.exp((S + added) / 2),
        sa.exp(added + S / 2),
        sa.exp(-S + added + S + S / 2 + added),
        sa.exp((S.T + added.T).T / 2),
    ):
        found = run([S], expr, backend, scores, **given(expr))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
        product = V @ expr
        found = run([S, V], product, backend, scores, VALUES, **given(expr))
        np.testing.assert_allclose(found, VALUES @ expected, rtol=1e-12, atol=1e-14)
    ones = run([S], sa.exp(added) + 0 * S, backend, scores, **given(added))
    np.testing.assert_array_equal(ones, weights_by_hand(0 * scores, ALLOWED[mask]))


@each_mask
@each_backend
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf, 1e300])
def test_what_is_masked_out_may_be_anything(mask: Mask, backend: str, poison: float) -> None:
    allowed = np.array([[bool(ALLOWED[mask](i, j)) for i in range(N)] for j in range(M)])
    scores = RANDOM.normal(size=(M, N))
    poisoned = np.where(allowed, scores, poison)
    added = sa.additive_mask(mask, m, n, axis=0)
    for expr in (sa.softmax((S + added) * 3, axis=0), sa.exp((S + added) / 3)):
        clean = run([S], expr, backend, scores, **given(expr))
        np.testing.assert_array_equal(run([S], expr, backend, poisoned, **given(expr)), clean)
        assert not clean[~allowed].any()
        if not given(expr):
            plain = sympy.lambdify([S, n, m], expr, "numpy")
            with np.errstate(invalid="ignore", over="ignore"):
                np.testing.assert_allclose(plain(poisoned, N, M), clean, rtol=1e-14, atol=1e-13)


def test_batches_repeated_vectors_and_shared_scores() -> None:
    b = sa.vector("b", m)
    added = sa.additive_mask(sa.keep(), m, n, axis=0)
    repeated = b @ sa.ones(1, n)
    keep = np.stack([KEEP, ~KEEP, KEEP & ~KEEP])
    column = RANDOM.normal(size=M)
    found = sa.lambdify([b], sa.exp(repeated + added))(column, keep=keep)
    expected = np.where(keep.swapaxes(-1, -2), np.exp(column)[:, None], 0)
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-13)
    right = sa.additive_mask(RIGHT, m, n, axis=0)
    found = sa.lambdify([b], sa.exp(repeated + right))(column, n=N)
    expected = weights_by_hand(np.repeat(column[:, None], N, axis=1), ALLOWED[RIGHT])
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-13)
    scores = S + added
    shared = sa.Program(E=sa.exp(scores), O=V @ sa.exp(scores) + V @ sa.softmax(scores, axis=0))
    found = sa.lambdify([S, V], shared)(np.zeros((M, N)), np.ones((2, M)), keep=keep)
    counts = keep.sum(axis=-1)
    # Σ_j e^0 over the allowed keys, and weights that sum to 1 where there are any.
    np.testing.assert_allclose(found[..., 1, :], counts + (counts > 0), rtol=1e-14, atol=1e-13)


def test_the_matrix_of_the_mask_is_never_made() -> None:
    added = sa.additive_mask(RIGHT, m, n, axis=0)
    for expr in (sa.softmax(S + added, axis=0), sa.exp(S + added), sa.exp(S + S + added)):
        assert "zeros" not in sa.lambdify([S], expr).source


def test_without_any_input() -> None:
    added = sa.additive_mask(sa.causal(), 3, 3, axis=1)
    np.testing.assert_array_equal(sa.lambdify([], sa.exp(added))(), np.tri(3))
    twos = 2 * sa.ones(3, 3)
    found = sa.lambdify([], sa.exp(-twos + added) + twos)()
    np.testing.assert_allclose(found, np.tri(3) * math.exp(-2) + 2)


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_a_value_without_weight_has_no_influence(poison: float) -> None:
    weights = sa.exp(S + sa.additive_mask(RIGHT, m, n, axis=0))
    values = VALUES.copy()
    values[0, M - 1] = poison  # of the last key, which the last query alone may attend to
    found = sa.lambdify([S, V], V @ weights)(np.zeros((M, N)), values)
    np.testing.assert_array_equal(found[0, -1], poison)
    clean = sa.lambdify([S, V], V @ weights)(np.zeros((M, N)), VALUES)
    np.testing.assert_array_equal(found[:, :-1], clean[:, :-1])


def test_inside_the_score_of_a_pair() -> None:
    """Features mixed by causal weights: the last takes from itself, the others from none."""
    W = sa.matrix("W", d_k, d_k)
    mixed = sa.softmax(W + sa.additive_mask(~sa.prefix(2) & sa.causal(), d_k, d_k, axis=1), axis=1)
    scores = sa.pairwise(lambda q, k: k.T @ mixed @ q, Q, K, layout="column")
    weights = RANDOM.normal(size=(3, 3))
    found = sa.lambdify([Q, K, W], scores)(QUERIES, KEYS, weights)
    np.testing.assert_allclose(found, np.outer(KEYS[2], QUERIES[2]), rtol=1e-13, atol=1e-13)


def test_an_additive_bias_of_numbers_is_a_matrix() -> None:
    B = sa.matrix("B", m, n)
    f = sa.lambdify([Q, K, V, B], sa.attention(Q, K, V, bias=B))
    finite = np.where(KEEP.T, 0.0, -1e4)
    found = f(QUERIES, KEYS, VALUES, finite)
    some = KEEP.any(axis=1)
    expected = attention_by_hand(lambda i, j: KEEP[i, j])
    np.testing.assert_allclose(found[:, some], expected[:, some], rtol=1e-12, atol=1e-13)
    # Numbers are no mask: a query without any key gets the average rather than zero.
    assert found[:, ~some].all()
