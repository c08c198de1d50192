"""Biases by position: a number for every query and key from where they stand.

``positional(lambda i, j: -slope * (i - j), n, m)`` has an entry for the query at position i and the
key at position j, both counted from 0.  The positions are bound, as the i of Σ_i is.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
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
from symattn.nodes.arrays import ArrayContext, scalar_code, size_code
from symattn.nodes.core import Agreement, Arguments, Node, as_operand
from symattn.nodes.pairs import QUERY_AXIS
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
    >>> n, m = sa.dims("n m")
    >>> slope = sa.scalar("slope")
    >>> print(sa.text(sa.positional(lambda i, j: -slope * (i - j), n, m)))
    [-slope (i - j)]_{j,i}

    i is the query's position and j the key's, from 0.  In column layout the matrix is keys by
    queries, in row layout queries by keys.  Raises `NotAnOperandError` for what is no number.
    """
    if layout not in QUERY_AXIS:
        raise UnknownNameError("layout", str(layout), tuple(QUERY_AXIS))
    try:
        signature(bias).bind(0, 0)
    except (TypeError, ValueError):
        asked = "a bias takes two positions: bias=lambda i, j: -slope * (i - j)"
        raise OperationRefusedError("a bias that does not take two positions", asked) from None
    i, j = PositionSymbol("i"), PositionSymbol("j")
    value = _number(bias, i, j)
    taken = {str(symbol) for symbol in value.free_symbols - {i, j}}
    while not taken.isdisjoint((i.name, j.name)):
        i, j = PositionSymbol(i.name + "'"), PositionSymbol(j.name + "'")
        value = _number(bias, i, j)
    return PositionBias(value, i, j, queries, keys, QUERY_AXIS[layout])


def _number(bias: Callable[[Any, Any], Any], i: PositionSymbol, j: PositionSymbol) -> sympy.Expr:
    """Return what a bias says of two positions, or raise for what is no number."""
    given = bias(i, j)
    if isinstance(given, str):
        raise TextRefusedError("a bias", given)
    value = None if isinstance(given, Node) else as_scalar(given)
    if value is None:
        reason = "a bias returns a number from the positions, as in -slope * (i - j)"
        raise NotAnOperandError(brief(given), reason)
    return value
