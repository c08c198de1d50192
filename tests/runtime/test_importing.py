"""The import hook: which functions get the decorator, and that nothing else changes."""

from __future__ import annotations

import ast
import copy
import functools
import importlib
import importlib.util
import inspect
import os
import pickle
import runpy
import subprocess
import sys
import textwrap
import traceback
import zipfile
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.resources import files
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

import symattn
from symattn.errors import SymattnError
from symattn.errors.settings import PackageError
from symattn.runtime.packages import importing
from symattn.runtime.packages.importing import CheckingLoader, shapecheck_imports
from symattn.runtime.packages.rewriting import FORMAT, NAME, with_checks

ANY: Any = shapecheck_imports  # what the types forbid, and people write all the same


def checked(value: Any) -> Any:
    """Stands in for the decorator: whatever it was put on can be told from all else."""
    if isinstance(value, type):
        value.is_checked = True  # pyright: ignore[reportAttributeAccessIssue]
        return value
    wrapper = functools.wraps(value)(lambda *args, **kwargs: value(*args, **kwargs))
    wrapper.is_checked = True  # pyright: ignore[reportAttributeAccessIssue]
    return wrapper


def is_checked(value: object) -> bool:
    return getattr(value, "is_checked", False)


@pytest.fixture(autouse=True)
def everything_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    stand_in: Any = ModuleType("symattn.runtime.wrappers")
    stand_in.check_if_declared = checked
    monkeypatch.setitem(sys.modules, "symattn.runtime.wrappers", stand_in)
    finders, modules = list(sys.meta_path), set(sys.modules)
    yield
    sys.meta_path[:] = finders
    for name in set(sys.modules) - modules:
        del sys.modules[name]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Write a file of a package below a directory that modules are found in."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name: str, source: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        importlib.invalidate_caches()
        return path

    return write


Write = Callable[[str, str], Path]

KINDS = '''
"""The docstring."""
from __future__ import annotations
import dataclasses, functools, typing
from dataclasses import dataclass as record
from typing import overload as several, no_type_check

def plain(x): return x
def parameter(x: int): return x
def result(x) -> int: return x
def positional_only(x: int, /): return x
def rest(*args: int): return args
def keyword(*, x: int): return x
def keywords(**options: int): return options
def default(x=1): return x
anonymous = lambda x: x
async def asynchronous(x: int): return x
async def asynchronous_plain(x): return x
def generator(x: int): yield x

def seen(function):
    """A decorator that stands over ours."""
    function.seen = getattr(function, "is_checked", False)
    return function

@seen
@functools.cache
def under(x: int): return x

@seen
def directly_under(x: int): return x

class Layer:
    def __init__(self, x: int): self.x = x
    def method(self, x: int): return x
    def plain(self, x): return x
    @staticmethod
    def static(x: int): return x
    @classmethod
    def of(cls, x: int): return x
    @property
    def size(self) -> int: return self.x
    @size.setter
    def size(self, x: int): self.x = x
    class Inner:
        def method(self, x: int): return super().__init__()

def outer(x):
    def inner(x: int): return x
    class Local:
        def method(self, x: int): return x
    return inner, Local.method

if True:
    try:
        for _ in [0]:
            with open(__file__):
                match 1:
                    case _:
                        def deep(x: int): return x
    finally:
        def last(x: int): return x

try:
    raise KeyError
except KeyError:
    def handled(x: int): return x
else:
    pass

@no_type_check
def unchecked(x: int):
    def inner(x: int): return x
    return inner

@typing.no_type_check
class Unchecked:
    def method(self, x: int): return x

@several
def many(x: int): ...
@typing.overload
def many(x: str): ...
def many(x): return x
shapes = shapecheck = lambda *spec: seen

@shapecheck("x: n")
def with_spec(x: int): return x

@record
class Renamed:
    x: int

@seen
@dataclasses.dataclass(slots=True)
class Slots:
    x: int
    def __post_init__(self) -> None: pass

@seen
class Bare:
    x: int
'''


@pytest.fixture
def kinds(write: Write) -> Any:
    write("kinds_of/__init__.py", "")
    write("kinds_of/all.py", KINDS)
    with shapecheck_imports("kinds_of"):
        return importlib.import_module("kinds_of.all")


CHECKED = """parameter result positional_only rest keyword keywords asynchronous generator
    directly_under deep last handled"""
UNCHECKED = "plain default anonymous asynchronous_plain unchecked many with_spec outer Layer Bare"


@pytest.mark.parametrize("name", CHECKED.split())
def test_functions_with_any_annotation_are_checked(kinds: Any, name: str) -> None:
    assert is_checked(getattr(kinds, name))


@pytest.mark.parametrize("name", UNCHECKED.split())
def test_all_else_is_left_alone(kinds: Any, name: str) -> None:
    assert not is_checked(getattr(kinds, name))


def test_other_decorators_go_over_a_checked_function(kinds: Any) -> None:
    assert is_checked(kinds.under.__wrapped__)
    assert kinds.directly_under.seen is True
    assert kinds.with_spec.seen is False
    assert kinds.unchecked(1) is not kinds.unchecked
    assert not is_checked(kinds.unchecked(1))
    assert not is_checked(kinds.Unchecked.method)


def test_methods_are_checked_under_what_makes_them_methods(kinds: Any) -> None:
    inside = vars(kinds.Layer)
    assert is_checked(inside["__init__"])
    assert is_checked(inside["method"])
    assert not is_checked(inside["plain"])
    assert type(inside["static"]) is staticmethod
    assert is_checked(inside["static"].__func__)
    assert is_checked(inside["of"].__func__)
    assert is_checked(inside["size"].fget)
    assert is_checked(inside["size"].fset)
    assert is_checked(kinds.Layer.Inner.method)
    assert kinds.Layer.Inner().method(1) is None
    assert all(is_checked(each) for each in kinds.outer(1))


def test_a_dataclass_is_checked_when_it_is_made(kinds: Any) -> None:
    assert is_checked(kinds.Renamed)
    assert is_checked(kinds.Slots)
    assert kinds.Slots.seen is True  # ours is right above `dataclass`, below all others
    assert "x" in kinds.Slots.__slots__
    assert not hasattr(kinds.Slots(x=3), "__dict__")
    assert is_checked(vars(kinds.Slots)["__post_init__"])


def test_the_docstring_and_the_future_stay_first(kinds: Any) -> None:
    assert kinds.__doc__ == "The docstring."
    assert kinds.parameter.__annotations__ == {"x": "int"}


@pytest.mark.parametrize(
    "head",
    [
        "",
        "'doc'\n",
        "from __future__ import annotations\n",
        "'doc'; from __future__ import division\n",
    ],
    ids=["nothing", "docstring", "future", "both"],
)
def test_the_import_stands_after_the_head(head: str) -> None:
    tree = with_checks(ast.parse(head + "'no doc'\nimport os\ndef f(x: int): ..."))
    texts = [ast.unparse(statement) for statement in tree.body]
    before = head.count("'doc'") + head.count("__future__") or 1  # the first text is a docstring
    assert texts[before].startswith("from symattn.runtime.wrappers import check_if_declared")
    compile(tree, "m.py", "exec")


def test_a_module_without_annotations_is_not_touched() -> None:
    source = "'doc'\nimport os\ndef f(x): return [lambda y: y]\nclass A:\n    x: int = 1"
    before = ast.dump(ast.parse(source), include_attributes=True)
    assert ast.dump(with_checks(ast.parse(source)), include_attributes=True) == before
    assert with_checks(ast.parse("")).body == []


def test_what_is_written_is_known_by_its_number() -> None:
    """If this text changes, `FORMAT` has to count up: bytecode of before must not be used."""
    tree = with_checks(ast.parse("@a\ndef f(x: int): ...\n@a\n@dataclass\nclass A:\n    x: int"))
    assert (FORMAT, ast.unparse(tree).replace("\n\n", "\n")) == (
        1,
        f"""from symattn.runtime.wrappers import check_if_declared as {NAME}
@a
@{NAME}
def f(x: int):
    ...
@a
@{NAME}
@dataclass
class A:
    x: int""",
    )


def test_a_long_ladder_of_branches_is_no_trouble() -> None:
    source = "if x: pass\n" + "elif x: pass\n" * 80 + "else:\n  def f(x: int): ..."
    limit = sys.getrecursionlimit()
    tree = ast.parse(source)
    try:
        sys.setrecursionlimit(len(inspect.stack(0)) + 40)
        with_checks(tree)
    finally:
        sys.setrecursionlimit(limit)
    assert len(tree.body) == 2


def test_the_name_of_the_decorator_is_nobodys(kinds: Any) -> None:
    assert not NAME.isidentifier()
    assert NAME in vars(kinds)
    namespace: dict[str, object] = {}
    exec("from kinds_of.all import *", namespace)
    assert "parameter" in namespace
    assert NAME not in namespace


# Lines


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def test_every_function_has_its_lines() -> None:
    tree = with_checks(ast.parse(KINDS, "kinds.py"))
    before, after = compile(KINDS, "kinds.py", "exec"), compile(tree, "kinds.py", "exec")
    pairs = list(zip(codes(before), codes(after), strict=True))
    assert len(pairs) > 40
    for old, new in pairs[1:]:  # the bodies of classes apply decorators: the first line says it
        assert (old.co_qualname, old.co_firstlineno) == (new.co_qualname, new.co_firstlineno)
        if old.co_flags & inspect.CO_OPTIMIZED and "outer" not in old.co_qualname:
            assert list(old.co_lines()) == list(new.co_lines())
            assert list(old.co_positions()) == list(new.co_positions())
    lines = {line for _, _, line in before.co_lines()}
    assert {line for _, _, line in after.co_lines()} == lines


RAISES = '''
"""Lines
of text."""
import os


def broken(x: int):
    """More."""
    return (
        x +
        None
    )


@staticmethod
@staticmethod
def twice(x: int): pass
'''


def test_tracebacks_and_sources_are_those_of_the_plain_module(write: Write) -> None:
    path = write("raising.py", RAISES)

    def shown() -> tuple[list[object], str, str]:
        module = importlib.import_module("raising")
        with pytest.raises(TypeError) as caught:
            module.broken(1)
        frames = traceback.extract_tb(caught.tb)
        inside = [(f.lineno, f.name, f.line) for f in frames if f.filename == str(path)]
        return [*inside], inspect.getsource(module.broken), inspect.getsource(module.twice)

    plain = shown()
    del sys.modules["raising"]
    with shapecheck_imports("raising"):
        hooked = shown()
    assert is_checked(sys.modules["raising"].broken)
    assert plain == hooked
    assert plain[0] == [(10, "broken", "x +")]


def test_a_decorator_that_raises_does_so_at_the_function(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("refusing.py", "import os\n\n\n@property\ndef f(\n    x: int\n): pass\n")

    def refuse(_: object) -> None:
        raise SymattnError("no")

    monkeypatch.setattr(sys.modules["symattn.runtime.wrappers"], "check_if_declared", refuse)
    with shapecheck_imports("refusing"), pytest.raises(SymattnError) as caught:
        importlib.import_module("refusing")
    frames = [f for f in traceback.extract_tb(caught.tb) if f.filename == str(path)]
    assert [frame.lineno for frame in frames] == [5]


@pytest.mark.parametrize("source", ["def f(x: int:\n", "x = 1\n  y = 2", "return 1", "é = '\n"])
def test_a_syntax_error_is_shown_as_usual(write: Write, source: str) -> None:
    write("wrong.py", source)

    def shown() -> list[str]:
        with pytest.raises(SyntaxError) as caught:
            importlib.import_module("wrong")
        return traceback.format_exception_only(caught.value)

    plain = shown()
    with shapecheck_imports("wrong"):
        assert shown() == plain


@pytest.mark.parametrize(
    "data",
    [
        b"# coding: latin-1\ndef f(x: int): return '\xe9'",
        b"\xef\xbb\xbfdef f(x: int): return '\xc3\xa9'",
        b"def f(x: int):\r\n    return '\xc3\xa9'\r\n",
    ],
    ids=["cookie", "mark", "line ends"],
)
def test_sources_are_decoded_as_usual(write: Write, data: bytes) -> None:
    write("decoded.py", "").write_bytes(data)
    with shapecheck_imports("decoded"):
        function = importlib.import_module("decoded").f
    assert is_checked(function)
    assert function(1) == "é"


# Bytecode


@pytest.fixture
def bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)


def fresh(name: str, *, hooked: bool) -> ModuleType:
    sys.modules.pop(name, None)
    if not hooked:
        return importlib.import_module(name)
    with shapecheck_imports(name):
        return importlib.import_module(name)


@pytest.mark.usefixtures("bytecode")
def test_bytecode_of_both_kinds_is_kept_apart(write: Write) -> None:
    path = write("cached.py", "def f(x: int): return x")
    seen = [is_checked(fresh("cached", hooked=hooked).f) for hooked in (True, False, True, False)]
    assert seen == [True, False, True, False]
    assert len(list(path.parent.glob("__pycache__/cached.*"))) == 2


@pytest.mark.usefixtures("bytecode")
def test_bytecode_is_used_again_until_the_source_changes(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("cached.py", "def f(x: int): return 1")
    rewritten: list[ast.Module] = []

    def counted(tree: ast.Module) -> ast.Module:
        rewritten.append(tree)
        return with_checks(tree)

    monkeypatch.setattr(importing, "with_checks", counted)
    assert fresh("cached", hooked=True).f(0) == 1
    assert is_checked(fresh("cached", hooked=True).f)
    assert len(rewritten) == 1
    write("cached.py", "def f(x: int): return 20 + 2")  # of another length: clocks are coarse
    function = fresh("cached", hooked=True).f
    assert (function(0), is_checked(function), len(rewritten)) == (22, True, 2)


def test_no_bytecode_is_written_where_python_writes_none(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = write("uncached.py", "def f(x: int): return x")
    assert is_checked(fresh("uncached", hooked=True).f)
    assert not list(path.parent.glob("__pycache__/*"))


STAND_IN = """
import sys, types
wrappers = types.ModuleType("symattn.runtime.wrappers")
def check_if_declared(function):
    function.is_checked = True
    return function
wrappers.check_if_declared = check_if_declared
sys.modules["symattn.runtime.wrappers"] = wrappers
from symattn.runtime.packages.importing import shapecheck_imports
"""


def run_python(code: str, directory: Path, *options: str) -> str:
    path = os.pathsep.join([str(directory), str(Path(symattn.__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "-W", "error", *options, "-c", STAND_IN + code],
        cwd=directory,
        env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        | {"PYTHONPATH": path},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_optimized_bytecode_is_another_file(write: Write) -> None:
    path = write("cached.py", "def f(x: int):\n    'doc'\n    assert not x\n    return 3")
    code = """
shapecheck_imports("cached")
import cached
try: print(cached.f.is_checked, cached.f.__doc__, cached.f(1))
except AssertionError: print("assertion")
"""
    for _ in range(2):
        assert run_python(code, path.parent) == "assertion\n"
        assert run_python(code, path.parent, "-O") == "True doc 3\n"
        assert run_python(code, path.parent, "-OO") == "True None 3\n"
    assert len(list(path.parent.glob("__pycache__/cached.*"))) == 3


# Which modules


def test_the_hook_is_there_until_it_is_uninstalled(write: Write) -> None:
    for name in "abcd":
        write(f"package_{name}.py", "def f(x: int): return x")
    handle = shapecheck_imports("package_a", "package_b", "package_c", "package_a")
    assert repr(handle) == "<shapecheck_imports: package_a, package_b, package_c (installed)>"
    with handle as same:
        assert same is handle
        assert is_checked(importlib.import_module("package_a").f)
        assert not is_checked(importlib.import_module("package_d").f)
    assert repr(handle).endswith("(uninstalled)>")
    assert not is_checked(importlib.import_module("package_b").f)
    handle.uninstall()
    assert not is_checked(importlib.import_module("package_c").f)
    assert is_checked(sys.modules["package_a"].f)


def test_the_hook_goes_when_its_block_raises(write: Write) -> None:
    write("package.py", "def f(x: int): return x")
    before = list(sys.meta_path)
    with pytest.raises(ZeroDivisionError), shapecheck_imports("package"):
        _ = 1 / 0
    assert sys.meta_path == before


def test_a_package_is_all_its_modules_and_no_other_that_is_named_alike(write: Write) -> None:
    source = "def f(x: int): return x"
    write("library/__init__.py", f"from . import core\nfrom .deep.down import f as g\n{source}")
    write("library/core.py", source)
    write("library/deep/__init__.py", source)
    write("library/deep/down.py", f"from ..core import f as same\n{source}")
    write("library2.py", source)
    with shapecheck_imports("library"):
        library = importlib.import_module("library")
        assert not is_checked(importlib.import_module("library2").f)
    for function in (library.f, library.g, library.core.f, library.deep.f):
        assert is_checked(function)
    assert sys.modules["library.deep.down"].same is library.core.f


def test_a_package_may_ask_for_its_own_modules(write: Write) -> None:
    write(
        "library/__init__.py",
        """
        from symattn.runtime.packages.importing import shapecheck_imports
        with shapecheck_imports("library.core"):
            from . import core
        from . import other
        """,
    )
    write("library/core.py", "def f(x: int): return x")
    write("library/other.py", "def f(x: int): return x")
    library = importlib.import_module("library")
    assert is_checked(library.core.f)
    assert not is_checked(library.other.f)


def test_a_namespace_package(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("space/one.py", "def f(x: int): return x")
    write("elsewhere/space/inner/two.py", "def f(x: int): return x")
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")
    with shapecheck_imports("space"):
        assert is_checked(importlib.import_module("space.one").f)
        assert is_checked(importlib.import_module("space.inner.two").f)


def test_a_module_in_a_namespace_package_that_is_not_imported(write: Write) -> None:
    write("space/inner/two.py", "def f(x: int): return x")
    with shapecheck_imports("space.inner.two"):
        assert is_checked(importlib.import_module("space.inner.two").f)


def test_modules_that_are_run_by_name(write: Write) -> None:
    write("library/__init__.py", "")
    write("library/__main__.py", "def f(x: int): return x")
    with shapecheck_imports("library"):
        assert is_checked(runpy.run_module("library")["f"])
        assert is_checked(runpy.run_module("library.__main__", run_name="__main__")["f"])


def test_python_m_in_a_process_that_installs_the_hook_at_its_start(write: Write) -> None:
    path = write("library/__init__.py", "").parent
    write("library/work.py", "def f(x: int): return x\nprint(__name__, f.is_checked)")
    write("sitecustomize.py", f'{STAND_IN}shapecheck_imports("library")')
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "library.work"],
        env=os.environ
        | {"PYTHONPATH": f"{path.parent}{os.pathsep}{Path(symattn.__file__).parents[1]}"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.stdout == "__main__ True\n", done.stderr


class EditableFinder:
    """Finds one package in a directory that is not on `sys.path`, as editable installs do."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> Any:
        if fullname == "editable":
            return importlib.util.spec_from_file_location(fullname, self.directory / "__init__.py")
        return None


def test_an_editable_install(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("source/hidden/__init__.py", "def f(x: int): return x")
    write("source/hidden/core.py", "def f(x: int): return x")
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, EditableFinder(path.parent)])
    with shapecheck_imports("editable"):
        assert is_checked(importlib.import_module("editable").f)
        assert is_checked(importlib.import_module("editable.core").f)


class AskingAll:
    """A hook of somebody else, which asks all finders but itself."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(fullname, path, target)):
                return spec
        return None


def test_hooks_stand_beside_each_other(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("library.py", "calls = []\ndef f(x: int): return x")
    monkeypatch.setattr(sys, "meta_path", [AskingAll(), *sys.meta_path])
    with shapecheck_imports("library"), shapecheck_imports("library"):
        function = importlib.import_module("library").f
    assert is_checked(function)
    assert not is_checked(function.__wrapped__)  # once, not twice


def test_a_module_that_another_hook_loads_is_left_to_it(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other(SourceFileLoader):
        pass

    class OtherFinder:
        def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
            spec = PathFinder.find_spec(fullname, path, target)
            if spec is not None and fullname == "library.tests":
                spec.loader = Other(fullname, spec.origin or "")
            return spec

    write("library/__init__.py", "")
    write("library/tests.py", "def f(x: int): return x")
    monkeypatch.setattr(sys, "meta_path", [OtherFinder(), *sys.meta_path])
    with shapecheck_imports("library"):
        module = importlib.import_module("library.tests")
    assert type(module.__loader__) is Other
    assert not is_checked(module.f)


def test_reloading_looks_at_the_hook_of_now(write: Write) -> None:
    write("library.py", "def f(x: int): return x")
    with shapecheck_imports("library"):
        module = importlib.import_module("library")
        assert type(module.__loader__) is CheckingLoader
        assert is_checked(importlib.reload(module).f)
    assert not is_checked(importlib.reload(module).f)


def test_data_files_are_read_as_they_are(write: Write) -> None:
    write("library/__init__.py", "import pkgutil\ntext = pkgutil.get_data('library', 'a.pyc')")
    write("library/a.pyc", "data").with_name("b.txt").write_text("more")
    with shapecheck_imports("library"):
        module = importlib.import_module("library")
    assert module.text == b"data"
    assert files("library").joinpath("b.txt").read_text() == "more"


# What is refused


def refusal(*packages: object) -> str:
    before = list(sys.meta_path)
    with pytest.raises(PackageError) as caught:
        ANY(*packages)
    assert isinstance(caught.value, SymattnError)
    assert sys.meta_path == before
    again = pickle.loads(pickle.dumps(copy.copy(caught.value)))
    assert (str(again), vars(again)) == (str(caught.value), vars(caught.value))
    return str(caught.value)


def test_a_package_that_is_imported_already(write: Write) -> None:
    write("library/__init__.py", "")
    write("library/core.py", "")
    write("other.py", "")
    importlib.import_module("library.core")
    message = refusal("other", "library")
    assert message.startswith("'library' cannot be checked: it is imported already\n  ask before")
    assert refusal("library.core").startswith("'library.core' cannot be checked: it is imported")
    del sys.modules["library"]  # its module is still in use
    assert "imported already" in refusal("library")


@pytest.mark.parametrize("value", [None, 3, b"library", ["library"], pytest], ids=repr)
def test_what_is_no_text(value: object) -> None:
    message = refusal(value)
    assert f"packages are named by text, not by a {type(value).__name__}\n" in message


@pytest.mark.parametrize("name", ["", ".core", "library.", "my-lib", "a b", "library.*", "./src"])
def test_what_is_no_name(name: str) -> None:
    assert "this is no name of a package\n  write the name as it stands in" in refusal(name)


def test_no_name_at_all() -> None:
    assert "no package is named\n  write shapecheck_imports(" in refusal()


def test_a_package_that_is_not_there(write: Write) -> None:
    write("library/__init__.py", "raise SystemExit('imported')")
    write("library/core.py", "")
    assert "there is no module no_such_library\n" in refusal("no_such_library")
    assert "there is no module no_such_library\n" in refusal("no_such_library.core")
    assert "there is no module library.croe\n" in refusal("library.croe")
    assert "there is no module library.core.deep\n" in refusal("library.core.deep")
    shapecheck_imports("library.core").uninstall()  # nothing was imported to find it
    assert "library" not in sys.modules


def test_a_package_in_a_zip_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("packed/__init__.py", "def f(x: int): return x")
        file.writestr("packed/core.py", "def f(x: int): return x")
    monkeypatch.syspath_prepend(archive)
    for name in ("packed", "packed.core"):
        assert "it is loaded by zipimporter, not just from a source file\n" in refusal(name)
    assert not is_checked(importlib.import_module("packed.core").f)


@pytest.mark.parametrize("name", ["_testcapi", "__hello__"])
def test_a_package_without_a_source(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"this Python has no {name}")
    assert "not just from a source file" in refusal(name)
