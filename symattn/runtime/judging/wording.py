"""How a message names axes, shapes and sizes, and says what is wrong with one array.

Two axes are rows and columns, or the first and the second axis; behind a rest they are counted from
the end.  A size is said with where it comes from: `m = 7 (V)`.  No values of an array are said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from symattn.errors import SizeError, SizeSyntaxError
from symattn.errors.checks import misfit_text, shape_text
from symattn.runtime.declared.hints import ArrayHint, Hint, Met, Misfit, Place, UnionHint
from symattn.runtime.judging.equations import COUNT, Bound, rest_sizes, said
from symattn.tags.size import Size, exact_quotient
from symattn.tags.solver import Equation, followed
from symattn.tags.spec import ShapeSpec, parse_shape

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
_FROM_END = ("last", "last but one", "third last", "fourth last")
_LONGEST_NAME = 60
_PART = re.compile(r"the (?:value )?(result|yielded)(?=[.[])")
"""How a part of what is given back is called: by its place, which reads as that of an argument."""

_BETWEEN_AXES = re.compile(r"[\s,×]+")


@dataclass(frozen=True, slots=True)
class Break:
    """What is wrong with one axis: in words, and, where it is a plain tag, who says otherwise."""

    place: Place
    text: str
    tag: str | None = None
    bound: Bound | None = None
    got: int | None = None


def breaks(arrays: Sequence[Met], others: Mapping[str, Bound]) -> Iterator[Break]:
    """Every axis of these arrays that the other sizes, or an axis before it, contradict."""
    sizes = dict(others)
    for array in arrays:
        yield from _plain_breaks(array, sizes)
    for array in arrays:
        yield from _solved_breaks(array, sizes)


def _plain_breaks(array: Met, sizes: dict[str, Bound]) -> Iterator[Break]:
    own: dict[str, str] = {}
    in_rest = False
    for size, value, position in said(array):
        tag = size.single_tag
        if tag is None:
            continue
        if tag not in sizes:
            own[tag] = f"its {axis_name(array, position)} axis"
            sizes[tag] = (value, array.place.text)
        elif sizes[tag][0] != value and tag.startswith("*"):
            if not in_rest:
                yield _rest_break(array, tag, sizes)
            in_rest = True
        elif sizes[tag][0] != value:
            bound = sizes[tag]
            said_there = _bound_text(tag, bound[0], own.get(tag, bound[1]))
            axis = axis_name(array, position)
            text = f"{owner(array.place.text)} {axis} axis is {value}, but {said_there}"
            yield Break(array.place, text, tag, bound, value)
    broadcast = _too_many_to_broadcast(array, sizes)
    if broadcast is not None and not in_rest:
        yield broadcast


def _rest_break(array: Met, tag: str, sizes: Mapping[str, Bound]) -> Break:
    rest = array.hint.spec.rest
    name = "" if rest is None or rest.name is None else rest.name
    there, where = rest_sizes(name, sizes) or (), name_text(sizes[tag][1])
    got = shape_text(array.shape[slice(*rest_range(array))])
    whose = owner(array.place.text)
    if rest is not None and rest.broadcasts:
        text = f"{whose} axes {got} do not broadcast with {name} = {shape_text(there)} ({where})"
    else:
        text = f"{whose} axes *{name} are {got}, but {name} = {shape_text(there)} ({where})"
    return Break(array.place, text)


def _too_many_to_broadcast(array: Met, sizes: Mapping[str, Bound]) -> Break | None:
    """A broadcasting rest with more axes than the rest of that name that does not broadcast."""
    rest = array.hint.spec.rest
    if rest is None or rest.name is None or not rest.broadcasts:
        return None
    first, end = rest_range(array)
    count = sizes.get(f"*{rest.name}")
    if count is None or count[0] >= end - first:
        return None
    return _rest_break(array, f"*{rest.name}", sizes)


def _solved_breaks(array: Met, sizes: dict[str, Bound]) -> Iterator[Break]:
    for size, value, position in said(array):
        if size.single_tag is not None:
            continue
        numbers = {tag: sizes[tag][0] for tag in size.tags if tag in sizes}
        text = None
        try:
            if len(numbers) < len(size.tags):
                sizes |= followed([Equation(size, value, array.place.text)], numbers)
            elif size.value(numbers) != value:
                text = _other_size(array, position, value, size, sizes)
        except SizeError as error:
            text = _unsolvable(array, position, value, size, sizes, error)
        if text is not None:
            yield Break(array.place, text)


def _other_size(
    array: Met, position: int, value: int, size: Size, sizes: Mapping[str, Bound]
) -> str:
    declared = size.constant
    if declared is not None:
        return f"{has(array, position, value)}, but {declared} is declared"
    number = size.value({tag: sizes[tag][0] for tag in size.tags})
    there = f"{_declared(array, position)} = {number}, with {given(size, sizes)}"
    return f"{has(array, position, value)}, but {there}"


def _unsolvable(
    array: Met,
    position: int,
    value: int,
    size: Size,
    sizes: Mapping[str, Bound],
    error: SizeError,
) -> str:
    declared = f"{has(array, position, value)} where {_declared(array, position)} is declared"
    if error.problem == "remainder":
        return f"{declared}: {_remainder(size, value, sizes, error)}"
    with_ = given(size, sizes)
    if with_ and len([tag for tag in size.tags if tag in sizes]) == len(size.tags):
        return f"{declared}, which is no whole number with {with_}"
    return f"{declared}: no size fits" + (f" with {with_}" if with_ else "")


def _remainder(size: Size, value: int, sizes: Mapping[str, Bound], error: SizeError) -> str:
    """13 divided by h = 3 (h) leaves 1."""
    unknown = [tag for tag in size.tags if tag not in sizes]
    divisor = exact_quotient(size, Size.tag(unknown[0])) if len(unknown) == 1 else None
    if divisor is None or any(tag not in sizes for tag in divisor.tags):
        # Another form than a product: the solver's own words, without its names for places.
        said_so = (error.detail or "").partition(", with ")[0]
        with_ = given(size, sizes)
        return said_so + (f", with {with_}" if with_ else "")
    number = divisor.value({tag: sizes[tag][0] for tag in divisor.tags})
    if divisor.constant is not None:
        by = str(number)
    elif divisor.single_tag is not None:
        by = given(divisor, sizes)
    else:
        by = f"{divisor} = {number}"
    left = f"{value} divided by {by} leaves {value % number}"
    several = len(divisor.tags) > 1 or (divisor.single_tag is None and divisor.tags)
    return left + (f", with {given(divisor, sizes)}" if several else "")


def given(size: Size, sizes: Mapping[str, Bound]) -> str:
    """The tags of a size that are known, each with where it comes from (itself: a parameter).

    >>> given(Size.tag("h") * Size.tag("d_k"), {"d_k": (4, "W"), "h": (3, "h")})
    'h = 3, d_k = 4 (W)'
    """
    known = [tag for tag in size.tags if tag in sizes]
    return ", ".join(_bound_text(tag, *sizes[tag]) for tag in known)


def _bound_text(tag: str, size: int, where: str) -> str:
    return f"{tag} = {size}" + (f" ({name_text(where)})" if where != tag else "")


def has(array: Met, position: int, value: int) -> str:
    """`x has 13 columns`, or `x's last axis is 13`."""
    name = name_text(array.place.text)
    if len(array.shape) == 2 and array.hint.spec.rest is None and position >= 0:
        side = ("row", "column")[position]
        return f"{name} has {value} {side}{'' if value == 1 else 's'}"
    return f"{owner(name)} {axis_name(array, position)} axis is {value}"


def axis_name(array: Met, position: int) -> str:
    """Which axis of an array it is: first, second, … or, behind a rest, last, last but one, …"""
    if position == COUNT:
        return "number of"
    spec, from_end = array.hint.spec, len(array.shape) - position
    behind = spec.rest is not None and position >= len(spec.before)
    names, at = (_FROM_END, from_end - 1) if behind else (_ORDINALS, position)
    return names[at] if at < len(names) else f"{position + 1}th"


def rest_range(array: Met) -> tuple[int, int]:
    """Where the axes of the rest begin and end."""
    return len(array.hint.spec.before), len(array.shape) - len(array.hint.spec.after)


def expected(spec: ShapeSpec, sizes: Mapping[str, Bound]) -> str:
    """The shape that the sizes give a spec, with tags where they do not follow: `(4, m)`."""
    numbers = {tag: size for tag, (size, _) in sizes.items()}
    parts: list[str] = []
    for axis, word in zip(spec.axes, axis_words(spec), strict=True):
        try:
            parts.append("_" if axis.size is None else str(axis.size.value(numbers)))
        except SizeError:  # a tag that does not follow, or a remainder
            parts.append(word)
    if spec.rest is not None:
        there = None if spec.rest.name is None else rest_sizes(spec.rest.name, sizes)
        rest = ["…"] if there is None else [str(size) for size in there]
        parts[len(spec.before) : len(spec.before)] = rest
    return shape_text(parts)


def axis_words(spec: ShapeSpec) -> list[str]:
    """The size of each axis besides the rest, as it was written where that can be told.

    >>> axis_words(parse_shape("... n, #width=h*d_k")), axis_words(parse_shape("d_k * h _"))
    (['n', 'h*d_k'], ['h*d_k', '_'])
    """
    words = [word for word in _BETWEEN_AXES.split(spec.text) if word]
    if spec.rest is not None:
        del words[len(spec.before) : len(spec.before) + 1]
    if len(words) != spec.rank:
        words = [""] * spec.rank
    plain = [word.lstrip("#").rpartition("=")[2] for word in words]
    return [
        "_" if axis.size is None else word if _reads_as(word, axis.size) else str(axis.size)
        for axis, word in zip(spec.axes, plain, strict=True)
    ]


def _reads_as(word: str, size: Size) -> bool:
    try:
        return parse_shape(word).sizes == (size,)
    except SizeSyntaxError:
        return False


def _declared(array: Met, position: int) -> str:
    """The size of an axis as it was written."""
    spec, words = array.hint.spec, axis_words(array.hint.spec)
    behind = spec.rest is not None and position >= len(spec.before)
    return words[position - len(array.shape)] if behind else words[position]


def name_text(name: str) -> str:
    """A name on one line, and not too long; a part of the result is called as one of an argument.

    >>> name_text("layers[2].W"), name_text("x\\n"), name_text("the result[1]")
    ('layers[2].W', 'x�', 'result[1]')
    """
    line = _PART.sub(r"\1", name[: 2 * _LONGEST_NAME])
    line = "".join(c if c.isprintable() else "�" for c in line[: _LONGEST_NAME + 1])
    return line if len(line) <= _LONGEST_NAME else line[: _LONGEST_NAME - 1] + "…"


def owner(name: str) -> str:
    """`K's`."""
    return f"{name_text(name)}'s"


def listed(names: Sequence[str], word: str) -> str:
    """Names in a row, the last two joined by a word.

    >>> listed(["Q", "K", "V"], "or")
    'Q, K or V'
    """
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {word} {names[-1]}"


def array_hint(hint: Hint) -> ArrayHint | None:
    """The one array that a hint allows, if there is one: `X | None` allows X."""
    parts = hint.parts if isinstance(hint, UnionHint) else (hint,)
    arrays = [part for part in parts if isinstance(part, ArrayHint)]
    return arrays[0] if len(arrays) == 1 else None


def misfit_line(misfit: Misfit) -> str:
    """What is wrong with a type, a dtype or a number of axes."""
    name, hint, shape = name_text(misfit.place.text), array_hint(misfit.hint), misfit.shape
    if misfit.kind != "rank" or hint is None or shape is None:
        return misfit_text(name, misfit.wanted, misfit.got)
    declared = hint.spec.rank
    least = "at least " if hint.spec.rest is not None else ""
    axes = f"{least}{declared or 'no'} {'axis' if declared == 1 else 'axes'}"
    said = f"its shape is {shape_text(shape)}, but {hint.spec.text} has {axes}"
    match len(shape) - declared:
        case 1:
            return f"{name} has an axis too many: {said}"
        case -1:
            return f"{name} lacks an axis: {said}"
        case more if more > 0:
            return f"{name} has {more} axes too many: {said}"
        case fewer:
            return f"{name} lacks {-fewer} axes: {said}"
