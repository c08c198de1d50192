"""What a value is declared to be: an array of a shape, or something with arrays in it.

A hint is a tree.  Its leaves are arrays (`ArrayHint`), which give equations between sizes, and
plain types (`PlainHint`), which beartype checks; in between stand unions, and in `containers`
tuples, lists, mappings and records (dataclasses, named tuples).  One question is asked of every
hint: which arrays does this value hold, and where?  `met` answers it with *readings*: a reading is
a tuple of arrays met, and of misfits where the value is not of the declared kind.  Only a union has
more readings than one, and only if it has no misfits; what holds such a value has one reading, in
which the choice is left open (`Either`), so that the readings of a list are not multiplied out.

The invariant: every array in a value that is declared to have a shape is in each of its readings;
nothing is sampled, and nothing is consumed.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

from symattn.runtime.declared.kinds import Kind, dtype_name
from symattn.runtime.declared.phrases import a, class_name, counted, said
from symattn.tags.spec import Axis, Rest, ShapeSpec

Shape = tuple[int, ...]

LONGEST_KEY = 60

UNKNOWN = -1
"""What stands in a shape for an axis whose size is no number, as while a function is traced."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands: in which argument, and as text: `layers[2].W` stands in `layers`."""

    argument: str
    text: str
    holders: tuple[int, ...] = field(default=(), repr=False, compare=False)
    """The records that it stands in, by id: what holds itself is looked at once."""

    @staticmethod
    def of(argument: str) -> Place:
        """The argument itself."""
        return Place(argument, argument)

    def item(self, key: object) -> Place:
        """What stands under a key, or at a position."""
        # Other keys may print as long as they like, an array as a key its values.
        shown = repr(key) if isinstance(key, int | str) else f"<{class_name(type(key))}>"
        return Place(self.argument, f"{self.text}[{shown[:LONGEST_KEY]}]", self.holders)

    def attribute(self, name: str) -> Place:
        """What an attribute holds."""
        return Place(self.argument, f"{self.text}.{name}", self.holders)


@dataclass(frozen=True, slots=True)
class Met:
    """An array of the declared type and number of axes; whether its sizes fit is yet to be seen.

    Where a size is not known, it is `UNKNOWN` in `shape`, and `hint` asks nothing of that axis.
    """

    place: Place
    hint: ArrayHint
    shape: Shape
    value: Any = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Count:
    """An integer that is the size of a tag: a parameter `h: int` where `h d_k` is declared.

    It is the size of an axis of what is met, or of anything else that the function declares
    (`declared`): of the result, or of an array that is absent.
    """

    place: Place
    tag: str
    value: int
    declared: bool = False


@dataclass(frozen=True, slots=True)
class Misfit:
    """A value of another type (`kind` "type"), dtype ("dtype") or number of axes ("rank").

    `wanted` and `got` are phrases: the value is `got`, but is declared as `wanted`.
    """

    place: Place
    kind: str
    wanted: str
    got: str
    hint: Hint
    shape: Shape | None = None
    value: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Either:
    """A value that can be read as each of several types, without misfits in any of them."""

    options: tuple[Reading, ...]


Item = Met | Count | Misfit
Reading = tuple[Item | Either, ...]


class Hint(Protocol):
    """A declared type: `met` gives every reading of a value, at least one."""

    @property
    def label(self) -> str:
        """What is declared, as a phrase: `an array "d_k n"`."""
        ...

    @property
    def parts(self) -> tuple[Hint, ...]:
        """The hints of what stands in a value."""
        ...

    @property
    def has_shapes(self) -> bool:
        """Whether an array with a declared shape stands anywhere in it."""
        ...

    def met(self, value: Any, place: Place) -> Iterator[Reading]:
        """The readings of a value that stands at this place."""
        ...


@dataclass(frozen=True, slots=True)
class ArrayHint:
    """An array: of one of these classes (none: of any library), of a shape, of a kind of dtypes."""

    spec: ShapeSpec
    classes: tuple[type, ...] = ()
    kind: Kind | None = None

    @property
    def label(self) -> str:
        return f'an array "{self.spec.text}"'

    @property
    def parts(self) -> tuple[Hint, ...]:
        return ()

    @property
    def has_shapes(self) -> bool:
        return True

    def met(self, value: Any, place: Place) -> Iterator[Reading]:
        shape = shape_of(value)
        if shape is None:
            yield (Misfit(place, "type", self.label, said(value), self, value=value),)
            return
        if self.classes and not isinstance(value, self.classes) and not self._counts(value):
            wanted = " or ".join(a(class_name(kind)) for kind in self.classes)
            wanted = f'{wanted} "{self.spec.text}"'
            yield (Misfit(place, "type", wanted, said(value), self, shape, value),)
            return
        if self.kind is not None:
            name = dtype_name(value)
            if name is None or not self.kind.holds(name):
                wanted = f"an array of dtype {self.kind.label}"
                got = f"an array of dtype {name}" if name else "an array without a dtype"
                yield (Misfit(place, "dtype", wanted, got, self, shape, value),)
                return
        if not self.spec.fits_rank(len(shape)):
            least = "at least " if self.spec.rest else ""
            axes = counted(self.spec.rank, "axis", "axes")
            wanted = f'an array of {least}{axes} "{self.spec.text}"'
            got = f"an array of {counted(len(shape), 'axis', 'axes')}, {shape}"
            yield (Misfit(place, "rank", wanted, got, self, shape, value),)
            return
        hint = replace(self, spec=_known(self.spec, shape)) if UNKNOWN in shape else self
        yield (Met(place, hint, shape, value),)

    def _counts(self, value: Any) -> bool:
        """Whether it is a NumPy scalar, an array without axes, where NumPy's arrays are wanted."""
        numpy = sys.modules.get("numpy")
        if numpy is None or not isinstance(value, numpy.generic):
            return False
        return any(issubclass(numpy.ndarray, kind) for kind in self.classes)


def shape_of(value: Any) -> Shape | None:
    """The shape of an array, as integers; None for what is no array.

    >>> import numpy as np
    >>> shape_of(np.zeros((3, 4))), shape_of(np.float32(0)), shape_of(2.5), shape_of([1, 2])
    ((3, 4), (), None, None)
    """
    if isinstance(value, type):
        return None
    try:
        found: Any = getattr(value, "shape", None)
        if found is None or isinstance(found, str):
            return None
        sizes = tuple(cast("tuple[Any, ...]", found))
    except Exception as error:  # a method; an array without one shape, or of unknown rank
        if not cannot_tell(error):
            raise
        return None
    return tuple(map(size_of, sizes)) if all(map(_may_be_size, sizes)) else None


def is_shaped(value: Any, shape: Any) -> bool:
    """Whether this is the shape of an array, each of its sizes a plain integer.

    >>> is_shaped("a text", (3, 4)), is_shaped(None, (3, -4)), is_shaped(int, (3, 4))
    (True, False, False)
    """
    if isinstance(value, type) or not isinstance(shape, tuple):
        return False
    return all(type(size) is int and size >= 0 for size in cast("tuple[Any, ...]", shape))


def size_of(size: Any) -> int:
    """The number that stands in a shape, or `UNKNOWN`."""
    try:
        return operator.index(size)
    except Exception as error:  # the sizes of tracers are objects of all kinds
        if not cannot_tell(error):
            raise
        return UNKNOWN


def _may_be_size(size: Any) -> bool:
    """Whether an object can stand in a shape: an integer, None, or what a tracer has there."""
    return size >= 0 if type(size) is int else not isinstance(size, _NO_SIZES)


def cannot_tell(error: Exception) -> bool:
    """Whether an exception is how an object says that it has no shape, or no number for a size.

    Any other is none of our business: a signal handler may have raised it.
    """
    return isinstance(error, _ANSWERS) or type(error).__module__.startswith(_TRACING)


_ANSWERS = (
    *(AttributeError, TypeError, ValueError, ArithmeticError, LookupError, NameError, RuntimeError),
)
_NO_SIZES = (bool, float, complex, str, bytes, list, tuple, dict, set)
_TRACING = ("jax", "torch", "tensorflow")


def _known(spec: ShapeSpec, shape: Shape) -> ShapeSpec:
    """What is left of a declared shape where some sizes are not known."""

    def asked(axes: tuple[Axis, ...], sizes: Shape) -> tuple[Axis, ...]:
        pairs = zip(axes, sizes, strict=True)
        return tuple(Axis(None) if size == UNKNOWN else axis for axis, size in pairs)

    start, end = len(spec.before), len(shape) - len(spec.after)
    rest = Rest(None) if spec.rest and UNKNOWN in shape[start:end] else spec.rest
    return replace(
        spec,
        before=asked(spec.before, shape[:start]),
        rest=rest,
        after=asked(spec.after, shape[end:]),
    )


@dataclass(frozen=True, slots=True)
class PlainHint:
    """A type without shapes: an instance of `classes`, or, without these, whatever beartype says.

    An integer will do where a float is declared, and a float where a complex is, as PEP 484 has it.
    """

    annotation: Any = field(hash=False)  # what is in an annotation may have no hash
    label: str
    classes: tuple[type, ...] = ()

    @property
    def parts(self) -> tuple[Hint, ...]:
        return ()

    @property
    def has_shapes(self) -> bool:
        return False

    def holds(self, value: Any) -> bool:
        """Whether a value is of this type."""
        return isinstance(value, self.classes) if self.classes else bears(value, self.annotation)

    def met(self, value: Any, place: Place) -> Iterator[Reading]:
        if self.holds(value):
            yield ()
        else:
            yield (Misfit(place, "type", self.label, said(value), self, value=value),)


def bears(value: Any, annotation: Any) -> bool:
    """Whether beartype takes a value for an annotation; its errors say what it cannot take."""
    # It takes a tenth of a second to import, and classes need none.
    from beartype import BeartypeConf
    from beartype.door import is_bearable

    return is_bearable(value, annotation, conf=BeartypeConf(is_pep484_tower=True))


@dataclass(frozen=True, slots=True)
class AnyHint:
    """No declaration: every value is fine."""

    label: str = "anything"

    @property
    def parts(self) -> tuple[Hint, ...]:
        return ()

    @property
    def has_shapes(self) -> bool:
        return False

    def met(self, value: Any, place: Place) -> Iterator[Reading]:
        yield ()


ANYTHING = AnyHint()


@dataclass(frozen=True, slots=True)
class UnionHint:
    """One of several types; `X | None` is the union of X and None.

    A value is read as each type that it can be.  Where it can be none, the misfit is that of the
    types that came nearest: an array of a wrong dtype is nearer than something else than an array.
    """

    parts: tuple[Hint, ...]

    @property
    def label(self) -> str:
        return " or ".join(dict.fromkeys(part.label for part in self.parts))

    @property
    def has_shapes(self) -> bool:
        return any(part.has_shapes for part in self.parts)

    def met(self, value: Any, place: Place) -> Iterator[Reading]:
        failed: list[list[Misfit]] = []
        fits = False
        for part in self.parts:
            for reading in part.met(value, place):
                misfits = [item for item in reading if isinstance(item, Misfit)]
                if misfits:
                    failed.append(misfits)
                else:
                    fits = True
                    yield reading
        if not fits:
            yield self._misfits(failed, value, place)

    def _misfits(self, failed: list[list[Misfit]], value: Any, place: Place) -> Reading:
        near = [m for m in failed if any(one.kind != "type" or one.place != place for one in m)]
        if not near:
            return (Misfit(place, "type", self.label, said(value), self, shape_of(value), value),)
        firsts = [misfits[0] for misfits in near]
        first = firsts[0]
        if len(near) == 1 or any(len(m) > 1 or m[0].place != first.place for m in near):
            return tuple(near[0])
        kind = first.kind if all(one.kind == first.kind for one in firsts) else "type"
        wanted = " or ".join(dict.fromkeys(one.wanted for one in firsts))
        return (replace(first, kind=kind, wanted=wanted, hint=self),)


def everything_in(hint: Hint) -> tuple[Hint, ...]:
    """A hint and all that stand in it, each once, though records may hold themselves."""
    seen: dict[int, Hint] = {}
    waiting = [hint]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen[id(one)] = one
            waiting.extend(reversed(one.parts))
    return tuple(seen.values())


def together(parts: Iterable[Iterator[Reading]]) -> Reading:
    """The reading of several values at once, in which choices are left open."""
    found: list[Item | Either] = []
    for part in parts:
        options = tuple(part)
        if len(options) == 1:
            found.extend(options[0])
        else:
            found.append(Either(options))
    return tuple(found)
