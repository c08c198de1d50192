"""What is found where CuPy or a device is missing or broken, without either of them."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import symattn as sa
from symattn.codegen.gpu import devices
from symattn.codegen.gpu.devices import (
    check_device,
    device_error,
    device_failure,
    device_findings,
    import_failure,
)
from symattn.errors import BackendError

n, m = sa.dims("n m")
INSTALL = "python -m pip install 'symattn[cuda12]'"


class CudaError(RuntimeError):
    """As CuPy's: it carries CUDA's number."""

    def __init__(self, status: int, message: str = "cudaErrorOfSomeKind: it went wrong") -> None:
        self.status = status
        super().__init__(message)


class Device:
    """A device that can be entered."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def cupy_with(
    count: int | Exception, driver: int = 12040, broken: dict[int, Exception] | None = None
) -> Any:
    """A module that answers as CuPy does on a machine with so many devices."""

    def device_count() -> int:
        if isinstance(count, Exception):
            raise count
        return count

    def properties(number: int) -> dict[str, Any]:
        if number in (broken or {}):
            raise (broken or {})[number]
        return {"name": b"NVIDIA H200", "major": 9, "minor": 0}

    runtime = SimpleNamespace(
        getDeviceCount=device_count,
        getDeviceProperties=properties,
        memGetInfo=lambda: (2**33, 2**37),
        driverGetVersion=lambda: driver,
        runtimeGetVersion=lambda: 12090,
    )
    return SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, Device=Device))


def test_devices_are_described() -> None:
    first, second = device_findings(cupy_with(2))
    assert (first.subject, second.subject) == ("CUDA device 0", "CUDA device 1")
    assert first.state == "fine"
    assert first.found == ("NVIDIA H200, compute capability 9.0, 128.0 GiB, 8.0 GiB of them free")
    check_device(cupy_with(1))


def test_one_device_of_two_that_does_not_respond() -> None:
    cupy = cupy_with(2, broken={0: CudaError(719)})
    first, second = device_findings(cupy)
    assert (first.state, second.state) == ("broken", "fine")
    assert first.found.startswith("earlier work on the device failed")
    check_device(cupy)  # the other one can be used


@pytest.mark.parametrize(
    ("cupy", "found", "fix"),
    [
        (cupy_with(CudaError(35), driver=0), "there is no NVIDIA driver", "install one"),
        (
            cupy_with(CudaError(35), driver=11040),
            "the NVIDIA driver knows CUDA up to 11.4, but this CuPy is built for 12.9",
            "update the driver",
        ),
        (
            cupy_with(CudaError(35), driver=12020),
            "knows CUDA up to 12.2",
            r"then python -m pip install 'symattn\[cuda12\]'",
        ),
        (cupy_with(CudaError(100)), "there is no CUDA device, though", "nvidia-smi -L"),
        (cupy_with(0), "there is no CUDA device, though", "nvidia-smi -L"),
        (cupy_with(CudaError(3)), "CUDA cannot be initialised", "nvidia-smi"),
        (cupy_with(CudaError(46)), "in use by another process", "COMPUTE"),
        (cupy_with(CudaError(304)), "refuses access", "/dev/nvidia"),
        (cupy_with(CudaError(802)), "not ready", "fabricmanager"),
        (cupy_with(CudaError(803)), "different versions", "restart the machine"),
        (cupy_with(CudaError(999)), "does not respond: CudaError: cudaErrorOfSomeKind", "nvidia"),
        (cupy_with(OSError("libcuda.so.1: bad ELF")), "respond: OSError: libcuda", "nvidia-smi"),
        (cupy_with(1, broken={0: CudaError(700)}), "earlier work", "start Python anew"),
    ],
)
def test_what_stands_in_the_way(
    cupy: Any, found: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(devices, "Path", lambda path: Path("/nothing", path.lstrip("/")))
    with pytest.raises(BackendError, match=found) as raised:
        check_device(cupy)
    assert str(raised.value).startswith('backend="cupy" cannot run here: ')
    with pytest.raises(BackendError, match=rf"\n  .*{fix}"):
        check_device(cupy)


def test_a_driver_outside_a_container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(devices, "Path", lambda _: tmp_path)
    finding = device_failure(cupy_with(0, driver=0), CudaError(35))
    assert "its library libcuda is not found" in finding.found
    assert "--gpus all" in finding.fix


@pytest.mark.parametrize("count", [0, CudaError(100)])
def test_devices_that_are_hidden(count: int | Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    with pytest.raises(BackendError, match="among CUDA_VISIBLE_DEVICES='-1'\n  unset"):
        check_device(cupy_with(count))


def test_nothing_that_cuda_says_is_left_without_advice() -> None:
    for status in range(1000):
        error = device_error(cupy_with(1), CudaError(status, "x" * 1000))
        assert error.problem
        assert error.fix
        assert len(str(error)) < 800
    silent = SimpleNamespace(cuda=SimpleNamespace(runtime=SimpleNamespace()))
    assert device_failure(silent, CudaError(35)).state == "broken"


# The import of CuPy.


def test_cupy_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(BackendError, match=r"CuPy is not installed\n  install it: .*cuda12"):
        sa.lambdify([sa.matrix("X", n, m)], 2 * sa.matrix("X", n, m), backend="cupy")(1)


@pytest.mark.parametrize(
    "fault",
    [
        "raise ImportError('libcublas.so.12: cannot open shared object file')",
        "raise RuntimeError('CuPy is not correctly installed')",
        "raise OSError('libcuda.so.1: bad ELF')",
        "import no_such_module_of_anyone",
        "1 / 0",
        "raise ImportError('====\\nlong talk\\n====') from OSError('no libnvrtc')",
    ],
)
def test_cupy_fails_when_it_is_imported(
    fault: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cupy.py").write_text(fault, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(devices, "_installed", lambda packages: packages[:1])
    f = sa.lambdify([sa.matrix("X", n, m)], 2 * sa.matrix("X", n, m), backend="cupy")
    with pytest.raises(BackendError, match="importing CuPy fails: ") as raised:
        f(1)
    assert raised.value.fix == "install it anew: python -m pip install --force-reinstall cupy"
    assert raised.value.__cause__ is not None
    if "libnvrtc" in fault:
        assert raised.value.problem == "importing CuPy fails: OSError: no libnvrtc"


def test_two_packages_of_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_installed", lambda _: ["cupy-cuda11x", "cupy-cuda12x"])
    finding = import_failure("CuPy", "cupy", ImportError("undefined symbol"), INSTALL)
    assert finding.fix.startswith("keep one of cupy-cuda11x, cupy-cuda12x: python -m pip uninst")


@pytest.mark.parametrize(
    ("module", "installed", "fix"),
    [
        ("cupy", ["cupy-cuda12x"], "--force-reinstall 'cupy-cuda12x[ctk]'"),
        ("triton", ["triton"], "--force-reinstall triton"),
        ("triton", [], f"which no package installed, or {INSTALL}"),
    ],
)
def test_what_is_broken_is_installed_anew_by_its_own_name(
    module: str, installed: list[str], fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "_installed", lambda asked: [x for x in asked if x in installed])
    assert import_failure("it", module, ImportError("symbol"), INSTALL).fix.endswith(fix)


def test_packages_are_looked_up() -> None:
    assert devices._installed(("click", "no-such-package-of-anyone")) == ["click"]


def test_a_module_in_between_is_no_reason_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """`fastrlock` missing is a broken CuPy, not an absent one."""
    error = ModuleNotFoundError("No module named 'fastrlock'", name="fastrlock")
    assert import_failure("CuPy", "cupy", error, INSTALL).state == "broken"
    assert isinstance(sys.modules["symattn.codegen.gpu.devices"], ModuleType)
