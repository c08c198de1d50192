"""What the values of unions are read as: the first readings, in order, that fit together.

What can be read in one way only is taken first, since it decides most; then one choice is made
after the other, and taken back as soon as what is met contradicts itself.  Where two ways lead to
the same sizes, the second is not followed: it would fail as the first did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from symattn.errors import NotSupportedError, SizeError
from symattn.runtime.declared.hints import Count, Either, Item, Misfit, Reading
from symattn.runtime.judging.equations import Bound, bind, propagate, rests_fit, settle
from symattn.tags.solver import Equation

MOST_TRIED = (2000, 20)
"""How many choices are tried at most, and how many more for each value that leaves one."""


def chosen(
    reading: Reading, known: Mapping[str, Bound]
) -> tuple[tuple[Item, ...], dict[str, Bound] | None]:
    """A reading without choices, with all sizes that follow.

    Where none fits, there are no sizes, and the reading is one that comes as far as any.  Raises
    `NotSupportedError` where there are too many to try, so that a right call is never blamed.
    """
    return _Search(reading, known).result()


def declaring(reading: Reading, tags: frozenset[str]) -> Reading:
    """The reading, with the counts of these tags marked: they are sizes, whatever is met."""
    return tuple(_declaring(item, tags) for item in reading)


def _declaring(item: Item | Either, tags: frozenset[str]) -> Item | Either:
    if isinstance(item, Either):
        return Either(tuple(declaring(option, tags) for option in item.options))
    if isinstance(item, Count) and item.tag in tags:
        return replace(item, declared=True)
    return item


@dataclass(frozen=True, slots=True)
class _State:
    """What follows from all that was read so far, and the equations that are still open."""

    found: dict[str, Bound]
    waiting: list[Equation]

    def taking(self, items: Reading) -> _State | None:
        """The state after these items, choices aside; None if they contradict it."""
        sound = [item for item in items if not isinstance(item, Either | Misfit)]
        found, waiting = dict(self.found), list(self.waiting)
        if not (bind(sound, found, waiting) and rests_fit(found)):
            return None
        if waiting:
            try:
                waiting = propagate(waiting, found)
            except SizeError as error:
                if error.problem != "too large":
                    return None
        return _State(found, waiting)

    @property
    def key(self) -> object:
        """What all states have in common from which the same follows."""
        return (
            frozenset((tag, size) for tag, (size, _) in self.found.items()),
            frozenset((equation.size, equation.value) for equation in self.waiting),
        )


@dataclass(frozen=True, slots=True)
class _Cell:
    """A choice to be made, and those that are to be made afterwards."""

    either: Either
    rest: _Cell | None


@dataclass(frozen=True, slots=True)
class _Made:
    """The choices that were made: the last one, and those before."""

    option: Reading
    before: _Made | None
    number: int


class _Search:
    def __init__(self, reading: Reading, known: Mapping[str, Bound]) -> None:
        self.reading = reading
        self.known = known
        self.has_misfits = any(isinstance(item, Misfit) for item in reading)
        self.cells: dict[tuple[int, int], _Cell | None] = {}
        items = list(_everything(reading))
        self.most = MOST_TRIED[0] + MOST_TRIED[1] * sum(isinstance(i, Either) for i in items)
        # Whether an integer that is not declared is a size depends on all arrays that are read.
        self.remembers = all(item.declared for item in items if isinstance(item, Count))

    def result(self) -> tuple[tuple[Item, ...], dict[str, Bound] | None]:
        start = _State(dict(self.known), []).taking(self.reading)
        cell = self.choices(self.reading, None)
        if start is None or cell is None:
            return self.judged(None)
        waiting: list[tuple[_Cell | None, _State, _Made | None]] = [(cell, start, None)]
        seen: set[object] = set()
        furthest: _Made | None = None
        tried = 0
        while waiting:
            cell, state, made = waiting.pop()
            key = (id(cell), state.key if self.remembers else len(seen))
            if key in seen:
                continue
            seen.add(key)
            if made is not None and (furthest is None or made.number > furthest.number):
                furthest = made
            if cell is None:
                items, sizes = self.judged(made)
                if sizes is not None or self.has_misfits:
                    return items, sizes
                continue
            tried += 1
            if tried > self.most:
                if self.has_misfits:
                    break
                raise NotSupportedError(
                    f"unions that leave so many choices; {tried - 1} were tried, and none fits"
                )
            for option in reversed(cell.either.options):
                after = state.taking(option)
                if after is not None:
                    number = 1 if made is None else made.number + 1
                    waiting.append(
                        (self.choices(option, cell.rest), after, _Made(option, made, number))
                    )
        return self.judged(furthest)[0], None

    def choices(self, reading: Reading, rest: _Cell | None) -> _Cell | None:
        """The choices in a reading, in order, and then the rest."""
        key = id(reading), id(rest)
        if key not in self.cells:
            cell = rest
            for item in reversed(reading):
                if isinstance(item, Either):
                    cell = _Cell(item, cell)
            self.cells[key] = cell
        return self.cells[key]

    def judged(self, made: _Made | None) -> tuple[tuple[Item, ...], dict[str, Bound] | None]:
        """The reading after these choices, the first ones where none were made, and its sizes."""
        options: list[Reading] = []
        while made is not None:
            options.append(made.option)
            made = made.before
        items = tuple(_flat(self.reading, reversed(options)))
        sound = [item for item in items if not isinstance(item, Misfit)]
        return items, settle(sound, self.known) if len(sound) == len(items) else None


def _flat(reading: Reading, options: Iterator[Reading]) -> Iterator[Item]:
    for item in reading:
        if isinstance(item, Either):
            yield from _flat(next(options, item.options[0]), options)
        else:
            yield item


def _everything(reading: Iterable[Item | Either]) -> Iterator[Item | Either]:
    for item in reading:
        yield item
        if isinstance(item, Either):
            for option in item.options:
                yield from _everything(option)
