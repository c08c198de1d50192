"""Random types with a known solution: annotations, right values, and what any value asks of sizes.

A type is a tree.  For any value, its *alternatives* are lists of what the value asks of sizes.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, NamedTuple, TypedDict, cast

import jaxtyping
import numpy as np

Sizes = Mapping[str, int]
Asked = tuple[str, Any, Any]
"""("size", expression, number), ("tag", tag, number), ("rest", name, sizes), ("broad", …)."""

Alternatives = list[list[Asked]]


class Duck:
    """An array that is nothing but a shape and a dtype."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: str = "float32") -> None:
        self.shape = shape
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"Duck({self.shape}, {self.dtype})"


def array(like: type, shape: Sequence[int], dtype: str) -> Any:
    return Duck(tuple(shape), dtype) if like is Duck else np.zeros(tuple(shape), dtype)


# -- sizes

Size = Any
"""A tag, a number, or (operator, size, size)."""


def value(size: Size, sizes: Sizes) -> int | None:
    """The number that a size is; None where a division is not exact."""
    if isinstance(size, int):
        return size
    if isinstance(size, str):
        return sizes[size]
    operator, *parts = size
    left, right = (value(part, sizes) for part in parts)
    if left is None or right is None:
        return None
    if operator == "//":
        return left // right if right and left % right == 0 else None
    return {"*": left * right, "+": left + right, "-": left - right, "^": left**right}[operator]


def text(size: Size, inside: bool = False) -> str:
    if isinstance(size, int | str):
        return str(size)
    operator, left, right = size
    shown = f"{text(left, True)}{operator}{text(right, True)}"
    return f"({shown})" if inside else shown


def tags_of(size: Size) -> set[str]:
    if isinstance(size, str):
        return {size}
    return set() if isinstance(size, int) else tags_of(size[1]) | tags_of(size[2])


def leaves(size: Size) -> list[str]:
    """The tags of a size, each as often as it occurs."""
    if isinstance(size, str):
        return [size]
    return [] if isinstance(size, int) else leaves(size[1]) + leaves(size[2])


def drawn_size(r: Random, truth: Sizes) -> Size:
    """A size that has a value at the known solution."""
    tags = list(truth)
    while True:
        a, b, c = (r.choice(tags) for _ in range(3))
        size = r.choice(
            [
                *[a] * 12,
                *[r.randint(0, 4)] * 1,
                ("*", 2, a),
                ("+", a, 1),
                ("+", a, b),
                ("*", a, b),
                ("*", a, b),
                ("//", a, b),
                ("//", ("+", a, 1), 2),
                ("+", ("//", a, b), c),
                ("^", a, 2),
                ("-", a, 1),
                ("*", a, ("+", b, c)),
                ("+", ("*", 2, a), b),
                ("*", ("*", a, b), c),
                ("-", a, b),
            ]
        )
        if len(leaves(size)) > len(tags_of(size)):
            continue  # `a//a` is 1 for us, and a division by zero for the oracle
        found = value(size, truth)
        if found is not None and found >= 0:
            return size


# -- declared types


@dataclass
class Arr:
    axes: list[tuple[str, Any]]
    like: type
    kind: str | None

    def text(self) -> str:
        words = {"any": "_", "rest": "..."}
        marks = {"named": "*", "broad": "*#", "one": "#"}
        return " ".join(
            words.get(what) or marks.get(what, "") + text(size) for what, size in self.axes
        )

    def annotation(self) -> Any:
        if self.kind is not None:
            return getattr(jaxtyping, self.kind)[self.like, self.text()]
        return Annotated[self.like, self.text()]

    def tags(self) -> set[str]:
        return {t for what, size in self.axes if what in ("size", "one") for t in tags_of(size)}

    def value(self, r: Random, truth: Sizes, batch: tuple[int, ...]) -> Any:
        shape: list[int] = []
        for what, size in self.axes:
            if what == "rest":
                shape += [r.randint(0, 3) for _ in range(r.randint(0, 2))]
            elif what == "named":
                shape += batch
            elif what == "broad":
                part = batch[r.randint(0, len(batch)) :]
                shape += [r.choice([1, n]) for n in part]
            elif what == "any":
                shape.append(r.randint(0, 4))
            else:
                found = value(size, truth)
                assert found is not None
                shape.append(1 if what == "one" and r.random() < 0.4 else found)
        dtype = "int64" if self.kind == "Int" else "float32"
        return array(self.like, shape, dtype)

    def alternatives(self, given: Any, every: set[str]) -> Alternatives:
        is_scalar = self.like is np.ndarray and isinstance(given, np.generic)
        if not (is_scalar or isinstance(given, self.like)):
            return []
        if not isinstance(getattr(given, "shape", None), tuple):
            return []
        if self.kind in ("Float", "Int") and not str(given.dtype).startswith(self.kind.lower()):
            return []
        shape = tuple(given.shape)
        rests = [k for k, (what, _) in enumerate(self.axes) if what in ("rest", "named", "broad")]
        if not rests:
            return [self.asked(self.axes, shape)] if len(shape) == len(self.axes) else []
        at, behind = rests[0], len(self.axes) - rests[0] - 1
        if len(shape) < at + behind:
            return []
        end = len(shape) - behind
        asked = self.asked(self.axes[:at], shape[:at])
        what, name = self.axes[at]
        if what != "rest":
            asked.append(("rest" if what == "named" else "broad", name, shape[at:end]))
        return [asked + self.asked(self.axes[at + 1 :], shape[end:])]

    @staticmethod
    def asked(axes: Sequence[tuple[str, Any]], shape: Sequence[int]) -> list[Asked]:
        return [
            ("size", size, number)
            for (what, size), number in zip(axes, shape, strict=True)
            if what == "size" or (what == "one" and number != 1)
        ]


@dataclass
class Integer:
    """A field that is an integer, and the size of the tag that has its name."""

    name: str

    def annotation(self) -> Any:
        return int

    def tags(self) -> set[str]:
        return set()

    def value(self, r: Random, truth: Sizes, batch: tuple[int, ...]) -> Any:
        return truth.get(self.name, r.randint(-1, 5))

    def alternatives(self, given: Any, every: set[str]) -> Alternatives:
        if not isinstance(given, int):
            return []
        if self.name not in every or isinstance(given, bool):
            return [[]]
        return [[("tag", self.name, given)]] if given >= 0 else []


@dataclass
class Counted(Integer):
    """A parameter that is an integer, and perhaps the size of a tag."""

    annotated: Any
    default: Any

    def annotation(self) -> Any:
        return self.annotated

    def value(self, r: Random, truth: Sizes, batch: tuple[int, ...]) -> Any:
        if (self.annotated == int | None or self.default is None) and r.random() < 0.3:
            return None
        found = super().value(r, truth, batch)
        return np.int64(found) if self.annotated is None and r.random() < 0.2 else found

    def alternatives(self, given: Any, every: set[str]) -> Alternatives:
        if given is None and (self.annotated in (None, int | None) or self.default is None):
            return [[]]
        if self.name not in every:
            return [[]] if self.annotated is None or isinstance(given, int) else []
        if isinstance(given, bool) or not isinstance(given, int | np.integer):
            return []
        if self.annotated is not None and not isinstance(given, int):
            return []
        return [[("tag", self.name, int(given))]] if given >= 0 else []


@dataclass
class Optional:
    inner: Any

    def annotation(self) -> Any:
        return self.inner.annotation() | None

    def tags(self) -> set[str]:
        return self.inner.tags()

    def value(self, r: Random, truth: Sizes, batch: tuple[int, ...]) -> Any:
        return None if r.random() < 0.4 else self.inner.value(r, truth, batch)

    def alternatives(self, given: Any, every: set[str]) -> Alternatives:
        return [[]] if given is None else self.inner.alternatives(given, every)


@dataclass
class Union:
    parts: list[Any]

    def annotation(self) -> Any:
        first, *others = (part.annotation() for part in self.parts)
        for other in others:
            first = first | other
        return first

    def tags(self) -> set[str]:
        return set[str]().union(*(part.tags() for part in self.parts))

    def value(self, r: Random, truth: Sizes, batch: tuple[int, ...]) -> Any:
        return r.choice(self.parts).value(r, truth, batch)

    def alternatives(self, given: Any, every: set[str]) -> Alternatives:
        return [one for part in self.parts for one in part.alternatives(given, every)]


@dataclass
class Each:
    """A list, `dict[str, …]`, `*args` (a tuple) or `**kwargs` (a dict) of one type."""

    container: type
    inner: Any

    def annotation(self) -> Any:
        if self.container is tuple:
            return tuple[self.inner.annotation(), ...]
        if self.container is dict:
            return dict[str, self.inner.annotation()]
        return list[self.inner.annotation()]

    def tags(self) -> set[str]:
        return self.inner.tags()

    def value(self, r: Random, truth: Sizes, batch: tuple[int, ...]) -> Any:
        many = isinstance(self.inner, Union) and r.random() < 0.1
        items = [self.inner.value(r, truth, batch) for _ in range(7 if many else r.randint(0, 2))]
        if self.container is dict:
            return {f"k{k}": item for k, item in enumerate(items)}
        return self.container(items)

    def alternatives(self, given: Any, every: set[str]) -> Alternatives:
        if not isinstance(given, self.container):
            return []
        items = given.values() if isinstance(given, dict) else given
        return joined([self.inner.alternatives(item, every) for item in items])


@dataclass
class Tuple:
    parts: list[Any]

    def annotation(self) -> Any:
        return tuple[tuple(part.annotation() for part in self.parts)]

    def tags(self) -> set[str]:
        return set[str]().union(*(part.tags() for part in self.parts))

    def value(self, r: Random, truth: Sizes, batch: tuple[int, ...]) -> Any:
        return tuple(part.value(r, truth, batch) for part in self.parts)

    def alternatives(self, given: Any, every: set[str]) -> Alternatives:
        if not isinstance(given, tuple) or len(given) != len(self.parts):
            return []
        pairs = zip(self.parts, given, strict=True)
        return joined([part.alternatives(item, every) for part, item in pairs])


MADE: dict[str, Any] = {
    "dataclass": lambda pairs: dataclasses.make_dataclass("Data", pairs),
    "NamedTuple": lambda pairs: NamedTuple("Named", pairs),
    "TypedDict": lambda pairs: cast(Any, TypedDict)("Typed", dict(pairs)),
}


@dataclass
class Record:
    kind: str
    fields: dict[str, Any]

    def __post_init__(self) -> None:
        pairs = [(name, one.annotation()) for name, one in self.fields.items()]
        self.made: Any = MADE[self.kind](pairs)

    def annotation(self) -> Any:
        return self.made

    def tags(self) -> set[str]:
        return set[str]().union(*(one.tags() for one in self.fields.values()))

    def value(self, r: Random, truth: Sizes, batch: tuple[int, ...]) -> Any:
        items = {name: one.value(r, truth, batch) for name, one in self.fields.items()}
        return self.made(**items)

    def alternatives(self, given: Any, every: set[str]) -> Alternatives:
        if not isinstance(given, dict if self.kind == "TypedDict" else self.made):
            return []
        items: list[Alternatives] = []
        for name, one in self.fields.items():
            if isinstance(given, dict) and name not in given:
                return []
            item = given[name] if isinstance(given, dict) else getattr(given, name)
            items.append(one.alternatives(item, every))
        return joined(items)


def joined(parts: Sequence[Alternatives]) -> Alternatives:
    return [[a for one in chosen for a in one] for chosen in itertools.product(*parts)]


# -- drawing types

KINDS = (None, None, None, "Float", "Int", "Shaped")


def drawn_array(r: Random, truth: Sizes) -> Arr:
    axes: list[tuple[str, Any]] = []
    for _ in range(r.choice([0, 1, 1, 2, 2, 3])):
        what = r.choice(["size"] * 9 + ["any", "one"])
        tag = r.choice(list(truth))
        axes.append((what, tag if what == "one" else drawn_size(r, truth)))
    if r.random() < 0.25:
        rests = [("rest", None), *[("named", "batch")] * 2, ("broad", "batch")]
        axes.insert(r.randint(0, len(axes)), r.choice(rests))
    return Arr(axes, r.choice([Duck, Duck, np.ndarray]), r.choice(KINDS))


def drawn_composite(r: Random, truth: Sizes) -> Arr:
    """An array whose first axis is no plain tag."""
    size = drawn_size(r, truth)
    while not isinstance(size, tuple):
        size = drawn_size(r, truth)
    axes = [("size", size), ("size", r.choice(list(truth)))]
    return Arr(axes[: r.randint(1, 2)], np.ndarray, None)


def drawn_type(r: Random, truth: Sizes, depth: int = 0) -> Any:
    what = r.choice(
        ["array"] * 8 + ["optional"] * 3 + ["union", "each", "tuple", "record", "record"]
    )
    if depth > 1 or what == "array":
        return drawn_array(r, truth)
    if what == "optional":
        inner = drawn_type(r, truth, depth + 1)
        return inner if isinstance(inner, Optional) else Optional(inner)
    if what == "union":
        return Union([drawn_array(r, truth) for _ in range(2)])
    if what == "each":
        container = r.choice([list, dict, tuple])
        if r.random() < 0.4:
            return Each(container, Union([drawn_array(r, truth) for _ in range(2)]))
        return Each(container, drawn_type(r, truth, depth + 1))
    if what == "tuple":
        return Tuple([drawn_type(r, truth, depth + 1) for _ in range(r.randint(1, 2))])
    fields: dict[str, Any] = {f"f{k}": drawn_type(r, truth, depth + 1) for k in range(2)}
    if r.random() < 0.6:
        name = r.choice([*(t for t in truth if t.isidentifier()), "layers"])
        if not name.startswith("_") and name not in ("class",):
            fields[name] = Integer(name)
    return Record(r.choice(["dataclass", "dataclass", "NamedTuple", "TypedDict"]), fields)
