"""Machine code on disk: whole, the user's own, and never taken where it was changed."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

import symattn as sa
from symattn.codegen.gpu.cache import Cache, Cubin, cache_folder

CUBIN = Cubin(b"\x7fELF code", "attend", 1024, 8, 128, 240, 0)
KEY = "0" * 64


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "own" / "symattn")


def test_what_is_kept_is_found(cache: Cache) -> None:
    assert cache.find(KEY) is None
    path = cache.keep(KEY, CUBIN)
    assert path.read_bytes() == CUBIN.code
    assert cache.find(KEY) == (CUBIN, path)
    assert cache.find("1" * 64) is None


def test_the_folder_is_for_its_owner_alone(cache: Cache) -> None:
    path = cache.keep(KEY, CUBIN)
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert not stat.S_IMODE(path.stat().st_mode) & 0o077
    assert sorted(p.suffix for p in cache.folder.iterdir()) == [".cubin", ".json"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: next(folder.glob("*.cubin")).write_bytes(b"other code"),
        lambda folder: next(folder.glob("*.cubin")).write_bytes(b""),
        lambda folder: next(folder.glob("*.cubin")).unlink(),
        lambda folder: next(folder.glob("*.json")).write_text("{", encoding="utf-8"),
        lambda folder: next(folder.glob("*.json")).write_text("[]", encoding="utf-8"),
        lambda folder: next(folder.glob("*.json")).write_text('{"sha256": 1}', encoding="utf-8"),
        lambda folder: next(folder.glob("*.json")).write_bytes(b"\xff\xfe"),
        lambda folder: (entry := next(folder.glob("*.json"))).write_text(
            entry.read_text(encoding="utf-8").replace('"warps": 8', '"warps": "8"'),
            encoding="utf-8",
        ),
    ],
)
def test_what_is_damaged_is_not_taken(cache: Cache, damage: object) -> None:
    cache.keep(KEY, CUBIN)
    assert callable(damage)
    damage(cache.folder)
    assert cache.find(KEY) is None
    cache.keep(KEY, CUBIN)
    found = cache.find(KEY)
    assert found is not None
    assert found[0] == CUBIN


def test_an_entry_leads_to_no_file_elsewhere(cache: Cache, tmp_path: Path) -> None:
    cache.keep(KEY, CUBIN)
    (tmp_path / "x.cubin").write_bytes(CUBIN.code)
    entry = cache.folder / f"{KEY}.json"
    facts = entry.read_text(encoding="utf-8")
    digest = facts.split('"sha256": "')[1][:64]
    for name in (f"{tmp_path}/x", "../../x", "." * 64):
        entry.write_text(facts.replace(digest, name), encoding="utf-8")
        assert cache.find(KEY) is None


def test_equal_code_is_kept_once(cache: Cache) -> None:
    paths = {cache.keep(key * 64, replace(CUBIN, queries=64)) for key in "ab"}
    assert len(paths) == 1


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
@pytest.mark.parametrize("mode", [0o777, 0o720, 0o702])
def test_a_folder_that_others_can_write_to_is_refused(cache: Cache, mode: int) -> None:
    cache.keep(KEY, CUBIN)
    cache.folder.chmod(mode)
    for call in (lambda: cache.find(KEY), lambda: cache.keep(KEY, CUBIN)):
        with pytest.raises(sa.BackendError, match="can be written to by others"):
            call()
    cache.folder.chmod(0o700)
    assert cache.find(KEY) is not None


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owner here")
def test_a_folder_of_someone_else_is_refused(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.keep(KEY, CUBIN)
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)
    with pytest.raises(sa.BackendError, match="belongs to someone else"):
        cache.find(KEY)


def test_a_file_in_place_of_the_folder_is_said(cache: Cache) -> None:
    cache.folder.parent.mkdir()
    cache.folder.write_text("", encoding="utf-8")
    with pytest.raises(sa.BackendError, match="cannot be made"):
        cache.find(KEY)


def test_what_cannot_be_written_is_said(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.folder.mkdir(parents=True)
    (cache.folder / f"{KEY}.json").mkdir()
    with pytest.raises(sa.BackendError, match=rf"{KEY}.json, .* cannot be written: Is a directory"):
        cache.keep(KEY, CUBIN)
    assert not list(cache.folder.glob(".new-*"))

    def gone(name: str, path: Path) -> None:
        os.unlink(name)
        raise FileNotFoundError(2, "No such file or directory", name)

    monkeypatch.setattr(os, "replace", gone)
    with pytest.raises(sa.BackendError, match="cannot be written: No such file or directory"):
        cache.keep("1" * 64, CUBIN)


def test_where_the_folder_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SYMATTN_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert cache_folder() == Path.home() / ".cache" / "symattn"
    monkeypatch.setenv("XDG_CACHE_HOME", "/a")
    assert cache_folder() == Path("/a/symattn")
    monkeypatch.setenv("SYMATTN_CACHE_DIR", "/b/c")
    assert cache_folder() == Path("/b/c")
