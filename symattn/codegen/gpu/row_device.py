"""What the blocked plan asks of CuPy: memory, matrix products, and kernels.

Everything else of the plan is arithmetic on pointers, so a stand-in for this class runs all of it
without a device.  Work goes to CuPy's current stream, as that of any other CuPy function does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np

Shape = tuple[int, ...]


class CuPyDevice:
    """The device that CuPy runs on."""

    @property
    def library(self) -> ModuleType:
        """CuPy itself."""
        import cupy  # pyright: ignore[reportMissingImports]

        return cupy

    def pointer(self, array: Any) -> int:
        """Return the address of the first entry."""
        return array.data.ptr

    def product(
        self,
        turned: tuple[bool, bool],
        sizes: Shape,
        factor: Any,
        first: tuple[int, str, int, int],
        second: tuple[int, str, int, int],
        out: tuple[int, str, int, int],
        count: int,
    ) -> None:
        """Compute ``out = factor · first @ second`` for ``count`` matrices stored by columns.

        A matrix is (address, dtype, entries from one column to the next, and from one matrix to the
        next); ``turned`` ones are read as their transposes.  Sums are kept in the type of
        ``factor``, an array of one number: float32 for numbers of two bytes.
        """
        cublas = self.library.cuda.cublas
        operations = (cublas.CUBLAS_OP_N, cublas.CUBLAS_OP_T)
        sums, none = _CONSTANTS[factor.dtype.name]
        parts = [
            (address, getattr(self.library.cuda.runtime, _CUDA_TYPES[dtype]), column, matrix)
            for address, dtype, column, matrix in (first, second, out)
        ]
        cublas.gemmStridedBatchedEx(
            self.library.cuda.device.get_cublas_handle(),
            operations[turned[0]],
            operations[turned[1]],
            *sizes,
            factor.ctypes.data,
            *parts[0],
            *parts[1],
            none.ctypes.data,
            *parts[2],
            count,
            getattr(cublas, sums),
            cublas.CUBLAS_GEMM_DEFAULT,
        )

    def launch(
        self,
        kernel: tuple[str, str, tuple[str, ...]],
        grid: tuple[int, int],
        threads: int,
        arguments: Sequence[Any],
    ) -> None:
        """Run a kernel, given as its source, its name, and the options of its compiler.

        Whole numbers are passed in eight bytes, as addresses are, others as their dtype is.
        """
        _compiled(*kernel)(grid, (threads,), tuple(arguments))


@lru_cache(maxsize=256)
def _compiled(source: str, name: str, options: tuple[str, ...]) -> Any:
    """Return a kernel; CuPy compiles it once for each kind of device, and keeps it on disk."""
    return CuPyDevice().library.RawKernel(source, name, options=options)


_CUDA_TYPES = {"float16": "CUDA_R_16F", "float32": "CUDA_R_32F", "float64": "CUDA_R_64F"}

_CONSTANTS = {
    "float32": ("CUBLAS_COMPUTE_32F", np.zeros(1, np.float32)),
    "float64": ("CUBLAS_COMPUTE_64F", np.zeros(1, np.float64)),
}
"""How products with a factor of a dtype are summed, and the zero that they start from."""
