"""What the arguments of a saved function are checked for; `saved` copies this into its module.

A matrix that is too large would not always fail by itself: it may be cut, or broadcast.  So every
size is compared with the same size of the other inputs before any work is done.  Invariant: this
file needs NumPy alone, as the modules do into which it is copied.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from operator import index
from typing import Any

import numpy as np

Equation = tuple[str, Sequence[str], Callable[[Mapping[str, int]], int]]
"""A size, the tags that it is computed from, and how: ``h*d_v``, from ``h`` and ``d_v``."""

FLOATS = ("float16", "bfloat16", "float32", "float64")

SIZE_LIMIT = 10**15
"""Sizes are smaller: positions are integers of 64 bits, and floats where a bias needs them."""

MOST_TRIED = 100_000  # addresses that are compared before two arrays count as overlapping


def check_inputs(
    library: Any,
    arrays: Mapping[str, tuple[Any, ...]],
    masks: Mapping[str, tuple[Any, ...]],
    sizes: Mapping[str, int | None],
    equations: Sequence[Equation] = (),
    has_heads: bool = False,
) -> tuple[dict[str, int], tuple[int, ...], int]:
    """Return the sizes, the leading axes together, and how many matrices these hold.

    Raises TypeError or ValueError unless all arrays are of one dtype, and their sizes fit.
    ``arrays`` and ``masks`` hold under each name an array and its last axes, ``sizes`` those that
    may be given by name, None if they are not.  Where a formula ``has_heads``, these share masks.

    >>> check_inputs(np, {"Q": (np.ones((4, 5)), "d_k", "n")}, {}, {"n": 6})
    Traceback (most recent call last):
    ValueError: n = 6 as given, but 5 from Q of shape (4, 5)
    """
    found = {tag: (_size(tag, x), "as given") for tag, x in sizes.items() if x is not None}
    batch: tuple[int, ...] = ()
    first, most = "", 0
    for name, (array, *axes) in {**arrays, **masks}.items():
        _check_kind(library, name, array)
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
        if name not in masks:
            most = max(most, leading)
        elif has_heads and leading > most > 0 and shape[leading - 1] == 1:
            problem = f"{name} is the same for every head, and has no axis of heads"
            raise ValueError(f"{problem}, but shape {shape}")
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
    return known, batch, math.prod(batch)


def _check_kind(library: Any, name: str, array: Any) -> None:
    """Raise TypeError for what is no array of the library itself."""
    kinds = (library.ndarray, np.memmap) if library is np else (library.ndarray,)
    if type(array) not in kinds:
        given = f"a {type(array).__name__}"
        raise TypeError(f"{name} is {given}; give a {library.__name__} array")


def _size(tag: str, value: Any) -> int:
    """Return a size that is given by name, or raise TypeError or ValueError."""
    try:
        size = index(value)
    except TypeError:
        size = None
    if size is None or isinstance(value, bool | np.bool_):
        raise TypeError(f"the size {tag} is a {type(value).__name__}; give an integer")
    if not 0 <= size < SIZE_LIMIT:
        raise ValueError(f"the size {tag} is {size}; give one from 0 that is below {SIZE_LIMIT}")
    return size


def _solved(
    value: Callable[[Mapping[str, int]], int], known: Mapping[str, int], tag: str, size: int
) -> int:
    """Return the tag at which a size, which grows with it, is first as large as was found."""
    return bisect_left(range(size), size, key=lambda x: value({**known, tag: x}))


def check_workers(workers: Any) -> None:
    """Raise TypeError or ValueError for what is no number of threads."""
    wanted = "give a number of threads from 1, or None"
    if workers is None:
        return
    if isinstance(workers, bool) or not isinstance(workers, int):
        raise TypeError(f"workers is a {type(workers).__name__}; {wanted}")
    if workers < 1:
        raise ValueError(f"workers is {workers}; {wanted}")


def check_positive(sizes: Mapping[str, int]) -> None:
    """Raise ValueError for a size of a mask that is not positive."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"the size {name} is {size}; a mask needs one from 1")


def check_number(name: str, value: Any, positive: bool = False) -> float:
    """Return a scalar as a float, or raise TypeError or ValueError for no finite real number."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} is a {type(value).__name__}; give a real number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} is no finite number; give a finite real number")
    if positive and number <= 0:
        raise ValueError(f"{name} is {number}; give a positive number, as it was declared")
    return number


def check_scalars(dtype: Any, scalars: Mapping[str, Callable[[], Any]]) -> None:
    """Raise ValueError for a scalar of the formula that no element of the arrays can hold.

    >>> check_scalars(np.dtype("float32"), {"1 / c": lambda: 1 / 0})
    Traceback (most recent call last):
    ValueError: 1 / c cannot be computed: it divides by zero
    """
    wide = dtype if dtype.itemsize > 2 else np.dtype("float32")
    for name, compute in scalars.items():
        try:
            value = compute()
            fits = not isinstance(value, complex) and abs(value) <= float(np.finfo(wide).max)
            problem = "" if fits else f"it is no finite real number that {wide} can hold"
        except ZeroDivisionError:
            problem = "it divides by zero"
        except (OverflowError, ValueError):
            problem = "it is no finite real number"
        if problem:
            raise ValueError(f"{name} cannot be computed: {problem}")


def check_maxima(maxima: Mapping[str, int]) -> None:
    """Raise ValueError for a maximum of nothing; the mapping tells of how many numbers each is.

    >>> check_maxima({"max(X)": 0})
    Traceback (most recent call last):
    ValueError: max(X) is a maximum of nothing
    """
    for name, size in maxima.items():
        if size == 0:
            raise ValueError(f"{name} is a maximum of nothing")


def check_out(
    library: Any, out: Any, given: Mapping[str, Any], shape: tuple[int, ...], dtype: Any
) -> None:
    """Raise TypeError or ValueError unless a result can be written to an array.

    >>> check_out(np, np.ones((4, 5)), {}, (4, 6), np.dtype("float64"))
    Traceback (most recent call last):
    ValueError: out is float64 of shape (4, 5); give float64 of shape (4, 6)
    """
    _check_kind(library, "out", out)
    if out.shape != shape or out.dtype != dtype:
        found = f"{out.dtype} of shape {out.shape}"
        raise ValueError(f"out is {found}; give {dtype} of shape {shape}")
    if not getattr(out.flags, "writeable", True):
        raise ValueError("out is read-only; give an array that can be written to")
    if may_share_with_itself(out):
        raise ValueError("out has entries that may share memory; give memory for every entry")
    for name, array in given.items():
        if overlap(out, array, library):
            raise ValueError(f"out is in the memory of {name}; give memory of its own")


def may_share_with_itself(array: Any) -> bool:
    """Tell whether two entries of an array may lie in the same memory.

    They do not where every step is longer than all that shorter steps reach, as in slices and
    transposes of an array with memory for every entry.
    """
    if not array.size:
        return False
    reach = array.itemsize
    axes = zip(array.strides, array.shape, strict=True)
    for step, size in sorted((abs(step), size) for step, size in axes if size > 1):
        if step < reach:
            return True
        reach += (size - 1) * step
    return False


def overlap(array: Any, other: Any, library: Any) -> bool:
    """Tell whether two arrays share memory; where that is too hard to tell, they do."""
    if not library.may_share_memory(array, other):
        return False
    if library is not np:
        return True  # the bounds of both are all that can be compared
    try:
        return np.shares_memory(array, other, max_work=MOST_TRIED)  # pyright: ignore[reportArgumentType]
    except np.exceptions.TooHardError:
        return True
