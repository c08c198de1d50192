# ruff: noqa: F722, F821  (linters take the text in M[…] for a name to come)
"""Annotations that are evaluated where they stand, or on demand from Python 3.14 on."""

import functools
import inspect
import sys
from typing import Annotated, Any

import numpy as np
import pytest

from symattn.errors.checks import SpecError
from symattn.runtime.declared.annotations import NotYetDefined, Scope
from symattn.runtime.declared.spelled import M

ON_DEMAND = sys.version_info >= (3, 14)


def scope_of(function: Any) -> Scope:
    return Scope.of(function, sys._getframe(1))


def attend(Q: Annotated[np.ndarray, "d_k n"], h: int = 3, *more: M["n"]) -> None: ...


def test_annotations_are_taken_as_they_are() -> None:
    assert scope_of(attend).annotations() == {
        "Q": Annotated[np.ndarray, "d_k n"],
        "h": int,
        "more": M["n"],
        "return": type(None),
    }
    assert scope_of(functools.partial(attend, h=4)).annotations()["h"] is int
    assert scope_of(len).annotations() == {}


def test_text_in_annotations_may_name_a_class_to_come() -> None:
    class Model:
        def merge(self, other: "Model", more: list["Model"]) -> "Model | None": ...

        scope = scope_of(merge)

    with pytest.raises(NotYetDefined, match="Model"):
        Model.scope.annotations()
    found = Model.scope.annotations({"Model": Model})
    assert found == {"other": Model, "more": list[Model], "return": Model | None}


def test_text_that_is_no_type() -> None:
    def spelled(Q: "d_k n") -> None: ...  # pyright: ignore

    with pytest.raises(SpecError) as caught:
        scope_of(spelled).annotations()
    assert caught.value.problem == "Q is annotated with 'd_k n', which is no type"


def test_a_signature_of_its_own() -> None:
    def wrapper(*args: Any) -> Any: ...

    wrapper.__signature__ = inspect.signature(attend)  # pyright: ignore
    assert scope_of(wrapper).annotations() == scope_of(attend).annotations()


@pytest.mark.skipif(not ON_DEMAND, reason="before Python 3.14 names must be there")
def test_names_to_come() -> None:
    names: dict[str, Any] = {"M": M, "Scope": Scope, "sys": sys}
    source = """
class Model:
    def merge(self, other: Model, K: M["d n"], more: list[Later]) -> Model | None: ...
    scope = Scope.of(merge, sys._getframe())
    try:
        early = scope.annotations()
    except NameError as error:
        early = error.resolved
"""
    exec(source, names)
    model = names["Model"]
    assert model.early == {"K": M["d n"]}
    with pytest.raises(NotYetDefined, match="Later"):
        model.scope.annotations()
    names["Later"] = int
    found = model.scope.annotations()
    assert found == {"other": model, "K": M["d n"], "more": list[int], "return": model | None}
