"""`symattn doctor`: what it finds, and that nothing that is broken takes it along."""

import json
import os
import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from symattn.cli import main
from symattn.codegen.gpu import environment
from symattn.codegen.gpu.devices import Finding
from symattn.codegen.gpu.environment import STEPS, cache_folder, examined, tell

EVERYTHING = [
    Finding("NumPy", "fine", "2.4"),
    Finding("CuPy", "fine", "14.2"),
    Finding("NVRTC", "fine", "12.9"),
    Finding("CUDA device 0", "fine", "NVIDIA H200\x1b[31m"),
    Finding("a computation", "fine", "as it should"),
    Finding("Triton", "absent", "not installed", "python -m pip install 'symattn[fused]'"),
]


def shown(*options: str, status: int) -> str:
    result = CliRunner().invoke(main, ["doctor", *options])
    assert result.exit_code == status, result.output
    return result.stdout


def finding_of(step: str) -> Finding:
    (finding,) = list(STEPS[step]())
    return finding


# What is printed.


def test_what_is_not_there_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symattn.cli.doctoring.examined", lambda: EVERYTHING)
    text = shown(status=0)
    assert "CUDA device 0  fine    NVIDIA H200�[31m\n" in text
    assert "Triton         absent  not installed\n" in text
    assert "                       → python -m pip install 'symattn[fused]'\n" in text
    assert text.endswith('backend="numpy": ready; backend="cupy": ready; plan="fused": not here\n')
    data = json.loads(shown("--json", status=0))
    assert data["ready"] == {"numpy": True, "cupy": True, "fused": False}
    assert data["findings"][-1] == {
        "subject": "Triton",
        "state": "absent",
        "found": "not installed",
        "fix": "python -m pip install 'symattn[fused]'",
    }


def test_what_is_broken_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Finding("CuPy", "broken", "importing CuPy fails: " + "word " * 40, "install it anew")
    monkeypatch.setattr("symattn.cli.doctoring.examined", lambda: [EVERYTHING[0], broken])
    text = shown(status=1)
    assert max(map(len, text.splitlines())) <= 100
    assert text.endswith('backend="cupy": not here; plan="fused": not here\n')


def test_this_machine() -> None:
    findings = examined()
    assert [f.state for f in findings if f.subject in ("Python", "NumPy")] == ["fine", "fine"]
    subjects = {finding.subject for finding in findings}
    assert {"CUDA driver", "CuPy", "NVRTC", "Triton", "cache of kernels"} <= subjects
    for finding in findings:
        assert finding.found
        assert finding.fix or finding.state == "fine"


# Libraries that are broken.


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, **modules: str) -> None:
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(folder))


def test_libraries_that_end_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(
        tmp_path,
        monkeypatch,
        cupy="import os; print('symattn doctor {', flush=True); os.abort()",
        triton="print('hello'); raise SystemExit(3)",
        ml_dtypes="1 / 0",
    )
    found = {f.subject: f for f in examined(steps=["ml_dtypes", "CuPy", "Triton", "Python"])}
    assert "fails: ZeroDivisionError" in found["ml_dtypes"].found
    assert found["CuPy"].found.startswith("looking at it ends Python")
    assert found["Triton"].found == "looking at it ends Python with 3"
    assert found["Python"].state == "fine"
    assert {f.state for f in found.values()} == {"broken", "fine"}


def test_a_library_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process here is one that has begun with CuPy, and cuts off what it says."""
    begun = environment._MARK + json.dumps({"begun": "CuPy"})
    process = (
        f"print({begun!r}, {begun[:-3]!r}, sep='\\n', flush=True); import time; time.sleep(60)"
    )
    monkeypatch.setattr(environment, "_PROCESS", process)
    (found,) = examined(patience=3, steps=["CuPy"])
    assert (found.subject, found.state) == ("CuPy", "broken")
    assert found.found == "looking at it took more than 3 seconds"


def test_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nothing/of/this/name")
    (found,) = examined()
    assert (found.subject, found.state) == ("symattn", "broken")


def test_a_step_that_fails_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(environment, "STEPS", {"odd": lambda: 1 / 0})
    tell(["odd"])
    facts = [json.loads(line[15:]) for line in capsys.readouterr().out.splitlines() if line]
    assert facts[0] == {"begun": "odd"}
    assert facts[1]["finding"]["found"].startswith("looking at it fails: ZeroDivisionError")


# One step each.


class Arange:
    """So much of an array of CuPy as is computed with."""

    def __init__(self, total: float) -> None:
        self.total = total

    def __mul__(self, _: object) -> "Arange":
        return self

    __add__ = __mul__

    def __matmul__(self, _: object) -> Any:
        return SimpleNamespace(item=lambda: 14.0)

    def sum(self) -> float:
        return self.total


@pytest.mark.parametrize(
    ("total", "state", "found"),
    [(20.0, "fine", "compute what they should"), (0.0, "broken", "wrong numbers: 0.0 and 14.0")],
)
def test_a_computation_on_the_device(
    total: float, state: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cupy = SimpleNamespace(arange=lambda *_, **__: Arange(total), float32="float32")
    monkeypatch.setattr(environment, "_imported", lambda *_: (cupy, None))
    device = Finding("CUDA device 0", "fine", "a device")
    monkeypatch.setattr(environment, "device_findings", lambda _: [device])
    first, second = STEPS["CUDA device"]()
    assert first is not second
    assert first == device
    assert (second.subject, second.state) == ("a computation", state)
    assert found in second.found


def test_kernels_that_do_not_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    def arange(*_: object, **__: object) -> None:
        raise OSError("cannot open source file cuda_fp16.h")

    runtime = SimpleNamespace(CUDARuntimeError=ZeroDivisionError)
    cupy = SimpleNamespace(arange=arange, float32="float32", cuda=SimpleNamespace(runtime=runtime))
    finding = environment._a_kernel(cupy)
    assert finding.state == "broken"
    assert "cuda_fp16.h" in finding.found
    assert "symattn[cuda12]" in finding.fix


def test_without_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cupy", "triton", "threadpoolctl", "ml_dtypes"):
        monkeypatch.setitem(sys.modules, name, None)
    for step in ("CuPy", "NVRTC", "CUDA device", "Triton", "threadpoolctl", "ml_dtypes"):
        finding = finding_of(step)
        assert (finding.subject, finding.state) == (step, "absent")
        assert "python -m pip install" in finding.fix


def test_the_folder_of_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SYMATTN_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "symattn"
    assert finding_of("cache of kernels").found.endswith("which is made when it is needed")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "symattn"
    monkeypatch.setenv("SYMATTN_CACHE_DIR", str(tmp_path / "own"))
    (tmp_path / "own").write_text("")
    assert finding_of("cache of kernels").found.endswith("is no folder")
    monkeypatch.setenv("SYMATTN_CACHE_DIR", str(tmp_path / "own" / "below"))
    assert finding_of("cache of kernels").state == "broken"


@pytest.mark.skipif(os.name != "posix", reason="permissions as POSIX has them")
def test_a_cache_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SYMATTN_CACHE_DIR", str(tmp_path / "a" / "b"))
    monkeypatch.setattr(os, "access", lambda path, _: path != tmp_path)
    found = finding_of("cache of kernels")
    assert (found.state, found.fix) == ("absent", "name a folder of your own: SYMATTN_CACHE_DIR")
    assert found.found.endswith(f"b cannot be made: {tmp_path} cannot be written to")


def test_fused_needs_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    fine = [Finding(found.subject, "fine", "there") for found in EVERYTHING]
    for state in ("fine", "absent", "broken"):
        findings = [*fine, Finding("cache of kernels", state, "a folder")]
        monkeypatch.setattr("symattn.cli.doctoring.examined", lambda findings=findings: findings)
        text = shown("--json", status=int(state == "broken"))
        assert json.loads(text)["ready"]["fused"] == (state == "fine")


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/of/someone")
    monkeypatch.setenv("SYMATTN_CACHE_DIR", "~/kernels")
    assert cache_folder() == Path("/of/someone/kernels")
    monkeypatch.delenv("SYMATTN_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == Path("/of/someone/.cache/symattn")


def test_a_cache_that_others_can_write_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SYMATTN_CACHE_DIR", str(tmp_path))
    tmp_path.chmod(0o700)
    assert finding_of("cache of kernels") == Finding("cache of kernels", "fine", str(tmp_path))
    tmp_path.chmod(0o770)
    assert finding_of("cache of kernels").fix == f"chmod 700 {tmp_path}"
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    assert finding_of("cache of kernels").found.endswith("belongs to someone else")
    tmp_path.chmod(stat.S_IRWXU)
