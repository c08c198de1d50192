"""The root of all errors, the refusals of every floor, and faults of symattn itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def _revive(
    kind: type[SymattnError], args: tuple[object, ...], facts: dict[str, object]
) -> SymattnError:
    """Rebuild an error without running `__init__`, whose arguments are facts, not the message."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(facts)
    return error


class SymattnError(Exception):
    """The root: `except SymattnError` catches everything that symattn raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _revive, (type(self), self.args, dict(self.__dict__))


class OperationRefusedError(SymattnError, TypeError):
    """An operation that a formula does not have, with what to write in its place.

    >>> print(OperationRefusedError("X**2", "for entrywise squares write sa.hadamard(X, X)"))
    X**2 is not an operation of formulas: for entrywise squares write sa.hadamard(X, X)
    """

    def __init__(self, operation: str, advice: str) -> None:
        self.operation = operation
        self.advice = advice
        super().__init__(f"{operation} is not an operation of formulas: {advice}")


class AttributeRefusedError(OperationRefusedError, AttributeError):
    """A property that a formula does not have: `hasattr` answers no, as everyone who asks expects.

    >>> print(AttributeRefusedError(".I", "1/x of every entry is sa.reciprocal(X)"))
    .I is not an operation of formulas: 1/x of every entry is sa.reciprocal(X)
    """


class NotSupportedError(SymattnError, NotImplementedError):
    """Something sound that symattn cannot do yet; it says so rather than guess.

    >>> print(NotSupportedError("the scalar Abs(c)"))
    not supported yet: the scalar Abs(c)
    """

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"not supported yet: {what}")


class InternalError(SymattnError, RuntimeError):
    """A fault of symattn itself: two routes that must agree do not."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"this is a bug in symattn, please report it: {what}")


_MOST_CHOICES = 30
"""So many names are listed where none is near."""


class UnknownNameError(SymattnError, LookupError):
    """A name that nothing answers to, with the names that are spelt most like it, or all there are.

    >>> print(UnknownNameError("formula", "dot_prodct", ["dot_product"]))
    there is no formula named 'dot_prodct'; did you mean 'dot_product'?
    >>> print(UnknownNameError("preset", "x", choices=["freshrimp", "vaswani"]))
    there is no preset named 'x'; there are freshrimp, vaswani
    """

    def __init__(
        self, kind: str, name: str, nearest: Sequence[str] = (), choices: Sequence[str] = ()
    ) -> None:
        self.kind = kind
        self.name = name
        self.nearest = tuple(nearest)
        self.choices = tuple(choices)
        meant = " or ".join(repr(near) for near in self.nearest)
        more = len(self.choices) - _MOST_CHOICES
        there = ", ".join(self.choices[:_MOST_CHOICES]) + (f" and {more} more" if more > 0 else "")
        hint = f"; did you mean {meant}?" if meant else f"; there are {there}" if there else ""
        super().__init__(f"there is no {kind} named {name!r}{hint}")
