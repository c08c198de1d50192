"""When a call takes a fused kernel, with a library in CuPy's place."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.codegen.gpu import fused_choice

n, m, d_k, d_v = sa.dims("n m d_k d_v")
ROW = (sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v))


def library(capability: str) -> Any:
    device = SimpleNamespace(compute_capability=capability)
    runtime = SimpleNamespace(getDevice=lambda: 0)
    return SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, Device=lambda _: device))


@pytest.fixture
def can_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_choice, "_can_compile", lambda: True)
    monkeypatch.setattr(fused_choice, "_capability", lambda cupy, _: capability_of(cupy))


def capability_of(cupy: Any) -> int:
    return int(cupy.cuda.Device(0).compute_capability)


@pytest.mark.usefixtures("can_compile")
@pytest.mark.parametrize(
    ("queries", "widths", "dtype", "capability", "expected"),
    [
        (512, (64, 128), "float16", "90", True),
        (512, (64, 128), "float32", "80", True),
        (512, (64, 128), "float64", "90", False),
        (16, (64, 128), "float16", "90", False),
        (512, (64, 257), "float16", "90", False),
        (512, (64, 128), "float16", "75", False),
    ],
)
def test_dtypes_sizes_and_devices(
    queries: int, widths: tuple[int, ...], dtype: str, capability: str, expected: bool
) -> None:
    load = lambda: library(capability)  # noqa: E731
    found = fused_choice.suits_fused([queries], widths, np.dtype(dtype), load)
    assert found is expected


@pytest.mark.usefixtures("can_compile")
def test_a_call_takes_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    f = sa.lambdify(ROW, sa.attention(*ROW, layout="row"), backend="cupy")
    monkeypatch.setattr(type(f._target), "load", lambda _: library("90"))
    sizes = {"n": 2048, "m": 2048, "d_k": 64, "d_v": 128}
    for dtype, expected in (("float16", "fused"), ("float64", "blocked")):
        given = [np.broadcast_to(np.dtype(dtype).type(0), (2048, d)) for d in (64, 64, 128)]
        assert f._plans.suited(sizes, given, {}).source is f._plans.by_name[expected]


def test_without_a_working_triton_or_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> Any:
        raise RuntimeError("a broken installation")

    fused_choice._can_compile.cache_clear()
    monkeypatch.setattr(fused_choice, "import_module", fail)
    assert not fused_choice.suits_fused([512], [64], np.dtype("float16"), lambda: library("90"))
    fused_choice._can_compile.cache_clear()
    monkeypatch.setattr(fused_choice, "import_module", lambda _: None)
    monkeypatch.setenv("SYMATTN_CACHE_DIR", "/dev/null/kernels")
    assert not fused_choice.suits_fused([512], [64], np.dtype("float16"), lambda: library("90"))
    fused_choice._can_compile.cache_clear()
