"""Random formulas: no unequal pair is proved, no equal pair is refuted, most of these are proved.

What is equal is known from how a pair was made; what is unequal, from the evaluator, at more points
than `prove` asks for.
"""

from __future__ import annotations

from hypothesis import HealthCheck, assume, given, settings

from symattn.nodes.core import Node
from symattn.proof import prove
from symattn.proof.counterexample import Difference, find_difference
from symattn.proof.results import compared
from tests.strategies import equal_pairs, expressions, mutated_pairs

slow = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def proved_by_normal_form(left: Node, right: Node) -> bool | None:
    return compared((left, right), left.given.merge(right.given)).equal


@given(equal_pairs(4))
@settings(slow, max_examples=150)
def test_what_is_equal_is_never_refuted(pair: tuple[Node, Node]) -> None:
    result = prove(*pair)
    assert result.verdict != "refuted", result.text()
    assert result.check()


@given(mutated_pairs(4))
@settings(slow, max_examples=150)
def test_what_differs_in_numbers_is_never_proved(pair: tuple[Node, Node]) -> None:
    if proved_by_normal_form(*pair):
        found = find_difference(*pair, attempts=12, seed=7)
        assert not isinstance(found, Difference), found


@given(expressions(4), expressions(4))
@settings(slow, max_examples=100)
def test_unrelated_formulas_are_not_proved_equal(left: Node, right: Node) -> None:
    assume(left.sizes == right.sizes)
    if proved_by_normal_form(left, right):
        assert not isinstance(find_difference(left, right, attempts=12, seed=11), Difference)


@given(equal_pairs(3, times=1))
@settings(slow, max_examples=100)
def test_one_rewriting_is_proved(pair: tuple[Node, Node]) -> None:
    """Completeness, as far as it goes: one true rewriting of a formula is found out."""
    result = prove(*pair)
    assume(
        result.verdict != "undecided"
        or not any(word in result.reason for word in ("budget", "undefined", "defined"))
    )
    assert result.verdict == "proved", result.text()
