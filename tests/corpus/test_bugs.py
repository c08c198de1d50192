"""Faults that are found in public attention code, as formulas.

Each runs where sizes agree by coincidence, or always.  Where the sizes are what their tags say, a
fault of shape is refused; where two happen to be equal, numbers tell it from what was meant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symattn as sa
from tests.corpus.by_hand import attended_rows, scaled
from tests.corpus.checks import computes, different, equal, refusal

d, d_k, d_v, d_in, d_out, n, m, h = sa.dims("d d_k d_v d_in d_out n m h")
i = sa.index("i", h)


def operands(queries: Any, keys: Any, features: Any, values: Any) -> tuple[Any, Any, Any]:
    """Q, K and V in row layout."""
    return (
        sa.matrix("Q", queries, features),
        sa.matrix("K", keys, features),
        sa.matrix("V", keys, values),
    )


Q, K, V = operands(n, m, d_k, d_v)
S = Q @ K.T / sa.sqrt(d_k)
MEANT = sa.attention(Q, K, V)


def test_what_is_meant_is_the_loops() -> None:
    sizes = {"n": 5, "m": 7, "d_k": 4, "d_v": 3}
    computes([Q, K, V], MEANT, lambda q, k, v: attended_rows(q, k, v, scaled), sizes)


def test_softmax_axis_over_the_queries() -> None:
    different(sa.softmax(S, over=n) @ V, MEANT)
    # In an array (i, j, h) the axis of the queries comes first, whatever the heads.
    q, k = sa.family("q", h, n, d_k), sa.family("k", h, m, d_k)
    a = q[i] @ k[i].T
    different(sa.softmax(a, axis=0) @ V, sa.softmax(a, axis=1) @ V)


def test_scale_by_the_width_of_the_model() -> None:
    """With h = 1 it is right, so that a test with one head says nothing."""
    wide = sa.softmax(Q @ K.T / sa.sqrt(h * d_k), over=m) @ V
    different(wide, MEANT)
    equal(wide.subs({h: 1}), MEANT)


def test_scale_that_is_missing() -> None:
    plain = sa.softmax(Q @ K.T, over=m) @ V
    different(plain, MEANT)
    equal(plain, sa.formula("dot_product", layout="row").expr)
    equal(plain.subs({d_k: 1}), MEANT.subs({d_k: 1}))


def test_heads_by_a_reshape_alone() -> None:
    """(t, h·k) reshaped to (h, t, k), in place of (t, h, k) with two axes swapped."""
    X = sa.matrix("X", n, h * d_k)
    torn = sa.head(sa.reshape(X, h * n, d_k), i, axis=0)
    different(torn, sa.head(X, i, axis=1))
    found = sa.lambdify([X], sa.heads(torn, i, axis=0))(np.arange(30.0).reshape(5, 6), h=2)
    assert found.reshape(2, 5, 3).tolist() == np.arange(30.0).reshape(2, 5, 3).tolist()


def test_mask_the_wrong_way_round() -> None:
    """``where(mask, -inf, s)`` of a mask whose True means "may attend"."""
    inverted = sa.attention(Q, K, V, mask=~sa.keep())
    different(inverted, sa.attention(Q, K, V, mask=sa.keep()))
    zero, values = np.zeros((2, 1)), np.array([[1.0], [2.0]])
    keep = np.array([[True, False]])
    assert sa.lambdify([Q, K, V], inverted)(zero[:1], zero, values, keep=keep) == 2.0


def untransposed_weight(outer: Any, inner: Any) -> Any:
    """x W with W stored (d_out, d_in)."""
    return sa.matrix("X", n, inner) @ sa.matrix("W", outer, inner)


def values_for_keys(values: Any, features: Any) -> Any:
    """softmax(q vᵀ / √d) v: works while d_k = d_v."""
    q, _, v = operands(n, m, features, values)
    return sa.softmax(q @ v.T / sa.sqrt(features), axis=1) @ v


def transposed_weights(queries: Any, keys: Any) -> Any:
    """Aᵀ V, where A is (n, m)."""
    q, k, v = operands(queries, keys, d_k, d_v)
    return sa.softmax(q @ k.T / sa.sqrt(d_k), axis=1).T @ v


def untransposed_keys(keys: Any, features: Any) -> Any:
    """softmax(Q K) V: passes while m = d_k."""
    q, k, v = operands(n, keys, features, d_v)
    return sa.softmax(q @ k / sa.sqrt(features), axis=1) @ v


Fault = Callable[[Any, Any], Any]

COINCIDENCES: dict[str, tuple[Fault, tuple[Any, Any], str, Fault]] = {
    "weight stored (d_out, d_in)": (
        untransposed_weight,
        (d_out, d_in),
        "the columns of X are d_in, but the rows of W are d_out",
        lambda outer, inner: sa.matrix("X", n, inner) @ sa.matrix("W", outer, inner).T,
    ),
    "values for keys": (
        values_for_keys,
        (d_v, d_k),
        "the columns of Q are d_k, but the rows of V.T are d_v",
        lambda values, features: sa.attention(*operands(n, m, features, values), layout="row"),
    ),
    "weights transposed": (
        transposed_weights,
        (n, m),
        "are n, but the rows of V are m",
        lambda queries, keys: sa.attention(*operands(queries, keys, d_k, d_v), layout="row"),
    ),
    "keys not transposed": (
        untransposed_keys,
        (m, d_k),
        "the columns of Q are d_k, but the rows of K are m",
        lambda keys, features: sa.attention(*operands(n, keys, features, d_v), layout="row"),
    ),
}


@pytest.mark.parametrize("fault", COINCIDENCES)
def test_a_coincidence_is_refused_and_where_sizes_agree_refuted(fault: str) -> None:
    build, (one, other), clash, meant = COINCIDENCES[fault]
    refused = refusal(lambda: build(one, other))
    assert clash in refused.clash
    assert refused.fix
    for both in (one, other):
        different(build(both, both), meant(both, both))
    # A relation that is declared makes the sizes agree too, and the proof carries it along.
    with sa.assuming(f"{one} = {other}"):
        different(build(one, other), meant(one, other))


def test_one_letter_for_two_axes_reads_a_diagonal() -> None:
    """einsum("thd,btd->bht", q, kv): the t of the queries is the t of the keys."""
    t = sa.index("t", n)
    keys = sa.matrix("K", n, d_k)
    score = sa.heads(sa.head(Q, t, axis=0) @ sa.head(keys, t, axis=0).T, t, axis=0)
    equal(score, sa.hadamard(sa.identity(n), Q @ keys.T) @ sa.ones(n, 1))
    # With m keys there is none at t, and a score for each query is no matrix of scores.
    assert refusal(lambda: sa.head(K, t, axis=0), sa.HeadsError).size == "m"
    assert (
        "are 1, but those of the right side are n"
        in refusal(lambda: sa.prove(score, Q @ keys.T)).clash
    )
