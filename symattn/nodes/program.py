"""Programs: named lines, each a formula, the last of which is the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from symattn.errors import OperationRefusedError, UnknownNameError
from symattn.nodes.core import Node, as_matrix
from symattn.notation.names import check_name
from symattn.notation.text import text
from symattn.tags import nearest


class Program:
    """An ordered list of named lines with a result.

    >>> import symattn as sa
    >>> d, n, m = sa.dims("d n m")
    >>> Q, K = sa.matrix("Q", d, n), sa.matrix("K", d, m)
    >>> S = K.T @ Q
    >>> p = Program(S=S, P=sa.softmax(S, axis=0))
    >>> p.result.shape
    (m, n)

    A later occurrence, structurally equal, of an earlier line is that line: it is printed by its
    name and computed once.  Lines are formulas; nothing is evaluated.
    """

    def __init__(self, lines: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        given = {**(lines or {}), **named}
        if not given:
            raise OperationRefusedError("a program without lines", "give at least one named line")
        self._lines = MappingProxyType(
            {check_name(name): as_matrix(line, f"line {name}") for name, line in given.items()}
        )

    @property
    def lines(self) -> Mapping[str, Node]:
        """The lines by name, in order."""
        return self._lines

    @property
    def result(self) -> Node:
        """The last line."""
        return self._lines[next(reversed(self._lines))]

    def __getitem__(self, name: str) -> Node:
        try:
            return self._lines[name]
        except KeyError:
            raise UnknownNameError("line", name, nearest(name, self._lines)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Program):
            return NotImplemented
        return list(self._lines.items()) == list(other._lines.items())

    def __hash__(self) -> int:
        return hash(tuple(self._lines.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return Program, (dict(self._lines),)

    def __repr__(self) -> str:
        return "\n".join(f"{name} = {text(line)}" for name, line in self._lines.items())
