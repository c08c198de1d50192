"""`pytest --shapecheck mylib`: a test run in which all functions of a package are checked.

The hook is installed before any conftest is loaded, so that no test file can import the package
too early.  pytest imports this module in every run wherever symattn is installed; what it needs is
therefore imported only where a package is named.
"""

from __future__ import annotations

from importlib import import_module

import pytest

PACKAGES = pytest.StashKey[tuple[str, ...]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option `--shapecheck`, and its twin in the configuration file."""
    parser.getgroup("symattn").addoption(
        "--shapecheck",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="check the array shapes that the functions of this package declare, in every call"
        " (may be repeated; commas are allowed)",
    )
    parser.addini(
        "shapecheck",
        type="args",
        default=[],
        help="packages whose functions are checked, as by --shapecheck",
    )


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Install the hook, until the end of the run."""
    named: list[str] = [*early_config.getini("shapecheck")]
    named += early_config.known_args_namespace.shapecheck
    parts = (part.strip() for text in named for part in text.split(","))
    packages = tuple(dict.fromkeys(part for part in parts if part))
    if not packages:
        return
    importing = import_module("symattn.runtime.packages.importing")
    try:
        handle = importing.shapecheck_imports(*packages)
    except import_module("symattn.errors.settings").PackageError as error:
        raise pytest.UsageError(f"shapecheck: {error}") from None
    early_config.stash[PACKAGES] = packages
    early_config.add_cleanup(handle.uninstall)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say in the head of the run what is checked."""
    packages = config.stash.get(PACKAGES, ())
    return f"shapecheck: {', '.join(packages)}" if packages else None
