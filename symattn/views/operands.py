"""What a view is a view of: a formula as written, a program, or an entry of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, Protocol, runtime_checkable

from symattn.nodes import BoundVector, Node, Program, Softmax
from symattn.nodes.core import as_matrix
from symattn.notation.rows import Titled


@runtime_checkable
class _Stepped(Protocol):
    """An entry of the catalogue, which knows its lines."""

    @property
    def program(self) -> Program: ...


def as_expression(value: Any, call: str) -> Node:
    """Return the expression that a view is asked for; of a program, its result.

    >>> import symattn as sa
    >>> as_expression(sa.Program(S=sa.matrix("A", "n", "m").T), "entry")
    A.T

    Raises `NotAnOperandError` and `TextRefusedError` for what is none.
    """
    if isinstance(value, Program):
        return value.result
    if isinstance(value, Titled) and not isinstance(value, Node):
        return as_matrix(value.expr, call)
    return as_matrix(value, call)


def as_steps(value: Any, call: str) -> Program:
    """Return the lines of a computation; of a formula, its scores, its weights and the result.

    >>> import symattn as sa
    >>> Q, K, V = (sa.matrix(name, "n", "d") for name in "QKV")
    >>> as_steps(sa.softmax(Q @ K.T, axis=1) @ V, "shapes")
    S = Q Kᵀ
    P = softmax(S)
    O = PV

    A program, and an entry of the catalogue, have lines of their own.
    """
    if isinstance(value, Program):
        return value
    if isinstance(value, _Stepped) and not isinstance(value, Node):
        return value.program
    node = as_expression(value, call)
    softmaxes = [part for part in node.walk() if isinstance(part, Softmax)]
    taken = {part.label for part in node.everything() if part.is_input}
    taken |= {part.label for part in node.everything() if isinstance(part, BoundVector)}
    taken |= {scalar.name for scalar in node.scalars()}
    lines: dict[Node, str] = {}
    for k, softmax in enumerate(softmaxes, start=1):
        numbered = f"_{k}" if len(softmaxes) > 1 else ""
        for letter, line in (("S", softmax.matrices[0]), ("P", softmax)):
            if line not in lines and not line.is_input:
                lines[line] = _free(letter + numbered, taken)
                taken.add(lines[line])
    if node not in lines:
        lines[node] = _free("O", taken)
    return Program({name: line for line, name in lines.items()})


def _free(name: str, taken: set[str]) -> str:
    """Return a name with primes until nothing else has it."""
    primed: Iterator[str] = (name + "'" * primes for primes in count())
    return next(name for name in primed if name not in taken)
