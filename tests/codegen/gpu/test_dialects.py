"""Every function of the table, in every language, against mpmath."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

from symattn.codegen.gpu.dialects import CUDA, DIALECTS, FLEX, TRITON, Dialect
from symattn.errors import NotSupportedError
from symattn.meaning.functions import FUNCTIONS
from tests.codegen.gpu import interpreted
from tests.codegen.gpu.native import compiled, the_nvrtc

POINTS = np.array(
    [
        *(-1e4, -200.0, -90.0, -30.0, -8.5, -3.0, -1.0, -0.4, -1e-3, -1e-6, 0.0),
        *(1e-6, 1e-3, 0.4, 1.0, 2.5, 8.5, 16.0, 21.0, 30.0, 90.0, 200.0, 1e4),
        *(np.inf, -np.inf, np.nan, 0.75, 1.25, 5.0, -5.0, 12.0, -12.0),
        *np.linspace(-0.7, 0.7, 32),
    ]
)
FINITE = np.isfinite(POINTS)

POWERS = [Fraction(e) for e in (2, 3, 6, 11, -1, -3)] + [
    Fraction(p, q) for p, q in ((1, 2), (-1, 2), (3, 2), (1, 3), (-5, 4))
]


def expected(compute: Callable[[Any, Any], Any], points: np.ndarray) -> np.ndarray:
    """The exact values, rounded; NaN where there is no real number."""
    values = []
    with mpmath.workdps(120):
        for x in points:
            try:
                value = compute(mpmath, mpmath.mpf(float(x)))
                values.append(float(value) if mpmath.im(value) == 0 else np.nan)
            except (ZeroDivisionError, ValueError, OverflowError):
                values.append(np.nan)
    return np.array(values)


FUNCTIONS_AND_POWERS: dict[str, tuple[Callable[[Dialect, str], str], Callable[[Any, Any], Any]]] = {
    **{
        name: (lambda dialect, x, name=name: dialect.apply(name, x), row.mpmath)
        for name, row in FUNCTIONS.items()
    },
    **{
        f"raised_{k}": (
            lambda dialect, x, e=exponent: dialect.raised(x, e),
            lambda mp, x, e=exponent: x ** (mp.mpf(e.numerator) / e.denominator),
        )
        for k, exponent in enumerate(POWERS)
    },
}


REDUCED = ("sin", "cos")  # of huge arguments, by themselves in float64


def texts(dialect: Dialect) -> dict[str, str]:
    return {name: write(dialect, "s0") for name, (write, _) in FUNCTIONS_AND_POWERS.items()}


def check(name: str, found: np.ndarray, points: np.ndarray, rtol: float, atol: float) -> None:
    """Compare where the exact value is a number of the type that is large enough for relative
    errors, and where it is not for what it is: an infinity, or NaN."""
    exact = expected(FUNCTIONS_AND_POWERS[name][1], np.where(np.isfinite(points), points, 1.0))
    limits = np.finfo(found.dtype)
    regular = np.isfinite(points) & np.isfinite(exact) & (np.abs(exact) < limits.max)
    regular &= ~((name in ("sin", "cos")) & (np.abs(points) > 1e3))
    np.testing.assert_allclose(found[regular], exact[regular], rtol=rtol, atol=atol, err_msg=name)
    if name in FUNCTIONS:
        numpy = eval(FUNCTIONS[name].array_code("x", "np.{}".format), {"np": np, "x": points})
        infinite = np.isinf(points)
        np.testing.assert_array_equal(found[infinite], numpy[infinite].astype(found.dtype), name)
    assert np.isnan(found[np.isnan(points)]).all(), name


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
def test_every_function_has_a_row(dialect: Dialect) -> None:
    assert set(dialect.functions) == set(FUNCTIONS)
    with pytest.raises(NotSupportedError, match="nothing is known of it but its name"):
        dialect.apply("phi", "x")


@pytest.fixture(scope="module", params=["float", "double"])
def of_cpp(request: pytest.FixtureRequest, tmp_path_factory: Any) -> tuple[str, ctypes.CDLL]:
    written = texts(CUDA)
    functions = "\n".join(
        f'extern "C" void f_{name}(long n, const real* x, real* y) {{\n'
        f"  for (long t = 0; t < n; ++t) {{ real s0 = x[t]; y[t] = {text}; }}\n}}"
        for name, text in written.items()
    )
    source = CUDA.helpers_in(*written.values()) + "\n" + functions
    return request.param, compiled(source, tmp_path_factory.mktemp("cpp"), request.param)


@pytest.mark.parametrize("name", FUNCTIONS_AND_POWERS)
def test_cuda(name: str, of_cpp: tuple[str, ctypes.CDLL]) -> None:
    real, library = of_cpp
    x = POINTS.astype("f4" if real == "float" else "f8")
    y = np.zeros_like(x)
    pointers = (ctypes.c_void_p(array.ctypes.data) for array in (x, y))
    getattr(library, f"f_{name}")(ctypes.c_long(len(x)), *pointers)
    eps = np.finfo(x.dtype).eps
    with np.errstate(all="ignore"):
        check(name, y, x.astype("f8"), rtol=8 * eps, atol=10 * float(np.finfo(x.dtype).tiny))


@pytest.fixture(scope="module")
def of_triton(tmp_path_factory: Any) -> dict[str, np.ndarray]:
    written = texts(TRITON)
    folder: Path = tmp_path_factory.mktemp("triton")
    columns = {"s0": POINTS.astype("f4"), "i": np.arange(len(POINTS), dtype="i4")}
    named = {f"f_{name}": text for name, text in written.items()}
    return interpreted.run(named, TRITON.helpers_in(*written.values()), columns, folder)


@pytest.mark.parametrize("name", FUNCTIONS_AND_POWERS)
def test_triton(name: str, of_triton: dict[str, np.ndarray]) -> None:
    x = POINTS.astype("f4").astype("f8")
    with np.errstate(all="ignore"):
        check(name, of_triton[f"f_{name}"], x, rtol=3e-6, atol=1e-37)


@pytest.mark.parametrize("name", FUNCTIONS_AND_POWERS)
def test_flex(name: str) -> None:
    torch = pytest.importorskip("torch")
    text = FUNCTIONS_AND_POWERS[name][0](FLEX, "s0")
    found = eval(text, {"torch": torch, "s0": torch.from_numpy(POINTS)}).numpy()
    with np.errstate(all="ignore"):
        # its softplus is x above 20
        check(name, found, POINTS, rtol=3e-9 if name == "softplus" else 2e-15, atol=5e-324)


def test_real_alone_is_computed_in() -> None:
    """In float32 no operation of CUDA C++ is one of float64, which would be slow."""
    nvrtc = the_nvrtc()
    written = {name: text for name, text in texts(CUDA).items() if name not in REDUCED}
    lines = "\n".join(f"y[{k}] = {text};" for k, text in enumerate(written.values()))
    source = (
        f"typedef float real;\n{CUDA.helpers_in(*written.values())}\n"
        f'extern "C" __global__ void f(const real* x, real* y) {{ real s0 = x[0];\n{lines}\n}}'
    )
    program = nvrtc.createProgram(source, "f.cu", (), ())
    nvrtc.compileProgram(program, ("--gpu-architecture=compute_90",))
    assert ".f64" not in nvrtc.getPTX(program).decode()


def test_triton_computes_in_float32_alone(tmp_path: Path) -> None:
    written = [text for name, text in texts(TRITON).items() if name not in REDUCED]
    written.append(TRITON.of_position.format(x="at - 3 + n"))
    written = [text.replace("s0", "v") for text in written]
    assert ".f64" not in interpreted.ptx_of(written, TRITON.helpers_in(*written), tmp_path)
