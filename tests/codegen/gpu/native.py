"""CUDA C++ without a device: as a library of the CPU, or through NVRTC.

For g++, the few words of CUDA that are no C++ are defined away.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

SHIM = """\
#include <math.h>
#define __device__
#define __forceinline__ inline
typedef {real} real;
"""


def compiled(source: str, folder: Path, real: str = "double") -> ctypes.CDLL:
    """The library that g++ makes of a source, in which ``real`` is this type."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    text, library = folder / f"{real}.cpp", folder / f"{real}.so"
    text.write_text(SHIM.format(real=real) + source, encoding="utf-8")
    flags = ["-O1", "-shared", "-fPIC", "-Wall", "-Werror", "-Wno-unused-function"]
    done = subprocess.run(
        ["g++", *flags, "-o", str(library), str(text)], capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(library))


def the_nvrtc() -> Any:
    """The compiler of CUDA C++; the test is skipped where there is none."""
    nvrtc = pytest.importorskip("cupy.cuda", exc_type=ImportError).nvrtc
    try:
        nvrtc.getVersion()
    except RuntimeError:  # CuPy without the libraries of CUDA
        pytest.skip("needs NVRTC")
    return nvrtc
