r"""LaTeX of an expression, kept as it was written: ``\frac{K^TQ}{\sqrt{d_k}}``, ``(WX)^T``.

One rule a kind of writing; the glyphs come from a preset, what a renderer refuses from a dialect.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

from symattn.meaning.form import Form
from symattn.meaning.functions import FUNCTIONS
from symattn.notation.code import check_printable
from symattn.notation.dialects import Dialect, dialect_named
from symattn.notation.glyphs import latex_name, latex_script, latex_size, product
from symattn.notation.names import check_name
from symattn.notation.presets import Preset, chosen_preset
from symattn.notation.printer import Printer, Written
from symattn.notation.rows import Binding, Kind, NamedLines, Printable
from symattn.tags import Size

LINES = (r"\text{columns}", r"\text{rows}")
"""What an operation along axis 0 or 1 runs along, one by one."""


def latex(
    expr: Printable | Form | NamedLines,
    preset: Preset | str | None = None,
    *,
    highlight: Sequence[Any] = (),
    dialect: str = "latex",
) -> str:
    r"""Return an expression as LaTeX, with its order and parentheses as written.

    >>> import symattn as sa
    >>> d_k, d_v, n, m = sa.dims("d_k d_v n m")
    >>> Q, K, V = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
    >>> print(sa.latex(sa.softmax(Q @ K.T / sa.sqrt(d_k), axis=1) @ V))
    \mathrm{softmax}\left(\frac{QK^T}{\sqrt{d_k}}\right)V

    ``preset`` is the glyphs of a source; without it, those of the layout in which the first softmax
    runs.  Every occurrence of an operand in ``highlight`` is printed in red.  ``dialect`` is the
    renderer: latex, mathjax, katex, github or jupyter.  A program is an ``aligned`` block of lines.

    Raises `UnknownNameError` for an unknown preset or dialect, `TextRefusedError` and
    `NotAnOperandError` for what is no expression.
    """
    if isinstance(expr, NamedLines):
        return expr.latex(preset, highlight=highlight, dialect=dialect)
    check_printable("latex", expr)
    operands = (highlight,) if hasattr(highlight, "notation") else tuple(highlight)
    printer = LatexPrinter(chosen_preset(preset, expr), dialect_named(dialect), operands)
    return printer.dialect_of(printer.write(expr).text)


class LatexPrinter(Printer):
    """The rules of LaTeX."""

    def __init__(self, preset: Preset, dialect: Dialect, highlight: tuple[Any, ...] = ()) -> None:
        self.preset = preset
        self.dialect = dialect
        self.highlight = highlight

    def dialect_of(self, text: str) -> str:
        r"""Return LaTeX with the dialect's writing of ``\operatorname``."""
        return self.dialect.adapted(text)

    def one(self, node: Printable) -> Written:
        """Write an expression, in red if it is to be highlighted."""
        written = super().one(node)
        if any(node is operand or node == operand for operand in self.highlight):
            red = self.dialect.red.replace("{x}", written.text)
            return Written(red, written.binding, written.tall)
        return written

    # The words.

    def parentheses(self, written: Written) -> str:
        gap = self.preset.gap
        if written.tall:
            return rf"\left({gap}{written.text}{gap}\right)"
        return f"({written.text})"

    def name(self, name: str) -> Written:
        return Written(*latex_name(name, self.preset))

    def size(self, size: Size) -> Written:
        return Written(*latex_size(size, self.preset))

    def rational(self, value: Fraction) -> Written:
        return Written(
            rf"\frac{{{value.numerator}}}{{{value.denominator}}}", Binding.APPLICATION, tall=True
        )

    def product(self, factors: Sequence[Written]) -> Written:
        # A minus sign may stand in front; a sum over an index in front would swallow the rest.
        held = [
            self.held(factor, Binding.NEGATION)
            if not at and factor.binding is Binding.NEGATION
            else self.held(factor, Binding.PRODUCT)
            for at, factor in enumerate(factors)
        ]
        negative = held[0].binding is Binding.NEGATION
        # A digit after another factor would read on as one number.
        pieces = [
            r"\cdot " + factor.text if at and factor.text[0].isdigit() else factor.text
            for at, factor in enumerate(held)
        ]
        return Written(
            product(pieces, self.preset.gap),
            Binding.NEGATION if negative else Binding.PRODUCT,
            any(factor.tall for factor in held),
        )

    def quotient(self, numerator: Written, denominator: Written) -> Written:
        text = rf"\frac{{{numerator.text}}}{{{denominator.text}}}"
        return Written(text, Binding.APPLICATION, tall=True)

    def power(self, base: Written, exponent: Fraction) -> Written:
        if exponent.numerator == 1 and exponent.denominator > 1:
            order = "" if exponent.denominator == 2 else f"[{exponent.denominator}]"
            return Written(rf"\sqrt{order}{{{base.text}}}", Binding.ATOM, base.tall)
        held = self.held(base, Binding.ATOM)
        text = held.text + latex_script("^", str(exponent), self.preset)
        return Written(text, Binding.POWER, held.tall)

    def call(self, function: str, argument: Written) -> Written:
        row = FUNCTIONS.get(function)
        if row is None:
            label = latex_name(function, self.preset)[0]
            label = label.replace(r"\mathrm", r"\operatorname", 1)
        elif "{x}" not in row.latex:
            label = row.latex
        elif row.latex.startswith("{x}"):
            held = self.held(argument, Binding.ATOM)
            return Written(row.latex.replace("{x}", held.text), Binding.POWER, held.tall)
        else:
            text = row.latex.replace("{x}", argument.text)
            return Written(text, Binding.ATOM, argument.tall)
        return self.called(label, argument, "")

    def called(self, label: str, argument: Written, gap: str) -> Written:
        """Write a call, with parentheses as tall as the argument."""
        gap = self.preset.gap if argument.tall else gap
        text = label + gap + self.parentheses(argument)
        return Written(text, Binding.APPLICATION, argument.tall)

    # The rules.

    def _symbol(self, node: Printable) -> Written:
        return Written(*latex_name(node.label, self.preset, bold=self.preset.bold))

    def _product(self, node: Printable) -> Written:
        factors: list[Written] = []
        for part in node.parts:
            if isinstance(part, Form):  # a scalar: 2 c A
                least = Binding.PRODUCT if factors else Binding.NEGATION
            else:  # a fraction counts as one thing, a product in a product keeps its parentheses
                least = Binding.APPLICATION
            factors.append(self.inside(part, least))
        return self.product(factors)

    def _sum(self, node: Printable) -> Written:
        return self.plus(self.terms(node.parts))

    def _hadamard(self, node: Printable) -> Written:
        factors = [self.inside(part, Binding.PRODUCT) for part in node.parts]
        text = r" \circ ".join(factor.text for factor in factors)
        return Written(text, Binding.HADAMARD, any(factor.tall for factor in factors))

    def _transpose(self, node: Printable) -> Written:
        base = self.inside(node.parts[0], Binding.ATOM)
        text = base.text + latex_script("^", self.preset.transpose, self.preset)
        return Written(text, Binding.POWER, base.tall)

    def _negation(self, node: Printable) -> Written:
        return self.negative(self.write(node.parts[0]))

    def _fraction(self, node: Printable) -> Written:
        return self.quotient(self.write(node.parts[0]), self.write(node.parts[1]))

    def _softmax(self, node: Printable) -> Written:
        preset = self.preset
        vector = node.sizes[1].is_one
        label = preset.softmax_vector if vector else preset.softmax_matrix
        if node.axis is not None and node.axis != preset.axis:
            label += latex_script("_", LINES[node.axis], preset)
        return self.called(label, self.write(node.parts[0]), preset.gap)

    def _maximum(self, node: Printable) -> Written:
        # Always said: a maximum without it would be read as the largest of all entries.
        where = "" if node.axis is None else latex_script("_", LINES[node.axis], self.preset)
        return self.called(r"\max" + where, self.write(node.parts[0]), self.preset.gap)

    def _function(self, node: Printable) -> Written:
        return self.call(node.label, self.write(node.parts[0]))

    def _ones(self, node: Printable) -> Written:
        return Written(rf"\mathbf{{1}}_{{{latex_sizes(node.sizes, self.preset)}}}", Binding.ATOM)

    def _identity(self, node: Printable) -> Written:
        letter = r"\mathbf{I}" if self.preset.bold else "I"
        order = latex_size(node.sizes[0], self.preset)[0]
        return Written(letter + latex_script("_", order, self.preset), Binding.ATOM)

    RULES: ClassVar = {
        Kind.SYMBOL: _symbol,
        Kind.PRODUCT: _product,
        Kind.SUM: _sum,
        Kind.HADAMARD: _hadamard,
        Kind.TRANSPOSE: _transpose,
        Kind.NEGATION: _negation,
        Kind.FRACTION: _fraction,
        Kind.SOFTMAX: _softmax,
        Kind.MAXIMUM: _maximum,
        Kind.FUNCTION: _function,
        Kind.ONES: _ones,
        Kind.IDENTITY: _identity,
    }


def latex_sizes(sizes: tuple[Size, Size], preset: Preset) -> str:
    r"""Return a shape, ``d_{k} \times n``."""
    printed = (latex_size(size, preset) for size in sizes)
    return r" \times ".join(
        text if binding > Binding.SUM else f"({text})" for text, binding in printed
    )


def latex_space(sizes: tuple[Size, Size], preset: Preset) -> str:
    r"""Return the space of matrices of a shape.

    >>> from symattn.notation.presets import PRESETS
    >>> from symattn.tags import Size
    >>> latex_space((Size.tag("d_k"), Size.tag("n")), PRESETS["freshrimp"])
    'M^{d_{k} \\times n}'
    """
    return f"{preset.space}^{{{latex_sizes(sizes, preset)}}}"


def latex_shape(label: str, sizes: tuple[Size, Size], preset: Preset) -> str:
    r"""Return a matrix and the space that it is in, ``Q \in \mathbb{R}^{n \times d_k}``."""
    name = latex_name(check_name(label), preset, bold=preset.bold)[0]
    return rf"{name} \in {latex_space(sizes, preset)}"
