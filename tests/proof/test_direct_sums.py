"""Proofs about blocks in several orders: each axis is read as the blocks on it are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import symattn as sa
from symattn.nodes.core import Node
from symattn.proof.counterexample import Difference, find_difference
from symattn.proof.results import compared
from symattn.tags import Relations

d_k, d_v, n, m_1, m_2, m_3 = sa.dims("d_k d_v n m_1 m_2 m_3")
SIZES = (m_1, m_2, m_3)
Q = sa.matrix("Q", d_k, n)
K = [sa.matrix(f"K_{k}", d_k, size) for k, size in enumerate(SIZES, 1)]
V = [sa.matrix(f"V_{k}", d_v, size) for k, size in enumerate(SIZES, 1)]
IN_ORDER = (0, 1, 2)


def stacked(parts: Sequence[Node], order: tuple[int, ...], *, nested: bool = False) -> Node:
    first, *others = (parts[k] for k in order)
    if nested and len(others) > 1:
        return sa.concat(first, sa.concat(*others, axis=1), axis=1)
    return sa.concat(first, *others, axis=1)


def over(keys: Node, values: Node, mask: object = None) -> Node:
    return values @ sa.softmax(keys.T @ Q, axis=0, mask=mask)


orders = st.permutations(IN_ORDER).map(tuple)


@given(orders, orders, st.booleans())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_only_keys_and_values_together_may_be_permuted(
    keys: tuple[int, ...], values: tuple[int, ...], nested: bool
) -> None:
    plain = over(stacked(K, IN_ORDER), stacked(V, IN_ORDER))
    other = over(stacked(K, keys, nested=nested), stacked(V, values))
    if keys == values:
        proof = sa.prove(other, plain)
        assert proof.verdict == "proved", proof.text()
        assert proof.check()
    else:
        assert not compared((other, plain), Relations()).equal
        assert isinstance(find_difference(other, plain), Difference)


def test_a_mask_by_position_follows_its_blocks() -> None:
    first = over(stacked(K, (0, 1)), stacked(V, (0, 1)), sa.prefix(m_1))
    last = over(stacked(K, (1, 0)), stacked(V, (1, 0)), ~sa.prefix(m_2))
    assert sa.prove(first, last)
    assert sa.prove(last, over(K[0], V[0]))
    wrong = over(stacked(K, (1, 0)), stacked(V, (1, 0)), sa.prefix(m_1))
    assert sa.prove(first, wrong).verdict == "refuted"


def test_a_matrix_of_all_keys_is_not_permuted() -> None:
    """Its own entries say nothing of blocks: where both orders meet it, they differ."""
    w = sa.matrix("w", m_1 + m_2, 1)
    first, second = (stacked(K, order) @ w for order in ((0, 1), (1, 0)))
    assert sa.prove(first, second).verdict == "refuted"
    assert sa.prove(first - first, second - second)


@pytest.mark.parametrize("compare", [sa.hadamard, lambda a, b: a + b])
def test_one_axis_in_two_orders_is_undecided(compare: object) -> None:
    assert callable(compare)
    both = [stacked(K, order) for order in ((0, 1), (1, 0))]
    proof = sa.prove(compare(*both), compare(*reversed(both)))
    assert proof.verdict == "undecided"
    assert "is read both as" in proof.reason


def test_an_identity_on_a_permuted_axis() -> None:
    """``[i = j]`` joins the axes that it compares."""
    swapped, plain = stacked(K, (1, 0)), stacked(K, (0, 1))
    unit = sa.identity(m_1 + m_2)
    assert sa.prove(swapped @ unit @ swapped.T, plain @ unit @ plain.T)
    mixed = sa.prove(swapped @ unit @ plain.T, plain @ plain.T)
    assert mixed.verdict == "refuted"
