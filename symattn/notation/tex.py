r"""LaTeX of an expression, kept as it was written: ``\frac{K^TQ}{\sqrt{d_k}}``, ``(WX)^T``.

One rule a kind of writing; the glyphs come from a preset, what a renderer refuses from a dialect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

from symattn.errors import UnknownNameError
from symattn.meaning.form import Form
from symattn.meaning.functions import FUNCTIONS
from symattn.notation.code import brief, check_printable
from symattn.notation.conditions import ConditionRules
from symattn.notation.dialects import DIALECTS, Dialect, dialect_named
from symattn.notation.glyphs import latex_name, latex_script, product
from symattn.notation.names import check_name, member_name, parse_name
from symattn.notation.presets import Preset, chosen_preset
from symattn.notation.printer import Written, member_of_heads
from symattn.notation.rewritten import is_number, quotient_of_numbers, score_and_pairs
from symattn.notation.rows import Binding, Kind, NamedLines, Printable, Titled
from symattn.tags import Size

LINES = (r"\text{columns}", r"\text{rows}")
"""What an operation along axis 0 or 1 runs along, one by one."""


def latex(
    expr: Printable | Form | NamedLines | Titled,
    preset: Preset | str | None = None,
    *,
    highlight: Sequence[Printable] | Printable = (),
    dialect: str = "latex",
) -> str:
    r"""Return an expression as LaTeX, with its order and parentheses as written.

    >>> import symattn as sa
    >>> d_k, d_v, n, m = sa.dims("d_k d_v n m")
    >>> Q, K, V = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
    >>> print(sa.latex(sa.softmax(Q @ K.T / sa.sqrt(d_k), axis=1) @ V))
    \mathrm{softmax}\left(\frac{QK^T}{\sqrt{d_k}}\right)V

    ``preset`` is the glyphs of a source; without it, those of the layout in which the first softmax
    runs.  Every occurrence of an operand in ``highlight``, one or several, is red.  ``dialect`` is
    the renderer: latex, mathjax, katex, github or jupyter.  A program is an ``aligned`` block of
    lines, a formula of the catalogue is printed as its expression.

    Raises `UnknownNameError` for an unknown preset or dialect and for an operand to highlight that
    is not there, `TextRefusedError` and `NotAnOperandError` for what is no expression.
    """
    if isinstance(expr, NamedLines):
        return expr.latex(preset, highlight=highlight, dialect=dialect)
    if isinstance(expr, Titled):
        chosen = chosen_preset(preset, expr)
        return latex(expr.expr, chosen, highlight=highlight, dialect=dialect)
    check_printable("latex", expr)
    operands = operands_in([expr], highlight)
    printer = LatexPrinter(chosen_preset(preset, expr), dialect_named(dialect), operands)
    return printer.dialect_of(printer.write(expr).text)


def operands_in(exprs: Sequence[Printable | Form], highlight: Any) -> tuple[Any, ...]:
    """Return the operands to highlight, one or several; raise if one stands in no expression."""
    # A matrix refuses to be iterated over, and a text would be by its letters.
    alone = isinstance(highlight, str) or hasattr(highlight, "notation")
    several = isinstance(highlight, Iterable) and not alone
    operands = tuple(highlight) if several else (highlight,)
    for operand in operands:
        check_printable("highlight", operand)
    parts = list(_parts(exprs)) if operands else []
    for operand in operands:
        if not any(part is operand or part == operand for part in parts):
            there = {_told(part): None for part in parts if part.notation.kind is Kind.SYMBOL}
            raise UnknownNameError("operand", _told(operand), choices=tuple(there))
    return operands


def _parts(exprs: Sequence[Printable | Form]) -> Iterator[Printable]:
    """Yield every matrix expression in some, once, from the outside in and from the left."""
    pending, seen = list(reversed(exprs)), set[int]()
    while pending:
        part = pending.pop()
        if isinstance(part, Form) or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        pending.extend(reversed(part.parts))


def _told(operand: Any) -> str:
    """Return an operand in words; symbols of one name may differ by their sizes."""
    if isinstance(operand, Form) or operand.notation.kind is not Kind.SYMBOL:
        return brief(operand)
    return f"{operand.label} ({operand.sizes[0]}×{operand.sizes[1]})"


class LatexPrinter(ConditionRules):
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

    @property
    def in_sizes(self) -> LatexPrinter:
        return LatexSizes(self.preset, self.dialect)

    def whole_quotient(self, numerator: Written, denominator: Written) -> Written:
        above, below = self.held(numerator, Binding.PRODUCT), self.held(denominator, Binding.POWER)
        return Written(f"{above.text} / {below.text}", Binding.HADAMARD)

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

    def symbol(self, node: Printable) -> Written:
        return Written(*latex_name(node.label, self.preset, bold=self.preset.bold))

    def hadamard(self, node: Printable) -> Written:
        if is_number(node):
            return self.write(quotient_of_numbers(node.parts))
        factors = [self.inside(part, Binding.PRODUCT) for part in node.parts]
        text = r" \circ ".join(factor.text for factor in factors)
        return Written(text, Binding.HADAMARD, any(factor.tall for factor in factors))

    def transpose(self, node: Printable) -> Written:
        base = self.inside(node.parts[0], Binding.ATOM)
        text = base.text + latex_script("^", self.preset.transpose, self.preset)
        return Written(text, Binding.POWER, base.tall)

    def softmax(self, node: Printable) -> Written:
        preset = self.preset
        vector = node.sizes[1].is_one
        label = preset.softmax_vector if vector else preset.softmax_matrix
        said = [LINES[node.axis]] if node.axis is not None and node.axis != preset.axis else []
        if node.mask is not None:
            said.append(self.mask_of(node))
        if said:
            label += latex_script("_", ", ".join(said), preset)
        return self.called(label, self.write(node.parts[0]), preset.gap)

    def maximum(self, node: Printable) -> Written:
        # Always said: a maximum without it would be read as the largest of all entries.
        where = "" if node.axis is None else latex_script("_", LINES[node.axis], self.preset)
        return self.called(r"\max" + where, self.write(node.parts[0]), self.preset.gap)

    def concat(self, node: Printable) -> Written:
        between = r" \\ " if node.axis == 0 else " & "
        parts = between.join(self.write(part).text for part in node.parts)
        return Written(rf"\begin{{bmatrix}} {parts} \end{{bmatrix}}", Binding.ATOM, tall=True)

    def member(self, node: Printable) -> Written:
        return self.member_at(node, [name for name, _ in node.running])

    def member_at(self, node: Printable, letters: Sequence[str]) -> Written:
        """Write the member of a family at some letters or numbers."""
        label = member_name(node.label, letters)
        return Written(*latex_name(label, self.preset, bold=self.preset.bold))

    def _numbered(self, member: Printable, numbers: Mapping[str, str]) -> str:
        letters = [numbers.get(name, name) for name, _ in member.running]
        return self.member_at(member, letters).text

    def heads(self, node: Printable) -> Written:
        ((index, count),) = node.running
        found = member_of_heads(node)
        if found is not None:
            member, counts = found
            first = self._numbered(member, dict.fromkeys(counts, "1"))
            last = self._numbered(member, {k: str(size) for k, size in counts.items()})
            if node.axis == 0:
                rows = rf"{first} \\ \vdots \\ {last}"
                return Written(
                    rf"\begin{{bmatrix}} {rows} \end{{bmatrix}}", Binding.ATOM, tall=True
                )
            inside = Written(rf"{first}, \ldots, {last}", Binding.SUM)
            return self.called(r"\mathrm{Concat}", inside, self.preset.gap)
        label = r"\mathrm{Concat}" + self._bounds(index, count)
        called = self.called(label, self.write(node.parts[0]), self.preset.gap)
        said = self._said(node)  # after the parentheses: the index alone has bounds
        below = latex_script("_", said, self.preset) if said else ""
        return replace(called, text=called.text + below)

    def _said(self, node: Printable) -> str:
        """Say along what heads lie, where that is not along the features of the layout."""
        lies_as_expected = node.axis == self.preset.axis or any(s.is_one for s in node.sizes)
        return "" if lies_as_expected else LINES[1 - (node.axis or 0)]

    def _bounds(self, index: str, count: Size) -> str:
        above = latex_script("^", self.size(count).text, self.preset)
        return latex_script("_", f"{self.letter(index)}=1", self.preset) + above

    def sum_over(self, node: Printable) -> Written:
        ((index, count),) = node.running
        body = self.inside(node.parts[0], Binding.HADAMARD)
        return Written(
            rf"\sum{self._bounds(index, count)} {body.text}", Binding.HADAMARD, tall=True
        )

    def head(self, node: Printable) -> Written:
        ((index, _),) = node.running
        said = self._said(node)
        script = f"({self.letter(index)})" + (rf",\, {said}" if said else "")
        base = self.block_of(node.parts[0])
        text = base.text + latex_script("^", script, self.preset)
        return Written(text, Binding.POWER, base.tall)

    def reshape(self, node: Printable) -> Written:
        script = latex_script("_", latex_sizes(node.sizes, self.preset), self.preset)
        return self.called(r"\mathrm{reshape}" + script, self.write(node.parts[0]), self.preset.gap)

    def pairs(self, node: Printable) -> Written:
        score, pairs = score_and_pairs(node)
        written = self.write(score)
        if not pairs:
            return written
        stand = (rf"{self.write(one).text} \in {self.write(data).text}" for one, data in pairs)
        return self._bracketed(written, r",\, ".join(stand))

    def positions(self, node: Printable) -> Written:
        number, names = self.positioned(node)
        return self._bracketed(number, ",".join(latex_name(n, self.preset)[0] for n in names))

    def _bracketed(self, written: Written, script: str) -> Written:
        gap = self.preset.gap
        inside = rf"\left[{gap}{written.text}{gap}\right]" if written.tall else f"[{written.text}]"
        return Written(inside + latex_script("_", script, self.preset), Binding.ATOM, written.tall)

    def ones(self, node: Printable) -> Written:
        return Written(rf"\mathbf{{1}}_{{{latex_sizes(node.sizes, self.preset)}}}", Binding.ATOM)

    def identity(self, node: Printable) -> Written:
        letter = r"\mathbf{I}" if self.preset.bold else "I"
        order = self.size(node.sizes[0]).text
        return Written(letter + latex_script("_", order, self.preset), Binding.ATOM)

    def indicator(self, node: Printable) -> Written:
        sizes = latex_sizes(node.sizes, self.preset)
        return Written(rf"\left[{self.mask_of(node)}\right]_{{{sizes}}}", Binding.ATOM, tall=True)

    def additive_mask(self, node: Printable) -> Written:
        letter = latex_name("M", self.preset, bold=self.preset.bold)[0]
        return Written(letter + latex_script("_", self.mask_of(node), self.preset), Binding.ATOM)

    # The words of conditions.

    signs: ClassVar[Mapping[str, str]] = {
        "or": r"\lor",
        "and": r"\land",
        "not": r"\lnot",
        "≤": r"\le",
        "≠": r"\ne",
    }

    def divided(self, whole: str, part: str) -> str:
        return rf"\lfloor {whole} / {part} \rfloor"

    def remainder(self, whole: str, part: str) -> str:
        return rf"{whole} \bmod {part}"

    def letter(self, name: str) -> str:
        return name if name.isdigit() else latex_name(check_name(name), self.preset)[0]

    def entry(self, name: str, read: Sequence[str]) -> Written:
        base = latex_name(name, self.preset)[0]
        if parse_name(name).subscript:  # two subscripts are no LaTeX
            base = f"({base})"
        gap = "" if all(len(letter) == 1 for letter in read) else ","
        return Written(base + latex_script("_", gap.join(read), self.preset), Binding.POWER)


class LatexSizes(LatexPrinter):
    """The inside of a size, where a space tells factors apart in every preset: ``h d_k``."""

    def product(self, factors: Sequence[Written]) -> Written:
        held = [self.held(factor, Binding.POWER).text for factor in factors]
        return Written(product(held, " "), Binding.PRODUCT)


def latex_sizes(sizes: Sequence[Size], preset: Preset) -> str:
    r"""Return a shape, ``d_{k} \times n``."""
    printer = LatexSizes(preset, DIALECTS["latex"])
    printed = (printer.size(size) for size in sizes)
    return r" \times ".join(
        size.text if size.binding > Binding.SUM else f"({size.text})" for size in printed
    )


def latex_space(sizes: Sequence[Size], preset: Preset) -> str:
    r"""Return the space of matrices of a shape.

    >>> from symattn.notation.presets import PRESETS
    >>> from symattn.tags import Size
    >>> latex_space((Size.tag("d_k"), Size.tag("n")), PRESETS["freshrimp"])
    'M^{d_{k} \\times n}'
    """
    return f"{preset.space}^{{{latex_sizes(sizes, preset)}}}"


def latex_shape(label: str, sizes: Sequence[Size], preset: Preset) -> str:
    r"""Return a matrix and the space that it is in, ``Q \in \mathbb{R}^{n \times d_k}``."""
    name = latex_name(check_name(label), preset, bold=preset.bold)[0]
    return rf"{name} \in {latex_space(sizes, preset)}"
