"""A query that may attend to nothing, in every formula of the catalogue: its weights are zero.

The right numbers are those of the loops, where a softmax of no scores is no weights, and a sum of
none is 0.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.nodes import Node
from symattn.variants import Formula
from symattn.variants.layouts import BUILDERS
from tests import loops
from tests.variants.points import (
    NAMES,
    SIZES,
    Array,
    Options,
    arrays_in,
    each_layout,
    each_variant,
    looped,
    random_column_arrays,
    run_time,
)

LOST = 3
"""The query that may attend to nothing."""


def under_keep(formula: Formula) -> Node:
    """The formula with a boolean for every query and key, beside the mask that it has."""
    own, axis = formula.weights.mask, BUILDERS[formula.layout].axis
    mask = sa.keep() if own is None else own & sa.keep()
    return formula.expr.xreplace(
        {formula.weights: sa.softmax(formula.scores, axis=axis, mask=mask)}
    )


def ran(formula: Formula, expr: Node, arrays: dict[str, Array], **given: Any) -> Array:
    """The numbers of an expression in the inputs of a formula, in the column layout."""
    f = sa.lambdify(formula.inputs, expr)
    result = f(*arrays_in(formula, arrays), **run_time(formula.name) | given)
    return result if formula.layout == "column" else result.T


def of_nothing(arrays: dict[str, Array], like: Array) -> Array:
    """What is left where every weight is zero: zeros, and the bias that is added after the mix."""
    return np.zeros_like(like) + (arrays["b^O"][:, None] if "b^O" in arrays else 0.0)


def everything_but(formula: Formula, *lost: int) -> Array:
    """Booleans of queries by keys: some queries may attend to nothing, the others to every key."""
    axis = BUILDERS[formula.layout].axis
    keys, queries = (formula.scores.sizes[at].value(SIZES) for at in (axis, 1 - axis))
    keep = np.ones((queries, keys), dtype=bool)
    keep[[query % queries for query in lost]] = False
    return keep


@each_variant
@each_layout
def test_a_query_without_keys_is_zero_and_the_others_are_as_before(
    name: str, options: Options, layout: str
) -> None:
    formula = sa.formula(name, layout, **options)
    arrays = random_column_arrays(sa.formula(name, "column", **options), seed=11)
    keep = everything_but(formula, LOST)
    expected = looped(name, arrays)
    lost = LOST % len(keep)
    assert np.abs(expected[:, lost]).min() > 0
    expected[:, lost] = of_nothing(arrays, expected)[:, lost]
    found = ran(formula, under_keep(formula), arrays, keep=keep)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@each_variant
@each_layout
def test_no_query_with_a_key(name: str, options: Options, layout: str) -> None:
    formula = sa.formula(name, layout, **options)
    arrays = random_column_arrays(sa.formula(name, "column", **options), seed=12)
    nothing = np.zeros_like(everything_but(formula))
    found = ran(formula, under_keep(formula), arrays, keep=nothing)
    np.testing.assert_array_equal(found, of_nothing(arrays, found))


@pytest.mark.parametrize("name", [name for name in NAMES if sa.formula(name).masks])
@each_layout
@pytest.mark.parametrize("allowed", [False, True])
def test_the_booleans_of_a_formula_are_all_alike(name: str, layout: str, allowed: bool) -> None:
    formula = sa.formula(name, layout)
    arrays = random_column_arrays(sa.formula(name), seed=13)
    given = {
        mask.label: np.full([size.value(SIZES) for size in mask.sizes], allowed)
        for mask in formula.masks
    }
    expected = looped(name, arrays, **given)
    assert expected.any() == allowed
    found = ran(formula, formula.expr, arrays, **given)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


# What each masked formula allows by itself, of query i and key j.
OWN: dict[str, Callable[[int, int], bool]] = {
    "causal_self_attention": lambda i, j: j <= i,
    "sliding_window": lambda i, j: -2 < j - i < 2,
    "key_padding": lambda i, j: j != 2,
}


def test_every_masked_formula_is_here() -> None:
    assert set(OWN) == {name for name in NAMES if sa.formula(name).weights.mask is not None}


@pytest.mark.parametrize("name", OWN)
@each_layout
def test_a_mask_and_booleans_together(name: str, layout: str) -> None:
    """Query 0 loses the keys that it had left, and keys are lost to some queries alone."""
    formula = sa.formula(name, layout)
    arrays = random_column_arrays(sa.formula(name), seed=14)
    keep = everything_but(formula, LOST)
    keep[0, :2] = False
    keep[5, 4:6] = False
    if name == "key_padding":
        q, k, v = arrays.values()
    else:
        x, *weights = arrays.values()
        q, k, v = (loops.times(weight, x) for weight in weights)
    columns = []
    for i, kept in enumerate(keep):
        js = [j for j, also in enumerate(kept) if also and OWN[name](i, j)]
        columns.append(loops.scaled_dot_product(q[:, i : i + 1], k[:, js], v[:, js])[:, 0])
    expected = np.stack(columns, axis=1)
    assert not expected[:, LOST].any()
    assert expected[:, 5].any()
    assert expected[:, 0].any() == (name == "key_padding")
    found = ran(formula, under_keep(formula), arrays, keep=keep)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
