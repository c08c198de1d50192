"""A stand-in for the device of the blocked plan: NumPy's memory, and kernels through g++.

Products take the arguments that cuBLAS takes, and refuse what it would refuse; kernels are the very
text that a device runs, with as many threads of a block as the test says.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symattn as sa
from tests.codegen.test_blocked import INPUTS, turn

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")

SHIM = r"""
#include <cmath>
#include <cstring>
using namespace std;
#define __device__
#define __global__
#define __forceinline__ inline
#define __shared__ static
#define INFINITE (real(INFINITY))
struct place { unsigned x, y, z; };
static thread_local place threadIdx;
static place blockIdx, blockDim, gridDim;
static void __syncthreads();
static float value_of(unsigned short bits) { _Float16 x; memcpy(&x, &bits, 2); return float(x); }
static unsigned short bits_of(float x) {
    _Float16 y = _Float16(x);
    unsigned short bits;
    memcpy(&bits, &y, 2);
    return bits;
}
"""

ONE_THREAD = r"""
static void __syncthreads() {}
template <class F> void each_thread(F f) { threadIdx = {0, 0, 0}; f(); }
"""

THREADS = r"""
#include <barrier>
#include <memory>
#include <thread>
#include <vector>
static unique_ptr<barrier<>> all_here;
static void __syncthreads() { all_here->arrive_and_wait(); }
template <class F> void each_thread(F f) {
    all_here = make_unique<barrier<>>(blockDim.x);
    vector<thread> all;
    for (unsigned t = 0; t < blockDim.x; ++t) {
        all.emplace_back([=] { threadIdx = {t, 0, 0}; f(); });
    }
    for (auto& one : all) one.join();
}
"""

DRIVER = r"""
extern "C" void run(unsigned gx, unsigned gy, unsigned threads, {parameters}) {{
    gridDim = {{gx, gy, 1}};
    blockDim = {{threads, 1, 1}};
    for (unsigned y = 0; y < gy; ++y) for (unsigned x = 0; x < gx; ++x) {{
        blockIdx = {{x, y, 0}};
        each_thread([=] {{ {name}({arguments}); }});
    }}
}}
"""

_FOLDER = tempfile.TemporaryDirectory()


@cache
def compiled(
    source: str, name: str, options: tuple[str, ...], threads: bool
) -> tuple[Any, tuple[str, ...]]:
    """The kernel as a function of a grid, threads, and its arguments; and the types of these."""
    found = re.search(rf"__global__ void {name}\((.*?)\)\s*\{{", source, re.DOTALL)
    assert found, source
    parameters = " ".join(found[1].split())
    declared = [parameter.strip() for parameter in parameters.split(",")]
    arguments = ", ".join(parameter.split()[-1] for parameter in declared)
    driver = DRIVER.format(parameters=parameters, arguments=arguments, name=name)
    digest = hashlib.sha256("\0".join((source, name, str(threads), *options)).encode()).hexdigest()[
        :16
    ]
    path = Path(_FOLDER.name, f"{digest}.cpp")
    path.write_text(SHIM + source + (THREADS if threads else ONE_THREAD) + driver, "utf-8")
    library = path.with_suffix(".so")
    command = ["g++", "-std=c++20", "-O1", "-fPIC", "-shared", "-pthread", "-fno-strict-aliasing"]
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-Wno-unused-parameter"]
    warnings += ["-Wno-unused-function"]
    subprocess.run([*command, *warnings, *options, str(path), "-o", str(library)], check=True)
    types = tuple(parameter.rsplit(" ", 1)[0] for parameter in declared)
    return ctypes.CDLL(str(library)).run, types


class HostDevice:
    """What the blocked plan asks of a device."""

    library = np

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads
        self.products: list[tuple[str, str, str, int]] = []
        """The dtypes of each product, and how many it was at once."""
        self.launched: list[str] = []

    def pointer(self, array: Any) -> int:
        return array.ctypes.data

    def product(
        self,
        turned: tuple[bool, bool],
        sizes: tuple[int, int, int],
        factor: Any,
        first: tuple[int, str, int, int],
        second: tuple[int, str, int, int],
        out: tuple[int, str, int, int],
        count: int,
    ) -> None:
        rows, columns, inner = sizes
        assert min(*sizes, count) > 0
        self.products.append((first[1], second[1], out[1], count))
        assert first[1] == second[1]
        assert (first[1], out[1], factor.dtype.name) in (
            ("float16", "float32", "float32"),
            ("float32", "float32", "float32"),
            ("float64", "float64", "float64"),
        )
        left = self.matrices(first, (inner, rows) if turned[0] else (rows, inner), count)
        right = self.matrices(second, (columns, inner) if turned[1] else (inner, columns), count)
        target = self.matrices(out, (rows, columns), count)
        left = left.swapaxes(-1, -2) if turned[0] else left
        right = right.swapaxes(-1, -2) if turned[1] else right
        dtype = factor.dtype
        with np.errstate(invalid="ignore", over="ignore"):
            target[...] = factor[0] * (left.astype(dtype) @ right.astype(dtype))

    def matrices(
        self, place: tuple[int, str, int, int], shape: tuple[int, int], count: int
    ) -> np.ndarray[Any, Any]:
        """Matrices that are stored by columns, as cuBLAS reads them."""
        address, dtype, leading, step = place
        rows, columns = shape
        assert max(1, rows) <= leading < 2**31
        assert step >= 0
        z = np.dtype(dtype).itemsize
        assert address % z == 0
        length = ((count - 1) * step + (columns - 1) * leading + rows) * z
        memory: Any = (ctypes.c_char * length).from_address(address)
        strides = (step * z, z, leading * z)
        return np.ndarray((count, rows, columns), dtype, memory, strides=strides)

    def launch(
        self,
        kernel: tuple[str, str, tuple[str, ...]],
        grid: tuple[int, int],
        threads: int,
        arguments: Sequence[Any],
    ) -> None:
        run, types = compiled(*kernel, self.threads > 1)
        assert threads & (threads - 1) == 0
        assert min(grid) > 0
        assert grid[1] < 2**16
        assert len(arguments) == len(types)
        self.launched.append(kernel[1])
        real = {"float": ctypes.c_float, "double": ctypes.c_double}[kernel[2][0].split("=")[1]]
        given: list[Any] = [ctypes.c_uint(x) for x in (*grid, self.threads)]
        for kind, argument in zip(types, arguments, strict=True):
            if kind == "real":
                assert isinstance(argument, np.floating)
                assert argument.itemsize == ctypes.sizeof(real)
                given.append(real(float(argument)))
            else:
                assert isinstance(argument, int), (kind, argument)
                given.append(ctypes.c_longlong(argument))
        run(*given)


def in_strips(inputs: Any, formula: Any, **options: Any) -> Any:
    """The function of the source for CuPy, with NumPy in its place."""
    f = sa.lambdify(inputs, formula, backend="cupy", plan="blocked", **options)
    namespace: dict[str, Any] = {}
    exec(f.source.replace("import cupy as", "import numpy as"), namespace)
    return namespace[f.__name__]


def rows_of(layout: str, formula: Any, *arrays: Any, **named: Any) -> Any:
    """The result for queries, keys and values as rows, in strips."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = in_strips(INPUTS[layout], formula)(*(turn(layout, x) for x in arrays), **named)
    return turn(layout, found)
