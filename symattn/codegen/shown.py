"""What a generated function shows of itself: its sources, and its documentation.

Both are read by people, in a REPL as often as in a file.  Invariant: what is said here holds for a
call of the function, while the source says what it takes itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Never

from symattn.codegen.emit import Source
from symattn.errors import UnknownNameError

_INDENT = "    "
_OPTIONS = {
    "workers": "the number of threads; None is by the size of the work",
    "out": "an array that the result is written to, and that is returned",
}
"""The options of a call, which are given by keyword."""


class Sources(dict[str, str]):
    """The source of each plan under its name; it prints as the sources themselves.

    >>> Sources(direct="O = Q @ K")
    # sources['direct']
    O = Q @ K
    >>> Sources(direct="O = Q @ K")["block"]
    Traceback (most recent call last):
        ...
    symattn.errors.UnknownNameError: there is no plan of this function named 'block'; \
there are direct
    """

    def __missing__(self, name: object) -> Never:
        shown = name if isinstance(name, str) else type(name).__name__
        raise UnknownNameError("plan of this function", shown, choices=tuple(self))

    def __repr__(self) -> str:
        return "\n\n\n".join(f"# sources[{name!r}]\n{self[name].rstrip()}" for name in self)


def documentation(source: Source, options: Iterable[str]) -> str:
    """Return the docstring of a source with the options of a call in place of its own."""
    before, returns, after = source.docstring.rpartition(f"\n{_INDENT}returns: ")
    own = tuple(f"{_INDENT}{name}: " for name in (source.workers, source.out) if name)
    lines = [line for line in before.split("\n") if not line.startswith(own)]
    lines += [f"{_INDENT}{name}: {_OPTIONS[name]}" for name in options]
    return "\n".join(lines) + returns + after
