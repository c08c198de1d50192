"""Mistakes that are known from other libraries, in every plan; right values are of 40 digits.

More of them stand in `tests.corpus.test_pitfalls`; these have several blocks, or need a product.
"""

import math
from typing import Any

import numpy as np
import pytest

import symattn as sa

pytestmark = pytest.mark.usefixtures("each_plan")

Array = np.ndarray[Any, Any]

n, m, d_k, d_v = sa.dims("n m d_k d_v")
Q, K, V = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
KEPT = sa.softmax(Q @ K.T, axis=1, mask=sa.keep())


def column(*values: float) -> Array:
    return np.array(values, float)[:, None]


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("repeat", [1, 6, 7, 13])
def test_a_whole_block_that_is_masked_out(first: bool, repeat: int) -> None:
    """Before, after and between the keys that are seen."""
    f = sa.lambdify([Q, K, V], sa.softmax(Q @ K.T / sa.sqrt(d_k), axis=1, mask=sa.keep()) @ V)
    hidden = np.tile([9.0, 9.0], (repeat, 1))
    k = np.concatenate([hidden, [[1.0, 0]], hidden, [[0, 1.0]], *[hidden] * first])
    v = np.where(k[:, :1] == 9, 100, 1 + k[:, 1:])
    found = f(np.array([[1.0, 2]]), k, v, keep=(k[:, 0] != 9)[None])
    np.testing.assert_allclose(found, [[1.6697615493266569]], rtol=1e-14, atol=1e-13)


def test_no_sentinel_wins_over_low_scores() -> None:
    f = sa.lambdify([Q, K, V], KEPT @ V)
    keep = np.array([[True, True, False]])
    found = f(column(1), column(-60000, -60001, 0), column(1, 2, 3), keep=keep)
    np.testing.assert_allclose(found, [[1.2689414213699952]], rtol=1e-14, atol=1e-13)


def test_a_dropout_leaves_the_sum_alone() -> None:
    D, p = sa.matrix("D", n, m), sa.scalar("p")
    f = sa.lambdify([Q, K, V, D, p], sa.hadamard(sa.softmax(Q @ K.T, axis=1), D) / (1 - p) @ V)
    drop = np.array([[1.0, 0, 1, 1]])
    found = f(column(1), column(1, 2, 3, 4), column(1, 2, 3, 4), drop, 0.25)
    np.testing.assert_allclose(found, [[4.424485462802273]], rtol=1e-14, atol=1e-13)


@pytest.mark.parametrize("shape", [(5, 7), (2, 5, 7), (3, 2, 5, 7)])
def test_a_bias_keeps_the_dtype(shape: tuple[int, ...]) -> None:
    B = sa.matrix("B", n, m)
    f = sa.lambdify([Q, K, V, B], sa.softmax(Q @ K.T / sa.sqrt(d_k) + B, axis=1) @ V)
    random = np.random.default_rng(0)
    q, k, v = (random.normal(size=s).astype("float32") for s in ((5, 64), (7, 64), (7, 3)))
    plain = sa.lambdify([Q, K, V], sa.softmax(Q @ K.T / sa.sqrt(d_k), axis=1) @ V)(q, k, v)
    found = f(q, k, v, np.zeros(shape, np.float32))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.broadcast_to(plain, found.shape))
    with pytest.raises(sa.InputError, match=r"B\.astype\(np\.float32\)"):
        f(q, k, v, np.zeros(shape))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_padding_may_hold_anything(bad: float) -> None:
    f = sa.lambdify([Q, K, V], KEPT @ V)
    k, v = np.ones((3, 2)), np.array([[1.0, 2], [3, 4], [bad, bad]])
    k[2] = bad
    found = f(np.ones((2, 2)), k, v, keep=np.array([[True, True, False]] * 2))
    assert found.tolist() == [[2.0, 3.0], [2.0, 3.0]]
