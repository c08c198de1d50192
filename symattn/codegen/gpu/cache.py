"""Machine code on disk, in the cache directory of the user, checked before it is loaded.

Whoever can write machine code there can run it as the user, so the folder has to belong to the user
and to be writable for nobody else.  A file of code is named by its SHA-256, an entry by the hash of
all that decides what is compiled; both are written beside and moved to their place, so that several
processes may write at once, and what is read is whole.  What is damaged is as good as absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from symattn.errors import BackendError

MODE = 0o700
"""Of the folder, where it is made."""


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code of one kernel, and what a launch has to know.

    ``shared`` is the shared memory of a block, in bytes, ``queries`` and ``warps`` are what a block
    has; ``registers`` are those of a thread, and ``spilled`` the bytes of each for which there are
    none.
    """

    code: bytes
    name: str
    shared: int
    warps: int
    queries: int
    registers: int
    spilled: int


def cache_folder() -> Path:
    """Return the folder that compiled kernels are kept in: it need not be there."""
    own, shared = os.environ.get("SYMATTN_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    if own:
        return Path(os.path.expanduser(own))
    if shared and os.path.isabs(shared):  # the specification of XDG passes over relative ones
        return Path(shared, "symattn")
    return Path(os.path.expanduser("~"), ".cache", "symattn")


class Cache:
    """Compiled kernels in one folder, which is made when it is first needed.

    Raises `BackendError` for a folder that others own or can write to.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = cache_folder() if folder is None else folder

    def find(self, key: str) -> tuple[Cubin, Path] | None:
        """Return a kernel and the file of its code, if both are there and whole."""
        self.made()
        entry = self.folder / f"{key}.json"
        try:
            facts = json.loads(entry.read_text(encoding="utf-8"))
            path = self.folder / f"{_digest_in(facts)}.cubin"
            code = path.read_bytes()
            if hashlib.sha256(code).hexdigest() != path.stem:
                return None
            return _cubin(facts, code), path
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, key: str, cubin: Cubin) -> Path:
        """Write a kernel, and return the file of its code, or raise `BackendError`."""
        self.made()
        facts: dict[str, Any] = asdict(cubin)
        digest = hashlib.sha256(facts.pop("code")).hexdigest()
        path = self.folder / f"{digest}.cubin"
        self.written(path, cubin.code)
        entry = json.dumps({**facts, "sha256": digest}, sort_keys=True)
        self.written(self.folder / f"{key}.json", entry.encode())
        return path

    def written(self, path: Path, content: bytes) -> None:
        """Write a file as a whole: whoever reads it meanwhile finds the old one, or none."""
        try:
            descriptor, name = tempfile.mkstemp(dir=self.folder, prefix=".new-")
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                os.replace(name, path)
            except BaseException:
                with suppress(OSError):  # the folder may be gone, and the file with it
                    os.unlink(name)
                raise
        except OSError as error:
            problem = f"{path}, for a compiled kernel, cannot be written: {error.strerror}"
            fix = f"make room for it in {self.folder}, or name another folder: SYMATTN_CACHE_DIR"
            raise BackendError("cupy", problem, fix) from error

    def made(self) -> None:
        """Make the folder, or raise if it is not the user's own."""
        problem, fix = "", "name a folder of your own: SYMATTN_CACHE_DIR"
        try:
            self.folder.mkdir(mode=MODE, parents=True, exist_ok=True)
            facts = self.folder.stat()
        except OSError as error:
            problem = f"cannot be made: {error.strerror}"
        else:
            if hasattr(os, "getuid") and facts.st_uid != os.getuid():
                problem = "belongs to someone else"
            elif os.name == "posix" and facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                problem, fix = "can be written to by others", f"chmod 700 {self.folder}"
            elif not os.access(self.folder, os.R_OK | os.W_OK | os.X_OK):
                problem = "cannot be written to"
        if problem:
            raise BackendError("cupy", f"{self.folder}, for compiled kernels, {problem}", fix)


def _digest_in(facts: Any) -> str:
    """Return the name of the file of code, which is a hash and nothing else."""
    digest = facts["sha256"]
    if not (isinstance(digest, str) and len(digest) == 64 and digest.isalnum()):
        raise ValueError(digest)
    return digest


def _cubin(facts: Any, code: bytes) -> Cubin:
    """Return the kernel that an entry describes; raises for an entry of another kind."""
    names = [field.name for field in fields(Cubin) if field.name != "code"]
    values = {name: facts[name] for name in names}
    if not isinstance(values["name"], str):
        raise TypeError(values["name"])
    if not all(type(values[name]) is int for name in names if name != "name"):
        raise TypeError(facts)
    return Cubin(code, **values)
