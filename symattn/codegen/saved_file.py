"""The file that a saved module is written to: a new one, under a name that can be imported."""

from __future__ import annotations

import keyword
import os
import re
import sys
from pathlib import Path

from symattn.errors import FileTakenError, SavePathError

NEEDED = frozenset({"numpy", "cupy", "ml_dtypes", "threadpoolctl", "symattn", "sympy"})
"""Modules besides the standard library that would not be found behind a file of their name."""


def save(path: str | os.PathLike[str], text: str) -> Path:
    """Write a module to a new file and return its path.

    Raises `SavePathError` for a path that is no place for a module, and `FileTakenError` if there
    is a file already; nothing is written then.
    """
    place = checked_path(path)
    try:
        with place.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise FileTakenError(str(place)) from None
    return place


def checked_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a module that can be written and imported.

    >>> checked_path("my-attention.py")
    Traceback (most recent call last):
    symattn.errors.SavePathError: no module can be saved as my-attention.py: ...

    Raises `SavePathError` for any other.
    """
    try:
        place = Path(path)
    except TypeError:
        raise SavePathError(repr(path)[:60], "it is no path") from None
    problem = _problem_of_name(place) or _problem_of_folder(place)
    if problem:
        raise SavePathError(str(path), problem)
    return place


def _problem_of_name(place: Path) -> str:
    """Return what is wrong with the name of a file, or nothing."""
    stem = place.stem
    if not place.name or place.is_dir():
        return "that is a folder; give the name of a file in it, such as attention.py"
    if place.suffix != ".py":
        return f"a module ends in .py; {_such_as(stem)}"
    if not stem.isidentifier() or keyword.iskeyword(stem):
        return f"{stem} cannot be imported; {_such_as(stem)}"
    if stem in sys.stdlib_module_names or stem in NEEDED:
        return f"it would stand in the place of the module {stem}; {_such_as(stem)}"
    return ""


def _such_as(stem: str) -> str:
    """Return advice for a name that is no module's."""
    name = re.sub(r"\W+", "_", stem).strip("_")
    is_free = name.isidentifier() and name not in sys.stdlib_module_names | NEEDED
    if not is_free or keyword.iskeyword(name):
        name = f"attention_{name}".rstrip("_")
    return f"give a name such as {name}.py"


def _problem_of_folder(place: Path) -> str:
    """Return what is wrong with the folder of a file, or nothing."""
    folder = place.parent
    if folder.is_dir():
        return ""
    if place.parts[0].startswith("~"):
        return "~ stands for no folder here; give pathlib.Path(…).expanduser()"
    return f"there is no folder {folder}; make it first"
