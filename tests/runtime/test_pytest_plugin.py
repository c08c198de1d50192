"""The pytest option: whole test runs, in processes of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import symattn
from symattn.runtime.packages import pytest_plugin

ROOT = Path(symattn.__file__).parents[1]

# Stands in for the decorator: one that counts what it is put on, and changes nothing.
STAND_IN = """
import sys, types
wrappers = types.ModuleType("symattn.runtime.wrappers")
def check_if_declared(function):
    function.is_checked = True
    return function
wrappers.check_if_declared = check_if_declared
sys.modules["symattn.runtime.wrappers"] = wrappers
"""
FILES = {
    "stand_in.py": STAND_IN,
    "pytest.ini": "[pytest]\nfilterwarnings = error\n",
    "src/mylib/__init__.py": "",
    "src/mylib/core.py": "def f(x: int): return x\n",
    "src/mylib/test_inside.py": """
        def helper(x: int): return x
        def test_inside():
            assert not hasattr(helper, "is_checked")
            assert helper(1) == [2]
        """,
    "src/other.py": "def g(x: int): return x\n",
    "test_mylib.py": """
        import mylib.core, other
        def test_checks():
            print("mylib", hasattr(mylib.core.f, "is_checked"), end=" ")
            print("other", hasattr(other.g, "is_checked"), end=".")
        """,
    "too_early.py": "import mylib",
}


class Project:
    """A directory with two packages and their tests."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name, text in FILES.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")

    def python(self, *arguments: str) -> tuple[int, str]:
        """The exit status, and everything that is printed."""
        path = [str(self.directory), str(self.directory / "src"), str(ROOT)]
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        done = subprocess.run(
            [sys.executable, "-W", "error", *arguments],
            cwd=self.directory,
            env=inherited
            | {"PYTHONPATH": os.pathsep.join(path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=120,
        )
        return done.returncode, done.stdout

    def pytest(self, *arguments: str, file: str = "test_mylib.py") -> tuple[int, str]:
        plugins = ("-p", "symattn.runtime.packages.pytest_plugin", "-p", "stand_in")
        return self.python("-m", "pytest", *plugins, "-s", *arguments, file)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


NOTHING = "mylib False other False."
MYLIB = "mylib True other False."
BOTH = "mylib True other True."


def test_nothing_is_checked_that_nobody_named(project: Project) -> None:
    status, shown = project.pytest()
    assert status == 0, shown
    assert NOTHING in shown
    assert "shapecheck" not in shown


@pytest.mark.parametrize(
    ("arguments", "head", "result"),
    [
        (["--shapecheck", "mylib"], "mylib", MYLIB),
        (["--shapecheck=mylib.core"], "mylib.core", MYLIB),
        (["--shapecheck", "mylib", "--shapecheck", "other"], "mylib, other", BOTH),
        (["--shapecheck", "other, mylib,,other"], "other, mylib", BOTH),
        (["--shapecheck="], None, NOTHING),
        (["-o", "shapecheck=mylib other"], "mylib, other", BOTH),
        (["-o", "shapecheck=mylib,", "--shapecheck", "other,mylib"], "mylib, other", BOTH),
    ],
    ids=["one", "a module", "twice", "commas", "empty", "configured", "both"],
)
def test_what_is_named_is_checked(
    project: Project, arguments: list[str], head: str | None, result: str
) -> None:
    status, shown = project.pytest(*arguments)
    assert status == 0, shown
    assert result in shown
    heads = [line for line in shown.splitlines() if line.startswith("shapecheck:")]
    assert heads == ([] if head is None else [f"shapecheck: {head}"])


def test_the_configuration_file_names_packages(project: Project) -> None:
    project.write(
        "pytest.ini", "[pytest]\nshapecheck = mylib\n  other\naddopts = --strict-config\n"
    )
    status, shown = project.pytest()
    assert status == 0, shown
    assert BOTH in shown


def test_packages_that_only_the_configured_path_leads_to(project: Project) -> None:
    (project.directory / "src").rename(project.directory / "lib")
    project.write("pytest.ini", "[pytest]\nshapecheck = mylib\npythonpath = lib\n")
    status, shown = project.pytest()
    assert status == 0, shown
    assert MYLIB in shown


def test_what_a_conftest_imports_is_checked(project: Project) -> None:
    project.write("conftest.py", "import mylib.core")
    status, shown = project.pytest("--shapecheck", "mylib")
    assert status == 0, shown
    assert MYLIB in shown


def test_asserts_of_tests_in_the_package_are_explained_as_ever(project: Project) -> None:
    status, shown = project.pytest("--shapecheck", "mylib", file="src/mylib/test_inside.py")
    assert status == 1, shown
    assert "assert 1 == [2]" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shapecheck", "mylibb"], "'mylibb' cannot be checked: there is no module mylibb\n"),
        (
            ["--shapecheck", "mylib.croe"],
            "'mylib.croe' cannot be checked: there is no module mylib.croe\n",
        ),
        (["-o", "shapecheck=mylibb"], "'mylibb' cannot be checked: there is no module mylibb\n"),
        (["--shapecheck", "my-lib"], "'my-lib' cannot be checked: this is no name of a package\n"),
        (["-p", "too_early", "--shapecheck", "mylib"], "'mylib' cannot be checked: it is imported"),
    ],
    ids=["no package", "no module", "configured", "no name", "too early"],
)
def test_what_cannot_be_checked_is_a_usage_error(
    project: Project, arguments: list[str], message: str
) -> None:
    status, shown = project.pytest(*arguments)
    assert status == pytest.ExitCode.USAGE_ERROR
    assert shown.startswith(f"ERROR: shapecheck: {message}")
    assert "Traceback" not in shown


def test_help_shows_the_option(project: Project) -> None:
    status, shown = project.pytest("--help")
    assert status == 0
    assert re.search(r"^symattn:\n  --shapecheck[= ]PACKAGE\b", shown, re.MULTILINE)
    assert "packages whose functions are checked" in shown


def test_the_hook_ends_with_the_run(project: Project) -> None:
    """Also where one process makes several runs, and where a run fails before its first test."""
    project.write("broken/conftest.py", "1 / 0")
    status, shown = project.python(
        "-c",
        """
import sys, pytest
before = [type(finder).__name__ for finder in sys.meta_path]
plugins = ["-p", "symattn.runtime.packages.pytest_plugin", "-p", "stand_in"]
common = [*plugins, "--shapecheck", "mylib", "-q"]
for file in ["test_mylib.py", "broken"]:
    print(pytest.main([*common, file]))
    print([type(finder).__name__ for finder in sys.meta_path] == before)
    for name in [name for name in sys.modules if name.startswith("mylib")]:
        del sys.modules[name]
""",
    )
    assert status == 0, shown
    lines = shown.splitlines()
    assert [line for line in lines if line in ("0", "4", "True", "False")] == [
        *("0", "True"),  # the tests passed
        *("4", "True"),  # a conftest was broken
    ], shown


# What it costs where it is not used


def test_the_plugin_is_light(project: Project) -> None:
    code = """
import pytest, sys
before = set(sys.modules)
import symattn.runtime.packages.pytest_plugin
print(*sorted(set(sys.modules) - before))
"""
    status, shown = project.python("-c", code)
    assert status == 0, shown
    assert shown.split() == [
        *("symattn", "symattn.runtime", "symattn.runtime.packages"),
        "symattn.runtime.packages.pytest_plugin",
    ]


def test_an_unused_plugin_loads_nothing_in_a_whole_run(project: Project) -> None:
    project.write(
        "test_modules.py",
        """
        import sys
        def test_modules():
            print("loaded:", *(name for name in sys.modules if name.startswith("symattn.")))
            heavy = {"sympy", "numpy", "beartype", "jaxtyping"} & set(sys.modules)
            print("heavy:", *heavy)
        """,
    )
    status, shown = project.pytest(file="test_modules.py")
    assert status == 0, shown
    lines = shown.splitlines()
    loaded = next(line for line in lines if "loaded:" in line).partition("loaded:")[2].split()
    assert set(loaded) == {
        "symattn.runtime",
        "symattn.runtime.packages",
        "symattn.runtime.packages.pytest_plugin",
        "symattn.runtime.wrappers",  # the stand-in
    }
    assert "heavy:" in lines


def test_a_used_plugin_loads_nothing_heavy(project: Project) -> None:
    project.write(
        "test_modules.py",
        """
        import sys, mylib.core
        def test_modules():
            assert "symattn.runtime.packages.importing" in sys.modules
            assert not {"sympy", "numpy", "beartype", "jaxtyping"} & set(sys.modules)
        """,
    )
    status, shown = project.pytest("--shapecheck", "mylib", file="test_modules.py")
    assert status == 0, shown


def test_pytest_finds_the_plugin() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        declared = tomllib.load(file)["project"]["entry-points"]["pytest11"]
    assert declared == {"symattn": pytest_plugin.__name__}
    for installed in entry_points(group="pytest11", name="symattn"):
        assert installed.load() is pytest_plugin
