"""Who is to blame where the arrays of a call do not fit: the fewest that explain it.

A suspect that is no array of the declared kind, or that contradicts itself or what is trusted, is
a culprit whatever the others say.  Of the others, a set is to blame if all the rest fits without
it; the smallest such sets are sought, and all of them.  Each hits every conflict, so they are
found from conflicts: one conflict gives the first members, and each of these, left out, gives
the next conflict (Reiter, A theory of diagnosis from first principles, 1987).  A conflict is
found by bisection, since more arrays only contradict each other more.  One element may stand for
many that say the same (`alike`), and counts for so many.

The search is bounded, whatever the call: `Blame.complete` says whether it came to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from symattn.runtime.declared.hints import Count, Item, Met, Misfit
from symattn.runtime.judging.alike import Weights
from symattn.runtime.judging.equations import Bound, said, settle, tags_in

Key = Callable[[Item], str]

MOST_WORK = 20_000
"""How many arrays are looked at in a search, all trials together, besides three times each; one
whose sizes are to be solved counts for several.  It takes some hundredths of a second."""

MOST_NAMES = 400
"""Among how many the culprits are sought."""

_SOLVED = 10
"""How many arrays of plain tags take the time of one that is to be solved."""


@dataclass(frozen=True, slots=True)
class Blame:
    """The culprits: all that are `certain`, and one of the `sets`, of which all weigh the same.

    `complete` is false where the search was cut short: there may be more sets, or smaller ones.
    """

    certain: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]
    complete: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """Everyone who may be to blame."""
        everyone = (*self.certain, *(name for names in self.sets for name in names))
        return tuple(dict.fromkeys(everyone))

    @property
    def whole_sets(self) -> tuple[tuple[str, ...], ...]:
        """The sets, each with those who are certain."""
        return tuple((*self.certain, *names) for names in self.sets)


def by_argument(item: Item) -> str:
    """The argument in which it stands."""
    return item.place.argument


def by_place(item: Item) -> str:
    """The very place at which it stands."""
    return item.place.text


def blame(
    items: Sequence[Item],
    known: Mapping[str, Bound],
    suspects: Iterable[str],
    key: Key = by_argument,
    weights: Weights | None = None,
) -> Blame:
    """The smallest sets of suspects without which everything fits."""
    sound = [item for item in items if not isinstance(item, Misfit)]
    present = dict.fromkeys(key(item) for item in items)
    names = [name for name in dict.fromkeys(suspects) if name in present]
    suspected = set(names)
    trusted = [item for item in sound if key(item) not in suspected]
    base = settle(trusted, known)
    if not names or base is None:
        names, trusted, base = list(present), [], known
    broken = {key(item) for item in items if isinstance(item, Misfit)}
    refuted = _refuted(sound, known)
    own: dict[str, list[Met | Count]] = {name: [] for name in names}
    for item in sound:
        if key(item) in own:
            own[key(item)].append(item)
    for name, mine in own.items():
        if settle(mine, base) is None or any(item.place.text in refuted for item in mine):
            broken.add(name)
    certain = tuple(name for name in present if name in broken)
    ordered = [name for name in names if name not in broken]
    if len(ordered) > MOST_NAMES:
        return Blame(certain, ((),), complete=False)
    search = _Search(sound, known, ordered, key, weights or Weights())
    try:
        sets = search.smallest(broken)
    except _CutShort:
        found = search.found or [frozenset(search.conflict)]
        return Blame(certain, _in_order(found, ordered), complete=False)
    return Blame(certain, _in_order(sets, ordered))


def _refuted(sound: Sequence[Met | Count], known: Mapping[str, Bound]) -> set[str]:
    """The places of counts that are no size, or contradict what is known."""
    counts = [item for item in sound if isinstance(item, Count)]
    in_arrays = tags_in(sound) if counts else frozenset[str]()
    return {
        count.place.text
        for count in counts
        if (count.declared or count.tag in in_arrays)
        and (count.value < 0 or known.get(count.tag, (count.value, ""))[0] != count.value)
    }


def _in_order(sets: Iterable[Collection[str]], names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The sets as the names stand in the signature."""
    place = {name: at for at, name in enumerate(names)}
    return tuple(
        tuple(names[at] for at in found)
        for found in sorted(sorted(place[name] for name in each) for each in sets)
    )


class _CutShort(Exception):
    """The search has looked at all that it may."""


class _Search:
    def __init__(
        self,
        sound: Sequence[Met | Count],
        known: Mapping[str, Bound],
        names: Sequence[str],
        key: Key,
        weights: Weights,
    ) -> None:
        self.items = [(item, key(item)) for item in sound]
        self.names = names
        self.known = known
        self.weights = weights
        self.work = MOST_WORK
        self.found: list[frozenset[str]] = []
        self.conflict: Sequence[str] = ()
        # What each suspect has, and what it costs to look at; that of others is trusted.
        self.of: dict[str, list[Met | Count]] = {name: [] for name in names}
        self.trusted: list[Met | Count] = []

    def smallest(self, broken: Collection[str]) -> list[frozenset[str]]:
        """All sets of the smallest weight without which the others fit."""
        for item, name in self.items:
            if name not in broken:
                self.of.get(name, self.trusted).append(item)
        self.cost = {name: sum(map(_cost, items)) for name, items in self.of.items()}
        self.cost_of_trusted = 1 + sum(map(_cost, self.trusted))
        self.work += 3 * (self.cost_of_trusted + sum(self.cost.values()))
        # By weight, so what fits is among the smallest; what weighs the same comes in turn.
        waiting, tried = [(0, 0, frozenset[str]())], set[frozenset[str]]()
        least: int | None = None
        while waiting and (least is None or waiting[0][0] == least):
            weight, _, left_out = heappop(waiting)
            kept = [name for name in self.names if name not in left_out]
            if self.fits(kept):
                self.found.append(left_out)
                least = weight
            elif least is None:
                self.conflict = self.one_conflict(kept)
                for name in self.conflict:
                    candidate = left_out | {name}
                    if candidate not in tried:
                        tried.add(candidate)
                        heavier = weight + self.weights[name]
                        heappush(waiting, (heavier, len(tried), candidate))
        return self.found

    def one_conflict(self, names: Sequence[str]) -> list[str]:
        """A few of the names that do not fit together, of which none can be left out."""
        found: list[str] = []
        rest = list(names)
        while rest and self.fits(found):
            # The shortest beginning of the rest that does not fit ends with one of the conflict.
            low, high = 1, len(rest)
            while low < high:
                middle = (low + high) // 2
                fits = self.fits([*found, *rest[:middle]])
                low, high = (middle + 1, high) if fits else (low, middle)
            found.append(rest[low - 1])
            rest = rest[: low - 1]
        return found

    def fits(self, kept: Sequence[str]) -> bool:
        """Whether these suspects fit each other, what is trusted and what is known."""
        self.work -= self.cost_of_trusted + sum(self.cost[name] for name in kept)
        if self.work < 0:
            raise _CutShort
        chosen = [*self.trusted, *(item for name in kept for item in self.of[name])]
        return settle(chosen, self.known) is not None


def _cost(item: Met | Count) -> int:
    if isinstance(item, Count):
        return 1
    return (
        1
        + len(item.shape) // 4
        + _SOLVED
        * sum(1 for size, _, _ in said(item) if size.single_tag is None and size.constant is None)
    )
