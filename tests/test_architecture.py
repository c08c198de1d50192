"""What no test of behaviour shows: who imports whom, what is never called, how long files are."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "symattn"
FILES = sorted(PACKAGE.rglob("*.py"))
LONGEST_FILE = 500

# Packages that are not installed with symattn are imported where they are used.
OPTIONAL_PACKAGES = {"cupy", "torch", "triton"}
# Files that import inside functions so that what needs no SymPy, or beartype, does not wait for it.
LAZY_FILES = {"cli/__init__.py", "runtime/declared/hints.py"}
# Where generated source becomes a function.
RUNS_GENERATED_SOURCE = {
    "codegen/generated.py",
    "codegen/gpu/compiling.py",  # Triton takes a kernel as a function of Python
    "runtime/generated/compiled.py",
}

RUNS_CODE = {"eval", "exec", "compile"}
RUNS_STRINGS = {"sympify", "parse_expr"}  # SymPy evaluates the strings that these are given

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: inside(path))


def inside(path: Path) -> str:
    """The path as the lists above write it."""
    return path.relative_to(PACKAGE).as_posix()


def imports_in_functions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and the top-level package of each import statement inside a function."""
    functions = (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    statements = {node for function in functions for node in ast.walk(function)}
    for node in statements:
        if isinstance(node, ast.ImportFrom):
            yield node.lineno, (node.module or "").partition(".")[0]
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)


def calls(tree: ast.Module) -> Iterator[tuple[int, str, ast.Call]]:
    """The line and the name of each call; `re.compile` is not the built-in `compile`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(id=name):
                    yield node.lineno, name, node
                case ast.Attribute(attr=name) if name not in RUNS_CODE:
                    yield node.lineno, name, node
                case ast.Attribute(value=ast.Name(id="builtins"), attr=name):
                    yield node.lineno, name, node


def dangers(tree: ast.Module, *, generated_source: bool) -> list[str]:
    """Each place that would run text as code, or unpickle a file."""
    refused = RUNS_STRINGS if generated_source else RUNS_STRINGS | RUNS_CODE
    found = [f"line {line}: {name}(" for line, name, _ in calls(tree) if name in refused]
    for line, _, call in calls(tree):
        for keyword in call.keywords:
            if keyword.arg == "allow_pickle" and ast.unparse(keyword.value) != "False":
                found.append(f"line {line}: allow_pickle")
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found += [
                f"line {node.lineno}: import {alias.name}"
                for alias in node.names
                if alias.name in RUNS_STRINGS  # however it is named afterwards
            ]
    return found


@pytest.mark.skipif(
    find_spec("importlinter") is None,
    reason="import-linter is not installed: python -m pip install '.[dev]'",
)
def test_imports_run_downwards() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-cache",
        ],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@each_file
def test_imports_stand_at_the_top(path: Path) -> None:
    if inside(path) in LAZY_FILES:
        return
    found = imports_in_functions(ast.parse(path.read_text(encoding="utf-8")))
    assert not [(line, package) for line, package in found if package not in OPTIONAL_PACKAGES]


@each_file
def test_no_module_imports_from_the_top_of_the_package(path: Path) -> None:
    """It names every floor: one import from it, and imports run upwards."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "symattn":
            assert [alias.name for alias in node.names] == ["__version__"], node.lineno


@each_file
def test_text_is_never_run_as_code(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not dangers(tree, generated_source=inside(path) in RUNS_GENERATED_SOURCE)


@each_file
def test_files_are_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE


def test_the_lists_name_files_that_are_there() -> None:
    assert {inside(path) for path in FILES} >= LAZY_FILES | RUNS_GENERATED_SOURCE
    assert all(name.startswith(("codegen/", "runtime/")) for name in RUNS_GENERATED_SOURCE)


@pytest.mark.parametrize(
    "source",
    [
        "eval('1')",
        "builtins.exec(text)",
        "sympy.sympify(text)",
        "from sympy import sympify as s",
        "parse_expr(text)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=flag)",
    ],
)
def test_what_runs_text_is_seen(source: str) -> None:
    assert dangers(ast.parse(source), generated_source=False)


@pytest.mark.parametrize(
    "source",
    ["re.compile(text)", "_sympify(x)", "np.load(path, allow_pickle=False)", "'eval(x)'"],
)
def test_what_is_harmless_is_let_through(source: str) -> None:
    assert not dangers(ast.parse(source), generated_source=False)


def test_only_generated_source_may_be_run() -> None:
    tree = ast.parse("exec(compile(tree, name, 'exec'), namespace)\nsympify(text)")
    assert dangers(tree, generated_source=True) == ["line 2: sympify("]


NESTED = """
import os
class A:
    def f(self):
        def g():
            import torch.nn, re
        from a.b import c
"""


def test_imports_in_functions_are_seen() -> None:
    assert sorted(imports_in_functions(ast.parse(NESTED))) == [(6, "re"), (6, "torch"), (7, "a")]
