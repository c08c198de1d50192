"""Softmax-weighted sums on a device, in strips of queries; generated source for CuPy imports this.

For some heads and a strip of queries: a matrix product leaves inner products with the keys that the
strip sees, a kernel makes them weights (`symattn.codegen.gpu.rows_code`), a second product sums
values, and a last kernel divides.  Scores are never one matrix: the memory of a strip is used again
for the next.  Numbers of two bytes are multiplied as they are and summed in float32.

Nothing waits for the device: what depends on values is decided in kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symattn.codegen.gpu.row_device import CuPyDevice
from symattn.codegen.gpu.row_kernels import FINISH, PRELUDE
from symattn.codegen.gpu.row_operands import (
    Stack,
    beside,
    is_whole,
    merged,
    multiplied,
    of_dtype,
    stack_of,
    unrepeated,
)
from symattn.codegen.gpu.row_strips import (
    AT_ONCE,
    Keys,
    Strip,
    heads_of,
    parts_of,
    strips_of,
    threads_for,
)

DEVICE = CuPyDevice()

_TYPES = {"float16": "half16", "float32": "float", "float64": "double"}
"""What dtypes are called in kernels."""

_AXES = {"": slice(0), "i": slice(0, 1), "j": slice(1, 2), "ij": slice(0, 2)}
"""Which steps of a matrix are those along rows i and columns j."""


# What scores are made from; every array has all leading axes.


@dataclass(frozen=True, slots=True)
class Dots:
    """Inner products of queries (…, n, d) and keys (…, m, d), times a number."""

    queries: Any
    keys: Any
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Entries:
    """A number or truth value of each query (…, n, 1), of each key (…, m, 1), or pair (…, n, m)."""

    array: Any
    of_pairs: bool = False


@dataclass(frozen=True, slots=True)
class PairSums:
    """Sums over the entries of vectors: of queries (…, n, d), of keys (…, m, d), or of neither.

    ``weights`` are (…, 1, d); those of neither are (…, 1, d) too, and not repeated.
    """

    weights: Any
    of_queries: Sequence[Any] = ()
    of_keys: Sequence[Any] = ()
    of_neither: Sequence[Any] = ()


Leaf = Dots | Entries | PairSums


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of n queries and m keys: the kernel that makes weights, and what it is given.

    ``numbers`` are scalars of the scores and ``sizes`` whole ones.  Where they are ``masked``, a
    value has no influence where it has no weight.  Inner products stand ``apart`` from weights
    where they are read again.  Weights are kept in two bytes if values are, but not if they are
    ``reweighed``, which may make them larger.
    """

    kernel: str
    n: int
    m: int
    leaves: Sequence[Leaf]
    numbers: Sequence[float] = ()
    sizes: Sequence[int] = ()
    masked: bool = False
    apart: bool = False
    reweighed: bool = False


def spread(*arrays: Any) -> tuple[Any, ...]:
    """Return the leading axes of some stacks of matrices together, and each with all of them."""
    batch = np.broadcast_shapes(*(x.shape[:-2] for x in arrays))
    return batch, *(DEVICE.library.broadcast_to(x, batch + x.shape[-2:]) for x in arrays)


def weighted_sums(
    scores: Scores, values: Any, out: Any, wide: Any, *, keys: Keys | None = None, lse: Any = None
) -> None:
    """Write softmax(s) v for n queries to ``out`` (…, n, d_v), and log Σ exp(s) to ``lse`` (…, n).

    Values v are (…, m, d_v), ``wide`` is the dtype that is computed in, and ``keys`` tells which
    keys a strip of queries sees, where it does not see all.
    """
    wide = np.dtype(wide)
    written = out.dtype.name in _TYPES and is_whole(out)
    result = out if written else DEVICE.library.empty(out.shape, wide)
    sums = _Sums(scores, values, result, lse, wide)
    strips = strips_of(scores.n, scores.m, keys, sums.buffers * wide.itemsize)
    for strip in strips:
        if strip.width == 0:  # nothing is seen
            result[..., strip.i0 : strip.i1, :] = 0
            if lse is not None:
                lse[..., strip.i0 : strip.i1] = -np.inf
    strips = [strip for strip in strips if strip.width]
    if strips and 0 not in out.shape[:-2]:
        sums.run(strips)
    if not written:
        out[...] = result


class _Sums:
    """One call: where its operands lie, and what is done for some heads and a strip."""

    def __init__(
        self, scores: Scores, values: Any, out: Any, lse: Any, wide: np.dtype[Any]
    ) -> None:
        self.library, self.wide, self.apart = DEVICE.library, wide, scores.apart
        self.last = [*(wide.type(number) for number in scores.numbers), *scores.sizes]
        self.one = np.ones(1, wide)
        self.batch = out.shape[:-2]
        self.arrays: list[Any] = []
        """Alive as long as their addresses are used."""
        self.stacks: list[Stack] = []
        leaves = scores.leaves
        pairs = [leaf.array for leaf in leaves if isinstance(leaf, Entries) and leaf.of_pairs]
        narrow = {array.dtype.name for array in pairs if array.dtype != bool} == {"float16"}
        self.entry = np.dtype("float16") if narrow else wide
        self.dots: list[tuple[int, int, Any]] = []
        self.others: list[int | tuple[int, str]] = []
        """What the kernel is given of other leaves: a size, or an operand and its axes."""
        for leaf in leaves:
            self.read(leaf)
        self.buffers = max(1, len(self.dots) + scores.apart)
        half = values.dtype.name == "float16" and not scores.reweighed
        self.weight = np.dtype("float16") if half else wide
        values = multiplied(values, self.weight, self.library)
        self.values, self.out = self.stack(values), self.stack(out)
        self.lse = None if lse is None else self.stack(lse[..., None])
        self.finite = self.stack(self.all_finite(values)) if scores.masked else None
        self.kernels = self.compiled(scores.kernel)

    def stack(self, array: Any) -> int:
        """Return the number of an operand."""
        self.arrays.append(array)
        self.stacks.append(stack_of(array, DEVICE.pointer(array)))
        return len(self.stacks) - 1

    def read(self, leaf: Leaf) -> None:
        """Find where what the scores are made from lies."""
        wide, library = self.wide, self.library
        match leaf:
            case Dots(queries, keys, factor):
                narrow = queries.dtype.name == keys.dtype.name == "float16"
                dtype = np.dtype("float16") if narrow else wide
                q, k = (self.stack(multiplied(x, dtype, library)) for x in (queries, keys))
                self.dots.append((q, k, np.array([factor], wide)))
            case Entries(array, of_pairs):
                if array.dtype != bool:
                    array = of_dtype(array, self.entry if of_pairs else wide, library)
                self.others.append((self.stack(array), "ij" if of_pairs else "i"))
            case PairSums(weights, of_queries, of_keys, of_neither):
                self.others.append(weights.shape[-1])
                self.others.append((self.stack(of_dtype(weights, wide, library)), "j"))
                for array in of_queries:
                    self.others.append((self.stack(of_dtype(array, wide, library)), "ij"))
                for array in of_keys:  # threads read what is next to each other
                    self.others.append((self.stack(beside(array, wide, library)), "ij"))
                for array in of_neither:
                    self.others.append((self.stack(of_dtype(array, wide, library)), "j"))

    def all_finite(self, values: Any) -> Any:
        """Return for every head whether all its values are finite numbers."""
        finite = self.library.isfinite(unrepeated(values)).all(axis=(-2, -1))
        return self.library.broadcast_to(finite[..., None, None], (*values.shape[:-2], 1, 1))

    # All strips.

    def run(self, strips: Sequence[Strip]) -> None:
        """Do all strips of all heads; heads that follow each other in memory go together."""
        axes = merged(self.batch, [stack.steps for stack in self.stacks])
        axes = axes or [(1, (0,) * len(self.stacks))]
        heads, self.steps = axes.pop(axes.index(max(axes)))
        group = heads_of(heads, strips, self.buffers * self.wide.itemsize)
        self.take_memory(group, strips)
        for corner in np.ndindex(*(size for size, _ in axes)):
            places = [stack.address for stack in self.stacks]
            for at, (_, steps) in zip(corner, axes, strict=True):
                places = [place + at * step for place, step in zip(places, steps, strict=True)]
            for first in range(0, heads, group):
                here = [p + first * step for p, step in zip(places, self.steps, strict=True)]
                for strip in strips:
                    self.strip(here, min(group, heads - first), strip)

    def compiled(self, rows: str) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
        """Return the two kernels: source, name, and options of the compiler."""
        types = {"REAL": self.wide.name, "WEIGHT": self.weight.name, "ENTRY": self.entry.name}
        stacks = {"VALUE": self.stacks[self.values], "OUT": self.stacks[self.out]}
        more = {name: stack.dtype for name, stack in stacks.items()}
        options, all_options = (
            tuple(f"-D{name}={_TYPES[dtype]}" for name, dtype in defined.items())
            for defined in (types, types | more)
        )
        return (PRELUDE + rows, "rows", options), (PRELUDE + FINISH, "finish", all_options)

    def take_memory(self, heads: int, strips: Sequence[Strip]) -> None:
        """Take the memory of a strip, as much as any needs."""
        sizes = [
            (strip.rows, strip.pitch, parts_of(heads, strip, self.columns)) for strip in strips
        ]
        scores = self.buffers * heads * max(rows * pitch for rows, pitch, _ in sizes)
        sums = heads * self.columns * max(rows * parts for rows, _, (parts, _) in sizes)
        counts = (scores, sums, heads * max(rows for rows, _, _ in sizes))
        self.memory = [self.library.empty(count, self.wide) for count in counts]
        self.addresses = tuple(map(DEVICE.pointer, self.memory))

    @property
    def columns(self) -> int:
        """The number of entries of a value."""
        return self.stacks[self.out].columns

    # One strip of some heads; places are the addresses of operands of the first of them.

    def strip(self, places: Sequence[int], heads: int, strip: Strip) -> None:
        """Compute the results of one strip."""
        scores, sums, totals = self.addresses
        apart = heads * strip.rows * strip.pitch
        for number, dot in enumerate(self.dots, start=int(self.apart)):
            into = scores + number * apart * self.wide.itemsize
            self.inner_products(places, heads, strip, dot, into)
        rows, finish = self.kernels
        grid, threads = (strip.rows, heads), threads_for(-(-strip.width // AT_ONCE))
        given = [scores, apart, strip.pitch, strip.width, strip.i0, strip.j0, totals]
        given += self.given(places, self.lse, "i")
        for other in self.others:
            given += self.given(places, *other) if isinstance(other, tuple) else (other,)
        DEVICE.launch(rows, grid, threads, [*given, *self.last])
        if self.columns == 0:
            return
        pitch = strip.pitch * self.wide.itemsize // self.weight.itemsize
        parts, size = parts_of(heads, strip, self.columns)
        self.sum_values(places, heads, strip, (scores, pitch), (sums, parts, size))
        given = [sums, parts, heads * strip.rows * self.columns]
        given += [scores, pitch, strip.width, totals]
        given += self.given(places, self.values, "ij", strip.j0)
        given += self.given(places, self.finite, "")
        given += self.given(places, self.out, "ij", strip.i0)
        DEVICE.launch(finish, grid, threads_for(self.columns), [*given, self.columns])

    def given(
        self, places: Sequence[int], number: int | None, along: str, row: int = 0
    ) -> tuple[int, ...]:
        """Return the address of an operand from a row on, and its steps, from head to head first.

        Of an operand that is not there, all are 0.
        """
        if number is None:
            return (0, 0, *(0 for _ in along))
        stack = self.stacks[number]
        steps = (stack.row, stack.column)[_AXES[along]]
        address = places[number] + row * stack.row * stack.itemsize
        return address, self.steps[number] // stack.itemsize, *steps

    def matrix(self, places: Sequence[int], number: int, row: int) -> tuple[int, str, int, int]:
        """Return an operand of a product, from a row on."""
        stack = self.stacks[number]
        address, head = self.given(places, number, "", row)
        return address, stack.dtype, stack.leading, head

    def inner_products(
        self, places: Sequence[int], heads: int, strip: Strip, dot: tuple[int, int, Any], into: int
    ) -> None:
        """Write inner products: a matrix (keys, queries) as columns are stored."""
        q, k, factor = dot
        queries, keys = self.stacks[q], self.stacks[k]
        if keys.columns == 0:
            self.memory[0][...] = 0
            return
        DEVICE.product(
            (not keys.by_columns, queries.by_columns),
            (strip.width, strip.rows, keys.columns),
            factor,
            self.matrix(places, k, strip.j0),
            self.matrix(places, q, strip.i0),
            (into, self.wide.name, strip.pitch, strip.rows * strip.pitch),
            heads,
        )

    def sum_values(
        self,
        places: Sequence[int],
        heads: int,
        strip: Strip,
        weights: tuple[int, int],
        sums: tuple[int, int, int],
    ) -> None:
        """Write the products of weights and values: (entries of values, queries) by columns.

        Those of all heads at once, or, where keys are split, those of all parts of one head.
        """
        (scores, pitch), (out, parts, size) = weights, sums
        stack, columns, rows = self.stacks[self.values], self.columns, strip.rows
        values, dtype, leading, head = self.matrix(places, self.values, strip.j0)
        w = self.weight

        def product(
            head_at: int, part: int, width: int, steps: tuple[int, ...], count: int
        ) -> None:
            first = values + (head_at * head + part * size * stack.row) * stack.itemsize
            second = scores + (head_at * rows * pitch + part * size) * w.itemsize
            third = out + (part * heads + head_at) * rows * columns * self.wide.itemsize
            DEVICE.product(
                (stack.by_columns, False),
                (columns, rows, width),
                self.one,
                (first, dtype, leading, steps[0]),
                (second, w.name, pitch, steps[1]),
                (third, self.wide.name, columns, steps[2]),
                count,
            )

        if parts == 1:
            product(0, 0, strip.width, (head, rows * pitch, rows * columns), heads)
            return
        steps = (size * stack.row, size, heads * rows * columns)
        whole, rest = divmod(strip.width, size)
        for at in range(heads):
            product(at, 0, size, steps, whole)
            if rest:
                product(at, whole, rest, steps, 1)
