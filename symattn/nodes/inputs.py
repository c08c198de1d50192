"""Inputs and constants: named matrices and vectors, ones, identities.

A symbol is its name *and* its sizes: ``Q ∈ M^{d_k×n}`` and ``Q ∈ M^{n×d_k}`` are two symbols.
"""

from __future__ import annotations

from typing import Any, cast

from sympy.core.symbol import Str

from symattn.meaning.form import ONE, Entry, Form, Place, Same, Truth
from symattn.nodes.arrays import ArrayContext, size_code
from symattn.nodes.core import Agreement, Arguments, Node
from symattn.nodes.sizes import expression_of, size_of
from symattn.notation.names import check_name, identifier
from symattn.notation.rows import Binding, Kind, Notation
from symattn.tags import Size


class InputMatrix(Node):
    """A named matrix; build one with `matrix`."""

    notation = Notation(Kind.SYMBOL, Binding.ATOM)
    is_input = True
    is_sized = True

    @classmethod
    def _accept(cls, name: Any, rows: Any, columns: Any) -> Arguments:
        label = check_name(name.name if isinstance(name, Str) else name)
        return Str(label), expression_of(size_of(rows)), expression_of(size_of(columns))

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        return size_of(operands[1]), size_of(operands[2])

    @property
    def name(self) -> str:
        """The name of the matrix."""
        return cast(Str, self.args[0]).name

    @property
    def label(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The name, as a printer asks for it."""
        return self.name

    def meaning(self, row: Place, column: Place) -> Form:
        """``T[i, j]``."""
        return Entry(self.name, self.sizes, (row, column))

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return the array itself."""
        return identifier(self.name)


class InputVector(InputMatrix):
    """A named column vector; build one with `vector`."""

    @classmethod
    def _accept(cls, name: Any, rows: Any, columns: Any = 1) -> Arguments:
        return super()._accept(name, rows, columns)

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        return size_of(operands[1]), Size.of(1)


class Ones(Node):
    """A matrix of ones; build one with `ones`."""

    notation = Notation(Kind.ONES, Binding.ATOM)
    is_sized = True

    @classmethod
    def _accept(cls, rows: Any, columns: Any) -> Arguments:
        return expression_of(size_of(rows)), expression_of(size_of(columns))

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        return size_of(operands[0]), size_of(operands[1])

    def meaning(self, row: Place, column: Place) -> Form:
        """``1``."""
        return ONE

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return a new array of ones."""
        rows, columns = (size_code(size, context) for size in self.sizes)
        return f"{context.call('ones')}(({rows}, {columns}), dtype={context.dtype})"


class IdentityMatrix(Node):
    """An identity matrix; build one with `identity`."""

    notation = Notation(Kind.IDENTITY, Binding.ATOM)
    is_sized = True

    @classmethod
    def _accept(cls, order: Any) -> Arguments:
        return (expression_of(size_of(order)),)

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        return size_of(operands[0]), size_of(operands[0])

    def meaning(self, row: Place, column: Place) -> Form:
        """``[i = j]``."""
        return Truth(Same(row, column)) if row or column else ONE

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return a new identity array."""
        return f"{context.call('eye')}({size_code(self.sizes[0], context)}, dtype={context.dtype})"


def matrix(name: str, rows: Any, columns: Any) -> InputMatrix:
    """Return a named matrix with tagged numbers of rows and columns.

    >>> import symattn as sa
    >>> d_k, n = sa.dims("d_k n")
    >>> Q = sa.matrix("Q", d_k, n)
    >>> Q.shape
    (d_k, n)

    Sizes are tags, positive integers or arithmetic of them (``h*d_k``).  Raises `NameSyntaxError`
    and `SizeError` for what is no name or size.
    """
    return InputMatrix(name, rows, columns)


def vector(name: str, size: Any) -> InputVector:
    """Return a named column vector, of shape (size, 1).

    >>> import symattn as sa
    >>> sa.vector("v", sa.dim("d_k")).shape
    (d_k, 1)

    Generated functions take it as an array of shape (…, size).  Raises `NameSyntaxError` and
    `SizeError` for what is no name or size.
    """
    return InputVector(name, size)


def ones(rows: Any, columns: Any) -> Ones:
    """Return the matrix of ones, with which a bias is broadcast: ``b @ ones(1, n)``.

    >>> import symattn as sa
    >>> d, n = sa.dims("d n")
    >>> (sa.matrix("X", d, n) + sa.vector("b", d) @ sa.ones(1, n)).shape
    (d, n)

    Raises `SizeError` for what is no size.
    """
    return Ones(rows, columns)


def identity(order: Any) -> IdentityMatrix:
    """Return the identity matrix of that order.

    >>> import symattn as sa
    >>> sa.identity(sa.dim("n")).shape
    (n, n)

    Raises `SizeError` for what is no size.
    """
    return IdentityMatrix(order)
