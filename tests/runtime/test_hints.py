"""Which arrays a value holds, and what is said of a value of another kind."""

import collections
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symattn
from symattn.errors import NotSupportedError
from symattn.runtime.declared.containers import EachHint, Field, MappingHint, RecordHint, TupleHint
from symattn.runtime.declared.hints import (
    ANYTHING,
    UNKNOWN,
    ArrayHint,
    Count,
    Either,
    Hint,
    Met,
    Misfit,
    Place,
    PlainHint,
    Reading,
    UnionHint,
    everything_in,
    shape_of,
)
from symattn.runtime.declared.kinds import kind_of_names
from symattn.tags.spec import parse_shape

K = Place.of("K")
NONE = PlainHint(None, "None", (type(None),))
INT = PlainHint(int, "an int", (int,))


def array(text: str, *classes: type, kind: Any = None) -> ArrayHint:
    return ArrayHint(parse_shape(text), classes, kind)


def only(hint: Hint, value: Any) -> Reading:
    (reading,) = hint.met(value, K)
    return reading


def found(reading: Reading) -> list[tuple[str, Any]]:
    """Each item as its place with a shape, a size, or the kind of a misfit."""
    values = {Met: "shape", Count: "value", Misfit: "kind"}
    items = [item for item in reading if not isinstance(item, Either)]
    assert len(items) == len(reading)
    return [(item.place.text, getattr(item, values[type(item)])) for item in items]


def misfit(hint: Hint, value: Any) -> tuple[str, str, str]:
    (item,) = only(hint, value)
    assert isinstance(item, Misfit)
    return item.kind, item.got, item.wanted


class Strange:
    """An array of a library that nobody has heard of."""

    def __init__(self, *shape: Any, dtype: Any = "float32") -> None:
        self.shape = shape
        self.dtype = dtype


# -- arrays


def test_an_array_is_met_with_its_shape_as_integers() -> None:
    value = Strange(np.int64(5), 7)
    (item,) = only(array("d n"), value)
    assert isinstance(item, Met)
    assert item.shape == (5, 7)
    assert [type(size) for size in item.shape] == [int, int]
    assert item.value is value


def test_shapes_of_torch_are_tuples_of_integers() -> None:
    torch = pytest.importorskip("torch")
    shape = shape_of(torch.zeros(3, 4))
    assert type(shape) is tuple
    assert shape == (3, 4)


@pytest.mark.parametrize(
    ("value", "got"),
    [
        ([1.5], "a list"),
        (2.5, "a Python float"),
        (True, "a Python bool"),
        (None, "None"),
        ("K", "a str"),
        (np.ndarray, "the class numpy.ndarray"),
        (len, "a function"),
    ],
)
def test_what_is_no_array(value: Any, got: str) -> None:
    for hint in (array("d n"), array("d n", np.ndarray), array("")):
        assert misfit(hint, value)[:2] == ("type", got)
    assert misfit(array("d n", np.ndarray), value)[2] == 'an array "d n"'


def test_an_array_of_another_library() -> None:
    got = misfit(array("d n", np.ndarray), Strange(5, 7))
    assert got == ("type", "a tests.Strange", 'a numpy.ndarray "d n"')


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("b n d", 'an array of 3 axes "b n d"'),
        ("n", 'an array of 1 axis "n"'),
        ("", 'an array of no axes "()"'),
        ("... b n d", 'an array of at least 3 axes "... b n d"'),
    ],
)
def test_another_number_of_axes(text: str, wanted: str) -> None:
    assert misfit(array(text), np.zeros((5, 7))) == ("rank", "an array of 2 axes, (5, 7)", wanted)


def test_another_dtype_is_told_before_the_number_of_axes() -> None:
    hint = array("d n", kind=kind_of_names("Float", ["float32"]))
    got = misfit(hint, np.zeros(5, "int64"))
    assert got == ("dtype", "an array of dtype int64", "an array of dtype Float")
    assert found(only(hint, np.zeros((5, 7), "float32"))) == [("K", (5, 7))]
    assert misfit(hint, Strange(5, 7, dtype=None))[1] == "an array without a dtype"


def test_a_numpy_scalar_is_an_array_without_axes() -> None:
    for scalar in (np.float32(2), np.bool_(True), np.int64(3)):
        assert found(only(array("", np.ndarray), scalar)) == [("K", ())]
        assert found(only(array("..."), scalar)) == [("K", ())]
    assert misfit(array("n", np.ndarray), np.float32(2))[0] == "rank"
    assert misfit(array("", Strange), np.float32(2))[0] == "type"


def test_sizes_that_are_no_numbers_are_not_asked_about() -> None:
    """As the sizes of what JAX or TensorFlow trace."""
    traced = Strange(None, object(), 7, 4)
    (item,) = only(array("*batch n d"), traced)
    assert isinstance(item, Met)
    assert item.shape == (UNKNOWN, UNKNOWN, 7, 4)
    assert item.hint.spec.rest is not None
    assert item.hint.spec.rest.name is None
    assert item.hint.spec.after == parse_shape("n d").after

    (item,) = only(array("b h ... n d"), Strange(2, None, 5, None, 4))
    assert isinstance(item, Met)
    assert item.shape == (2, UNKNOWN, 5, UNKNOWN, 4)
    assert item.hint.spec.before == parse_shape("b _").after
    assert item.hint.spec.after == parse_shape("_ d").after
    assert misfit(array("n d"), Strange(None, 7, 4))[0] == "rank"


def test_a_shape_that_is_none() -> None:
    class Lazy:
        def shape(self) -> None: ...

    class Refusing:
        @property
        def shape(self) -> Any:
            return iter_refused()

    def iter_refused() -> Any:
        yield from ()
        raise ValueError("of unknown length")

    assert shape_of(Lazy()) is None
    assert shape_of(Refusing()) is None


# -- plain types and unions


def test_plain_classes_are_checked_without_beartype() -> None:
    code = """
import sys
from symattn.runtime.declared.hints import Place, PlainHint
from symattn.runtime.declared.plain import plain
(reading,) = plain(int | None).met(2.5, Place.of("h"))
print(reading[0].wanted)
print({"beartype", "numpy", "sympy", "torch", "jaxtyping"} & set(sys.modules))
plain(list[int]).holds([3])
print("beartype" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(symattn.__file__).parents[1],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert done.stdout.splitlines() == ["an int or None", "set()", "True"], done.stderr


def test_plain_types() -> None:
    assert only(INT, True) == ()  # as Python has it
    assert misfit(PlainHint(float, "a float", (float,)), 3) == ("type", "a Python int", "a float")
    assert misfit(PlainHint(dict[str, int], "dict[str, int]"), [3])[1:] == (
        "a list",
        "dict[str, int]",
    )
    assert only(ANYTHING, object()) == ()


def test_none_is_a_choice() -> None:
    optional = UnionHint((array("d n"), NONE))
    assert only(optional, None) == ()
    assert found(only(optional, np.zeros((5, 7)))) == [("K", (5, 7))]
    assert misfit(optional, 3) == ("type", "a Python int", 'an array "d n" or None')


def test_what_came_nearest_is_said() -> None:
    """An array of wrong rank is no array that might as well have been None."""
    optional = UnionHint((NONE, array("d n")))
    assert misfit(optional, np.zeros(5)) == (
        "rank",
        "an array of 1 axis, (5,)",
        'an array of 2 axes "d n"',
    )
    either = UnionHint((array("d n"), array("b d n")))
    assert misfit(either, np.zeros(5))[2] == (
        'an array of 2 axes "d n" or an array of 3 axes "b d n"'
    )
    lists = UnionHint((NONE, EachHint(list, array("d n"), "a list")))
    assert found(only(lists, [np.zeros((5, 7)), 3])) == [("K[1]", "type")]


def test_every_reading_of_a_union() -> None:
    either = UnionHint((array("d n"), array("n d"), array("n")))
    readings = list(either.met(np.zeros((5, 7)), K))
    texts = [item.hint.spec.text for (item,) in readings if isinstance(item, Met)]
    assert texts == ["d n", "n d"]
    pair = TupleHint((either, either))
    ((first, second),) = pair.met((np.zeros((5, 7)), np.zeros((7, 5))), K)
    assert isinstance(first, Either)
    assert isinstance(second, Either)
    assert len(first.options) == len(second.options) == 2


# -- what arrays stand in


def test_every_element_of_a_list_is_met() -> None:
    hint = EachHint(list, array("d n"), "a list")
    many: list[Any] = [np.zeros((5, size)) for size in range(100)]
    assert found(only(hint, many)) == [(f"K[{i}]", (5, i)) for i in range(100)]
    many[73] = np.zeros(5)
    assert dict(found(only(hint, many)))["K[73]"] == "rank"
    assert misfit(hint, tuple(many)) == ("type", "a tuple", "a list")
    assert only(hint, []) == ()


@pytest.mark.parametrize("container", [set, frozenset, collections.deque])
def test_every_element_of_a_collection_is_met(container: Any) -> None:
    hint = EachHint(container, array("d n"), "a collection")
    strange = [Strange(5, 7), Strange(4, 3)]
    shapes = {shape for _, shape in found(only(hint, container(strange)))}
    assert shapes == {(5, 7), (4, 3)}


def test_tuples_have_their_length() -> None:
    hint = TupleHint((array("d n"), INT))
    assert found(only(hint, (np.zeros((5, 7)), 3))) == [("K[0]", (5, 7))]
    assert misfit(hint, (np.zeros((5, 7)),))[1:] == (
        "a tuple of 1 element",
        "a tuple of 2 elements",
    )
    assert misfit(hint, [np.zeros((5, 7)), 3])[1] == "a list"


def test_mappings() -> None:
    hint = MappingHint(dict, PlainHint(str, "a str", (str,)), array("d n"), "a dict")
    value = {"a": np.zeros((5, 7)), "b": np.zeros(3)}
    assert found(only(hint, value)) == [("K['a']", (5, 7)), ("K['b']", "rank")]
    assert found(only(hint, {3: np.zeros((5, 7))})) == [("a key of K", "type"), ("K[3]", (5, 7))]
    assert misfit(hint, [])[1:] == ("a list", "a dict")


def test_a_default_dictionary_is_not_added_to() -> None:
    value: Any = collections.defaultdict(lambda: np.zeros((5, 7)))
    hint = MappingHint(dict, ANYTHING, array("d n"), "a dict")
    assert only(hint, value) == ()
    record = RecordHint(dict, "a Layer", is_mapping=True, fields=(Field("W", array("d n")),))
    only(record, value)
    assert not value


def test_keys_that_hold_values_are_not_shown() -> None:
    shown = K.item((123456.5,)).text
    assert shown == "K[<tuple>]"
    assert len(K.item("x" * 10_000).text) < 100


class Layer:
    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)


def test_records() -> None:
    hint = RecordHint(Layer, "a Layer", fields=(Field("W", array("d n")), Field("h", INT)))
    assert found(only(hint, Layer(W=np.zeros((5, 7)), h=3))) == [("K.W", (5, 7)), ("K.h", 3)]
    (_, count) = only(hint, Layer(W=np.zeros((5, 7)), h=3))
    assert count == Count(K.attribute("h"), "h", 3)
    assert found(only(hint, Layer(W=np.zeros((5, 7)), h=True))) == [("K.W", (5, 7))]
    (missing,) = only(hint, Layer(h=3))[:1]
    assert isinstance(missing, Misfit)
    assert missing.got == "a tests.Layer without W"


def test_what_holds_itself_is_met_once() -> None:
    hint = RecordHint(Layer, "a Layer")
    hint.fields = (Field("W", array("d n")), Field("other", UnionHint((hint, NONE))))
    one: Any = Layer(W=np.zeros((5, 7)), other=None)
    two = Layer(W=np.zeros((4, 3)), other=one)
    one.other = two
    assert found(only(hint, one)) == [("K.W", (5, 7)), ("K.other.W", (4, 3))]
    assert everything_in(hint)[0] is hint
    assert array("d n") in everything_in(hint)


def test_records_too_deep_are_refused() -> None:
    hint = RecordHint(Layer, "a Layer")
    hint.fields = (Field("W", array("d n")), Field("other", UnionHint((hint, NONE))))
    chain = None
    for size in range(500):
        chain = Layer(W=np.zeros((5, size)), other=chain)
    with pytest.raises(NotSupportedError, match="100 deep, as in K"):
        list(hint.met(chain, K))
