"""Where the source of a checked function becomes a function."""

from __future__ import annotations

import linecache
from functools import lru_cache
from types import CodeType, FunctionType
from zlib import crc32

from symattn.runtime.generated.emit import Source


def compiled(source: Source, filename: str) -> FunctionType:
    """The function of a source that was emitted; tracebacks show its lines."""
    # Functions of one name, made in a loop, may have different sources.
    filename = f"{filename[:-1]} {crc32(source.text.encode()):08x}>"
    lines = source.text.splitlines(keepends=True)
    linecache.cache[filename] = (len(source.text), None, lines, filename)
    exec(_code(source.text, filename), source.objects)
    return source.objects.pop(source.function)  # pyright: ignore[reportReturnType]


@lru_cache(maxsize=256)
def _code(text: str, filename: str) -> CodeType:
    """Sources repeat where functions are decorated again and again, in a loop or a test."""
    return compile(text, filename, "exec")
