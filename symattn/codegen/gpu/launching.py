"""The arguments of a fused kernel: strides, leading axes, and what is known before it is compiled.

An array is only looked at here: its shape, its strides and where it begins.  So the same sums serve
NumPy arrays and CuPy arrays, and outlines of arrays that nobody has made yet.

Leading axes are never copied: where an array has none, or one of size one, its stride is 0.  Axes
that lie in memory as one are merged, and a kernel goes through three; more are looped over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from symattn.codegen.gpu.block_sizes import FEWEST_QUERIES
from symattn.codegen.gpu.compiling import Variant
from symattn.codegen.gpu.parameters import LEADING, Parameters, axes_of, padded
from symattn.errors import NotSupportedError

SIDE_BY_SIDE = 16
"""The bytes that are read at once, where an address is a multiple of them."""

MOST_TOKENS = 2**30 - 2**12
"""Queries, or keys, of one head; a whole number of a mask is cut to this, which changes nothing."""

MOST_BLOCKS = 2**31 - 1
"""Of queries, in one launch."""

_TYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64", "bool": "u8"}
"""What Triton calls a dtype."""

Strides = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """A dtype as far as a launch looks at it; ``kind`` is NumPy's letter."""

    name: str
    itemsize: int
    kind: str


@dataclass(frozen=True, slots=True)
class Outline:
    """An array as far as a launch looks at it; strides are in bytes."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Kind


@dataclass(frozen=True, slots=True)
class Layout:
    """Where an array lies: its strides, in elements, of all leading axes, rows and columns.

    ``unit`` is the axis whose entries lie side by side, ``"r"``, ``"c"`` or ``""``, and
    ``aligned`` tells that every step along the others is a multiple of 16 bytes.
    """

    dtype: str
    itemsize: int
    leading: Strides
    rows: int
    columns: int
    unit: str
    aligned: bool


def layout_of(array: Any, address: int, batch: tuple[int, ...]) -> Layout:
    """Return the layout of an array (…, rows, columns) for the leading axes of all arrays.

    >>> import numpy as np
    >>> layout_of(np.zeros((3, 1, 4, 8)).swapaxes(-1, -2), 0, (2, 3, 5))
    Layout(dtype='fp64', itemsize=8, leading=(0, 32, 0), rows=1, columns=8, unit='r', aligned=True)
    """
    size = array.dtype.itemsize
    shape, strides = tuple(array.shape), [stride // size for stride in array.strides]
    own = len(shape) - 2
    leading = [0] * (len(batch) - own)
    leading += [0 if shape[k] == 1 else strides[k] for k in range(own)]
    (rows, columns), (down, along) = shape[-2:], strides[-2:]
    unit = ""
    if columns > 1 and along == 1:
        unit = "c"
    elif rows > 1 and down == 1:
        unit = "r"
    elif columns <= 1:
        unit = "c"
    elif rows <= 1:
        unit = "r"
    down = 1 if unit == "r" else down if rows > 1 else 0
    along = 1 if unit == "c" else along if columns > 1 else 0
    steps = [*leading, *((down,) if unit != "r" else ()), *((along,) if unit != "c" else ())]
    aligned = address % SIDE_BY_SIDE == 0 and all(s * size % SIDE_BY_SIDE == 0 for s in steps)
    dtype = _TYPES[array.dtype.name]
    return Layout(dtype, size, tuple(leading), down, along, unit, aligned)


def merged(
    batch: tuple[int, ...], leading: Sequence[Strides]
) -> tuple[tuple[int, ...], list[Strides]]:
    """Return fewer leading axes, and the strides of each array for them.

    >>> merged((2, 3, 1), [(12, 4, 0), (0, 0, 0)])
    ((6,), [(4,), (0,)])
    """
    axes: list[tuple[int, list[int]]] = []
    for k, size in enumerate(batch):
        if size == 1:
            continue
        steps = [strides[k] for strides in leading]
        if axes and all(
            outer == inner * size for outer, inner in zip(axes[-1][1], steps, strict=True)
        ):
            axes[-1] = (axes[-1][0] * size, steps)
        else:
            axes.append((size, steps))
    sizes = tuple(size for size, _ in axes)
    return sizes, [tuple(steps[k] for _, steps in axes) for k in range(len(leading))]


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything of a call but addresses and numbers.

    ``heads`` is the number of matrices of one launch, ``integers`` and ``strides`` are arguments,
    and ``offsets`` are what to add to the addresses of all arrays, in bytes, for each launch.
    """

    variant: Variant
    heads: int
    n: int
    integers: tuple[int, ...]
    strides: tuple[int, ...]
    offsets: tuple[tuple[int, ...], ...]


def launch_of(
    text: str,
    names: Parameters,
    layouts: Mapping[str, Layout],
    batch: tuple[int, ...],
    *,
    n: int,
    m: int,
    widths: Sequence[int],
    sums: Sequence[int],
    counts: Sequence[int],
    with_sums: bool,
) -> Launch:
    """Return how to launch a kernel for arrays of these layouts.

    ``widths`` are the entries of the vectors of each inner product, then those of values.
    """
    if max(n, m) > MOST_TOKENS:
        raise NotSupportedError(f"more than {MOST_TOKENS} queries or keys of one head")
    sizes, leading = merged(batch, [layout.leading for layout in layouts.values()])
    kept = max(0, len(sizes) - LEADING)
    inner = (1,) * (LEADING - len(sizes)) + sizes[kept:]
    if prod(inner) * -(-n // FEWEST_QUERIES) > MOST_BLOCKS:
        raise NotSupportedError(f"{prod(inner)} heads of {n} queries in one launch")
    strides: dict[str, int] = {}
    types: dict[str, str] = {}
    divisors: list[tuple[str, int]] = []
    constants: list[tuple[str, int | str]] = []
    for (name, layout), steps in zip(layouts.items(), leading, strict=True):
        types[name] = f"*{layout.dtype}"
        if layout.aligned:
            divisors.append((name, SIDE_BY_SIDE))
        values = (0,) * (LEADING - len(sizes)) + steps[kept:]
        given = dict(zip("012rc", (*values, layout.rows, layout.columns), strict=True))
        for axis in axes_of(name):
            label = f"{name}_{axis}"
            if axis == layout.unit:
                constants.append((label, 1))
                continue
            types[label], strides[label] = "i64", given[axis]
            if layout.aligned:
                divisors.append((label, max(1, SIDE_BY_SIDE // layout.itemsize)))
    types |= dict.fromkeys(names.numbers, "fp32") | dict.fromkeys(names.integers, "i32")
    for k, width in enumerate(widths):
        label = "DV" if k == len(widths) - 1 else f"D{k}"
        constants += [(label, width), (f"{label}_WIDE", padded(width))]
    constants += [("SUMS", int(with_sums)), ("PRECISION", "tf32x3")]
    variant = Variant(
        text,
        tuple(types.items()),
        tuple(divisors),
        tuple(constants),
        max(map(padded, widths)),
        layouts["V"].itemsize,
    )
    bounded = (max(-MOST_TOKENS, min(MOST_TOKENS, count)) for count in counts)
    integers = (*bounded, n, m, inner[1], inner[2], *sums)
    offsets = tuple(
        tuple(
            sum(a * step for a, step in zip(at, steps, strict=False)) * layout.itemsize
            for steps, layout in zip(leading, layouts.values(), strict=True)
        )
        for at in product(*map(range, sizes[:kept]))
    )
    return Launch(variant, prod(inner), n, integers, tuple(strides.values()), offsets)
