"""Families: one matrix for each index, such as the projections W_1, …, W_h of the heads.

A family is one input, an array with the axes of its indices in front of rows and columns; it is no
matrix.  ``W[i]`` is: the member at an index, a formula in which i is free until it is bound by
`heads` or `sum_over`.  What is written for one head so holds for all of them, for any number h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, cast

import sympy
from sympy.core.symbol import Str

from symattn.errors import FamilyIndexError, NotAnOperandError, OperationRefusedError
from symattn.meaning.form import Entry, Form, Place
from symattn.nodes.arrays import ArrayContext, arranged
from symattn.nodes.core import Agreement, Arguments, Node
from symattn.nodes.indices import AxisIndex
from symattn.nodes.inputs import InputMatrix
from symattn.nodes.sizes import Dim, expression_of, size_of
from symattn.notation.code import brief
from symattn.notation.names import check_name, identifier
from symattn.notation.rows import Binding, Kind, Notation
from symattn.tags import Size


@dataclass(frozen=True, slots=True, repr=False)
class Family:
    """A family of named matrices: an input whose first axes are indices; build one with `family`.

    ``sizes`` are those of all its axes: the counts of its members, then rows and columns.
    """

    name: str
    sizes: tuple[Size, ...]

    __array_ufunc__: ClassVar[None] = None
    """NumPy is to leave operators to this class, which refuses them."""

    @property
    def label(self) -> str:
        """The name, as a printer asks for it."""
        return self.name

    @property
    def shape(self) -> tuple[sympy.Expr, ...]:
        """The sizes of all axes as SymPy expressions, rows and columns last."""
        return tuple(map(expression_of, self.sizes))

    @property
    def counts(self) -> tuple[Size, ...]:
        """How many values each of its indices has."""
        return self.sizes[:-2]

    @property
    def tags(self) -> tuple[str, ...]:
        """The names of its tags, in order of appearance."""
        return tuple(dict.fromkeys(tag for size in self.sizes for tag in size.tags))

    @property
    def dims(self) -> tuple[Dim, ...]:
        """Its tags, in order of appearance."""
        return tuple(map(Dim, self.tags))

    @property
    def not_an_operand(self) -> str:
        """Why it cannot stand in a formula."""
        return f"it is a family of matrices; write one of them, such as {identifier(self.name)}[i]"

    def _refused(self, *_others: Any) -> NoReturn:
        raise NotAnOperandError(brief(self), self.not_an_operand)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refused
    __matmul__ = __rmatmul__ = __truediv__ = __rtruediv__ = __pow__ = _refused
    __neg__ = __pos__ = _refused

    def __getitem__(self, index: Any) -> Member:
        indices = index if isinstance(index, tuple) else (index,)
        for each in indices:
            if not isinstance(each, AxisIndex):
                raise FamilyIndexError(self.name, self.counts, tuple(map(brief, indices)))
        return Member(self.name, self.shape, indices)

    def __iter__(self) -> NoReturn:
        raise OperationRefusedError(
            f"iterating over {self.name}", f"its size is a tag; write {self.name}[i] with sa.index"
        )

    def __repr__(self) -> str:
        return identifier(self.name)


class Member(Node):
    """One matrix of a family, ``W[i]``."""

    notation = Notation(Kind.MEMBER, Binding.ATOM)
    is_input = True

    @classmethod
    def _accept(cls, name: Any, sizes: Any, indices: Any) -> Arguments:
        label = check_name(name.name if isinstance(name, Str) else name)
        shape = sympy.Tuple(*(expression_of(size_of(size)) for size in sizes))
        return Str(label), shape, sympy.Tuple(*indices)

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        name, shape, indices = operands
        *counts, rows, columns = map(size_of, shape.args)
        read = cast(tuple[AxisIndex, ...], indices.args)
        label = cast(Str, name).name
        written = tuple(index.name for index in read)
        if len(read) != len(counts) or len(set(read)) < len(read):
            raise FamilyIndexError(label, counts, written)
        for index, count in zip(read, counts, strict=True):
            if not agreement(index.size, count):
                raise FamilyIndexError(label, counts, written, runs=(index.name, index.size, count))
        return rows, columns

    @property
    def source(self) -> Family:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The family that it is a member of."""
        return Family(self.label, tuple(map(size_of, self.args[1].args)))

    @property
    def reads(self) -> tuple[AxisIndex, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The indices that it is read at."""
        return cast(tuple[AxisIndex, ...], self.args[2].args)

    @property
    def label(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The name of the family."""
        return cast(Str, self.args[0]).name

    @property
    def operands(self) -> Arguments:
        """None: sizes and indices are no operands."""
        return ()

    @property
    def parts(self) -> tuple[()]:
        """None: it is written by the name of the family and its indices."""
        return ()

    @property
    def extents(self) -> tuple[Size, ...]:
        """The sizes of the family."""
        return self.source.sizes

    def meaning(self, row: Place, column: Place) -> Form:
        """``W[i, r, c]``."""
        at = tuple(each.place for each in self.reads)
        return Entry(self.label, self.source.sizes, (*at, row, column))

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return the array of the whole family, which has an axis for each index."""
        return arranged(identifier(self.label), self.reads, self.reads, context)


def symbol_of(name: str, line: Node) -> Node:
    """Return the symbol by which a line is named: one of a family where an index is free in it.

    >>> import symattn as sa
    >>> h, n = sa.dims("h n")
    >>> W, i = sa.family("W", h, n, n), sa.index("i", h)
    >>> symbol_of("head", W[i] @ W[i])
    head[i]
    """
    if not line.indices:
        return InputMatrix(name, *line.sizes)
    counts = (index.size for index in line.indices)
    return Family(check_name(name), (*counts, *line.sizes))[line.indices]


def family(name: str, count: Any, rows: Any, columns: Any) -> Family:
    """Return a family of named matrices, one for each index.

    >>> import symattn as sa
    >>> h, d_k, d_model, n = sa.dims("h d_k d_model n")
    >>> W, X, i = sa.family("W^Q", h, d_k, d_model), sa.matrix("X", d_model, n), sa.index("i", h)
    >>> (W[i] @ X).shape, (W[i] @ X).indices
    ((d_k, n), (i,))

    ``count`` is how many there are, or a tuple of counts for a family with several indices:
    ``sa.family("W^Q", (g, r), d_k, d_model)[a, b]``.  Generated functions take one array, whose
    axes are those of the indices, rows and columns.  Raises `NameSyntaxError` and `SizeError` for
    what is no name or size, and `FamilyIndexError` for an index that does not fit.
    """
    counts = count if isinstance(count, tuple | list) else (count,)
    if not counts:
        raise FamilyIndexError(check_name(name), (), ())
    return Family(check_name(name), tuple(map(size_of, (*counts, rows, columns))))
