"""An oracle for checks of shapes: it tries all sizes, and shares no code with what is tested."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from tests.runtime.random_types import Alternatives, Asked, Sizes, tags_of, value

Batch = tuple[int, ...] | None
"""What a rest is known to be."""


def holds(asked: Asked, sizes: Sizes) -> bool:
    """Whether sizes fulfil what is asked; those that are not given are not asked for."""
    what, size, number = asked
    if what in ("rest", "broad"):
        return True
    return value(size, sizes) == number


def rests_fit(asked: Sequence[Asked], known: Batch = None) -> bool:
    rests = {sizes for what, _, sizes in asked if what == "rest"}
    if known is not None:
        rests.add(known)
    broad = [sizes for what, _, sizes in asked if what == "broad"]
    if len(rests) > 1:
        return False
    if rests:
        (rest,) = rests
        if any(len(sizes) > len(rest) for sizes in broad):
            return False
        broad.append(rest)
        return all(sizes[-k] in (1, rest[-k]) for sizes in broad for k in range(1, len(sizes) + 1))
    longest = max(map(len, broad), default=0)
    return all(
        len({sizes[-k] for sizes in broad if len(sizes) >= k} - {1}) <= 1
        for k in range(1, longest + 1)
    )


MOST = {0: 1, 1: 150, 2: 30, 3: 10}
"""How many sizes are tried for each tag that is not plain anywhere."""


def solutions(asked: Sequence[Asked], known: Sizes) -> Iterator[dict[str, int]]:
    """Sizes that fulfil all, of a bounded number; the tags that are plain are not guessed."""
    sizes = dict(known)
    for what, size, number in asked:
        is_plain = what == "tag" or (what == "size" and isinstance(size, str))
        if is_plain and sizes.setdefault(size, number) != number:
            return
    unknown = sorted(
        {tag for what, size, _ in asked if what == "size" for tag in tags_of(size)} - {*sizes}
    )
    mixed = [one for one in asked if one[0] == "size" and not isinstance(one[1], str)]
    for numbers in itertools.product(range(MOST.get(len(unknown), 5)), repeat=len(unknown)):
        tried = {**sizes, **dict(zip(unknown, numbers, strict=True))}
        if all(holds(one, tried) for one in mixed):
            yield tried


def judged(alternatives: Alternatives, known: Sizes, batch: Batch = None) -> bool:
    """Whether the oracle finds sizes."""
    return any(
        rests_fit(asked, batch) and next(solutions(asked, known), None) is not None
        for asked in alternatives
    )


def is_solution(sizes: Sizes, alternatives: Alternatives) -> bool:
    """Whether sizes are a solution, by substitution.

    Where some tags are open, they may be anything: what does not follow is not guessed.
    """
    for asked in alternatives:
        if rests_fit(asked):
            sized = [size for what, size, _ in asked if what in ("size", "tag")]
            tags = {tag for size in sized for tag in tags_of(size)}
            if not tags <= {*sizes} or all(holds(one, sizes) for one in asked):
                return True
    return False
