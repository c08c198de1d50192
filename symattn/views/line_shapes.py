r"""The steps of a computation with a shape at each: ``Q = X W  (n × d)(d × d_k) = (n × d_k)``.

A line that is a product says the shapes of its factors, and how they come together; any other line
says its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from symattn.meaning.form import Form
from symattn.nodes import Node, Program
from symattn.notation.dialects import dialect_named
from symattn.notation.presets import Preset, chosen_preset
from symattn.notation.rows import Kind
from symattn.notation.terminal import text, text_sizes
from symattn.notation.tex import latex, latex_sizes
from symattn.tags import Size
from symattn.views.operands import as_steps
from symattn.views.view import View

_AROUND_A_PRODUCT = frozenset({Kind.FRACTION, Kind.NEGATION, Kind.FUNCTION})
"""What leaves the shape of a product as it is."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a computation: its name, what it is, the shapes of its factors, its own.

    ``symbol`` is the name with the indices that are free in the line, ``head_i``.
    """

    name: str
    symbol: Node
    expr: Node
    factors: tuple[tuple[Size, Size], ...]
    shape: tuple[Size, Size]


class Shapes(View):
    """The lines of a computation with their shapes; `shapes` returns it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.lines = tuple(
            Line(name, symbol, line, tuple(each.sizes for each in _factors(line)), line.sizes)
            for (name, line), symbol in zip(
                program.named_lines.items(), program.line_symbols.values(), strict=True
            )
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
            own = f"({latex_sizes(line.shape, chosen)})"
            product = r" \cdot ".join(f"({latex_sizes(shape, chosen)})" for shape in line.factors)
            shape = f"{product} &= {own}" if product else f"&\\phantom{{{{}}={{}}}} {own}"
            rows.append(rf"{name} &= {latex(line.expr, chosen)} &\quad {shape}")
        body = " \\\\\n".join(rows)
        return dialect_named(dialect).adapted(f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}")


def _text_shape(line: Line) -> str:
    product = "".join(_text_of(shape) for shape in line.factors)
    return f"{product} = {_text_of(line.shape)}" if product else _text_of(line.shape)


def _text_of(shape: tuple[Size, Size]) -> str:
    return f"({text_sizes(shape).replace('×', ' × ')})"


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
    it, the shapes of its ``.factors`` and its own ``.shape``; the whole prints as text and as
    LaTeX, by preset and dialect.

    Raises `NotAnOperandError` and `TextRefusedError` for what is no formula.
    """
    return Shapes(as_steps(A, "shapes"))
