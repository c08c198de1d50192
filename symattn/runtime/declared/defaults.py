"""Hints that stand for others: of a parameter with a default, and of what is not known yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from symattn.runtime.declared.hints import Hint, Place, Reading


@dataclass(frozen=True, slots=True)
class DefaultHint:
    """What a parameter is declared to be, or its default, whatever that is.

    A default is its author's, not the caller's: `mask: Annotated[np.ndarray, "n m"] = None`, and
    the marker that a dataclass has where a factory makes the default, are meant to pass.
    """

    default: Any
    hint: Hint

    @property
    def label(self) -> str:
        return self.hint.label

    @property
    def parts(self) -> tuple[Hint, ...]:
        return (self.hint,)

    @property
    def has_shapes(self) -> bool:
        return self.hint.has_shapes

    def met(self, value: Any, place: Place) -> Iterator[Reading]:
        if value is self.default:
            yield ()
        else:
            yield from self.hint.met(value, place)


@dataclass(frozen=True, slots=True)
class LaterHint:
    """What is declared by names that are not defined yet; nothing is met before they are."""

    label: str = "what is not defined yet"
    parts: tuple[Hint, ...] = ()
    has_shapes: bool = True

    def met(self, value: Any, place: Place) -> Iterator[Reading]:
        del value, place
        yield ()
