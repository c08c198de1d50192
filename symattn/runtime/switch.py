"""Whether calls are checked: for the whole process, or for a block of code.

`config.shapecheck` is the setting of the process; `with config(shapecheck=False):` overrides it in
a block.  The environment variable `SYMATTN_SHAPECHECK` says what the process starts with.

Checked functions must not pay for this, so they test one flag, `STATE.unusual`, which is false as
long as checks are on for the process and no block is open anywhere; only where it is true do they
ask `STATE.is_on()`.

The invariant: a block holds while it is open, and only in the thread or task that opened it and in
those that took over its context (a task that was started in the block, `asyncio.to_thread`).  A
context keeps a chain of blocks; one that was closed is passed over wherever it still hangs in a
chain.  So whoever closes a block, and in whichever order or thread, nobody else's checks stay off:
not those of a task that outlives the block it was started in, nor those of a context in which a
generator opened a block that the garbage collector closed elsewhere.

No `assert` is involved: `python -O` changes nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from threading import RLock
from typing import TYPE_CHECKING, NoReturn, TypedDict, Unpack

from symattn.errors.settings import SettingError, UnknownSettingError
from symattn.tags.spelling import nearest

VARIABLE = "SYMATTN_SHAPECHECK"
"""The environment variable; it is read once, when this module is imported."""

_WORDS = {
    **{"1": True, "true": True, "on": True, "yes": True},
    **{"0": False, "false": False, "off": False, "no": False},
}
_SETTINGS = ("shapecheck",)


class Settings(TypedDict, total=False):
    """What `config(...)` takes."""

    shapecheck: bool


class Block:
    """A block that was entered: `on` holds in it as long as it is `open`, then `outer` again."""

    __slots__ = ("on", "outer", "frame", "open")

    def __init__(self, on: bool, outer: Block | None, frame: int) -> None:
        self.on = on
        self.outer = outer
        self.frame = frame
        self.open = True


_INNERMOST: ContextVar[Block | None] = ContextVar("symattn_shapecheck", default=None)


def _innermost() -> Block | None:
    """The block that holds here, if any does."""
    block = _INNERMOST.get()
    while block is not None and not block.open:
        block = block.outer
    return block


class State:
    """The flag that every checked call tests, and what stands behind it.

    The lock may be taken again by the thread that holds it: a signal handler or the garbage
    collector can close a block at any moment.  For the same reason the open blocks are a set, not
    a count, which an interrupted `+= 1` would get wrong.
    """

    __slots__ = ("unusual", "process", "_blocks", "lock")

    def __init__(self, process: bool) -> None:
        self.process = process
        self.unusual = not process
        self._blocks: set[Block] = set()
        self.lock = RLock()

    def is_on(self) -> bool:
        """Whether a call that is made here is checked."""
        block = _INNERMOST.get()
        while block is not None:
            if block.open:
                return block.on
            block = block.outer
        return self.process

    # How PyTorch's compiler, which cannot trace a context variable, is told to ask once and take
    # the answer as a constant; a compiled function asks again when `unusual` changes.
    is_on._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]

    def set_process(self, on: bool) -> None:
        """Set what holds outside of all blocks."""
        with self.lock:
            self.process = on
            self.unusual = not on or bool(self._blocks)

    def enter(self, on: bool, frame: int) -> Block:
        """Open a block in this context."""
        block = Block(on, _innermost(), frame)
        with self.lock:
            self._blocks.add(block)
            self.unusual = True
        _INNERMOST.set(block)
        return block

    def leave(self, block: Block) -> None:
        """Close a block, which may have been opened in another context."""
        block.open = False
        with self.lock:
            self._blocks.discard(block)
            self.unusual = not self.process or bool(self._blocks)

    def renew_lock(self) -> None:
        """In a forked process, where a thread that held the lock is no more."""
        self.lock = RLock()

    def __reduce__(self) -> str:
        return "STATE"  # there is one a process: a copy is itself


class Override:
    """The context manager `config(shapecheck=False)`; it may be entered many times, also at once.

    Which of several entries ends?  One of this context rather than of another, then one that the
    frame of the `with` statement made, then the latest.
    """

    __slots__ = ("_on", "_blocks")

    def __init__(self, on: bool) -> None:
        self._on = on
        self._blocks: list[Block] = []

    def __enter__(self) -> Config:
        frame = id(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
        self._blocks.append(STATE.enter(self._on, frame))
        return config

    def __exit__(self, *_: object) -> None:
        frame = id(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
        here: list[Block] = []
        block = _innermost()
        while block is not None:
            here.append(block)
            block = block.outer
        with STATE.lock:
            ranks = [
                (block in here, block.frame == frame, at) for at, block in enumerate(self._blocks)
            ]
            block = self._blocks.pop(max(ranks)[-1])
        STATE.leave(block)

    def __repr__(self) -> str:
        return f"config(shapecheck={self._on})"


class Config:
    """The switches of symattn; there is one such object, `config`.

    >>> config.shapecheck
    True
    >>> with config(shapecheck=False):
    ...     config.shapecheck
    False
    >>> config.shapecheck
    True

    Setting ``config.shapecheck`` holds for the process, and reading it gives what holds here.
    ``with config(shapecheck=False):`` holds for its block: in this thread or task and in the tasks
    that are started in the block, until it ends.  A generator that opens a block and yields leaves
    it open for its caller, as a pytest fixture means to; close the block before the `yield` if that
    is not meant.

    A function that is decorated while checks are off is left as it is; one that was decorated
    while they were on looks at the switch in each call.

    The environment variable ``SYMATTN_SHAPECHECK`` (1, true, on, yes or 0, false, off, no; empty
    is on) says what the process starts with.  Processes that are started from this one see the
    variable, but not what was set here.

    Raises `SettingError` for anything but a bool, or for another text in the variable, and
    `UnknownSettingError`, an `AttributeError`, for any other name.
    """

    __slots__ = ()

    @property
    def shapecheck(self) -> bool:
        """Whether calls of checked functions are checked here."""
        return STATE.is_on()

    @shapecheck.setter
    def shapecheck(self, on: bool) -> None:
        STATE.set_process(_checked("config.shapecheck", on))

    def __call__(self, **settings: Unpack[Settings]) -> Override:
        """For a `with` block: what holds in it."""
        for name in settings:
            if name not in _SETTINGS:
                _refuse(name)
        if "shapecheck" not in settings:
            raise SettingError("config()", "nothing", ["shapecheck=True", "shapecheck=False"])
        return Override(_checked("shapecheck in config()", settings["shapecheck"]))

    def __repr__(self) -> str:
        block = _innermost()
        where = "everywhere" if block is None else f"in this block; {STATE.process} elsewhere"
        return f"<config: shapecheck = {STATE.is_on()} ({where})>"

    def __reduce__(self) -> str:
        return "config"  # there is one a process: a copy is itself

    if not TYPE_CHECKING:  # a type checker that saw these would take a misspelt name for a good one

        def __getattr__(self, name: str) -> NoReturn:
            _refuse(name)

        def __setattr__(self, name: str, value: object) -> None:
            if name not in _SETTINGS:
                _refuse(name)
            object.__setattr__(self, name, value)


def _checked(setting: str, value: object) -> bool:
    if value is True or value is False:
        return value
    plain = isinstance(value, str | None) or (isinstance(value, int) and abs(value) < 100)
    kind = type(value)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    given = repr(value) if plain else f"a value of type {name}"
    raise SettingError(setting, given, ["True", "False"])


def _refuse(name: str) -> NoReturn:
    raise UnknownSettingError(name, nearest(name, _SETTINGS), _SETTINGS)


def from_environment(environ: Mapping[str, str]) -> bool:
    """What the environment variable says; on where it is not set or empty.

    >>> from_environment({"SYMATTN_SHAPECHECK": "Off"})
    False
    """
    text = environ.get(VARIABLE, "").strip()
    if not text:
        return True
    if text.lower() not in _WORDS:
        raise SettingError(f"the environment variable {VARIABLE}", repr(text), tuple(_WORDS))
    return _WORDS[text.lower()]


# torch.compile takes the answer for a constant, until `unusual` changes, rather than look into it.
setattr(State.is_on, "_dynamo_marked_constant", True)  # noqa: B010

STATE = State(from_environment(os.environ))
config = Config()

if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=STATE.renew_lock)
