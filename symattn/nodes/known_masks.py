"""The masks that formulas are written with: by positions, of the first keys, and given at a call.

Queries and keys are counted from 0.  Where there are not as many of the one as of the other, "the
same position" has two readings, and libraries disagree: a mask by positions then has to say which,
``top_left`` (query i stands at position i) or ``bottom_right`` (at i + m − n, so that the last
query and the last key stand together).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

from sympy.core.symbol import Str

from symattn.errors import AlignmentError, MaskError
from symattn.meaning.form import (
    MINUS_ONE,
    Add,
    Allowed,
    AtMost,
    Both,
    Condition,
    Extent,
    Form,
    Mul,
    Not,
    Place,
    Position,
)
from symattn.nodes.given import Agreement
from symattn.nodes.masks import BooleanInput, Mask, Sizes
from symattn.nodes.sizes import expression_of, size_of
from symattn.notation.code import brief
from symattn.tags import Size

ALIGNMENTS = ("top_left", "bottom_right")


class _Aligned(Mask):
    """A mask by positions; its last argument is the alignment, where it has one."""

    @property
    def align(self) -> str | None:
        """Which query and key stand at the same position, or None where n = m says it."""
        last = self.args[-1] if self.args else None
        return last.name if isinstance(last, Str) else None

    def require(self, queries: Size, keys: Size, agreement: Agreement) -> None:
        if self.align is None and not agreement(queries, keys):
            raise AlignmentError(str(self), str(queries), str(keys))

    def _query(self, query: Place, sizes: Sizes) -> list[Form]:
        """Return the terms of the query's position, as keys are counted."""
        if self.align != "bottom_right":
            return [Position(query)]
        queries, keys = sizes
        return [Position(query), Extent(keys), _minus(Extent(queries))]

    def _called(self, name: str, *arguments: str) -> str:
        align = () if self.align is None else (f"align={self.align!r}",)
        return f"{name}({', '.join((*arguments, *align))})"


def _alignment(align: Any) -> tuple[Str, ...]:
    """Return an alignment as an argument of SymPy, or raise `MaskError`."""
    name = align.name if isinstance(align, Str) else align
    if name is None:
        return ()
    if name not in ALIGNMENTS:
        raise MaskError(f"align={brief(name)}", " or ".join(f"align={a!r}" for a in ALIGNMENTS))
    return (Str(name),)


def _minus(form: Form) -> Form:
    return Mul((MINUS_ONE, form))


def _plus(terms: list[Form]) -> Form:
    return terms[0] if len(terms) == 1 else Add(tuple(terms))


class Causal(_Aligned):
    """``j ≤ i'``: no query attends to a later key."""

    def __new__(cls, align: Any = None) -> Self:
        return super().__new__(cls, *_alignment(align))

    def condition(self, query: Place, key: Place, sizes: Sizes) -> Condition:
        return AtMost(Position(key), _plus(self._query(query, sizes)))

    def python(self, size: Callable[[Size], str]) -> str:
        return self._called("causal")


class Window(_Aligned):
    """``i' − w < j < i' + w``: a query attends to keys nearer than w."""

    def __new__(cls, width: Any, align: Any = None) -> Self:
        return super().__new__(cls, expression_of(_count("window", width)), *_alignment(align))

    @property
    def width(self) -> Size:
        """How near a key has to be: nearer than this."""
        return size_of(self.args[0])

    @property
    def extents(self) -> tuple[Size, ...]:
        """The width."""
        return (self.width,)

    def condition(self, query: Place, key: Place, sizes: Sizes) -> Condition:
        at, j, width = self._query(query, sizes), Position(key), Extent(self.width)
        after = Not(AtMost(j, _plus([*at, _minus(width)])))
        before = Not(AtMost(_plus([*at, width]), j))
        return Both(after, before)

    def python(self, size: Callable[[Size], str]) -> str:
        return self._called("window", size(self.width))


class Prefix(Mask):
    """``j < p``: the first p keys, for every query."""

    def __new__(cls, length: Any) -> Self:
        return super().__new__(cls, expression_of(_count("prefix", length)))

    @property
    def length(self) -> Size:
        """How many keys there are in the prefix."""
        return size_of(self.args[0])

    @property
    def extents(self) -> tuple[Size, ...]:
        """The length."""
        return (self.length,)

    def condition(self, query: Place, key: Place, sizes: Sizes) -> Condition:
        return Not(AtMost(Extent(self.length), Position(key)))

    def python(self, size: Callable[[Size], str]) -> str:
        return f"prefix({size(self.length)})"


def _count(call: str, value: Any) -> Size:
    """Return a number of keys: a size; arrays and masks are no numbers."""
    if isinstance(value, Mask) or hasattr(value, "__array__"):
        raise MaskError(f"{call}({brief(value)})", f"{call} takes a number of keys, or a tag")
    return size_of(value)


class _Given(Mask):
    """A mask that is a boolean array, given at the call."""

    name: ClassVar[str]

    def __new__(cls) -> Self:
        return super().__new__(cls)

    def python(self, size: Callable[[Size], str]) -> str:
        return f"{self.name}()"


class Padding(_Given):
    """A boolean for every key, the same for every query."""

    name = "padding"

    def condition(self, query: Place, key: Place, sizes: Sizes) -> Condition:
        return Allowed(self.name, sizes[1:], (key,))

    def arrays(self, sizes: Sizes) -> tuple[BooleanInput, ...]:
        return (BooleanInput(self.name, sizes[1:]),)


class Keep(_Given):
    """A boolean for every query and key."""

    name = "keep"

    def condition(self, query: Place, key: Place, sizes: Sizes) -> Condition:
        return Allowed(self.name, sizes, (query, key))

    def arrays(self, sizes: Sizes) -> tuple[BooleanInput, ...]:
        return (BooleanInput(self.name, sizes),)


def causal(align: str | None = None) -> Mask:
    """Return the mask with which no query attends to a later key: j ≤ i.

    >>> import symattn as sa
    >>> S = sa.matrix("S", *sa.dims("m n"))
    >>> sa.softmax(S, axis=0, mask=sa.causal(align="top_left"))
    softmax(S, axis=0, mask=causal(align='top_left'))

    ``align`` says which query and key stand at the same position where there are not as many of
    the one as of the other: ``"top_left"`` (j ≤ i) or ``"bottom_right"`` (j ≤ i + m − n, with n
    queries and m keys; the first queries may have no key).  Using a mask without it raises
    `AlignmentError` unless n = m by the tags or a declared relation; any other ``align`` raises
    `MaskError`.
    """
    return Causal(align)


def window(w: Any, align: str | None = None) -> Mask:
    """Return the mask with which a query attends to keys nearer than w: i − w < j < i + w.

    >>> import symattn as sa
    >>> sa.window(3) & sa.causal()
    window(3) & causal()

    ``w`` is a positive integer or a tag; ``align`` is as for `causal`.  Raises `SizeError` for a
    ``w`` that is no size, and `MaskError` for an array, a mask, or another ``align``.
    """
    return Window(w, align)


def prefix(p: Any) -> Mask:
    """Return the mask of the first p keys, j < p; ``prefix(p) | causal()`` is that of a prefix LM.

    >>> import symattn as sa
    >>> sa.prefix(sa.dim("p")) | sa.causal()
    prefix(p) | causal()

    ``p`` is a positive integer or a tag.  Raises `SizeError` for what is no size, and `MaskError`
    for an array or a mask.
    """
    return Prefix(p)


def padding() -> Mask:
    """Return the mask of a boolean for every key, given at the call: True = may be attended to.

    >>> import numpy as np, symattn as sa
    >>> S = sa.matrix("S", *sa.dims("m n"))
    >>> f = sa.lambdify([S], sa.softmax(S, axis=0, mask=sa.padding()))
    >>> f(np.zeros((3, 1)), padding=np.array([True, True, False])).ravel().tolist()
    [0.5, 0.5, 0.0]

    The array is called ``padding`` and has shape (…, m) in either layout.
    """
    return Padding()


def keep() -> Mask:
    """Return the mask of a boolean for every query and key, given at the call: True = may attend.

    >>> import numpy as np, symattn as sa
    >>> S = sa.matrix("S", *sa.dims("n m"))
    >>> f = sa.lambdify([S], sa.softmax(S, axis=1, mask=sa.keep()))
    >>> f(np.zeros((2, 2)), keep=np.array([[True, False], [False, False]])).tolist()
    [[1.0, 0.0], [0.0, 0.0]]

    The array is called ``keep`` and has shape (…, n, m), queries by keys, in either layout.
    """
    return Keep()
