"""Notation rows: how an operation is written, as data.

A row says what kind of writing an operation has and how tightly it binds; the printers have one
rule a kind and know no operation.  Anything with a row and ``parts`` can be printed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Protocol, runtime_checkable

from symattn.meaning.form import Condition, Form, Place
from symattn.tags import Size


class Kind(Enum):
    """The kinds of writing; a printer has one rule for each."""

    SYMBOL = "a name"
    PRODUCT = "factors side by side"
    SUM = "terms with signs"
    HADAMARD = "factors with ∘"
    TRANSPOSE = "a superscript"
    NEGATION = "a leading minus"
    FRACTION = "numerator over denominator"
    SOFTMAX = "softmax of an argument, along rows or columns"
    MAXIMUM = "max of an argument, along rows or columns"
    FUNCTION = "a function applied entry by entry"
    CONCAT = "parts one on top of the other, or side by side"
    MEMBER = "a name with the indices of one of a family"
    HEADS = "Concat over an index, one on top of the other, or side by side"
    SUM_OVER = "a sum over an index"
    HEAD = "one block of rows or columns, by its index"
    RESHAPE = "the same entries in another shape"
    PAIRS = "a score of two vectors, and what they stand for"
    POSITIONS = "a number from two positions"
    ONES = "a matrix of ones"
    IDENTITY = "an identity matrix"
    INDICATOR = "the 0/1 matrix of a mask"
    ADDITIVE_MASK = "the 0/−∞ matrix of a mask"


class Binding(IntEnum):
    """How tightly a kind of writing holds its parts together."""

    SUM = 1
    NEGATION = 2
    HADAMARD = 3
    PRODUCT = 4
    APPLICATION = 5
    POWER = 6
    ATOM = 7


@dataclass(frozen=True, slots=True)
class Notation:
    """One row: the kind of writing and its binding."""

    kind: Kind
    binding: Binding


class PrintableMask(Protocol):
    """What a printer needs to know of a mask: its condition, and the Python that builds it.

    ``condition`` takes the place of a query, that of a key, and the numbers of queries and keys.
    """

    def condition(self, query: Place, key: Place, sizes: tuple[Size, Size]) -> Condition: ...
    def python(self, size: Callable[[Size], str]) -> str: ...


class Printable(Protocol):
    """What a printer needs to know of an expression.

    ``parts`` are its operands in order (printables, or index forms where a scalar stands);
    ``label`` is a name (of a symbol, of a function) where the kind needs one; ``axis`` is 0 where
    the operation runs down each column, 1 where it runs along each row, None where it does neither;
    ``mask`` is one that it is under, or None;
    ``running`` are the names of the indices that it reads or runs over, each with its count.
    """

    @property
    def notation(self) -> Notation: ...
    @property
    def parts(self) -> tuple[Printable | Form, ...]: ...
    @property
    def label(self) -> str: ...
    @property
    def axis(self) -> int | None: ...
    @property
    def mask(self) -> PrintableMask | None: ...
    @property
    def running(self) -> tuple[tuple[str, Size], ...]: ...
    @property
    def sizes(self) -> tuple[Size, Size]: ...


@runtime_checkable
class NamedLines(Protocol):
    """What is printed as lines ``name = …``: each line in terms of the names before it."""

    @property
    def named_lines(self) -> Mapping[str, Printable]: ...
    @property
    def line_symbols(self) -> Mapping[str, Printable]: ...
    @property
    def result(self) -> Printable: ...
    def latex(self, preset: Any = None, *, highlight: Any = (), dialect: str = "latex") -> str: ...


@runtime_checkable
class Titled(Protocol):
    """A formula of the catalogue, which is printed as its expression, in its own layout."""

    @property
    def layout(self) -> str: ...
    @property
    def expr(self) -> Printable: ...
