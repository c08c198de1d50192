"""A generated function's result against plain float64 loops over what the formula means.

The loops know nothing of the generated code: they read the entry formula, one index at a time.
They are slow, so of a large result only a few entries are compared, and it is said how many.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from math import prod
from typing import Any

import numpy as np

from symattn.cli.refusals import Refused
from symattn.codegen import lambdify
from symattn.evaluate import entry_value, table
from symattn.meaning.form import place
from symattn.nodes import BooleanInput, MatrixProduct, Node
from symattn.notation.names import identifier
from symattn.notation.terminal import text
from symattn.variants import Formula
from symattn.variants.known import Input

Array = np.ndarray[Any, np.dtype[Any]]

ArrayInput = Input | BooleanInput
"""What an array stands for: a matrix, the matrices of all heads, or the booleans of a mask."""

# The largest difference that rounding explains: of attention weights, and of anything else.
TOLERANCES = {"float64": (1e-12, 1e-12), "float32": (1e-6, 2e-6), "float16": (5e-3, 1e-2)}
# Rounding grows with the numbers: the above holds for entries and scores up to these.
_ENTRY, _SCORE = 4.0, 8.0

# In multiplications: the whole table below the first, a few entries below the second.
_WHOLE, _SOME = 2_000_000, 20_000_000
_SAMPLE = 3


@dataclass(frozen=True, slots=True)
class Comparison:
    """The largest difference between two results, and whether rounding explains it."""

    difference: float
    tolerance: float
    compared: int
    entries: int

    @property
    def agrees(self) -> bool:
        """Whether the difference is within the tolerance; never true of NaN."""
        return self.difference <= self.tolerance


def part_computed(
    formula: Formula,
    node: Node,
    inputs: Mapping[ArrayInput, Array],
    sizes: Mapping[str, int],
    scalars: Mapping[str, float],
) -> Array:
    """Return a part of a formula, computed by the function generated for it.

    Raises `Refused` if a number on the way is too large for the arrays' dtype.
    """
    taken = [symbol for symbol in formula.inputs if symbol in node.inputs()]
    function = lambdify(taken, node)
    known: dict[str, Any] = {identifier(tag): size for tag, size in sizes.items()}
    known |= {identifier(scalar): number for scalar, number in scalars.items()}
    known |= {identifier(mask.label): inputs[mask] for mask in node.booleans()}
    keywords = {
        parameter.name: known[parameter.name]
        for parameter in signature(function).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
    }
    with np.errstate(all="ignore"):  # an overflow shows in the result
        result = function(*(inputs[symbol] for symbol in taken), **keywords)
    if not np.isfinite(result).all():
        raise Refused(f"the numbers are too large: {text(node)} is not finite in {result.dtype}")
    return result


def compared_with_loops(
    formula: Formula,
    result: Array,
    scores: Array,
    inputs: Mapping[ArrayInput, Array],
    sizes: Mapping[str, int],
    scalars: Mapping[str, float],
) -> Comparison | None:
    """Compare a result with loops over the entry formula; None if even one entry takes too long."""
    node = formula.expr
    work = sum(_multiplications(part, sizes) for part in node.walk())
    if result.size and work > _WHOLE:
        if work // max(result.shape) * _SAMPLE > _SOME:
            return None
        return _some_entries(node, result, scores, inputs, sizes, scalars)
    loops = np.array(table(node, sizes, inputs, scalars), dtype=np.float64).reshape(result.shape)
    return compared(result, loops, "output", scores)


def _multiplications(node: Node, sizes: Mapping[str, int]) -> int:
    """Return how many multiplications a node takes, those of a score once for every pair."""
    if node.bodies:
        pairs = node.sizes[0].value(sizes) * node.sizes[1].value(sizes)
        inside = (part for body in node.bodies for part in body.walk())
        return pairs * sum(_multiplications(part, sizes) for part in inside)
    if not isinstance(node, MatrixProduct):
        return 0
    factors = node.matrices
    rows = factors[0].sizes[0].value(sizes) * prod(i.size.value(sizes) for i in node.indices)
    return sum(
        rows * factor.sizes[0].value(sizes) * factor.sizes[1].value(sizes) for factor in factors[1:]
    )


def _some_entries(
    node: Node,
    result: Array,
    scores: Array,
    inputs: Mapping[ArrayInput, Array],
    sizes: Mapping[str, int],
    scalars: Mapping[str, float],
) -> Comparison:
    rows, columns = result.shape
    row, column = place(node.sizes[0]), place(node.sizes[1])
    form = node.meaning(row, column)
    entries = {
        (symbol.label, symbol.sizes): array.reshape(
            [size.value(sizes) for size in symbol.sizes]
        ).tolist()
        for symbol, array in inputs.items()
    }
    chosen = [(k * (rows - 1) // 2, k * (columns - 1) // 2) for k in range(_SAMPLE)]
    loops = [
        entry_value(
            form, dict([*((r, i) for r in row), *((c, j) for c in column)]), sizes, entries, scalars
        )
        for i, j in chosen
    ]
    ours = np.array([result[at] for at in chosen])
    return compared(ours, np.array(loops), "output", scores, entries=result.size)


def compared(
    ours: Array, theirs: Array, part: str, scores: Array, entries: int | None = None
) -> Comparison:
    """Compare two arrays of one shape, in float64: what one part of a formula computes.

    Rounding of a score grows with the score, and a softmax hands it on to what comes after.
    """
    left, right = ours.astype(np.float64), theirs.astype(np.float64)
    difference = float(np.abs(left - right).max(initial=0.0))
    kind = 0 if part == "weights" else 1
    coarser = max(TOLERANCES[array.dtype.name][kind] for array in (ours, theirs))
    scale = max(1.0, _largest(right) / _ENTRY) * max(1.0, _largest(scores) / _SCORE)
    return Comparison(
        difference, coarser * scale, ours.size, ours.size if entries is None else entries
    )


def _largest(array: Array) -> float:
    return float(np.abs(array.astype(np.float64)).max(initial=0.0))
