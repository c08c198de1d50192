"""What the arguments of a saved function are checked for; `saved` copies this into its module.

A matrix that is too large would not always fail by itself: it may be cut, or broadcast.  So every
size is compared with the same size of the other inputs before any work is done.  Invariant: this
file needs NumPy alone, as the modules do into which it is copied.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

Equation = tuple[str, Sequence[str], Callable[[Mapping[str, int]], int]]
"""A size, the tags that it is computed from, and how: ``h*d_v``, from ``h`` and ``d_v``."""

FLOATS = ("float16", "bfloat16", "float32", "float64")


def check_inputs(
    library: Any,
    arrays: Mapping[str, tuple[Any, ...]],
    masks: Mapping[str, tuple[Any, ...]],
    sizes: Mapping[str, int | None],
    equations: Sequence[Equation] = (),
) -> tuple[dict[str, int], int]:
    """Return the sizes, and how many matrices the leading axes hold together.

    Raises TypeError or ValueError unless all arrays are of one dtype, and their sizes fit.
    ``arrays`` and ``masks`` hold under each name an array and its last axes, ``sizes`` those that
    may be given by name, None if they are not.

    >>> check_inputs(np, {"Q": (np.ones((4, 5)), "d_k", "n")}, {}, {"n": 6})
    Traceback (most recent call last):
    ValueError: n = 6 as given, but 5 from Q of shape (4, 5)
    """
    kinds = (library.ndarray, np.memmap) if library is np else (library.ndarray,)
    found = {tag: (size, "as given") for tag, size in sizes.items() if size is not None}
    batch: tuple[int, ...] = ()
    first = ""
    for name, (array, *axes) in {**arrays, **masks}.items():
        if type(array) not in kinds:
            given = f"a {type(array).__name__}"
            raise TypeError(f"{name} is {given}; give a {library.__name__} array")
        dtype, shape = array.dtype, array.shape
        if name in masks:
            if dtype.name != "bool":
                wanted = "booleans, True where it may attend"
                raise TypeError(f"{name} is an array of dtype {dtype}; give {wanted}")
        elif dtype.name not in FLOATS or not dtype.isnative:
            raise TypeError(f"{name} is an array of dtype {dtype}; give {', '.join(FLOATS)}")
        else:
            first = first or name
            expected = arrays[first][0].dtype
            if dtype != expected:
                raise TypeError(f"{name} is {dtype}, but {first} is {expected}; give one dtype")
        leading = len(shape) - len(axes)
        if leading < 0:
            least = f"needs at least {len(axes)} axes, ({', '.join(axes)})"
            raise ValueError(f"{name} {least}, but has shape {shape}")
        for axis, size in zip(axes, shape[leading:], strict=True):
            place = f"from {name} of shape {shape}"
            known, where = found.setdefault(axis, (size, place))
            if size != known:
                raise ValueError(f"{axis} = {known} {where}, but {size} {place}")
        try:
            batch = np.broadcast_shapes(batch, shape[:leading])
        except ValueError:
            what = f"the leading axes {shape[:leading]} of {name}"
            raise ValueError(f"{what} do not broadcast with {batch}") from None
    known = {axis: size for axis, (size, _) in found.items()}
    for _ in equations:  # a size that one finds may be what another needs
        for axis, tags, value in equations:
            unknown = [tag for tag in tags if tag not in known]
            if not unknown:
                known.setdefault(axis, value(known))
            elif len(unknown) == 1 and axis in known:
                known[unknown[0]] = _solved(value, known, unknown[0], known[axis])
    for axis, tags, value in equations:
        if all(tag in known for tag in (axis, *tags)) and value(known) != known[axis]:
            of = ", ".join(f"{tag} = {known[tag]}" for tag in tags)
            place = found.get(axis, (0, "by the other sizes"))[1]
            but = f"{value(known)}" + (f" for {of}" if of else "")
            raise ValueError(f"{axis} = {known[axis]} {place}, but {but}")
    for tag in sizes:
        if tag not in known:
            raise TypeError(f"the size {tag} does not follow from the shapes; give it by name")
    return known, prod(batch)


def _solved(
    value: Callable[[Mapping[str, int]], int], known: Mapping[str, int], tag: str, size: int
) -> int:
    """Return the tag at which a size, which grows with it, is first as large as was found."""
    return bisect_left(range(size), size, key=lambda x: value({**known, tag: x}))


def check_out(out: Any, result: Any) -> None:
    """Raise TypeError or ValueError unless a result can be written to an array.

    >>> check_out(np.ones((4, 5)), np.ones((4, 6)))
    Traceback (most recent call last):
    ValueError: out is float64 of shape (4, 5); give float64 of shape (4, 6)
    """
    if not isinstance(out, type(result)):
        raise TypeError(f"out is a {type(out).__name__}; give a {type(result).__name__}")
    if out.shape != result.shape or out.dtype != result.dtype:
        found, wanted = (f"{a.dtype} of shape {a.shape}" for a in (out, result))
        raise ValueError(f"out is {found}; give {wanted}")
