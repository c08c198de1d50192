# ruff: noqa: F722, F821, UP006, UP007, UP035, UP045  (linters take the text in M[…] for a name to come)
"""Shapes inside of other types (unions, tuples, lists, records), and types without any."""

import collections
import dataclasses
import sys
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    List,
    Literal,
    LiteralString,
    NamedTuple,
    Never,
    NewType,
    NoReturn,
    NotRequired,
    Optional,
    ParamSpec,
    Required,
    Self,
    TypedDict,
    TypeVar,
    Union,
)

import numpy as np
import numpy.typing as npt
import pytest

from symattn.runtime.declared.containers import EachHint, MappingHint, RecordHint, TupleHint
from symattn.runtime.declared.hints import (
    ANYTHING,
    PlainHint,
)
from symattn.runtime.declared.reading import UNANNOTATED
from symattn.runtime.declared.spelled import M
from tests.runtime.readings import Other, fits, places, read, refusal, texts

# -- what arrays stand in


def test_optional() -> None:
    for annotation in (M["d n"] | None, Optional[M["d n"]], Union[M["d n"], None]):
        hint = read(annotation)
        assert fits(hint, None)
        assert places(hint, np.zeros((5, 7))) == {"K": (5, 7)}
        assert not fits(hint, 3)


def test_a_union_that_lets_every_array_through_is_refused() -> None:
    for other in (np.ndarray, Any, object, npt.NDArray[np.float32], TypeVar("free")):
        error = refusal(Union[Annotated[np.ndarray, "d n"], other])
        assert "let every array through" in error.problem
    refusal(M["d n"] | Other)
    assert fits(read(Annotated[np.ndarray, "d n"] | Other), Other(3))
    assert fits(read(M["d n"] | str), "text")


def test_tuples() -> None:
    hint = read(tuple[M["d n"], int, M["n"]])
    assert isinstance(hint, TupleHint)
    assert places(hint, (np.zeros((5, 7)), 3, np.zeros(7))) == {"K[0]": (5, 7), "K[2]": (7,)}
    assert not fits(hint, (np.zeros((5, 7)), 3))
    each = read(tuple[M["d n"], ...])
    assert isinstance(each, EachHint)
    assert fits(each, ())
    assert places(each, (np.zeros((5, 7)), 3)) == {"K[0]": (5, 7), "K[1]": "type"}


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (list[M["d n"]], [Other(5, 7)]),
        (List[M["d n"]], [Other(5, 7)]),
        (Sequence[M["d n"]], (Other(5, 7),)),
        (set[M["d n"]], {Other(5, 7)}),
        (frozenset[M["d n"]], frozenset({Other(5, 7)})),
        (collections.deque[M["d n"]], collections.deque([Other(5, 7)])),
        (Collection[M["d n"]], {"a": Other(5, 7)}.values()),
    ],
)
def test_collections(annotation: Any, value: Any) -> None:
    hint = read(annotation)
    assert list(places(hint, value).values()) == [(5, 7)]
    assert not fits(hint, 3)


@pytest.mark.parametrize(
    "origin",
    [dict, Mapping, collections.defaultdict, collections.OrderedDict, collections.ChainMap],
)
def test_mappings(origin: Any) -> None:
    hint = read(origin[str, M["d n"]])
    assert isinstance(hint, MappingHint)
    made = {collections.defaultdict: lambda d: collections.defaultdict(int, d), Mapping: dict}
    value = made.get(origin, origin)({"W": np.zeros((5, 7))})
    assert places(hint, value) == {"K['W']": (5, 7)}
    assert not fits(hint, made.get(origin, origin)({3: np.zeros((5, 7))}))


Box = TypeVar("Box")


class Generic1(Generic[Box]):
    pass


@pytest.mark.parametrize(
    "annotation",
    [
        Iterator[M["d n"]],
        Iterable[M["d n"]],
        Generator[M["d n"], None, None],
        Awaitable[M["d n"]],
        Callable[[M["d n"]], int],
        Callable[..., M["d n"]],
        type[M["d n"]],
        Generic1[M["d n"]],
        list[Iterator[M["d n"]]],
        Iterator[M["d n"]] | None,
        dict[M["d n"], int],
    ],
)
def test_what_cannot_be_looked_through_is_refused(annotation: Any) -> None:
    error = refusal(annotation)
    assert error.problem.startswith("K has shapes in ")
    assert error.fix


def test_new_types_and_type_variables() -> None:
    query = NewType("query", M["d n"])  # pyright: ignore
    assert texts(read(query)) == ["d n"]
    assert texts(read(list[query])) == ["d n"]
    bound = TypeVar("bound", bound=M["d n"])
    assert texts(read(bound)) == ["d n"]
    assert texts(read(TypeVar("either", M["d n"], M["n"]))) == ["d n", "n"]


def test_qualifiers() -> None:
    for annotation in (Final[M["d n"]], ClassVar[M["d n"]], dataclasses.InitVar[M["d n"]]):
        assert texts(read(annotation)) == ["d n"]
    assert texts(read(Required[M["d n"]])) == texts(read(NotRequired[M["d n"]])) == ["d n"]
    assert read(Final) is ANYTHING


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the statement `type` came with 3.12")
def test_type_statements() -> None:
    names: dict[str, Any] = {"M": M}
    source = """
type Array = M["d n"]
type Several[T] = list[T] | None
type Tree = M["d n"] | list[Tree]
type Json = int | list[Json]
"""
    exec(source, names)
    assert texts(read(names["Array"])) == ["d n"]
    assert texts(read(names["Several"][M["d n"]])) == ["d n"]
    assert not read(names["Several"][int]).has_shapes
    assert "holds itself" in refusal(names["Tree"]).problem
    assert texts(read(Annotated[names["Several"][int], "documentation"])) == []


# -- records


@dataclasses.dataclass
class Layer:
    W: Annotated[np.ndarray, "h*d_k d"]
    b: M["h*d_k"] | None
    h: int
    scale: float = 1.0
    shared: ClassVar[M["d d"] | None] = None
    seed: dataclasses.InitVar[int] = 0


@dataclasses.dataclass
class Gated(Layer):
    G: Annotated[np.ndarray, "h d"] = dataclasses.field(kw_only=True)


@dataclasses.dataclass
class Model:
    layers: list[Layer]
    name: str


def layer(**more: Any) -> Layer:
    bias: Any = np.zeros(6)
    return Layer(W=np.zeros((6, 5)), b=bias, h=3, **more)


def test_dataclasses() -> None:
    hint = read(Layer)
    assert isinstance(hint, RecordHint)
    assert places(hint, layer()) == {"K.W": (6, 5), "K.b": (6,), "K.h": 3}
    assert places(hint, layer(scale="3"))["K.scale"] == "type"
    assert not fits(hint, 3)
    gated = Gated(W=np.zeros((6, 5)), b=None, h=3, G=np.zeros((3, 5)))
    assert places(hint, gated) == {"K.W": (6, 5), "K.h": 3}
    assert places(read(Gated), gated) == {"K.W": (6, 5), "K.h": 3, "K.G": (3, 5)}
    assert not fits(read(Gated), layer())


def test_records_in_records() -> None:
    model = Model([layer(), layer()], "small")
    found = places(read(Model), model)
    assert found["K.layers[1].W"] == (6, 5)
    assert len(found) == 6


def test_a_dataclass_without_shapes_is_a_plain_type() -> None:
    @dataclasses.dataclass
    class Options:
        h: int

    hint = read(Options)
    assert isinstance(hint, PlainHint)
    assert hint.classes == (Options,)


class Pair(NamedTuple):
    K: Annotated[np.ndarray, "d m"]
    m: int


class Cache(TypedDict, total=False):
    K: Required[M["d m"]]
    V: M["d_v m"]


class Longer(Cache):
    P: M["m"]
    extra: NotRequired[M["d"]]


def test_named_tuples() -> None:
    assert places(read(Pair), Pair(np.zeros((5, 7)), 7)) == {"K.K": (5, 7), "K.m": 7}
    assert not fits(read(Pair), (np.zeros((5, 7)), 7))


def test_typed_dicts() -> None:
    K, V, P = np.zeros((5, 7)), np.zeros((4, 7)), np.zeros(7)
    assert places(read(Cache), {"K": K, "V": V}) == {"K['K']": (5, 7), "K['V']": (4, 7)}
    assert fits(read(Cache), {"K": K})
    assert not fits(read(Cache), {"V": V})
    assert fits(read(Longer), {"K": K, "P": P})
    assert not fits(read(Longer), {"K": K})
    assert places(read(Longer), {"K": K, "P": P, "extra": P})["K['extra']"] == (7,)
    assert not fits(read(Cache), [K])


@dataclasses.dataclass
class Node:
    W: Annotated[np.ndarray, "d n"]
    children: list["Node"]
    parent: "Node | None" = None


def test_recursive_dataclasses() -> None:
    root = Node(np.zeros((5, 7)), [])
    root.children = [Node(np.zeros((4, 3)), [], root), Node(np.zeros(3), [], root)]
    assert places(read(Node), root) == {
        "K.W": (5, 7),
        "K.children[0].W": (4, 3),
        "K.children[1].W": "rank",
    }


Held = TypeVar("Held")
Second = TypeVar("Second")


@dataclasses.dataclass
class Holder(Generic[Held]):
    held: Held
    others: list[Held]


@dataclasses.dataclass
class Wider(Holder[list[Second]], Generic[Second]):
    more: Second


def test_generic_dataclasses() -> None:
    value = Holder(np.zeros((5, 7)), [np.zeros((4, 3))])
    assert places(read(Holder[M["d n"]]), value) == {"K.held": (5, 7), "K.others[0]": (4, 3)}
    assert not read(Holder[int]).has_shapes
    assert not read(Holder).has_shapes
    wider = Wider([Other(5, 7)], [[Other(4, 3)]], Other(2, 6))
    assert list(places(read(Wider[M["d n"]]), wider)) == ["K.held[0]", "K.others[0][0]", "K.more"]


def test_metadata_without_a_hash() -> None:
    value = Holder(np.zeros((5, 7)), [])
    assert places(read(Holder[Annotated[np.ndarray, [], "d n"]]), value) == {"K.held": (5, 7)}


# -- annotations without shapes


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (int, 3, 2.5),
        (float, 2.5, "3"),
        (float, 3, None),
        (int | None, None, "x"),
        (Optional[str], "x", 3),
        (list[int], [3], ["x"]),
        (List[int], [3], ["x"]),
        (dict[str, int], {"x": 3}, {3: 3}),
        (Literal["row", "column"], "row", "r"),
        (Callable[..., int], len, 3),
        (Sequence[str] | None, ["x"], 3),
        (type[int], bool, str),
        (LiteralString, "x", 3),
        (None, None, 3),
        (npt.NDArray[np.float32], np.zeros(3, "float32"), np.zeros(3)),
        (NewType("size", int), 3, "x"),
        (TypeVar("number", int, float), 3, "x"),
        (tuple[int, ...], (3, 4), [3]),
    ],
)
def test_plain_annotations(annotation: Any, good: Any, bad: Any) -> None:
    hint = read(annotation)
    assert isinstance(hint, PlainHint)
    assert not hint.has_shapes
    assert fits(hint, good)
    assert not fits(hint, bad)


def test_everything_is_anything() -> None:
    parameters = ParamSpec("parameters")
    for annotation in (UNANNOTATED, Any, object, parameters.args, parameters.kwargs):
        assert read(annotation) is ANYTHING


def test_nothing_is_never() -> None:
    for annotation in (Never, NoReturn):
        assert not fits(read(annotation, parameter="return"), None)


@pytest.mark.parametrize("annotation", [3, ..., [int], {}, "d_k n", Self, np.zeros(3)])
def test_what_is_no_annotation_is_refused(annotation: Any) -> None:
    assert refusal(annotation).problem.startswith("K is annotated with ")


def test_text_is_no_annotation() -> None:
    error = refusal("d_k n")
    assert error.problem == "K is annotated with 'd_k n': it is text, which is no type"
    assert error.fix == 'write a shape as Annotated[np.ndarray, "d_k n"]'
