"""Biases by position: a number for every query and key from where they stand.

``positional(lambda i, j: -slope * (i - j), n, m)`` has an entry for the query at position i and the
key at position j, both counted from 0.  The positions are bound, as the i of Σ_i is.  Where it is
linear in matrices of one entry, such as the slope of each head, it becomes those times numbers that
the positions alone tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import signature
from itertools import product
from typing import Any, cast

import sympy

from symattn.errors import (
    NotAnOperandError,
    OperationRefusedError,
    TextRefusedError,
    UnknownNameError,
)
from symattn.meaning.form import Form, Parameter, Place, Position
from symattn.meaning.substitution import substitute
from symattn.nodes.algebra import Hadamard, MatrixSum, Negated, Quotient
from symattn.nodes.arrays import ArrayContext, scalar_code, size_code
from symattn.nodes.core import Agreement, Arguments, Node, as_operand
from symattn.nodes.inputs import Ones
from symattn.nodes.pairs import QUERY_AXIS
from symattn.nodes.products import MatrixProduct
from symattn.nodes.scalars import PositionSymbol, as_scalar, scalar_form
from symattn.nodes.sizes import expression_of, size_of
from symattn.notation.code import brief
from symattn.notation.rows import Binding, Kind, Notation, Printable
from symattn.tags import Size


class PositionBias(Node):
    """A matrix from the positions of queries and keys; build one with `positional`."""

    notation = Notation(Kind.POSITIONS, Binding.ATOM)

    @classmethod
    def _accept(cls, body: Any, i: Any, j: Any, queries: Any, keys: Any, axis: Any) -> Arguments:
        sizes = (expression_of(size_of(size)) for size in (queries, keys))
        return as_operand(body), i, j, *sizes, sympy.Integer(int(axis))

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        queries, keys = size_of(operands[3]), size_of(operands[4])
        return (keys, queries) if operands[5] == 1 else (queries, keys)

    @property
    def axis(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """1 if the columns are queries, 0 if the rows are."""
        return int(cast(sympy.Integer, self.args[5]))

    @property
    def body(self) -> sympy.Expr:
        """The number at the two positions."""
        return cast(sympy.Expr, self.args[0])

    @property
    def positions(self) -> tuple[PositionSymbol, PositionSymbol]:
        """The positions of the query and of the key."""
        return cast(tuple[PositionSymbol, PositionSymbol], self.args[1:3])

    @property
    def label(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The two positions, as a printer asks for them: the query's, then the key's."""
        return ",".join(position.name for position in self.positions)

    @property
    def operands(self) -> Arguments:
        """None: the number is read at positions, and has no value by itself."""
        return ()

    @property
    def values(self) -> Arguments:
        """The number at the two positions."""
        return (self.body,)

    @property
    def parts(self) -> tuple[Printable | Form, ...]:
        """The number at the two positions."""
        return (scalar_form(self.body),)

    def turned(self) -> Node:
        """Return the same numbers in the other layout."""
        return type(self)(*self.args[:5], 1 - self.axis)

    def rebuilt(self, change: Callable[[Node], Node]) -> Node:
        """Return the node itself: no matrix is in it."""
        return self

    def meaning(self, row: Place, column: Place) -> Form:
        """The number, with the positions of the row and the column in it."""
        at = (column, row) if self.axis == 1 else (row, column)
        return self.read(tuple(Position(place) for place in at))

    def read(self, forms: tuple[Form, ...]) -> Form:
        """Return the number where the positions of the query and the key are these."""
        names = (position.name for position in self.positions)
        readings = {
            name: lambda at, form=form: form for name, form in zip(names, forms, strict=True)
        }
        return substitute(scalar_form(self.body), {}, readings)

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return a function of the two positions, called with arrays of them."""
        names = self.label.replace(",", ", ").replace("'", "_prime")
        arguments = ", ".join(self.arange_code(context))
        return f"(lambda {names}: {self.bias_code(self.parts[0], context)})({arguments})"

    def arange_code(self, context: ArrayContext) -> tuple[str, str]:
        """Return the source of the positions of queries and of keys, each along its axis."""
        sizes = (size_code(size_of(size), context) for size in self.args[3:5])
        along = ("[:, None]", "[None, :]") if self.axis == 0 else ("[None, :]", "[:, None]")
        queries, keys = (
            f"{context.call('arange')}({size}, dtype={context.dtype}){axes}"
            for size, axes in zip(sizes, along, strict=True)
        )
        return queries, keys

    def bias_code(self, form: Any, context: ArrayContext) -> str:
        """Return the source of the matrix, its positions being arrays named in the form."""
        arrays = ArrayContext(context.call, context.extent, context.dtype, context.call)
        code = scalar_code(form, arrays)
        if set(self.positions) <= self.body.free_symbols:
            return code
        rows, columns = (size_code(size, context) for size in self.sizes)
        return f"({code} + {context.call('zeros')}(({rows}, {columns}), dtype={context.dtype}))"

    def named(self, names: tuple[str, str]) -> Form:
        """Return the number with its positions called by these names."""
        return self.read(tuple(Parameter(name) for name in names))


def positional(bias: Any, queries: Any, keys: Any, *, layout: str = "column") -> Node:
    """Return the matrix of a number for every query and key, from their positions.

    >>> import symattn as sa
    >>> n, m, h = sa.dims("n m h")
    >>> slope = sa.scalar("slope")
    >>> print(sa.text(sa.positional(lambda i, j: -slope * (i - j), n, m)))
    [-slope (i - j)]_{j,i}

    A number may be linear in matrices of one entry, such as a slope for each head:

    >>> slopes, i = sa.family("slope", h, 1, 1), sa.index("i", h)
    >>> print(sa.text(sa.positional(lambda a, b: slopes[i] * (b - a), n, m, layout="row")))
    1_{n×1} slope_i · 1_{1×m} ∘ [-i' + j']_{i',j'}

    i is the query's position and j the key's, from 0.  In column layout the matrix is keys by
    queries, in row layout queries by keys.  Raises `NotAnOperandError` for what is no number, and
    `OperationRefusedError` for what is not linear in a matrix of one entry.
    """
    if layout not in QUERY_AXIS:
        raise UnknownNameError("layout", str(layout), tuple(QUERY_AXIS))
    axis = QUERY_AXIS[layout]
    if not callable(bias) and hasattr(bias, "__array__"):
        rows, columns = (keys, queries) if axis == 1 else (queries, keys)
        reason = "arrays are given when the generated function is called; for a matrix of biases "
        reason += f'write bias=sa.matrix("B", {rows}, {columns})'
        raise NotAnOperandError(brief(bias), reason)
    try:
        signature(bias).bind(0, 0)
    except (TypeError, ValueError):
        asked = "a bias takes two positions: bias=lambda i, j: -slope * (i - j)"
        raise OperationRefusedError("a bias that does not take two positions", asked) from None
    i, j = PositionSymbol("i"), PositionSymbol("j")
    numbers = _numbers(bias, i, j)
    taken = {
        str(symbol)
        for factor, number in numbers.items()
        for symbol in (*(number.free_symbols - {i, j}), *(factor.indices if factor else ()))
    }
    while not taken.isdisjoint((i.name, j.name)):
        i, j = PositionSymbol(i.name + "'"), PositionSymbol(j.name + "'")
        numbers = _numbers(bias, i, j)
    terms: list[Node] = []
    for factor, number in numbers.items():
        by_position = PositionBias(number, i, j, queries, keys, axis)
        rows, columns = by_position.sizes
        if factor is None:
            terms.append(by_position)
            continue
        everywhere = Ones(rows, Size.of(1)) @ factor @ Ones(Size.of(1), columns)
        if number.free_symbols.isdisjoint((i, j)):
            terms.append(everywhere if number == 1 else MatrixProduct(number, everywhere))
        else:
            terms.append(Hadamard(everywhere, by_position))
    return terms[0] if len(terms) == 1 else MatrixSum(*terms)


_Numbers = dict[Node | None, sympy.Expr]
"""A bias: matrices of one entry, or None for one, each with the number that is its factor."""


def _numbers(bias: Callable[[Any, Any], Any], i: PositionSymbol, j: PositionSymbol) -> _Numbers:
    """Return what a bias says of two positions, or raise for what is no number."""
    try:
        given = bias(i, j)
    except TypeError as error:
        if "ufunc" not in str(error):
            raise
        written = "a bias with a function of NumPy"
        raise OperationRefusedError(written, "write symattn's own, as in sa.exp(i - j)") from None
    if isinstance(given, str):
        raise TextRefusedError("a bias", given)
    if isinstance(given, Node) and all(size.is_one for size in given.sizes):
        return {factor: n for factor, n in _linear(given).items() if n != 0} or {None: _ZERO}
    value = None if isinstance(given, Node) else as_scalar(given)
    if value is None:
        reason = "a bias returns a number from the positions, as in -slope * (i - j)"
        if isinstance(given, Node):
            rows, columns = given.sizes
            reason += f"; this is a matrix of {rows} rows and {columns} columns"
        raise NotAnOperandError(brief(given), reason)
    return {None: value}


_ZERO, _ONE = sympy.Integer(0), sympy.Integer(1)


def _linear(node: Node) -> _Numbers:
    """Return a matrix of one entry as a sum of others without positions, times numbers."""
    found: _Numbers = {}
    match node:
        case Ones():
            return {None: _ONE}
        case Negated():
            return {factor: -number for factor, number in _linear(node.matrices[0]).items()}
        case _ if not any(_has_positions(value) for part in node.walk() for value in part.values):
            return {node: _ONE}
        case Quotient():
            inner, over = _linear(node.matrices[0]), cast(sympy.Expr, node.operands[1])
            return {factor: number / over for factor, number in inner.items()}
        case MatrixSum():
            for term in node.matrices:
                for factor, number in _linear(term).items():
                    found[factor] = found.get(factor, _ZERO) + number
            return found
        case MatrixProduct() | Hadamard() if all(
            size.is_one for part in node.matrices for size in part.sizes
        ):
            scalars = (scalar for scalar in node.operands if not isinstance(scalar, Node))
            found = {None: sympy.Mul(*cast(Iterator[sympy.Expr], scalars))}
            for part in node.matrices:
                pairs = product(found.items(), _linear(part).items())
                found = {}
                for (left, number), (right, other) in pairs:
                    both = left @ right if left is not None and right is not None else left or right
                    found[both] = found.get(both, _ZERO) + number * other
            return found
        case _:
            raise OperationRefusedError(
                f"a bias by position with {brief(node)}",
                "of matrices of one entry a bias is a sum, each times numbers of the positions, "
                "as in slope[i] * (a - b)",
            )


def _has_positions(value: sympy.Basic) -> bool:
    return any(isinstance(symbol, PositionSymbol) for symbol in value.free_symbols)
