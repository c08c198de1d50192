"""Softmax and maximum along an axis.

The axis is never guessed: ``axis=0`` runs down each column (columns sum to one), ``axis=1`` along
each row, and ``over=`` names the tag that is summed over.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, cast

import sympy

from symattn.errors import AxisError
from symattn.meaning.form import (
    MINUS_ONE,
    Add,
    Apply,
    Form,
    Index,
    Maximum,
    Mul,
    Place,
    Softmax as SoftmaxForm,
)
from symattn.nodes.arrays import ArrayContext
from symattn.nodes.core import Agreement, Arguments, Node, as_matrix
from symattn.nodes.fixes import facts
from symattn.nodes.given import in_force
from symattn.nodes.sizes import size_of
from symattn.notation.code import brief
from symattn.notation.rows import Binding, Kind, Notation
from symattn.tags import Size

_EVERY = ("every column", "every row")


class _AlongAxis(Node):
    """An operation along one axis of a matrix: arguments are the matrix and the axis."""

    call: ClassVar[str]
    """The function that builds it."""

    @classmethod
    def _accept(cls, operand: Any, axis: Any) -> Arguments:
        matrix = as_matrix(operand, cls.call)
        if isinstance(axis, bool) or not isinstance(axis, Integral) or axis not in (0, 1):
            raise _axis_error(matrix, cls.call, f"axis={brief(axis)}", "an axis is 0 or 1")
        return matrix, sympy.Integer(int(axis))

    @property
    def axis(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """0 if it runs down each column, 1 if along each row."""
        return int(cast(sympy.Integer, self.args[1]))

    @property
    def operands(self) -> Arguments:
        """The matrix alone; the axis is not an operand."""
        return self.matrices

    @property
    def over(self) -> Size:
        """The size of the axis that it runs along."""
        return self.matrices[0].sizes[self.axis]

    def _bound(self, row: Place, column: Place) -> tuple[Index | None, Form, Place]:
        """Return the bound index, the entry that it runs over, and the place being read."""
        operand = self.matrices[0]
        index = None if self.over.is_one else Index(self.over)
        bound: Place = () if index is None else (index,)
        read = (row, column)[self.axis]
        entry = operand.meaning(bound, column) if self.axis == 0 else operand.meaning(row, bound)
        return index, entry, read


class Softmax(_AlongAxis):
    """``exp(x)`` normalised to sum to one along an axis."""

    notation = Notation(Kind.SOFTMAX, Binding.APPLICATION)
    call = "softmax"

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        return cast(Node, operands[0]).sizes

    def meaning(self, row: Place, column: Place) -> Form:
        """``softmax_t(X[t, j])[i]``; along an axis of size one ``e^{x - x}``, defined as x is."""
        index, entry, read = self._bound(row, column)
        if index is None:
            return Apply("exp", Add((entry, Mul((MINUS_ONE, entry)))))
        return SoftmaxForm(index, entry, read)

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return the exponentials, with the maximum subtracted, over their sum."""
        axis = self.axis - 2
        # Over an empty axis there is no maximum, and the empty weights sum to zero.
        shifted = f"x - x.max(axis={axis}, keepdims=True) if x.shape[{axis}] else x"
        return (
            f"(lambda x: (lambda e: e / e.sum(axis={axis}, keepdims=True))"
            f"({context.call('exp')}({shifted})))({operands[0]})"
        )


class MaxAlong(_AlongAxis):
    """The largest entry along an axis, whose size becomes one."""

    notation = Notation(Kind.MAXIMUM, Binding.APPLICATION)
    call = "max"

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        rows, columns = cast(Node, operands[0]).sizes
        return (Size.of(1), columns) if operands[1] == sympy.S.Zero else (rows, Size.of(1))

    def meaning(self, row: Place, column: Place) -> Form:
        """``max_t X[t, j]``."""
        index, entry, _ = self._bound(row, column)
        return entry if index is None else Maximum(index, entry)

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return the maximum with its axis kept."""
        return f"{operands[0]}.max(axis={self.axis - 2}, keepdims=True)"


def softmax(x: Any, *, axis: int | None = None, over: Any = None) -> Node:
    """Return the softmax of a matrix along one axis: exponentials over their sum.

    >>> import symattn as sa
    >>> m, n = sa.dims("m n")
    >>> S = sa.matrix("S", m, n)
    >>> sa.softmax(S, axis=0) == sa.softmax(S, over=m)
    True

    ``axis=0``: every column sums to one; ``axis=1``: every row does; ``over=`` names the size of
    the axis instead.  Raises `AxisError` if neither or both are given, if the tag is not there, or
    if it names both axes (self-attention: n × n).
    """
    return Softmax(*_along("softmax", x, axis, over))


def max(x: Any, *, axis: int | None = None, over: Any = None) -> Node:
    """Return the largest entry of every column (``axis=0``) or of every row (``axis=1``).

    >>> import symattn as sa
    >>> m, n = sa.dims("m n")
    >>> sa.max(sa.matrix("S", m, n), axis=0).shape
    (1, n)
    """
    return MaxAlong(*_along("max", x, axis, over))


def _along(call: str, x: Any, axis: int | None, over: Any) -> tuple[Node, int]:
    """Return the matrix and the axis that a call names, by number or by tag."""
    matrix = as_matrix(x, call)
    if axis is not None and over is not None:
        raise _axis_error(
            matrix, call, f"axis={brief(axis)}, over=…", "give axis= or over=, not both"
        )
    if axis is not None:
        return matrix, axis
    if over is None:
        raise _axis_error(matrix, call, "", "the axis is missing")
    wanted = size_of(over)
    relations = matrix.given.merge(in_force())
    found = [k for k in (0, 1) if relations.needed(matrix.sizes[k], wanted) is not None]
    if len(found) != 1:
        clash = f"over={wanted} names {'both axes' if found else 'neither axis'}"
        raise _axis_error(matrix, call, f"over={wanted}", clash)
    return matrix, found[0]


def _axis_error(matrix: Node, call: str, said: str, clash: str) -> AxisError:
    """Return the error for an axis that is not there, with both that are."""
    written = brief(matrix)
    choices = " or ".join(
        f"{call}({written}, axis={k}) along {_EVERY[k]}, over {matrix.sizes[k]}" for k in (0, 1)
    )
    arguments = ", ".join(filter(None, (written, said)))
    return AxisError(f"{call}({arguments})", facts((matrix,)), clash, choices)
