"""A checked function: what it declares, and the slow way, which alone decides.

The straight line in its source asks here whenever it does not accept: `arguments` reads every array
again, solves all equations at once, and gives the sizes back or raises.  So nothing depends on the
straight line but speed.  A check that fails binds nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import getattr_static
from types import FunctionType
from typing import Any, NoReturn, cast

from symattn.errors import (
    ShapeCheckError,
    SizeError,
    SpecError,
    TypeCheckError,
    UncheckedWarning,
)
from symattn.errors.checks import bindings_text
from symattn.runtime.current import keep_sizes, outlives_the_call, sizes_of
from symattn.runtime.declared.hints import (
    UNKNOWN,
    Count,
    Hint,
    Item,
    Met,
    Misfit,
    Place,
    Reading,
    size_of,
    together,
)
from symattn.runtime.declared.phrases import said_as_size
from symattn.runtime.generated.accepted import accepted_dtypes
from symattn.runtime.generated.emit import Declared, Source
from symattn.runtime.judging.choosing import chosen, declaring
from symattn.runtime.judging.equations import Bound, shown
from symattn.runtime.judging.explanation import explain
from symattn.tags import check_size

__tracebackhide__ = True  # pytest shows the call, and the message

RESULT = "the result"
YIELDED = "the value yielded"

_MOST_NOTES = 8


class Sizes(dict[str, Bound]):
    """The sizes that a check found, each with where it comes from."""


class Checked:
    """The slow way of one function.

    ``declared`` is what it declares; ``argument_tags`` are those of the arguments, in whose sizes
    the result may have a say; ``wrapper`` is what is called, and ``source`` its source.
    """

    def __init__(self, declared: Declared, argument_tags: Iterable[str] = ()) -> None:
        self.declared = declared
        self.argument_tags = tuple(argument_tags)
        self.source: Source | None = None
        self.wrapper: FunctionType | None = None
        self.of_instance: bool | None = None  # a static method shows at its first call
        self.sizes_matter = True  # not for a constructor if no method uses a size, or once warned

    def __repr__(self) -> str:
        return f"<checks of {self.declared.name}>"

    # -- what the source asks

    def arguments(self, values: Sequence[Any]) -> Sizes:
        """The sizes of a call with these arguments, in the order of the parameters."""
        declared = self.declared
        known = self.known(values)
        parts = [
            declared.hints[parameter.name].met(value, Place.of(parameter.name))
            for parameter, value in zip(declared.parameters, values, strict=True)
        ]
        reading = declaring((*together(parts), *self.counts(values)), frozenset(declared.tags))
        items, sizes = settled(reading, known)
        if sizes is None:
            suspects = [p.name for p in declared.parameters if p.name in self.declared.hints]
            raise explain(declared.name, items, known, suspects)
        missing = [tag for tag in declared.open_tags if tag not in sizes]
        if missing:
            raise SpecError(
                declared.name,
                f"{_listed(missing)} cannot be told from the arguments, and no checked __init__ "
                "has bound a size for this instance",
                f"check __init__ too, or declare an axis that is {missing[0]} alone (of a static "
                "method, write @shapecheck above @staticmethod)",
            )
        return sizes

    def result(
        self, value: Any, values: Sequence[Any], seen: Seen, own: Mapping[str, Bound]
    ) -> None:
        """Check what the function gave back, against the sizes of its arguments."""
        if value is NotImplemented:  # how an operator says that the other operand should try
            return
        if self.declared.result is not None:
            self.given_back(self.declared.result, value, RESULT, values, seen, own)

    def yielded(
        self, value: Any, values: Sequence[Any], seen: Seen, own: Mapping[str, Bound]
    ) -> None:
        """Check one value that a generator yields; each binds its own sizes."""
        if self.declared.yields is not None:
            self.given_back(self.declared.yields, value, YIELDED, values, seen, own)

    def each(
        self, iterator: Any, values: Sequence[Any], seen: Seen, own: Mapping[str, Bound]
    ) -> Any:
        """The generator, with every value that it yields checked."""
        return _Yields(partial(self.yielded, values=values, seen=seen, own=own), iterator)

    def keep(self, instance: object, values: Sequence[Any], seen: Seen) -> None:
        """Let the instance that is being constructed have the sizes of this call.

        Its integers, `d_model: int`, are the sizes of what methods call so.
        """
        where = f"{type(instance).__name__}()"
        kept = {
            tag: (size, f"{place} of {where}")
            for tag, (size, place) in self.bound(seen).items()
            if outlives_the_call(tag)
        }
        integers: dict[str, Bound] = {}
        for parameter, value in zip(self.declared.parameters, values, strict=True):
            size = _as_size(value) if parameter.name in self.declared.integers else None
            if size is not None:
                integers[parameter.name] = size, f"{parameter.name} of {where}"
        kept = {**integers, **kept}
        if not keep_sizes(instance, self.declared.owner, kept) and self.sizes_matter:
            self.sizes_matter = False
            warnings.warn(
                UncheckedWarning(
                    f"{where} has __slots__ without '__weakref__', so its methods do not know the "
                    "sizes bound in __init__; add it, as @dataclass(slots=True, weakref_slot=True)"
                ),
                stacklevel=3,
            )

    def held(self, instance: object) -> dict[str, Bound] | None:
        """The sizes that an instance has from its construction; none while it is constructed."""
        if self.of_instance is None:
            name = self.declared.name.rpartition(".")[2]
            found = getattr_static(type(instance), name, None)
            self.of_instance = not isinstance(found, staticmethod)
        if self.declared.constructs or not self.of_instance:
            return None
        return sizes_of(instance, self.declared.owner)

    def agrees(self, held: Mapping[str, Bound], seen: Mapping[str, Any]) -> bool:
        """Whether the sizes of an instance are those of this call."""
        return all(
            held[tag][0] == size for tag, size in seen.items() if tag in held and size is not None
        )

    def note(
        self, error: BaseException, values: Sequence[Any], seen: Seen, own: Mapping[str, Bound]
    ) -> None:
        """Say on an exception that leaves the body what the sizes were."""
        ours = isinstance(error, ShapeCheckError | TypeCheckError | SpecError)
        if ours and error.function == self.declared.name:
            return  # it says them itself
        try:
            self.add_note(error, values, seen, own)
        except Exception:  # whatever an exception does when it is looked at: it is not ours to hide
            return

    def add_note(
        self, error: BaseException, values: Sequence[Any], seen: Seen, own: Mapping[str, Bound]
    ) -> None:
        """Add the note, unless the exception has it, or has enough: it may be raised many times."""
        sizes = shown(self.known_after(values, seen, own))
        if sizes:
            note = f"in {self.declared.name}(): {bindings_text(sizes)}"
            notes = getattr(error, "__notes__", ())
            if note not in notes and len(notes) < _MOST_NOTES:
                error.add_note(note)

    def require(self, bound: Collection[str]) -> None:
        """Refuse the function unless the tags that its equations leave open are bound elsewhere."""
        missing = [tag for tag in self.declared.open_tags if tag not in bound]
        if missing:
            raise SpecError(
                self.declared.name,
                f"{_listed(missing)} {'does' if len(missing) == 1 else 'do'} not follow from the "
                "sizes that are declared",
                f"make {missing[0]} an integer parameter, {missing[0]}: int, or declare an axis "
                f"that is {missing[0]} alone",
            )

    # -- how it is decided

    def given_back(
        self,
        hint: Hint,
        value: Any,
        place: str,
        values: Sequence[Any],
        seen: Seen,
        own: Mapping[str, Bound],
    ) -> None:
        """Check what the body gave, together with all that its arguments still leave open."""
        known = self.known_after(values, seen, own)
        before = self.waiting(values, self.known_after(values, seen, {}))
        check_value(
            self.declared.name, hint, value, place, known, before, frozenset(self.declared.tags)
        )

    def known_after(
        self, values: Sequence[Any], seen: Seen, own: Mapping[str, Bound]
    ) -> dict[str, Bound]:
        """What holds when the body gives something back."""
        # Equal sizes, but the instance knows better where its own are from.
        return {**self.bound(seen), **self.instance_sizes(values), **own}

    def instance_sizes(self, values: Sequence[Any]) -> Mapping[str, Bound]:
        """The sizes that the instance has from its constructor."""
        for parameter, value in zip(self.declared.parameters, values, strict=True):
            if parameter.name == self.declared.instance:
                return self.held(value) or {}
        return {}

    def waiting(self, values: Sequence[Any], known: Mapping[str, Bound]) -> Reading:
        """The reading of the arguments, where they leave some of their sizes open."""
        if all(tag in known for tag in self.argument_tags):
            return ()
        parts = [
            self.declared.hints[parameter.name].met(value, Place.of(parameter.name))
            for parameter, value in zip(self.declared.parameters, values, strict=True)
        ]
        return together(parts)

    def counts(self, values: Sequence[Any]) -> list[Item]:
        """The integers among the arguments that are the size of a tag."""
        items: list[Item] = []
        for parameter, value in zip(self.declared.parameters, values, strict=True):
            name = parameter.name
            if name in self.declared.counts and value is not None:
                place = Place.of(name)
                try:
                    items.append(Count(place, name, check_size(name, value, least=0)))
                except SizeError:
                    wanted = f"the size {name}, an integer of at least 0"
                    hint = self.declared.hints[name]
                    items.append(Misfit(place, "type", wanted, said_as_size(value), hint))
        return items

    def known(self, values: Sequence[Any]) -> dict[str, Bound]:
        """What holds besides the arguments: the sizes of the instance, and attributes."""
        declared = self.declared
        given = dict(zip((p.name for p in declared.parameters), values, strict=True))
        known = dict(self.instance_sizes(values))
        for tag, (first, *path) in declared.references.items():
            value, said = given[first], first
            for name in path:
                if not hasattr(value, name):
                    self.refuse(f"{said} has no attribute {name}, which {tag} stands for")
                value, said = getattr(value, name), f"{said}.{name}"
            try:
                known[tag] = check_size(said, value, least=0), said
            except SizeError:
                wanted = "a size, an integer of at least 0"
                self.refuse(f"{said} is {said_as_size(value)}, but {tag} stands for {wanted}")
        return known

    def refuse(self, problem: str) -> NoReturn:
        raise SpecError(self.declared.name, problem) from None

    def bound(self, seen: Seen) -> dict[str, Bound]:
        """Sizes as the slow way writes them, from the variables of the straight line or its own."""
        if isinstance(seen, Sizes) or self.source is None:
            return dict(seen)
        sizes: dict[str, Bound] = {}
        for tag, size in seen.items():
            origin = self.source.origins[tag]
            if isinstance(size, tuple):  # the axes of a rest, which the slow way names one by one
                axes = cast("tuple[int, ...]", size)
                sizes[tag] = len(axes), origin
                for k, axis in enumerate(reversed(axes)):
                    sizes[f"{tag}[-{k + 1}]"] = size_of(axis), origin
            elif size is not None:
                sizes[tag] = size_of(size), origin
        # A tracer's size may be no number.
        return {tag: bound for tag, bound in sizes.items() if bound[0] != UNKNOWN}


def settled(reading: Reading, known: Mapping[str, Bound]) -> tuple[tuple[Item, ...], Sizes | None]:
    """What is read, choices made, and its sizes; None if nothing fits."""
    items, sizes = chosen(reading, known)
    if sizes is None:
        return items, None
    for item in items:
        if isinstance(item, Met) and item.hint.kind is not None:
            accepted_dtypes(item.hint.kind).add(item.value.dtype)
    return items, Sizes(sizes)


def check_value(
    function: str,
    hint: Hint,
    value: Any,
    place: str,
    known: Mapping[str, Bound],
    others: Reading = (),
    tags: frozenset[str] = frozenset(),
) -> Sizes:
    """The sizes after one more value was met, which alone is to blame if it does not fit.

    ``others`` is the reading of what was met before, where its sizes are still open.
    """
    met = together([hint.met(value, Place.of(place)), iter([others])])
    items, sizes = settled(declaring(met, tags), known)
    if sizes is None:
        raise explain(function, items, known, [place])
    return sizes


Seen = Mapping[str, Any]
"""The sizes of a call: `Sizes`, or plain numbers from the variables of the straight line."""


@dataclass(slots=True)
class _Yields:
    """A generator whose values are checked as they come; all else goes through to it."""

    check: Callable[[Any], None]
    iterator: Any

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self.passed(next(self.iterator))

    def send(self, value: Any) -> Any:
        return self.passed(self.iterator.send(value))

    def throw(self, *error: Any) -> Any:
        return self.passed(self.iterator.throw(*error))

    def close(self) -> None:
        self.iterator.close()

    def passed(self, value: Any) -> Any:
        try:
            self.check(value)
        except BaseException:
            self.iterator.close()
            raise
        return value


def _as_size(value: Any) -> int | None:
    """The size that a value is, if it is one."""
    try:
        return check_size("a size", value, least=0)
    except SizeError:
        return None


def _listed(tags: Sequence[str]) -> str:
    return tags[0] if len(tags) == 1 else f"{', '.join(tags[:-1])} and {tags[-1]}"
