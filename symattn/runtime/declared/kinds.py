"""Which classes are arrays, and which dtypes they may have, with no array library imported.

A library shows itself in the objects at hand: an array class is a class with a `shape`, and a dtype
is known by its name, which is the same everywhere (`float32`, `bfloat16`, `bool`).  What may stand
in an annotation for an array (classes, `Any`, protocols, unions and type variables of these,
`NDArray[np.float32]`, `ArrayLike`) is taken apart into *alternatives*.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NewType, TypeVar, cast, get_args, get_origin

from symattn.runtime.declared.aliases import is_alias, is_union, value_of

if sys.version_info >= (3, 14):
    import annotationlib

C_NAMES = {
    "bool_": "bool",
    "longlong": "int64",
    "ulonglong": "uint64",
    "intc": "int32",
    "uintc": "uint32",
}
"""NumPy's names after C types, which say the same as names with a width."""

NUMBERS = (bool, int, float, complex)

_CATEGORIES = (("bool",), ("int",), ("bfloat", "float"), ("complex",))
_WIDE = ("float64", "float32", "float16", "int64", "int32", "bool", "complex128", "complex64")
_NARROW = (
    "float32 float64 bfloat16 float16 int64 int32 bool complex64 complex128".split()  # noqa: SIM905
)
_CASTS = {
    "numpy": ('{}.astype("{}")', _WIDE),
    "cupy": ('{}.astype("{}")', _WIDE),
    "torch": ("{}.to(torch.{})", _NARROW),
    "jax": ('{}.astype("{}")', _NARROW),
    "jaxlib": ('{}.astype("{}")', _NARROW),
    "tensorflow": ('tf.cast({}, "{}")', _NARROW),
}
"""For each library, how an array is converted, and the dtypes that people want, in order."""


# -- dtypes


@dataclass(frozen=True, slots=True)
class Kind:
    """The dtypes that an array may have: `label` says them, `holds` judges the name of one."""

    label: str
    holds: Callable[[str], bool]


def dtype_name(value: Any) -> str | None:
    """The name of an array's dtype, in every library alike; None where it has no dtype.

    >>> import numpy as np
    >>> dtype_name(np.zeros(3, "float32")), dtype_name(np.bool_(True)), dtype_name([1])
    ('float32', 'bool', None)
    """
    dtype: Any = getattr(value, "dtype", None)
    if dtype is None:
        return None
    if isinstance(dtype, str):
        return dtype
    scalar: Any = getattr(dtype, "type", None)
    if isinstance(scalar, type):  # NumPy, CuPy, JAX
        name = scalar.__name__
        structured = name == "void" and getattr(dtype, "fields", None) is not None
        return str(dtype) if structured else C_NAMES.get(name, name)
    like: Any = getattr(dtype, "as_numpy_dtype", None)  # TensorFlow
    if isinstance(like, type):
        return C_NAMES.get(like.__name__, like.__name__)
    name = re.search(r"\w+\Z", repr(dtype))  # torch.float32, mlx.core.float32
    return name[0] if name else type(dtype).__name__


def kind_of_names(label: str, names: Any) -> Kind | None:
    """The dtypes of such names and patterns, as jaxtyping lists them; None for its any-dtype.

    >>> kind_of_names("Float8", ["float8", re.compile("float8_.*")]).holds("float8_e5m2")
    True
    """
    if isinstance(names, str | re.Pattern):
        names = (names,)
    if not isinstance(names, tuple | list | set | frozenset):
        return None
    return _kind(label, tuple(cast("Iterable[str | re.Pattern[str]]", names)))


@lru_cache(maxsize=256)
def _kind(label: str, names: tuple[str | re.Pattern[str], ...]) -> Kind:
    literal = {C_NAMES.get(name, name) for name in names if isinstance(name, str)}
    patterns = [name for name in names if not isinstance(name, str)]

    def holds(name: str) -> bool:
        return name in literal or any(pattern.match(name) for pattern in patterns)

    return Kind(label, holds)


def kind_of_scalar(scalar: Any) -> Kind | None:
    """The dtypes whose scalars are of this NumPy class; None for any.

    >>> import numpy as np
    >>> kind = kind_of_scalar(np.floating)
    >>> kind.label, kind.holds("float32"), kind.holds("int64")
    ('floating', True, False)
    """
    classes = [leaf for leaf in _leaves(scalar) if leaf is not Any]
    if len(classes) < len(list(_leaves(scalar))):
        return None
    if any(not isinstance(leaf, type) or leaf.__name__ == "generic" for leaf in classes):
        return None
    label = " | ".join(leaf.__name__ for leaf in classes)
    return kind_of_names(label, [below.__name__ for leaf in classes for below in _below(leaf)])


def _below(scalar: type) -> Iterator[type]:
    yield scalar
    for child in scalar.__subclasses__():
        yield from _below(child)


def conversion(text: str, value: Any, kind: Kind) -> str:
    """What to write for an array `text` so that its dtype is of this kind, or "" where it loses.

    >>> import numpy as np
    >>> conversion("K", np.zeros(3, "int64"), kind_of_names("Float32", ["float32"]))
    'K.astype("float32")'
    >>> conversion("K", np.zeros(3, "float32"), kind_of_names("Int", ["int64"]))
    ''
    """
    packages = [base.__module__.partition(".")[0] for base in type(value).__mro__]
    cast_as, wanted = next((_CASTS[p] for p in packages if p in _CASTS), ("", _WIDE))
    name = dtype_name(value) or ""
    for target in wanted:
        # A number is no truth value, but 0/1 masks are often meant as such.
        safe = _category(name) <= _category(target) or (_category(name), target) == (1, "bool")
        if cast_as and safe and kind.holds(target):
            return cast_as.format(text, target)
    return ""


def _category(name: str) -> int:
    plain = name.removeprefix("u")
    starts = (i for i, names in enumerate(_CATEGORIES) if plain.startswith(names))
    return next(starts, len(_CATEGORIES))


# -- array classes


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of the classes that an annotation allows: `role` is "array", "none", "number" or "other".

    An array of any library has no `classes`; `rank` is the number of axes of `tuple[int, int]`.
    "silent" are what only `ArrayLike` speaks of: buffers, nested sequences, text.
    """

    role: Literal["array", "none", "number", "silent", "other"]
    annotation: Any
    classes: tuple[type, ...] = ()
    kind: Kind | None = None
    rank: int | None = None


def alternatives(annotation: Any) -> tuple[Alternative, ...]:
    """What an annotation allows, if it is to be that of an array.

    >>> import numpy as np
    >>> [one.role for one in alternatives(np.ndarray | float | None)]
    ['array', 'number', 'none']
    """
    return tuple(_alternative(leaf) for leaf in _leaves(annotation))


def is_array_type(annotation: Any) -> bool:
    """Whether arrays are what an annotation is about.

    >>> is_array_type(Any), is_array_type(int), is_array_type(list[int])
    (True, False, False)
    """
    return any(one.role == "array" for one in alternatives(annotation))


def _alternative(leaf: Any) -> Alternative:
    if leaf is None or leaf is type(None):
        return Alternative("none", leaf)
    if leaf is Any or leaf is object:
        return Alternative("array", leaf)
    if leaf in NUMBERS:
        return Alternative("number", leaf, (leaf,))
    origin: Any = get_origin(leaf)
    if origin is not None and has_shape(origin):
        shape, *rest = (*get_args(leaf), None)
        kind = kind_of_scalar(_scalar(rest[0])) if rest[0] is not None else None
        return Alternative("array", leaf, (origin,), kind, _rank(shape))
    if isinstance(leaf, type) and has_shape(leaf):
        return Alternative("array", leaf, (leaf,))
    home = getattr(origin or leaf, "__module__", "")
    if home.startswith("numpy._typing"):  # the members of ArrayLike
        protocol = origin or leaf
        gives_arrays = hasattr(protocol, "__array__") or hasattr(protocol, "__buffer__")
        return Alternative("array" if gives_arrays else "silent", leaf)
    is_silent = leaf in (str, bytes) or getattr(leaf, "__name__", "") == "Buffer"
    return Alternative("silent" if is_silent else "other", leaf)


def has_shape(kind: Any) -> bool:
    """Whether instances of this class have a `shape`, as far as the class says."""
    if not isinstance(kind, type) or isinstance(kind, types.GenericAlias):
        return False
    if hasattr(kind, "shape"):
        return True
    # A protocol, or a record, may only annotate it; a constructor may set it.
    return any("shape" in raw_annotations(base) or _sets_shape(base) for base in kind.__mro__)


def _sets_shape(kind: type) -> bool:
    code = getattr(vars(kind).get("__init__"), "__code__", None)
    return code is not None and "shape" in code.co_names


def raw_annotations(written: Any) -> dict[str, Any]:
    """The annotations of a function, or a class's own, as far as they are more than text by now."""
    if sys.version_info >= (3, 14):
        return annotationlib.get_annotations(written, format=annotationlib.Format.FORWARDREF)
    return inspect.get_annotations(written)


def _scalar(dtype: Any) -> Any:
    """`np.float32` of `np.dtype[np.float32]`."""
    return get_args(dtype)[0] if get_args(dtype) else Any


def _rank(shape: Any) -> int | None:
    """2 for NumPy's `tuple[int, int]`; None for `tuple[Any, ...]`, `Any` and type variables."""
    if get_origin(shape) is not tuple or Ellipsis in get_args(shape):
        return None
    return len(get_args(shape))


def _leaves(annotation: Any) -> Iterator[Any]:
    """The members of unions, and what type variables, aliases and new types stand for."""
    if isinstance(annotation, TypeVar):
        if annotation.__constraints__:
            for member in annotation.__constraints__:
                yield from _leaves(member)
        else:
            yield from _leaves(Any if annotation.__bound__ is None else annotation.__bound__)
    elif isinstance(annotation, NewType):
        yield from _leaves(annotation.__supertype__)
    elif is_alias(annotation):
        yield from _leaves(value_of(annotation))
    elif is_union(annotation):
        for member in get_args(annotation):
            yield from _leaves(member)
    else:
        yield annotation
