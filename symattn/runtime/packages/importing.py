"""Checks for all modules of a package, without a decorator in any of them.

`shapecheck_imports("mylib")` asks, from then on, before every import.  Whatever would find a module
of the package finds it still (editable installs and namespace packages included); only the loader
changes, from one that compiles the source as it stands to one that adds decorators first.

Only what is loaded from a source file, in the usual way, is changed.  Extension modules, modules
that are there as bytecode only or in zip files, and those that another hook loads (pytest's, of
test modules) are left as they are; a package that is such a module itself is refused by name.
Code that is not imported at all is not seen: a script, `runpy.run_path`, a cell of a notebook;
`python -m` and `runpy.run_module` go by the import system, and are seen where a hook is installed.

The invariant: bytecode with checks is kept in a file of its own, so that a module is never loaded
with checks that nobody asked for, nor without those that somebody did.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, NamespaceLoader, SourceFileLoader
from importlib.util import cache_from_source
from threading import get_ident
from typing import Any

from symattn.errors.settings import PackageError
from symattn.runtime.packages.rewriting import FORMAT, with_checks

_BYTECODE = f"{sys.flags.optimize or ''}shapecheck{FORMAT}"
"""The mark of bytecode with checks, where a file name says how far bytecode is optimized."""


class CheckingLoader(SourceFileLoader):
    """Loads a module from its source file, with decorators added."""

    def source_to_code(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, data: Any, path: Any, *, _optimize: int = -1
    ) -> Any:
        tree = with_checks(ast.parse(data, path))
        return super().source_to_code(tree, path, _optimize=_optimize)

    def get_data(self, path: str) -> bytes:
        return super().get_data(self._own(path))

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        super().set_data(self._own(path), data, _mode=_mode)

    def _own(self, path: str) -> str:
        """The path that is read or written instead, where it is that of the plain bytecode."""
        if path.endswith(".pyc") and path == cache_from_source(self.path):
            return cache_from_source(self.path, optimization=_BYTECODE)
        return path


class CheckingFinder(MetaPathFinder):
    """Finds the modules of some packages as others do, and gives them another loader."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = tuple(packages)
        self._asking: set[tuple[int, str]] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        asking = (get_ident(), fullname)
        if asking in self._asking:  # another hook that asks all others, as this one does
            return None
        if not any(_is_in(fullname, package) for package in self.packages):
            return None
        self._asking.add(asking)
        try:
            others = [finder for finder in sys.meta_path if finder is not self]
            spec = _find(others, fullname, path, target)
        finally:
            self._asking.discard(asking)
        loader = spec and spec.loader
        if spec is not None and type(loader) is SourceFileLoader:
            spec.loader = CheckingLoader(loader.name, loader.path)
        return spec


class ImportChecks:
    """What `shapecheck_imports` returns: `uninstall()`, or the end of its `with` block, ends it.

    Modules that were imported before stay as they are.
    """

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = tuple(packages)
        self._finder = CheckingFinder(self.packages)
        sys.meta_path.insert(0, self._finder)

    def uninstall(self) -> None:
        """Leave later imports alone; nothing happens the second time."""
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)

    def __enter__(self) -> ImportChecks:
        return self

    def __exit__(self, *_: object) -> None:
        self.uninstall()

    def __repr__(self) -> str:
        state = "installed" if self._finder in sys.meta_path else "uninstalled"
        return f"<shapecheck_imports: {', '.join(self.packages)} ({state})>"


def shapecheck_imports(*packages: str) -> ImportChecks:
    """Check the functions of all modules of these packages that are imported from now on.

    Every function and method that declares shapes is checked as with `@shapecheck`, and so is the
    construction of dataclasses.  Call it before the first import of the packages::

        shapecheck_imports("mylib")
        import mylib

    or for the imports of a block only::

        with shapecheck_imports("mylib.layers", "mylib.heads"):
            from mylib import heads, layers

    A package is named as an `import` statement names it, and stands for all modules in it.  What
    is returned has `uninstall()`.  Processes that are started from this one have no such hook.

    >>> shapecheck_imports("symattn")
    Traceback (most recent call last):
      ...
    symattn.errors.PackageError: 'symattn' cannot be checked: it is imported already
      ask before the first import of it, or name those of its modules that are not imported yet

    Raises `PackageError` where a name is no name of a package, the package is imported already,
    cannot be found, or has no source file.
    """
    if not packages:
        raise PackageError("", "no package is named", 'write shapecheck_imports("mylib")')
    for package in packages:
        check_package(package)
    return ImportChecks(tuple(dict.fromkeys(packages)))


def check_package(package: object) -> None:
    """Raise `PackageError` where the imports of a package could not be checked."""
    if not isinstance(package, str):
        kind = type(package).__name__
        name = str(getattr(package, "__name__", f"a {kind}"))
        fix = 'write its name, or several: shapecheck_imports("mylib", "other.layers")'
        raise PackageError(name, f"packages are named by text, not by a {kind}", fix)
    if not all(part.isidentifier() for part in package.split(".")):
        fix = "write the name as it stands in an import statement, as in mylib or mylib.layers"
        raise PackageError(package, "this is no name of a package", fix)
    if any(_is_in(module, package) for module in tuple(sys.modules)):
        fix = (
            "ask before the first import of it, "
            "or name those of its modules that are not imported yet"
        )
        raise PackageError(package, "it is imported already", fix)
    spec = _find_unimported(package)
    if spec is not None and spec.loader is not None:  # a namespace package has no loader yet
        kind = type(spec.loader)
        if kind not in (SourceFileLoader, CheckingLoader, NamespaceLoader):
            problem = f"it is loaded by {kind.__name__}, not just from a source file"
            raise PackageError(package, problem, "decorate its functions with @shapecheck")


def _find_unimported(package: str) -> ModuleSpec | None:
    """Where a package is found, importing nothing; None where that cannot be known before."""
    path: Sequence[str] | None = None
    parts = package.split(".")
    for name in (".".join(parts[: at + 1]) for at in range(len(parts))):
        if name in sys.modules:
            path = getattr(sys.modules[name], "__path__", ())
            continue
        try:
            spec = _find(sys.meta_path, name, path)
        except KeyError:  # a namespace package in one that is not imported
            return None
        if spec is None:
            problem = f"there is no module {name}"
            raise PackageError(package, problem, "is it installed, or its directory on sys.path?")
        if name == package:
            return spec
        path = spec.submodule_search_locations or ()
    return None


def _find(
    finders: Iterable[Any], name: str, path: Sequence[str] | None, target: Any = None
) -> ModuleSpec | None:
    """What the first of these finders that knows the module says."""
    for finder in tuple(finders):
        find = getattr(finder, "find_spec", None)
        spec = find and find(name, path, target)
        if spec is not None:
            return spec
    return None


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")
