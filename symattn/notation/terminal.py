"""Expressions as Unicode text for a terminal: ``V Softmax(KᵀQ / √d_k)``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import ClassVar

from symattn.meaning.form import Form
from symattn.meaning.functions import FUNCTIONS
from symattn.notation.code import check_printable
from symattn.notation.conditions import ConditionRules
from symattn.notation.glyphs import SUPERSCRIPTS, text_name
from symattn.notation.names import check_name, member_name
from symattn.notation.presets import PRESETS, Preset, chosen_preset
from symattn.notation.printer import Written, member_of_heads
from symattn.notation.rewritten import is_number, quotient_of_numbers, score_and_pairs
from symattn.notation.rows import Binding, NamedLines, Printable, Titled
from symattn.tags import Size

LINES = ("columns", "rows")
"""What an operation along axis 0 or 1 runs along, one by one."""

_SHORT = re.compile(r"\d*(?:[^\W\d_]ᵀ?)*")
_LETTER = re.compile(r"[^\W\d_]")


def text(expr: Printable | Form | NamedLines | Titled, preset: Preset | str | None = None) -> str:
    """Return an expression as text, with its order and parentheses as written.

    >>> import symattn as sa
    >>> d_k, d_v, n, m = sa.dims("d_k d_v n m")
    >>> Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
    >>> sa.text(V @ sa.softmax(K.T @ Q / sa.sqrt(d_k), axis=0))
    'V Softmax(KᵀQ / √d_k)'

    A program is printed line by line, a formula of the catalogue as its expression.  Raises
    `UnknownNameError` for an unknown preset, `TextRefusedError` and `NotAnOperandError` for what is
    no expression.
    """
    if isinstance(expr, Titled):
        return text(expr.expr, chosen_preset(preset, expr))
    if isinstance(expr, NamedLines):
        chosen = chosen_preset(preset, expr.result)
        symbols = expr.line_symbols
        return "\n".join(
            f"{text(symbols[name], chosen)} = {text(line, chosen)}"
            for name, line in expr.named_lines.items()
        )
    check_printable("text", expr)
    return TextPrinter(chosen_preset(preset, expr)).write(expr).text


class TextPrinter(ConditionRules):
    """The rules of text."""

    def __init__(self, preset: Preset) -> None:
        self.preset = preset

    # The words.

    def parentheses(self, written: Written) -> str:
        return f"({written.text})"

    def name(self, name: str) -> Written:
        return Written(*text_name(name))

    @property
    def in_sizes(self) -> TextPrinter:
        return _SIZES

    def whole_quotient(self, numerator: Written, denominator: Written) -> Written:
        above, below = self.held(numerator, Binding.PRODUCT), self.held(denominator, Binding.POWER)
        return Written(f"{above.text}/{below.text}", Binding.HADAMARD)

    def rational(self, value: Fraction) -> Written:
        return Written(f"{value.numerator}/{value.denominator}", Binding.HADAMARD)

    def product(self, factors: Sequence[Written]) -> Written:
        written: list[str] = []
        binding = Binding.PRODUCT
        for factor in factors:
            # A minus sign may stand in front; a quotient in front would swallow the rest.
            signed = not written and factor.binding is Binding.NEGATION
            piece = self.held(factor, Binding.NEGATION if signed else Binding.PRODUCT)
            if not written:
                binding = min(piece.binding, Binding.PRODUCT)
            elif piece.text[0].isdigit():
                written.append(" · ")
            elif not (_LETTER.fullmatch(piece.text) and _SHORT.fullmatch(written[-1])):
                written.append(" ")  # single letters stand side by side: KᵀWQ
            written.append(piece.text)
        return Written("".join(written), binding)

    def quotient(self, numerator: Written, denominator: Written) -> Written:
        above = self.held(numerator, Binding.PRODUCT)
        below = self.held(denominator, Binding.APPLICATION)
        return Written(f"{above.text} / {below.text}", Binding.HADAMARD)

    def power(self, base: Written, exponent: Fraction) -> Written:
        if exponent == Fraction(1, 2):
            return Written("√" + self.held(base, Binding.POWER).text, Binding.APPLICATION)
        held = self.held(base, Binding.ATOM).text
        if exponent.denominator == 1:
            raised = str(exponent).translate(SUPERSCRIPTS)
            return Written(held + raised, Binding.POWER)
        return Written(f"{held}^({exponent})", Binding.POWER)

    def call(self, function: str, argument: Written) -> Written:
        row = FUNCTIONS.get(function)
        if row is not None and "{x}" in row.text:
            template = row.text
            if argument.binding is Binding.ATOM:
                template = template.replace("({x})", "{x}")
            shown = template.replace("{x}", argument.text)
            is_power = row.text.startswith("({x})")
            return Written(shown, Binding.POWER if is_power else Binding.APPLICATION)
        label = text_name(function)[0] if row is None else row.text
        return Written(f"{label}({argument.text})", Binding.APPLICATION)

    # The rules.

    def hadamard(self, node: Printable) -> Written:
        if is_number(node):
            return self.write(quotient_of_numbers(node.parts))
        factors = [self.inside(part, Binding.PRODUCT).text for part in node.parts]
        return Written(" ∘ ".join(factors), Binding.HADAMARD)

    def transpose(self, node: Printable) -> Written:
        return Written(self.inside(node.parts[0], Binding.ATOM).text + "ᵀ", Binding.POWER)

    def softmax(self, node: Printable) -> Written:
        preset = self.preset
        vector = node.sizes[1].is_one
        label = preset.text_softmax_vector if vector else preset.text_softmax_matrix
        said = [LINES[node.axis]] if node.axis is not None and node.axis != preset.axis else []
        if node.mask is not None:
            label += f"_{{{', '.join([*said, self.mask_of(node)])}}}"
        elif said:
            label += "_" + said[0]
        return Written(f"{label}({self.write(node.parts[0]).text})", Binding.APPLICATION)

    def maximum(self, node: Printable) -> Written:
        label = "max" if node.axis is None else "max_" + LINES[node.axis]
        return Written(f"{label}({self.write(node.parts[0]).text})", Binding.APPLICATION)

    def concat(self, node: Printable) -> Written:
        between = "; " if node.axis == 0 else ", "
        return Written(
            f"[{between.join(self.write(part).text for part in node.parts)}]", Binding.ATOM
        )

    def member(self, node: Printable) -> Written:
        return self.member_at(node, [self.letter(name) for name, _ in node.running])

    def member_at(self, node: Printable, letters: Sequence[str]) -> Written:
        """Write the member of a family at some letters or numbers."""
        return Written(*text_name(member_name(node.label, letters)))

    def heads(self, node: Printable) -> Written:
        ((index, count),) = node.running
        found = member_of_heads(node)
        if found is not None:
            member, counts = found
            first = self._numbered(member, dict.fromkeys(counts, "1"))
            last = self._numbered(member, {k: self.size(size).text for k, size in counts.items()})
            if node.axis == 0:
                return Written(f"[{first}; …; {last}]", Binding.ATOM)
            return Written(f"Concat({first}, …, {last})", Binding.APPLICATION)
        bounds = f"_{{{self.letter(index)}=1..{self.size(count).text}}}"
        said = self._said(node)
        inside = f"({self.write(node.parts[0]).text})" + (f"_{said}" if said else "")
        return Written(f"Concat{bounds}{inside}", Binding.APPLICATION)

    def _numbered(self, member: Printable, numbers: Mapping[str, str]) -> str:
        letters = [numbers.get(name, self.letter(name)) for name, _ in member.running]
        return self.member_at(member, letters).text

    def sum_over(self, node: Printable) -> Written:
        ((index, count),) = node.running
        body = self.inside(node.parts[0], Binding.HADAMARD).text
        bounds = f"_{{{self.letter(index)}=1..{self.size(count).text}}}"
        return Written(f"Σ{bounds} {body}", Binding.HADAMARD)

    def head(self, node: Printable) -> Written:
        ((index, _),) = node.running
        base = self.block_of(node.parts[0]).text
        said = self._said(node)
        script = f"({self.letter(index)})" + (f", {said}" if said else "")
        return Written(f"{base}^{{{script}}}", Binding.POWER)

    def _said(self, node: Printable) -> str:
        """Say along what heads lie, where that is not along the features of the layout."""
        lies_as_expected = node.axis == self.preset.axis or any(s.is_one for s in node.sizes)
        return "" if lies_as_expected else LINES[1 - (node.axis or 0)]

    def reshape(self, node: Printable) -> Written:
        inner = self.write(node.parts[0]).text
        return Written(f"reshape_{{{text_sizes(node.sizes)}}}({inner})", Binding.APPLICATION)

    def pairs(self, node: Printable) -> Written:
        score, pairs = score_and_pairs(node)
        written = self.write(score)
        if not pairs:
            return written
        stand = (f"{self.write(one).text} ∈ {self.write(data).text}" for one, data in pairs)
        return Written(f"[{written.text}]_{{{', '.join(stand)}}}", Binding.ATOM)

    def positions(self, node: Printable) -> Written:
        number, names = self.positioned(node)
        at = ",".join(text_name(name)[0] for name in names)
        return Written(f"[{number.text}]_{{{at}}}", Binding.ATOM)

    def ones(self, node: Printable) -> Written:
        return Written(f"1_{{{text_sizes(node.sizes)}}}", Binding.ATOM)

    def identity(self, node: Printable) -> Written:
        order = self.size(node.sizes[0])
        script = order.text if order.binding is Binding.ATOM else f"{{{order.text}}}"
        return Written(f"I_{script}", Binding.ATOM)

    def indicator(self, node: Printable) -> Written:
        return Written(f"[{self.mask_of(node)}]_{{{text_sizes(node.sizes)}}}", Binding.ATOM)

    def additive_mask(self, node: Printable) -> Written:
        return Written(f"M_{{{self.mask_of(node)}}}", Binding.ATOM)

    # The words of conditions.

    signs: ClassVar[Mapping[str, str]] = {
        "or": "or",
        "and": "and",
        "not": "not",
        "≤": "≤",
        "≠": "≠",
    }

    def divided(self, whole: str, part: str) -> str:
        return f"{whole}÷{part}"

    def remainder(self, whole: str, part: str) -> str:
        return f"{whole} mod {part}"

    def letter(self, name: str) -> str:
        return name if name.isdigit() else text_name(check_name(name))[0]

    def entry(self, name: str, read: Sequence[str]) -> Written:
        return Written(f"{text_name(name)[0]}[{','.join(read)}]", Binding.POWER)


class TextSizes(TextPrinter):
    """The inside of a size, where factors are told apart by a dot: ``h·d_k``."""

    def product(self, factors: Sequence[Written]) -> Written:
        held = [self.held(factor, Binding.POWER).text for factor in factors]
        return Written("·".join(held), Binding.PRODUCT)


_SIZES = TextSizes(PRESETS["freshrimp"])
"""Sizes look alike in all presets."""


def text_sizes(sizes: Sequence[Size]) -> str:
    """Return a shape, ``d_k×n``."""
    printed = (_SIZES.size(size) for size in sizes)
    return "×".join(
        size.text if size.binding > Binding.SUM else f"({size.text.replace(' ', '')})"
        for size in printed
    )


def text_additive_mask_definition(node: Printable, preset: Preset | str | None = None) -> str:
    """Return the entries of an additive mask, 0 or −∞, as text: i is the query, j is the key.

    >>> import symattn as sa
    >>> print(text_additive_mask_definition(sa.additive_mask(sa.causal(), "n", "n", axis=1)))
    M_{j ≤ i}[i,j] = 0 where j ≤ i, −∞ elsewhere
    """
    printer = TextPrinter(chosen_preset(preset, node))
    condition, query, key = printer.mask_and_letters(node)
    letters = ",".join(filter(None, (key, query) if node.axis == 0 else (query, key)))
    entry = printer.write(node).text + (f"[{letters}]" if letters else "")
    return f"{entry} = 0 where {condition}, −∞ elsewhere"


def text_space(sizes: Sequence[Size], preset: Preset) -> str:
    """Return the space of matrices of a shape.

    >>> from symattn.notation.presets import PRESETS
    >>> from symattn.tags import Size
    >>> text_space((Size.tag("d_k"), Size.tag("m")), PRESETS["freshrimp"])
    'M^{d_k×m}'
    """
    return f"{preset.text_space}^{{{text_sizes(sizes)}}}"


def text_shape(label: str, sizes: Sequence[Size], preset: Preset) -> str:
    """Return a matrix and the space that it is in, ``K ∈ M^{d_k×m}``."""
    return f"{text_name(check_name(label))[0]} ∈ {text_space(sizes, preset)}"


def text_signature(
    name: str,
    domain: Sequence[tuple[str, tuple[Size, Size]]],
    codomain: tuple[Size, Size],
    preset: Preset,
) -> str:
    """Return a function's type, ``f: M^{d_k×n} × M^{d_k×m} → M^{m×n}``."""
    spaces = " × ".join(text_space(sizes, preset) for _, sizes in domain)
    return f"{text_name(check_name(name))[0]}: {spaces} → {text_space(codomain, preset)}"
