"""Fused kernels as machine code: compiled without a device, and handed to CuPy as it takes them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.codegen.gpu import block_sizes, compiling, fused
from symattn.codegen.gpu.ahead import compile_all, variant_of
from symattn.codegen.gpu.block_sizes import BlockSizes
from symattn.codegen.gpu.cache import Cache, Cubin
from symattn.codegen.gpu.compiling import compiled, cubin_of, kernel_of
from symattn.codegen.gpu.fused_step import why_not_fused
from symattn.codegen.gpu.parameters import in_order, parameters
from symattn.codegen.gpu.triton_code import KernelText, kernel_text
from tests.codegen.gpu.pairs import attended_in

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs triton")
needs_cupy = pytest.mark.skipif(find_spec("cupy") is None, reason="needs cupy")

n, m, d, e = sa.dims("n m d e")
Q, K, V = sa.matrix("Q", n, d), sa.matrix("K", m, d), sa.matrix("V", m, e)
S = Q @ K.T / sa.sqrt(d)


def kernel_for(formula: Any) -> tuple[Any, KernelText]:
    (attended,) = attended_in(formula)
    return attended, kernel_text(attended)


def parameters_of(kernel: KernelText) -> list[str]:
    names = parameters(
        operands=kernel.operands,
        masks=len(kernel.masks),
        dots=len(kernel.dots),
        sums=len(kernel.sums),
        numbers=len(kernel.numbers),
        counts=len(kernel.counts),
    )
    return list(in_order(names))


# The source.


@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("name", sa.formulas())
def test_every_name_in_a_kernel_is_its_own(name: str, layout: str) -> None:
    """Parsed as Python: what is read is a parameter, or was computed before."""
    program = sa.formula(name, layout=layout).program
    if why_not_fused(program):
        pytest.skip(why_not_fused(program))
    for attended in attended_in(sa.formula(name, layout=layout)):
        kernel = kernel_text(attended)
        tree = ast.parse(kernel.text)
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        attend = functions["attend"]
        given = [argument.arg for argument in attend.args.args]
        assert given == parameters_of(kernel)
        names = [node for node in ast.walk(attend) if isinstance(node, ast.Name)]
        written = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        known = {*given, *written, *functions, "tl", "triton", "float"}
        assert {node.id for node in names} <= known
        assert max(map(len, kernel.text.splitlines())) <= 130


def test_what_is_the_same_for_all_blocks_is_known_beforehand() -> None:
    causal = kernel_for(sa.softmax(S, axis=1, mask=sa.causal("top_left")) @ V)[1].text
    assert "block < left" not in causal
    keep = kernel_for(sa.softmax(S, axis=1, mask=sa.keep()) @ V)[1].text
    assert "tl.range(full, stop, BN)" not in keep, "no key is certain to be seen"
    plain = kernel_for(sa.softmax(S, axis=1) @ V)[1].text
    assert "odd" not in plain, "without a mask, values are what they are"


@pytest.mark.parametrize(
    ("program", "dtype", "reason"),
    [
        (sa.formula("luong_concat", layout="row").program, "float32", "a product of a matrix"),
        (sa.formula("dot_product", layout="row").program, "float64", "float64 in one kernel"),
        (sa.Program({"O": Q @ K.T}), "float32", "there is no softmax in it"),
        (
            sa.Program({"O": sa.hadamard(sa.softmax(S, axis=1), sa.matrix("D", n, m)) @ V}),
            "float32",
            "weights that are changed after the softmax",
        ),
    ],
)
def test_what_has_no_kernel_says_why(program: Any, dtype: str, reason: str) -> None:
    assert reason in why_not_fused(program, dtype)


@pytest.mark.parametrize("capability", [80, 86, 90, 100])
@pytest.mark.parametrize("itemsize", [2, 4])
def test_every_size_of_a_head_has_blocks(itemsize: int, capability: int) -> None:
    for width in (16, 32, 64, 128, 256):
        rows = block_sizes.block_sizes(width, itemsize, capability)
        assert all(row.queries >= block_sizes.FEWEST_QUERIES for row in rows)
        assert all(16 <= row.few_keys <= 64 for row in rows), "counts of three kinds are digits"
    with pytest.raises(sa.NotSupportedError, match=r"heads of 512 numbers, of . bytes each"):
        block_sizes.block_sizes(512, itemsize, capability)


# Machine code.

BARE = {
    "full": sa.softmax(S, axis=1) @ V,
    "causal": sa.softmax(S, axis=1, mask=sa.causal("top_left")) @ V,
    "helpers": sa.softmax(sa.silu(sa.softplus(S)), axis=1) @ V,
    "window of keep": sa.softmax(S, axis=1, mask=sa.keep() & sa.window(9, "top_left")) @ V,
}


@needs_triton
@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("name", BARE)
def test_kernels_compile_without_a_device(name: str, capability: int, tmp_path: Path) -> None:
    attended, kernel = kernel_for(BARE[name])
    variant = variant_of(attended, kernel, "bfloat16", 64, lse=name == "causal")
    cubin, path = cubin_of(variant, capability, Cache(tmp_path))
    assert path.read_bytes() == cubin.code
    assert cubin.name == "attend"
    assert cubin.spilled == 0
    assert 0 < cubin.registers <= 255
    sizes, kinds = arguments_of(path), dict(variant.types)
    names = [name for name in kernel_of(kernel.text).arg_names if name in kinds]
    assert sizes[:-2] == [8 if kinds[x].startswith("*") or kinds[x] == "i64" else 4 for x in names]
    assert sizes[-2:] == [8, 8], "two pointers to scratch memory come last"


def arguments_of(path: Path) -> list[int]:
    """The sizes of a kernel's arguments in bytes, as its machine code tells them."""
    tools = Path(pytest.importorskip("triton").__file__).parent / "backends" / "nvidia" / "bin"
    said = subprocess.run(
        [str(tools / "cuobjdump"), "-elf", str(path)], capture_output=True, encoding="utf-8"
    ).stdout
    found = re.findall(r"Ordinal\s*:\s*0x(\w+)\s*Offset\s*:\s*0x\w+\s*Size\s*:\s*0x(\w+)", said)
    return [int(size, 16) for _, size in sorted((int(o, 16), s) for o, s in found)]


@needs_triton
@pytest.mark.parametrize("capability", [89, 120])
@pytest.mark.parametrize(("dtype", "width"), [("float32", 128), ("bfloat16", 256)])
def test_kernels_fit_where_blocks_have_little_memory(
    dtype: str, width: int, capability: int
) -> None:
    attended, kernel = kernel_for(BARE["full"])
    found = compiled(variant_of(attended, kernel, dtype, width), capability)
    assert 0 < found.shared <= 99 * 1024


@needs_triton
def test_the_first_blocks_that_spill_nothing_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    attended, kernel = kernel_for(BARE["full"])
    variant = variant_of(attended, kernel, "float16", 64)
    tried: list[BlockSizes] = []
    rows = [BlockSizes(queries, 16, 16, 4, 1) for queries in (16, 32, 64, 128)]
    outcomes = {16: (0, 10**6), 32: (9, 1024), 64: (5, 1024), 128: (7, 1024)}  # spilled, shared

    def fake(_variant: Any, sizes: BlockSizes, _capability: int) -> Cubin:
        tried.append(sizes)
        spilled, shared = outcomes[sizes.queries]
        return Cubin(b"", "attend", shared, 4, sizes.queries, 100, spilled)

    monkeypatch.setattr(compiling, "_compiled", fake)
    monkeypatch.setattr(compiling, "block_sizes", lambda *_: rows)
    assert compiled(variant, 90).queries == 64, "the least is spilled, and its memory fits"
    assert tried == rows
    outcomes[32] = (0, 1024)
    assert compiled(variant, 90).queries == 32
    outcomes.update(dict.fromkeys(outcomes, (0, 10**6)))
    with pytest.raises(sa.NotSupportedError, match="bytes, in one kernel"):
        compiled(variant, 90)


def test_what_decides_the_code_is_in_its_key() -> None:
    attended, kernel = kernel_for(BARE["full"])
    variant = variant_of(attended, kernel, "float16", 64)
    others = [
        variant_of(attended, kernel, "bfloat16", 64),
        variant_of(attended, kernel, "float16", 32),
        variant_of(attended, kernel, "float16", 64, lse=True),
        replace(variant, text=variant.text + "\n"),
        replace(variant, divisors=variant.divisors[1:]),
    ]
    keys = {variant.key(90, "3.9"), variant.key(80, "3.9"), variant.key(90, "3.8")}
    keys |= {other.key(90, "3.9") for other in others}
    assert len(keys) == len(others) + 3
    assert variant.key(90, "3.9") == variant_of(attended, kernel, "float16", 64).key(90, "3.9")


@needs_triton
def test_kernels_of_the_catalogue_are_compiled_once(tmp_path: Path) -> None:
    entries = [sa.formula("dot_product", layout="row"), sa.formula("luong_concat", layout="row")]
    options: dict[str, Any] = {"dtypes": ["float16"], "widths": [32], "cache": Cache(tmp_path)}
    (found,) = compile_all(entries, 90, **options)
    assert (found.formula, found.dtype, found.width) == ("dot_product row", "float16", 32)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert compile_all(entries, 90, **options) == [found]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == files


@needs_triton
def test_triton_keeps_nothing_elsewhere(tmp_path: Path) -> None:
    """No cubin that nobody has checked is taken from Triton's own cache."""
    code = (
        "import symattn as sa\n"
        "from pathlib import Path\n"
        "from symattn.codegen.gpu.ahead import compile_all\n"
        "entry = sa.formula('dot_product', layout='row')\n"
        "compile_all([entry], 90, dtypes=['float16'], widths=[16])\n"
    )
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=environment, check=True)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".cubin", ".json"}
    assert {path.parent for path in files} == {tmp_path / ".cache" / "symattn"}


@needs_triton
def test_threads_compile_one_after_another(tmp_path: Path) -> None:
    """Where Triton keeps files is one setting of the process, for all its threads."""
    attended, kernel = kernel_for(BARE["full"])
    triton = pytest.importorskip("triton")
    before = triton.knobs.cache.dir

    def made(width: int) -> Path:
        return cubin_of(variant_of(attended, kernel, "float16", width), 90, Cache(tmp_path))[1]

    with ThreadPoolExecutor(4) as threads:
        paths = list(threads.map(made, (16, 32, 64, 128)))
    assert all(path.exists() for path in paths)
    assert triton.knobs.cache.dir == before


def test_without_triton_what_was_compiled_before_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attended, kernel = kernel_for(BARE["full"])
    variant, cache = variant_of(attended, kernel, "float16", 64), Cache(tmp_path)
    made = Cubin(b"code", "attend", 1024, 4, 128, 100, 0)
    monkeypatch.setattr(compiling, "triton_version", lambda: "3.9")
    monkeypatch.setattr(compiling, "compiled", lambda *_: made)
    assert cubin_of(variant, 90, cache)[0] == made
    monkeypatch.undo()
    monkeypatch.setattr(compiling, "triton_version", lambda: "")
    monkeypatch.setitem(sys.modules, "triton", None)
    assert cubin_of(variant, 90, cache)[0] == made
    with pytest.raises(sa.BackendError, match=r"python -m pip install 'symattn\[fused\]'"):
        cubin_of(variant, 80, cache)


@pytest.mark.parametrize("fault", ["raise RuntimeError('no driver')", "import no_such_module"])
def test_a_triton_that_cannot_be_imported(
    fault: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "triton.py").write_text(fault, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    with pytest.raises(sa.BackendError, match="importing Triton fails: ") as raised:
        kernel_of(fault)
    assert raised.value.problem.endswith("; it compiles fused kernels")
    assert raised.value.__cause__ is not None


# What CuPy is given.


@needs_cupy
def test_what_is_asked_of_cupy_is_there() -> None:
    cupy = pytest.importorskip("cupy")
    assert hasattr(cupy.RawKernel, "max_dynamic_shared_size_bytes")
    assert callable(cupy.RawModule.get_function)
    assert hasattr(cupy.cuda.Device, "compute_capability")
    assert callable(cupy.cuda.runtime.getDevice)
    assert "path" in cupy.RawModule.__doc__


@needs_triton
def test_arguments_are_those_of_the_machine_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for CuPy takes the arguments of a launch; their sizes are those of the cubin."""
    launches: list[Any] = []

    class Function:
        max_dynamic_shared_size_bytes = 0

        def __call__(self, grid: Any, threads: Any, given: Any, *, shared_mem: int) -> None:
            launches.append((grid, threads, given, shared_mem))

    function, paths = Function(), []

    def raw_module(*, path: str) -> Any:
        paths.append(Path(path))
        return SimpleNamespace(get_function=lambda name: function)

    cupy = SimpleNamespace(
        RawModule=raw_module,
        empty=np.empty,
        cuda=SimpleNamespace(
            Device=lambda: SimpleNamespace(compute_capability="90"),
            runtime=SimpleNamespace(getDevice=lambda: 3),
        ),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setenv("SYMATTN_CACHE_DIR", str(tmp_path))
    machine = fused.CupyMachine()
    monkeypatch.setattr(machine, "address", lambda array: array.ctypes.data)
    formula = sa.softmax(S, axis=1, mask=sa.window(sa.dim("w"), "top_left")) @ V
    _, kernel = kernel_for(formula)
    f = fused.FusedKernel(kernel.text, kernel.axis, kernel.dots, kernel.sums, machine)
    q, k, v = (np.zeros((5, 3, size, 32), np.float32) for size in (100, 90, 90))
    given: dict[str, Any] = {"numbers": (0.5,), "counts": [7] * len(kernel.counts), "lse": True}
    f(v, q, k, n=100, **given)
    out, lse = f(v, q, k, n=100, **given)
    assert out.shape == (5, 3, 100, 32)
    assert lse.shape == (5, 3, 100)
    assert len(paths) == 1, "it is loaded once"
    grid, threads, taken, shared = launches[0]
    queries = cubin_of_launch(f).queries
    assert grid == (15 * -(-100 // queries),)
    assert threads[0] % 32 == 0
    assert shared == function.max_dynamic_shared_size_bytes > 0
    assert [x.itemsize for x in taken] == arguments_of(paths[0])
    assert [x.dtype.kind for x in taken[:6]] == ["u"] * 5 + ["f"]
    assert [int(x) for x in taken[-2:]] == [0, 0]


def cubin_of_launch(f: fused.FusedKernel) -> Cubin:
    (launch, _), *_ = f.earlier.values()
    return cubin_of(launch.variant, 90, Cache())[0]
