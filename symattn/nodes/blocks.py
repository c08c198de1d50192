"""Direct sums: matrices side by side, or one on top of the other.

``concat(q, k, axis=0)`` is the column ``[q; k]``, of size ``d_q + d_k``; ``concat(A, B, axis=1)``
is the matrix ``[A B]``.  The axis keeps its parts in order: ``[q; k]`` is not ``[k; q]``.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, cast

import sympy

from symattn.errors import AxisError, OperationRefusedError, ShapeError
from symattn.meaning.form import Block, Blocks, Form, Place, place
from symattn.nodes.arrays import ArrayContext
from symattn.nodes.core import Agreement, Arguments, Node, as_matrix
from symattn.nodes.fixes import facts
from symattn.notation.code import brief
from symattn.notation.rows import Binding, Kind, Notation
from symattn.tags import Size


class Concat(Node):
    """``[A; B]`` (axis 0) or ``[A B]`` (axis 1); build one with `concat`."""

    notation = Notation(Kind.CONCAT, Binding.ATOM)
    only_finite = "parts are finite; write one mask of all keys, and add it to the whole"

    @classmethod
    def _accept(cls, axis: Any, *parts: Any) -> Arguments:
        matrices = tuple(as_matrix(part, "concat") for part in parts)
        if isinstance(axis, bool) or not isinstance(axis, Integral) or axis not in (0, 1):
            written = ", ".join(brief(part) for part in matrices)
            raise AxisError(
                f"concat({written}, axis={brief(axis)})",
                facts(matrices),
                "an axis is 0 (one on top of the other) or 1 (side by side)",
            )
        return sympy.Integer(int(axis)), *matrices

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        axis = int(cast(sympy.Integer, operands[0]))
        first, *others = cast(tuple[Node, ...], operands[1:])
        for other in others:
            if not agreement(first.sizes[1 - axis], other.sizes[1 - axis]):
                across = ("rows", "columns")[1 - axis]
                raise ShapeError(
                    f"concat({', '.join(map(brief, (first, *others)))}, axis={axis})",
                    facts((first, other)),
                    f"the {across} of {brief(first)} are {first.sizes[1 - axis]}, "
                    f"but those of {brief(other)} are {other.sizes[1 - axis]}",
                )
        total = sum((part.sizes[axis] for part in (first, *others)), start=Size.of(0))
        return (total, first.sizes[1]) if axis == 0 else (first.sizes[0], total)

    @property
    def axis(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """0 if the parts stand one on top of the other, 1 if side by side."""
        return int(cast(sympy.Integer, self.args[0]))

    @property
    def matrices(self) -> tuple[Node, ...]:
        """The parts, in order."""
        return tuple(part for part in self.args if isinstance(part, Node))

    @property
    def operands(self) -> Arguments:
        """The parts alone; the axis is not an operand."""
        return self.matrices

    def rebuilt(self, change: Callable[[Node], Node]) -> Node:
        """Return the changed parts, stacked alike."""
        changed = [change(part) for part in self.matrices]
        if all(new is old for new, old in zip(changed, self.matrices, strict=True)):
            return self
        return type(self)(self.args[0], *changed)

    def meaning(self, row: Place, column: Place) -> Form:
        """``A[i, j]`` for i < a, and ``B[i − a, j]`` from there on."""
        parts: list[Block] = []
        for part in self.matrices:
            size = part.sizes[self.axis]
            within = place(size)
            at = (within, column) if self.axis == 0 else (row, within)
            parts.append(Block(size, within, part.meaning(*at)))
        return Blocks((row, column)[self.axis], tuple(parts))

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return the parts, their batch axes broadcast, concatenated."""
        corners = ", ".join(f"({part})[..., :1, :1]" for part in operands)
        batch = f"{context.call('broadcast_arrays')}({corners})[0].shape[:-2]"
        wide = f"{context.call('broadcast_to')}(part, {batch} + part.shape[-2:])"
        parts = f"[{wide} for part in ({', '.join(operands)})]"
        return f"{context.call('concatenate')}({parts}, axis={self.axis - 2})"


def concat(*parts: Any, axis: int) -> Node:
    """Return matrices one on top of the other (``axis=0``) or side by side (``axis=1``).

    >>> import symattn as sa
    >>> d, a = sa.dims("d a")
    >>> q, k = sa.vector("q", d), sa.vector("k", a)
    >>> sa.concat(q, k, axis=0).shape
    (a + d, 1)

    The sizes along the axis add up, those along the other are equal.  Raises `ShapeError` if they
    are not, and `AxisError` for any other axis.
    """
    if len(parts) == 1 and isinstance(parts[0], list | tuple):
        advice = "give them one by one: concat(A, B, axis=0)"
        raise OperationRefusedError(f"concat of {brief(parts[0])}", advice)
    if len(parts) < 2:
        raise OperationRefusedError("concat of fewer than two matrices", "give two or more")
    return Concat(axis, *parts)
