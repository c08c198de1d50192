"""What stands for a device in tests: Triton's interpreter, on the memory of NumPy arrays.

It has to be chosen by TRITON_INTERPRET=1 before Triton is imported, so these tests run in a
process of their own (`test_fused_numbers`).
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.codegen import lowerings, opening
from symattn.codegen.gpu import fused
from symattn.codegen.gpu.block_sizes import BlockSizes
from symattn.codegen.gpu.compiling import Variant, blocks_of, kernel_of
from symattn.codegen.gpu.fused_step import write_fused
from symattn.codegen.gpu.launching import Launch

SMALL = BlockSizes(queries=16, keys=16, few_keys=16, warps=4, stages=1)


class InterpretedMachine:
    """A machine of small blocks, so that a few tokens are several of them."""

    place = 0

    def __init__(self, sizes: BlockSizes = SMALL) -> None:
        self.sizes = sizes
        self.launches: list[Launch] = []

    def empty(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        made = np.empty(shape, dtype)
        made.view(np.uint8)[...] = 0xFF  # NaN, where nothing is written
        return made

    def address(self, array: np.ndarray) -> int:
        return array.ctypes.data

    def kernel(self, variant: Variant) -> fused.Run:
        torch = pytest.importorskip("torch")
        kinds = {
            "fp16": torch.float16,
            "bf16": torch.bfloat16,
            "fp32": torch.float32,
            "u8": torch.uint8,
        }
        _multiply_bfloat16()
        kernel = kernel_of(variant.text)
        constants = {**dict(variant.constants), **blocks_of(self.sizes)}
        types = [(name, kind) for name, kind in variant.types if name not in constants]
        order = [name for name in kernel.arg_names if name not in constants]

        def run(
            heads: int, starts: Sequence[int], launch: Launch, numbers: Sequence[float]
        ) -> None:
            self.launches.append(launch)
            values = [*starts, *numbers, *launch.integers, *launch.strides]
            given = dict(zip(order, values, strict=True))
            for name, kind in types:
                if kind.startswith("*"):  # an element of the array, wherever others lie
                    dtype = kinds[kind[1:]]
                    element = (ctypes.c_char * dtype.itemsize).from_address(given[name])
                    given[name] = torch.frombuffer(element, dtype=dtype)
            grid = (heads * -(-launch.n // self.sizes.queries),)
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")  # a device has no warnings
                kernel[grid](**given, **constants)

        return run


@cache
def _multiply_bfloat16() -> None:
    """Let the interpreter multiply numbers: it has bfloat16 as whole numbers of 16 bits."""
    interpreter = pytest.importorskip("triton.runtime.interpreter")
    builder: Any = interpreter.InterpreterBuilder
    language = pytest.importorskip("triton.language")
    known = builder.create_dot

    def create_dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        a, b = (
            self.cast_impl(x, language.float32) if x.dtype.scalar == language.bfloat16 else x
            for x in (a, b)
        )
        return known(self, a, b, *rest)

    builder.create_dot = create_dot


@contextmanager
def fused_in_numpy(machine: Any) -> Iterator[None]:
    """Let the blocked plan of NumPy be fused kernels that a machine runs."""
    fused.fused_kernel.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(lowerings._WEIGHTED_SUMS, ("numpy", "blocked"), write_fused)
        patch.setattr(opening, "_ON_THE_CPU", (*opening._ON_THE_CPU, fused))
        patch.setattr(fused, "CupyMachine", lambda: machine)
        yield
    fused.fused_kernel.cache_clear()


def fused_function(inputs: Sequence[Any], formula: Any, **options: Any) -> Any:
    """A formula as a function of NumPy arrays, by a fused kernel."""
    return sa.lambdify(list(inputs), formula, plan="blocked", **options)
