"""Identities that people use around attention, each once a hard case for the normal form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import symattn as sa

d, d_v, h, l, m, n = sa.dims("d d_v h l m n")
S, T, P = sa.matrix("S", m, n), sa.matrix("T", m, n), sa.matrix("R", n, l)
B = sa.matrix("B", m, m)
V, b, w = sa.matrix("V", d_v, m), sa.vector("b", d_v), sa.vector("w", n)
tau = sa.scalar("tau", positive=True)
weights = sa.softmax(S, axis=0)


def ones(rows: Any, columns: Any) -> Any:
    return sa.ones(rows, columns)


def gradient(weights: Any) -> Any:
    """The gradient of a softmax, P ∘ (T − 1 1ᵀ(P ∘ T))."""
    return sa.hadamard(weights, T - ones(m, m) @ sa.hadamard(weights, T))


def lse(scores: Any) -> Any:
    return sa.log(ones(1, scores.shape[0]) @ sa.exp(scores))


PROVED: dict[str, Callable[[], tuple[Any, Any]]] = {
    "weights sum to one inside a product": lambda: (ones(1, m) @ weights @ w, ones(1, n) @ w),
    "weights sum to the number of queries": lambda: (
        ones(1, m) @ weights @ ones(n, 1),
        n * ones(1, 1),
    ),
    "weights of weights": lambda: (ones(1, m) @ weights @ sa.softmax(P, axis=0), ones(1, l)),
    "a bias of the values passes through a pooled output": lambda: (
        (V + b @ ones(1, m)) @ weights @ ones(n, 1) / n,
        V @ weights @ ones(n, 1) / n + b,
    ),
    "the gradient of a softmax sums to zero": lambda: (
        ones(1, m) @ gradient(weights) @ w,
        0 * ones(1, 1),
    ),
    "both orders of summation": lambda: (
        ones(1, m) @ sa.softmax(B, axis=1) @ ones(m, 1),
        (ones(1, m) @ sa.softmax(B, axis=1) @ ones(m, 1)).T,
    ),
    "softmax by log-sum-exp": lambda: (sa.exp(S - ones(m, 1) @ lse(S)), weights),
    "exp of the log of weights": lambda: (sa.exp(sa.log(weights)), weights),
    "a temperature as a shift": lambda: (
        sa.exp(S + sa.log(tau) * ones(m, n)),
        tau * sa.exp(S),
    ),
    "softmax of log weights": lambda: (sa.softmax(sa.log(weights), axis=0), weights),
    "an exact division as a number": lambda: (
        h * (ones(1, "d//h") @ ones("d//h", 1)),
        d * ones(1, 1),
    ),
}


@pytest.mark.parametrize("name", PROVED)
def test_proved_and_replayed_whichever_way_it_is_read(name: str) -> None:
    left, right = PROVED[name]()
    for sides in ((left, right), (right, left), (left.T, right.T)):
        result = sa.prove(*sides)
        assert result.verdict == "proved", result.text()
        assert result.check()


def test_blocks_of_keys_merge_by_their_log_sum_exp() -> None:
    scores = [sa.matrix(f"S_{k}", f"m_{k}", n) for k in range(3)]
    values = [sa.matrix(f"V_{k}", d_v, f"m_{k}") for k in range(3)]
    total = sum(sa.exp(lse(s)) for s in scores)
    one_by_one = sum(
        sa.hadamard(v @ sa.softmax(s, axis=0), ones(d_v, 1) @ sa.exp(lse(s) - sa.log(total)))
        for s, v in zip(scores, values, strict=True)
    )
    exact = sa.hadamard(
        sum(v @ sa.exp(s) for s, v in zip(scores, values, strict=True)),
        sa.reciprocal(ones(d_v, 1) @ sum(ones(1, s.shape[0]) @ sa.exp(s) for s in scores)),
    )
    assert sa.prove(one_by_one, exact).verdict == "proved"


@pytest.mark.parametrize(
    ("left", "right", "condition"),
    [
        (
            lambda: ones(1, "n-1") @ sa.softmax(sa.matrix("x", "n-1", 1), axis=0),
            lambda: ones(1, 1),
            "n-1 ≥ 1",
        ),
        (
            lambda: sa.softmax(sa.reciprocal(sa.matrix("r", 1, n)), axis=0),
            lambda: ones(1, n),
            "r[i] ≠ 0",
        ),
        (
            lambda: sa.exp(sa.log(S)),
            lambda: S,
            "log is defined where its argument is > 0: S[i,j]",
        ),
    ],
)
def test_what_a_proof_takes_for_granted_is_listed(
    left: Callable[[], Any], right: Callable[[], Any], condition: str
) -> None:
    result = sa.prove(left(), right())
    assert result.verdict == "proved", result.text()
    assert result.conditions == (condition,)


def test_translations_of_pooled_attention_are_proved() -> None:
    pooled = ones(1, m) @ weights @ ones(n, 1)
    assert sa.translate(pooled, to="row").proof.verdict == "proved"
    assert sa.translate(b @ ones(1, m) @ weights @ w, to="row").proof.verdict == "proved"


@pytest.mark.parametrize("exponent", [61, 1000])
def test_large_powers_are_undecided_at_once(exponent: int) -> None:
    c = sa.scalar("c")
    power = (c + tau) ** exponent * S
    assert sa.prove(power, power + 0 * S).verdict in ("undecided", "proved")
