"""Hints of values that hold arrays: tuples, lists, mappings, and records of named fields.

Every element is looked at, and only what can be looked at again is looked into: an iterator would
be used up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from symattn.errors import NotSupportedError
from symattn.runtime.declared.hints import (
    Count,
    Hint,
    Misfit,
    Place,
    PlainHint,
    Reading,
    together,
)
from symattn.runtime.declared.phrases import counted, said

DEEPEST = 100
"""So many records are looked through, one in another."""


@dataclass(frozen=True, slots=True)
class TupleHint:
    """A tuple of so many elements, each with its own type."""

    parts: tuple[Hint, ...]

    @property
    def label(self) -> str:
        return f"a tuple of {counted(len(self.parts), 'element')}"

    @property
    def has_shapes(self) -> bool:
        return any(part.has_shapes for part in self.parts)

    def met(self, value: Any, place: Place) -> Iterator[Reading]:
        if not isinstance(value, tuple):
            yield (Misfit(place, "type", self.label, said(value), self, value=value),)
            return
        items = cast("tuple[Any, ...]", value)
        if len(items) != len(self.parts):
            got = f"a tuple of {counted(len(items), 'element')}"
            yield (Misfit(place, "type", self.label, got, self, value=value),)
            return
        pairs = enumerate(zip(self.parts, items, strict=True))
        yield together([part.met(item, place.item(i)) for i, (part, item) in pairs])


@dataclass(frozen=True, slots=True)
class EachHint:
    """A list, a tuple of any length, a set, …: every element is of one type."""

    container: type
    element: Hint
    label: str

    @property
    def parts(self) -> tuple[Hint, ...]:
        return (self.element,)

    @property
    def has_shapes(self) -> bool:
        return self.element.has_shapes

    def met(self, value: Any, place: Place) -> Iterator[Reading]:
        if not isinstance(value, self.container):
            yield (Misfit(place, "type", self.label, said(value), self, value=value),)
            return
        has_order = hasattr(value, "__getitem__")
        inside = replace(place, text=f"an element of {place.text}")
        yield together(
            [
                self.element.met(item, place.item(i) if has_order else inside)
                for i, item in enumerate(cast("list[Any]", value))
            ]
        )


@dataclass(frozen=True, slots=True)
class MappingHint:
    """A dictionary or another mapping: every key is of one type, and every value of another."""

    container: type
    key: Hint
    element: Hint
    label: str

    @property
    def parts(self) -> tuple[Hint, ...]:
        return (self.key, self.element)

    @property
    def has_shapes(self) -> bool:
        return self.element.has_shapes

    def met(self, value: Any, place: Place) -> Iterator[Reading]:
        if not isinstance(value, self.container):
            yield (Misfit(place, "type", self.label, said(value), self, value=value),)
            return
        of_keys = replace(place, text=f"a key of {place.text}")
        parts: list[Iterator[Reading]] = []
        for key, item in cast("Mapping[Any, Any]", value).items():
            parts.append(self.key.met(key, of_keys))
            parts.append(self.element.met(item, place.item(key)))
        yield together(parts)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record; `required` unless a `TypedDict` lets it be absent."""

    name: str
    hint: Hint
    required: bool = True

    @property
    def is_count(self) -> bool:
        """Whether it is an integer: the size of the tag that has its name."""
        return isinstance(self.hint, PlainHint) and int in self.hint.classes


@dataclass(slots=True, eq=False)
class RecordHint:
    """An instance of a dataclass or named tuple, or a `TypedDict`: fields with names.

    An integer field is a size, of the tag that has its name.  `fields` are set after the hint is
    made, since a record may hold records of its own class.
    """

    record: type
    label: str
    is_mapping: bool = False
    fields: tuple[Field, ...] = field(default=(), repr=False)

    @property
    def parts(self) -> tuple[Hint, ...]:
        return tuple(one.hint for one in self.fields)

    @property
    def has_shapes(self) -> bool:
        return True  # a record without shapes is a plain type

    def met(self, value: Any, place: Place) -> Iterator[Reading]:
        if not isinstance(value, dict if self.is_mapping else self.record):
            yield (Misfit(place, "type", self.label, said(value), self, value=value),)
            return
        if id(value) in place.holders:  # its arrays are in this reading already
            yield ()
            return
        if len(place.holders) == DEEPEST:
            what = f"records that hold records more than {DEEPEST} deep, as in {place.argument}"
            raise NotSupportedError(what)
        inside = replace(place, holders=(*place.holders, id(value)))
        yield together([self._field(one, value, inside) for one in self.fields])

    def _field(self, one: Field, value: Any, place: Place) -> Iterator[Reading]:
        # `in`, since a defaultdict would make what is asked for.
        has = one.name in value if self.is_mapping else hasattr(value, one.name)
        if not has and one.required:
            got = f"{said(value)} without {one.name}"
            yield (Misfit(place, "type", self.label, got, self, value=value),)
        elif not has:
            yield ()
        else:
            yield from self._found(one, value, place)

    def _found(self, one: Field, value: Any, place: Place) -> Iterator[Reading]:
        item = value[one.name] if self.is_mapping else getattr(value, one.name)
        where = place.item(one.name) if self.is_mapping else place.attribute(one.name)
        count = Count(where, one.name, item) if one.is_count and type(item) is int else None
        for reading in one.hint.met(item, where):
            yield (*reading, count) if count else reading
