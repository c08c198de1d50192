"""What a message shows of a call: its arrays, row by row, and the sizes that follow.

Of many arrays only those are shown that say something: those that are wrong, and those from which
the sizes come that they contradict.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from symattn.runtime.declared.hints import ArrayHint, Count, Hint, Item, Met, Misfit
from symattn.runtime.judging.culprits import by_place
from symattn.runtime.judging.equations import shown, tags_in
from symattn.runtime.judging.remedies import Call
from symattn.runtime.judging.wording import array_hint, name_text

Row = tuple[str, str, tuple[int, ...] | str]
"""The name of an array, its declared shape, and the shape that it has, or what it is."""

MOST_ROWS = 12
_MOST_SIZES = 12


def rows_of(call: Call, marked: Collection[str], bound: Collection[str]) -> list[Row]:
    """The rows of a call: where they are too many, those of these places."""
    is_size = _sizes_in(call)
    ranks: list[tuple[int, int]] = []
    total = 0
    for at, item in enumerate(call.items):
        if item.tag in is_size if isinstance(item, Count) else array_hint(item.hint) is not None:
            place = by_place(item)
            ranks.append((0 if place in marked else 1 if place in bound else 2, at))
            total += call.weights[place]
    if total > MOST_ROWS:
        ranks = [each for each in ranks if each[0] < 2]
    kept = sorted(at for _, at in sorted(ranks)[:MOST_ROWS])
    found = [_row(call.items[at]) for at in kept]
    more = total - len(found) + call.unseen
    return found + ([("…", "", f"and {more} more")] if more else [])


def _sizes_in(call: Call) -> frozenset[str]:
    """The tags of all arrays, where there are integers that may be sizes."""
    has_counts = any(isinstance(item, Count) for item in call.items)
    arrays = [item for item in call.items if isinstance(item, Met)]
    return tags_in(arrays) if has_counts else frozenset()


def _row(item: Item) -> Row:
    name = name_text(by_place(item))
    if isinstance(item, Count):
        return name, "an integer", str(item.value)
    hint = array_hint(item.hint)
    got = item.got if isinstance(item, Misfit) else ""
    spec = "" if hint is None else hint.spec.text
    return name, spec, got if item.shape is None else item.shape


def sizes_of(
    call: Call, left_out: Collection[str], own: Sequence[ArrayHint]
) -> dict[str, tuple[object, str]]:
    """The sizes that follow without some places: of many, those that these hints are about."""
    found = shown(call.without(left_out) or {})
    hints = {id(item.hint): item.hint for item in call.items if not isinstance(item, Count)}
    all_tags, own_tags = _tags_of(list(hints.values())), _tags_of(own)
    names = [name for name in found if name in own_tags]
    names += [name for name in found if name in all_tags and name not in own_tags]
    kept = set(names[:_MOST_SIZES])
    return {name: bound for name, bound in found.items() if name in kept}


def _tags_of(hints: Sequence[Hint]) -> set[str]:
    """The tags, and names of rests, of the arrays among these hints."""
    found: set[str] = set()
    for spec in (hint.spec for hint in map(array_hint, hints) if hint is not None):
        for axis in (*spec.before, *spec.after):
            found |= set(axis.size.tags if axis.size is not None else ())
        if spec.rest is not None and spec.rest.name is not None:
            found |= {spec.rest.name, f"*{spec.rest.name}"}
    return found
