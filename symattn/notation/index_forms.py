r"""Index forms as text and LaTeX: ``Σ_j softmax_t(Σ_c Q[c,i] K[c,t] / √d_k)[j] V[v,j]``.

Indices have an identity and no name.  A name is found for each where it is bound: its hint, or else
a letter that nothing in sight uses, neither an index around it nor a scalar, size or input.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

from symattn.meaning.form import (
    Add,
    Blocks,
    Entry,
    Extent,
    Form,
    Index,
    Maximum,
    Mul,
    Number,
    Position,
    Softmax,
    Sum,
    Truth,
    indices_of,
    places,
)
from symattn.notation.conditions import ConditionRules, names_in, parts_of
from symattn.notation.dialects import dialect_named
from symattn.notation.glyphs import latex_script
from symattn.notation.presets import Preset, chosen_preset
from symattn.notation.printer import Written
from symattn.notation.rows import Binding
from symattn.notation.terminal import TextPrinter
from symattn.notation.tex import LatexPrinter
from symattn.tags import Size

_FREE = "ijklpq"
_READ_BY_SUM = "jkl"
_ALONG = "tsuracbefghpqwxyz"
_SUMMED = "ctsuraebfghpqwxyz"
_HINT = re.compile(r"[A-Za-z][0-9]*")


def entry_text(
    form: Form,
    names: Mapping[Index, str] | None = None,
    preset: Preset | str | None = None,
    *,
    base: int = 0,
) -> str:
    """Return an index form as text.

    >>> from symattn.meaning.form import Entry, Index, Mul, Sum
    >>> from symattn.tags import Size
    >>> d, n, m = Size.tag("d"), Size.tag("n"), Size.tag("m")
    >>> i, j, c = Index(n), Index(m), Index(d)
    >>> Q, K = Entry("Q", (n, d), ((i,), (c,))), Entry("K", (m, d), ((j,), (c,)))
    >>> entry_text(Sum(c, Mul((Q, K))), {i: "i", j: "j"})
    'Σ_c Q[i,c] K[j,c]'

    ``names`` names the free indices; those without a name get one.  Indices count from ``base``:
    with 1, a position that is used as a number is one less than its index.
    """
    printer = EntryTextPrinter(chosen_preset(preset, form))
    printer.base = base
    return printer.begin(form, names or {}).text


def entry_latex(
    form: Form,
    names: Mapping[Index, str] | None = None,
    preset: Preset | str | None = None,
    *,
    dialect: str = "latex",
    base: int = 0,
) -> str:
    r"""Return an index form as LaTeX, ``\sum_{c} Q_{ic} K_{jc}``.

    ``names`` names the free indices, those without a name get one; they count from ``base``.
    Raises `UnknownNameError` for an unknown preset or dialect.
    """
    printer = EntryLatexPrinter(chosen_preset(preset, form), dialect_named(dialect))
    printer.base = base
    return printer.dialect_of(printer.begin(form, names or {}).text)


class EntryRules(ConditionRules):
    """What text and LaTeX of index forms share: the naming of indices, and one rule a form."""

    names: dict[Index, str]
    reserved: set[str]
    base: int = 0
    """What indices count from."""

    def begin(self, form: Form, names: Mapping[Index, str]) -> Written:
        """Write a form whose free indices have these names."""
        self.names = dict(names)
        self.reserved = set(names_in(form))
        bound = set(_indices_bound_in(form))
        for _, at in places(form):
            for index in indices_of(at):
                if index not in bound and index not in self.names:
                    self.names[index] = self._fresh(index.hint, _FREE)
        return self.scalar(form)

    # Indices.

    def _fresh(self, hint: str, letters: str) -> str:
        used = self.reserved | set(self.names.values())
        if _HINT.fullmatch(hint) and hint not in used:
            return hint
        for letter in letters:
            if letter not in used:
                return letter
        number = 1
        while f"{letters[0]}{number}" in used:
            number += 1
        return f"{letters[0]}{number}"

    def _bound(self, index: Index, letters: str, write: Callable[[], Any]) -> tuple[str, Any]:
        """Name an index while what it is bound in is written."""
        name = self.names[index] = self._fresh(index.hint, letters)
        inside = write()
        del self.names[index]
        return self.letter(name), inside

    # Rules.

    def _entry(self, form: Entry) -> Written:
        read = [letters for at in form.places if (letters := self.read(at))]
        return self.entry(form.name, read) if read else self.name(form.name)

    def _sum_over(self, form: Sum) -> Written:
        factors = form.body.factors if isinstance(form.body, Mul) else (form.body,)
        weighted = any(isinstance(factor, Softmax) for factor in factors)
        letters = (_READ_BY_SUM if weighted else "") + _SUMMED
        letter, body = self._bound(form.index, letters, lambda: self.scalar(form.body))
        body = self.held(body, Binding.HADAMARD)
        sign = self.sigma(letter, form.index.size)
        return Written(sign + " " + body.text, Binding.HADAMARD, True)

    def sigma(self, letter: str, size: Size) -> str:
        """Write the sign of a sum over an index of that size."""
        return self.big("sum", letter)

    def _max_over(self, form: Maximum) -> Written:
        letter, body = self._bound(form.index, _ALONG, lambda: self.scalar(form.body))
        return self.applied(self.big("max", letter), body, "")

    def _softmax_at(self, form: Softmax) -> Written:
        at = self.read(form.at)

        def write() -> tuple[Written, str]:
            where = "" if form.allowed is None else self.condition(form.allowed)
            return self.scalar(form.body), where

        letter, (body, where) = self._bound(form.index, _ALONG, write)
        return self.applied(self.big("softmax", letter, where), body, at)

    def _blocks(self, form: Blocks) -> Written:
        at = self.read(form.at)
        written: list[Written] = []
        for part in form.parts:
            within = tuple(indices_of(part.place))
            letters = [self._fresh(index.hint, _ALONG) for index in within]
            self.names.update(zip(within, letters, strict=True))
            inside = self.scalar(part.form)
            for index in within:
                del self.names[index]
            written.append(self.block([self.letter(name) for name in letters], inside))
        return self.stacked(written, at)

    # Positions as numbers: counted from 1, each is one less than its index.

    def _position(self, form: Position) -> Written:
        return self._counted([(False, form)], Fraction(0))

    def _add(self, form: Add) -> Written:
        if not self.base:
            return super()._add(form)
        return self._counted(*_apart(form))

    def _counted(self, terms: Sequence[tuple[bool, Form]], constant: Fraction) -> Written:
        """Write a sum of positions, other terms and a number."""
        written: list[tuple[bool, Written]] = []
        for subtracted, term in terms:
            if not isinstance(term, Position):
                written.append((subtracted, self.held(self.scalar(term), Binding.HADAMARD)))
                continue
            at = super()._position(term)
            if _is_read(term):
                constant += self.base if subtracted else -self.base
            if len(terms) == 1 and at.text.isdigit() and not subtracted:
                constant += int(at.text)
            else:
                written.append((subtracted, at))
        if constant or not written:
            written.append((constant < 0, self._number(Number(abs(constant)))))
        return self.plus(written) if len(written) > 1 or written[0][0] else written[0][1]

    def _compared(self, left: Form, sign: str, right: Form) -> str:
        if not self.base:
            return super()._compared(left, sign, right)
        # What is added to both sides is said on neither.
        moved = self._moved(left)
        return f"{self._shifted(left, moved)} {sign} {self._shifted(right, moved)}"

    def _chained(self, least: Form, middle: Form, most: Form) -> str:
        moved = self._moved(middle)
        return " < ".join(self._shifted(form, moved) for form in (least, middle, most))

    def _moved(self, form: Form) -> Fraction:
        """Return what to add so that a form has no number beside its indices."""
        terms, constant = _apart(form)
        return -self._offset(terms) - constant

    def _shifted(self, form: Form, by: Fraction) -> str:
        terms, constant = _apart(form)
        return self._counted(terms, constant + by).text

    def _offset(self, terms: Sequence[tuple[bool, Form]]) -> Fraction:
        """Return what the positions among some terms add to their indices."""
        positions = (subtracted for subtracted, term in terms if _is_read(term))
        return Fraction(sum(self.base if subtracted else -self.base for subtracted in positions))

    def _truth(self, form: Truth) -> Written:
        return Written(f"[{self.condition(form.condition)}]", Binding.ATOM)

    SCALARS: ClassVar = {
        **ConditionRules.SCALARS,
        Position: _position,
        Add: _add,
        Entry: _entry,
        Sum: _sum_over,
        Maximum: _max_over,
        Softmax: _softmax_at,
        Blocks: _blocks,
        Truth: _truth,
    }

    def _factors(self, forms: Sequence[Form]) -> Written:
        if not forms or not isinstance(forms[-1], Sum):
            return super()._factors(forms)
        # A sum reaches to the end of its factors, so the last one needs no parentheses.
        *written, last = (self.scalar(form) for form in forms)
        last = Written(last.text, Binding.PRODUCT, last.tall)
        return self.product([*written, last]) if written else last

    # Words.

    @abstractmethod
    def big(self, operation: str, letter: str, where: str = "") -> str: ...
    @abstractmethod
    def applied(self, label: str, body: Written, at: str) -> Written: ...
    @abstractmethod
    def block(self, letters: Sequence[str], inside: Written) -> Written: ...
    @abstractmethod
    def stacked(self, blocks: Sequence[Written], at: str) -> Written: ...


class EntryTextPrinter(EntryRules, TextPrinter):
    """Index forms as text."""

    def big(self, operation: str, letter: str, where: str = "") -> str:
        sign = {"sum": "Σ", "max": "max", "softmax": self.preset.text_softmax_vector}[operation]
        return f"{sign}_{{{letter}: {where}}}" if where else f"{sign}_{letter}"

    def applied(self, label: str, body: Written, at: str) -> Written:
        read = f"[{at}]" if at else ""
        return Written(f"{label}({body.text}){read}", Binding.APPLICATION)

    def block(self, letters: Sequence[str], inside: Written) -> Written:
        held = self.held(inside, Binding.HADAMARD).text
        return Written(f"({held})_{','.join(letters)}" if letters else held, Binding.ATOM)

    def stacked(self, blocks: Sequence[Written], at: str) -> Written:
        return Written(f"[{'; '.join(block.text for block in blocks)}][{at}]", Binding.POWER)


class EntryLatexPrinter(EntryRules, LatexPrinter):
    """Index forms as LaTeX."""

    def big(self, operation: str, letter: str, where: str = "") -> str:
        sign = {"sum": r"\sum", "max": r"\max", "softmax": self.preset.softmax_vector}[operation]
        under = rf"{letter} \,:\, {where}" if where else letter
        return sign + latex_script("_", under, self.preset)

    def applied(self, label: str, body: Written, at: str) -> Written:
        called = self.called(label, body, "")
        read = latex_script("_", at, self.preset) if at else ""
        return Written(called.text + read, Binding.APPLICATION, called.tall)

    def block(self, letters: Sequence[str], inside: Written) -> Written:
        if not letters:
            return inside
        script = latex_script("_", ",".join(letters), self.preset)
        return Written(self.parentheses(inside) + script, Binding.ATOM, inside.tall)

    def stacked(self, blocks: Sequence[Written], at: str) -> Written:
        rows = r" \\ ".join(block.text for block in blocks)
        script = latex_script("_", at, self.preset)
        return Written(
            rf"\begin{{bmatrix}} {rows} \end{{bmatrix}}" + script, Binding.ATOM, tall=True
        )


def _indices_bound_in(form: Form) -> Iterator[Index]:
    """Yield every index that is bound somewhere in a form."""
    for part in parts_of(form):
        if isinstance(part, (Sum, Maximum, Softmax)):
            yield part.index
        elif isinstance(part, Blocks):
            yield from (index for block in part.parts for index in indices_of(block.place))


def _is_read(term: Form) -> bool:
    return isinstance(term, Position) and bool(term.at)


def _apart(form: Form) -> tuple[list[tuple[bool, Form]], Fraction]:
    """Take a sum apart: its terms, each with whether it is subtracted, and its number."""
    match form:
        case Number(value):
            return [], value
        case Extent(size) if size.constant is not None:
            return [], Fraction(size.constant)
        case Add(parts):
            terms, constant = list[tuple[bool, Form]](), Fraction(0)
            for part in parts:
                inner, number = _apart(part)
                terms += inner
                constant += number
            return terms, constant
        case Mul((Number(value), rest)) if value == -1:
            inner, number = _apart(rest)
            return [(not subtracted, term) for subtracted, term in inner], -number
        case _:
            return [(False, form)], Fraction(0)
