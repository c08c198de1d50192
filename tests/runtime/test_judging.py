"""Who is blamed, in which words, and which changes are offered."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given as drawn, settings, strategies as st

from symattn.errors import ShapeCheckError, SymattnError, TypeCheckError
from symattn.runtime.declared.hints import Item, Misfit, Shape
from symattn.runtime.judging.culprits import blame
from symattn.runtime.judging.equations import Bound, settle
from symattn.runtime.judging.explanation import explain
from tests.runtime.calls import array, call, count, given, of_shape

ATTENTION = {"Q": "d_k n", "K": "d_k m", "V": "d_v m"}
RIGHT: dict[str, Shape] = {"Q": (4, 5), "K": (4, 7), "V": (3, 7)}
BOUND: dict[str, Bound] = {"d_k": (4, "Q"), "n": (5, "Q"), "m": (7, "K"), "d_v": (3, "V")}
FAILED = "the shapes of its arrays do not fit what is declared"


def error_of(
    items: Sequence[Item],
    known: Mapping[str, Bound] | None = None,
    suspects: Sequence[str] | None = None,
) -> SymattnError:
    names = [item.place.argument for item in items] if suspects is None else suspects
    return explain("attend", items, known or {}, list(dict.fromkeys(names)))


def attend(**shapes: Shape) -> SymattnError:
    """What attention raises with other shapes for some arguments."""
    return error_of(call(ATTENTION, RIGHT | shapes))


# -- the messages


def test_a_transposed_argument() -> None:
    error = attend(K=(7, 4))
    assert isinstance(error, ShapeCheckError)
    assert str(error) == (
        "attend(): K looks transposed: its shape is (7, 4), but d_k m is (4, 7)\n"
        "    Q  d_k n  (4, 5)\n"
        "  > K  d_k m  (7, 4)\n"
        "    V  d_v m  (3, 7)\n"
        "  d_k = 4 (Q), n = 5 (Q), d_v = 3 (V), m = 7 (V)\n"
        "  this fits: K.T"
    )
    assert error.culprits == ("K",)
    assert error.culprit_sets == (("K",),)
    assert error.fixes == ("K.T",)
    assert error.bindings == {"d_k": (4, "Q"), "n": (5, "Q"), "d_v": (3, "V"), "m": (7, "V")}


def test_one_tag_for_another() -> None:
    items = call({**ATTENTION, "mask": "n m"}, {**RIGHT, "V": (3, 5), "mask": (5, 7)})
    assert str(error_of(items)) == (
        "attend(): V's second axis is 5, but m = 7 (K)\n"
        "    Q     d_k n  (4, 5)\n"
        "    K     d_k m  (4, 7)\n"
        "  > V     d_v m  (3, 5)\n"
        "    mask  n m    (5, 7)\n"
        "  d_k = 4 (Q), n = 5 (Q), m = 7 (K)"
    )


def test_two_who_cannot_be_told_apart() -> None:
    error = attend(V=(3, 6))
    assert str(error) == (
        "attend(): K or V is wrong: m = 7 by K, but 6 by V\n"
        "    Q  d_k n  (4, 5)\n"
        "  > K  d_k m  (4, 7)\n"
        "  > V  d_v m  (3, 6)\n"
        "  d_k = 4 (Q), n = 5 (Q)\n"
        "  either could be wrong: the sizes cannot tell"
    )
    assert isinstance(error, ShapeCheckError)
    assert error.culprit_sets == (("K",), ("V",))


def test_two_of_whom_each_may_be_transposed() -> None:
    error = error_of(call({"Q": "d_k n", "K": "d_k m"}, {"Q": (4, 5), "K": (5, 4)}))
    assert str(error) == (
        "attend(): Q or K is wrong: d_k = 4 by Q, but 5 by K\n"
        "  > Q  d_k n  (4, 5)\n"
        "  > K  d_k m  (5, 4)\n"
        "  either could be wrong: the sizes cannot tell\n"
        "  each of these fits: Q.T; K.T"
    )


@pytest.mark.parametrize(
    ("shape", "message", "fix"),
    [
        (
            (1, 4, 7),
            "K has an axis too many: its shape is (1, 4, 7), but d_k m has 2 axes",
            "K.squeeze(0)",
        ),
        ((4,), "K lacks an axis: its shape is (4,), but d_k m has 2 axes", ""),
        ((), "K lacks 2 axes: its shape is (), but d_k m has 2 axes", ""),
        (
            (2, 3, 4, 7),
            "K has 2 axes too many: its shape is (2, 3, 4, 7), but d_k m has 2 axes",
            "",
        ),
    ],
)
def test_a_wrong_number_of_axes(shape: Shape, message: str, fix: str) -> None:
    assert str(attend(K=shape)) == (
        f"attend(): {message}\n"
        "    Q  d_k n  (4, 5)\n"
        f"  > K  d_k m  {shape}\n"
        "    V  d_v m  (3, 7)\n"
        "  d_k = 4 (Q), n = 5 (Q), d_v = 3 (V), m = 7 (V)"
        + (f"\n  this fits: {fix}" if fix else "")
    )


def test_a_missing_axis_of_size_1() -> None:
    error = error_of(call({"x": "b n d", "w": "d"}, {"x": (5, 4), "w": (4,)}))
    assert isinstance(error, ShapeCheckError)
    assert error.problem == "x lacks an axis: its shape is (5, 4), but b n d has 3 axes"
    # It might stand before or after n: nobody can tell.
    assert error.fixes == ()
    error = error_of(call({"x": "b n d", "w": "n d"}, {"x": (5, 4), "w": (5, 4)}))
    assert isinstance(error, ShapeCheckError)
    assert error.fixes == ("x[None]",)
    error = error_of(call({"x": "b ... n d", "w": "n d"}, {"x": (4,), "w": (5, 4)}))
    assert isinstance(error, ShapeCheckError)
    assert error.problem == "x lacks 2 axes: its shape is (4,), but b ... n d has at least 3 axes"


def test_a_wrong_dtype() -> None:
    items = [
        given("Q", "d_k n", of_shape((4, 5))),
        given("K", "d_k m", np.ones((4, 7), "int64"), "float32"),
    ]
    assert str(error_of(items)) == (
        "attend(): K is an array of dtype int64, but is declared as an array of dtype float32\n"
        '  this fits: K.astype("float32")'
    )
    items[1] = given("K", "d_k m", np.ones((3, 7), "int64"), "float32")
    error = error_of(items)
    assert isinstance(error, TypeCheckError)
    assert error.fixes == ()  # the shape is wrong as well


def test_a_list_is_no_array() -> None:
    items = [given("Q", "d_k n", of_shape((2, 5))), given("K", "d_k m", [[1, 2, 3], [4, 5, 6.5]])]
    assert str(error_of(items)) == (
        'attend(): K is a list, but is declared as an array "d_k m"\n  this fits: np.asarray(K)'
    )
    for wrong in ([[1, 2], [3]], [], ["a", "b"], [[[1]]], [1, [2]], [1] * 100_000, [[1, 2]] * 3):
        items[1] = given("K", "d_k m", wrong)
        assert "fits" not in str(error_of(items))
    items[1] = given("K", "d_k m", [[1, 2, 3], [4, 5, 6]], "float64")
    assert "fits" not in str(error_of(items))  # it would be an array of integers


def test_a_remainder() -> None:
    items = [array("x", "n h*d_k", (5, 13)), array("W", "h d", (3, 8)), array("y", "h n", (3, 5))]
    assert str(error_of(items)) == (
        "attend(): x has 13 columns where h*d_k is declared: 13 divided by h = 3 (W) leaves 1\n"
        "  > x  n h*d_k  (5, 13)\n"
        "    W  h d      (3, 8)\n"
        "    y  h n      (3, 5)\n"
        "  h = 3 (W), d = 8 (W), n = 5 (y)"
    )


@pytest.mark.parametrize(
    ("spec", "shape", "message"),
    [
        ("2*n h", (5, 3), "x has 5 rows where 2*n is declared: 5 divided by 2 leaves 1"),
        (
            "2*h*n m",
            (13, 7),
            "x has 13 rows where 2*h*n is declared: 13 divided by 2*h = 6 leaves 1, with h = 3 (W)",
        ),
        (
            "a h*n ...",
            (2, 13, 5),
            "x's second axis is 13 where h*n is declared: 13 divided by h = 3 (W) leaves 1",
        ),
        (
            "... h*n+1 ",
            (2, 6),
            "x's last axis is 6 where h*n+1 is declared: 5 divided by 3 leaves 2, with h = 3 (W)",
        ),
        (
            "m, #width=n*h",
            (7, 13),
            "x has 13 columns where n*h is declared: 13 divided by h = 3 (W) leaves 1",
        ),
        ("n+1 h", (0, 3), "x has 0 rows where n+1 is declared: no size fits"),
        ("n*n m", (24, 7), "x has 24 rows where n*n is declared: no size fits"),
        ("h*n n", (12, 5), "x has 12 rows, but h*n = 15, with h = 3 (W), n = 5 (x)"),
        (
            "k//h k",
            (4, 13),
            "x has 4 rows where k//h is declared, "
            "which is no whole number with k = 13 (x), h = 3 (W)",
        ),
    ],
)
def test_sizes_that_are_expressions(spec: str, shape: Shape, message: str) -> None:
    items = [array("x", spec, shape), array("W", "h d", (3, 8)), array("V", "h d", (3, 8))]
    error = error_of(items)
    assert isinstance(error, ShapeCheckError)
    assert error.culprits == ("x",)
    assert error.problem == message


def test_a_wrong_literal() -> None:
    items = call({"x": "n 3", "y": "n m"}, {"x": (5, 4), "y": (5, 7)})
    assert str(error_of(items)) == (
        "attend(): x has 4 columns, but 3 is declared\n"
        "  > x  n 3  (5, 4)\n"
        "    y  n m  (5, 7)\n"
        "  n = 5 (y), m = 7 (y)"
    )


def test_two_arguments_swapped() -> None:
    error = attend(K=(3, 7), V=(4, 7))
    assert str(error) == (
        "attend(): K and V look swapped: d_k m is (4, 7) and d_v m is (3, 7)\n"
        "    Q  d_k n  (4, 5)\n"
        "  > K  d_k m  (3, 7)\n"
        "  > V  d_v m  (4, 7)\n"
        "  d_k = 4 (Q), n = 5 (Q)\n"
        "  this fits: K and V the other way round"
    )
    assert isinstance(error, ShapeCheckError)
    # By the fewest, it is Q or K; a swap has V in it too.
    assert error.culprits == ("Q", "K", "V")


def test_arguments_of_two_dtypes_swapped() -> None:
    items = [
        given("x", "n d", np.ones((5, 7), "bool"), "float64"),
        given("mask", "n m", np.ones((5, 4)), "bool"),
    ]
    error = error_of(items)
    assert isinstance(error, ShapeCheckError)
    assert error.problem == "x and mask look swapped: n d is (5, 4) and n m is (5, 7)"


def test_all_arguments_transposed() -> None:
    error = attend(Q=(5, 4), K=(7, 4), V=(7, 3))
    assert isinstance(error, ShapeCheckError)
    assert error.problem == (
        "Q, K and V look transposed: d_k n is (4, 5), d_k m is (4, 7) and d_v m is (3, 7)"
    )
    assert error.fixes == ("Q.T, K.T, V.T",)


def test_other_orders_of_axes() -> None:
    specs = {"q": "b h n d", "k": "b h m d", "v": "b h m d"}
    right = {"q": (2, 3, 5, 4), "k": (2, 3, 7, 4), "v": (2, 3, 7, 4)}
    error = error_of(call(specs, right | {"k": (2, 7, 3, 4)}))
    assert isinstance(error, ShapeCheckError)
    assert error.problem == (
        "k has its axes in another order: its shape is (2, 7, 3, 4), but b h m d is (2, 3, 7, 4)"
    )
    assert error.fixes == ("k.swapaxes(1, 2)",)
    error = error_of(call(specs, right | {"k": (3, 7, 2, 4)}))
    assert isinstance(error, ShapeCheckError)
    assert error.fixes == ("k.transpose(2, 0, 1, 3)",)
    error = error_of(call(specs, right | {"k": (2, 3, 4, 7)}))
    assert isinstance(error, ShapeCheckError)
    assert error.fixes == ("k.swapaxes(-1, -2)",)


@pytest.mark.parametrize(
    ("shape", "fix"), [((5, 3), "\n  this fits: return ….T"), ((3, 7), ""), ((5, 7), "")]
)
def test_a_wrong_result(shape: Shape, fix: str) -> None:
    error = error_of([array("the result", "d_v n", shape)], BOUND)
    assert str(error) == (
        f"attend(): the result has shape {shape}, but d_v n is (3, 5)\n"
        f"  > the result  d_v n  {shape}\n"
        "  n = 5 (Q), d_v = 3 (V)" + fix
    )
    assert isinstance(error, ShapeCheckError)
    assert error.culprits == ("the result",)


def test_what_is_given_back_in_other_ways() -> None:
    error = error_of([array("the result[1]", "d_v n", (5, 3))], BOUND)
    assert isinstance(error, ShapeCheckError)
    assert str(error) == (
        "attend(): result[1] has shape (5, 3), but d_v n is (3, 5)\n"
        "  > result[1]  d_v n  (5, 3)\n"
        "  n = 5 (Q), d_v = 3 (V)\n"
        "  this fits: result[1].T"
    )
    error = error_of([array("the result.w", "... d_v n", (2, 5, 3))], BOUND)
    assert isinstance(error, ShapeCheckError)
    assert error.fixes == ("result.w.swapaxes(-1, -2)",)
    error = error_of([array("the value yielded[0]", "d_v n", (5, 3))], BOUND)
    assert isinstance(error, ShapeCheckError)
    assert error.problem.startswith("yielded[0] has shape (5, 3)")
    error = error_of([array("the value yielded", "d_v n", (5, 3))], BOUND)
    assert isinstance(error, ShapeCheckError)
    assert error.fixes == ("yield ….T",)
    error = error_of([given("the result", "d_v n", np.ones((3, 5), "int8"), "float32")], BOUND)
    assert isinstance(error, TypeCheckError)
    assert error.fixes == ('return ….astype("float32")',)


def test_an_integer_that_does_not_fit() -> None:
    items = [
        array("x", "n h*d_k", (5, 12)),
        array("W", "h d_k", (3, 4)),
        array("b", "h", (3,)),
        count("h", 4),
    ]
    assert str(error_of(items)) == (
        "attend(): h = 4, but 3 by W\n"
        "    x  n h*d_k     (5, 12)\n"
        "    W  h d_k       (3, 4)\n"
        "    b  h           (3,)\n"
        "  > h  an integer  4\n"
        "  n = 5 (x), h = 3 (W), d_k = 4 (W)\n"
        "  this fits: h = 3"
    )


def test_an_integer_or_an_array() -> None:
    items = [array("x", "n h*d_k", (5, 13)), count("h", 3)]
    assert str(error_of(items)) == (
        "attend(): x or h is wrong: "
        "x has 13 columns where h*d_k is declared: 13 divided by h = 3 leaves 1\n"
        "  > x  n h*d_k     (5, 13)\n"
        "  > h  an integer  3\n"
        "  either could be wrong: the sizes cannot tell"
    )


def test_an_integer_that_contradicts_what_is_known() -> None:
    items = [array("x", "n h*d_k", (5, 12)), count("h", 4)]
    error = error_of(items, {"h": (3, "W of Layer()")})
    assert isinstance(error, ShapeCheckError)
    assert error.culprits == ("h",)
    assert error.problem == "h = 4, but 3 by W of Layer()"
    assert error.fixes == ("h = 3",)


def test_a_contradiction_within_one_array() -> None:
    error = error_of(call({"W": "d d", "x": "n m"}, {"W": (4, 5), "x": (7, 4)}))
    assert isinstance(error, ShapeCheckError)
    assert error.culprits == ("W",)
    assert error.problem == "W's second axis is 5, but d = 4 (its first axis)"


def test_axes_that_are_batches() -> None:
    specs = {"q": "*batch n d", "k": "*batch m d", "v": "*batch m e"}
    right = {"q": (2, 3, 5, 4), "k": (2, 3, 7, 4), "v": (2, 3, 7, 6)}
    error = error_of(call(specs, right | {"k": (2, 1, 7, 4)}))
    assert isinstance(error, ShapeCheckError)
    assert error.problem == "k's axes *batch are (2, 1), but batch = (2, 3) (q)"
    assert error.bindings["batch"] == ((2, 3), "q")
    error = error_of(call(specs, right | {"k": (2, 3, 7, 8)}))
    assert isinstance(error, ShapeCheckError)
    assert error.problem == "q or k is wrong: d = 4 by q, but 8 by k"
    loose = {"q": "*batch n d", "k": "*#batch m d", "v": "*batch m e"}
    error = error_of(call(loose, right | {"k": (4, 2, 3, 7, 4)}))
    assert isinstance(error, ShapeCheckError)
    assert error.problem == "k's axes (4, 2, 3) do not broadcast with batch = (2, 3) (q)"
    error = error_of(call({"x": "a ... d c"}, {"x": (3, 8, 5, 7)}), {"d": (4, "W")})
    assert isinstance(error, ShapeCheckError)
    assert error.problem == "x's last but one axis is 5, but d = 4 (W)"


def test_the_element_of_a_list_is_named() -> None:
    layers = [array(f"layers[{at}].W", "d d", (4, 4)) for at in range(30)]
    layers[17] = array("layers[17].W", "d d", (4, 5))
    error = error_of([*layers, array("x", "n d", (7, 4))])
    assert str(error) == (
        "attend(): layers[17].W's second axis is 5, but d = 4 (layers[0].W)\n"
        "    layers[0].W   d d  (4, 4)\n"
        "  > layers[17].W  d d  (4, 5)\n"
        "    x             n d  (7, 4)\n"
        "    …                  and 28 more\n"
        "  d = 4 (layers[0].W), n = 7 (x)"
    )
    assert isinstance(error, ShapeCheckError)
    assert error.culprits == ("layers",)
    # The first one is to blame if all others agree.
    error = error_of(
        [array("x[0]", "a b", (7, 5)), *(array(f"x[{i}]", "a b", (5, 7)) for i in (1, 2))]
    )
    assert isinstance(error, ShapeCheckError)
    assert error.fixes == ("x[0].T",)


def test_everything_that_is_wrong_is_said() -> None:
    items = [
        *call(
            {"Q": "d_k n", "K": "d_k m", "W": "3 3"}, {"Q": (4, 5), "K": (4, 7, 1, 1), "W": (3, 4)}
        ),
        given("V", "d_v m", 2.5),
    ]
    assert str(error_of(items)) == (
        'attend(): V is a Python float, but is declared as an array "d_v m"\n'
        "  K has 2 axes too many: its shape is (4, 7, 1, 1), but d_k m has 2 axes\n"
        "  W has 4 columns, but 3 is declared"
    )


def test_several_changes_that_belong_together() -> None:
    specs = {**ATTENTION, "x": "d_k", "y": "m", "W": "d_k m"}
    error = error_of(
        call(specs, {**RIGHT, "K": (7, 4), "V": (7, 3), "x": (4,), "y": (7,), "W": (4, 7)})
    )
    assert isinstance(error, ShapeCheckError)
    assert error.problem == "K and V look transposed: d_k m is (4, 7) and d_v m is (3, 7)"
    assert error.fixes == ("K.T, V.T",)
    # Each of two would fit without the other.
    error = error_of(call({"K": "d m", "V": "e m"}, {"K": (1, 4, 7), "V": (1, 3, 8)}))
    assert isinstance(error, ShapeCheckError)
    assert error.culprits == ("K", "V")
    assert error.fixes == ()


@pytest.mark.parametrize(
    "error",
    [
        attend(K=(7, 4)),
        attend(V=(3, 6)),
        error_of([given("K", "d_k m", [[1.0]], "int64")]),
        error_of([array("the result", "d_v n", (5, 3))], BOUND),
    ],
)
def test_errors_survive_copying_with_their_facts(error: SymattnError) -> None:
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert twin.__dict__ == error.__dict__


def test_no_values_are_shown() -> None:
    secret = np.full((3, 2), 271828.0)
    items = [
        given("x", "n d", secret, "int8"),
        given("y", "n d", secret),
        given("z", "d n", secret),
    ]
    for some in (items, items[1:]):
        assert "271828" not in str(error_of(some)) + repr(vars(error_of(some)))


# -- whatever it is given

ODD_CALLS: dict[str, list[Item]] = {
    "nothing": [],
    "fits": call(ATTENTION, RIGHT),
    "many arguments": [array(f"x{i}", "a b", (4 + i % 3, 5 + i % 2)) for i in range(60)],
    "many axes": [array("x", "... n", (2,) * 30), array("y", "*b n", (3,) * 31)],
    "many permutations": [array("x", "a a b b c c", (2, 3, 4, 2, 3, 4))],
    "no sizes": [array("x", "a a", (0, 1)), array("y", "a*b b", (3, 0)), array("z", "()", ())],
    "odd names": [array("x\n\x1b[0m" + "y" * 300, "n n", (3, 4)), array("", "m m", (3, 4))],
    "products": [
        array(f"x{i}", f"a*b b*c {'abc'[i % 3]}*{'bca'[i % 3]}+1", (6 + i, 12, 7)) for i in range(8)
    ],
    "large sizes": [array("x", "n*n*n n", (10**6, 10**9)), array("y", "n*m m", (10**9, 10))],
}


@pytest.mark.parametrize("items", ODD_CALLS.values(), ids=ODD_CALLS)
def test_something_is_said_of_every_call(items: list[Item]) -> None:
    for suspects in (None, [], ["another"], [item.place.argument for item in items[:1]]):
        error = error_of(items, {"{self.n}": (3, "self.n")}, suspects)
        assert isinstance(error, ShapeCheckError)
        assert all(len(line) < 300 and line.isprintable() for line in str(error).split("\n"))
        assert (FAILED in str(error)) == (items == [] or items == ODD_CALLS["fits"])


def test_a_fault_of_the_explanation_is_not_raised() -> None:
    items: Any = [None, array("x", "n n", (3, 4))]
    assert str(explain("f", items, {}, ["x"])).startswith(f"f(): {FAILED}\n    x  n n  (3, 4)")


# -- compared with an oracle that binds plain tags, one after the other

Arrays = dict[str, tuple[str, Shape]]


def is_consistent(arrays: Iterable[tuple[str, Shape]]) -> bool:
    sizes: dict[str, int] = {}
    return all(
        len(spec.split()) == len(shape)
        and all(
            sizes.setdefault(tag, size) == size
            for tag, size in zip(spec.split(), shape, strict=True)
        )
        for spec, shape in arrays
    )


def smallest_sets(arrays: Arrays) -> set[frozenset[str]]:
    for size in range(len(arrays) + 1):
        found = {
            frozenset(names)
            for names in combinations(arrays, size)
            if is_consistent(arrays[name] for name in arrays if name not in names)
        }
        if found:
            return found
    raise AssertionError


@st.composite
def calls_with_one_corrupted(draw: st.DrawFn) -> tuple[Arrays, str]:
    """Arrays of four plain tags with a known solution, and the name of the one that was changed."""
    sizes = dict(zip("abcd", draw(st.permutations([2, 3, 4, 5])), strict=True))
    specs = draw(
        st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=3), min_size=2, max_size=5)
    )
    arrays: Arrays = {
        f"x{at}": (" ".join(tags), tuple(sizes[tag] for tag in tags))
        for at, tags in enumerate(specs)
    }
    name = draw(st.sampled_from(sorted(arrays)))
    spec, shape = arrays[name]
    axis = draw(st.integers(0, len(shape) - 1))
    wrong = draw(
        st.sampled_from(
            [
                (*shape[:axis], draw(st.integers(1, 6)), *shape[axis + 1 :]),
                shape[::-1],
                tuple(draw(st.permutations(shape))),
                (*shape[:axis], *shape[axis + 1 :]),
                (*shape[:axis], draw(st.sampled_from([1, 6])), *shape[axis:]),
            ]
        )
    )
    arrays[name] = (spec, wrong)
    assume(not is_consistent(arrays.values()))
    return arrays, name


def met(arrays: Arrays) -> list[Item]:
    return [given(name, spec, of_shape(shape)) for name, (spec, shape) in arrays.items()]


@settings(max_examples=300, deadline=None)
@drawn(calls_with_one_corrupted())
def test_the_smallest_sets_are_those_of_trying_all(corrupted: tuple[Arrays, str]) -> None:
    arrays, name = corrupted
    error = error_of(met(arrays))
    assert isinstance(error, ShapeCheckError)
    assert FAILED not in str(error)
    sets = {frozenset(names) for names in error.culprit_sets}
    assert sets == smallest_sets(arrays)
    assert frozenset({name}) in sets
    assert name in error.culprits
    if len(sets) == 1 and not error.marked[1:]:
        assert error.culprits == error.marked == (name,)


@settings(max_examples=300, deadline=None)
@drawn(calls_with_one_corrupted())
def test_every_change_that_is_offered_makes_the_call_fit(corrupted: tuple[Arrays, str]) -> None:
    arrays, _ = corrupted
    error = error_of(met(arrays))
    assert isinstance(error, ShapeCheckError)
    for fix in error.fixes:
        assert is_consistent(after(fix, arrays))


@settings(max_examples=200, deadline=None)
@drawn(st.data())
def test_a_lone_transposition_is_found(data: st.DataObject) -> None:
    n, m, d, e = data.draw(st.permutations([2, 3, 4, 5]))
    right: Arrays = {
        "Q": ("d n", (d, n)),
        "K": ("d m", (d, m)),
        "V": ("e m", (e, m)),
        "b": ("e n", (e, n)),
    }
    name = data.draw(st.sampled_from(sorted(right)))
    spec, shape = right[name]
    error = error_of(met({**right, name: (spec, shape[::-1])}))
    assert isinstance(error, ShapeCheckError)
    assert error.problem.startswith(f"{name} looks transposed")
    assert error.fixes == (f"{name}.T",)


def after(fix: str, arrays: Arrays) -> Collection[tuple[str, Shape]]:
    """The specs and shapes after a change that is offered was made, by NumPy."""
    values: dict[str, Any] = {name: np.zeros(shape) for name, (_, shape) in arrays.items()}
    if swap := re.fullmatch(r"(\w+) and (\w+) the other way round", fix):
        one, other = swap.groups()
        values[one], values[other] = values[other], values[one]
    else:
        for change in re.split(r", (?=x)", fix):
            name = re.match(r"\w+", change)
            assert name is not None
            values[name[0]] = eval(change, {}, dict(values))
    return [(spec, values[name].shape) for name, (spec, _) in arrays.items()]


# -- sizes that are expressions: the corrupted array is blamed, and what is offered settles

WORDS = ["a", "b", "c", "a*b", "2*c", "a+c", "b*c+1", "3"]


@settings(max_examples=200, deadline=None)
@drawn(st.data())
def test_corrupted_expressions(data: st.DataObject) -> None:
    sizes: dict[str, Any] = dict(zip("abc", data.draw(st.permutations([2, 4, 5])), strict=True))
    specs = data.draw(
        st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3), min_size=2, max_size=5)
    )
    shapes: list[list[int]] = [[eval(word, {}, sizes) for word in words] for words in specs]
    at = data.draw(st.integers(0, len(specs) - 1))
    axis = data.draw(st.integers(0, len(shapes[at]) - 1))
    shapes[at][axis] += data.draw(st.sampled_from([-1, 1, 2, 7]))
    counted = data.draw(st.booleans())
    items: list[Item] = [
        array(f"x{i}", " ".join(words), tuple(shape))
        for i, (words, shape) in enumerate(zip(specs, shapes, strict=True))
    ]
    if counted:
        items.append(count("a", sizes["a"]))
    sound = [item for item in items if not isinstance(item, Misfit)]
    assume(settle(sound, {}) is None)
    error = error_of(items)
    assert isinstance(error, ShapeCheckError)
    assert FAILED not in str(error)
    assert (f"x{at}",) in error.culprit_sets
    for names in error.culprit_sets:
        assert len(names) == 1
        kept = [item for item in sound if item.place.argument not in names]
        assert settle(kept, {}) is not None


# -- the search for sets


@settings(max_examples=200, deadline=None)
@drawn(
    st.dictionaries(
        st.sampled_from("uvwxyz"),
        st.tuples(
            st.sampled_from(["a b", "b c", "c a", "a a"]), st.tuples(*[st.integers(1, 3)] * 2)
        ),
        min_size=1,
    )
)
def test_all_smallest_sets_are_found(arrays: Arrays) -> None:
    found = blame(met(arrays), {}, list(arrays))
    assert found.complete
    assert {frozenset(names) for names in found.whole_sets} == smallest_sets(arrays)


def test_those_who_are_not_suspected_are_trusted() -> None:
    items = call(ATTENTION, RIGHT | {"V": (3, 6)})
    assert blame(items, {}, ["V"]).whole_sets == (("V",),)
    assert blame(items, {}, ["Q", "K"]).whole_sets == (("K",),)
    # Those who are trusted contradict each other: nobody can be.
    assert blame(items, {}, ["Q"]).whole_sets == (("K",), ("V",))


def test_a_search_that_is_cut_short_says_so() -> None:
    items = [array(f"x{i}", "a b", (i % 7, i % 5)) for i in range(80)]
    assert not blame(items, {}, [f"x{i}" for i in range(80)]).complete
    error = error_of(items)
    assert str(error).endswith("others may be wrong: not all combinations were tried")
    assert isinstance(error, ShapeCheckError)
    assert error.problem == "x1's first axis is 1, but a = 0 (x0)"


def test_an_order_of_axes_is_offered_if_no_other_fits() -> None:
    x = array("x", "a b c", (2, 3, 4))
    for others, fixes in (("a b", ("x.swapaxes(0, 2)",)), ("a d", ())):
        error = error_of([x, array("y", others, (4, 3))], suspects=["x"])
        assert isinstance(error, ShapeCheckError)
        assert error.fixes == fixes
