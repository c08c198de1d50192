"""Triton without a device: run by its interpreter, in a process of its own, or compiled to PTX.

The interpreter is chosen before Triton is imported, for a whole process; no test may choose it for
those that compile.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

_MODULE = """\
import sys

import numpy as np
import torch
import triton
import triton.language as tl

{helpers}

{kernels}

given = np.load(sys.argv[1])
columns = {{name: torch.from_numpy(given[name]) for name in given.files}}
size = len(columns["i"])
results = {{}}
for kernel, names in (({calls})):
    y = torch.zeros(size, dtype=torch.float32)
    kernel[(1,)](*[columns[name] for name in names], y, SIZE=size)
    results[kernel.__name__] = y.numpy()
np.savez(sys.argv[2], **results)
"""

_KERNEL = """\
@triton.jit
def {name}({pointers}, out, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
{loads}
    tl.store(out + at, tl.zeros([SIZE], tl.float32) + ({text}))
"""


def run(
    texts: Mapping[str, str], helpers: str, columns: Mapping[str, np.ndarray], folder: Path
) -> dict[str, np.ndarray]:
    """What each text is, entry by entry; the columns have one length, a power of two."""
    for package in ("triton", "torch"):
        if find_spec(package) is None:
            pytest.skip(f"needs {package}")
    assert "i" in columns, "the length is that of the positions"
    kernels, calls = [], []
    for name, text in texts.items():
        loads = "\n".join(f"    {one} = tl.load({one}_at + at)" for one in columns)
        pointers = ", ".join(f"{one}_at" for one in columns)
        kernels.append(_KERNEL.format(name=name, pointers=pointers, loads=loads, text=text))
        calls.append(f"({name}, {tuple(columns)!r}),")
    module, given, results = (folder / name for name in ("module.py", "given.npz", "results.npz"))
    module.write_text(
        _MODULE.format(helpers=helpers, kernels="\n".join(kernels), calls=" ".join(calls)),
        encoding="utf-8",
    )
    np.savez(given, **columns)  # pyright: ignore[reportArgumentType]
    command: Sequence[str] = [sys.executable, str(module), str(given), str(results)]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, encoding="utf-8", env=environment)
    assert done.returncode == 0, done.stderr
    with np.load(results) as read:
        return {name: read[name] for name in read.files}


_TO_COMPILE = """\
import triton
import triton.language as tl

{helpers}


@triton.jit
def kernel(x, y, n, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    v = tl.load(x + at)
{lines}
"""


def ptx_of(texts: Sequence[str], helpers: str, folder: Path) -> str:
    """What Triton compiles texts to, without a device; every name in them reads the same number."""
    if os.environ.get("TRITON_INTERPRET"):
        pytest.skip("Triton interprets in this process")
    triton = pytest.importorskip("triton")
    compiler = pytest.importorskip("triton.backends.compiler")
    lines = "\n".join(f"    tl.store(y + {k} * SIZE + at, {text})" for k, text in enumerate(texts))
    module = folder / "to_compile.py"
    module.write_text(_TO_COMPILE.format(helpers=helpers, lines=lines), encoding="utf-8")
    spec = spec_from_file_location("to_compile", module)
    assert spec is not None
    assert spec.loader is not None
    loaded = module_from_spec(spec)
    spec.loader.exec_module(loaded)
    signature = {"x": "*fp32", "y": "*fp32", "n": "i64", "SIZE": "constexpr"}
    source = triton.compiler.ASTSource(loaded.kernel, signature, constexprs={"SIZE": 128})
    target, options = compiler.GPUTarget("cuda", 90, 32), {"enable_fp_fusion": True}
    return triton.compile(source, target=target, options=options).asm["ptx"]
