"""The top of the package: every public name leads where it says, and costs nothing until used."""

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import symattn

SUBMODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(symattn.__path__, "symattn.")
    if not module.name.endswith(".__main__")  # importing it would run the command line
)


def run_python(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=Path(symattn.__file__).parents[1],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def everything_imported() -> None:
    """A submodule that bears a public name would now stand in that name's place."""
    for name in SUBMODULES:
        importlib.import_module(name)


@pytest.mark.parametrize("name", symattn.__all__)
@pytest.mark.usefixtures("everything_imported")
def test_a_public_name_is_not_a_module(name: str) -> None:
    first, second = getattr(symattn, name), getattr(symattn, name)
    assert first is second
    assert not isinstance(first, ModuleType)


def test_no_module_bears_a_public_name() -> None:
    """Not even below a floor: `symattn.nodes.softmax` is the function, wherever it was imported."""
    borne = [name for name in SUBMODULES if name.rpartition(".")[2] in symattn.__all__]
    assert borne == []


@pytest.mark.parametrize("name", symattn.__all__)
def test_a_public_name_is_documented(name: str) -> None:
    value = getattr(symattn, name)
    assert inspect.getdoc(value)
    if inspect.isfunction(value):
        assert ">>> " in (inspect.getdoc(value) or ""), f"{name} shows no example"


def test_names_stand_in_the_table_once() -> None:
    listed = [name for _, names in symattn._READING_ORDER for name in names.split()]
    assert len(listed) == len(set(listed))
    assert symattn.__all__ == listed


def test_type_checkers_see_the_same_names() -> None:
    """The imports under `if TYPE_CHECKING` say what the table says, each as a public re-export."""
    tree = ast.parse(Path(symattn.__file__).read_text(encoding="utf-8"))
    [block] = (
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen: dict[str, str | None] = {}
    for statement in block.body:
        assert isinstance(statement, ast.ImportFrom)
        for alias in statement.names:
            assert alias.asname == alias.name, f"{alias.name} has to be imported as itself"
            seen[alias.name] = statement.module
    assert seen == symattn._HOME


def test_dir_and_star_give_the_public_names() -> None:
    assert dir(symattn) == sorted(["__version__", *symattn.__all__])
    namespace: dict[str, object] = {}
    exec("from symattn import *", namespace)
    assert set(symattn.__all__) <= set(namespace)


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'sofmax'.*\bsoftmax\b"):
        symattn.sofmax  # type: ignore[attr-defined]  # noqa: B018


def test_a_name_like_no_other_is_only_refused() -> None:
    with pytest.raises(AttributeError, match=r"^module 'symattn' has no attribute 'zzzzqqqq'$"):
        symattn.zzzzqqqq  # type: ignore[attr-defined]  # noqa: B018


def test_import_loads_neither_sympy_nor_numpy_nor_a_submodule() -> None:
    loaded = run_python("import sys, symattn; print(*sys.modules, sep='\\n')").split()
    assert "symattn" in loaded  # the list is of loaded modules indeed
    assert not {"sympy", "numpy"} & set(loaded)
    assert not [name for name in loaded if name.startswith("symattn.")]


def test_help_does_not_load_sympy() -> None:
    code = """
import sys
from symattn.cli import main
sys.argv = ["symattn", "--help"]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
print("sympy loaded:", "sympy" in sys.modules)
"""
    shown = run_python(code)
    assert "Usage: symattn" in shown
    assert shown.endswith("sympy loaded: False\n")


def test_the_first_use_of_a_formula_name_loads_sympy() -> None:
    """So the two tests above could fail."""
    assert run_python("import sys, symattn; symattn.matrix; print('sympy' in sys.modules)") == (
        "True\n"
    )
