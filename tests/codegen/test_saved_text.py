"""The text of a saved module: what it tells a reader, and that it holds no more than it uses."""

import ast
import builtins
import inspect
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.codegen.saved_parts import renamed, section
from symattn.errors import NotSupportedError

n, m, d_k, d_v, h = sa.dims("n m d_k d_v h")
Q, K, V = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
ROW = sa.softmax(Q @ K.T / sa.sqrt(d_k), axis=1, mask=sa.causal("top_left")) @ V


def texts() -> Iterator[tuple[str, Any]]:
    """All kinds of functions, with names."""
    for name in sa.formulas():
        formula = sa.formula(name)
        for plan in ("auto", "direct", "blocked"):
            try:
                yield f"{name}_{plan}", sa.lambdify(formula.inputs, formula, plan=plan)
            except NotSupportedError:
                continue
    yield "results", sa.lambdify([Q, K, V], ROW, returns=("output", "lse"))
    yield "maximum", sa.lambdify([Q], sa.max(Q, axis=1))
    names = "np math os run spread index deque Any numpy"
    inputs = [sa.matrix(name, n, n) for name in names.split()]
    a, b, *others = inputs
    rest = sa.softmax(a @ b / sa.sqrt(n), axis=1) @ sum(others[1:], others[0])
    yield "names", sa.lambdify(inputs, rest)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of saved modules."""
    place = tmp_path_factory.mktemp("saved")
    for name, f in texts():
        f.save(place / f"{name}.py")
    return place


def test_nothing_is_there_that_is_not_used(folder: Path) -> None:
    for path in folder.iterdir():
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        for word in ("symattn.", "pyright", ">>>"):
            assert word not in text
        assert text.count("symattn") == text.count(f"Written by symattn {sa.__version__}.") == 1
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        defined = [
            node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)
        ]
        assert len(defined) == len(set(defined))
        function, *private = defined
        assert all(name.startswith("_") for name in private)
        assert set(private) <= names
        namespace = run_path(str(path))
        assert namespace["__all__"] == [function]
        stored = {name for name in namespace if not name.startswith("_")}
        imported = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assert stored == {function} | imported | stored & {"ThreadpoolController"}
        assert names | {"annotations"} >= imported
        local = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        local |= {
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        local |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert names <= local | set(namespace) | set(dir(builtins))


def test_ruff_finds_nothing(folder: Path) -> None:
    if find_spec("ruff") is None:
        pytest.skip("ruff is not installed: pip install ruff")
    ruff = [sys.executable, "-m", "ruff"]
    rules = ["--extend-select", "E4,E7,E9,F,I"]
    formula_names = ["--ignore", "E741"]  # l and O
    for command in (
        ["check", *rules],
        ["check", *rules, "--ignore-noqa", *formula_names],
        ["format", "--check"],
    ):
        done = subprocess.run(
            [*ruff, *command, "--isolated", "--no-cache", str(folder)],
            capture_output=True,
            encoding="utf-8",
            timeout=120,
        )
        assert done.returncode == 0, done.stdout


def test_a_reader_meets_the_formula_first(tmp_path: Path) -> None:
    f = sa.lambdify([Q, K, V], ROW, workers=2)
    path = f.save(tmp_path / "a.py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstring = ast.get_docstring(tree)
    assert docstring == (
        f"""Compute softmax_{{j ≤ i}}(Q Kᵀ / √d_k) V.

    compute(Q, K, V, *, workers=2, out=None)

    Q: (…, n, d_k)
    K: (…, m, d_k)
    V: (…, m, d_v)
    workers: the number of threads, or None for as many as pay
    out: an array that the result is written to, and that is returned
    returns: (…, n, d_v)

Arrays are those of numpy, in one dtype: float16, bfloat16, float32 or float64. The leading
axes, …, are any that broadcast. What does not fit raises TypeError or ValueError before anything
is computed.

numpy is all that is needed, but have threadpoolctl installed, or OPENBLAS_NUM_THREADS=1 in the
environment: the products of blocks are small, and slower where BLAS shares each among threads of
its own. Without threadpoolctl there is one worker, whatever workers says.

The formula is computed in _compute_direct and _compute_blocked; what that needs stands below.

Written by symattn {sa.__version__}."""
    )
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert functions[:3] == ["compute", "_compute_direct", "_compute_blocked"]


def test_a_program_and_sizes(tmp_path: Path) -> None:
    i = sa.index("i", h)
    packed = sa.matrix("X", n, h * d_k)
    program = sa.Program(A=packed + packed, B=sa.sum_over(sa.head(packed, i, axis=1), i))
    f = sa.lambdify([packed], program, plan="direct")
    tree = ast.parse(f.save(tmp_path / "a.py").read_text(encoding="utf-8"))
    lines = (ast.get_docstring(tree) or "").splitlines()
    assert lines[0] == "Compute these lines, and return the last."
    assert lines[2].startswith("    A = ")
    assert lines[5:9] == [
        "    compute(X, *, h=None, d_k=None, out=None)",
        "",
        "    X: (…, n, h*d_k)",
        "    h: the size h, unless the shapes tell it",
    ]
    assert "threadpoolctl" not in "".join(lines)


def test_what_is_given_by_keyword(tmp_path: Path) -> None:
    c, w = sa.scalar("c"), sa.dim("w")
    mask = sa.keep() & sa.window(w, "top_left")
    formula = c * sa.softmax(Q @ K.T, axis=1, mask=mask) @ V
    for inputs, parameters in (
        ([Q, K, V, c], "(Q, K, V, c, *, keep, w, workers=None, out=None)"),
        ([Q, K, V], "(Q, K, V, *, c, keep, w, workers=None, out=None)"),
    ):
        f = sa.lambdify(inputs, formula)
        compute = run_path(str(f.save(tmp_path / f"a{len(inputs)}.py")))["compute"]
        assert str(inspect.signature(compute)) == parameters
        assert list(inspect.signature(compute).parameters) == list(inspect.signature(f).parameters)
        assert "\n    w: the size w\n" in compute.__doc__


def test_what_blocks_without_a_mask_do_not_need(tmp_path: Path) -> None:
    f = sa.lambdify([Q, K, V], sa.softmax(Q @ K.T, axis=1) @ V, plan="blocked")
    text = f.save(tmp_path / "a.py").read_text(encoding="utf-8")
    for name in ("_band", "_span", "_both", "_either", "_somewhere", "_diagonals", "_suits_blocks"):
        assert f"def {name}(" not in text
    assert "def _weighted_sum(" in text
    assert "check_number" not in text


def test_names_in_source() -> None:
    source = 'x.run = run(a, f"{run}: {x.run} {{run}} run")  # run\n'
    wanted = 'x.run = _run(a, f"{_run}: {x.run} {{run}} run")  # run\n'
    assert renamed(source, {"run": "_run"}) == wanted
    part = section('"""Title; more."""\nimport os as o\n\n# why\na = 1\n"""What it is."""\nb = a\n')
    assert part.title == "Title"
    assert part.imports == {"o": ("", "os as o")}
    assert [piece.text for piece in part.pieces] == [
        '\n# why\na = 1\n"""What it is."""',
        "b = a",
    ]
    assert [set(piece.used) for piece in part.pieces] == [{"a"}, {"a", "b"}]


def test_names_that_inputs_have_too(folder: Path) -> None:
    arrays = [np.random.default_rng(k).normal(size=(5, 5)) for k in range(9)]
    f = dict(texts())["names"]
    compute = run_path(str(folder / "names.py"))["compute"]
    np.testing.assert_array_equal(compute(*arrays), f(*arrays))
