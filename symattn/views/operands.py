"""What a view is a view of: a formula as written, a program, or an entry of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, Protocol, runtime_checkable

from symattn.meaning.form import Index
from symattn.nodes import BoundVector, Heads, Node, Program, Softmax, SumOver
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

    A formula with several heads has a line for what each of them makes, head_i.

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
            # Scores with −∞ among them are no line: no number stands for them.
            if line not in lines and not line.is_input and not line.has_minus_infinity:
                lines[line] = _free(letter + numbered, taken)
                taken.add(lines[line])
    # What a softmax is taken of is in the lines before it.
    scored = {part for softmax in softmaxes for part in softmax.walk()}
    of_head = next(_each_head(node), None)
    if of_head is not None and of_head not in lines and of_head not in scored:
        lines[of_head] = _free("head", taken)
    if node not in lines:
        lines[node] = _free("O", taken)
    return Program({name: line for line, name in lines.items()})


def _each_head(node: Node) -> Iterator[Node]:
    """Yield what heads that attend are put together from."""
    for part in node.walk():
        if isinstance(part, Heads | SumOver):
            inside = part.matrices[0]
            if not inside.is_input and any(isinstance(each, Softmax) for each in inside.walk()):
                yield inside


def heads_in(program: Program) -> dict[Index, str]:
    """Return the indices of heads in some lines, with their names.

    >>> import symattn as sa
    >>> [*heads_in(sa.formula("grouped_query").program).values()]
    ['a', 'b']
    """
    nodes = (node for line in program.lines.values() for node in line.everything())
    met = (index for node in nodes for index in (*node.reads, *node.binds))
    return {index: one.name for one in met for index in one.place}


def _free(name: str, taken: set[str]) -> str:
    """Return a name with primes until nothing else has it."""
    primed: Iterator[str] = (name + "'" * primes for primes in count())
    return next(name for name in primed if name not in taken)
