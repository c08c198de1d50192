r"""Index forms as text and LaTeX: ``Σ_j softmax_t(Σ_c Q[c,i] K[c,t] / √d_k)[j] V[v,j]``.

Indices have an identity and no name.  A name is found for each where it is bound: its hint, or else
a letter that nothing in sight uses, neither an index around it nor a scalar, size or input.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from symattn.meaning.form import (
    Blocks,
    Entry,
    Form,
    Index,
    Maximum,
    Mul,
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

_FREE = "ijklpq"
_READ_BY_SUM = "jkl"
_ALONG = "tsuracbefghpqwxyz"
_SUMMED = "ctsuraebfghpqwxyz"
_HINT = re.compile(r"[A-Za-z][0-9]*")


def entry_text(
    form: Form,
    names: Mapping[Index, str] | None = None,
    preset: Preset | str | None = None,
) -> str:
    """Return an index form as text.

    >>> from symattn.meaning.form import Entry, Index, Mul, Sum
    >>> from symattn.tags import Size
    >>> d, n, m = Size.tag("d"), Size.tag("n"), Size.tag("m")
    >>> i, j, c = Index(n), Index(m), Index(d)
    >>> Q, K = Entry("Q", (n, d), ((i,), (c,))), Entry("K", (m, d), ((j,), (c,)))
    >>> entry_text(Sum(c, Mul((Q, K))), {i: "i", j: "j"})
    'Σ_c Q[i,c] K[j,c]'

    ``names`` names the free indices; those without a name get one.
    """
    return EntryTextPrinter(chosen_preset(preset, form)).begin(form, names or {}).text


def entry_latex(
    form: Form,
    names: Mapping[Index, str] | None = None,
    preset: Preset | str | None = None,
    *,
    dialect: str = "latex",
) -> str:
    r"""Return an index form as LaTeX, ``\sum_{c} Q_{ic} K_{jc}``.

    ``names`` names the free indices; those without a name get one.  Raises `UnknownNameError` for
    an unknown preset or dialect.
    """
    printer = EntryLatexPrinter(chosen_preset(preset, form), dialect_named(dialect))
    return printer.dialect_of(printer.begin(form, names or {}).text)


class EntryRules(ConditionRules):
    """What text and LaTeX of index forms share: the naming of indices, and one rule a form."""

    names: dict[Index, str]
    reserved: set[str]

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
        return Written(self.big("sum", letter) + " " + body.text, Binding.HADAMARD, True)

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

    def _truth(self, form: Truth) -> Written:
        return Written(f"[{self.condition(form.condition)}]", Binding.ATOM)

    SCALARS: ClassVar = {
        **ConditionRules.SCALARS,
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
