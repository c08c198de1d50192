"""What is asked of hints when a function is decorated: their sizes, and what they would take."""

from __future__ import annotations

from collections.abc import Iterator

from symattn.runtime.declared.containers import RecordHint
from symattn.runtime.declared.defaults import DefaultHint
from symattn.runtime.declared.hints import (
    ArrayHint,
    Hint,
    Misfit,
    Place,
    PlainHint,
    everything_in,
)
from symattn.tags import Size


def sizes_in(hint: Hint) -> Iterator[Size]:
    """All sizes that are declared somewhere in a hint."""
    for one in everything_in(hint):
        if isinstance(one, ArrayHint):
            yield from one.spec.sizes


def integer_fields(hint: Hint) -> Iterator[str]:
    """The fields of records that give the size of the tag that has their name."""
    for one in everything_in(hint):
        if isinstance(one, RecordHint):
            yield from (field.name for field in one.fields if field.is_count)


def is_integer(hint: Hint) -> bool:
    """Whether an integer is declared, be it with a default."""
    if isinstance(hint, DefaultHint):
        return is_integer(hint.hint)
    return isinstance(hint, PlainHint) and int in hint.classes


def takes(hint: Hint, value: object) -> bool:
    """Whether a value is of the declared type."""
    readings = hint.met(value, Place.of("it"))
    return any(not any(isinstance(item, Misfit) for item in reading) for reading in readings)
