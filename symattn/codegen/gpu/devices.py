"""Whether CuPy and a CUDA device are there; where they are not, what stands in the way.

An installation can fail at every step: no CuPy, a CuPy that raises when it is imported, no driver,
one that is older than CuPy's CUDA, no device, one that no longer answers.  CUDA says all this with
a number.  Each step ends here as a `Finding`, a clause for what is there and one for what to do,
and the errors of a call and `symattn doctor` show the same ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from symattn.errors import BackendError

_LONGEST = 300
"""So much of a foreign message is repeated."""

_GIB = 2**30

CUPY_PACKAGES = ("cupy", *(f"cupy-cuda{major}x" for major in (11, 12, 13)), "cupy-rocm-5-0")
"""The packages that install the module cupy: two of them overwrite each other's files."""

_WITH_TOOLKIT = ("cupy-cuda12x", "cupy-cuda13x")
"""Those that bring the libraries of CUDA, as the extra ``ctk``."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found about one part of an installation.

    ``state`` is ``"fine"``, ``"absent"`` for what is not there and need not be, or ``"broken"`` for
    what is there and does not work.  ``fix`` says what to install or do.

    >>> Finding("CuPy", "absent", "CuPy is not installed", "install it").state
    'absent'
    """

    subject: str
    state: Literal["fine", "absent", "broken"]
    found: str
    fix: str = ""


_FAULTS: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        2: (
            "the device has no memory left",
            "end what uses it (nvidia-smi lists that), or choose another: CUDA_VISIBLE_DEVICES=1",
        ),
        3: ("CUDA cannot be initialised", "see what nvidia-smi says; a restart may help"),
        46: (
            "the device is in use by another process alone, or closed to all",
            "see its compute mode: nvidia-smi -q -d COMPUTE",
        ),
        101: (
            "there is no device of this number",
            "see the numbers in CUDA_VISIBLE_DEVICES against those of nvidia-smi -L",
        ),
        209: (
            "the device is of a generation that this CuPy was not built for",
            "install a CuPy for a CUDA version that knows the device",
        ),
        214: ("the device's memory has an error that it cannot correct", "restart the machine"),
        304: (
            "the operating system refuses access to the device",
            "see who may read and write /dev/nvidia*; in a container: docker run --gpus all",
        ),
        700: (
            "earlier work on the device read or wrote what is not its own",
            "start Python anew: CUDA answers nothing more in this process",
        ),
        702: (
            "earlier work on the device took longer than the system allows",
            "start Python anew: CUDA answers nothing more in this process",
        ),
        719: (
            "earlier work on the device failed",
            "start Python anew: CUDA answers nothing more in this process",
        ),
        800: ("this process may not use the device", "ask whoever set up the machine"),
        802: (
            "the system is not ready for CUDA",
            "with NVSwitch, start its service: systemctl start nvidia-fabricmanager",
        ),
        803: (
            "the driver's library and its kernel module are of different versions",
            "restart the machine; in a container, remove the CUDA compatibility package",
        ),
        804: (
            "the device does not take a newer CUDA than its driver's",
            "update the driver, or install a CuPy for the driver's CUDA version",
        ),
        805: ("the MPS service does not answer", "start nvidia-cuda-mps-control, or do without"),
    }
)
"""By CUDA's number for an error: what it means, and what to do."""

_INSUFFICIENT_DRIVER, _NO_DEVICE = 35, 100
_ANOTHER_FAULT = "see whether nvidia-smi answers; a restart of Python or of the machine may help"


# What is there.


def import_failure(subject: str, module: str, error: BaseException, install: str) -> Finding:
    """Return what the failed import of a package means.

    >>> error = ModuleNotFoundError("No module named 'cupy'", name="cupy")
    >>> import_failure("CuPy", "cupy", error, "python -m pip install 'symattn[cuda12]'").found
    'CuPy is not installed'
    """
    if isinstance(error, ModuleNotFoundError) and error.name == module:
        return Finding(subject, "absent", f"{subject} is not installed", f"install it: {install}")
    packages = _installed(CUPY_PACKAGES if module == "cupy" else (module,))
    if len(packages) > 1:
        uninstall = f"python -m pip uninstall {' '.join(packages)}"
        fix = f"keep one of {', '.join(packages)}: {uninstall}, then {install}"
    elif packages:  # of symattn itself, which may be in no index, nothing is installed anew
        (package,) = packages
        whole = f"'{package}[ctk]'" if package in _WITH_TOOLKIT else package
        fix = f"install it anew: python -m pip install --force-reinstall {whole}"
    else:
        fix = f"move away what is imported in its place, which no package installed, or {install}"
    return Finding(subject, "broken", f"importing {subject} fails: {_told(error)}", fix)


def device_findings(cupy: Any) -> Iterator[Finding]:
    """Yield what there is of each CUDA device, asked through CuPy, or why there is none.

    Each device that there is gets a context, which takes some of its memory.
    """
    runtime = cupy.cuda.runtime
    try:
        count = int(runtime.getDeviceCount())
    except Exception as error:
        yield device_failure(cupy, error)
        return
    if not count:
        yield _no_device()
    for number in range(count):
        name = f"CUDA device {number}"
        try:
            properties = runtime.getDeviceProperties(number)
            with cupy.cuda.Device(number):
                free, total = runtime.memGetInfo()
        except Exception as error:
            failure = device_failure(cupy, error)
            yield Finding(name, "broken", failure.found, failure.fix)
            continue
        called = properties["name"]
        called = called.decode(errors="replace") if isinstance(called, bytes) else str(called)
        yield Finding(
            name,
            "fine",
            f"{called}, compute capability {properties['major']}.{properties['minor']}, "
            f"{total / _GIB:.1f} GiB, {free / _GIB:.1f} GiB of them free",
        )


def device_failure(cupy: Any, error: BaseException) -> Finding:
    """Return what an error of CUDA means, and what to do about it."""
    status = getattr(error, "status", None)
    if status == _NO_DEVICE:
        return _no_device()
    if status == _INSUFFICIENT_DRIVER:
        return _driver_failure(cupy, error)
    problem, fix = _FAULTS.get(status if isinstance(status, int) else 0, ("", ""))
    if not problem:
        return Finding(
            "CUDA device", "broken", f"the device does not respond: {_told(error)}", _ANOTHER_FAULT
        )
    return Finding("CUDA device", "broken", f"{problem} ({_told(error)})", fix)


def _driver_failure(cupy: Any, error: BaseException) -> Finding:
    """Return why the driver does not suffice: there is none, or it is too old."""
    try:
        driver = int(cupy.cuda.runtime.driverGetVersion())
        built_for = int(cupy.cuda.runtime.runtimeGetVersion())
    except Exception:
        return Finding("CUDA driver", "broken", _told(error), _ANOTHER_FAULT)
    if driver:
        return Finding(
            "CUDA driver",
            "broken",
            f"the NVIDIA driver knows CUDA up to {cuda_version(driver)}, but this CuPy is built "
            f"for {cuda_version(built_for)}",
            _for_driver(driver),
        )
    if Path("/proc/driver/nvidia/version").exists():
        return Finding(
            "CUDA driver",
            "broken",
            "the NVIDIA driver runs, but its library libcuda is not found here",
            "in a container, start it with the devices: docker run --gpus all; elsewhere install "
            "the library that belongs to the driver",
        )
    return Finding(
        "CUDA driver",
        "absent",
        "there is no NVIDIA driver",
        'install one on a machine with an NVIDIA GPU (nvidia.com/drivers), or take backend="numpy"',
    )


def _no_device() -> Finding:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return Finding(
            "CUDA device",
            "absent",
            f"there is no CUDA device among CUDA_VISIBLE_DEVICES={visible[:_LONGEST]!r}",
            "unset CUDA_VISIBLE_DEVICES, or give it a number from nvidia-smi -L",
        )
    return Finding(
        "CUDA device",
        "absent",
        "there is no CUDA device, though the driver is there",
        'see whether nvidia-smi -L lists one, or take backend="numpy"; in a container: '
        "docker run --gpus all",
    )


# Errors of a call.


def import_error(backend: str, module: str, error: BaseException, install: str) -> BackendError:
    """Return the error for an array library that cannot be imported."""
    subject = {"cupy": "CuPy", "numpy": "NumPy"}.get(module, module)
    finding = import_failure(subject, module, error, install)
    return BackendError(backend, finding.found, finding.fix)


def device_error(cupy: Any, error: BaseException) -> BackendError:
    """Return the error for a call that CUDA ended."""
    finding = device_failure(cupy, error)
    return BackendError("cupy", finding.found, finding.fix)


def check_device(cupy: Any) -> None:
    """Raise `BackendError` unless there is a CUDA device that responds."""
    findings = list(device_findings(cupy))
    if not any(finding.state == "fine" for finding in findings):
        raise BackendError("cupy", findings[0].found, findings[0].fix)


# How versions, packages and messages are written.


def cuda_version(number: int) -> str:
    """Return CUDA's number of a version as it is written.

    >>> cuda_version(12090)
    '12.9'
    """
    return f"{number // 1000}.{number % 1000 // 10}"


def _for_driver(driver: int) -> str:
    """Return what to do about a driver that is older than CuPy's CUDA."""
    extras = {12: "cuda12", 13: "cuda13"}
    major = driver // 1000
    if major not in extras:
        return "update the driver"
    installed = " ".join(_installed(CUPY_PACKAGES)) or "cupy"
    return (
        f"update the driver, or take the CuPy for it: python -m pip uninstall {installed}, then "
        f"python -m pip install 'symattn[{extras[major]}]'"
    )


def _installed(packages: tuple[str, ...]) -> list[str]:
    """Return those of some packages that are installed."""
    found = []
    for package in packages:
        try:
            metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
        found.append(package)
    return found


def _told(error: BaseException) -> str:
    """Return what an error began with, in one line of bounded length."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip(" =") for line in str(error).splitlines()]
    message = "; ".join(line for line in lines if line)
    message = message if len(message) <= _LONGEST else message[:_LONGEST] + "…"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
