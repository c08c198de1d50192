"""Kernels compiled before there is a device, for arrays as they usually are.

What a kernel is compiled for follows from dtypes, strides and sizes of heads, and no array is
needed for that: outlines of arrays go through the same sums as arrays do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

from symattn.codegen.blocked import Attended, blocked_program
from symattn.codegen.generated import selecting, taken_apart
from symattn.codegen.gpu.cache import Cache
from symattn.codegen.gpu.compiling import Variant, cubin_of
from symattn.codegen.gpu.fused import FusedKernel
from symattn.codegen.gpu.launching import Kind, Outline
from symattn.codegen.gpu.triton_code import KernelText, kernel_text
from symattn.errors import NotSupportedError
from symattn.nodes.along_axis import queries_and_keys
from symattn.tags import Size

TOKENS = 256
"""Queries and keys of an outline: what matters is that they are a multiple of 16."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """One kernel that was compiled, and what it takes of a multiprocessor.

    ``registers`` and ``spilled`` (bytes) are those of a thread, ``shared`` (bytes) and ``warps``
    those of a block of so many ``queries``; ``lse`` tells that it writes log Σ exp(scores) too.
    """

    formula: str
    dtype: str
    width: int
    lse: bool
    queries: int
    warps: int
    registers: int
    spilled: int
    shared: int


def compile_all(
    entries: Iterable[Any],
    capability: int,
    *,
    dtypes: Sequence[str] = ("bfloat16", "float16", "float32"),
    widths: Sequence[int] = (64, 128),
    lse: Sequence[bool] = (False,),
    cache: Cache | None = None,
) -> list[Compiled]:
    """Compile the kernels of some formulas, and return what each takes.

    Entries of the catalogue, programs and formulas whose scores are no text are left out.  Raises
    `BackendError` where Triton is missing, or the cache is no folder of the user's own.
    """
    cache = Cache() if cache is None else cache
    found: list[Compiled] = []
    for entry in entries:
        for name, attended, kernel in _kernels(entry):
            for dtype in dtypes:
                for width in widths:
                    for with_sums in lse:
                        variant = variant_of(attended, kernel, dtype, width, lse=with_sums)
                        cubin, _ = cubin_of(variant, capability, cache)
                        found.append(
                            Compiled(
                                name,
                                dtype,
                                width,
                                with_sums,
                                cubin.queries,
                                cubin.warps,
                                cubin.registers,
                                cubin.spilled,
                                cubin.shared,
                            )
                        )
    return found


def table(kernels: Iterable[Compiled]) -> str:
    """Return what kernels take, a line each.

    >>> print(table([Compiled("softcap row", "bfloat16", 64, False, 128, 8, 206, 0, 81920)]))
    formula      dtype     head  lse    queries  warps  registers  spilled  shared
    softcap row  bfloat16  64    False  128      8      206        0        81920
    """
    names = [field.name.replace("width", "head") for field in fields(Compiled)]
    rows = [names, *([str(value) for value in astuple(kernel)] for kernel in kernels)]
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, wide)).rstrip() for row in rows)
    return "\n".join(lines)


def _kernels(entry: Any) -> Iterable[tuple[str, Attended, KernelText]]:
    """Yield the kernels of a formula, with its name."""
    program, name, layout = taken_apart(entry, "compile_all")
    name = " ".join(part for part in (name or "a formula", layout) if part)
    try:
        for node in blocked_program(selecting(program)).result.walk():
            if isinstance(node, Attended):
                yield name, node, kernel_text(node)
    except NotSupportedError:
        return


def variant_of(
    attended: Attended, kernel: KernelText, dtype: str, width: int, *, lse: bool = False
) -> Variant:
    """Return what is compiled for arrays in C order, whose heads have a size of ``width``."""
    queries, keys = queries_and_keys(attended.weights.sizes, attended.weights.axis)
    known = dict.fromkeys(attended.tags, width)
    known |= dict.fromkeys((*queries.tags, *keys.tags), TOKENS)
    kind = Kind(dtype, 4 if dtype == "float32" else 2, "f")
    n, m = queries.value(known), keys.value(known)

    def outline(sizes: Sequence[Size], kind: Kind) -> Outline:
        rows, columns = (size.value(known) for size in sizes)
        strides = (columns * kind.itemsize, kind.itemsize)
        return Outline((rows, columns), strides, kind)

    one = Size.of(1)
    arrays = [outline(node.sizes, kind) for node in attended.matrices]
    result = outline(attended.sizes, kind)
    sums = outline((queries, one), Kind("float32", 4, "f")) if lse else result
    axes = {array.label: array.sizes for array in attended.mask_arrays}
    masks = [
        outline((*[one] * (2 - len(axes[label])), *axes[label]), Kind("bool", 1, "b"))
        for label in kernel.masks
    ]
    given = [result, sums, *arrays, *masks]
    function = FusedKernel(kernel.text, kernel.axis, kernel.dots, kernel.sums, None)
    counts = [0] * len(kernel.counts)
    launch = function.launch(given, [0] * len(given), (), lse, n, m, len(kernel.numbers), counts)
    return launch.variant
