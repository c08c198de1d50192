"""Masks: which queries may attend to which keys.

A mask is a set of pairs (query, key), True where the query may attend to the key.  It knows queries
and keys, never rows and columns, so one mask serves both layouts and passes through a transpose
unchanged.  Masks are combined with ``&``, ``|`` and ``~``, as sets are.

Softmax weights sum to 1 only for a query that has a *witness*, a key that it certainly may attend
to.  A mask does not name its witnesses: it states its condition, and a proof tries the places where
one is to be expected, the diagonal, the first and the last (`symattn.proof.normal.truths`).  So a
combination of masks needs no rule of its own, and no mask can claim a witness that it lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any, ClassVar, NoReturn, Self, cast

import sympy

from symattn.errors import MaskError
from symattn.meaning.form import (
    Both,
    Condition,
    Not,
    Place,
    either,
)
from symattn.nodes.given import Agreement
from symattn.notation.code import PythonPrinter, brief
from symattn.tags import Size

Sizes = tuple[Size, Size]
"""The numbers of queries and of keys."""


@dataclass(frozen=True, slots=True)
class BooleanInput:
    """A boolean array that a mask is given at run time: its name, and the sizes of its axes."""

    label: str
    sizes: tuple[Size, ...]


class Mask(sympy.Basic):
    """A set of pairs (query, key) that may attend; build one with `causal` and its companions."""

    binding: ClassVar[int] = 3
    """How tightly its Python spelling binds: ``|`` 0, ``&`` 1, ``~`` 2, a call 3."""

    def condition(self, query: Place, key: Place, sizes: Sizes) -> Condition:
        """Return what holds where the query may attend to the key."""
        raise NotImplementedError

    @property
    def extents(self) -> tuple[Size, ...]:
        """The sizes that the mask itself is made with: the width of a window, say."""
        return tuple(e for mask in self.args if isinstance(mask, Mask) for e in mask.extents)

    def require(self, queries: Size, keys: Size, agreement: Agreement) -> None:
        """Raise `AlignmentError` unless the mask has a meaning for these sizes."""

    def arrays(self, sizes: Sizes) -> tuple[BooleanInput, ...]:
        """Return the boolean inputs that the mask is given at run time, each once."""
        return ()

    def python(self, size: Callable[[Size], str]) -> str:
        """Return the Python that builds it; ``size`` spells a size."""
        raise NotImplementedError

    # Sets of pairs.

    def __and__(self, other: Any) -> Mask:
        return Intersection(self, as_mask(other, "&"))

    def __rand__(self, other: Any) -> Mask:
        return Intersection(as_mask(other, "&"), self)

    def __or__(self, other: Any) -> Mask:
        return Union(self, as_mask(other, "|"))

    def __ror__(self, other: Any) -> Mask:
        return Union(as_mask(other, "|"), self)

    def __invert__(self) -> Mask:
        return Complement(self)

    # NumPy would make an array of objects of a mask beside an array.
    __array_ufunc__ = None

    def __bool__(self) -> NoReturn:
        raise MaskError(
            f"{self}", "and, or, not ask whether a mask is true; combine masks with &, | and ~"
        )

    # It prints as Python, as formulas do.

    def __str__(self) -> str:
        return self.python(lambda size: PythonPrinter().size(size).text)

    __repr__ = __str__

    def _sympystr(self, _printer: Any) -> str:
        return str(self)

    def _sympyrepr(self, printer: Any) -> str:
        return f"{type(self).__name__}({', '.join(map(printer._print, self.args))})"


def as_mask(value: Any, call: str) -> Mask:
    """Return a value that has to be a mask, or raise `MaskError` with what to write.

    >>> as_mask(1, "mask=")
    Traceback (most recent call last):
        ...
    symattn.errors.MaskError: mask=1 is not a mask here: ...
    """
    if isinstance(value, Mask):
        return value
    if isinstance(value, str):
        advice = "text is never evaluated; write sa.causal(), sa.window(w), sa.prefix(p) and so on"
    elif isinstance(getattr(value, "mask", None), Mask):
        advice = f"it is a matrix; write the mask itself, {value.mask}"
    elif hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        advice = "write sa.keep(), and give the boolean array at the call: f(…, keep=array)"
    elif callable(value):
        advice = "call it, as in sa.causal(align=…)"
    else:
        advice = "masks are sa.causal(), sa.window(w), sa.prefix(p), sa.padding() and sa.keep()"
    raise MaskError(f"{call}{brief(value)}", advice)


def together(masks: Iterable[Mask]) -> Mask:
    """Return the pairs that all of some masks allow; what is said twice is written once.

    >>> from symattn.nodes.known_masks import causal, padding
    >>> together([causal(), padding(), causal()])
    causal() & padding()
    """
    return reduce(and_, dict.fromkeys(masks))


class _Combined(Mask):
    """Masks combined; a chain written from the left is one."""

    sign: ClassVar[str]

    def __new__(cls, *masks: Any) -> Self:
        first, *rest = (as_mask(mask, f"{cls.__name__} of ") for mask in masks)
        opened = first.args if isinstance(first, cls) else (first,)
        return super().__new__(cls, *opened, *rest)

    @property
    def masks(self) -> tuple[Mask, ...]:
        """The masks that are combined, in order."""
        return cast(tuple[Mask, ...], self.args)

    def _joined(self, left: Condition, right: Condition) -> Condition:
        raise NotImplementedError

    def condition(self, query: Place, key: Place, sizes: Sizes) -> Condition:
        return reduce(self._joined, [mask.condition(query, key, sizes) for mask in self.masks])

    def require(self, queries: Size, keys: Size, agreement: Agreement) -> None:
        for mask in self.masks:
            mask.require(queries, keys, agreement)

    def arrays(self, sizes: Sizes) -> tuple[BooleanInput, ...]:
        return tuple(dict.fromkeys(a for mask in self.masks for a in mask.arrays(sizes)))

    def python(self, size: Callable[[Size], str]) -> str:
        # What stands first may bind as tightly as the chain: a chain inside it would be opened.
        return f" {self.sign} ".join(_held(mask, self.binding + 1, size) for mask in self.masks)


class Intersection(_Combined):
    """The pairs that all of the masks allow."""

    sign, binding = "&", 1

    def _joined(self, left: Condition, right: Condition) -> Condition:
        return Both(left, right)


class Union(_Combined):
    """The pairs that at least one of the masks allows."""

    sign, binding = "|", 0

    def _joined(self, left: Condition, right: Condition) -> Condition:
        return either(left, right)


class Complement(Mask):
    """The pairs that a mask does not allow."""

    binding = 2

    def __new__(cls, mask: Any) -> Self:
        return super().__new__(cls, as_mask(mask, "~"))

    @property
    def mask(self) -> Mask:
        """The mask that is turned round."""
        return cast(Mask, self.args[0])

    def condition(self, query: Place, key: Place, sizes: Sizes) -> Condition:
        condition = self.mask.condition(query, key, sizes)
        return condition.condition if isinstance(condition, Not) else Not(condition)

    def require(self, queries: Size, keys: Size, agreement: Agreement) -> None:
        self.mask.require(queries, keys, agreement)

    def arrays(self, sizes: Sizes) -> tuple[BooleanInput, ...]:
        return self.mask.arrays(sizes)

    def python(self, size: Callable[[Size], str]) -> str:
        return f"~{_held(self.mask, self.binding, size)}"


def _held(mask: Mask, binding: int, size: Callable[[Size], str]) -> str:
    written = mask.python(size)
    return written if mask.binding >= binding else f"({written})"
