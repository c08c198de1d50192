"""A formula as a readable program of `einsum` lines, and as the Python module that runs it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from symattn.errors import SymbolClashError
from symattn.meaning.form import place
from symattn.nodes import InputVector, Program
from symattn.nodes.depth import shallow_enough
from symattn.notation.names import identifier
from symattn.notation.terminal import text_sizes
from symattn.tags import Size
from symattn.views.contractions import Contractions, Letters, spelt
from symattn.views.operands import as_steps

_SOFTMAX = """
def softmax(x, axis, where=True):
    x = np.where(where, x, -np.inf)
    largest = np.max(x, axis=axis, keepdims=True, initial=np.finfo(x.dtype).min)
    e = np.exp(x - largest)
    total = e.sum(axis=axis, keepdims=True)
    return e / np.where(total == 0, 1, total)
"""


@dataclass(frozen=True, slots=True)
class EinsumLine:
    """A line of a program: its name, the source of what it is, the sizes of its axes."""

    name: str
    code: str
    sizes: tuple[Size, ...]

    def __str__(self) -> str:
        return f"{self.name} = {self.code}"


class EinsumProgram:
    """A formula as `einsum` lines; `einsum` returns it."""

    def __init__(self, program: Program, *, batch: bool = False) -> None:
        self.program = program
        result = program.result
        self._inputs = list(
            dict.fromkeys(s for line in program.lines.values() for s in line.inputs())
        )
        scalars = {s.name: None for line in program.lines.values() for s in line.scalars()}
        booleans = {b.label: b for line in program.lines.values() for b in line.booleans()}
        self._keywords = [*map(identifier, (*scalars, *booleans))]
        sizes = [size for symbol in self._inputs for size in symbol.sizes]
        vectors = [symbol.label for symbol in self._inputs if isinstance(symbol, InputVector)]
        tags = dict.fromkeys(tag for line in program.lines.values() for tag in _tags(line))
        self._tags = {tag: spelt(tag) for tag in tags}
        named = [*map(identifier, program), *self._keywords, *self._tags.values()]
        taken = {*named, *(identifier(symbol.label) for symbol in self._inputs)}
        writer = Contractions(Letters([*sizes, *result.sizes]), vectors, taken, batch=batch)
        for name, line in program.named_lines.items():
            row, column = place(line.sizes[0]), place(line.sizes[1])
            writer.line(identifier(name), line.meaning(row, column), row, column)
        self.lines = tuple(EinsumLine(*line) for line in writer.lines)
        self._functions = tuple(writer.functions)
        self._refuse_clashes({"np", *self._functions})

    def _refuse_clashes(self, functions: set[str]) -> None:
        """Raise if a matrix would hide a function, or a size, in the source."""
        hidden = dict.fromkeys(functions, "a function of NumPy")
        hidden |= dict.fromkeys(self._tags.values(), "a size")
        inputs = (identifier(symbol.label) for symbol in self._inputs)
        for name in (*inputs, *self._keywords, *(line.name for line in self.lines)):
            if name in hidden:
                raise SymbolClashError(name, ("an input or a line", hidden[name]), "rename it")

    def __iter__(self) -> Iterator[EinsumLine]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    def text(self) -> str:
        """Return the lines, as they are written."""
        return "\n".join(map(str, self.lines))

    def __repr__(self) -> str:
        return self.text()

    @property
    def source(self) -> str:
        """The Python module that defines ``compute``, a function of the inputs with NumPy."""
        names = [identifier(symbol.label) for symbol in self._inputs]
        known: dict[str, None] = {}
        body: list[str] = []
        for symbol, name in zip(self._inputs, names, strict=True):
            axes = symbol.sizes[:1] if isinstance(symbol, InputVector) else symbol.sizes
            for k, size in enumerate(axes):
                tag = size.single_tag
                if tag is not None and tag not in known:
                    known[tag] = None
                    body.append(f"{self._tags[tag]} = {name}.shape[{k - len(axes)}]")
        body += [f"{line}  # {_shape(line.sizes)}" for line in self.lines]
        body.append(f"return {self.lines[-1].name}")
        given = [*self._keywords, *(code for tag, code in self._tags.items() if tag not in known)]
        parameters = ", ".join([*names, *(["*", *given] if given else [])])
        imported = ", ".join(name for name in self._functions if name != "softmax")
        head = ["import numpy as np"]
        head += [f"from numpy import {imported}"] if imported else []
        used = _SOFTMAX if "softmax" in self._functions else ""
        lines = "".join(f"    {line}\n" for line in body)
        return "\n".join(head) + f"\n\n{used}\n\ndef compute({parameters}):\n{lines}"


def _tags(node: Any) -> Iterator[str]:
    yield from node.tags
    for part in node.everything():
        for size in part.extents:
            yield from size.tags


def _shape(sizes: tuple[Size, ...]) -> str:
    if len(sizes) == 2:
        return text_sizes((sizes[0], sizes[1]))
    return "×".join(str(size) for size in sizes)


@shallow_enough("einsum")
def einsum(A: Any, *, batch: bool = False) -> EinsumProgram:
    """Return a formula as a program of `einsum` lines, to be read or to be run.

    >>> import symattn as sa
    >>> print(sa.einsum(sa.formula("scaled_dot_product")))
    S = einsum("km,kn->mn", K, Q) / sqrt(d_k)
    P = softmax(S, axis=-2)
    O = einsum("vm,mn->vn", V, P)

    A letter stands for a size, its capital for another axis of that size.  With ``batch=True``
    every array may have leading axes: ``einsum("...km,...kn->...mn", K, Q)``.  A part that is not
    named has a line of its own, ``T_1``.  ``.lines`` are the lines (``.name``, ``.code``,
    ``.sizes``), ``.source`` is a Python module that defines ``compute``, a function of the inputs;
    vectors are arrays of one axis, all else of two.

    Raises `NotSupportedError` for what has no such lines yet, and `SymbolClashError` where a matrix
    has the name of a size or of a function that the lines call.
    """
    return EinsumProgram(as_steps(A, "einsum"), batch=batch)
