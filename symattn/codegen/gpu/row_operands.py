"""Where the operands of a blocked plan lie: addresses and steps, and copies of what needs them.

A matrix product reads matrices whose entries stand next to each other along one axis, at positive
steps along the other.  What does not is copied, without its repetitions: an array that is repeated
along leading axes stays one array.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

_LARGEST_STEP = 2**31 - 1  # between columns, which cuBLAS takes in four bytes


class Stack(NamedTuple):
    """Matrices in memory; steps of leading axes are in bytes, those of a matrix in entries.

    ``by_columns`` tells that the entries of a column, and not those of a row, are next to each
    other; ``leading`` is the step from one column, or else from one row, to the next.
    """

    address: int
    dtype: str
    itemsize: int
    steps: tuple[int, ...]
    row: int
    column: int
    columns: int
    by_columns: bool
    leading: int


def stack_of(array: Any, address: int) -> Stack:
    """Return where an array lies."""
    size = array.dtype.itemsize
    rows, columns = array.shape[-2:]
    *steps, row, column = array.strides
    row, column = row // size, column // size
    by_columns = not _next_to_each_other(row, column, rows, columns)
    step, count, other = (column, columns, rows) if by_columns else (row, rows, columns)
    leading = step if count > 1 else max(1, other)
    return Stack(
        address, array.dtype.name, size, tuple(steps), row, column, columns, by_columns, leading
    )


def _next_to_each_other(row: int, column: int, rows: int, columns: int) -> bool:
    """Tell whether a product can read the rows of a matrix as they are."""
    in_row = column == 1 or columns <= 1
    return in_row and (rows <= 1 or max(1, columns) <= row <= _LARGEST_STEP)


def is_whole(array: Any) -> bool:
    """Tell whether all steps are whole entries, as in a field of records they need not be."""
    return all(step % array.dtype.itemsize == 0 for step in array.strides)


def _fits_a_product(array: Any) -> bool:
    """Tell whether a matrix product can read matrices as they are."""
    *steps, row, column = (step // array.dtype.itemsize for step in array.strides)
    rows, columns = array.shape[-2:]
    by_rows = _next_to_each_other(row, column, rows, columns)
    fits = by_rows or _next_to_each_other(column, row, columns, rows)
    return fits and all(step >= 0 for step in steps) and is_whole(array)


def unrepeated(array: Any) -> Any:
    """Return an array without the repetitions along its leading axes, which then have size one."""
    leading = zip(array.shape[:-2], array.strides[:-2], strict=True)
    once = [slice(0, 1) if step == 0 and size > 1 else slice(None) for size, step in leading]
    return array[tuple(once)]


def _as(array: Any, dtype: np.dtype[Any], library: ModuleType) -> Any:
    """Return a copy of an array of a dtype, in the order of its axes, repeated as it is."""
    copy = unrepeated(array).astype(dtype, order="C")
    return library.broadcast_to(copy, array.shape)


def of_dtype(array: Any, dtype: np.dtype[Any], library: ModuleType) -> Any:
    """Return an array of a dtype that a kernel can read: itself, or a copy."""
    return array if array.dtype == dtype and is_whole(array) else _as(array, dtype, library)


def multiplied(array: Any, dtype: np.dtype[Any], library: ModuleType) -> Any:
    """Return an array of a dtype that a matrix product can read: itself, or a copy."""
    if array.dtype == dtype and _fits_a_product(array):
        return array
    return _as(array, dtype, library)


def beside(array: Any, dtype: np.dtype[Any], library: ModuleType) -> Any:
    """Return an array whose columns have their entries next to each other: itself, or a copy."""
    if array.dtype == dtype and array.strides[-2] == dtype.itemsize and is_whole(array):
        return array
    return _as(array.swapaxes(-1, -2), dtype, library).swapaxes(-1, -2)


def merged(
    batch: Sequence[int], steps: Iterable[tuple[int, ...]]
) -> list[tuple[int, tuple[int, ...]]]:
    """Return leading axes, those that follow each other in all arrays as one: sizes and steps.

    >>> merged((2, 3, 4), [(96, 32, 8), (0, 32, 8)])
    [(2, (96, 0)), (12, (8, 8))]
    """
    axes: list[tuple[int, tuple[int, ...]]] = []
    for size, *each in zip(batch, *steps, strict=True):
        if size == 1:
            continue
        if axes and all(
            before == step * size for before, step in zip(axes[-1][1], each, strict=True)
        ):
            axes[-1] = axes[-1][0] * size, tuple(each)
        else:
            axes.append((size, tuple(each)))
    return axes
