"""A softmax-weighted sum by one kernel: the function that generated source calls.

`fused_kernel` takes the source of a kernel (`symattn.codegen.gpu.triton_code`) and gives a function
of arrays.  What a kernel needs in memory is seen to here: values, and factors of inner products,
are of one dtype of two bytes or float32, and the entries of a token, or those of a feature, lie
side by side.  An array for which that is not so is copied; leading axes are never repeated.

A *machine* has the memory and runs kernels.  There is one for CuPy; what tests use in its place
runs the same source on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from symattn.codegen.gpu.cache import Cache
from symattn.codegen.gpu.compiling import Variant, cubin_of
from symattn.codegen.gpu.launching import Launch, launch_of, layout_of
from symattn.codegen.gpu.parameters import parameters
from symattn.codegen.gpu.triton_code import Dots
from symattn.errors import NotSupportedError

DTYPES = ("float16", "bfloat16", "float32")
"""The dtypes in which a kernel takes factors of products."""

REMEMBERED = 256  # layouts of earlier calls, for which it is known how to launch

_SINGLE = np.dtype(np.float32)  # of log Σ exp(scores)

Run = Callable[[int, Sequence[int], Launch, Sequence[float]], None]
"""Runs so many matrices from these addresses, for a launch with these numbers."""


class Machine(Protocol):
    """Memory, and what runs kernels."""

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return a new array."""
        ...

    def address(self, array: Any) -> int:
        """Return where an array begins."""
        ...

    def kernel(self, variant: Variant) -> Run:
        """Return what runs a kernel."""
        ...

    @property
    def place(self) -> int:
        """The device that is used now."""
        ...


class FusedKernel:
    """A kernel as a function of arrays; see `symattn.codegen.gpu.triton_code.KernelText`."""

    def __init__(
        self, text: str, axis: int, dots: Dots, sums: tuple[int, ...], machine: Machine | None
    ) -> None:
        self.text, self.axis, self.dots, self.sums = text, axis, dots, sums
        self.machine: Machine = machine or CupyMachine()
        self.multiplied = {operand for dot in dots for operand in (dot[0], dot[2])}
        self.earlier: dict[Any, tuple[Launch, Run]] = {}

    def __call__(
        self,
        values: Any,
        *operands: Any,
        n: int,
        dtype: Any = None,
        result: Any = None,
        masks: Sequence[Any] = (),
        numbers: Sequence[float] = (),
        counts: Sequence[int] = (),
        out: Any = None,
        lse: bool = False,
    ) -> Any:
        """Return the weighted sums of values for n queries, or these and log Σ exp(scores).

        ``dtype`` is that in which factors are multiplied (the values' own), ``result`` that of the
        result (the same).  ``numbers`` and ``counts`` are the scalars of the kernel, in its order.
        """
        dtype = values.dtype if dtype is None else dtype
        if dtype.name not in DTYPES:
            raise NotSupportedError(f"{dtype.name} in one kernel, which computes in float32")
        arrays = [self.ready(values, dtype)]
        for number, operand in enumerate(operands):
            ready = number in self.multiplied
            arrays.append(self.ready(operand, dtype) if ready else operand)
        arrays += masks
        batch = np.broadcast_shapes(*(x.shape[:-2] for x in arrays))
        m, width = arrays[0].shape[-2:] if self.axis == 0 else arrays[0].shape[:-3:-1]
        shape = (n, width) if self.axis == 0 else (width, n)
        if out is None:
            out = self.machine.empty((*batch, *shape), result or dtype)
        sums = self.machine.empty((*batch, n), _SINGLE) if lse else None
        if m == 0:  # no key: zeros
            out[...] = 0
            if sums is not None:
                sums[...] = -np.inf
        elif n and 0 not in batch:
            self.run(arrays, out, sums, batch, n, m, numbers, counts)
        return out if sums is None else (out, sums)

    def ready(self, array: Any, dtype: Any) -> Any:
        """Return an array that can be a factor: itself, wherever that is possible."""
        if array.dtype != dtype:
            array = array.astype(dtype)
        size = array.dtype.itemsize
        steps = zip(array.shape[-2:], array.strides[-2:], strict=True)
        if any(step == size or length <= 1 for length, step in steps):
            return array
        own = tuple(
            slice(0, 1) if step == 0 and length > 1 else slice(None)
            for length, step in zip(array.shape[:-2], array.strides[:-2], strict=True)
        )
        return array[own].copy()  # what is repeated along leading axes is copied once

    def run(
        self,
        arrays: Sequence[Any],
        out: Any,
        sums: Any,
        batch: tuple[int, ...],
        n: int,
        m: int,
        numbers: Sequence[float],
        counts: Sequence[int],
    ) -> None:
        """Launch the kernel, as often as there are leading axes that it does not go through."""
        lse = out if sums is None else sums[..., None]  # (…, n, 1): it has to point somewhere
        given = [out, lse, *arrays]
        places = [self.machine.address(x) for x in given]
        alike = (
            self.machine.place,
            sums is None,
            tuple(counts),
            len(numbers),
            n,
            *[(x.shape, x.strides, x.dtype) for x in given],
            *[place % 16 for place in places],
        )
        found = self.earlier.get(alike)
        if found is None:
            launch = self.launch(given, places, batch, sums is not None, n, m, len(numbers), counts)
            found = launch, self.machine.kernel(launch.variant)
            if len(self.earlier) >= REMEMBERED:
                self.earlier.clear()
            self.earlier[alike] = found
        launch, run = found
        for offsets in launch.offsets:
            starts = [place + offset for place, offset in zip(places, offsets, strict=True)]
            run(launch.heads, starts, launch, numbers)

    def launch(
        self,
        given: Sequence[Any],
        places: Sequence[int],
        batch: tuple[int, ...],
        with_sums: bool,
        n: int,
        m: int,
        numbers: int,
        counts: Sequence[int],
    ) -> Launch:
        """Return how to launch the kernel for these arrays."""
        _, _, values, *operands = given
        masks = sum(x.dtype.kind == "b" for x in operands)
        operands = operands[: len(operands) - masks]
        names = parameters(
            operands=len(operands),
            masks=masks,
            dots=len(self.dots),
            sums=len(self.sums),
            numbers=numbers,
            counts=len(counts),
        )
        layouts = {
            name: layout_of(x, place, batch)
            for name, x, place in zip(names.arrays, given, places, strict=True)
        }
        widths = [operands[query].shape[-1 - axis] for query, axis, _, _ in self.dots]
        return launch_of(
            self.text,
            names,
            layouts,
            batch,
            n=n,
            m=m,
            widths=[*widths, values.shape[-1 - self.axis]],
            sums=[operands[weight].shape[-1] for weight in self.sums],
            counts=counts,
            with_sums=with_sums,
        )


class CupyMachine:
    """The CUDA device that CuPy uses now, and its current stream."""

    def __init__(self) -> None:
        self.kernels: dict[tuple[Variant, int], Run] = {}

    @property
    def place(self) -> int:
        """The number of the device."""
        import cupy  # pyright: ignore[reportMissingImports]

        return cupy.cuda.runtime.getDevice()

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return a new array on the device."""
        import cupy  # pyright: ignore[reportMissingImports]

        return cupy.empty(shape, dtype)

    def address(self, array: Any) -> int:
        """Return where an array begins on the device."""
        return array.data.ptr

    def kernel(self, variant: Variant) -> Run:
        """Return the kernel, compiled if the cache does not have it, and loaded."""
        key = variant, self.place
        if key not in self.kernels:
            self.kernels[key] = self.loaded(variant)
        return self.kernels[key]

    def loaded(self, variant: Variant) -> Run:
        import cupy  # pyright: ignore[reportMissingImports]

        capability = int(cupy.cuda.Device().compute_capability)
        cubin, path = cubin_of(variant, capability, Cache())
        function = cupy.RawModule(path=str(path)).get_function(cubin.name)
        function.max_dynamic_shared_size_bytes = cubin.shared
        threads = (32 * cubin.warps,)
        nothing = np.uint64(0)  # the scratch memory that Triton's kernels take last

        def run(
            heads: int, starts: Sequence[int], launch: Launch, numbers: Sequence[float]
        ) -> None:
            given = [
                *map(np.uint64, starts),
                *map(np.float32, numbers),
                *map(np.int32, launch.integers),
                *map(np.int64, launch.strides),
                nothing,
                nothing,
            ]
            grid = (heads * -(-launch.n // cubin.queries),)
            function(grid, threads, tuple(given), shared_mem=cubin.shared)

        return run


@lru_cache(maxsize=256)
def fused_kernel(
    text: str, *, axis: int, dots: Dots = (), sums: tuple[int, ...] = ()
) -> FusedKernel:
    """Return the function of a kernel, the same for the same source."""
    return FusedKernel(text, axis, dots, sums, None)
