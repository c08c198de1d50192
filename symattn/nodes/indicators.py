"""A mask as a matrix: 0/1 to multiply weights with, or 0/−∞ to add to scores.

The 0/1 matrix states what a mask does to weights: ``max`` of it along the keys is 1 for a query
that may attend to any key, and 0 for one that may attend to none.

The 0/−∞ matrix is a notation.  Values are finite, so it means nothing by itself: added to scores it
says which of them a softmax, or an exp, leaves out.  On the way there it passes through sums,
transposes and positive scalars, and through nothing else: otherwise ``S + M - M = S`` would be
proved.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar, Self, cast

import sympy

from symattn.errors import AxisError, MinusInfinityError
from symattn.meaning.form import Condition, Form, Place, Truth
from symattn.nodes.along_axis import Named, mask_code, queries_and_keys
from symattn.nodes.arrays import ArrayContext, size_code
from symattn.nodes.core import Agreement, Arguments, Node
from symattn.nodes.masks import Mask, as_mask
from symattn.nodes.sizes import expression_of, size_of
from symattn.notation.code import brief
from symattn.notation.displays import latex_additive_mask_definition
from symattn.notation.presets import Preset
from symattn.notation.rows import Binding, Kind, Notation
from symattn.notation.terminal import text_additive_mask_definition
from symattn.tags import Size


class _MaskMatrix(Node):
    """A mask as a matrix: arguments are the mask, the sizes, and the axis that keys lie along."""

    call: ClassVar[str]
    """The function that builds it."""

    @classmethod
    def _accept(cls, mask: Any, rows: Any, columns: Any, axis: Any) -> Arguments:
        checked = as_mask(mask, f"{cls.call} of ")
        sizes = expression_of(size_of(rows)), expression_of(size_of(columns))
        if isinstance(axis, bool) or not isinstance(axis, Integral) or axis not in (0, 1):
            written = f"{cls.call}({checked}, {sizes[0]}, {sizes[1]}, axis={brief(axis)})"
            fix = "axis=0, keys are rows, or axis=1, keys are columns"
            raise AxisError(written, (), "an axis is 0 or 1", fix)
        return checked, *sizes, sympy.Integer(int(axis))

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        mask, rows, columns, axis = operands
        sizes = size_of(rows), size_of(columns)
        cast(Mask, mask).require(*queries_and_keys(sizes, axis), agreement)
        return sizes

    @property
    def operands(self) -> Arguments:
        """Nothing: neither a mask nor a size is an operand."""
        return ()

    @property
    def mask(self) -> Mask:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Which queries may attend to which keys."""
        return cast(Mask, self.args[0])

    @property
    def axis(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The axis along which keys lie."""
        return int(cast(sympy.Integer, self.args[3]))

    def along(self, axis: int) -> Self:
        """Return the same mask as a matrix with keys along an axis: itself, or its transpose."""
        mask, rows, columns, own, *given = self.args
        turned = (rows, columns) if int(cast(Any, own)) == axis else (columns, rows)
        return type(self)(mask, *turned, sympy.Integer(axis), *given)

    def allowed(self, row: Place, column: Place) -> Condition:
        """Return what holds where the query may attend to the key."""
        query, key = (column, row) if self.axis == 0 else (row, column)
        return self.mask.condition(query, key, queries_and_keys(self.sizes, self.axis))

    def allowed_code(
        self,
        scores: str,
        context: ArrayContext,
        named: Named = lambda role, code: code,
        *,
        heads: int = 0,
    ) -> str:
        """Return the source of the mask as booleans that broadcast with an array of its shape."""
        return mask_code(self.mask, self.sizes, self.axis, context, scores, named, heads=heads)


class Indicator(_MaskMatrix):
    """The 0/1 matrix of a mask; build one with `indicator`."""

    notation = Notation(Kind.INDICATOR, Binding.ATOM)
    call = "indicator"

    def meaning(self, row: Place, column: Place) -> Form:
        """``[the query may attend to the key]``."""
        return Truth(self.allowed(row, column))

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return an array of 0 and 1 in the dtype of the formula."""
        allowed = self.allowed_code("", context)
        rows, columns = (size_code(size, context) for size in self.sizes)
        ones = f"{context.call('ones')}(({rows}, {columns}), dtype={context.dtype})"
        return f"(({allowed}) * {ones})"


class AdditiveMask(_MaskMatrix):
    """The 0/−∞ matrix of a mask; build one with `additive_mask`."""

    notation = Notation(Kind.ADDITIVE_MASK, Binding.ATOM)
    call = "additive_mask"

    @classmethod
    def _leaves_open(cls, operands: Arguments) -> bool:
        return True

    def finite_and_masks(self) -> tuple[None, tuple[Node, ...]]:
        """Return the mask alone."""
        return None, (self,)

    def definition(self, preset: Preset | str | None = None) -> str:
        """Return what its entries are, as text.

        >>> import symattn as sa
        >>> sa.additive_mask(sa.padding(), *sa.dims("m n"), axis=0).definition()
        'M_{padding[j]}[j,i] = 0 where padding[j], −∞ elsewhere'
        """
        return text_additive_mask_definition(self, preset)

    def latex_definition(
        self, preset: Preset | str | None = None, *, dialect: str = "latex"
    ) -> str:
        r"""Return what its entries are in LaTeX, as cases.

        >>> import symattn as sa
        >>> M = sa.additive_mask(sa.causal(), "n", "n", axis=1)
        >>> r"\begin{cases} 0 & j \le i" in M.latex_definition()
        True
        """
        return latex_additive_mask_definition(self, preset, dialect=dialect)

    def meaning(self, row: Place, column: Place) -> Form:
        """None by itself: raises `MinusInfinityError`."""
        raise MinusInfinityError(brief(self), "only a softmax or an exp of a sum takes it up")

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return an array of 0 and −∞ in the dtype of the formula."""
        rows, columns = (size_code(size, context) for size in self.sizes)
        zeros = f"{context.call('zeros')}(({rows}, {columns}), dtype={context.dtype})"
        return selected_code(zeros, (self,), context)


def selected_code(
    scores: str, masks: Sequence[AdditiveMask], context: ArrayContext, heads: int = 0
) -> str:
    """Return the source of scores where all of some masks allow, and of −∞ elsewhere.

    >>> import symattn as sa
    >>> context = ArrayContext("numpy.{}".format, str, "float")
    >>> selected_code("s", [additive_mask(sa.padding(), "m", "n", axis=0)], context)
    'numpy.where((padding[..., :, None]), s, -numpy.inf)'
    """
    allowed = " & ".join(f"({mask.allowed_code('', context, heads=heads)})" for mask in masks)
    return f"{context.call('where')}({allowed}, {scores}, -{context.call('inf')})"


def indicator(mask: Any, rows: Any, columns: Any, *, axis: int) -> Indicator:
    """Return the matrix that is 1 where a query may attend to a key, and 0 elsewhere.

    >>> import symattn as sa
    >>> m, n = sa.dims("m n")
    >>> M = sa.causal(align="bottom_right")
    >>> P = sa.softmax(sa.matrix("S", m, n), axis=0, mask=M)
    >>> allowed = sa.max(sa.indicator(M, m, n, axis=0), axis=0)
    >>> sa.prove(sa.ones(1, m) @ P, allowed).verdict
    'proved'

    ``axis`` is that along which keys lie, as in `softmax`: 0 where they are rows, 1 where they are
    columns.  Raises `MaskError`, `AlignmentError` and `AxisError` as `softmax` does.
    """
    return Indicator(mask, rows, columns, axis)


def additive_mask(mask: Any, rows: Any, columns: Any, *, axis: int) -> AdditiveMask:
    """Return a mask to add to scores: 0 where a query may attend to a key, and −∞ elsewhere.

    >>> import symattn as sa
    >>> m, n = sa.dims("m n")
    >>> S, causal = sa.matrix("S", m, n), sa.causal(align="top_left")
    >>> M = sa.additive_mask(causal, m, n, axis=0)
    >>> sa.prove(sa.softmax(S + M, axis=0), sa.softmax(S, axis=0, mask=causal)).verdict
    'proved'

    −∞ is no number, so it has a meaning only where a softmax or an exp takes it up: in a sum, a
    transpose, or scaled by what is certainly positive.  Anything else raises `MinusInfinityError`.
    A finite bias is an ordinary matrix.

    ``axis`` is that along which keys lie, as in `softmax`: 0 where they are rows, 1 where they are
    columns.  Raises `MaskError`, `AlignmentError` and `AxisError` as `softmax` does.
    """
    return AdditiveMask(mask, rows, columns, axis)
