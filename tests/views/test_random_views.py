"""Random formulas: an entry in SymPy, an entry in vectors and einsum lines all have their value."""

from typing import Any

import numpy as np
from hypothesis import HealthCheck, assume, given, settings

import symattn as sa
from symattn.evaluate import UndefinedPointError
from symattn.meaning.form import Index, place
from symattn.nodes import Elementwise, Node
from symattn.views.vectors import Vectors
from tests.strategies import expressions
from tests.views.points import SCALARS, SIZES, arrays_for, keywords, written
from tests.views.readings import Numbers
from tests.views.test_einsum import run
from tests.views.test_sums import by_entries

TOLERANCE: dict[str, Any] = {"rtol": 1e-7, "atol": 1e-7}


def only_named(node: Node) -> bool:
    """Whether a function of which only the name is known is in a formula: it has no code."""
    return any(isinstance(part, Elementwise) and part.label == "phi" for part in node.walk())


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(expressions(3))
def test_views_have_the_value_of_the_formula(node: Any) -> None:
    arrays = arrays_for(node)
    try:
        expected = written(node, arrays)
    except UndefinedPointError:
        assume(False)
        return
    assume(np.max(np.abs(expected)) < 1e6)
    row, column = place(node.sizes[0]), place(node.sizes[1])
    read = Vectors(node).entry(node, row, column)
    for (i, j), value in np.ndenumerate(expected):
        at: dict[Index, Any] = dict.fromkeys(row, i) | dict.fromkeys(column, j)
        found = np.squeeze(Numbers(arrays, at)(read))
        np.testing.assert_allclose(found, value, **TOLERANCE)
    if only_named(node):
        return
    given = SIZES | SCALARS | keywords(node, arrays, vectors=True)
    np.testing.assert_allclose(run(sa.einsum(node), given), expected, **TOLERANCE)
    np.testing.assert_allclose(by_entries(node, arrays), expected, **TOLERANCE)


def test_heads_that_a_softmax_is_taken_of_are_not_the_last_line() -> None:
    h, n = sa.dims("h n")
    i, k = sa.index("i", h), sa.index("k", h)
    blocks = sa.head(sa.softmax(sa.heads(sa.matrix("N", n, n), k, axis=0), axis=0), i, axis=0)
    weights = sa.softmax(sa.sum_over(blocks, i), axis=0)
    assert sa.einsum(weights).text().splitlines()[-1] == "P_2 = softmax(S_2, axis=-2)"
