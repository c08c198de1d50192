"""One way to split every merged axis, in which each reading of it is found again.

A reading cuts an axis into factors, row by row; what `splits_of` says is compared with the digits
that a place has in each reading, by division and remainder of whole numbers.
"""

from itertools import pairwise
from math import prod

import pytest
from hypothesis import given, settings, strategies as st

from symattn.meaning.form import Component, Entry, Form, Index
from symattn.proof.normal.splits import ConflictingSplitsError, Splits, splits_of
from symattn.tags import Relations, Size, parse_size

VALUES = {"a": 2, "b": 3, "c": 5, "e": 7}
TAGS = {name: Size.tag(name) for name in VALUES}

Reading = tuple[Size, ...]


def reads(reading: Reading) -> Form:
    """A form that reads an axis with an index for each factor."""
    whole = prod(reading, start=Size.of(1))
    return Entry("T", (whole,), (tuple(Index(size) for size in reading),))


def reads_a_factor(reading: Reading, position: int = 0) -> Form:
    """A form that reads one factor of a place on the whole of an axis."""
    whole = Index(prod(reading, start=Size.of(1)))
    factor = Component((whole,), reading, position)
    return Entry("T", (reading[position],), ((factor,),))


def opened(size: Size, splits: Splits) -> list[Size]:
    """The factors of an axis, those that are merged themselves taken apart."""
    parts = splits.get(size)
    return [size] if parts is None else [one for part in parts for one in opened(part, splits)]


def digits(place: int, extents: list[int]) -> list[int]:
    """The place on each factor, outermost first."""
    found = []
    for extent in reversed(extents):
        place, digit = divmod(place, extent)
        found.insert(0, digit)
    return found


def value(size: Size) -> int:
    return size.value(VALUES)


def agrees(reading: Reading, factors: list[Size]) -> bool:
    """Whether factors of a reading are factors of the split, put together: at every place."""
    fine = [value(size) for size in factors]
    coarse = [value(size) for size in reading]
    for place in range(prod(coarse)):
        inner = iter(zip(digits(place, fine), fine, strict=True))
        for digit, extent in zip(digits(place, coarse), coarse, strict=True):
            together, reached = 0, 1
            while reached < extent:
                one, of = next(inner)
                together, reached = together * of + one, reached * of
            if (together, reached) != (digit, extent):
                return False
    return True


@st.composite
def readings_in(draw: st.DrawFn, order: list[str]) -> Reading:
    """Draw a way to cut an axis that has these tags in this order."""
    inside = range(1, len(order))
    cuts = sorted(draw(st.sets(st.sampled_from(inside), min_size=1)) if len(order) > 1 else ())
    ends = [0, *cuts, len(order)]
    return tuple(
        prod((TAGS[name] for name in order[start:end]), start=Size.of(1))
        for start, end in pairwise(ends)
    )


FORMS = st.sampled_from((reads, reads_a_factor))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_readings_in_one_order_have_a_refinement(data: st.DataObject) -> None:
    order = data.draw(st.permutations(sorted(VALUES)))
    ways = data.draw(st.lists(readings_in(order), min_size=1, max_size=4))
    splits = splits_of([data.draw(FORMS)(way) for way in ways], Relations())
    whole = prod(TAGS.values(), start=Size.of(1))
    factors = opened(whole, splits)
    assert prod(factors, start=Size.of(1)) == whole
    for way in ways:
        assert agrees(way, factors)
    # No finer than what was read.
    cuts = {prod(way[k:], start=Size.of(1)) for way in ways for k in range(1, len(way))}
    assert len(factors) == len(cuts) + 1


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_readings_in_any_order_agree_or_conflict(data: st.DataObject) -> None:
    names = data.draw(st.sets(st.sampled_from(sorted(VALUES)), min_size=2))
    orders = data.draw(st.lists(st.permutations(sorted(names)), min_size=2, max_size=3))
    ways = [data.draw(readings_in(list(order))) for order in orders]
    whole = prod((TAGS[name] for name in names), start=Size.of(1))
    chains = {frozenset({*(prod(w[k:], start=Size.of(1)) for k in range(1, len(w)))}) for w in ways}
    try:
        splits = splits_of([reads(way) for way in ways], Relations())
    except ConflictingSplitsError:
        # Two cuts of which neither divides the other, as whole numbers show it.
        cuts = sorted(value(cut) for chain in chains for cut in chain)
        assert any(larger % smaller for smaller, larger in pairwise(sorted({*cuts})))
        return
    factors = opened(whole, splits)
    for way in ways:
        assert agrees(way, factors)


def sizes(*texts: str) -> Reading:
    return tuple(map(parse_size, texts))


def test_nested_readings() -> None:
    splits = splits_of([reads(sizes("a*b", "c")), reads(sizes("a", "b*c"))], Relations())
    assert splits[parse_size("a*b*c")] == sizes("a", "b", "c")
    # The factors are merged axes themselves.
    assert splits[parse_size("a*b")] == sizes("a", "b")
    assert splits[parse_size("b*c")] == sizes("b", "c")


def test_a_factor_of_size_one_is_no_cut() -> None:
    assert splits_of([reads(sizes("1", "a", "1"))], Relations()) == {}
    assert splits_of([reads(sizes("a", "1", "b"))], Relations()) == {
        parse_size("a*b"): sizes("a", "b")
    }


def test_numbers_are_sizes_too() -> None:
    splits = splits_of([reads(sizes("2", "3*a")), reads(sizes("6", "a"))], Relations())
    assert splits[parse_size("6*a")] == sizes("2", "3", "a")
    with pytest.raises(ConflictingSplitsError):
        splits_of([reads(sizes("2", "3")), reads(sizes("3", "2"))], Relations())


def test_relations_are_used() -> None:
    relations = Relations().declare("c = a*b")
    splits = splits_of([reads(sizes("c", "e")), reads(sizes("a", "b*e"))], relations)
    assert splits[parse_size("a*b*e")] == sizes("a", "b", "e")
    assert parse_size("c*e") not in splits


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "b"), ("b", "a")),
        (("a*b", "c"), ("b*c", "a")),
        (("a*b", "c"), ("a*c", "b")),
        (("a+1", "b"), ("b", "a+1")),
    ],
)
def test_conflicts_name_both_readings(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    with pytest.raises(ConflictingSplitsError) as conflict:
        splits_of([reads(sizes(*one)), reads(sizes(*other))], Relations())
    said = str(conflict.value)
    for way in (one, other):
        assert " × ".join(str(parse_size(size)) for size in way) in said


def test_a_reading_that_another_brings_forth_may_conflict() -> None:
    """(a·b, c) and (a, b·c) cut a·b as (a, b), and it is read as (b, a) elsewhere."""
    forms = [reads(sizes("a*b", "c")), reads(sizes("a", "b*c")), reads(sizes("b", "a"))]
    for order in (forms, forms[::-1], forms[1:] + forms[:1]):
        with pytest.raises(ConflictingSplitsError, match="a × b and as b × a"):
            splits_of(order, Relations())
