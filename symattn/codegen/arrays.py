"""Which values a generated function takes as arrays and numbers, and what to convert others to.

Nothing is converted silently: a list, an array of integers or a masked array is refused with the
conversion to write, so that the caller decides about precision and copies.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from numbers import Real
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np

from symattn.codegen.signature import NumberInput
from symattn.codegen.targets import Target
from symattn.errors import InputError, SizeError
from symattn.tags import check_size

# A dtype of another byte order is not among them: it is another key.
FLOATS = {np.dtype(name): name for name in ("float16", "float32", "float64")}

BFLOAT16 = "bfloat16"
"""NumPy has no such dtype; the package ml_dtypes gives it one, and an array of it comes from there.
"""

# The largest number of the dtype that is computed in: two bytes are computed in float32.
LARGEST: Mapping[str, float] = MappingProxyType(
    {
        BFLOAT16: float(np.finfo("float32").max),
        **{
            name: float(np.finfo(max(dtype, np.dtype("float32"))).max)
            for dtype, name in FLOATS.items()
        },
    }
)

# By NumPy's letter for the kind of a dtype: what it is called, and the conversion.
_CONVERSIONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "b": ("booleans", "{name}.astype({xp}.float64)"),
        "i": ("integers", "{name}.astype({xp}.float64)"),
        "u": ("integers", "{name}.astype({xp}.float64)"),
        "f": ("floats of another width or byte order", "{name}.astype({xp}.float64)"),
        "c": ("complex numbers", "{name}.real, if the imaginary part is zero"),
        "O": ("Python objects", "{name}.astype({xp}.float64)"),
        "U": ("text", "{name}.astype({xp}.float64)"),
        "S": ("text", "{name}.astype({xp}.float64)"),
        "T": ("text", "{name}.astype({xp}.float64)"),
        "M": ("dates", "give numbers"),
        "m": ("time differences", "give numbers"),
        "V": ("records or of a dtype that NumPy lacks", "{name}.astype({xp}.float32)"),
    }
)


def as_array(
    name: str, value: Any, target: Target, library: ModuleType, *, booleans: bool = False
) -> Any:
    """Return a value as an array of the target's library, or raise `InputError`."""
    if target.module == "numpy" and isinstance(value, np.memmap):
        value = np.asarray(value)  # a plain view of the same file
    if type(value) is not library.ndarray:
        raise _not_an_array(name, value, target, booleans)
    return value


def check_dtype(name: str, value: Any, target: Target) -> str:
    """Return the name of an array's dtype, one of those taken, or raise `InputError`."""
    dtype = value.dtype
    taken = FLOATS.get(dtype)
    if dtype.name == BFLOAT16 and dtype.isnative:
        taken = BFLOAT16
    if taken is not None:
        return taken
    what, conversion = _CONVERSIONS.get(dtype.kind, ("of an unknown kind", ""))
    if dtype.names:
        what, conversion = "records", f"{name}[{dtype.names[0]!r}], one field of them"
    found = f"an array of {what} (dtype {dtype})"
    raise InputError(name, found, conversion.format(name=name, xp=target.alias))


def check_booleans(name: str, value: Any, target: Target) -> None:
    """Raise `InputError` unless an array is one of booleans: numbers do not say which way round.

    In some libraries True means "may attend", in others "masked out", and 0 is the one that may
    attend where a mask is added to the scores.
    """
    kind = value.dtype.kind
    if kind == "b":
        return
    fixes = {
        "i": f"{name} == 1, if 1 means that it may attend",
        "u": f"{name} == 1, if 1 means that it may attend",
        "f": f"sa.keep_from_additive({name}), if it is 0 and -inf, to be added to the scores",
    }
    found = f"an array of dtype {value.dtype}"
    raise InputError(name, found, fixes.get(kind, ""), "booleans, True where it may attend")


def _not_an_array(name: str, value: Any, target: Target, booleans: bool) -> InputError:
    kind = type(value)
    module = kind.__module__.partition(".")[0]
    dtypes = "booleans, True where it may attend" if booleans else "float16, float32 or float64"
    wanted = f"a {target.module} array of {dtypes}"
    if isinstance(value, np.ma.MaskedArray):
        found, fix = "a masked array", f"{name}.filled(value), masks belong to the formula"
    elif isinstance(value, np.matrix):
        found, fix = "a numpy matrix", f"np.asarray({name})"
    else:
        conversions = target.conversions
        if module == "numpy" and not isinstance(value, np.ndarray):
            module = ""  # a scalar of NumPy
        fix = conversions.get(module, conversions[""]).format(name=name)
        if booleans:
            fix = re.sub(r"dtype=[\w.]+", "dtype=bool", fix)
        what = "array" if kind.__name__ == "ndarray" else kind.__name__
        found = f"{'an' if what[0] in 'aeiou' else 'a'} {what}"
        if module in conversions and module:
            found += f" of {module}"
        if isinstance(value, str):
            fix = ""
    return InputError(name, found, fix, wanted)


def as_number(given: NumberInput, value: Any) -> float:
    """Return a scalar argument as a float, or raise `InputError`."""
    name = given.name
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        fix = f"float({name})" if getattr(value, "shape", None) == () else ""
        raise InputError(name, f"a {type(value).__name__}", fix, "a real number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InputError(name, "no finite number", "", "a finite real number")
    if given.is_positive and number <= 0:
        raise InputError(name, f"{number}", "", "a positive number, as it was declared")
    return number


def as_workers(workers: Any) -> int | None:
    """Return a number of threads, or raise `InputError`.

    >>> as_workers(2), as_workers(None)
    (2, None)
    """
    if workers is None:
        return None
    try:
        return check_size("workers", workers)
    except SizeError:
        found = repr(workers) if isinstance(workers, int) else f"a {type(workers).__name__}"
        raise InputError("workers", found, "", "a number of threads from 1, or None") from None
