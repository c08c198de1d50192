"""Changes that make a call fit: tried, and offered only if the whole call is right with them.

The changes are those that people forget: a transposition, another order of axes, an axis of size 1
too few or too many, two arguments swapped, another integer, a conversion of the dtype, a list that
is no array yet.  Small changes come first; where several of one kind fit, none is offered, since
the sizes do not tell which was meant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, islice, permutations
from typing import Any, cast

from symattn.runtime.declared.hints import (
    ArrayHint,
    Count,
    Either,
    Item,
    Met,
    Misfit,
    Place,
    Shape,
)
from symattn.runtime.declared.kinds import conversion
from symattn.runtime.judging.alike import Weights, beginnings, condensed
from symattn.runtime.judging.culprits import MOST_NAMES, by_argument, by_place
from symattn.runtime.judging.equations import Bound, settle, tags_in
from symattn.runtime.judging.wording import array_hint, name_text

GIVEN_BACK = {"the result": "return", "the value yielded": "yield"}
"""How what a function gives back is called where arguments have names, and how it does so."""

_MOST_PERMUTED = 4
_MOST_CHANGED = 4
_MOST_SWAPS = 40
_MOST_NUMBERS = 10_000


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change that was checked: what kind it is, at which places, and what to write.

    `items` are those of the call with the change.
    """

    kind: str
    places: tuple[str, ...]
    texts: tuple[str, ...]
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class _Change:
    """Other items in the place of some, by their positions."""

    kind: str
    text: str
    items: Mapping[int, Item]


@dataclass(frozen=True, slots=True)
class Call:
    """What a call consists of, the sizes known before it, and what stands for many alike.

    So many arrays as are `unseen` were left out, which contradict the others or not.
    """

    items: tuple[Item, ...]
    known: Mapping[str, Bound]
    weights: Weights = field(default_factory=Weights)
    unseen: int = 0

    @staticmethod
    def of(items: Sequence[Item], known: Mapping[str, Bound]) -> Call:
        """A call that does not fit; of too many arrays only some, which do not fit either."""
        kept, weights = condensed(items)
        first = beginnings(kept, MOST_NAMES + 1)
        sound = [item for item in first if not isinstance(item, Misfit)]
        if len(first) < len(kept) and (len(sound) < len(first) or settle(sound, known) is None):
            places = dict.fromkeys(map(by_place, first))
            unseen = len(items) - len(first) - weights.total(places) + len(places)
            return Call(first, known, weights, unseen)
        return Call(kept, known, weights)

    def at(self, places: Collection[str]) -> list[int]:
        """The positions of the items at these places."""
        return [at for at, item in enumerate(self.items) if by_place(item) in places]

    def without(self, places: Collection[str]) -> dict[str, Bound] | None:
        """What follows from the arrays and counts at all other places."""
        kept = [item for item in self.items if by_place(item) not in places]
        sizes = settle([item for item in kept if not isinstance(item, Misfit)], self.known)
        counts = [item for item in kept if isinstance(item, Count)]
        if sizes is not None and counts:
            # A count says something even where its tag is only in what is left out.
            in_arrays = tags_in([item for item in self.items if isinstance(item, Met)])
            for count in counts:
                if count.tag in in_arrays:
                    sizes.setdefault(count.tag, (count.value, count.place.text))
        return sizes

    def changed(self, changes: Mapping[int, Item]) -> tuple[Item, ...]:
        """The items with some replaced."""
        return tuple(changes.get(at, item) for at, item in enumerate(self.items))

    def fits(self, changes: Mapping[int, Item], left_out: Collection[int] = ()) -> bool:
        """Whether everything fits with these changes, apart from what is left out."""
        kept = [item for at, item in enumerate(self.changed(changes)) if at not in left_out]
        sound = [item for item in kept if not isinstance(item, Misfit)]
        return len(sound) == len(kept) and settle(sound, self.known) is not None


def remedy_at(call: Call, places: Sequence[str]) -> Remedy | None:
    """A change at each of these places that together make the call fit."""
    if not 0 < call.weights.total(places) <= _MOST_CHANGED:
        return None
    found: list[_Change] = []
    for place in places:
        others = call.at([other for other in places if other != place])
        change = _single(call, place, others)
        if change is None:
            return None
        found.append(change)
    changes = {at: item for change in found for at, item in change.items.items()}
    if not call.fits(changes):
        return None
    kinds = {change.kind for change in found}
    kind = kinds.pop() if len(kinds) == 1 else "several"
    texts = tuple(change.text for change in found)
    return Remedy(kind, tuple(places), texts, call.changed(changes))


def swaps(call: Call, culprits: Collection[str], suspects: Collection[str]) -> list[Remedy]:
    """Every exchange of a culprit with another suspect that makes the call fit."""
    standing: dict[str, list[int]] = {}
    for at, item in enumerate(call.items):
        standing.setdefault(by_argument(item), []).append(at)
    single = {
        name: places[0]
        for name, places in standing.items()
        if name in suspects and len(places) == 1 and by_place(call.items[places[0]]) == name
    }
    pairs = (pair for pair in combinations(single, 2) if pair[0] in culprits or pair[1] in culprits)
    found: list[Remedy] = []
    for first, second in islice(pairs, _MOST_SWAPS):
        one, other = call.items[single[first]], call.items[single[second]]
        here, there = _given(one, other), _given(other, one)
        if here is None or there is None:
            continue
        changes: dict[int, Item] = {single[first]: here, single[second]: there}
        if call.fits(changes):
            text = f"{name_text(first)} and {name_text(second)} the other way round"
            found.append(Remedy("swapped", (first, second), (text,), call.changed(changes)))
    return found


def all_transposed(call: Call, suspects: Collection[str]) -> Remedy | None:
    """Every array transposed, where that makes the call fit: rows were meant as columns."""
    arrays = [
        item
        for item in call.items
        if isinstance(item, Met) and by_argument(item) in suspects and len(item.shape) > 1
    ]
    if not 1 < call.weights.total(map(by_place, arrays)) <= _MOST_CHANGED:
        return None
    turned = [next(_transposition(call, array.place, array.shape)) for array in arrays]
    changes = {at: item for change in turned for at, item in change.items.items()}
    if not call.fits(changes):
        return None
    texts = [change.text for change in turned]
    places = tuple(by_place(call.items[at]) for at in changes)
    return Remedy("transposed", places, tuple(texts), call.changed(changes))


def _single(call: Call, place: str, others: Collection[int]) -> _Change | None:
    """The smallest change at one place that makes all but the others fit, if one alone does."""
    for changes in _changes(call, place, others):
        fitting = [change for change in changes if call.fits(change.items, others)]
        if fitting:
            return fitting[0] if len(fitting) == 1 else None
    return None


def _changes(call: Call, place: str, others: Collection[int]) -> Iterator[Iterable[_Change]]:
    """The changes to try at one place: kinds of them, small ones first."""
    at = call.at([place])
    item = call.items[at[0]]
    if isinstance(item, Count):
        yield _counts(call, at[0], item, others)
    elif isinstance(item, Misfit) and item.kind != "rank":
        yield _conversions(at[0], item)
    elif isinstance(item, Met) or item.shape is not None:
        shape = cast(Shape, item.shape)
        yield _transposition(call, item.place, shape)
        yield _axes_of_one(call, item, shape)
        yield _orders(call, item, shape)


def _counts(call: Call, at: int, count: Count, others: Collection[int]) -> Iterator[_Change]:
    left_out = {*others, at}
    kept = [item for other, item in enumerate(call.items) if other not in left_out]
    sizes = settle([item for item in kept if not isinstance(item, Misfit)], call.known)
    if sizes is not None and count.tag in sizes:
        size = sizes[count.tag][0]
        yield _Change("count", f"{count.place.text} = {size}", {at: replace(count, value=size)})


# -- axes


def _transposition(call: Call, place: Place, shape: Shape) -> Iterator[_Change]:
    if len(shape) > 1:
        method = ".T" if len(shape) == 2 else ".swapaxes(-1, -2)"
        turned = (*shape[:-2], shape[-1], shape[-2])
        yield _reshaped(call, "transposed", place, turned, method)


def _axes_of_one(call: Call, item: Met | Misfit, shape: Shape) -> Iterator[_Change]:
    """An axis of size 1 left out, or put in where one is missing."""
    seen: set[Shape] = set()
    for at, size in enumerate(shape):
        fewer = (*shape[:at], *shape[at + 1 :])
        if size == 1 and fewer not in seen:
            seen.add(fewer)
            yield _reshaped(call, "axis", item.place, fewer, f".squeeze({at})")
    if isinstance(item, Met):  # all axes are there
        return
    for at in range(len(shape) + 1):
        more = (*shape[:at], 1, *shape[at:])
        if more not in seen and at <= _MOST_PERMUTED:
            seen.add(more)
            before = "..., " if at and at == len(shape) else ":, " * at
            yield _reshaped(call, "axis", item.place, more, f"[{before}None]")


def _orders(call: Call, item: Met | Misfit, shape: Shape) -> Iterator[_Change]:
    """Axes in another order, apart from the last two exchanged."""
    if not 2 < len(shape) <= _MOST_PERMUTED:
        return
    method = "permute" if _library(_class(item)) == "torch" else "transpose"
    for order in permutations(range(len(shape))):
        moved = [at for at, axis in enumerate(order) if at != axis]
        if moved and moved != [len(shape) - 2, len(shape) - 1]:
            written = (
                f".swapaxes({moved[0]}, {moved[1]})"
                if len(moved) == 2
                else f".{method}({', '.join(map(str, order))})"
            )
            axes = tuple(shape[axis] for axis in order)
            yield _reshaped(call, "reordered", item.place, axes, written)


def _reshaped(call: Call, kind: str, place: Place, shape: Shape, method: str) -> _Change:
    """The change that gives the array at a place another shape, under each hint that it has."""
    items = {
        at: _with_shape(call.items[at], shape, cast(Any, call.items[at]).value)
        for at in call.at([place.text])
    }
    return _Change(kind, _written(place, "{}" + method), items)


def _with_shape(item: Item, shape: Shape, value: object) -> Item:
    """The item with an array of this shape; as it is where its hint takes no such array."""
    hint = None if isinstance(item, Count) else array_hint(item.hint)
    if hint is None or not hint.spec.fits_rank(len(shape)):
        return item
    return Met(item.place, hint, shape, value)


# -- other values


def _given(item: Item, other: Item) -> Item | None:
    """The item with the value of the other, if it is of the kind that is declared."""
    if isinstance(item, Count) and isinstance(other, Count):
        return replace(item, value=other.value)
    if isinstance(item, Count) or isinstance(other, Count) or other.shape is None:
        return None
    reading = next(item.hint.met(other.value, item.place), ())
    return reading[0] if len(reading) == 1 and not isinstance(reading[0], Either) else None


def _conversions(at: int, item: Misfit) -> Iterator[_Change]:
    hint = array_hint(item.hint)
    if hint is None:
        return
    if item.kind == "dtype" and hint.kind is not None:
        text = conversion("{}", item.value, hint.kind)
        if text and item.shape is not None and hint.spec.fits_rank(len(item.shape)):
            met = Met(item.place, hint, item.shape, item.value)
            yield _Change("type", _written(item.place, text), {at: met})
    elif item.kind == "type":
        yield from _arrays_of_lists(at, item, hint)


_ARRAYS_OF_LISTS = {
    "numpy": ("np.asarray({})", {bool: "bool", int: "int64", float: "float64"}),
    "cupy": ("cp.asarray({})", {bool: "bool", int: "int64", float: "float64"}),
    "torch": ("torch.tensor({})", {bool: "bool", int: "int64", float: "float32"}),
    "jax": ("jnp.asarray({})", {bool: "bool", int: "int32", float: "float32"}),
}
"""How each library makes an array of a list, and the dtypes that numbers get there."""


def _arrays_of_lists(at: int, item: Misfit, hint: ArrayHint) -> Iterator[_Change]:
    library = _library(hint.classes[0]) if hint.classes else "numpy"
    table, found = _ARRAYS_OF_LISTS.get(library), _nested(item.value)
    if table is None or found is None:
        return
    shape, kind = found
    call, dtypes = table
    holds = hint.kind is None or hint.kind.holds(dtypes[kind])
    if holds and hint.spec.fits_rank(len(shape)):
        met = Met(item.place, hint, shape, None)
        yield _Change("type", _written(item.place, call), {at: met})


def _nested(value: object) -> tuple[Shape, type] | None:
    """The shape of lists of lists of numbers, and the widest class of these; None for others."""
    shape: list[int] = []
    level: list[Any] = [value]
    while level and isinstance(level[0], list | tuple):
        if not all(isinstance(each, list | tuple) for each in level):
            return None
        lengths = {len(each) for each in level}
        size = lengths.pop()
        if lengths or size * len(level) > _MOST_NUMBERS or len(shape) > 32:
            return None
        shape.append(size)
        level = [entry for each in level for entry in each]
    classes = [kind for kind in (float, int, bool) if any(type(each) is kind for each in level)]
    if not shape or not classes or any(type(each) not in classes for each in level):
        return None
    return tuple(shape), classes[0]


# -- how it is written


def _class(item: Met | Misfit) -> type:
    value: object = item.value
    return type(value)


def _library(kind: type) -> str:
    """The package of an array class, also of a class that is derived from one."""
    packages = [base.__module__.partition(".")[0] for base in kind.__mro__]
    return next((package for package in packages if package in _ARRAYS_OF_LISTS), packages[0])


def _written(place: Place, template: str) -> str:
    """The change as code: `K.T`, `layers[2].W.T`, `return ….T` for the result, `result[1].T`."""
    text = name_text(place.text)
    if place.argument in GIVEN_BACK and place.text == place.argument:
        return f"{GIVEN_BACK[place.argument]} {template.format('…')}"
    stem = text.partition(".")[0].partition("[")[0]
    sayable = stem.isidentifier() and not {"…", "�"} & set(text)
    return template.format(text if sayable else "…")
