"""What symattn can use on this machine, one finding after the other, for `symattn doctor`.

A driver or a library that is broken can end Python, or never return.  So everything is looked at
by a process of its own, which tells each step before and after it: when it ends or is ended, the
step that it had begun is the one at fault, and the remaining ones are looked at by a new process.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from importlib import import_module, metadata
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np

from symattn.codegen.gpu.cache import cache_folder
from symattn.codegen.gpu.devices import (
    Finding,
    cuda_version,
    device_failure,
    device_findings,
    import_failure,
)
from symattn.codegen.targets import TARGETS

PATIENCE = 60.0
"""Seconds that one process may take."""

_MARK = "symattn doctor "
"""What the lines of that process begin with; others were printed by what it imports."""

_PROCESS = """
import os, sys
from symattn.codegen.gpu.environment import tell
tell(sys.argv[1:])
os._exit(0)  # a library that fails to end is no finding
"""


# One step each.


def _python() -> Iterator[Finding]:
    system = f"{platform.system()} {platform.machine()}"
    found = f"{platform.python_implementation()} {platform.python_version()}, {system}"
    yield Finding("Python", "fine", found)


def _numpy() -> Iterator[Finding]:
    blas: Mapping[str, Any] = np.show_config(mode="dicts")["Build Dependencies"]["blas"]  # pyright: ignore[reportOptionalSubscript, reportIndexIssue, reportCallIssue, reportArgumentType]
    yield Finding("NumPy", "fine", f"{np.__version__}, BLAS {blas['name']} {blas['version']}")


def _threads() -> Iterator[Finding]:
    name, install = "threadpoolctl", "python -m pip install 'symattn[fast]'"
    threads, failure = _imported(name, name, install)
    if failure is None:
        kernels = [
            f"{item['num_threads']} threads of {item.get('internal_api', 'a BLAS')}, for "
            f"{item.get('architecture', 'a kind of processor that it does not say')}"
            for item in threads.threadpool_info()
            if item["user_api"] == "blas"
        ]
        found = "; ".join((metadata.version(name), *kernels))
        yield Finding(name, "fine", found)
    elif failure.state == "absent":
        found = "not installed: several workers cannot hold BLAS at one thread each"
        yield Finding(name, "absent", found, failure.fix)
    else:
        yield failure


def _bfloat16() -> Iterator[Finding]:
    name, install = "ml_dtypes", "python -m pip install ml_dtypes"
    _, failure = _imported(name, name, install)
    if failure is None:
        yield Finding(name, "fine", f"{metadata.version(name)}, for arrays of bfloat16")
    elif failure.state == "absent":
        yield Finding(name, "absent", "not installed: no arrays of bfloat16", failure.fix)
    else:
        yield failure


def _driver() -> Iterator[Finding]:
    """The driver's own library, which is asked without CuPy."""
    library = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
    number = ctypes.c_int()
    try:
        status = ctypes.CDLL(library).cuDriverGetVersion(ctypes.byref(number))
    except (OSError, AttributeError) as error:
        there = Path(library).suffix == ".dll" or not Path("/proc/driver/nvidia/version").exists()
        yield Finding(
            "CUDA driver",
            "absent" if there else "broken",
            f"{library} cannot be loaded: {error}"[:200],
            "a GPU needs the NVIDIA driver: nvidia.com/drivers; in a container: docker run "
            "--gpus all",
        )
        return
    if status:
        found, fix = f"the driver answers with error {status}", "see whether nvidia-smi answers"
        yield Finding("CUDA driver", "broken", found, fix)
    else:
        yield Finding("CUDA driver", "fine", f"knows CUDA up to {cuda_version(number.value)}")


def _cupy() -> Iterator[Finding]:
    cupy, failure = _imported("CuPy", "cupy", TARGETS["cupy"].installation)
    if failure is not None:
        yield failure
        return
    try:
        built_for = f", for CUDA {cuda_version(cupy.cuda.runtime.runtimeGetVersion())}"
    except Exception:
        built_for = ""
    yield Finding("CuPy", "fine", f"{cupy.__version__}{built_for}")


def _devices() -> Iterator[Finding]:
    cupy, failure = _imported("CuPy", "cupy", TARGETS["cupy"].installation)
    if failure is not None:
        yield Finding("CUDA device", "absent", "not looked for, without CuPy", failure.fix)
        return
    findings = list(device_findings(cupy))
    yield from (replace(finding, subject=_device_named(finding)) for finding in findings)
    if all(finding.state == "fine" for finding in findings):
        yield _a_kernel(cupy)


def _device_named(finding: Finding) -> str:
    """Return the subject of a finding about devices; one about the driver stands before them."""
    return finding.subject if finding.subject.startswith("CUDA device") else "CUDA device"


def _a_kernel(cupy: Any) -> Finding:
    """Whether CuPy compiles a kernel for the device and gets the right numbers from it."""
    try:
        x = cupy.arange(4, dtype=cupy.float32)
        total = float((x * x + x).sum())
        product = float((x @ x).item())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return device_failure(cupy, error)
    except Exception as error:
        found = f"CuPy computes nothing: {type(error).__name__}: {error}"
        fix = f"install what its kernels are compiled with: {TARGETS['cupy'].installation}"
        return Finding("a computation", "broken", found[:400], fix)
    if (total, product) != (20.0, 14.0):
        found = f"wrong numbers: {total} and {product}, not 20.0 and 14.0"
        return Finding("a computation", "broken", found, "see the log of the machine for errors")
    return Finding("a computation", "fine", "kernels are compiled, and compute what they should")


def _compiler() -> Iterator[Finding]:
    cupy, failure = _imported("CuPy", "cupy", TARGETS["cupy"].installation)
    if failure is not None:
        yield Finding("NVRTC", "absent", "not looked for, without CuPy", failure.fix)
        return
    nvrtc = cupy.cuda.nvrtc
    try:
        major, minor = nvrtc.getVersion()
        capability = max(nvrtc.getSupportedArchs())
    except Exception as error:
        found = f"CuPy finds no compiler of CUDA C++: {type(error).__name__}"
        fix = f"install it: {TARGETS['cupy'].installation}"
        yield Finding("NVRTC", "absent", found, fix)
        return
    newest = f"{capability // 10}.{capability % 10}"
    found = f"{major}.{minor}, compiles for compute capability {newest} and older"
    yield Finding("NVRTC", "fine", found)


def _triton() -> Iterator[Finding]:
    triton, failure = _imported("Triton", "triton", "python -m pip install 'symattn[fused]'")
    if failure is None:
        yield Finding("Triton", "fine", str(triton.__version__))
    elif failure.state == "absent":
        found = 'not installed: no plan="fused", unless its kernel is in the cache'
        yield Finding("Triton", "absent", found, failure.fix)
    else:
        yield failure


def _cache() -> Iterator[Finding]:
    name, folder = "cache of kernels", cache_folder()
    try:
        facts = folder.stat()
    except FileNotFoundError:
        there = next(parent for parent in folder.absolute().parents if parent.exists())
        if os.access(there, os.W_OK | os.X_OK):
            yield Finding(name, "fine", f"{folder}, which is made when it is needed")
        else:
            found = f"{folder} cannot be made: {there} cannot be written to"
            yield Finding(name, "absent", found, _OTHER_FOLDER)
        return
    except OSError as error:
        yield Finding(name, "broken", f"{folder} cannot be read: {error}", _OTHER_FOLDER)
        return
    problem, fix = "", _OTHER_FOLDER
    if not stat.S_ISDIR(facts.st_mode):
        problem = "is no folder"
    elif hasattr(os, "getuid") and facts.st_uid != os.getuid():
        problem = "belongs to someone else"
    elif os.name == "posix" and facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem, fix = "can be written to by others", f"chmod 700 {folder}"
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        problem = "cannot be written to"
    yield (
        Finding(name, "broken", f"{folder} {problem}", fix)
        if problem
        else Finding(name, "fine", str(folder))
    )


_OTHER_FOLDER = "name a folder of your own: SYMATTN_CACHE_DIR"


STEPS: Mapping[str, Callable[[], Iterator[Finding]]] = MappingProxyType(
    {
        "Python": _python,
        "NumPy": _numpy,
        "threadpoolctl": _threads,
        "ml_dtypes": _bfloat16,
        "CUDA driver": _driver,
        "CuPy": _cupy,
        "NVRTC": _compiler,
        "CUDA device": _devices,
        "Triton": _triton,
        "cache of kernels": _cache,
    }
)
"""What is looked at, in this order."""


def _imported(subject: str, module: str, install: str) -> tuple[Any, Finding | None]:
    """Return a package, or why there is none."""
    try:
        return import_module(module), None
    except Exception as error:
        return ModuleType(module), import_failure(subject, module, error, install)


# Its own process.


def tell(steps: list[str]) -> None:
    """Look at these parts, and print each finding as a line of JSON; for a process of its own."""
    for step in steps:
        _say({"begun": step})
        try:
            for finding in STEPS[step]():
                _say({"finding": asdict(finding)})
        except Exception as error:
            found = f"looking at it fails: {type(error).__name__}: {error}"[:400]
            _say({"finding": asdict(Finding(step, "broken", found))})


def _say(fact: Mapping[str, Any]) -> None:
    print(f"\n{_MARK}{json.dumps(fact)}", flush=True)


def examined(patience: float = PATIENCE, steps: Iterable[str] = STEPS) -> list[Finding]:
    """Return what there is on this machine; it neither raises nor waits for ever."""
    findings: list[Finding] = []
    left = list(steps)
    while left:
        told, ended = _process(left, patience)
        begun = [fact["begun"] for fact in told if "begun" in fact]
        findings += [Finding(**fact["finding"]) for fact in told if "finding" in fact]
        if ended:
            at_fault = begun[-1] if begun else "symattn"
            fix = "what needs it will end the same way; all else can be used"
            findings.append(Finding(at_fault, "broken", f"looking at it {ended}", fix))
        left = left[len(begun) :] if begun else []
    return findings


def _process(steps: list[str], patience: float) -> tuple[list[dict[str, Any]], str]:
    """Return what a process of its own told, and how it ended if it did not end well."""
    root = str(Path(__file__).parents[3])
    path = os.pathsep.join((root, *filter(None, (os.environ.get("PYTHONPATH"),))))
    command = [sys.executable, "-W", "ignore", "-c", _PROCESS, *steps]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=patience,
            env={**os.environ, "PYTHONPATH": path},
        )
        said, ended = done.stdout, _ended(done.returncode, done.stderr)
    except subprocess.TimeoutExpired as error:
        said, ended = error.stdout or b"", f"took more than {patience:g} seconds"
    except OSError as error:
        said, ended = b"", f"fails: {error}"
    lines = said.decode("utf-8", errors="replace").splitlines()
    return list(_facts(lines)), ended


def _facts(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the facts among the lines that a process printed; the last one may be cut off."""
    for line in lines:
        if line.startswith(_MARK):
            try:
                yield json.loads(line[len(_MARK) :])
            except ValueError:
                continue


def _ended(status: int, complaints: bytes) -> str:
    """Return how a process ended, with the last thing that it said about it."""
    if not status:
        return ""
    last = complaints.decode("utf-8", errors="replace").strip().rpartition("\n")[2][:300]
    how = f"ends Python by signal {-status}" if status < 0 else f"ends Python with {status}"
    return f"{how}: {last}" if last else how
