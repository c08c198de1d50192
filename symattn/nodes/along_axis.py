"""Softmax and maximum along an axis.

The axis is never guessed: ``axis=0`` runs down each column (columns sum to one), ``axis=1`` along
each row, and ``over=`` names the tag that is summed over.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, cast

import sympy

from symattn.errors import AxisError
from symattn.meaning.form import (
    MINUS_ONE,
    ZERO,
    Add,
    Allowed,
    Apply,
    Form,
    Index,
    Maximum,
    Mul,
    Place,
    Softmax as SoftmaxForm,
    Truth,
    place,
)
from symattn.nodes.arrays import ArrayContext, condition_code, size_code
from symattn.nodes.core import Agreement, Arguments, Node, as_matrix
from symattn.nodes.fixes import facts
from symattn.nodes.given import carried, in_force
from symattn.nodes.inputs import Ones
from symattn.nodes.masks import Mask, as_mask, together
from symattn.nodes.sizes import size_of
from symattn.notation.code import brief
from symattn.notation.names import identifier
from symattn.notation.rows import Binding, Kind, Notation
from symattn.tags import Size

Named = Callable[[str, str], str]
"""Gives a name to an array of positions, by its role and its source."""

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

    def along(self, matrix: Node, axis: int) -> Node:
        """Return the same operation, under the same mask, on a matrix along an axis."""
        return type(self)(matrix, sympy.Integer(axis), *self.args[2:])

    @property
    def over(self) -> Size:
        """The size of the axis that it runs along."""
        return self.matrices[0].sizes[self.axis]

    def _bound(
        self, operand: Node | None, row: Place, column: Place
    ) -> tuple[Index | None, Form, Place]:
        """Return the bound index, the entry that it runs over, and the place being read.

        The operand is None where there is only an additive mask: every finite entry is 0.
        """
        index = None if self.over.is_one else Index(self.over)
        bound: Place = () if index is None else (index,)
        read = (row, column)[self.axis]
        at = (bound, column) if self.axis == 0 else (row, bound)
        return index, ZERO if operand is None else operand.meaning(*at), read


class Softmax(_AlongAxis):
    """``exp(x)`` normalised to sum to one along an axis."""

    notation = Notation(Kind.SOFTMAX, Binding.APPLICATION)
    call = "softmax"

    @classmethod
    def _accept(cls, operand: Any, axis: Any, mask: Any = None) -> Arguments:
        along = super()._accept(operand, axis)
        return along if mask is None else (*along, as_mask(mask, "mask="))

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        sizes = cast(Node, operands[0]).sizes
        for mask in operands[2:]:
            cast(Mask, mask).require(*queries_and_keys(sizes, operands[1]), agreement)
        return sizes

    @property
    def mask(self) -> Mask | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Which queries may attend to which keys, or None where all may."""
        return next((part for part in self.args if isinstance(part, Mask)), None)

    @classmethod
    def _leaves_open(cls, operands: Arguments) -> bool:
        scores, axis = cast(Node, operands[0]), int(cast(sympy.Integer, operands[1]))
        for mask in scores.finite_and_masks()[1]:
            if mask.axis != axis:
                raise AxisError(
                    f"softmax({brief(scores)}, axis={axis})",
                    facts((scores,)),
                    f"the keys of {brief(mask)} lie along axis {mask.axis}",
                    f"softmax({brief(scores)}, axis={mask.axis})",
                )
        return False

    @property
    def allowed(self) -> Mask | None:
        """Its mask and all additive masks in its argument together, or None without any."""
        own = () if self.mask is None else (self.mask,)
        added = (cast(Mask, addend.mask) for addend in self.matrices[0].finite_and_masks()[1])
        masks = (*own, *added)
        return together(masks) if masks else None

    def selecting(self) -> Node:
        if not self.matrices[0].has_minus_infinity:
            return self
        finite, _ = self.matrices[0].finite_and_masks()
        # Of a mask alone: what is the same everywhere makes no difference.
        scores = Ones(*self.sizes) if finite is None else finite
        return Softmax(scores, self.args[1], self.allowed, *carried(self.given))

    def meaning(self, row: Place, column: Place) -> Form:
        """``softmax_t(X[t, j])[i]``, 0 where a mask allows none.

        Along an axis of size one it is ``e^{x - x}``, defined as x is.
        """
        finite, _ = self.matrices[0].finite_and_masks()
        index, entry, read = self._bound(finite, row, column)
        mask = self.allowed
        alone = Apply("exp", Add((entry, Mul((MINUS_ONE, entry)))))
        if mask is None:
            return alone if index is None else SoftmaxForm(index, entry, read)
        query = (column, row)[self.axis]
        key: Place = () if index is None else (index,)
        allowed = mask.condition(query, key, queries_and_keys(self.sizes, self.axis))
        if index is None:
            return Mul((Truth(allowed), alone))
        return SoftmaxForm(index, entry, read, allowed)

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return the exponentials, with the maximum subtracted, over their sum."""
        axis = self.axis - 2
        if self.mask is not None:
            where, least = context.call("where"), f"{context.call('finfo')}(_x.dtype).min"
            allowed = self.allowed_code("_x", context, heads=len(self.indices))
            selected = f"{where}({allowed}, _x, -{context.call('inf')})"
            largest = f"{context.call('maximum')}(_x.max(axis={axis}, keepdims=True), {least})"
            shifted = f"_x - {largest} if _x.shape[{axis}] else _x"
            # A sum of nothing is 0, and 0/1 is 0.
            return (
                f"(lambda _x: (lambda _x: (lambda _e: (lambda _z: _e / (_z + (_z == 0)))"
                f"(_e.sum(axis={axis}, keepdims=True)))"
                f"({context.call('exp')}({shifted})))({selected}))({operands[0]})"
            )
        # Over an empty axis there is no maximum, and the empty weights sum to zero.
        shifted = f"_x - _x.max(axis={axis}, keepdims=True) if _x.shape[{axis}] else _x"
        return (
            f"(lambda _x: (lambda _e: _e / _e.sum(axis={axis}, keepdims=True))"
            f"({context.call('exp')}({shifted})))({operands[0]})"
        )

    def allowed_code(
        self,
        scores: str,
        context: ArrayContext,
        named: Named = lambda role, code: code,
        *,
        heads: int = 0,
    ) -> str:
        """Return the source of the mask as booleans that broadcast with the array of scores."""
        assert self.mask is not None
        return mask_code(self.mask, self.sizes, self.axis, context, scores, named, heads=heads)


def queries_and_keys(sizes: tuple[Size, Size], axis: Any) -> tuple[Size, Size]:
    """Return the numbers of queries and of keys of scores whose softmax runs along an axis.

    >>> queries_and_keys((Size.tag("m"), Size.tag("n")), 0)
    (Size('n'), Size('m'))
    """
    return (sizes[1], sizes[0]) if int(axis) == 0 else sizes


def mask_code(
    mask: Mask,
    sizes: tuple[Size, Size],
    axis: int,
    context: ArrayContext,
    array: str = "",
    named: Named = lambda role, code: code,
    *,
    heads: int = 0,
) -> str:
    """Return the source of a mask in the layout whose keys lie along an axis.

    >>> from symattn.nodes.known_masks import causal
    >>> context = ArrayContext("numpy.{}".format, str, "float")
    >>> mask_code(causal("top_left"), (Size.tag("m"), Size.tag("n")), 0, context)
    'numpy.arange(m)[:, None] <= numpy.arange(n)'

    Positions are counted along the axes of ``array``, if there is one; ``named`` may give those of
    the queries ("i") and of the keys ("j") a name.  A boolean input is the same for every head:
    it gets so many axes of size one before those of the pair.
    """
    query, key = (place(size) for size in queries_and_keys(sizes, axis))
    condition = mask.condition(query, key, queries_and_keys(sizes, axis))
    columns = {True: "", False: "[:, None]"}

    def position(at: Place) -> str:
        if not at:  # an array all the same: ~ of Python's True is -2
            return f"{context.call('arange')}(1)"
        along = axis if at == key else 1 - axis
        extent = f"{array}.shape[{along - 2}]" if array else size_code(sizes[along], context)
        code = f"{context.call('arange')}({extent}){columns[along == 1]}"
        return named("j" if at == key else "i", code)

    def given(allowed: Allowed) -> str:
        name = identifier(allowed.name)
        each = "None, " * heads
        if len(allowed.places) == 2:
            pairs = f"{name}.swapaxes(-1, -2)" if axis == 0 else name
            return f"{pairs}[..., {each}:, :]" if heads else pairs
        return f"{name}[..., {each}:, None]" if axis == 0 else f"{name}[..., {each}None, :]"

    return condition_code(condition, position, given, context)


class MaxAlong(_AlongAxis):
    """The largest entry along an axis, whose size becomes one."""

    notation = Notation(Kind.MAXIMUM, Binding.APPLICATION)
    call = "max"
    only_finite = (
        "a maximum of nothing has no value; a softmax subtracts its maximum by itself, and "
        "max of sa.indicator(mask, …) tells where anything is allowed"
    )

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        rows, columns = cast(Node, operands[0]).sizes
        return (Size.of(1), columns) if operands[1] == sympy.S.Zero else (rows, Size.of(1))

    def meaning(self, row: Place, column: Place) -> Form:
        """``max_t X[t, j]``."""
        index, entry, _ = self._bound(self.matrices[0], row, column)
        return entry if index is None else Maximum(index, entry)

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return the maximum with its axis kept."""
        return f"{operands[0]}.max(axis={self.axis - 2}, keepdims=True)"


def softmax(x: Any, *, axis: int | None = None, over: Any = None, mask: Any = None) -> Node:
    """Return the softmax of a matrix along one axis: exponentials over their sum.

    >>> import symattn as sa
    >>> m, n = sa.dims("m n")
    >>> S = sa.matrix("S", m, n)
    >>> sa.softmax(S, axis=0) == sa.softmax(S, over=m)
    True

    ``axis=0``: every column sums to one; ``axis=1``: every row does; ``over=`` names the size of
    the axis instead.  Raises `AxisError` if neither or both are given, if the tag is not there, or
    if it names both axes (self-attention: n × n).

    With a ``mask=`` (`causal`, `window`, …) only the keys that a query may attend to take part, and
    a query without any has weights that are all zero; keys lie along the axis, queries along the
    other.  Raises `MaskError` for what is no mask, `AlignmentError` where an alignment is missing.
    """
    along = _along("softmax", x, axis, over)
    return Softmax(*along) if mask is None else Softmax(*along, as_mask(mask, "mask="))


def max(x: Any, *, axis: int | None = None, over: Any = None) -> Node:
    """Return the largest entry of every column (``axis=0``) or of every row (``axis=1``).

    >>> import symattn as sa
    >>> m, n = sa.dims("m n")
    >>> sa.max(sa.matrix("S", m, n), axis=0).shape
    (1, n)

    ``over=`` names the size of the axis instead.  Raises `AxisError` as `softmax` does, and
    `MinusInfinityError` for entries of −∞: a maximum of nothing has no value.
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
