"""The two evaluators know nothing of each other: what a formula says and what it means agree."""

from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, note, settings, strategies as st

from symattn.evaluate import (
    UndefinedPointError,
    evaluate,
    exact,
    random_inputs,
    random_scalars,
    random_sizes,
    sizes_in,
    table,
)
from symattn.nodes.core import Node
from symattn.tags import Relations
from tests.evaluate import test_matrices
from tests.strategies import equal_pairs, expressions

drawing = settings(
    max_examples=60,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def at_a_point(seed: int, *nodes: Node) -> tuple[dict, dict, dict]:
    rng = Random(seed)
    sizes = random_sizes(sizes_in(nodes), Relations(), rng, least=1)
    inputs = dict.fromkeys(symbol for node in nodes for symbol in node.inputs())
    scalars = dict.fromkeys(symbol for node in nodes for symbol in node.scalars())
    return sizes, random_inputs(inputs, sizes, rng), random_scalars(scalars, rng)


@drawing
@given(expressions(4), st.integers(0, 10**6))
def test_the_meaning_is_what_the_formula_says(node: Node, seed: int) -> None:
    sizes, inputs, scalars = at_a_point(seed, node)
    note(f"{sizes}")
    try:
        written = evaluate(node, sizes, inputs, scalars)
        meant = table(node, sizes, inputs, scalars, exact(50))
    except UndefinedPointError:
        assume(False)
        return
    for left, right in zip(
        written.ravel().tolist(), [v for row in meant for v in row], strict=True
    ):
        assert abs(left - right) <= 1e-30 * (1 + abs(left))


@pytest.mark.parametrize("node", [node for node, _ in test_matrices.CASES], ids=str)
def test_the_meaning_of_every_operation_is_what_it_says(node: Node) -> None:
    """And where indices are free, at each value of them."""
    sizes, arrays, scalars = test_matrices.SIZES, test_matrices.ARRAYS, test_matrices.SCALARS
    for at in np.ndindex(*(index.size.value(sizes) for index in node.indices)):
        indices = dict(zip(node.indices, at, strict=True))
        written = evaluate(node, sizes, arrays, scalars, indices=indices)
        meant = table(node, sizes, arrays, scalars, exact(50), indices=indices)
        assert written.shape == (len(meant), len(meant[0]))
        for place, value in np.ndenumerate(written):
            assert abs(value - meant[place[0]][place[1]]) <= 1e-40 * (1 + abs(value))


@drawing
@given(equal_pairs(3), st.integers(0, 10**6))
def test_what_is_equal_on_paper_is_equal_in_numbers(pair: tuple[Node, Node], seed: int) -> None:
    sizes, inputs, scalars = at_a_point(seed, *pair)
    try:
        left, right = (evaluate(side, sizes, inputs, scalars) for side in pair)
    except UndefinedPointError:
        assume(False)
        return
    assert left.shape == right.shape
    for one, other in zip(left.ravel().tolist(), right.ravel().tolist(), strict=True):
        assert abs(one - other) <= 1e-25 * (1 + abs(one))
