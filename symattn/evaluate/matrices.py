"""The independent evaluator: a formula computed as it is written, matrix by matrix.

A proof rests on what each operation *means*, entry by entry.  This module does not: it multiplies,
transposes and normalises whole matrices of 50-digit numbers at a given point, from the textbook
definition of every operation.  Whatever a proof claims has to hold here too, and a fault in a
meaning shows as a difference.

Invariant: nothing here looks at an index form or at generated code.  To add an operation, add its
rule; a test fails while one is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from symattn.errors import InternalError
from symattn.evaluate.arithmetic import (
    DIGITS,
    apply_function,
    defined,
    exact,
    undefined,
)
from symattn.evaluate.scalars import Point, require_indices, scalar_value
from symattn.nodes import (
    AdditiveMask,
    BoundVector,
    Causal,
    Complement,
    Concat,
    Elementwise,
    Hadamard,
    Head,
    Heads,
    IdentityMatrix,
    Indicator,
    InputMatrix,
    InputVector,
    Intersection,
    Keep,
    Mask,
    MatrixProduct,
    MatrixSum,
    MaxAlong,
    Member,
    Negated,
    Ones,
    Padding,
    Pairwise,
    PositionBias,
    Prefix,
    Quotient,
    Reshaped,
    Softmax,
    SumOver,
    Transposed,
    Union,
    Window,
)
from symattn.nodes.core import Node
from symattn.nodes.finite import as_finite
from symattn.nodes.indices import AxisIndex

Matrix = np.ndarray[Any, np.dtype[np.object_]]
Pairs = np.ndarray[Any, np.dtype[np.bool_]]


Values = tuple[Any, ...]
"""The values of the operands, in order: a matrix, or a number for a scalar."""

Rule = Callable[[Any, Values, Point], Matrix]

RULES: dict[type[Node], Rule] = {}
"""How each class of nodes is computed from the values of its operands."""


def rule(*classes: type[Node]) -> Callable[[Rule], Rule]:
    """Register a function as the rule of these classes."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(classes, function))
        return function

    return register


def evaluate(
    node: Node,
    sizes: Mapping[str, int],
    inputs: Mapping[Any, Any],
    scalars: Mapping[str, Any] | None = None,
    digits: int = DIGITS,
    *,
    indices: Mapping[AxisIndex, int] | None = None,
) -> Matrix:
    """Return the matrix that a formula is at a point, as an array of mpmath numbers.

    >>> from symattn.nodes import dims, matrix, softmax
    >>> m, n = dims("m n")
    >>> S = matrix("S", m, n)
    >>> values = evaluate(softmax(S, axis=0), {"m": 2, "n": 1}, {S: [[0], [0]]}, digits=20)
    >>> print(values[0, 0], values.shape)
    0.5 (2, 1)

    Inputs are rows or arrays of rationals, integers or floats, those of ``node.booleans()`` rows of
    booleans, those of a family the rows of every member; ``sizes`` gives every tag a size and
    ``indices`` every index that is free a value.
    Raises `UndefinedPointError` where the formula has no value, `MinusInfinityError` if it ends
    with an additive mask, and `SizeError` for inputs of other sizes.
    """
    (matrix,) = evaluate_together((node,), sizes, inputs, scalars, digits, indices=indices)
    return matrix


def evaluate_together(
    nodes: Iterable[Node],
    sizes: Mapping[str, int],
    inputs: Mapping[Any, Any],
    scalars: Mapping[str, Any] | None = None,
    digits: int = DIGITS,
    *,
    indices: Mapping[AxisIndex, int] | None = None,
) -> list[Matrix]:
    """Return the matrices that several formulas are at a point; what they share is computed once.

    >>> from symattn.nodes import dims, matrix, softmax
    >>> S = matrix("S", *dims("m n"))
    >>> weights = softmax(S, axis=0)
    >>> one, two = evaluate_together([weights, weights.T], {"m": 2, "n": 1}, {S: [[0], [0]]})
    >>> one.shape, two.shape
    ((2, 1), (1, 2))

    Raises what `evaluate` raises.
    """
    point = Point(sizes, inputs, scalars or {}, exact(digits), indices or {})
    formulas = [as_finite(node, "evaluate") for node in nodes]
    require_indices(formulas, sizes, point.indices)
    known: Known = {}
    try:
        return [_computed(node, point, known) for node in formulas]
    except (ZeroDivisionError, OverflowError) as error:
        raise undefined(error) from None


Known = dict[tuple[Node, tuple[int, ...]], Matrix]
"""Matrices that are computed already: of a part, at the values of its free indices."""


def _at(part: Node, point: Point) -> tuple[Node, tuple[int, ...]]:
    return part, tuple(point.indices[index] for index in part.indices)


def _computed(node: Node, point: Point, known: Known) -> Matrix:
    """Return the matrix that a formula is, and add those of its parts to what is known.

    A part in which an index is free that has no value here is left to what runs over the index.
    """
    for part in node.walk():
        if not set(part.indices) <= point.indices.keys() or _at(part, point) in known:
            continue
        matrix = RULES[type(part)](part, _values(part, point, known), point)
        if matrix.shape != point.shape(part):
            raise InternalError(f"{part} has shape {point.shape(part)}, not {matrix.shape}")
        least = point.arithmetic.mpf("-inf")
        for value in matrix.flat:
            if not (part.has_minus_infinity and value == least):
                defined(value, point.arithmetic, "an entry")
        known[_at(part, point)] = matrix
    return known[_at(node, point)]


def _values(part: Node, point: Point, known: Known) -> Values:
    """Return the values of the operands of a part: of one that runs over an index, all of them."""
    if part.binds:
        (index,), (body,) = part.binds, part.matrices
        each = ({**point.indices, index: k} for k in range(index.size.value(point.sizes)))
        return ([_computed(body, replace(point, indices=at), known) for at in each],)
    return tuple(
        known[_at(operand, point)] if isinstance(operand, Node) else scalar_value(operand, point)
        for operand in (() if part.is_sized else part.operands)
    )


def _is_matrix(value: Any) -> bool:
    return isinstance(value, np.ndarray)


# The rules, in the order of the operations' own modules.


@rule(InputMatrix, InputVector, BoundVector)
def named_matrix(node: InputMatrix, values: Values, point: Point) -> Matrix:
    """The entries that were given."""
    return np.array(point.rows(node), dtype=object)


@rule(Member)
def member_of_family(node: Member, values: Values, point: Point) -> Matrix:
    """The entries of the member at the values of its indices."""
    rows = point.rows(node.source)
    for index in node.reads:
        rows = rows[point.indices[index]]
    return np.array(rows, dtype=object)


@rule(Heads)
def stacked_heads(node: Heads, values: Values, point: Point) -> Matrix:
    """One head after another."""
    return np.concatenate(values[0], axis=node.axis)


@rule(SumOver)
def sum_of_heads(node: SumOver, values: Values, point: Point) -> Matrix:
    """One head plus another."""
    return np.add.reduce(values[0])


@rule(Head)
def block(node: Head, values: Values, point: Point) -> Matrix:
    """The rows or columns from i·d on, d of them."""
    extent = point.shape(node)[node.axis]
    start = point.indices[node.index] * extent
    return np.take(values[0], range(start, start + extent), axis=node.axis)


@rule(Reshaped)
def reshaped(node: Reshaped, values: Values, point: Point) -> Matrix:
    """The entries one by one, row after row, put into the other shape."""
    entries = iter(values[0].flatten().tolist())
    matrix = np.empty(point.shape(node), dtype=object)
    for place in np.ndindex(*matrix.shape):
        matrix[place] = next(entries)
    return matrix


@rule(Ones)
def ones_everywhere(node: Ones, values: Values, point: Point) -> Matrix:
    """1 at every entry."""
    return np.full(point.shape(node), point.arithmetic.mpf(1), dtype=object)


@rule(IdentityMatrix)
def ones_on_the_diagonal(node: IdentityMatrix, values: Values, point: Point) -> Matrix:
    """1 on the diagonal, 0 off it."""
    matrix = np.full(point.shape(node), point.arithmetic.mpf(0), dtype=object)
    np.fill_diagonal(matrix, point.arithmetic.mpf(1))
    return matrix


@rule(MatrixProduct)
def product(node: MatrixProduct, values: Values, point: Point) -> Matrix:
    """Factors from left to right; a scalar multiplies every entry."""
    result = values[0]
    for value in values[1:]:
        result = result @ value if _is_matrix(result) and _is_matrix(value) else result * value
    return result


@rule(Transposed)
def transpose(node: Transposed, values: Values, point: Point) -> Matrix:
    """Rows become columns."""
    return values[0].T


@rule(MatrixSum)
def entrywise_sum(node: MatrixSum, values: Values, point: Point) -> Matrix:
    """Terms from left to right."""
    result = values[0]
    for value in values[1:]:
        result = result + value
    return result


@rule(Negated)
def negation(node: Negated, values: Values, point: Point) -> Matrix:
    """Every entry negated."""
    return -values[0]


@rule(Quotient)
def quotient(node: Quotient, values: Values, point: Point) -> Matrix:
    """Every entry divided by the scalar."""
    return values[0] / values[1]


@rule(Hadamard)
def entrywise_product(node: Hadamard, values: Values, point: Point) -> Matrix:
    """Entries multiplied."""
    result = values[0]
    for value in values[1:]:
        result = result * value
    return result


@rule(Elementwise)
def elementwise(node: Elementwise, values: Values, point: Point) -> Matrix:
    """The function of every entry."""
    return _map(values[0], lambda x: apply_function(node.function, x, point.arithmetic))


@rule(Softmax)
def softmax(node: Softmax, values: Values, point: Point) -> Matrix:
    """Exponentials over their sum; numbers here are unbounded, so no maximum is subtracted."""
    exponentials = _map(values[0], point.arithmetic.exp)
    if node.mask is not None:
        exponentials[~_pairs(node, point)] = point.arithmetic.mpf(0)
    sums = exponentials.sum(axis=node.axis, keepdims=True)
    sums[sums == 0] = point.arithmetic.mpf(1)  # a query without keys: all of its weights are 0
    return exponentials / sums


@rule(AdditiveMask)
def additive_mask(node: AdditiveMask, values: Values, point: Point) -> Matrix:
    """0 for each pair of the mask, −∞ for the others."""
    matrix = np.full(point.shape(node), point.arithmetic.mpf("-inf"), dtype=object)
    matrix[_pairs(node, point)] = point.arithmetic.mpf(0)
    return matrix


@rule(Indicator)
def indicator(node: Indicator, values: Values, point: Point) -> Matrix:
    """1 for each pair of the mask, 0 for the others."""
    matrix = np.full(point.shape(node), point.arithmetic.mpf(0), dtype=object)
    matrix[_pairs(node, point)] = point.arithmetic.mpf(1)
    return matrix


def _pairs(node: Softmax | Indicator | AdditiveMask, point: Point) -> Pairs:
    """Return the mask of a node as booleans, as the node's matrix lies."""
    assert node.mask is not None
    rows, columns = point.shape(node)
    shape = (columns, rows) if node.axis == 0 else (rows, columns)
    given = {array.label: point.inputs[array] for array in node.mask_arrays}
    pairs = mask_pairs(node.mask, shape, given, point.sizes)
    return pairs.T if node.axis == 0 else pairs


# Masks, as booleans of queries by keys.


def mask_pairs(
    mask: Mask, shape: tuple[int, int], given: Mapping[str, Any], sizes: Mapping[str, int]
) -> Pairs:
    """Return which of so many queries may attend to which of so many keys."""
    match mask:
        case Intersection(masks=masks):
            return np.logical_and.reduce([mask_pairs(one, shape, given, sizes) for one in masks])
        case Union(masks=masks):
            return np.logical_or.reduce([mask_pairs(one, shape, given, sizes) for one in masks])
        case Complement(mask=inner):
            return ~mask_pairs(inner, shape, given, sizes)
        case Padding():
            return np.broadcast_to(np.array(given["padding"], dtype=bool), shape)
        case Keep():
            return np.array(given["keep"], dtype=bool).reshape(shape)
    positions = np.indices(shape)
    if getattr(mask, "align", None) == "bottom_right":
        positions[0] += shape[1] - shape[0]
    query, key = positions
    match mask:
        case Causal():
            return key <= query
        case Window(width=width):
            return np.abs(query - key) < width.value(sizes)
        case Prefix(length=length):
            return key < length.value(sizes)
    raise InternalError(f"no rule for the mask {mask}")


@rule(MaxAlong)
def maximum(node: MaxAlong, values: Values, point: Point) -> Matrix:
    """The largest entry of each row or column."""
    return values[0].max(axis=node.axis, keepdims=True)


@rule(Concat)
def stacked(node: Concat, values: Values, point: Point) -> Matrix:
    """One part after another."""
    return np.concatenate(values, axis=node.axis)


@rule(Pairwise)
def score_of_each_pair(node: Pairwise, values: Values, point: Point) -> Matrix:
    """The score as it is written, once for every pair of a query and a key."""
    queries, keys = (data if node.axis == 1 else data.T for data in values[:2])
    weights: dict[Node, Matrix] = dict(zip(node.weights, values[2:], strict=True))
    scores = np.empty(point.shape(node), dtype=object)
    for i, j in np.ndindex(queries.shape[1], keys.shape[1]):
        columns = queries[:, i : i + 1], keys[:, j : j + 1]
        given = {**weights, **dict(zip(node.vectors, columns, strict=True))}
        known = {_at(part, point): matrix for part, matrix in given.items()}
        value = _computed(node.body, point, known)[0, 0]
        scores[(j, i) if node.axis == 1 else (i, j)] = value
    return scores


@rule(PositionBias)
def bias_of_each_pair(node: PositionBias, values: Values, point: Point) -> Matrix:
    """The number at every pair of positions."""
    bias = np.empty(point.shape(node), dtype=object)
    names = [position.name for position in node.positions]
    for place in np.ndindex(*bias.shape):
        at = place if node.axis == 0 else place[::-1]
        scalars = {**point.scalars, **dict(zip(names, at, strict=True))}
        bias[place] = scalar_value(node.body, replace(point, scalars=scalars))
    return bias


def _map(matrix: Matrix, function: Callable[[Any], Any]) -> Matrix:
    result = np.empty_like(matrix)
    for place, value in np.ndenumerate(matrix):
        result[place] = function(value)
    return result
