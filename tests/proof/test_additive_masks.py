"""Proofs about additive masks: they select, positive scales pass them, and no more than that."""

import pytest
import sympy

import symattn as sa
from symattn.nodes import Mask
from symattn.nodes.core import Node
from symattn.proof.laws import LAWS

m, n, w, d_k, d_v = sa.dims("m n w d_k d_v")
S, B = sa.matrix("S", m, n), sa.matrix("B", m, n)
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
tau = sa.scalar("tau", positive=True)
LEFT, RIGHT = sa.causal("top_left"), sa.causal("bottom_right")
SQRT = sympy.sqrt(d_k)

MASKS = (
    *(LEFT, RIGHT, ~LEFT, sa.window(w, "top_left") & LEFT, sa.prefix(3) | RIGHT),
    *(sa.padding(), sa.keep(), ~sa.keep(), sa.keep() & sa.padding()),
)

each_mask = pytest.mark.parametrize("mask", MASKS, ids=str)


def added(mask: Mask) -> Node:
    return sa.additive_mask(mask, m, n, axis=0)


def laws_of(left: Node, right: Node) -> list[str]:
    """The laws of a proof, which has to be one."""
    proof = sa.prove(left, right)
    assert proof.verdict == "proved", proof.text()
    assert proof.check()
    return [step.law for step in proof.steps]


def refuted(left: Node, right: Node) -> bool:
    proof = sa.prove(left, right)
    return proof.verdict == "refuted" and proof.check()


@each_mask
def test_an_additive_mask_is_selection(mask: Mask) -> None:
    M = added(mask)
    law = ["additive mask is selection"]
    assert laws_of(sa.softmax(S + M, axis=0), sa.softmax(S, axis=0, mask=mask)) == law
    rows = sa.additive_mask(mask, n, m, axis=1)
    assert laws_of(sa.softmax(rows + S.T, axis=1), sa.softmax(S.T, axis=1, mask=mask)) == law
    both = sa.softmax(S, axis=0, mask=sa.prefix(2) & mask)
    assert laws_of(sa.softmax(S + M, axis=0, mask=sa.prefix(2)), both) == law
    assert refuted(sa.softmax(S + M, axis=0), sa.softmax(S, axis=0))
    assert refuted(sa.softmax(S + M, axis=0), sa.softmax(S, axis=0, mask=~mask))


@each_mask
def test_its_exp_is_the_matrix_of_the_mask(mask: Mask) -> None:
    M, indicator = added(mask), sa.indicator(mask, m, n, axis=0)
    law = ["exp of an additive mask is selection"]
    assert laws_of(sa.exp(S + M), sa.hadamard(indicator, sa.exp(S))) == law
    assert sa.prove(sa.exp(M), indicator)
    assert sa.prove(sa.exp(M / 2 + 3 * M), indicator)
    assert sa.prove(sa.hadamard(sa.exp(S + M), sa.exp(B)), sa.exp(S + B + M))
    assert refuted(sa.exp(S + M), sa.exp(S))
    # Nothing of what is masked out comes back.
    assert not sa.prove(sa.log(sa.exp(S + M)), S)
    assert not sa.prove(sa.hadamard(sa.exp(S + M), sa.exp(-S)), sa.ones(m, n))


@each_mask
def test_a_mask_may_stand_before_or_after_the_scale(mask: Mask) -> None:
    M = added(mask)
    before, after = (K.T @ Q + M) / SQRT, K.T @ Q / SQRT + M
    law = ["positive scale passes an additive mask"]
    assert laws_of(V @ sa.softmax(before, axis=0), V @ sa.softmax(after, axis=0)) == law
    assert sa.prove(sa.softmax(before.T, axis=1), sa.softmax(after.T, axis=1))
    assert sa.prove(sa.softmax(tau * (S + M), axis=0), sa.softmax(M + S * tau, axis=0))
    # The mask is not a number: the scores beside it feel the scale.
    assert refuted(sa.softmax(before, axis=0), sa.softmax(K.T @ Q + M, axis=0))


@pytest.mark.parametrize("layout", ["column", "row"])
def test_a_finite_bias_may_not(layout: str) -> None:
    """For a matrix of numbers the two places of the scale are two formulas, in either layout."""
    axis = ("column", "row").index(layout)
    scores, bias = (K.T @ Q, B) if layout == "column" else ((K.T @ Q).T, B.T)
    before = sa.softmax((scores + bias) / SQRT, axis=axis)
    assert refuted(before, sa.softmax(scores / SQRT + bias, axis=axis))
    shape = (m, n) if layout == "column" else (n, m)
    M = sa.additive_mask(RIGHT, *shape, axis=axis)
    before = sa.softmax((scores + M) / SQRT, axis=axis)
    assert sa.prove(before, sa.softmax(scores / SQRT + M, axis=axis))
    assert sa.prove(before, sa.softmax(scores / SQRT, axis=axis, mask=RIGHT))


def test_layouts_are_translated() -> None:
    column = V @ sa.softmax((K.T @ Q + added(RIGHT)) / SQRT, axis=0)
    there = sa.translate(column, to="row")
    assert str(there.expr) == (
        "softmax((Q @ K.T + additive_mask(causal(align='bottom_right'), n, m, axis=1)) / "
        "sqrt(d_k), axis=1) @ V"
    )
    assert "transpose of an additive mask" in [step.law for step in there.steps]
    assert there.proof
    assert there.proof.check()


def test_a_query_without_keys_has_no_weights() -> None:
    nothing = sa.additive_mask(sa.padding() & ~sa.padding(), m, n, axis=0)
    assert sa.prove(sa.softmax(S + nothing, axis=0), 0 * S)
    assert sa.prove(sa.softmax(S + added(RIGHT), axis=0), sa.softmax(S + added(RIGHT) * 2, axis=0))
    weights = sa.softmax(S + added(RIGHT), axis=0)
    some = sa.max(sa.indicator(RIGHT, m, n, axis=0), axis=0)
    assert sa.prove(sa.ones(1, m) @ weights, some)
    assert refuted(sa.ones(1, m) @ weights, sa.ones(1, n))


def test_of_a_mask_alone() -> None:
    M = added(LEFT)
    assert sa.prove(sa.softmax(M, axis=0), sa.softmax(0 * S, axis=0, mask=LEFT))
    assert refuted(sa.softmax(M, axis=0), sa.softmax(S + M, axis=0))
    shift = sa.ones(m, 1) @ sa.vector("y", n).T
    assert laws_of(sa.softmax(shift + M, axis=0), sa.softmax(M, axis=0)) == [
        "shift invariance of softmax"
    ]


def test_softmax_written_out_divides_where_it_may_not() -> None:
    """With a user's own 1/x a query without keys has no value, and a softmax gives it zeros."""
    weights = sa.exp(S + added(RIGHT))
    written = sa.hadamard(weights, sa.reciprocal(sa.ones(m, m) @ weights))
    proof = sa.prove(written, sa.softmax(S + added(RIGHT), axis=0))
    assert not proof or proof.conditions
    assert LAWS["softmax written out"].rewrite(written) is None


def test_one_token() -> None:
    s, one = sa.matrix("s", 1, n), sa.additive_mask(sa.padding(), 1, n, axis=0)
    assert sa.prove(sa.softmax(s + one, axis=0), sa.indicator(sa.padding(), 1, n, axis=0))


def test_relations_that_a_mask_needs_are_carried() -> None:
    with sa.assuming("m = n"):
        M = sa.additive_mask(sa.causal(), m, n, axis=0)
        masked = sa.softmax(S, axis=0, mask=sa.causal())
    assert laws_of(sa.softmax(S + M, axis=0), masked) == ["additive mask is selection"]
    assert LAWS["additive mask is selection"].rewrite(sa.softmax(S + M, axis=0)) == masked
    indicator = LAWS["exp of an additive mask is selection"].rewrite(sa.exp(S + M))
    assert indicator is not None
    assert indicator.given == M.given
    scaled = LAWS["positive scale passes an additive mask"].rewrite((S + M) / 2)
    assert scaled is not None
    assert scaled.given == M.given
