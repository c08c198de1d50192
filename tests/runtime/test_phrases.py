"""What a message says of values, classes and annotations: never what they hold."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.runtime.declared.kinds import dtype_name
from symattn.runtime.declared.phrases import a, annotation_text, class_name, said, said_as_size


@pytest.mark.parametrize(
    ("noun", "phrase"),
    [
        ("int", "an int"),
        ("ndarray", "an ndarray"),
        ("np.ndarray", "an np.ndarray"),
        ("numpy.ndarray", "a numpy.ndarray"),
        ("uint8", "a uint8"),
        ("", "a "),
    ],
)
def test_articles(noun: str, phrase: str) -> None:
    assert a(noun) == phrase


def test_a_class_goes_by_its_public_name(monkeypatch: pytest.MonkeyPatch) -> None:
    array = type("Array", (), {"__module__": "jax", "__qualname__": "jaxlib._jax.Array"})
    package = types.ModuleType("jax")
    vars(package)["Array"] = array
    monkeypatch.setitem(sys.modules, "jax", package)
    assert class_name(array) == "jax.Array"
    made = type("ArrayImpl", (), {"__module__": "jaxlib._jax"})
    assert said(made()) == "a jax.Array"
    # A class in a class keeps both names.
    inner = type("Inner", (), {"__module__": "jax", "__qualname__": "Outer.Inner"})
    assert class_name(inner) == "jax.Outer.Inner"


def test_a_dtype_without_a_name_is_said_by_its_class() -> None:
    array = types.SimpleNamespace(shape=(3,), dtype=object())
    assert dtype_name(array) == "object"


def test_an_array_in_the_place_of_an_annotation_keeps_its_values() -> None:
    assert annotation_text(np.full(3, 271828.0)) == "a numpy.ndarray"


@pytest.mark.parametrize(
    ("value", "phrase"),
    [(-3, "-3"), (True, "a Python bool"), (2.5, "a Python float"), (10**30, "a Python int")],
)
def test_what_stands_for_a_size(value: Any, phrase: str) -> None:
    assert said_as_size(value) == phrase


def test_a_text_in_an_attribute_is_not_said() -> None:
    def project(x: Any, layer: Any) -> Any:
        return x

    checked = sa.shapecheck("x: {layer.width} n")(project)
    with pytest.raises(sa.SpecError) as caught:
        checked(np.ones((4, 5)), types.SimpleNamespace(width="secret"))
    assert str(caught.value) == (
        "project(): layer.width is a str, "
        "but {layer.width} stands for a size, an integer of at least 0"
    )
