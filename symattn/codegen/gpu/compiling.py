"""From the source of a kernel to machine code, ahead of time and without a device.

Triton compiles for a compute capability that is named, so a cubin can be made on any machine; it
needs no torch.  The source is run as a module of its own, here and nowhere else for kernels: it is
text that `symattn.codegen.gpu.triton_code` wrote, in which no name and no text of a user stands.
"""

from __future__ import annotations

import hashlib
import json
import linecache
import re
import subprocess
import tempfile
import threading
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from symattn.codegen.gpu.block_sizes import BlockSizes, block_sizes
from symattn.codegen.gpu.cache import Cache, Cubin
from symattn.codegen.gpu.devices import import_failure
from symattn.errors import BackendError, NotSupportedError

INSTALLATION = "python -m pip install 'symattn[fused]'"

_SHARED = {80: 163 * 1024, 86: 99 * 1024, 89: 99 * 1024, 90: 227 * 1024, 120: 99 * 1024}
"""The shared memory that a block may have, by compute capability: that of the next one below."""


_ALONE = threading.Lock()
"""Held while Triton's own settings, which are those of the process, are changed."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A kernel for certain arrays: what is known of its parameters before it is compiled.

    ``types`` are Triton's names of types, by parameter (``"*bf16"``, ``"i64"``), ``divisors`` what
    values are multiples of, where it is known, and ``constants`` the parameters with a value.
    ``width`` is the largest (padded) size of a head, ``itemsize`` the bytes of a number: they lead
    to the sizes of blocks.
    """

    text: str
    types: tuple[tuple[str, str], ...]
    divisors: tuple[tuple[str, int], ...]
    constants: tuple[tuple[str, int | str], ...]
    width: int
    itemsize: int

    def key(self, capability: int, version: str) -> str:
        """Return what tells this machine code from any other: a hash of all that decides it.

        ``version`` is that of Triton, or ``""`` for code of whatever version.
        """
        tried = list(map(asdict, block_sizes(self.width, self.itemsize, capability)))
        known = {**asdict(self), "tried": tried, "capability": capability, "triton": version}
        return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def _triton() -> Any:
    try:
        import triton  # pyright: ignore[reportMissingImports]
    except Exception as error:
        finding = import_failure("Triton", "triton", error, INSTALLATION)
        problem = f"{finding.found}; it compiles fused kernels"
        raise BackendError("cupy", problem, finding.fix) from error
    return triton


@lru_cache(maxsize=256)
def kernel_of(text: str) -> Any:
    """Return the kernel whose source is given, as Triton takes it."""
    _triton()
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    filename = f"<symattn kernel {digest}>"
    # Triton reads the source of a function where Python says that it was read from.
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": "symattn.kernel"}
    exec(compile(text, filename, "exec"), namespace)
    return namespace["attend"]


def cubin_of(variant: Variant, capability: int, cache: Cache) -> tuple[Cubin, Path]:
    """Return machine code and its file, compiled if the cache does not have it.

    Without Triton it is what any version of it has compiled; raises `BackendError` if none has.
    """
    version = triton_version()
    found = cache.find(variant.key(capability, version))
    if found is None:
        cubin = compiled(variant, capability)
        cache.keep(variant.key(capability, ""), cubin)
        found = cubin, cache.keep(variant.key(capability, version), cubin)
    return found


def triton_version() -> str:
    """Return the version of Triton, ``""`` where it is not installed; it is not imported."""
    try:
        return metadata.version("triton")
    except metadata.PackageNotFoundError:
        return ""


def compiled(variant: Variant, capability: int) -> Cubin:
    """Compile a kernel for a compute capability, 90 for 9.0.

    Raises `NotSupportedError` if no sizes of blocks fit into the memory of a multiprocessor.
    """
    limit = _SHARED[max((known for known in _SHARED if known <= capability), default=80)]
    best: Cubin | None = None
    for sizes in block_sizes(variant.width, variant.itemsize, capability):
        cubin = _compiled(variant, sizes, capability)
        if cubin.shared > limit:
            continue
        if cubin.spilled == 0:
            return cubin
        if best is None or cubin.spilled < best.spilled:
            best = cubin
    if best is None:
        raise NotSupportedError(f"scores whose blocks take more than {limit} bytes, in one kernel")
    return best


def _compiled(variant: Variant, sizes: BlockSizes, capability: int) -> Cubin:
    triton = _triton()
    from triton.backends.compiler import GPUTarget  # pyright: ignore[reportMissingImports]
    from triton.compiler import ASTSource  # pyright: ignore[reportMissingImports]

    kernel = kernel_of(variant.text)
    names, types = kernel.arg_names, dict(variant.types)
    constants = {**dict(variant.constants), **blocks_of(sizes)}
    source = ASTSource(
        kernel,
        {name: "constexpr" if name in constants else types[name] for name in names},
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={
            (names.index(name),): [["tt.divisibility", divisor]]
            for name, divisor in variant.divisors
        },
    )
    options = {
        "num_warps": sizes.warps,
        "num_stages": sizes.stages,
        "enable_fp_fusion": True,  # products that are added to are not rounded first
    }
    with _ALONE, triton.knobs.cache.scope(), tempfile.TemporaryDirectory() as folder:
        triton.knobs.cache.dir = folder  # what is kept, and where, is the affair of `cache`
        made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
        code, facts = made.asm["cubin"], made.metadata
        file = Path(folder, "kernel.cubin")
        file.write_bytes(code)
        registers, spilled = resources(file)
    return Cubin(code, facts.name, facts.shared, facts.num_warps, sizes.queries, registers, spilled)


def blocks_of(sizes: BlockSizes) -> dict[str, int]:
    """Return the parameters of a kernel that are the sizes of its blocks."""
    return {"BM": sizes.queries, "BN": sizes.keys, "BS": sizes.few_keys}


def resources(cubin: Path) -> tuple[int, int]:
    """Return the registers of a thread, and the bytes of each thread that do not fit into them."""
    program = Path(_triton().__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    if not program.exists():
        return 0, 0  # not known: the first sizes of blocks are taken
    command = [str(program), "-res-usage", str(cubin)]
    said = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout
    used = {name: int(number) for name, number in re.findall(r"(REG|STACK|LOCAL):(\d+)", said)}
    return used["REG"], used["STACK"] + used["LOCAL"]
