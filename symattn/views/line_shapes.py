r"""The steps of a computation with a shape at each: ``Q = X W  (n × d)(d × d_k) = (n × d_k)``.

A line that is a product says the shapes of its factors, and how they come together, a sum of
products those of each; any other line says its own.  A line of heads says for which index there is
one of it, and heads that are put together say what they are and what they become.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from symattn.meaning.form import Form
from symattn.nodes import Heads, Node, Program
from symattn.notation.dialects import dialect_named
from symattn.notation.presets import Preset, chosen_preset
from symattn.notation.rows import Kind
from symattn.notation.terminal import text, text_sizes
from symattn.notation.tex import latex, latex_sizes
from symattn.tags import Size
from symattn.views.operands import as_steps
from symattn.views.view import View

Shape = tuple[Size, Size]

_AROUND_A_PRODUCT = frozenset({Kind.FRACTION, Kind.NEGATION, Kind.FUNCTION})
"""What leaves the shape of a product as it is."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a computation: its name, what it is, the shapes of its terms' factors, its own.

    ``symbol`` is the name with the indices that are free in the line, ``head_i``; ``terms`` has the
    shapes of the factors of each term, and is empty where no term is a product; ``stacked`` are the
    heads that the line puts together.
    """

    name: str
    symbol: Node
    expr: Node
    terms: tuple[tuple[Shape, ...], ...]
    shape: Shape
    stacked: tuple[Node, ...] = ()

    @property
    def factors(self) -> tuple[Shape, ...]:
        """The shapes of the factors, if the line is a product."""
        return self.terms[0] if len(self.terms) == 1 else ()


class Shapes(View):
    """The lines of a computation with their shapes; `shapes` returns it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        symbols = program.line_symbols
        self.lines = tuple(
            Line(name, symbols[name], line, _terms(line), line.sizes, tuple(_stacked(line)))
            for name, line in program.named_lines.items()
        )

    def __iter__(self) -> Iterator[Line]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    def text(self, preset: Preset | str | None = None) -> str:
        """Return a line of text for each step."""
        chosen = chosen_preset(preset, self.program.result)
        rows = [
            (text(line.symbol, chosen), text(line.expr, chosen), _text_shape(line))
            for line in self.lines
        ]
        names, written = (max(len(row[k]) for row in rows) for k in (0, 1))
        return "\n".join(
            f"{name.ljust(names)} = {line.ljust(written)}  {shape}" for name, line, shape in rows
        )

    def latex(self, preset: Preset | str | None = None, *, dialect: str = "latex") -> str:
        r"""Return the steps as an ``aligned`` block of LaTeX."""
        chosen = chosen_preset(preset, self.program.result)
        rows: list[str] = []
        for line in self.lines:
            name = latex(line.symbol, chosen)
            own = f"({latex_sizes(line.shape, chosen)}){_latex_remark(line, chosen)}"
            product = " + ".join(
                r" \cdot ".join(f"({latex_sizes(shape, chosen)})" for shape in term)
                for term in line.terms
            )
            shape = f"{product} &= {own}" if product else f"&\\phantom{{{{}}={{}}}} {own}"
            rows.append(rf"{name} &= {latex(line.expr, chosen)} &\quad {shape}")
        body = " \\\\\n".join(rows)
        return dialect_named(dialect).adapted(f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}")


def _text_shape(line: Line) -> str:
    product = " + ".join("".join(map(_text_of, term)) for term in line.terms)
    own = _text_of(line.shape) + _text_remark(line)
    return f"{product} = {own}" if product else own


def _text_of(shape: Shape) -> str:
    return f"({text_sizes(shape).replace('×', ' × ')})"


def _text_remark(line: Line) -> str:
    """Say for which heads there is such a line, and what becomes of the heads in it."""
    each = [f", {i.name} = 1, …, {text_sizes((i.size,))}" for i in line.symbol.indices]
    for heads in line.stacked:
        counts, one = _put_together(heads)
        number = text_sizes(counts).replace("×", " × ")
        each.append(f", Concat: {number} × {_text_of(one)} → {_text_of(heads.sizes)}")
    each += [f", {tag} = {text_sizes((size,))}" for tag, size in _assumed(line)]
    return "".join(each)


def _latex_remark(line: Line, preset: Preset) -> str:
    each = [
        rf",\ {i.name} = 1, \ldots, {latex_sizes((i.size,), preset)}" for i in line.symbol.indices
    ]
    for heads in line.stacked:
        counts, one = _put_together(heads)
        number, shapes = latex_sizes(counts, preset), (latex_sizes(one, preset), heads.sizes)
        whole = latex_sizes(shapes[1], preset)
        each.append(rf",\ \mathrm{{Concat}}: {number} \times ({shapes[0]}) \to ({whole})")
    for tag, size in _assumed(line):
        sides = (latex_sizes((one,), preset) for one in (Size.tag(tag), size))
        each.append(rf",\ {' = '.join(sides)}")
    return "".join(each)


def _assumed(line: Line) -> Iterator[tuple[str, Size]]:
    """Yield the relations by which factors fit that are not of one size as written."""
    met = (pair for factors in line.terms for pair in pairwise(factors))
    if any(left[1] != right[0] for left, right in met):
        yield from line.expr.given


def _stacked(line: Node) -> Iterator[Node]:
    """Yield the heads that are put together in a line; heads of heads are put together at once."""
    outer = [node for node in line.walk() if isinstance(node, Heads)]
    inside = {node.matrices[0] for node in outer}
    yield from (node for node in outer if node not in inside)


def _put_together(heads: Node) -> tuple[tuple[Size, ...], Shape]:
    """Return how many heads are put together, by each of their indices, and the shape of one."""
    counts: list[Size] = []
    while isinstance(heads, Heads):
        counts.append(heads.index.size)
        heads = heads.matrices[0]
    return tuple(counts), heads.sizes


def _terms(line: Node) -> tuple[tuple[Shape, ...], ...]:
    """Return the shapes of the factors of every term; none where no term is a product."""
    terms = line.matrices if line.notation.kind is Kind.SUM else (line,)
    factors = [_factors(term) for term in terms]
    if not any(factors):
        return ()
    return tuple(
        tuple(factor.sizes for factor in found or (term,))
        for term, found in zip(terms, factors, strict=True)
    )


def _factors(line: Node) -> tuple[Node, ...]:
    """Return the matrices that are multiplied in a line, if it is a product up to scalars."""
    while line.notation.kind in _AROUND_A_PRODUCT:
        line = line.matrices[0]
    if line.notation.kind is not Kind.PRODUCT:
        return ()
    matrices = [part for part in line.parts if isinstance(part, Node)]
    if len(matrices) == 1 and any(isinstance(part, Form) for part in line.parts):
        return _factors(matrices[0])
    return tuple(matrices)


def shapes(A: Any) -> Shapes:
    r"""Return the steps of a computation with a shape at each line.

    >>> import symattn as sa
    >>> sa.shapes(sa.formula("self_attention", layout="row"))
    Q = X W^Q       (n × d)(d × d_k) = (n × d_k)
    K = X W^K       (n × d)(d × d_k) = (n × d_k)
    V = X W^V       (n × d)(d × d_v) = (n × d_v)
    S = Q Kᵀ        (n × d_k)(d_k × n) = (n × n)
    P = softmax(S)  (n × n)
    O = PV          (n × n)(n × d_v) = (n × d_v)

    A program and an entry of the catalogue have lines; of a formula the scores S, the weights P and
    the result O are shown.  Each line has a ``.name``, an ``.expr`` in terms of the lines before
    it, the shapes of the factors of its ``.terms`` (``.factors``, if it is one product) and its own
    ``.shape``; the whole prints as text and as LaTeX, by preset and dialect.

    Raises `NotAnOperandError` and `TextRefusedError` for what is no formula.
    """
    return Shapes(as_steps(A, "shapes"))
