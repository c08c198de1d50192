"""Numeric pitfalls of attention; right values were computed by mpmath at 40 digits.

Those of masks, empty axes, strides and narrow floats stand with the tests of generated code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symattn as sa
from tests.corpus.checks import different, equal, refusal
from tests.loops import softmax_of

pytestmark = pytest.mark.usefixtures("each_plan")

d_k, d_v, n, m = sa.dims("d_k d_v n m")
Q, K, V = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
S = sa.matrix("S", n, m)


def exactly(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("keep", [[0, 0, 1, 1], [1, 1, 0, 0], [1, 0, 0, 1]], ids=str)
def test_keys_that_are_masked_block_by_block(keep: list[int]) -> None:
    attend = sa.lambdify([Q, K, V], sa.attention(Q, K, V, mask=sa.keep()))
    k, v = np.array([[9.0, 9], [9, 9], [1, 0], [0, 1]]), np.array([[100.0], [100], [1], [2]])
    found = attend(np.array([[1.0, 2]]), k, v, keep=np.array([keep], bool))
    scores = [27 / 2**0.5, 27 / 2**0.5, 1 / 2**0.5, 2 / 2**0.5]
    kept = [j for j in range(4) if keep[j]]
    weights = softmax_of([scores[j] for j in kept])
    exactly(found, [[sum(w * v[j, 0] for w, j in zip(weights, kept, strict=True))]])
    if keep == [0, 0, 1, 1]:
        exactly(found, [[1.6697615493266569]])


def test_a_mask_is_no_score_to_be_capped() -> None:
    c = sa.scalar("c", positive=True)
    M = sa.additive_mask(sa.keep(), n, m, axis=1)
    refused = refusal(lambda: c * sa.tanh((S + M) / c), sa.MinusInfinityError)
    assert refused.reason == "tanh takes finite numbers; add the mask last, to tanh(S)"
    capped = sa.lambdify([S, V], sa.softmax(c * sa.tanh(S / c) + M, axis=1) @ V)
    keep = np.array([[True, False]])
    exactly(capped(np.zeros((1, 2)), np.array([[1.0], [2.0]]), c=1.0, keep=keep), [[1.0]])


def test_a_head_takes_the_keys_of_its_own_group() -> None:
    """Four heads in two groups give 1, 1, 2, 2, and not 1, 2, 1, 2."""
    g, r = sa.dims("g r")
    a, b = sa.index("a", g), sa.index("b", r)
    q, k, v = sa.family("q", (g, r), n, d_k), sa.family("k", g, m, d_k), sa.family("v", g, m, d_v)
    each = sa.attention(q[a, b], k[a], v[a])
    found = sa.lambdify([q, k, v], sa.heads(sa.heads(each, b, axis=1), a, axis=1))(
        np.zeros((2, 2, 1, 1)), np.zeros((2, 1, 1)), np.array([[[1.0]], [[2.0]]])
    )
    assert found.tolist() == [[1.0, 1.0, 2.0, 2.0]]


def test_the_sign_of_a_linear_bias() -> None:
    def biased(slope: Any) -> Any:
        causal = sa.causal("top_left")
        return sa.attention(Q, K, V, bias=lambda i, j: -slope * (i - j), mask=causal)

    slope: Any = sa.scalar("slope")
    zeros, v = np.zeros((2, 1)), np.array([[1.0], [2.0]])
    found = sa.lambdify([Q, K, V], biased(slope))(zeros, zeros, v, slope=1.0)
    exactly(found, [[1.0], [1.7310585786300048]])
    different(biased(slope), biased(-slope))
    # The catalogue has the same sign.
    alibi = sa.formula("alibi", layout="row")
    catalogue = sa.lambdify(alibi.inputs, alibi.expr)(zeros, zeros, v, slope=1.0)
    exactly(catalogue[1], [1.7310585786300048])


def test_dropout_is_of_the_weights_that_are_normalised_already() -> None:
    p = sa.scalar("p")
    kept = sa.indicator(sa.keep(), n, m, axis=1)
    dropped = sa.hadamard(sa.softmax(S, over=m), kept) / (1 - p) @ V
    f = sa.lambdify([S, V], dropped)
    values = np.array([[1.0, 2, 3, 4]])
    found = f(values, values.T, keep=np.array([[True, False, True, True]]), p=0.25)
    exactly(found, [[4.424485462802273]])
    different(dropped, sa.softmax(S, over=m, mask=sa.keep()) @ V)
    different(dropped, sa.hadamard(sa.softmax(S, over=m), kept) @ V)
    equal(dropped, sa.hadamard(sa.softmax(S, over=m) / (1 - p), kept) @ V)
