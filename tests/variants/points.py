"""The formulas of the catalogue at one point: sizes, arrays in the column layout, what is by name.

The right numbers are those of the loops in `tests/loops.py`, in the column layout as well.
"""

from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.nodes.inputs import InputVector
from symattn.variants import Formula
from tests import loops

Array = np.ndarray[Any, np.dtype[np.float64]]
Options = dict[str, bool]

NAMES = tuple(sa.formulas())
PACKED = ("packed_multi_head", "packed_multi_head_cross")
VARIANTS: tuple[tuple[str, Options], ...] = (
    *((name, {}) for name in NAMES),
    *((name, {"bias": False}) for name in PACKED),
)
"""Every formula, and those that leave a choice once more as they are not by default."""

SIZES = {"n": 8, "m": 9, "d_k": 5, "d_v": 7, "d": 10, "d_x": 11, "d_y": 12}
SIZES |= {"d_q": 13, "d_a": 14, "d_s": 15, "d_h": 16}
SIZES |= {"r": 2, "g": 3, "h": 4, "d_model": 4 * 5}
SCALARS = {"c": 0.75, "tau": 0.4, "slope": -0.3}

each_name = pytest.mark.parametrize("name", NAMES)
each_layout = pytest.mark.parametrize("layout", ["column", "row"])
each_variant = pytest.mark.parametrize(
    ("name", "options"),
    VARIANTS,
    ids=[
        "-".join((name, *(f"{key}={value}" for key, value in chosen.items())))
        for name, chosen in VARIANTS
    ],
)


def run_time(name: str) -> dict[str, Any]:
    """What a formula is given by keyword: a size that no array has, the booleans of a mask."""
    formula = sa.formula(name)
    told = {tag for given in formula.inputs for tag in given.tags}
    known: dict[str, Any] = {
        mask.label: np.array([j != 2 for j in range(SIZES["m"])]) for mask in formula.masks
    }
    known |= {scalar.name: SCALARS[scalar.name] for scalar in formula.scalars}
    sizes = {"w": 2, "h": SIZES["h"]}
    return known | {tag: sizes[tag] for tag in formula.expr.tags if tag in sizes.keys() - told}


def looped(name: str, arrays: dict[str, Array], **changed: Any) -> Array:
    """The result of the loops, in column layout."""
    return loops.CATALOGUE[name](*arrays.values(), **run_time(name) | changed)


def turned(array: Array, symbol: Any, twins: dict[Any, Any]) -> Array:
    """The array of the row layout: each matrix transposed that has a twin."""
    labels = {twin.label for twin in twins}
    return array.swapaxes(-1, -2) if symbol.label in labels else array


def arrays_in(formula: Formula, columns: dict[str, Array]) -> list[Array]:
    """The arrays of a formula in its own layout, in calling order."""
    if formula.layout == "column":
        return [columns[symbol.name] for symbol in formula.inputs]
    return [turned(columns[symbol.name], symbol, formula.twins) for symbol in formula.inputs]


def random_column_arrays(formula: Formula, seed: int) -> dict[str, Array]:
    """Arrays for the column layout, by name."""
    random = np.random.default_rng(seed)
    return {
        symbol.name: random.normal(
            size=[
                size.value(SIZES)
                for size in (symbol.sizes[:1] if isinstance(symbol, InputVector) else symbol.sizes)
            ]
        )
        for symbol in formula.inputs
    }
