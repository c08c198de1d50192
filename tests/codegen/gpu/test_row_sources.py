"""Kernels and calls of the blocked plan for CuPy: what compiles, and what CuPy really has."""

import ast
import inspect
import re
from collections.abc import Iterator
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.codegen.gpu import row_blocks, row_device, row_operands
from symattn.codegen.gpu.row_kernels import FINISH, PRELUDE
from tests.codegen.test_cupy_source import parameters, problems

pytestmark = pytest.mark.skipif(
    find_spec("cupy") is None, reason="CuPy is not installed: pip install 'symattn[cuda12]'"
)

TYPES = {"float": ("float", "float"), "half16": ("float", "half16"), "double": ("double", "double")}
"""For each kind of input: what is computed in, and how weights are kept."""
MOST_REGISTERS = 80  # of a thread: three blocks of 256 threads then fit on a multiprocessor

d_k, d_v, n, m = sa.dims("d_k d_v n m")
Q, K, V = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)


def kernels() -> Iterator[tuple[str, str]]:
    """Every different kernel of the catalogue, and the one that ends a strip."""
    seen: set[str] = set()
    given: dict[str, tuple[Any, Any]] = {}
    for name in sa.formulas():
        formula = sa.formula(name, layout="row")
        given[name] = formula.inputs, formula
    mask = sa.keep() & sa.causal("bottom_right")
    given["given mask"] = [Q, K, V], sa.attention(Q, K, V, layout="row", mask=mask)
    for name, (inputs, formula) in given.items():
        f = sa.lambdify(inputs, formula, backend="cupy")
        for text in re.findall(r'r"""\n(.*?)"""', f.sources.get("blocked", ""), re.DOTALL):
            if text not in seen:
                seen.add(text)
                yield name, text


KERNELS = dict(kernels())


def of_cuda(library: str, name: str, *arguments: Any) -> Any:
    """One of the libraries of CUDA that CuPy calls; the test is skipped where it is missing."""
    cuda = pytest.importorskip("cupy").cuda
    try:
        found = getattr(cuda, library)
        getattr(found, name)(*arguments)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"{library} is not installed: pip install 'symattn[cuda12]': {error}")
    return found


def used(source: str, name: str, kind: str, architecture: int) -> dict[str, int]:
    """The registers and the bytes of spills of a kernel, as NVRTC compiles it."""
    nvrtc = of_cuda("nvrtc", "getVersion")
    real, weight = TYPES[kind]
    types = {"REAL": real, "WEIGHT": weight, "ENTRY": weight, "VALUE": weight, "OUT": weight}
    options = [f"-D{macro}={value}" for macro, value in types.items()]
    options += [f"-arch=sm_{architecture}", "-std=c++17", "--ptxas-options=-v"]
    program = nvrtc.createProgram(PRELUDE + source, f"{name}.cu", (), ())
    try:
        nvrtc.compileProgram(program, tuple(options))
        log = nvrtc.getProgramLog(program)
        assert nvrtc.getCUBIN(program)[:4] == b"\x7fELF"
    except nvrtc.NVRTCError:
        pytest.fail(nvrtc.getProgramLog(program))
    finally:
        nvrtc.destroyProgram(program)
    assert "warning" not in log
    spills = re.findall(r"(\d+) bytes spill", log)
    registers = re.findall(r"Used (\d+) registers", log)
    assert spills, log
    assert registers, log
    return {"registers": max(map(int, registers)), "spills": sum(map(int, spills))}


@pytest.mark.parametrize("architecture", [80, 90])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", [*KERNELS, "finish"])
def test_kernels_compile_without_spills(name: str, kind: str, architecture: int) -> None:
    source, function = (FINISH, "finish") if name == "finish" else (KERNELS[name], "rows")
    found = used(source, function, kind, architecture)
    print(f"sm_{architecture} {kind:7} {name:24} {found['registers']:3} registers")
    assert found["spills"] == 0
    assert found["registers"] <= MOST_REGISTERS


def test_an_error_of_a_kernel_is_found() -> None:
    """So the test above could fail."""
    with pytest.raises(pytest.fail.Exception, match="nothing"):
        used("__global__ void rows() { nothing(); }", "rows", "float", 90)


@pytest.mark.parametrize("layout", ["column", "row"])
@pytest.mark.parametrize("name", sa.formulas())
def test_every_name_in_the_source_exists(name: str, layout: str) -> None:
    cupy = pytest.importorskip("cupy")
    formula = sa.formula(name, layout=layout)
    f = sa.lambdify(formula.inputs, formula, backend="cupy", returns=("output", "lse")[:1])
    for source in f.sources.values():
        tree = ast.parse(source)
        ours = {
            alias.name
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if str(node.module).endswith("row_blocks")
        }
        assert all(hasattr(row_blocks, one) for one in ours)
        assert "numpy" not in source
        assert problems(source, cupy) == []


def calls_of(module: ModuleType, owner: str) -> Iterator[tuple[str, ast.Call]]:
    """Each function of a library that a module calls."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Call):
            dotted = ast.unparse(node.func)
            name = dotted.removeprefix(f"{owner}.")
            if name != dotted and name.isidentifier():
                yield name, node


@pytest.mark.parametrize(
    ("module", "owner"),
    [(row_blocks, "self.library"), (row_blocks, "DEVICE.library"), (row_operands, "library")],
)
def test_every_function_that_the_support_calls_exists(module: ModuleType, owner: str) -> None:
    cupy = pytest.importorskip("cupy")
    found = list(calls_of(module, owner))
    assert found
    for name, call in found:
        taken = parameters(getattr(cupy, name), name)
        assert len(call.args) <= len(taken) or taken[:1] == ["args"]
        assert {keyword.arg for keyword in call.keywords} <= set(taken)
        assert name in dir(np)


@pytest.mark.parametrize("method", ["all", "astype", "swapaxes"])
def test_every_method_that_the_support_calls_exists(method: str) -> None:
    cupy = pytest.importorskip("cupy")
    keywords = {"all": {"axis"}, "astype": {"order"}, "swapaxes": set[str]()}[method]
    assert keywords <= set(parameters(getattr(cupy.ndarray, method), method))


class Recorded:
    """CuPy with the calls of cuBLAS recorded instead of made."""

    def __init__(self, cupy: Any) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.RawKernel = cupy.RawKernel
        self.cuda = self
        self.runtime = cupy.cuda.runtime
        self.device = self
        self.cublas = self
        self.real = cupy.cuda.cublas

    def get_cublas_handle(self) -> int:
        return 17

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def gemmStridedBatchedEx(self, *arguments: Any) -> None:
        self.calls.append(arguments)


@pytest.mark.parametrize(
    ("dtype", "sums", "enum"), [("float16", "float32", 2), ("float32", "float32", 0)]
)
def test_products_are_asked_for_as_cublas_takes_them(
    dtype: str, sums: str, enum: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = of_cuda("cublas", "getVersion", 0)
    recorded = Recorded(pytest.importorskip("cupy"))
    monkeypatch.setattr(row_device.CuPyDevice, "library", recorded)
    factor = np.array([0.5], sums)
    first, second, out = (1024, dtype, 7, 70), (2048, dtype, 5, 50), (4096, sums, 9, 90)
    row_device.CuPyDevice().product((True, False), (3, 4, 5), factor, first, second, out, 6)
    names = parameters(real.gemmStridedBatchedEx, "gemmStridedBatchedEx")
    (arguments,) = recorded.calls
    call = dict(zip(names, arguments, strict=True))
    expected = {
        **{"handle": 17, "transa": real.CUBLAS_OP_T, "transb": real.CUBLAS_OP_N},
        **{"m": 3, "n": 4, "k": 5, "alpha": factor.ctypes.data},
        **{"A": 1024, "Atype": enum, "lda": 7, "strideA": 70},
        **{"B": 2048, "Btype": enum, "ldb": 5, "strideB": 50},
        **{"C": 4096, "Ctype": 0, "ldc": 9, "strideC": 90},
        **{"batchCount": 6, "computeType": real.CUBLAS_COMPUTE_32F},
    }
    assert {name: call[name] for name in expected} == expected
    assert call.keys() - expected.keys() == {"beta", "algo"}


def test_kernels_are_made_once() -> None:
    cupy = pytest.importorskip("cupy")
    kernel = PRELUDE + FINISH, "finish", ("-DREAL=float",)
    one, other = (row_device._compiled(*kernel) for _ in range(2))
    assert one is other
    assert isinstance(one, cupy.RawKernel)
    assert (one.name, one.options) == ("finish", ("-DREAL=float",))
