"""The same entries, row by row, in another shape.

``reshape(X, h*n, d)`` is what NumPy and PyTorch do to an array (n, h·d): it moves no entry in
memory, and so it tears rows apart where people mean to split the features into heads.  That is
what `head` does.
"""

from __future__ import annotations

from typing import Any, cast

from symattn.errors import ShapeError
from symattn.meaning.form import Form, Place, components
from symattn.nodes.arrays import ArrayContext, let, size_code
from symattn.nodes.core import Agreement, Arguments, Node, as_matrix
from symattn.nodes.fixes import facts
from symattn.nodes.sizes import expression_of, size_of
from symattn.notation.code import brief
from symattn.notation.rows import Binding, Kind, Notation
from symattn.tags import Size


class Reshaped(Node):
    """X in another shape, row-major; build one with `reshape`."""

    notation = Notation(Kind.RESHAPE, Binding.APPLICATION)
    is_view = True

    @classmethod
    def _accept(cls, whole: Any, rows: Any, columns: Any) -> Arguments:
        sizes = (expression_of(size_of(size)) for size in (rows, columns))
        return as_matrix(whole, "reshape"), *sizes

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        whole = cast(Node, operands[0])
        rows, columns = size_of(operands[1]), size_of(operands[2])
        before = whole.sizes[0] * whole.sizes[1]
        if not agreement(before, rows * columns):
            raise ShapeError(
                f"reshape({brief(whole)}, {rows}, {columns})",
                facts((whole,)),
                f"{brief(whole)} has {before} entries, but {rows}×{columns} are {rows * columns}",
            )
        return rows, columns

    @property
    def operands(self) -> Arguments:
        """The matrix alone; sizes are no operands."""
        return self.matrices

    def rebuilt(self, change: Any) -> Node:
        """Return the changed matrix in the same shape."""
        changed = change(self.matrices[0])
        return self if changed is self.matrices[0] else type(self)(changed, *self.args[1:])

    def meaning(self, row: Place, column: Place) -> Form:
        """The entry of X that is as far from its beginning, row by row."""
        inner = self.matrices[0]
        return inner.meaning(*components((*row, *column), inner.sizes))

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return the array in the new shape."""
        rows, columns = (size_code(size, context) for size in self.sizes)
        return let(operands[0], lambda x: f"{x}.reshape({x}.shape[:-2] + ({rows}, {columns}))")


def reshape(whole: Any, rows: Any, columns: Any) -> Node:
    """Return the entries of a matrix, row by row, in another shape, as NumPy reshapes an array.

    >>> import symattn as sa
    >>> h, d, n = sa.dims("h d n")
    >>> sa.reshape(sa.matrix("X", n, h * d), h * n, d).shape
    (h*n, d)

    This does not split features into heads: use `head`.  Raises `ShapeError` unless both shapes
    have as many entries.

    A proof reads the axes of a reshape in parts.  Where both readings, before and after, have a
    common refinement, equality is decided: reshaped there and back, X is proved to be X.  Where
    they have none, as for 2×3 entries in the shape 3×2, a counterexample is sought, and without one
    the verdict is "undecided".
    """
    return Reshaped(whole, rows, columns)
