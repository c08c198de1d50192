"""Whether one kernel computes a formula in a call: the dtype, the sizes of heads, the device.

A formula may have a kernel, and a call none: for float64, for wide heads, on an old device, or
where Triton, which compiles it, is not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

from symattn.codegen.blocked import Attended, blocked_program
from symattn.codegen.gpu.block_sizes import WIDEST, block_sizes
from symattn.codegen.gpu.cache import Cache
from symattn.codegen.gpu.fused import DTYPES
from symattn.codegen.gpu.triton_code import kernel_text
from symattn.errors import NotSupportedError
from symattn.nodes import Program
from symattn.tags import Size

FEW_QUERIES = 16
"""Queries up to which a kernel, which shares a head out by its queries, leaves a device idle."""

REASON = (
    f"one kernel for more than {FEW_QUERIES} queries of two bytes or float32, if Triton is "
    f"installed, heads are no wider than {WIDEST}, and the device is of compute capability 8.0 or "
    "later"
)
"""When a kernel is taken, in words."""


def fused_widths(program: Program) -> tuple[Size, ...]:
    """Return the sizes of the vectors that kernels multiply, and of the values.

    >>> import symattn as sa
    >>> [str(size) for size in fused_widths(sa.formula("softcap", layout="row").program)]
    ['d_k', 'd_v']
    """
    found: dict[Size, None] = {}
    for node in blocked_program(program).result.walk():
        if isinstance(node, Attended):
            values, *operands = node.matrices
            kernel = kernel_text(node)
            for query, axis, _, _ in kernel.dots:
                found[operands[query].sizes[1 - axis]] = None
            found[values.sizes[1 - kernel.axis]] = None
    return tuple(found)


def suits_fused(
    queries: Sequence[int], widths: Sequence[int], dtype: Any, load: Callable[[], ModuleType]
) -> bool:
    """Tell whether kernels suit so many queries, heads so wide, a dtype and the device in use.

    ``load`` gives CuPy.
    """
    if dtype.name not in DTYPES or min(queries) <= FEW_QUERIES or not _can_compile():
        return False
    library = load()
    device = library.cuda.runtime.getDevice()
    return _is_compiled_for(_capability(library, device), max(widths), dtype.itemsize)


@lru_cache
def _can_compile() -> bool:
    """Tell whether Triton is there and works, and the user has a folder for kernels."""
    try:
        import_module("triton")
        Cache().made()
    except Exception:  # a broken installation raises anything
        return False
    return True


@lru_cache
def _capability(library: ModuleType, device: int) -> int:
    return int(library.cuda.Device(device).compute_capability)


def _is_compiled_for(capability: int, width: int, itemsize: int) -> bool:
    try:
        return bool(block_sizes(width, itemsize, capability))
    except NotSupportedError:
        return False
