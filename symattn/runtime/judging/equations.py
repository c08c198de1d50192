"""From the arrays of a call to the sizes of tags: what each axis says, and what follows from all.

An array declared `d_k n` of shape (4, 5) says d_k = 4 and n = 5.  Axes are counted from both ends
around a rest (`...`, `*batch`); `_` says nothing, a literal is an equation without tags, and `#n`
says nothing where the axis has size 1.  A named rest is made of tags like any other: `*batch` is
its number of axes, `*batch[-1]`, `*batch[-2]`, … their sizes, counted from the right.  Broadcasting
rests (`*#batch`) say the sizes that are not 1, and at least how many axes there are (`*#batch`).

Plain tags are bound and compared at once, in the order of the arguments; only what is left over
(`h*d_k`, `2*n`, `n+1`) is solved together.  A size is kept with where it comes from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from symattn.errors import SizeError
from symattn.runtime.declared.hints import Count, Met
from symattn.tags.size import Size
from symattn.tags.solver import Equation, followed

Bound = tuple[int, str]
"""A size, and where it comes from."""

COUNT = -1
"""The position that stands for the number of axes of a rest."""

Said = tuple[Size, int, int]
"""A declared size, the size that is there, and the position of the axis."""


def said(item: Met) -> list[Said]:
    """What an array says about sizes, axis by axis."""
    spec, shape = item.hint.spec, item.shape
    rest, found = spec.rest, []
    if rest is not None:
        found = [
            (axis.size, size, position)
            for position, (axis, size) in enumerate(zip(spec.before, shape, strict=False))
            if axis.size is not None and not (axis.broadcasts and size == 1)
        ]
        first, end = len(spec.before), len(shape) - len(spec.after)
        if rest.name is not None:
            if not rest.broadcasts:
                found.append((_rest_tag(rest.name, 0), end - first, COUNT))
            found += [
                (_rest_tag(rest.name, end - position), shape[position], position)
                for position in range(first, end)
                if not (rest.broadcasts and shape[position] == 1)
            ]
    start = len(shape) - len(spec.after)
    found += [
        (axis.size, size, position)
        for position, (axis, size) in enumerate(zip(spec.after, shape[start:], strict=False), start)
        if axis.size is not None and not (axis.broadcasts and size == 1)
    ]
    return found


def tags_in(items: Iterable[Met | Count]) -> frozenset[str]:
    """The tags of all equations that arrays give."""
    arrays = (item for item in items if isinstance(item, Met))
    return frozenset(tag for item in arrays for size, _, _ in said(item) for tag in size.tags)


def settle(items: Sequence[Met | Count], known: Mapping[str, Bound]) -> dict[str, Bound] | None:
    """All sizes that follow from arrays, counts and what is known; None if no sizes fit.

    Tags that do not follow are left out: an array may be absent, and a factor 0 hides the others.
    A count whose tag occurs in no array is ignored, unless it is declared elsewhere.
    """
    found = dict(known)
    waiting: list[Equation] = []
    has_counts = any(isinstance(item, Count) for item in items)
    in_arrays: frozenset[str] = tags_in(items) if has_counts else frozenset()
    if not (bind(items, found, waiting, in_arrays) and rests_fit(found)):
        return None
    return _solved(waiting, found) if waiting else found


def bind(
    items: Iterable[Met | Count],
    found: dict[str, Bound],
    waiting: list[Equation],
    in_arrays: frozenset[str] = frozenset(),
) -> bool:
    """Add to what is found all that plain tags say, and to what waits the equations in others.

    Whether nothing contradicts what is found.  Counts of tags that are not `in_arrays` are ignored,
    unless they are declared.
    """
    for item in items:
        where = item.place.text
        if isinstance(item, Met):
            rest = item.hint.spec.rest
            if rest is not None and rest.broadcasts and rest.name is not None:
                _raise_floor(found, rest.name, len(item.shape) - item.hint.spec.rank, where)
            for size, value, _ in said(item):
                tag = size.single_tag
                if tag is None:
                    waiting.append(Equation(size, value, where))
                elif tag not in found:
                    found[tag] = (value, where)
                elif found[tag][0] != value:
                    return False
        elif item.declared or item.tag in in_arrays:
            bound = found.setdefault(item.tag, (item.value, where))
            if item.value < 0 or bound[0] != item.value:
                return False
    return True


def shown(bindings: Mapping[str, Bound]) -> dict[str, tuple[int | tuple[int, ...], str]]:
    """The sizes as a person reads them: those of a rest joined, without its star.

    >>> shown({"n": (5, "Q"), "*batch": (2, "V"), "*batch[-1]": (3, "V"), "*batch[-2]": (2, "V")})
    {'n': (5, 'Q'), 'batch': ((2, 3), 'V')}

    An axis of a broadcasting rest that is 1 in every array is shown as 1.
    """
    found: dict[str, tuple[int | tuple[int, ...], str]] = {}
    for tag, (size, where) in bindings.items():
        if not tag.startswith("*"):
            found[tag] = (size, where)
            continue
        name = _rest_name(tag)
        # A tag of the same name keeps it.
        key = f"*{name}" if name in bindings else name
        if key not in found:
            found[key] = (rest_sizes(name, bindings) or (), where)
    return found


def rest_sizes(name: str, bindings: Mapping[str, Bound]) -> tuple[int, ...] | None:
    """The sizes of the axes of a rest, or None if nothing is known of it."""
    count = bindings.get(f"*{name}") or bindings.get(f"*#{name}")
    if count is None:
        return None
    return tuple(bindings.get(f"*{name}[-{place}]", (1, ""))[0] for place in range(count[0], 0, -1))


@lru_cache(maxsize=1024)
def _rest_tag(name: str, from_right: int) -> Size:
    return Size.tag(f"*{name}[-{from_right}]" if from_right else f"*{name}")


def _rest_name(tag: str) -> str:
    return tag.removeprefix("*").removeprefix("#").partition("[")[0]


def _raise_floor(found: dict[str, Bound], name: str, count: int, where: str) -> None:
    """Note that a broadcasting rest has at least so many axes."""
    floor = found.get(f"*#{name}")
    if floor is None or floor[0] < count:
        found[f"*#{name}"] = (count, where)


def rests_fit(found: Mapping[str, Bound]) -> bool:
    """Whether no broadcasting rest has more axes than the rest of that name that does not."""
    for tag, (floor, _) in found.items():
        if tag.startswith("*#"):
            count = found.get(f"*{tag[2:]}")
            if count is not None and count[0] < floor:
                return False
    return True


def _solved(waiting: Sequence[Equation], found: dict[str, Bound]) -> dict[str, Bound] | None:
    """The sizes found, and those that follow from equations in more than a plain tag."""
    try:
        left = propagate(waiting, found)
        if left:
            tags = {tag for equation in left for tag in equation.size.tags}
            known = {tag: size for tag, (size, _) in found.items() if tag in tags}
            found |= followed(left, known)
    except SizeError as error:
        # What is not worth computing with is no contradiction.
        return found if error.problem == "too large" else None
    return found


def propagate(waiting: Sequence[Equation], found: dict[str, Bound]) -> list[Equation]:
    """Check and solve what is linear in one unknown, at once; what is left is for the solver.

    Raises `SizeError` where an equation does not hold, or has no solution.
    """
    left = list(waiting)
    sizes = {tag: size for tag, (size, _) in found.items()}
    while True:
        stuck: list[Equation] = []
        for equation in left:
            unknown = [tag for tag in equation.size.tags if tag not in sizes]
            if not unknown:
                if equation.size.value(sizes) != equation.value:
                    raise SizeError("inconsistent")
                continue
            line = _line(equation.size, unknown[0], sizes) if len(unknown) == 1 else None
            if line is None or line[0] == 0:
                stuck.append(equation)
                continue
            slope, offset = line
            size, remainder = divmod(equation.value - offset, slope)
            if remainder or size < 0:
                raise SizeError("inconsistent")
            sizes[unknown[0]] = size
            found[unknown[0]] = (size, equation.where)
        if not stuck or len(stuck) == len(left):
            return stuck
        left = stuck


def _line(size: Size, unknown: str, sizes: Mapping[str, int]) -> tuple[int, int] | None:
    """Slope and offset of a size as a function of its one unknown; None if it is not linear."""
    slope = offset = 0
    for coefficient, monomial in size.terms:
        has_unknown = False
        for atom, exponent in monomial:
            if atom == unknown:
                if exponent > 1:
                    return None
                has_unknown = True
            elif isinstance(atom, str):
                for _ in range(exponent):  # `**` is too much for a compiler whose sizes are symbols
                    coefficient *= sizes[atom]
            else:
                return None
        slope, offset = (
            (slope + coefficient, offset) if has_unknown else (slope, offset + coefficient)
        )
    return slope, offset
