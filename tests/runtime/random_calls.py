"""Random signatures and calls of them: right ones, and such that have one thing changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.runtime.random_types import (
    Arr,
    Counted,
    Duck,
    Each,
    Optional,
    array,
    drawn_composite,
    drawn_type,
)

TAGS = ("a", "b", "c", "h", "d_k", "n")
ODD_TAGS = ("fits", "sizes", "result", "len", "isinstance", "tuple", "p0_0", "class", "ñ", "held")
ODD_NAMES = (
    *("fits", "sizes", "checked", "unchecked", "own", "STATE", "list", "match", "p0_0", "é"),
    *("isinstance", "type", "int", "tuple", "len", "Exception", "is_shaped", "__shapecheck__"),
)


class Signature:
    """A random signature: its parameters, in order, each with its kind, type and default."""

    def __init__(self, r: Random, truth: Mapping[str, int], batch: tuple[int, ...], me: str = ""):
        self.r, self.truth, self.batch, self.me = r, dict(truth), batch, me
        self.types: dict[str, Any] = {}
        self.kinds: dict[str, str] = {}
        self.defaults: dict[str, Any] = {}
        self.references: dict[str, int] = {}
        self.every: set[str] = set()
        self.draw()

    def draw(self) -> None:
        r, truth = self.r, self.truth
        plain = dict(truth)
        if r.random() < 0.25:
            holder = self.me if self.me and r.random() < 0.6 else "cfg"
            path = r.choice(["size", "inner.size"]) if holder == "cfg" else "attribute"
            tag = f"{{{holder}.{path}}}"
            self.references[tag] = r.randint(0, 5)
            truth[tag] = self.references[tag]
            if holder == "cfg":
                self.add("cfg", "normal", None)
        if r.random() < 0.3:
            self.draw_doubtful()
        names = [*(f"p{k}" for k in range(3)), *r.sample(ODD_NAMES, 2)]
        for name in r.sample(names, r.randint(1, 3)):
            kind = r.choice(["normal"] * 5 + ["positional", "keyword"])
            self.add(name, kind, drawn_type(r, truth))
        for tag in plain:
            if r.random() < 0.2 and tag.isidentifier() and tag not in (*self.types, "class"):
                annotated = r.choice([int, int, int | None, None])
                kind = r.choice(["normal", "normal", "keyword"])
                self.add(tag, kind, Counted(tag, annotated, default=0))
        if r.random() < 0.15 and "k" not in truth:  # an integer that only the result speaks of
            truth["k"] = r.randint(0, 5)
            self.add("k", "normal", Counted("k", int, default=0))
        if r.random() < 0.15:
            self.add("more", "*", Each(tuple, drawn_type(r, truth, 1)))
        if r.random() < 0.1:
            self.add("named", "**", Each(dict, drawn_type(r, truth, 1)))
        if r.random() < 0.6:
            for k, tag in enumerate(truth):
                if r.random() < 0.6:
                    axes = [("size", tag), ("size", r.choice(list(truth)))][: r.randint(1, 2)]
                    self.add(f"q{k}", "normal", Arr(axes, np.ndarray, None))
        for name in self.types:
            self.may_lack(name)
        order = ["positional", "normal", "*", "keyword", "**"]
        # What has a default stands after what has none.
        self.names = sorted(
            self.types, key=lambda name: (order.index(self.kinds[name]), name in self.defaults)
        )
        lacking = False
        for name in self.names:
            if self.kinds[name] in ("positional", "normal"):
                lacking = lacking or name in self.defaults
                if lacking and name not in self.defaults:
                    self.defaults[name] = None
                    if isinstance(self.types[name], Counted):
                        self.types[name].default = None

    def draw_doubtful(self) -> None:
        """Draw sizes that something has which may be absent, and others that are made of them."""
        r, truth = self.r, self.truth
        tags = [tag for tag in truth if tag.isidentifier() and tag != "class"]
        for k, tag in enumerate(r.sample(tags, r.randint(0, len(tags)))):
            arr = Arr([("size", tag)], np.ndarray, None)
            holders = [Each(list, arr), Each(dict, arr), Optional(arr)]
            held = r.choice([*holders, Counted(tag, int | None, default=None)])
            self.add(tag if isinstance(held, Counted) else f"w{k}", "normal", held)
        for k in range(r.randint(0, 2)):
            self.add(f"made{k}", "normal", drawn_composite(r, truth))

    def add(self, name: str, kind: str, declared: Any) -> None:
        self.types[name], self.kinds[name] = declared, kind

    def may_lack(self, name: str) -> None:
        """Draw whether a parameter has a default."""
        r, declared = self.r, self.types[name]
        if self.kinds[name] in ("*", "**"):
            return
        if isinstance(declared, Counted) and r.random() < 0.3:
            self.defaults[name] = declared.default = None
        elif isinstance(declared, Optional) and r.random() < 0.5:
            self.defaults[name] = None

    def tags(self) -> set[str]:
        return {t for one in self.types.values() if one is not None for t in one.tags()}

    # -- its source

    def annotations(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, declared in self.types.items():
            if isinstance(declared, Each) and self.kinds[name] in ("*", "**"):
                found[name] = declared.inner.annotation()
            elif declared is not None and declared.annotation() is not None:
                found[name] = declared.annotation()
        return found

    def source(self) -> str:
        parts: list[str] = [self.me] if self.me else []
        for k, name in enumerate(self.names):
            kind = self.kinds[name]
            before = [self.kinds[other] for other in self.names[:k]]
            if kind != "positional" and "positional" in before and "/" not in parts:
                parts.append("/")
            if kind == "keyword" and "*" not in before and "*" not in parts:
                parts.append("*")
            shown = {"*": f"*{name}", "**": f"**{name}"}.get(kind, name)
            parts.append(shown + (f"=DEFAULTS[{name!r}]" if name in self.defaults else ""))
        if self.names and self.kinds[self.names[-1]] == "positional":
            parts.append("/")
        return ", ".join(parts)

    # -- its calls

    def config(self) -> Any:
        numbers = {tag: size for tag, size in self.references.items() if "cfg." in tag}
        held = SimpleNamespace(other=1)
        for tag, size in numbers.items():
            if "inner" in tag:
                held.inner = SimpleNamespace(size=size)
            else:
                held.size = size
        return held

    def values(self, wrong: int) -> dict[str, Any]:
        r = self.r
        found = {
            name: self.config() if one is None else one.value(r, self.truth, self.batch)
            for name, one in self.types.items()
        }
        for name in self.defaults:
            if r.random() < 0.3:
                found[name] = self.defaults[name]
        for _ in range(wrong):
            name = r.choice(self.names)
            if self.kinds[name] not in ("*", "**"):
                found[name] = corrupted(r, found[name])
            elif found[name]:
                changed = corrupted(r, found[name])
                found[name] = type(found[name])(changed)
        return {name: found[name] for name in self.names}

    def call(self, function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
        given: list[Any] = []
        by_name: dict[str, Any] = {}
        has_star = "*" in self.kinds.values()
        positions = True
        for name, one in values.items():
            kind = self.kinds[name]
            is_default = name in self.defaults and one is self.defaults[name]
            if kind == "*":
                given += one
            elif kind == "**":
                by_name |= one
            elif kind == "positional" or (kind == "normal" and has_star):
                given.append(one)
            elif is_default and self.r.random() < 0.5:
                positions = False
            elif kind == "normal" and positions and self.r.random() < 0.8:
                given.append(one)
            else:
                positions = False
                by_name[name] = one
        return function(*given, **by_name)

    # -- what the oracle says

    def alternatives(self, values: Mapping[str, Any], every: set[str]) -> list[list[Any]]:
        found: list[list[Any]] = [[]]
        for name, declared in self.types.items():
            if declared is None:
                continue
            if name in self.defaults and values[name] is self.defaults[name]:
                options: list[list[Any]] = [[]]
            else:
                options = declared.alternatives(values[name], every)
            found = [one + more for one in found for more in options]
        return found

    def referred(self, values: Mapping[str, Any], me: Any = None) -> dict[str, int] | None:
        """What the references stand for; None where that is no size."""
        found: dict[str, int] = {}
        for tag in self.references:
            if not any(tag in t for t in self.every):
                continue
            first, *path = tag[1:-1].split(".")
            held = me if first == self.me else values[first]
            for name in path:
                held = getattr(held, name, None)
            if type(held) is not int or held < 0:
                return None
            found[tag] = held
        return found


def drawn_solution(r: Random) -> tuple[dict[str, int], tuple[int, ...]]:
    tags: list[str] = r.sample(TAGS, r.randint(1, 3))
    if r.random() < 0.15:
        tags.append(r.choice(ODD_TAGS))
    truth = {tag: r.choice([0, 1, 2, 2, 3, 4, 5, 6]) for tag in tags}
    return truth, tuple(r.randint(0, 3) for _ in range(r.randint(0, 2)))


def corrupted(r: Random, given: Any) -> Any:
    """The value with one thing changed."""
    if isinstance(given, Duck | np.ndarray):
        return corrupted_array(r, given)
    if isinstance(given, int | np.integer):
        return r.choice([given + 1, given - 1, -1, 0, True, str(given), 2.0, None])
    if isinstance(given, SimpleNamespace) and vars(given):
        held = dict(vars(given))
        name = r.choice(list(held))
        if r.random() < 0.1:
            del held[name]
        else:
            held[name] = corrupted(r, held[name])
        return SimpleNamespace(**held)
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        name = r.choice([one.name for one in dataclasses.fields(given)])
        return dataclasses.replace(given, **{name: corrupted(r, getattr(given, name))})
    if isinstance(given, dict) and given:
        key = r.choice(list(given))
        return {**given, key: corrupted(r, given[key])}
    if isinstance(given, list | tuple) and given:
        k = r.randrange(len(given))
        items = [*given[:k], corrupted(r, given[k]), *given[k + 1 :]]
        if hasattr(given, "_fields"):
            return type(given)(*items)
        return type(given)(items + ([given[0]] if r.random() < 0.2 else []))
    return r.choice([None, 3, "text", Duck((2, 3)), [], ()])


def corrupted_array(r: Random, given: Any) -> Any:
    shape, like, dtype = list(given.shape), type(given), str(given.dtype)
    what = r.choice(["axis"] * 5 + ["turned", "more", "less", "type", "dtype", "like"])
    if what == "axis" and shape:
        k = r.randrange(len(shape))
        shape[k] = r.choice([shape[k] + 1, max(0, shape[k] - 1), 0, 1, 2 * shape[k], 7])
    elif what == "turned":
        shape.reverse()
    elif what == "more":
        shape.insert(r.randint(0, len(shape)), r.choice([0, 1, 2, 5]))
    elif what == "less" and shape:
        del shape[r.randrange(len(shape))]
    elif what == "type":
        return r.choice([None, 3, "text", [1.0], SimpleNamespace(shape="ab"), np.float32(2)])
    elif what == "dtype":
        dtype = r.choice(["int64", "float32", "float16", "bool"])
    elif what == "like":
        like = np.ndarray if like is Duck else Duck
    return array(like, shape, dtype)
