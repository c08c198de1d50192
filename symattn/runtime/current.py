"""What is bound now: the sizes of an instance, and those of the coroutine that is running."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from threading import get_ident
from typing import Any

from symattn.runtime.judging.equations import Bound


@dataclass(slots=True, eq=False)
class Running:
    """A checked coroutine that has begun: its arguments, its sizes, and those of its body."""

    checked: Any
    values: Sequence[Any]
    seen: Mapping[str, Any]
    own: dict[str, Bound]
    outer: Running | None
    place: tuple[int, object]
    ended: bool = False


_RUNNING: ContextVar[Running | None] = ContextVar("symattn.shapecheck", default=None)


def begin(
    checked: Any, values: Sequence[Any], seen: Mapping[str, Any], own: dict[str, Bound]
) -> Running:
    """Say in this context that a checked coroutine begins."""
    running = Running(checked, values, seen, own, running_elsewhere(anywhere=True), _place())
    _RUNNING.set(running)
    return running


def end(running: Running) -> None:
    """Say that it has ended, in whichever order coroutines do."""
    running.ended, running.values = True, ()
    # Tasks, each started by the one before, would hold on to all that have ended.
    while running.outer is not None and running.outer.ended:
        running.outer = running.outer.outer
    if _RUNNING.get() is running:
        _RUNNING.set(running_elsewhere(anywhere=True))


def running_elsewhere(*, anywhere: bool = False) -> Running | None:
    """The checked coroutine from whose context this one was taken over.

    A call is found by walking up the stack; but a task, or a thread, that a coroutine starts has a
    stack of its own, and inherits its context.  On its own stack a coroutine is found, or is
    suspended, and then what runs is no part of it.
    """
    running = _RUNNING.get()
    here = _place()
    while running is not None and (running.ended or (running.place == here and not anywhere)):
        running = running.outer
    return running


def _place() -> tuple[int, object]:
    """The thread and the task that run."""
    asyncio = sys.modules.get("asyncio")
    try:
        task = asyncio.current_task() if asyncio is not None else None
    except RuntimeError:  # no event loop runs
        task = None
    return get_ident(), None if task is None else id(task)


_ATTRIBUTE = "__symattn_sizes__"

Bounds = dict[str, Bound]
_Kept = dict[str, dict[str, Bounds]]
"""The sizes of an instance: `own`, those that each class bound; `seen`, those that each sees."""

_without_dict: dict[int, tuple[weakref.ref[object], _Kept]] = {}


def sizes_of(instance: object, owner: str) -> Bounds | None:
    """The sizes of an instance that the methods of one of its classes see.

    They are those that the constructor of this class bound, and, where it bound none of that name,
    those of the classes that it inherits from.  A class that inherits from it has its own.
    """
    try:
        kept = vars(instance).get(_ATTRIBUTE)
    except TypeError:  # an object with slots has no dictionary
        entry = _without_dict.get(id(instance))
        kept = entry[1] if entry is not None and entry[0]() is instance else None
    return None if kept is None else kept["seen"].get(owner)


def keep_sizes(instance: object, owner: str, sizes: Bounds) -> bool:
    """Let an instance have these sizes from now on, bound by one of its classes; whether it can.

    With the instance they are copied and pickled, unless it has slots.  They are written past
    `__setattr__`, which a frozen dataclass refuses and a module of PyTorch watches.
    """
    try:
        attributes = vars(instance)
        kept: _Kept = attributes.get(_ATTRIBUTE) or {"own": {}, "seen": {}}
        attributes[_ATTRIBUTE] = _with(kept, instance, owner, sizes)
    except TypeError:
        key = id(instance)
        entry = _without_dict.get(key)
        kept = entry[1] if entry is not None and entry[0]() is instance else {"own": {}, "seen": {}}

        def forget(_: object) -> None:
            _without_dict.pop(key, None)

        try:
            reference = weakref.ref(instance, forget)
        except TypeError:
            return False
        _without_dict[key] = reference, _with(kept, instance, owner, sizes)
    return True


def outlives_the_call(tag: str) -> bool:
    """Whether an instance keeps this size: of a tag, not of a rest, nor what an attribute holds.

    >>> [tag for tag in ("d_k", "*batch", "{self.d_model}") if outlives_the_call(tag)]
    ['d_k']
    """
    return tag[0] not in "*{"


def owner_of(kind: type) -> str:
    """How a class is called where sizes are kept."""
    return f"{kind.__module__}.{kind.__qualname__}"


def _with(kept: _Kept, instance: object, owner: str, sizes: Bounds) -> _Kept:
    own = {**kept["own"], owner: sizes}
    seen: dict[str, Bounds] = {}
    below: Bounds = {}
    for name in map(owner_of, reversed(type(instance).__mro__)):
        below = {**below, **own.get(name, {})}
        seen[name] = below
    return {"own": own, "seen": seen}
