"""Random points at which formulas are compared: sizes of the tags, inputs, scalars.

A comparison is worth as much as its point.  Sizes that coincide hide a transposed weight, integer
inputs hide a lost factor, so sizes are pairwise different unless a relation forces two to be equal,
and inputs are rationals with nothing in common.  For a person who is to read the point there are
readable ones too: the least sizes, and entries that are small integers and halves.

Everything is drawn from the `random.Random` that the caller gives, and follows from its seed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from fractions import Fraction
from random import Random
from typing import Any

import sympy

from symattn.errors import SizeError
from symattn.nodes.core import NamedInput, Node
from symattn.nodes.indices import AxisIndex
from symattn.nodes.masks import BooleanInput
from symattn.tags import Quotient, Relations, Size

Rows = tuple[tuple[Fraction, ...], ...]
Booleans = tuple[Any, ...]
"""Rows of booleans: a tuple of them for each axis."""

_TRIES = 200


class Entries(Enum):
    """How the entries of inputs are drawn."""

    READABLE = "small integers and halves"
    GENERIC = "rationals of either sign with nothing in common"
    POSITIVE = "generic, and all of them positive"
    ONE_SIGN = "generic, and each input of one sign"


_READABLE = tuple(Fraction(k, 2) for k in (-4, -3, -2, -1, 1, 2, 3, 4))
_GENERIC = tuple(
    sorted(
        {
            Fraction(p, q)
            for q in (3, 5, 7, 11, 13)
            for p in range(1, 2 * q + 1)
            if p % q  # no integers
        }
    )
)


def sizes_in(nodes: Iterable[Node]) -> tuple[Size, ...]:
    """Return the sizes that have to be whole numbers of at least 1 for the formulas to exist.

    >>> from symattn.nodes import dims, matrix
    >>> m, n = dims("m n")
    >>> [str(size) for size in sizes_in([matrix("S", 2 * m, n)])]
    ['2*m', 'n', 'm']
    """
    found: dict[Size, None] = {}
    for node in nodes:
        for part in node.walk():
            found.update(dict.fromkeys(part.extents))
        found.update((Size.tag(tag), None) for tag in node.tags)
    return tuple(found)


def random_sizes(
    sizes: Iterable[Size],
    relations: Relations,
    rng: Random,
    *,
    least: int = 2,
    ones: float = 0.0,
) -> dict[str, int]:
    """Return a size for every tag in the sizes and relations: small, and pairwise different.

    >>> from symattn.tags import parse_size
    >>> drawn = random_sizes([parse_size("h*d_k//g")], Relations().declare("m = g"), Random(1))
    >>> sorted(drawn), drawn["m"] == drawn["g"], drawn["h"] * drawn["d_k"] % drawn["g"]
    (['d_k', 'g', 'h', 'm'], True, 0)

    Every size is a whole number of at least 1; sizes are drawn from ``least`` upwards, except that
    each tag is 1 with probability ``ones``, and several may be.  Tags that multiply each other come
    out smallest.  Raises `SizeError` if no such sizes are found.
    """
    wanted = tuple(dict.fromkeys([*sizes, *(side for pair in relations for side in _sides(pair))]))
    solved = dict(relations)
    tags = sorted({tag for size in wanted for tag in size.tags})
    free = [tag for tag in tags if tag not in solved]
    multiplied = {
        tag
        for size in wanted
        for _, monomial in relations.rewrite(size).terms
        if sum(power for _, power in monomial) > 1
        for tag in Size(((1, monomial),)).tags
    }
    quotients = _quotients(relations.rewrite(size) for size in wanted)
    best: tuple[int, dict[str, int]] | None = None
    for attempt in range(_TRIES):
        drawn = _drawn(free, multiplied, least, attempt // 20, rng)
        drawn.update((tag, 1) for tag in free if ones and rng.random() < ones)
        for quotient in quotients:
            _make_exact(quotient, free, drawn, rng)
        drawn.update((tag, size.value(drawn)) for tag, size in solved.items())
        if not _fits(wanted, drawn):
            continue
        coincidences = _coincidences(tags, solved, drawn)
        if best is None or coincidences < best[0]:
            best = coincidences, drawn
        if not coincidences:
            break
    if best is None:
        raise SizeError("together", where=", ".join(map(str, wanted)))
    return best[1]


def _sides(pair: tuple[str, Size]) -> tuple[Size, Size]:
    return Size.tag(pair[0]), pair[1]


def _drawn(
    free: list[str], multiplied: set[str], least: int, spread: int, rng: Random
) -> dict[str, int]:
    """Draw different sizes from a range that grows with the spread, the least for factors."""
    few = [tag for tag in free if tag in multiplied]
    rest = [tag for tag in free if tag not in multiplied]
    rng.shuffle(few)
    rng.shuffle(rest)
    # One number more than there are tags, and more where divisions left remainders before.
    numbers = list(range(least, least + len(free) + 1 + 2 * spread))
    numbers.remove(rng.choice(numbers[len(few) :]))
    if spread:
        rng.shuffle(numbers)
    return dict(zip([*few, *rest], numbers, strict=False))


def _quotients(sizes: Iterable[Size]) -> list[Quotient]:
    atoms = (atom for size in sizes for _, monomial in size.terms for atom, _ in monomial)
    return list(dict.fromkeys(atom for atom in atoms if isinstance(atom, Quotient)))


def _make_exact(quotient: Quotient, free: list[str], drawn: dict[str, int], rng: Random) -> None:
    """Make a tag of a product a multiple of what divides it; drawing again would take long."""
    divisor = quotient.den.value(drawn)
    tags = [tag for tag in quotient.num.tags if tag in free and tag not in quotient.den.tags]
    if tags and len(quotient.num.terms) == 1 and quotient.num.value(drawn) % max(divisor, 1):
        drawn[rng.choice(tags)] = divisor * rng.randint(1, 3)


def _fits(sizes: Iterable[Size], drawn: Mapping[str, int]) -> bool:
    try:
        return all(size.value(drawn) >= 1 for size in sizes)
    except SizeError:  # a division that leaves a remainder
        return False


def _coincidences(tags: list[str], solved: Mapping[str, Size], drawn: Mapping[str, int]) -> int:
    """Count the pairs of tags, larger than 1, that are equal with no relation to make them so."""
    return sum(
        drawn[left] == drawn[right] > 1
        and solved.get(left, Size.tag(left)) != solved.get(right, Size.tag(right))
        for left, right in itertools.combinations(tags, 2)
    )


def random_rows(rows: int, columns: int, rng: Random, entries: Entries) -> Rows:
    """Return a matrix of small rational numbers, none of them zero.

    >>> random_rows(1, 2, Random(3), Entries.READABLE)
    ((Fraction(-1, 2), Fraction(-1, 1)),)
    """
    if entries is Entries.READABLE:
        return tuple(tuple(rng.choice(_READABLE) for _ in range(columns)) for _ in range(rows))
    one_sign = 1 if entries is Entries.POSITIVE else rng.choice((-1, 1))
    signs = (-1, 1) if entries is Entries.GENERIC else (one_sign,)
    return tuple(
        tuple(rng.choice(signs) * rng.choice(_GENERIC) for _ in range(columns)) for _ in range(rows)
    )


def random_booleans(sizes: Sequence[int], rng: Random) -> Booleans:
    """Return nested rows of booleans; a row may be all False, since masks may allow nothing.

    >>> random_booleans([2, 3], Random(4))
    ((True, False, True), (False, False, False))
    """
    if len(sizes) > 1:
        return tuple(random_booleans(sizes[1:], rng) for _ in range(sizes[0]))
    part = rng.choice((0.0, 0.5, 0.5, 0.8))
    return tuple(rng.random() < part for _ in range(sizes[0]))


def random_inputs(
    inputs: Iterable[NamedInput | BooleanInput],
    sizes: Mapping[str, int],
    rng: Random,
    entries: Entries = Entries.GENERIC,
    relations: Relations | None = None,
) -> dict[Any, Any]:
    """Return a matrix for every input, and a list of matrices for a family.

    One name with sizes that the relations equate is one matrix.

    >>> from symattn.nodes import dims, matrix
    >>> m, n = dims("m n")
    >>> S = matrix("S", m, n)
    >>> random_inputs([S], {"m": 1, "n": 2}, Random(3), Entries.READABLE)[S]
    ((Fraction(-1, 2), Fraction(-1, 1)),)
    """
    rewrite = (relations or Relations()).rewrite
    drawn: dict[tuple[str, tuple[Size, ...]], Rows | Booleans] = {}
    values: dict[NamedInput | BooleanInput, Rows | Booleans] = {}
    for symbol in inputs:
        key = symbol.label, tuple(rewrite(size) for size in symbol.sizes)
        if key not in drawn:
            shape = [size.value(sizes) for size in symbol.sizes]
            drawn[key] = (
                random_booleans(shape, rng)
                if isinstance(symbol, BooleanInput)
                else _random_members(shape, rng, entries)
            )
        values[symbol] = drawn[key]
    return values


def random_indices(
    indices: Iterable[AxisIndex], sizes: Mapping[str, int], rng: Random
) -> dict[AxisIndex, int]:
    """Return a value for every index, from 0 and below its size.

    >>> from symattn.nodes import index
    >>> random_indices([index("i", "h")], {"h": 1}, Random(3))
    {i: 0}
    """
    return {index: rng.randrange(index.size.value(sizes)) for index in indices}


def _random_members(shape: Sequence[int], rng: Random, entries: Entries) -> Any:
    """Return the rows of a matrix, or of each member of a family."""
    count, *rest = shape
    if len(rest) == 1:
        return random_rows(count, rest[0], rng, entries)
    return tuple(_random_members(rest, rng, entries) for _ in range(count))


def random_scalars(
    scalars: Iterable[sympy.Symbol], rng: Random, entries: Entries = Entries.GENERIC
) -> dict[str, Fraction]:
    """Return a rational number for every scalar, positive if it is declared so, never 1 or 0.

    >>> from symattn.nodes import scalar
    >>> random_scalars([scalar("c", positive=True)], Random(4))["c"] > 0
    True
    """
    choices = _READABLE if entries is Entries.READABLE else _GENERIC
    values: dict[str, Fraction] = {}
    for symbol in scalars:
        size = abs(rng.choice([value for value in choices if abs(value) != 1]))
        keeps_sign = symbol.is_positive or entries is Entries.POSITIVE
        values[symbol.name] = size if keeps_sign else rng.choice((-1, 1)) * size
    return values
