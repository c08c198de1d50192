"""A formula as a readable program of `einsum` lines, and as the Python module that runs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from symattn.errors import SymbolClashError
from symattn.nodes import InputVector, Node, Program
from symattn.nodes.depth import shallow_enough
from symattn.notation.names import identifier
from symattn.notation.terminal import text_sizes
from symattn.tags import Size
from symattn.views.contractions import Contractions
from symattn.views.letters import Letters
from symattn.views.operands import as_steps
from symattn.views.spelling import spelt

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
        sizes += result.sizes
        sizes += [size for line in program.lines.values() for size in _sizes_in(line)]
        writer = Contractions(Letters(sizes), vectors, taken, batch=batch)
        for name, line in program.named_lines.items():
            writer.line(identifier(name), line)
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
        for tag, factors in self._quotients(known).items():
            known[tag] = None
            body.append(f"{self._tags[tag]} = {' // '.join(self._tags[one] for one in factors)}")
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

    def _quotients(self, known: Iterable[str]) -> dict[str, list[str]]:
        """Return what sizes follow from others and the numbers of heads: d_k = d_model // h."""
        lines = self.program.lines.values()
        counts = {tag for line in lines for tag in _counts(line)}
        found: dict[str, list[str]] = {}
        for tag, size in dict.fromkeys(pair for line in lines for pair in line.given):
            factors = size.tags
            missing = [one for one in factors if one not in known and one not in counts]
            is_product = prod(map(Size.tag, factors), start=Size.of(1)) == size
            if tag in known and is_product and len(missing) == 1:
                found[missing[0]] = [tag, *(one for one in factors if one != missing[0])]
        return found


def _counts(node: Node) -> Iterator[str]:
    """Yield the tags that say how many heads there are."""
    for part in node.everything():
        for index in (*part.reads, *part.binds):
            yield from index.size.tags


def _tags(node: Node) -> Iterator[str]:
    yield from node.tags
    for size in _sizes_in(node):
        yield from size.tags


def _sizes_in(node: Node) -> Iterator[Size]:
    for part in node.everything():
        yield from part.extents


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
    vectors are arrays of one axis, matrices of two, and families have one for each index in front.
    Heads are such an axis too: ``einsum("hkm,hkn->hmn", K, Q)``.  Sizes that no array has are given
    by keyword, as the ``h`` of heads that are blocks of one axis.

    Raises `NotSupportedError` for what has no such lines yet, and `SymbolClashError` where a matrix
    has the name of a size or of a function that the lines call.
    """
    return EinsumProgram(as_steps(A, "einsum"), batch=batch)
