"""The dtypes, as objects, that are of a kind: for the straight line, which has no time for names.

And the classes of arrays whose shape needs no look at what it is.

A kind judges a dtype by its name.  The names that matter are few, so those of the libraries that
are loaded are judged in advance, and any other is remembered once the slow way has accepted it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from symattn.runtime.declared.kinds import Kind

_NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)

_accepted: dict[int, tuple[Kind, set[Any]]] = {}  # by identity: two kinds may have one label


def accepted_dtypes(kind: Kind) -> set[Any]:
    """The dtypes known to be of this kind, so far."""
    if id(kind) not in _accepted:
        known = {dtype for name, dtype in _dtypes() if kind.holds(name)}
        _accepted[id(kind)] = kind, known
    return _accepted[id(kind)][1]


def _dtypes() -> Iterator[tuple[str, Any]]:
    for name in _NAMES:
        if "numpy" in sys.modules and name != "bfloat16":
            yield name, sys.modules["numpy"].dtype(name)
        if hasattr(sys.modules.get("torch"), name):
            yield name, getattr(sys.modules["torch"], name)


_ARRAYS = (("numpy", "ndarray"), ("torch", "Tensor"), ("jax", "Array"))


def loaded_arrays() -> tuple[type, ...]:
    """The classes of arrays of those libraries that are loaded."""
    found = [getattr(sys.modules.get(library), name, None) for library, name in _ARRAYS]
    return tuple(one for one in found if one is not None)
