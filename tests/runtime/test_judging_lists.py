"""Who is blamed among many, in how many words, and at what cost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import combinations

import pytest
from hypothesis import assume, given as drawn, settings, strategies as st

from symattn.errors import ShapeCheckError, SymattnError, TypeCheckError
from symattn.runtime.declared.hints import ArrayHint, Either, Item, Place, Shape
from symattn.runtime.judging.alike import MOST_LISTED, condensed
from symattn.runtime.judging.culprits import Blame, blame, by_place
from symattn.runtime.judging.equations import settle
from symattn.runtime.judging.explanation import explain
from symattn.tags.spec import parse_shape
from tests.runtime.calls import array, call, given, of_shape


def in_list(name: str, spec: str, values: Sequence[object]) -> list[Item]:
    """What is met in a list: all of one hint."""
    hint = ArrayHint(parse_shape(spec))
    places = [Place(name, f"{name}[{at}]") for at in range(len(values))]
    return [
        item
        for place, value in zip(places, values, strict=True)
        for item in next(hint.met(value, place))
        if not isinstance(item, Either)
    ]


def of_shapes(*runs: tuple[int, Shape]) -> list[object]:
    return [of_shape(shape) for count, shape in runs for _ in range(count)]


def error_of(items: Sequence[Item]) -> SymattnError:
    return explain("f", items, {}, list(dict.fromkeys(item.place.argument for item in items)))


def test_those_who_are_wrong_alike_are_said_once() -> None:
    items = in_list("x", "n d", of_shapes((30, (5, 3)), (10, (5, 4))))
    assert str(error_of([*items, array("y", "d", (3,))])) == (
        "f(): x[30]'s second axis is 4, but d = 3 (x[0])\n"
        "  9 more in x are like x[30]\n"
        "    x[0]   n d  (5, 3)\n"
        "  > x[30]  n d  (5, 4)\n"
        "    …           and 39 more\n"
        "  n = 5 (x[0]), d = 3 (x[0])"
    )
    error = error_of(in_list("x", "n d", [2.5] * 30))
    assert str(error) == (
        'f(): x[0] is a Python float, but is declared as an array "n d"\n'
        "  29 more in x are like x[0]"
    )
    assert isinstance(error, TypeCheckError)


def test_the_fewest_are_to_blame_of_those_who_are_alike() -> None:
    few, many = (MOST_LISTED + 1, (5, 4)), (MOST_LISTED + 2, (5, 3))
    error = error_of(in_list("x", "n d", of_shapes(few, many)))
    assert isinstance(error, ShapeCheckError)
    assert error.marked == ("x[0]",)
    error = error_of(in_list("x", "n d", of_shapes(many, few)))
    assert error.marked == (f"x[{many[0]}]",)  # pyright: ignore[reportAttributeAccessIssue]
    error = error_of(in_list("x", "n d", of_shapes((7, (5, 4)), (7, (5, 3)))))
    assert isinstance(error, ShapeCheckError)
    assert error.problem == (
        "x[0] (and 6 like it) or x[7] (and 6 like it) is wrong: d = 4 by x[0], but 3 by x[7]"
    )
    # One that stands for seven, or seven of which each is another.
    others = [array(f"x[{at}]", f"d e{at}", (3, 5 + at)) for at in range(7, 14)]
    error = error_of([*in_list("x", "n d", of_shapes((7, (5, 4)))), *others])
    assert isinstance(error, ShapeCheckError)
    assert error.problem == (
        "x[0] (and 6 like it), or x[7], x[8], x[9], x[10] and others are wrong: "
        "d = 4 by x[0], but 3 by x[13]"
    )
    assert error.note == "the sizes cannot tell which"


def test_no_change_is_offered_for_one_of_many() -> None:
    items = [*in_list("x", "n d", of_shapes((20, (3, 5)))), array("y", "n m", (5, 7))]
    error = error_of([*items, array("z", "d m", (3, 7))])
    assert isinstance(error, ShapeCheckError)
    assert error.problem.startswith("x[0] has shape (3, 5), but n d is (5, 3)")
    assert error.fixes == ()


def test_what_is_said_of_many_has_an_end() -> None:
    wrong = [of_shape((5, size)) for size in range(10, 110)]
    error = error_of(in_list("x", "n d", [*of_shapes((300, (5, 3))), *wrong]))
    assert isinstance(error, ShapeCheckError)
    assert [error.problem, *error.also] == [
        *(f"x[{300 + at}]'s second axis is {10 + at}, but d = 3 (x[0])" for at in range(6)),
        "94 more are wrong",
    ]
    assert error.rows[-1] == ("…", "", "and 388 more")


def test_a_search_that_is_cut_short_says_so() -> None:
    items = in_list("x", "n d", [of_shape((size, 3)) for size in range(1, 3000)])
    error = error_of([*items, array("y", "d", (3,))])
    assert str(error) == (
        "f(): x[1]'s first axis is 2, but n = 1 (x[0])\n"
        "    x[0]  n d  (1, 3)\n"
        "  > x[1]  n d  (2, 3)\n"
        "    …          and 2998 more\n"
        "  others may be wrong: not all combinations were tried"
    )
    assert isinstance(error, ShapeCheckError)
    assert error.culprits == ("x",)


def test_which_of_several_the_sizes_cannot_tell() -> None:
    specs = {"a": "n", "b": "n", "c": "n", "d": "n"}
    error = error_of(call(specs, {"a": (2,), "b": (2,), "c": (3,), "d": (3,)}))
    assert isinstance(error, ShapeCheckError)
    assert error.problem == "2 of a, b, c and d are wrong: n = 2 by a, but 3 by d"
    assert error.note == "the sizes cannot tell which"


def shapes(many: int, shape: Callable[[int], Shape]) -> list[object]:
    return [of_shape(shape(i)) for i in range(many)]


LONG: dict[str, Callable[[int], list[Item]]] = {
    "one is wrong": lambda many: in_list("x", "n d", of_shapes((many - 1, (5, 3)), (1, (5, 4)))),
    "half are wrong": lambda many: in_list(
        "x", "n d", of_shapes((many // 2, (5, 3)), (many, (5, 4)))
    ),
    "all are wrong": lambda many: [
        *in_list("x", "n d", of_shapes((many, (5, 3)))),
        array("y", "n k", (7, 2)),
    ],
    "no arrays": lambda many: in_list("x", "n d", ["text"] * many),
    "other numbers of axes": lambda many: in_list(
        "x", "n d", [of_shape((i,)) for i in range(many)]
    ),
    "all differ": lambda many: in_list("x", "n d", shapes(many, lambda i: (i, 3))),
    "all differ where nothing is asked": lambda many: [
        *in_list("x", "_ d", shapes(many, lambda i: (i, 3))),
        array("y", "d", (4,)),
    ],
    "products": lambda many: [
        *in_list("x", "h*d_k n", of_shapes((many, (13, 3)))),
        array("W", "h d_k", (3, 4)),
    ],
    "products that differ": lambda many: [
        *in_list("x", "h*d_k n", shapes(many, lambda i: (i + 1, 3))),
        array("W", "h d_k", (3, 4)),
    ],
}


def calls_of(work: Callable[[], object]) -> int:
    """How many calls of Python functions it takes: what a clock says depends on the machine."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("items", LONG.values(), ids=LONG)
def test_the_cost_of_a_long_list_grows_no_faster_than_the_list(
    items: Callable[[int], list[Item]],
) -> None:
    few, many = items(500), items(4000)
    error = error_of(many)
    assert len(str(error).split("\n")) < 12
    assert "the shapes of its arrays do not fit" not in str(error)
    # A quadratic would take 64 times as many.
    assert calls_of(lambda: error_of(many)) < 12 * calls_of(lambda: error_of(few))


# -- compared with trying all


@settings(max_examples=200, deadline=None)
@drawn(st.data())
def test_what_stands_for_many_is_judged_as_many(data: st.DataObject) -> None:
    sizes = st.sampled_from([2, 3])
    spec = data.draw(st.sampled_from(["n d", "_ d", "#n d", "... d", "n*d d", "*b d"]))
    runs = data.draw(
        st.lists(st.tuples(st.sampled_from([1, 2, 6]), st.tuples(sizes, sizes)), max_size=3)
    )
    items = in_list("x", spec, of_shapes(*runs))
    items.append(array("y", "d", (data.draw(sizes),)))
    items.append(array("z", "n d", (data.draw(sizes), data.draw(sizes))))
    assume(settle(items, {}) is None)  # pyright: ignore[reportArgumentType]
    kept, weights = condensed(items)
    places = list(dict.fromkeys(map(by_place, items)))
    found = blame(kept, {}, list(map(by_place, kept)), by_place, weights)
    assert found.complete
    assert lightest(found, items, {p: weights[p] for p in places}) == fewest(items, places)


def lightest(found: Blame, items: Sequence[Item], weights: dict[str, int]) -> int:
    """How many places one of the sets is, which all stand for as many."""
    (weight,) = {sum(weights[place] for place in places) for places in found.whole_sets}
    return weight


def fewest(items: Sequence[Item], places: Sequence[str]) -> int:
    """The size of the smallest set of places without which the others fit, by trying all."""
    for size in range(len(places) + 1):
        for left_out in combinations(places, size):
            kept = [item for item in items if by_place(item) not in left_out]
            if settle(kept, {}) is not None:  # pyright: ignore[reportArgumentType]
                return size
    raise AssertionError


def test_what_shares_a_place_stays_together() -> None:
    item = given("an element of x", "n d", of_shape((5, 3)))
    other = given("an element of x", "n d", of_shape((5, 4)))
    kept, weights = condensed([item, item, other] * 5)
    assert kept == (item, other)
    assert weights["an element of x"] == 1
