"""Counterexamples: every mistake that people make is found, and rounding is never one."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, cast

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import HealthCheck, given, settings

import symattn.nodes as sa
from symattn.errors import SizeError
from symattn.evaluate import evaluate
from symattn.nodes.core import Node
from symattn.proof.counterexample import (
    Difference,
    NoDifference,
    UndefinedEverywhere,
    find_difference,
)
from symattn.tags import Relations
from tests.strategies import equal_pairs

# SymPy's types know only its own products, hence Any.
d_k, d_v, m, n = cast(tuple[Any, ...], sa.dims("d_k d_v m n"))
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
S, B, W = sa.matrix("S", m, n), sa.matrix("B", m, n), sa.matrix("W", d_k, d_k)
r = sa.matrix("r", 1, n)
c: Any = sa.scalar("c")
tau: Any = sa.scalar("tau", positive=True)
scores = K.T @ Q / sa.sqrt(d_k)
attention = V @ sa.softmax(scores, axis=0)
lines, columns = sa.ones(m, 1), sa.ones(1, n)

UNEQUAL: dict[str, tuple[Any, Any]] = {
    "the other axis": (V @ sa.softmax(S, axis=0), V @ sa.softmax(S, axis=1)),
    "no scale": (attention, V @ sa.softmax(K.T @ Q, axis=0)),
    "scale by another tag": (attention, V @ sa.softmax(K.T @ Q / sa.sqrt(n), axis=0)),
    "a transposed weight": (K.T @ W @ Q, K.T @ W.T @ Q),
    "the row twin of another weight": ((K.T @ W @ Q).T, Q.T @ W @ K),
    "softmax of a sum": (sa.softmax(S + B, axis=0), sa.softmax(S, axis=0) + sa.softmax(B, axis=0)),
    "a shift along the other axis": (
        sa.softmax(S, axis=0),
        sa.softmax(S + sa.vector("y", m) @ columns, axis=0),
    ),
    "a function for another": (sa.tanh(S), sa.function("phi")(S)),
    "an unknown function is not odd": (sa.function("f")(-S), -sa.function("f")(S)),
    "an unknown function is not linear": (sa.function("f")(2 * S), 2 * sa.function("f")(S)),
    "a sign": (S - B, S + B),
    "a size": (n * S, m * S),
    "only at more than one row": (sa.softmax(S, axis=0), sa.ones(m, n)),
    "a scalar": (c * S, tau * S),
    "a sign that squares lose": (sa.sqrt(sa.square(S)), S),
    "a small difference": (S, S * (1 + sympy.Rational(1, 10**20))),
    "small values": (S / 10**30, 2 * S / 10**30),
}

EQUAL: dict[str, tuple[Any, Any]] = {
    "two layouts": (attention, (sa.softmax(Q.T @ K / sa.sqrt(d_k), axis=1) @ V.T).T),
    "a shift by a query row": (sa.softmax(S + lines @ r, axis=0), sa.softmax(S, axis=0)),
    "columns sum to one": (sa.ones(1, m) @ sa.softmax(S, axis=0), columns),
    "exp over its sum": (
        sa.softmax(S, axis=0),
        sa.hadamard(sa.exp(S), lines @ sa.reciprocal(sa.ones(1, m) @ sa.exp(S))),
    ),
    "the maximum subtracted": (
        sa.softmax(S, axis=0),
        sa.softmax(S - lines @ sa.max(S, axis=0), axis=0),
    ),
    "odd": (sa.tanh(-S), -sa.tanh(S)),
    "roots of positive numbers": (sa.sqrt(sa.square(sa.exp(S))), sa.exp(S)),
    "the log where it has a value": (sa.exp(sa.log(S)), S),
    "cancellation": ((S + 10**30 * B) - 10**30 * B, S),
    "digits lost in a sine": (sa.sin(10**35 * S + B), sa.sin(B + S * 10**35)),
    "a root of what rounding leaves": (
        sa.sqrt(sa.square(sa.exp(S) / 3 - sa.exp(S) * sympy.Rational(1, 3))),
        S - S,
    ),
}


@pytest.mark.parametrize("name", UNEQUAL)
def test_every_mistake_is_refuted(name: str) -> None:
    left, right = UNEQUAL[name]
    found = find_difference(left, right)
    assert isinstance(found, Difference)
    # The point is what it says: evaluated again, from the rows alone, it gives the two values.
    for side, value in ((left, found.left_value), (right, found.right_value)):
        inputs = {symbol: found.inputs[symbol.label] for symbol in side.inputs()}
        again = evaluate(side, found.sizes, inputs, found.scalars, digits=60)[found.entry]
        assert abs(again - value) <= 1e-40 * abs(value)
    assert found.left_value != found.right_value


@pytest.mark.parametrize("name", EQUAL)
def test_what_is_equal_is_not_refuted(name: str) -> None:
    found = find_difference(*EQUAL[name])
    assert isinstance(found, NoDifference)
    assert found.instances == 8


@settings(
    max_examples=60, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(equal_pairs(3))
def test_rewriting_is_never_refuted(pair: tuple[Node, Node]) -> None:
    assert not isinstance(find_difference(*pair, attempts=4), Difference)


def test_a_counterexample_is_small_and_can_be_read() -> None:
    found = find_difference(*UNEQUAL["a transposed weight"])
    assert isinstance(found, Difference)
    assert set(found.inputs) == {"K", "W", "Q"}
    entries = [entry for rows in found.inputs.values() for row in rows for entry in row]
    assert all(isinstance(entry, Fraction) and entry.denominator <= 2 for entry in entries)
    assert len(set(found.sizes.values())) == 3
    assert max(found.sizes.values()) <= 5


def test_the_entry_is_where_they_differ_most() -> None:
    found = find_difference(S, sa.hadamard(S, B))
    assert isinstance(found, Difference)
    gaps = [
        [abs(s - s * b) for s, b in zip(*pair, strict=True)]
        for pair in zip(found.inputs["S"], found.inputs["B"], strict=True)
    ]
    assert gaps[found.entry[0]][found.entry[1]] == max(gap for row in gaps for gap in row)


def test_sizes_satisfy_the_relations_of_the_call_and_of_the_formulas() -> None:
    with sa.assuming("d_v = m"):
        carried = V @ V
    found = find_difference(carried, V, Relations().declare("n = 2*m"))
    assert isinstance(found, Difference)
    assert found.sizes["d_v"] == found.sizes["m"]
    assert found.sizes["n"] == 2 * found.sizes["m"]


def test_shapes_may_agree_by_a_relation_alone() -> None:
    square = Relations().declare("m = n")
    assert isinstance(find_difference(S.T, S, square), Difference)
    A, same = sa.matrix("A", m, n), sa.matrix("A", n, m)
    assert isinstance(find_difference(A, same, square), NoDifference)  # then it is one matrix


def test_matrices_of_other_shapes_are_refused() -> None:
    with pytest.raises(SizeError, match="matrices to be compared"):
        find_difference(S, S.T)


def test_points_without_a_value_are_drawn_again_and_counted() -> None:
    found = find_difference(sa.log(S), 2 * sa.log(sa.sqrt(S)))
    assert isinstance(found, NoDifference)
    assert found.instances == 8
    assert found.undefined > 0


@pytest.mark.parametrize("side", [sa.reciprocal(S - S), sa.log(-sa.exp(S)), S * sa.log(-1 - c**2)])
def test_a_formula_without_values_is_said_to_have_none(side: Node) -> None:
    found = find_difference(side, S)
    assert isinstance(found, UndefinedEverywhere)
    assert found.points > 10


def test_sizes_of_one_are_tried() -> None:
    """Equal unless an axis has one place only: the difference shows there alone."""
    one = sa.max(sa.identity(m) @ lines, axis=0)
    largest_off_diagonal = sa.max(sa.max(lines @ lines.T - sa.identity(m), axis=0), axis=1)
    found = find_difference(one, largest_off_diagonal)
    assert isinstance(found, Difference)
    assert found.sizes == {"m": 1}


def test_the_same_seed_finds_the_same_point() -> None:
    first, again, other = (find_difference(S, B, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("digits", [3, 400])
def test_the_precision_that_a_user_has_set_does_not_matter(digits: int) -> None:
    before = mpmath.mp.dps
    mpmath.mp.dps = digits
    try:
        assert isinstance(find_difference(*UNEQUAL["a small difference"]), Difference)
        assert isinstance(find_difference(*EQUAL["two layouts"]), NoDifference)
        assert mpmath.mp.dps == digits
    finally:
        mpmath.mp.dps = before


@pytest.mark.parametrize("make", [float, str, lambda value: np.float64(value)], ids=str)
def test_values_print_and_convert(make: Callable[[object], object]) -> None:
    found = find_difference(S, S @ 3)
    assert isinstance(found, Difference)
    assert float(make(found.right_value)) == pytest.approx(3 * float(found.left_value))  # pyright: ignore
