"""The modules of `score_code` in Triton and CUDA C++: they are whole, and say what is what."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symattn as sa
from tests.codegen.gpu import interpreted
from tests.codegen.gpu.formulas import FORMULAS, B, K, Q, V, attention, d, s
from tests.codegen.gpu.native import compiled, the_nvrtc

CUDA = """\
// The score of one query and one key in softmax_{j ≤ i + m - n and keep[i,j]}(Q Kᵀ / √d + B²) V
// s0: the query's row of Q times the key's row of K, times c0
// e0: the pair's entry of B
// keep0: the pair's entry of keep: whether the query may attend to the key
// c0: 1 / √d
// n0: m - n
// i: the position of the query, from 0
// j: the position of the key
typedef float real;

__device__ __forceinline__ real square(real x) {
    return x * x;
}

__device__ __forceinline__ real score(real s0, real e0) {
    return s0 + square(e0);
}

__device__ __forceinline__ bool seen(bool keep0, long long i, long long j, long long n0) {
    return (j <= i + n0) && keep0;
}
"""

TRITON = """\
# The score of one query and one key in softmax(Q Kᵀ / √d + [s (i - j)²]_{i,j}) V
# s0: the query's row of Q times the key's row of K, times c0
# c0: 1 / √d
# c1: s
# i: the position of the query, from 0
# j: the position of the key
import triton
import triton.language as tl


@triton.jit
def square(x):
    return x * x


@triton.jit
def score(s0, c1, i, j):
    return s0 + c1 * square((i - j).to(tl.float32))
"""


def test_cuda_in_full() -> None:
    mask = sa.causal(align="bottom_right") & sa.keep()
    formula = sa.softmax(Q @ K.T / sa.sqrt(d) + sa.square(B), axis=1, mask=mask) @ V
    assert sa.score_code(formula, target="cuda") == CUDA


def test_triton_in_full() -> None:
    formula = attention(bias=lambda i, j: s * (i - j) ** 2)
    assert sa.score_code(formula, target="triton") == TRITON


def cuda_modules() -> str:
    """All modules, each in a namespace of its own."""
    modules = (sa.score_code(formula, target="cuda") for formula in FORMULAS.values())
    return "\n".join(
        f"namespace of_{k} {{\n{source.replace('typedef float real;', '')}}}"
        for k, source in enumerate(modules)
    )


def test_every_cuda_module_is_cpp(tmp_path: Path) -> None:
    compiled(cuda_modules(), tmp_path, "float")


@pytest.mark.parametrize("real", ["float", "double"])
def test_every_cuda_module_is_compiled_by_nvrtc(real: str) -> None:
    nvrtc = the_nvrtc()
    source = f"typedef {real} real;\n{cuda_modules()}"
    for architecture in (80, 90):
        program = nvrtc.createProgram(source, "scores.cu", (), ())
        nvrtc.compileProgram(program, (f"--gpu-architecture=sm_{architecture}",))


def functions(source: str) -> dict[str, list[str]]:
    return {
        node.name: [argument.arg for argument in node.args.args]
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("name", FORMULAS)
def test_every_name_of_a_module_is_explained(name: str) -> None:
    source = sa.score_code(FORMULAS[name], target="triton")
    comments = {line[2:].partition(":")[0] for line in source.splitlines() if line[:2] == "# "}
    written = functions(source)
    helpers = {"square", "softplus", "silu", "tanh"}
    for function, arguments in written.items():
        if function not in helpers and not function.startswith("power_"):
            assert set(arguments) <= comments, function


def test_a_triton_module_runs(tmp_path: Path) -> None:
    source = sa.score_code(attention(bias=lambda i, j: s * (i - j) ** 5), target="triton")
    helpers = source.replace("import triton\nimport triton.language as tl\n", "")
    columns: dict[str, Any] = {
        "x": np.linspace(-1, 1, 16, dtype="f4"),
        "i": np.arange(16, dtype="i4"),
    }
    found = interpreted.run({"f": "score(x, 0.5, i, 3)"}, helpers, columns, tmp_path)["f"]
    np.testing.assert_allclose(found, columns["x"] + 0.5 * (columns["i"] - 3.0) ** 5, rtol=1e-6)


def test_a_target_that_there_is_none_of() -> None:
    with pytest.raises(sa.UnknownNameError, match="cuda"):
        sa.score_code(sa.formula("dot_product"), target="cudaa")
    assert inspect.signature(sa.score_code).parameters["target"].default == "flex"
