"""Long lists made short: of many elements that say the same, one stands for all.

Arrays of one argument that give the same equations are to blame together or not at all: leaving out
some of them changes nothing while one is left.  So a call of a thousand arrays, of which one is
wrong, is judged as a call of two: one with a weight of 999, and one with a weight of 1.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from symattn.runtime.declared.hints import ArrayHint, Count, Item, Met, Misfit, Shape

MOST_LISTED = 4
"""So many elements that say the same are kept, and named one by one."""


@dataclass(frozen=True, slots=True)
class Weights:
    """For how many places in all a place stands; for itself alone if it is not in `of`."""

    of: dict[str, int] = field(default_factory=dict[str, int])

    def __getitem__(self, place: str) -> int:
        return self.of.get(place, 1)

    def total(self, places: Iterable[str]) -> int:
        """For how many places these stand."""
        return sum(self[place] for place in places)


def condensed(items: Sequence[Item]) -> tuple[tuple[Item, ...], Weights]:
    """The items, of those of one argument that say the same only the first, and what it stands for.

    A place that several items share (an element of a set, which has no position) is left as it is,
    without what it says twice.
    """
    said = _Saying()
    at_places: dict[str, dict[Hashable, Item]] = {}
    for item in items:
        at_places.setdefault(item.place.text, {}).setdefault(said.by(item), item)
    if len(at_places) <= MOST_LISTED:
        return tuple(item for found in at_places.values() for item in found.values()), Weights()
    groups: dict[Hashable, list[str]] = {}
    for place, found in at_places.items():
        if len(found) == 1:
            ((key, item),) = found.items()
            groups.setdefault((item.place.argument, key), []).append(place)
    weights = Weights({g[0]: len(g) for g in groups.values() if len(g) > MOST_LISTED})
    dropped = {place for g in groups.values() if len(g) > MOST_LISTED for place in g[1:]}
    kept = (found for place, found in at_places.items() if place not in dropped)
    return tuple(item for found in kept for item in found.values()), weights


def beginnings(items: Sequence[Item], length: int) -> tuple[Item, ...]:
    """The first items of each argument."""
    seen: dict[str, int] = {}
    kept: list[Item] = []
    for item in items:
        count = seen[item.place.argument] = seen.get(item.place.argument, 0) + 1
        if count <= length:
            kept.append(item)
    return tuple(kept)


class _Saying:
    """What items say, as keys: equal keys, equal equations."""

    def __init__(self) -> None:
        # By id, since hints are long to compare; the items keep them alive.
        self.whole: dict[int, bool] = {}

    def by(self, item: Item) -> Hashable:
        if isinstance(item, Met):
            hint = item.hint
            if id(hint) not in self.whole:
                self.whole[id(hint)] = _says_all(hint)
            return id(hint), item.shape if self.whole[id(hint)] else _said(hint, item.shape)
        if isinstance(item, Count):
            return item.tag, item.value, item.declared
        return _wrong(item)


def _says_all(hint: ArrayHint) -> bool:
    rest = hint.spec.rest
    named = rest is None or rest.name is not None
    return named and all(axis.size is not None for axis in hint.spec.axes)


def _said(hint: ArrayHint, shape: Shape) -> Hashable:
    """The sizes of the axes of which something is declared."""
    spec = hint.spec
    first, end = len(spec.before), len(shape) - len(spec.after)
    before = zip(spec.before, shape, strict=False)
    after = zip(spec.after, shape[end:], strict=False)
    return (
        tuple(size for axis, size in before if axis.size is not None),
        shape[first:end] if spec.rest is not None and spec.rest.name is not None else (),
        tuple(size for axis, size in after if axis.size is not None),
    )


def _wrong(item: Misfit) -> Hashable:
    axes = -1 if item.shape is None else len(item.shape)
    # A number of axes is said with the shape, which may be another one each time.
    return item.kind, id(item.hint), item.wanted, "" if item.kind == "rank" else item.got, axes
