"""What a person types, read strictly: formulas by name and layout, sizes by tag."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence

from symattn.cli.refusals import Refused
from symattn.errors import SizeError
from symattn.notation.presets import preset_named
from symattn.tags import Equation, Relations, Size, check_tag_name, named, solve
from symattn.variants import Formula, formula

_INTEGER = re.compile(r"[+-]?[0-9]+")
_MOST_DIGITS = 18
_MOST_TRIES = 64
_LONGEST = 40


def formula_named(text: str, otherwise: str = "column") -> Formula:
    """Return the formula that NAME or NAME:layout means; without a layout it is ``otherwise``'s.

    >>> formula_named("dot_product:row").layout
    'row'

    Raises `UnknownNameError` for an unknown name or layout.
    """
    name, colon, layout = text.partition(":")
    return formula(name, layout if colon else otherwise)


def layout_of_preset(preset: str | None) -> str:
    """Return the layout that a preset writes in; column without one."""
    return "column" if preset is None else preset_named(preset).layout


def sizes_given(texts: Iterable[str], tags: Sequence[str]) -> dict[str, int]:
    """Return the sizes that ``TAG=N`` arguments give.

    >>> sizes_given(["n=5", "d_k = 4"], ["n", "d_k"])
    {'n': 5, 'd_k': 4}

    Raises `SizeError` for what is no positive integer or too large, `UnknownNameError` for a tag
    that the formula does not have.
    """
    sizes: dict[str, int] = {}
    for text in texts:
        written, equals, number = (part.strip() for part in text.partition("="))
        if not equals:
            raise Refused(f"--size takes TAG=N, such as n=5, not {text[:40]!r}")
        tag = check_tag_name(written)
        named("size", tag, dict.fromkeys(tags))
        shown = number if len(number) <= _LONGEST else number[:_LONGEST] + "…"
        if _INTEGER.fullmatch(number) is None:
            raise SizeError("positive", tag=tag, value=shown or "nothing")
        digits = number.removeprefix("+").lstrip("0")
        if len(digits) > _MOST_DIGITS and not number.startswith("-"):
            raise SizeError("beyond", tag=tag, value=shown)
        if number.startswith("-") or not digits:
            raise SizeError("positive", tag=tag, value=shown)
        if tag in sizes:
            raise Refused(f"--size gives {tag} twice")
        sizes[tag] = int(digits)
    return sizes


def scalars_given(texts: Iterable[str], names: Sequence[str]) -> dict[str, float]:
    """Return the numbers that ``NAME=NUMBER`` arguments give.

    >>> scalars_given(["c=1.5"], ["c"])
    {'c': 1.5}

    Raises `UnknownNameError` for a scalar that the formula has not, and `Refused` for what is not a
    finite number.
    """
    numbers: dict[str, float] = {}
    for text in texts:
        name, _, number = (part.strip() for part in text.partition("="))
        named("scalar", name, dict.fromkeys(names))
        try:
            numbers[name] = float(number)
        except ValueError:
            numbers[name] = math.nan
        if not math.isfinite(numbers[name]):
            raise Refused(f"--scalar takes NAME=NUMBER, such as c=1.5, not {text[:40]!r}")
    return numbers


def sizes_completed(
    given: dict[str, int],
    tags: Iterable[str],
    relations: Relations = Relations(),  # noqa: B008
) -> dict[str, int]:
    """Return a size for every tag: those given, and small ones that differ from all others.

    >>> sizes_completed({"m": 5}, ["d_k", "n", "m"])
    {'d_k': 3, 'n': 4, 'm': 5}
    >>> sizes_completed({"h": 2}, ["d", "h", "d_k"], Relations().declare("d = h*d_k"))
    {'d': 6, 'h': 2, 'd_k': 3}

    Sizes that coincide would hide faults.  A tag that a relation gives follows from the others, and
    where it is given itself, they follow from it as far as they do.
    """
    told = [
        Equation(Size.tag(tag) - size, 0, f"the relation {tag} = {size}") for tag, size in relations
    ]
    sizes = _following(told, given)
    unused = (size for size in itertools.count(3) if size not in given.values())
    tags = tuple(tags)
    for tag in (tag for tag in tags if tag not in dict(relations)):
        if tag not in sizes:
            sizes = next(_fitting(told, sizes, tag, unused))
    return {tag: sizes[tag] for tag in tags}


def _fitting(
    told: Sequence[Equation], sizes: dict[str, int], tag: str, unused: Iterator[int]
) -> Iterator[dict[str, int]]:
    """Yield the sizes with one that a tag may have beside them, and what follows."""
    for size in itertools.islice(unused, _MOST_TRIES):
        try:
            yield _following(told, {**sizes, tag: size})
        except SizeError:
            continue
    raise Refused(f"no size of {tag} was found that fits; give it with --size {tag}=N")


def _following(told: Sequence[Equation], known: dict[str, int]) -> dict[str, int]:
    """Return the sizes that are known, with those that follow from them."""
    try:
        return {**known, **solve(told, known)}
    except SizeError as error:
        if error.problem != "underdetermined":
            raise
        return dict(known)
