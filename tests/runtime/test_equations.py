"""Sizes from arrays: by hand, and compared with trying all small sizes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given, settings, strategies as st

from symattn.runtime.declared.hints import Count, Met, Shape
from symattn.runtime.judging.equations import Bound, settle, shown
from tests.runtime.calls import array, count

Items = list[Met | Count]


def sizes_of(items: Items, known: dict[str, Bound] | None = None) -> dict[str, int] | None:
    found = settle(items, known or {})
    return None if found is None else {tag: size for tag, (size, _) in found.items()}


def test_plain_tags_with_where_they_come_from() -> None:
    items = [array("Q", "d_k n", (4, 5)), array("K", "d_k m", (4, 7)), array("V", "d_v m", (3, 7))]
    assert settle(items, {}) == {"d_k": (4, "Q"), "n": (5, "Q"), "m": (7, "K"), "d_v": (3, "V")}
    assert settle(items, {"m": (7, "the cache")}) == {
        "m": (7, "the cache"),
        "d_k": (4, "Q"),
        "n": (5, "Q"),
        "d_v": (3, "V"),
    }
    assert settle(items, {"m": (6, "the cache")}) is None


@pytest.mark.parametrize(
    ("spec", "shape", "sizes"),
    [
        ("n 3", (5, 3), {"n": 5}),
        ("n 3", (5, 4), None),
        ("n _", (5, 4), {"n": 5}),
        ("n n", (5, 5), {"n": 5}),
        ("n n", (5, 4), None),
        ("#n d", (1, 4), {"d": 4}),
        ("#n d", (6, 4), {"n": 6, "d": 4}),
        ("2*n", (10,), {"n": 5}),
        ("2*n", (11,), None),
        ("n+1", (1,), {"n": 0}),
        ("n+1", (0,), None),
        ("n*n", (25,), {"n": 5}),
        ("n*n", (24,), None),
        ("h*d h", (12, 3), {"h": 3, "d": 4}),
        ("h*d h", (13, 3), None),
        ("h*d h d", (0, 0, 4), {"h": 0, "d": 4}),
        ("h*d h", (0, 0), {"h": 0}),
        ("h*d h", (2, 0), None),
        ("h*d", (12,), {}),
        ("d//h h", (4, 3), {"d": 12, "h": 3}),
        ("d//h d h", (4, 13, 3), None),
        ("n+m n-m", (12, 2), {"n": 7, "m": 5}),
        ("n+m n-m", (12, 3), None),
        ("a ... d", (2, 7, 8, 9, 5), {"a": 2, "d": 5}),
        ("a ... d", (2, 5), {"a": 2, "d": 5}),
        ("... n", (0,), {"n": 0}),
        ("a *b d", (2, 7, 8, 5), {"a": 2, "*b": 2, "*b[-2]": 7, "*b[-1]": 8, "d": 5}),
        ("*b d", (5,), {"*b": 0, "d": 5}),
        ("*#b d", (1, 8, 5), {"*#b": 2, "*b[-1]": 8, "d": 5}),
        ("()", (), {}),
    ],
)
def test_one_array(spec: str, shape: Shape, sizes: dict[str, int] | None) -> None:
    assert sizes_of([array("x", spec, shape)]) == sizes


@pytest.mark.parametrize(
    ("shapes", "fits"),
    [
        ([("*b n", (2, 3, 5)), ("*b m", (2, 3, 7))], True),
        ([("*b n", (2, 3, 5)), ("*b m", (3, 7))], False),
        ([("*b n", (2, 3, 5)), ("*b m", (2, 4, 7))], False),
        ([("*b n", (2, 3, 5)), ("*b m", (1, 3, 7))], False),
        ([("*b n", (2, 3, 5)), ("*#b m", (3, 7))], True),
        ([("*b n", (2, 3, 5)), ("*#b m", (2, 1, 7))], True),
        ([("*b n", (2, 3, 5)), ("*#b m", (7,))], True),
        ([("*b n", (2, 3, 5)), ("*#b m", (4, 7))], False),
        ([("*b n", (2, 3, 5)), ("*#b m", (1, 2, 3, 7))], False),
        ([("*#b m", (1, 2, 3, 7)), ("*b n", (2, 3, 5))], False),
        ([("*#b n", (4, 1, 5)), ("*#b m", (3, 7))], True),
        ([("*#b n", (4, 2, 5)), ("*#b m", (3, 7))], False),
        ([("*b n", (2, 5)), ("n *b", (5, 2)), ("n *b m", (5, 2, 7))], True),
    ],
)
def test_rests_that_are_the_same_or_broadcast(shapes: list[tuple[str, Shape]], fits: bool) -> None:
    for some in (shapes, shapes[::-1]):
        items: Items = [array(f"x{at}", *each) for at, each in enumerate(some)]
        assert (settle(items, {}) is not None) == fits


def test_a_rest_of_the_arguments_holds_for_the_result() -> None:
    before = settle([array("x", "*b n", (2, 3, 5)), array("y", "*#b n", (3, 5))], {})
    assert before is not None
    assert settle([array("z", "*b m", (2, 3, 7))], before) is not None
    assert settle([array("z", "*b m", (3, 7))], before) is None
    broadcast = settle([array("x", "*#b n", (1, 3, 5)), array("y", "*#b n", (2, 1, 5))], {})
    assert broadcast is not None
    assert shown(broadcast) == {"b": ((2, 3), "x"), "n": (5, "x")}
    assert settle([array("z", "*b m", (2, 3, 7))], broadcast) is not None
    assert settle([array("z", "*b m", (3, 7))], broadcast) is None


def test_counts() -> None:
    x = array("x", "n h*d", (5, 12))
    assert settle([x, count("h", 3)], {}) == {"n": (5, "x"), "h": (3, "h"), "d": (4, "x")}
    assert settle([count("heads", 3, "h"), x], {}) == {
        "h": (3, "heads"),
        "n": (5, "x"),
        "d": (4, "x"),
    }
    assert settle([x, count("h", 5)], {}) is None
    assert settle([x, count("h", -3)], {}) is None
    # No array asks for it: it may be anything.
    assert settle([x, count("k", -3)], {}) == {"n": (5, "x")}
    assert settle([array("x", "#h d", (1, 4)), count("h", 3)], {}) == {"d": (4, "x")}


def test_sizes_from_equations_together_name_all_arrays() -> None:
    items = [array("x", "n+m", (12,)), array("y", "n-m", (2,))]
    found = settle(items, {})
    assert found is not None
    assert found["n"] == (7, "x and y")


def test_an_attribute_is_a_tag_that_is_known() -> None:
    x = array("x", "n {self.d}//2", (5, 6))
    assert settle([x], {"{self.d}": (12, "Model.__init__")}) is not None
    assert settle([x], {"{self.d}": (14, "Model.__init__")}) is None


def test_rests_are_shown_joined() -> None:
    found = settle([array("x", "*batch n", (2, 3, 5)), array("y", "*other", ())], {})
    assert found is not None
    assert shown(found) == {"batch": ((2, 3), "x"), "n": (5, "x"), "other": ((), "y")}
    clash = settle([array("x", "*n n", (2, 3, 5))], {})
    assert clash is not None
    assert shown(clash) == {"*n": ((2, 3), "x"), "n": (5, "x")}


# -- compared with all sizes up to a bound

AXES: dict[str, Callable[[int, int, int], int | None]] = {
    "a": lambda a, b, c: a,
    "b": lambda a, b, c: b,
    "c": lambda a, b, c: c,
    "a*b": lambda a, b, c: a * b,
    "a+c": lambda a, b, c: a + c,
    "2*b": lambda a, b, c: 2 * b,
    "b*c+1": lambda a, b, c: b * c + 1,
    "c*c": lambda a, b, c: c * c,
    "a//b": lambda a, b, c: a // b if b and a % b == 0 else None,
    "3": lambda a, b, c: 3,
}
LARGEST = 12
"""No axis is larger than this, nor is a tag that is in one, except in a product with 0."""

axes = st.lists(st.sampled_from(list(AXES)), min_size=1, max_size=3)


def solutions(arrays: list[tuple[list[str], Shape]], bound: int) -> list[tuple[int, int, int]]:
    return [
        (a, b, c)
        for a, b, c in product(range(bound + 1), repeat=3)
        if all(
            AXES[word](a, b, c) == size
            for words, shape in arrays
            for word, size in zip(words, shape, strict=True)
        )
    ]


@settings(max_examples=150, deadline=None)
@given(st.data(), st.lists(axes, min_size=1, max_size=4))
def test_settling_agrees_with_trying_all_sizes(data: st.DataObject, specs: list[list[str]]) -> None:
    point = data.draw(st.tuples(*[st.integers(0, 4)] * 3))
    arrays: list[tuple[list[str], Shape]] = []
    for words in specs:
        right = [AXES[word](*point) for word in words]
        shape = [data.draw(st.integers(0, 5)) if size is None else size for size in right]
        if data.draw(st.integers(0, 5)) == 0:
            shape[-1] = data.draw(st.integers(0, 8))
        arrays.append((words, tuple(shape)))
    items: Items = [
        array(f"x{at}", " ".join(words), shape) for at, (words, shape) in enumerate(arrays)
    ]
    found = sizes_of(items)
    there = solutions(arrays, 2 * LARGEST)
    if found is None:
        assert not there
        return
    for solution in there:
        values = dict(zip("abc", solution, strict=True))
        assert all(values[tag] == size for tag, size in found.items())
    if len(found) == 3 and max(found.values()) <= 2 * LARGEST:
        assert len(there) == 1
