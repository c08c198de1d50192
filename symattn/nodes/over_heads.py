"""Heads: what is written for one index, stacked or summed over all, and one block of a merged axis.

``heads(E, i, axis=0)`` puts the h matrices that E is for i = 0, …, h−1 one on top of the other:
Concat(head_1, …, head_h).  The axis is merged, head-major: row p is row ``p mod d_v`` of head
``p div d_v``.  ``head(X, i, axis=0)`` is the way back, the i-th of h blocks of rows, and
``sum_over(E, i)`` is Σ_i.

Invariant: an index that is bound here is bound nowhere else in the formula's meaning, whatever
stands around it: the body is read at places of its own, which are replaced together with the index.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, cast

import sympy

from symattn.errors import AxisError, HeadsError, NotAnOperandError
from symattn.meaning.form import Form, Place, components, indices_of, place, sum_over as sum_of
from symattn.meaning.substitution import substitute
from symattn.nodes.arrays import ArrayContext, arranged, let, size_code
from symattn.nodes.core import Agreement, Arguments, Node, as_matrix
from symattn.nodes.fixes import facts
from symattn.nodes.indices import AxisIndex
from symattn.notation.code import brief
from symattn.notation.rows import Binding, Kind, Notation
from symattn.tags import Size


class _OverIndex(Node):
    """What is made from one matrix for each value of an index."""

    @property
    def index(self) -> AxisIndex:
        """The index."""
        return cast(AxisIndex, self.args[1])

    @property
    def operands(self) -> Arguments:
        """The matrix alone; the index is not an operand."""
        return self.matrices

    @property
    def extents(self) -> tuple[Size, ...]:
        """Its own sizes, and that of the index."""
        return (*self.sizes, self.index.size)

    def rebuilt(self, change: Callable[[Node], Node]) -> Node:
        """Return the same of the changed matrix."""
        changed = change(self.matrices[0])
        return self if changed is self.matrices[0] else self.of(changed)

    def of(self, matrix: Node) -> Node:
        """Return the same of another matrix."""
        return type(self)(matrix, *self.args[1:])

    def _read(self, head: Place, row: Place, column: Place) -> Form:
        """Return the entry of the body at these places, for the head at a place."""
        body = self.matrices[0]
        at = tuple(place(size) for size in body.sizes)
        to = dict.fromkeys(indices_of(self.index.place), head)
        for own, wanted in zip(at, (row, column), strict=True):
            to |= dict.fromkeys(indices_of(own), wanted)
        return substitute(body.meaning(*at), {}, indices=to)


class Heads(_OverIndex):
    """``Concat_i(E)``; build one with `heads`."""

    notation = Notation(Kind.HEADS, Binding.ATOM)
    is_view = True

    @classmethod
    def _accept(cls, body: Any, index: Any, axis: Any) -> Arguments:
        matrix = as_matrix(body, "heads")
        return matrix, _index("heads", matrix, index), _axis("heads", matrix, index, axis)

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        body, index, axis = operands
        count = cast(AxisIndex, index).size
        rows, columns = cast(Node, body).sizes
        return (count * rows, columns) if axis == 0 else (rows, count * columns)

    @property
    def axis(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """0 if the heads stand one on top of the other, 1 if side by side."""
        return int(cast(sympy.Integer, self.args[2]))

    @property
    def binds(self) -> tuple[AxisIndex, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The index that it runs over."""
        return (self.index,)

    def along(self, matrix: Node, axis: int) -> Node:
        """Return the heads of a matrix along an axis."""
        return type(self)(matrix, self.index, sympy.Integer(axis), *self.args[3:])

    def meaning(self, row: Place, column: Place) -> Form:
        """``E_i[r, j]`` where the row is (i, r)."""
        at = [row, column]
        sizes = self.index.size, self.matrices[0].sizes[self.axis]
        head, at[self.axis] = components(at[self.axis], sizes)
        return self._read(head, at[0], at[1])

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return the heads with their axis merged into that of the rows or of the columns."""
        rows, columns = (size_code(size, context) for size in self.sizes)
        turned = ".swapaxes(-3, -2)" if self.axis == 1 else ""
        if self.index in self.inner_indices:
            each = _at_end(self, operands[0], context)
        else:
            count = size_code(self.index.size, context)
            each = f"{operands[0]}[..., None, :, :].repeat({count}, -3)"
        return let(
            each,
            lambda x: f"{x}{turned}.reshape({x}.shape[:-3] + ({rows}, {columns}))",
        )


class SumOver(_OverIndex):
    """``Σ_i E``; build one with `sum_over`."""

    notation = Notation(Kind.SUM_OVER, Binding.HADAMARD)

    @classmethod
    def _accept(cls, body: Any, index: Any) -> Arguments:
        matrix = as_matrix(body, "sum_over")
        return matrix, _index("sum_over", matrix, index)

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        return cast(Node, operands[0]).sizes

    @property
    def binds(self) -> tuple[AxisIndex, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The index that it runs over."""
        return (self.index,)

    def meaning(self, row: Place, column: Place) -> Form:
        """``Σ_i E_i[r, j]``."""
        head = place(self.index.size, self.index.name)
        return sum_of(head, self._read(head, row, column))

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return the sum along the axis of the index."""
        return f"{_at_end(self, operands[0], context)}.sum(axis=-3)"


class Head(_OverIndex):
    """Block i of an axis; build one with `head`."""

    notation = Notation(Kind.HEAD, Binding.POWER)
    is_view = True

    @classmethod
    def _accept(cls, whole: Any, index: Any, axis: Any) -> Arguments:
        matrix = as_matrix(whole, "head")
        return matrix, _index("head", matrix, index), _axis("head", matrix, index, axis)

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        whole, index, axis = cast(Node, operands[0]), cast(AxisIndex, operands[1]), operands[2]
        sizes = list(whole.sizes)
        at = 0 if axis == 0 else 1
        part = agreement.divided(sizes[at], index.size)
        if part is None:
            raise HeadsError(
                brief(whole), ("rows", "columns")[at], sizes[at], index.name, index.size
            )
        sizes[at] = part
        return sizes[0], sizes[1]

    @property
    def axis(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """0 if it is a block of rows, 1 if one of columns."""
        return int(cast(sympy.Integer, self.args[2]))

    @property
    def reads(self) -> tuple[AxisIndex, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The index that says which block."""
        return (self.index,)

    def along(self, matrix: Node, axis: int) -> Node:
        """Return the block of a matrix along an axis."""
        return type(self)(matrix, self.index, sympy.Integer(axis), *self.args[3:])

    def meaning(self, row: Place, column: Place) -> Form:
        """``X[(i, r), j]``."""
        at = [row, column]
        at[self.axis] = self.index.place + at[self.axis]
        return self.matrices[0].meaning(at[0], at[1])

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return the axis split, with that of the index in front of rows and columns."""
        whole = self.matrices[0]
        count, part = (size_code(s, context) for s in (self.index.size, self.sizes[self.axis]))
        split = (
            "{x}.reshape({x}.shape[:-2] + ({count}, {part}) + {x}.shape[-1:])",
            "{x}.reshape({x}.shape[:-1] + ({count}, {part})).swapaxes(-3, -2)",
        )[self.axis]
        code = let(operands[0], lambda x: split.format(x=x, count=count, part=part))
        axes = context.axes(whole.indices)
        if self.index not in axes:
            return arranged(code, (*axes, self.index), self.indices, context)
        # The block of each value's own matrix: a diagonal, which comes out as the last axis.
        at = axes.index(self.index) - len(axes) - 3
        diagonal = f"{code}.diagonal(axis1={at}, axis2=-3).copy()"  # it would be read-only
        moved = f"{context.call('moveaxis')}({diagonal}, -1, -3)"
        others = tuple(index for index in axes if index != self.index)
        return arranged(moved, (*others, self.index), self.indices, context)


def _at_end(node: _OverIndex, code: str, context: ArrayContext) -> str:
    """Return the source of a matrix for each value of an index, its axis right before the rows."""
    index, body = node.index, node.matrices[0]
    if index not in body.indices:  # the same matrix each time
        count = size_code(index.size, context)
        return let(
            f"{code}[..., None, :, :]",
            lambda x: (
                f"{context.call('broadcast_to')}({x}, {x}.shape[:-3] + ({count},) + {x}.shape[-2:])"
            ),
        )
    axes = context.axes(body.indices)
    at = axes.index(index) - len(axes) - 2
    return code if at == -3 else f"{context.call('moveaxis')}({code}, {at}, -3)"


def _index(call: str, matrix: Node, index: Any) -> AxisIndex:
    if isinstance(index, AxisIndex):
        return index
    raise NotAnOperandError(
        brief(index), f'{call}({brief(matrix)}, …) takes an index, made with sa.index("i", h)'
    )


def _axis(call: str, matrix: Node, index: Any, axis: Any) -> sympy.Integer:
    if isinstance(axis, bool) or not isinstance(axis, Integral) or axis not in (0, 1):
        raise AxisError(
            f"{call}({brief(matrix)}, {brief(index)}, axis={brief(axis)})",
            facts((matrix,)),
            "an axis is 0 (along the rows, one on top of the other) or 1 (side by side)",
        )
    return sympy.Integer(int(axis))


def heads(body: Any, index: Any, *, axis: int) -> Node:
    """Return the matrices that a formula is for each value of an index, as one: Concat over heads.

    >>> import symattn as sa
    >>> h, d_v, d, n = sa.dims("h d_v d n")
    >>> W, X, i = sa.family("W^V", h, d_v, d), sa.matrix("X", d, n), sa.index("i", h)
    >>> sa.heads(W[i] @ X, i, axis=0).shape
    (d_v*h, n)

    With ``axis=0`` they stand one on top of the other, with ``axis=1`` side by side.  The axis is
    head-major: all of head 0, then all of head 1.  Raises `AxisError` for any other axis, and
    `NotAnOperandError` for what is no matrix or no index.
    """
    return Heads(body, index, axis)


def sum_over(body: Any, index: Any) -> Node:
    """Return the sum of a formula over all values of an index, Σ_i.

    >>> import symattn as sa
    >>> h, d_v, d, n = sa.dims("h d_v d n")
    >>> W, X, i = sa.family("W^V", h, d_v, d), sa.matrix("X", d, n), sa.index("i", h)
    >>> sa.sum_over(W[i] @ X, i).shape
    (d_v, n)

    Raises `NotAnOperandError` for what is no matrix or no index.
    """
    return SumOver(body, index)


def head(whole: Any, index: Any, *, axis: int) -> Node:
    """Return one block of a matrix whose rows (``axis=0``) or columns (``axis=1``) are heads.

    >>> import symattn as sa
    >>> h, d_k, d, n = sa.dims("h d_k d n")
    >>> W, X, i = sa.matrix("W^Q", h * d_k, d), sa.matrix("X", d, n), sa.index("i", h)
    >>> sa.head(W @ X, i, axis=0).shape
    (d_k, n)

    Block i are rows i·d_k up to (i + 1)·d_k, without the last.  The count has to divide the axis,
    by itself or by a declared relation: with ``sa.assuming("d_model = h*d_k")`` for an axis of
    d_model.  Raises `HeadsError` if it does not.
    """
    return Head(whole, index, axis)
