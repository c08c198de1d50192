"""Names of dtypes in every library, and what counts as the class of an array."""

import dataclasses
import re
import types
from typing import Any, NewType, Protocol, TypeVar, runtime_checkable

import jaxtyping
import numpy as np
import numpy.typing as npt
import pytest

from symattn.runtime.declared.kinds import (
    Kind,
    alternatives,
    conversion,
    dtype_name,
    is_array_type,
    kind_of_names,
    kind_of_scalar,
)


class Duck:
    """An array with the dtype of any library."""

    shape = ()

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype


class scalar_type_dtype:  # as ml_dtypes' are in JAX: only `type` says what they are
    def __init__(self, name: str) -> None:
        self.type = type(name, (), {})


class TensorFlowDtype:
    as_numpy_dtype = np.float16


class ReprDtype:
    def __repr__(self) -> str:
        return "mlx.core.bfloat16"


@pytest.mark.parametrize(
    "name",
    [
        *("bool", "int8", "int64", "uint16", "float16", "float32"),
        *("float64", "complex64", "str_", "datetime64"),
    ],
)
def test_dtypes_of_numpy(name: str) -> None:
    scalar = getattr(np, name)
    assert dtype_name(np.zeros(3, scalar)) == np.dtype(scalar).type.__name__ == name


@pytest.mark.parametrize(("code", "name"), [("q", "int64"), (">f4", "float32"), ("?", "bool")])
def test_names_after_c_types_and_byte_orders(code: str, name: str) -> None:
    assert dtype_name(np.zeros(3, code)) == name


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (scalar_type_dtype("bfloat16"), "bfloat16"),
        (scalar_type_dtype("prng_key"), "prng_key"),
        (TensorFlowDtype(), "float16"),
        (ReprDtype(), "bfloat16"),
        ("float8_e4m3fn", "float8_e4m3fn"),
        (None, None),
    ],
)
def test_dtypes_of_other_libraries(dtype: Any, name: str | None) -> None:
    assert dtype_name(Duck(dtype)) == name


def test_dtypes_of_torch() -> None:
    torch = pytest.importorskip("torch")
    for name in ("float32", "bfloat16", "bool", "int64", "complex64"):
        assert dtype_name(torch.zeros(3, dtype=getattr(torch, name))) == name


def test_dtypes_of_jax() -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    for name in ("float32", "bfloat16", "bool", "int32"):
        assert dtype_name(jax.numpy.zeros(3, name)) == name
    assert dtype_name(jax.random.key(0)) == "prng_key"


@pytest.mark.parametrize(
    "family",
    [
        *("Float", "Float32", "Int", "UInt", "Integer", "Bool"),
        *("Inexact", "Complex", "Real", "Num", "Shaped"),
    ],
)
@pytest.mark.parametrize("name", ["bool", "int32", "uint8", "float16", "float64", "complex128"])
def test_kinds_agree_with_jaxtyping(family: str, name: str) -> None:
    """On arrays, jaxtyping's own check is the reference."""
    dtype = getattr(jaxtyping, family)
    kind = kind_of_names(
        family, dtype[np.ndarray, "..."].dtypes if family != "Shaped" else object()
    )
    holds = kind is None or kind.holds(name)
    assert holds == isinstance(np.zeros(3, name), dtype[np.ndarray, "..."])


def test_any_dtype_of_jaxtyping_is_no_kind() -> None:
    assert kind_of_names("Shaped", vars(jaxtyping.Shaped[np.ndarray, "n"])["dtypes"]) is None


def test_kinds_from_patterns() -> None:
    kind = kind_of_names("Eight", [re.compile("float8_.*"), "int8"])
    assert kind is not None
    assert [kind.holds(name) for name in ("float8_e5m2", "int8", "uint8")] == [True, True, False]


@pytest.mark.parametrize("scalar", [np.floating, np.float32, np.integer, np.number, np.bool_])
@pytest.mark.parametrize(
    "name", [*("bool", "int32", "q", "uint8"), *("float16", "longdouble", "complex128", "str")]
)
def test_kinds_of_scalars_agree_with_subclasses(scalar: Any, name: str) -> None:
    kind = kind_of_scalar(scalar)
    assert kind is not None
    array = np.zeros(3, name)
    assert kind.holds(str(dtype_name(array))) == issubclass(array.dtype.type, scalar)


def test_kinds_of_several_scalars() -> None:
    kind = kind_of_scalar(np.float32 | np.int64)
    assert kind is not None
    assert kind.label == "float32 | int64"
    assert [kind.holds(name) for name in ("float32", "int64", "float64")] == [True, True, False]
    assert kind_of_scalar(Any) is None
    assert kind_of_scalar(np.generic) is None
    bounded = TypeVar("bounded", bound=np.floating)
    assert kind_of_scalar(bounded) == kind_of_scalar(np.floating)


# -- what to write so that a dtype fits


def float_or_bool(*names: str) -> Kind:
    kind = kind_of_names(" ".join(names), names)
    assert kind is not None
    return kind


@pytest.mark.parametrize(
    ("have", "wanted", "text"),
    [
        ("float64", ["float32"], 'K.astype("float32")'),
        ("int64", ["float16", "float32", "float64"], 'K.astype("float64")'),
        ("int64", ["bool"], 'K.astype("bool")'),
        ("bool", ["int32"], 'K.astype("int32")'),
        ("float64", ["int64"], ""),
        ("complex64", ["float32"], ""),
        ("float64", ["bfloat16"], ""),
    ],
)
def test_conversions_of_numpy(have: str, wanted: list[str], text: str) -> None:
    array = np.zeros(3, have)
    assert conversion("K", array, float_or_bool(*wanted)) == text
    if text:
        assert eval(text, {"K": array}).dtype.name in wanted


def test_conversions_of_torch() -> None:
    torch = pytest.importorskip("torch")
    for array in (torch.zeros(3).double(), torch.nn.Parameter(torch.zeros(3).double())):
        assert conversion("K", array, float_or_bool("float32")) == "K.to(torch.float32)"
    assert conversion("K", torch.zeros(3), float_or_bool("bfloat16")) == "K.to(torch.bfloat16)"
    assert conversion("K", torch.zeros(3), float_or_bool("int64")) == ""


def test_libraries_are_known_by_their_classes() -> None:
    made = type("ArrayImpl", (Duck,), {"__module__": "jaxlib._jax"})
    assert conversion("K", made("float32"), float_or_bool("bfloat16")) == 'K.astype("bfloat16")'
    assert conversion("K", Duck("float32"), float_or_bool("float64")) == ""


# -- classes of arrays


@runtime_checkable
class HasShape(Protocol):
    @property
    def shape(self) -> tuple[int, ...]: ...


class Annotates(Protocol):
    shape: tuple[int, ...]


@dataclasses.dataclass
class Record:
    shape: tuple[int, ...]


Free = TypeVar("Free")
Bound = TypeVar("Bound", bound=np.ndarray)
Either = TypeVar("Either", np.ndarray, Duck)
New = NewType("New", np.ndarray)


@pytest.mark.parametrize(
    "annotation",
    [
        *(np.ndarray, Duck, Any, object, HasShape, Annotates, Record, Free, Bound, Either, New),
        *(npt.ArrayLike, npt.NDArray[np.float32], np.ndarray | None, Duck | None, np.generic),
    ],
)
def test_array_types(annotation: Any) -> None:
    assert is_array_type(annotation)


@pytest.mark.parametrize(
    "annotation", [int, str, None, list[np.ndarray], type[np.ndarray], int | None, "np.ndarray"]
)
def test_other_types(annotation: Any) -> None:
    assert not is_array_type(annotation)


def test_alternatives_of_a_union() -> None:
    found = alternatives(Duck | npt.NDArray[np.float32] | float | list[int] | None)
    assert [one.role for one in found] == ["array", "array", "number", "other", "none"]
    assert [one.classes for one in found[:3]] == [(Duck,), (np.ndarray,), (float,)]
    assert [one.kind.label if one.kind else None for one in found[:2]] == [None, "float32"]


def test_the_number_of_axes_of_a_numpy_annotation() -> None:
    dtype = np.dtype[np.float64]
    shapes: list[Any] = [tuple[int, int], tuple[int, ...], Any]
    ranks = [alternatives(types.GenericAlias(np.ndarray, (s, dtype)))[0].rank for s in shapes]
    assert ranks == [2, None, None]
