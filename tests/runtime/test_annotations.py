# ruff: noqa: F722, F821, F841, UP037  (linters take the text in M[…] for a name to come)
"""Annotations that are text (of a `__future__`, which this module has): where names are found."""

from __future__ import annotations

import dataclasses
import functools
import gc
import sys
import weakref
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    NotRequired,
    Self,
    TypedDict,
    get_type_hints,
)

import numpy as np
import pytest
from jaxtyping import Float

from symattn.errors.checks import SpecError
from symattn.runtime.declared.annotations import NotYetDefined, Scope, innermost
from symattn.runtime.declared.hints import ArrayHint, Hint, Met, Place, everything_in
from symattn.runtime.declared.reading import hint_of
from symattn.runtime.declared.spelled import M

if TYPE_CHECKING:
    from numpy import ndarray as OnlyForCheckers


def scope_of(function: Any) -> Scope:
    """As a decorator sees it: the frame is that of its caller."""
    return Scope.of(function, sys._getframe(1))


def texts(hint: Hint) -> list[str]:
    return [one.spec.text for one in everything_in(hint) if isinstance(one, ArrayHint)]


def shapes(scope: Scope, parameter: str, **extra: object) -> list[str]:
    """The shapes declared for one parameter."""
    annotation = scope.annotations(extra)[parameter]
    return texts(hint_of(annotation, None, scope.name, parameter, scope))


# -- names of the module


def attend(Q: Annotated[np.ndarray, "d_k n"], K: Float[np.ndarray, "d_k m"]) -> M["n m"] | None: ...


def test_names_of_the_module() -> None:
    scope = scope_of(attend)
    assert scope.name == "attend"
    expected = get_type_hints(attend, include_extras=True)
    assert str(scope.annotations()) == str(expected)  # jaxtyping makes new classes each time
    found = {name: shapes(scope, name) for name in ("Q", "K", "return")}
    assert found == {"Q": ["d_k n"], "K": ["d_k m"], "return": ["n m"]}


def test_size_strings_are_not_run() -> None:
    def quoted(Q: Annotated[np.ndarray, "__import__('os').abort()"]) -> None: ...

    with pytest.raises(SpecError, match="cannot be read"):
        shapes(scope_of(quoted), "Q")


# -- local names


def test_names_local_to_a_function() -> None:
    Array = np.ndarray
    Keys = Annotated[Array, "d_k m"]

    def local(Q: Annotated[Array, "d_k n"], K: list[Keys]) -> None: ...  # pyright: ignore

    scope = scope_of(local)
    assert shapes(scope, "Q") == ["d_k n"]
    assert shapes(scope, "K") == ["d_k m"]


def test_names_local_to_outer_functions() -> None:
    Array = np.ndarray

    def middle(size: str) -> Scope:
        Keys = Annotated[np.ndarray, size]

        def local(Q: Annotated[Array, "d_k n"], K: Keys) -> None: ...  # pyright: ignore

        return scope_of(local)

    scope = middle("d_k m")
    assert shapes(scope, "Q") == ["d_k n"]
    assert shapes(scope, "K") == ["d_k m"]
    assert shapes(middle("d m"), "K") == ["d m"]


def test_the_caller_is_not_around_a_function() -> None:
    """It has a local name too, and is on the stack, but Python would not look there."""

    def make() -> Scope:
        def local(K: CallersName) -> None: ...  # pyright: ignore

        return scope_of(local)

    def call() -> Scope:
        CallersName = np.ndarray
        return make()

    with pytest.raises(NotYetDefined, match="CallersName"):
        call().annotations()


def test_inner_names_win() -> None:
    Array = M["outer"]

    class Model:
        Array = M["body"]

        def method(self, K: Array) -> None: ...  # pyright: ignore

        scope = scope_of(method)

        class Inner:
            def method(self, K: Array) -> None: ...  # pyright: ignore

            scope = scope_of(method)

    assert shapes(Model.scope, "K") == ["body"]
    assert shapes(Model.Inner.scope, "K") == ["outer"]  # as Python has it


def test_closures_when_the_function_around_is_gone() -> None:
    def make() -> Any:
        Array = M["d n"]

        def local(K: Array) -> Any:  # pyright: ignore
            return Array

        return local

    assert shapes(scope_of(make()), "K") == ["d n"]


def test_frames_and_arrays_are_not_kept() -> None:
    def make() -> tuple[Scope, Any]:
        Array = M["d n"]
        values = np.zeros(5)
        kept = weakref.ref(values)

        def local(K: Array) -> None: ...  # pyright: ignore

        return scope_of(local), kept

    scope, kept = make()
    gc.collect()
    assert kept() is None
    assert shapes(scope, "K") == ["d n"]


# -- names that are not there yet


class Tree:
    def grow(self, other: Tree, leaf: Annotated[np.ndarray, "d"]) -> list[Tree]: ...

    early = scope_of(grow)


def test_a_class_in_its_own_body() -> None:
    assert Tree.early.annotations()["other"] is Tree  # asked for later, it is there

    class Local:
        def grow(self, other: Local, leaf: Annotated[np.ndarray, "d"]) -> list[Local]: ...

        scope = scope_of(grow)

    with pytest.raises(NotYetDefined) as caught:
        Local.scope.annotations()
    assert (caught.value.name, caught.value.parameter) == ("Local", "other")
    assert isinstance(caught.value, NameError)
    # What could be resolved is not lost.
    assert caught.value.resolved == {"leaf": Annotated[np.ndarray, "d"]}
    assert Local.scope.annotations({"Local": Local})["return"] == list[Local]


def test_names_for_type_checkers_only() -> None:
    def typed(K: Annotated[OnlyForCheckers, "d n"], n: int) -> None: ...

    with pytest.raises(NotYetDefined, match="OnlyForCheckers") as caught:
        scope_of(typed).annotations()
    assert caught.value.resolved == {"n": int, "return": type(None)}


def test_attributes_that_are_not_there_yet() -> None:
    def typed(K: np.nonesuch) -> None: ...  # pyright: ignore

    with pytest.raises(NotYetDefined, match="nonesuch"):
        scope_of(typed).annotations()


def test_text_that_is_no_type_is_refused() -> None:
    def spelled(Q: "d_k n") -> None: ...  # pyright: ignore

    with pytest.raises(SpecError) as caught:
        scope_of(spelled).annotations()
    assert caught.value.function == "spelled"
    assert caught.value.problem.startswith("Q is annotated with ")
    assert 'Annotated[np.ndarray, "d_k n"]' in caught.value.fix


def test_annotations_that_fail_are_refused() -> None:
    def failing(Q: Float[np.ndarray, "d, n"], K: 1 / 0) -> None: ...  # pyright: ignore

    with pytest.raises(SpecError, match="Q has an annotation that cannot be resolved"):
        scope_of(failing).annotations()


# -- Self


class Base:
    def merge(self, other: Self, more: list[Self] | None) -> tuple[Self, M["n"]]: ...

    scope = scope_of(merge)


def test_self_is_the_class_around() -> None:
    found = Base.scope.annotations()
    assert found == {"other": Base, "more": list[Base] | None, "return": tuple[Base, M["n"]]}

    class Local:
        def merge(self, other: Self) -> Annotated[Self, "itself"]: ...

        scope = scope_of(merge)

    with pytest.raises(NotYetDefined, match="Local"):
        Local.scope.annotations()
    assert Local.scope.annotations({"Local": Local})["return"] == Annotated[Local, "itself"]


def test_self_outside_of_a_class_is_refused() -> None:
    def function(other: Self) -> None: ...  # pyright: ignore

    with pytest.raises(SpecError, match="in no class"):
        scope_of(function).annotations()


# -- records


@dataclasses.dataclass
class Layer:
    W: Annotated[np.ndarray, "d n"]
    h: int
    next: Layer | None = None
    tally: ClassVar[M["unseen"] | None] = None
    seed: dataclasses.InitVar[int] = 0


class Cache(TypedDict):
    K: M["d m"]
    V: NotRequired[M["d_v m"]]


class Pair(NamedTuple):
    K: M["d m"]


def test_records_of_text() -> None:
    def run(layer: Layer, cache: Cache, pair: Pair) -> None: ...

    scope = scope_of(run)
    assert shapes(scope, "layer") == ["d n"]
    assert shapes(scope, "pair") == ["d m"]
    hint = hint_of(scope.annotations()["cache"], None, "run", "cache", scope)
    for cache, met in (({"K": np.zeros((5, 7))}, [True]), ({"V": np.zeros((4, 7))}, [False, True])):
        (reading,) = hint.met(cache, Place.of("cache"))
        assert [isinstance(item, Met) for item in reading] == met


def test_records_local_to_the_function_around() -> None:
    Array = np.ndarray

    @dataclasses.dataclass
    class Local:
        W: Annotated[Array, "d n"]  # pyright: ignore
        next: Local | None = None

    def run(layer: Local) -> None: ...

    assert shapes(scope_of(run), "layer") == ["d n"]


def test_fields_that_cannot_be_resolved() -> None:
    @dataclasses.dataclass
    class Unknown:
        W: OnlyForCheckers

    def run(layer: Unknown) -> None: ...

    scope = scope_of(run)
    with pytest.raises(NotYetDefined, match="OnlyForCheckers") as caught:
        shapes(scope, "layer")
    assert caught.value.parameter == "layer"

    Unknown.__module__ = "another_package"  # whose annotations are its own business
    sys.modules["another_package"] = sys.modules[__name__]
    try:
        assert shapes(scope, "layer") == []
        Unknown.__annotations__ = {**Unknown.__annotations__, "V": M["d n"]}
        Unknown.__dataclass_fields__ |= {"V": Unknown.__dataclass_fields__["W"]}
        Unknown.__dataclass_fields__["V"] = _named("V", Unknown.__dataclass_fields__["W"])
        with pytest.raises(NotYetDefined):
            shapes(scope, "layer")
    finally:
        del sys.modules["another_package"]


def _named(name: str, like: dataclasses.Field[Any]) -> dataclasses.Field[Any]:
    copied = dataclasses.field()
    copied.name = name
    copied._field_type = like._field_type  # type: ignore
    return copied


# -- callables around functions


def test_wrapped_functions_have_the_names_of_their_own_module() -> None:
    names: dict[str, Any] = {"__name__": "elsewhere"}
    source = """
from __future__ import annotations
from symattn.runtime.declared.spelled import M as OnlyThere
def inner(K: OnlyThere["d n"]): ...
"""
    exec(source, names)

    @functools.wraps(names["inner"])
    def wrapper(*args: Any) -> Any: ...

    assert innermost(wrapper) is names["inner"]
    assert shapes(scope_of(wrapper), "K") == ["d n"]
    assert shapes(scope_of(functools.partial(wrapper, 3)), "K") == ["d n"]


def test_all_kinds_of_callables() -> None:
    class Model:
        def __call__(self, K: M["d n"]) -> None: ...

        @staticmethod
        def static(K: M["d n"]) -> None: ...

        @classmethod
        def made(cls, K: M["d n"]) -> None: ...

    for callable in (Model(), Model().static, Model.made, vars(Model)["made"], Model().__call__):
        assert shapes(scope_of(callable), "K") == ["d n"]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters came with 3.12")
@pytest.mark.parametrize("future", ["from __future__ import annotations", ""])
def test_type_parameters(future: str) -> None:
    names: dict[str, Any] = {"__name__": __name__, "M": M, "Scope": Scope, "sys": sys}
    source = f"""
{future}
def function[T: M["d n"]](K: list[T], n: int): ...
class Model[T: M["d m"]]:
    def method[S](self, K: T, other: S): ...
    scope = Scope.of(method, sys._getframe())
def outer():
    class Local[T: M["d_v m"]]:
        def method(self, K: "T"): ...
        scope = Scope.of(method, sys._getframe())
    return Local.scope
"""
    exec(source, names)
    assert shapes(scope_of(names["function"]), "K") == ["d n"]
    assert shapes(names["Model"].scope, "K") == ["d m"]
    assert shapes(names["outer"](), "K") == ["d_v m"]
