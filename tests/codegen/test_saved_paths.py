"""Where a module can be saved: at a new path, under a name that can be imported."""

import os
from pathlib import Path
from typing import Any

import pytest

import symattn as sa

X = sa.matrix("X", *sa.dims("n m"))
F = sa.lambdify([X], 2 * X)

REFUSED: dict[Any, str] = {
    "": "that is a folder; give the name of a file in it, such as attention.py",
    ".": "that is a folder",
    "..": "that is a folder",
    "/": "that is a folder",
    "folder": "that is a folder",
    "folder.py": "that is a folder",
    "att": "a module ends in .py; give a name such as att.py",
    "att.txt": "a module ends in .py; give a name such as att.py",
    ".py": "a module ends in .py; give a name such as py.py",
    "numpy": "a module ends in .py; give a name such as attention_numpy.py",
    "my-att.py": "my-att cannot be imported; give a name such as my_att.py",
    "a.b.py": "a.b cannot be imported; give a name such as a_b.py",
    "2d.py": "2d cannot be imported; give a name such as attention_2d.py",
    "class.py": "class cannot be imported; give a name such as attention_class.py",
    "-.py": "- cannot be imported; give a name such as attention.py",
    "a\0.py": "cannot be imported; give a name such as a.py",
    "numpy.py": "it would stand in the place of the module numpy; .* attention_numpy.py",
    "folder/math.py": "it would stand in the place of the module math",
    "symattn.py": "it would stand in the place of the module symattn",
    "no/such/a.py": f"there is no folder {Path('no', 'such')}; make it first",
    "there.py/a.py": "there is no folder there.py; make it first",
    "~/a.py": r"~ stands for no folder here; give pathlib.Path\(…\).expanduser",
    "~somebody/a.py": "~ stands for no folder here",
    3: "as 3: it is no path",
    b"a.py": "as b'a.py': it is no path",
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with two folders and a file in it."""
    monkeypatch.chdir(tmp_path)
    for folder in ("folder", "folder.py"):
        (tmp_path / folder).mkdir()
    (tmp_path / "there.py").write_text("mine", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("path", REFUSED, ids=repr)
def test_no_place_for_a_module(path: Any, place: Path) -> None:
    before = sorted(place.rglob("*"))
    with pytest.raises(sa.SavePathError, match=REFUSED[path]) as error:
        F.save(path)
    assert isinstance(error.value, ValueError)
    assert not isinstance(error.value, OSError)
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize("path", ["there.py", "folder/../there.py", "link.py"])
def test_what_is_there_is_left(path: str, place: Path) -> None:
    if path == "link.py":
        os.symlink(place / "nowhere", place / path)
    with pytest.raises(sa.FileTakenError, match=r"there is a file .*py already"):
        F.save(path)
    assert (place / "there.py").read_text(encoding="utf-8") == "mine"
    assert not (place / "nowhere").exists()


@pytest.mark.parametrize("path", ["a.py", "folder/a.py", "_b2.py", "μ.py", "./a.py", "Numpy.py"])
def test_other_paths(path: str, place: Path) -> None:
    assert F.save(path) == Path(path)
    assert (place / path).is_file()


def test_a_folder_may_be_called_like_a_home(place: Path) -> None:
    (place / "~").mkdir()
    assert F.save("~/a.py") == Path("~", "a.py")
