"""Arrays for a formula: random ones, or those of an .npz file, read without ever unpickling.

A file may hold more than the inputs: arrays that the formula computes (they are compared) and
``tokens`` (they are labels).  All of them together say which layout the arrays are in: row-major
arrays of a column formula are transposed, if they fit only so.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from symattn.cli.checking import ArrayInput
from symattn.cli.printing import printable
from symattn.cli.refusals import Refused
from symattn.errors import SizeError
from symattn.nodes import BooleanInput, InputVector, Node, Transposed
from symattn.notation.layouts import other_layout
from symattn.notation.names import identifier
from symattn.tags import Equation, Size, nearest, solve
from symattn.variants import Formula
from symattn.variants.known import Input
from symattn.variants.layouts import layout_named

Array = np.ndarray[Any, np.dtype[Any]]

# What files call the parts of a formula.
COMPARED: Mapping[str, Callable[[Formula], Node]] = {
    "scores": lambda formula: formula.scores,
    "weights": lambda formula: formula.weights,
    "context": lambda formula: formula.context,
    "output": lambda formula: formula.expr,
}
LABELS = "tokens"

_DTYPES = ("float16", "float32", "float64")
_ALLOWED = 0.8
"""Which part of a random mask is True."""
_BYTES_OF_A_LIST_ENTRY = 32
"""Of a Python float in a list, as the loops hold them."""


@dataclass(frozen=True, slots=True)
class Arrays:
    """Arrays that fit a formula: inputs, what to compare with, labels, sizes of the tags."""

    inputs: dict[ArrayInput, Array]
    compared: dict[str, Array]
    labels: tuple[str, ...]
    sizes: dict[str, int]
    layout: str
    unused: tuple[str, ...] = ()
    scalars: Mapping[str, float] = field(default_factory=dict[str, float])


def random_arrays(
    formula: Formula, sizes: dict[str, int], seed: int, dtype: str, given: Mapping[str, float]
) -> Arrays:
    """Return standard normal arrays of these sizes; masks allow four pairs of five.

    Scalars that are not given are between a half and two.
    """
    refuse_too_large(formula, sizes, np.dtype(dtype).itemsize)
    random = np.random.default_rng(seed)
    inputs: dict[ArrayInput, Array] = {}
    for symbol in formula.inputs:
        shape = [size.value(sizes) for size in _axes(symbol)]
        inputs[symbol] = random.standard_normal(shape).astype(dtype)
    for mask in formula.masks:
        inputs[mask] = random.random([size.value(sizes) for size in mask.sizes]) < _ALLOWED
    scalars = {s.name: float(random.uniform(0.5, 2)) for s in formula.scalars}
    return Arrays(inputs, {}, (), sizes, formula.layout, scalars={**scalars, **given})


def _axes(symbol: Input) -> tuple[Size, ...]:
    """Return the sizes of the axes of an input's array: a vector has one, a family three."""
    return symbol.sizes[:1] if isinstance(symbol, InputVector) else symbol.sizes


def refuse_too_large(formula: Formula, sizes: Mapping[str, int], itemsize: int) -> None:
    """Raise if inputs and intermediate results would not fit into half of the free memory."""
    entries = 0
    for node in formula.expr.walk():
        if not isinstance(node, Transposed):  # a view of what is counted already
            entries += _count(array_sizes(node), sizes)
    needed = entries * itemsize
    needed += _BYTES_OF_A_LIST_ENTRY * sum(_count(s.sizes, sizes) for s in formula.inputs)
    limit = _free_memory() // 2
    if needed > limit:
        written = ", ".join(f"{tag}={size}" for tag, size in sizes.items())
        raise Refused(
            f"{formula.name} with {written} needs about {_bytes(needed)} of memory; "
            f"at most {_bytes(limit)} are used, half of what is free"
        )


def array_sizes(node: Node) -> tuple[Size, ...]:
    """Return the sizes of the axes of a result: those of its heads, then rows and columns."""
    return (*(index.size for index in node.indices), *node.sizes)


def _count(axes: Sequence[Size], sizes: Mapping[str, int]) -> int:
    return prod(size.value(sizes) for size in axes)


def _free_memory() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not every system says
        return 8 << 30


def _bytes(number: int) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if number < 1024:
            return f"{number} {unit}"
        number = -(-number // 1024)
    return f"{number} EiB" if number < 1024 else "far too much"


def arrays_of_file(
    formula: Formula, path: str, given: dict[str, int], layout: str | None, dtype: str | None
) -> Arrays:
    """Return the arrays of a file in the formula's own layout.

    Raises `Refused` for a file or an array that cannot be taken, `SizeError` for sizes that
    do not fit together.
    """
    names = {identifier(symbol.label): symbol for symbol in formula.inputs}
    masks = {identifier(mask.label): mask for mask in formula.masks}
    held, unused = read_npz(path, {*names, *masks, *COMPARED, LABELS})
    missing = [name for name in (*names, *masks) if name not in held]
    if missing:
        there = (*held, *unused)
        near = [f"{other} for {name}" for name in missing for other in nearest(name, there, 1)]
        raise Refused(
            f"{path} lacks {', '.join(missing)}; it holds {', '.join(there) or 'nothing'}"
            + (f" (did you mean {', '.join(near)}?)" if near else "")
        )
    labels = _labels(held.pop(LABELS, None))
    booleans = {mask: _booleans(name, held.pop(name), mask) for name, mask in masks.items()}
    matrices = {
        name: _checked(
            name,
            array,
            dtype if name in names else None,
            _axes(names[name]) if name in names else array_sizes(COMPARED[name](formula)),
        )
        for name, array in held.items()
    }
    found: dict[Input, Array] = {symbol: matrices[name] for name, symbol in names.items()}
    compared = {name: matrices[name] for name in COMPARED if name in matrices}
    sizes, layout = _fitted(formula, {**found, **booleans}, compared, len(labels), given, layout)
    if layout != formula.layout:
        shared = {symbol for symbol in formula.inputs if not _twinned(formula, symbol)}
        found = {s: a if s in shared else a.swapaxes(-1, -2) for s, a in found.items()}
        compared = {name: array.swapaxes(-1, -2) for name, array in compared.items()}
    refuse_too_large(formula, sizes, max(array.dtype.itemsize for array in found.values()))
    inputs: dict[ArrayInput, Array] = {**found, **booleans}
    return Arrays(inputs, compared, labels, sizes, layout, unused)


def _twinned(formula: Formula, symbol: Input) -> bool:
    """Tell whether an input is transposed from one layout to the other."""
    twins = formula.twins.items()
    return any(symbol in (row.source, *column.inputs()) for row, column in twins)


def _fitted(
    formula: Formula,
    inputs: Mapping[ArrayInput, Array],
    compared: Mapping[str, Array],
    labels: int,
    given: dict[str, int],
    layout: str | None,
) -> tuple[dict[str, int], str]:
    """Return the sizes of the tags and the layout in which the arrays are read."""
    own = formula.layout
    tried = [own, other_layout(own)] if layout is None else [layout]
    first: SizeError | None = None
    for name in tried:
        try:
            return _solved(formula, inputs, compared, labels, given, turned=name != own), name
        except SizeError as error:
            first = first or error
    assert first is not None
    raise first


def _solved(
    formula: Formula,
    inputs: Mapping[ArrayInput, Array],
    compared: Mapping[str, Array],
    labels: int,
    given: dict[str, int],
    *,
    turned: bool,
) -> dict[str, int]:
    equations: list[Equation] = []

    def add(name: str, axes: tuple[Size, ...], shape: Sequence[int], turned: bool) -> None:
        sizes = (*axes[:-2], *axes[:-3:-1]) if turned else axes
        sides = ("rows",) if len(sizes) == 1 else (*["heads"] * (len(sizes) - 2), "rows", "columns")
        for size, number, side in zip(sizes, shape, sides, strict=True):
            equations.append(Equation(size, number, f"{name}'s {side}"))

    for symbol, array in inputs.items():
        if isinstance(symbol, BooleanInput):  # queries by keys in either layout
            axes = zip(symbol.sizes, array.shape, strict=True)
            equations += [Equation(s, k, f"{symbol.label}'s axes") for s, k in axes]
            continue
        own = turned and _twinned(formula, symbol)
        add(identifier(symbol.label), _axes(symbol), array.shape, own)
    for name, array in compared.items():
        add(name, array_sizes(COMPARED[name](formula)), array.shape, turned)
    if labels:
        queries = layout_named(formula.layout).token_count(formula.operands[0])
        equations.append(Equation(queries, labels, LABELS))
    equations += [
        Equation(Size.tag(tag) - size, 0, f"the relation {tag} = {size}")
        for tag, size in formula.relations
    ]
    solved = solve(equations, given)
    return {dim.name: solved[dim.name] for dim in formula.dims}


def _checked(name: str, array: Array, dtype: str | None, axes: Sequence[Size]) -> Array:
    """Return a matrix of finite floats in a dtype, its own if there is none; raise if it is not."""
    if array.dtype.name not in _DTYPES or not array.dtype.isnative:
        raise Refused(
            f"{name} has dtype {array.dtype}; a formula runs on {', '.join(_DTYPES)} "
            "(convert with .astype)"
        )
    if array.ndim != len(axes):
        several = f"it takes ({', '.join(map(str, axes))})"
        needs = {1: "a vector has one", 2: "a matrix has two"}.get(len(axes), several)
        raise Refused(f"{name} has {array.ndim} axes, of sizes {array.shape}; {needs}")
    if not array.size:
        raise Refused(f"{name} is empty, of sizes {array.shape}")
    with np.errstate(over="ignore"):  # what overflows is infinite, and refused as such
        cast = array.astype(dtype or array.dtype)
    if not np.isfinite(cast).all():
        raise Refused(f"{name} holds values that are not finite as {cast.dtype}")
    return cast


def _booleans(name: str, array: Array, mask: BooleanInput) -> Array:
    """Return the array of a mask; raise if it is not one of booleans with its axes."""
    if array.dtype != np.bool_:
        raise Refused(
            f"{name} has dtype {array.dtype}; a mask is of booleans, True where it may attend"
        )
    if array.ndim != len(mask.sizes):
        axes = ", ".join(map(str, mask.sizes))
        raise Refused(f"{name} has {array.ndim} axes, of sizes {array.shape}; it takes ({axes})")
    return array


def _labels(array: Array | None) -> tuple[str, ...]:
    if array is None:
        return ()
    if array.dtype.kind not in "US" or array.ndim != 1:
        raise Refused(
            f"{LABELS} has dtype {array.dtype} and {array.ndim} axes; labels are a list of text"
        )
    return tuple(
        label.decode("utf-8", "replace") if isinstance(label, bytes) else str(label)
        for label in array.tolist()
    )


_PICKLED = (
    "holds Python objects (pickled), which run code when they are read; "
    "save plain arrays: np.savez(FILE, Q=..., K=..., V=...)"
)


def read_npz(path: str, wanted: Collection[str]) -> tuple[dict[str, Array], tuple[str, ...]]:
    """Return the wanted arrays of an .npz file by name, and the names of what was not read.

    Raises `Refused` for what is not such a file, for pickled objects, and for files larger
    than half of the free memory.
    """
    if not Path(path).is_file():
        raise Refused(f"there is no file {printable(path)}")
    try:
        if not zipfile.is_zipfile(path):
            raise Refused(_no_archive(path))
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > _free_memory() // 2:
            raise Refused(f"{path} unpacks to {_bytes(size)}, more than half of free memory")
        with np.load(path, allow_pickle=False) as held:
            arrays = {name: _member(path, name, held) for name in held.files if name in wanted}
            return arrays, tuple(printable(name) for name in held.files if name not in wanted)
    except Refused:
        raise
    except Exception as error:  # what a damaged archive makes the readers raise is not written down
        raise Refused(f"{path} cannot be read: {_one_line(error)}") from error


def _member(path: str, name: str, held: Mapping[str, Any]) -> Array:
    try:
        array = held[name]
    except Exception as error:  # nor what a damaged array does
        if "allow_pickle" in str(error):
            raise Refused(f"{path}: {name} {_PICKLED}") from error
        raise Refused(f"{path}: {name} cannot be read: {_one_line(error)}") from error
    if not isinstance(array, np.ndarray):  # a member that is not an array comes as bytes
        raise Refused(f"{path}: {name} is not an array")
    return array


def _no_archive(path: str) -> str:
    with Path(path).open("rb") as file:
        start = file.read(6)
    if start == b"\x93NUMPY":
        return f"{path} is a single array (.npy); save several: np.savez(FILE, Q=..., K=..., V=...)"
    if start[:1] == b"\x80":
        return f"{path} {_PICKLED}"
    return f"{path} is not an .npz file; save one with np.savez(FILE, Q=..., K=..., V=...)"


def _one_line(error: BaseException) -> str:
    return printable(" ".join(str(error).split())) or type(error).__name__
