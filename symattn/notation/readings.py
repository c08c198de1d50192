r"""A formula read at an index: ``\mathbf{k}_{1}^{\mathsf{T}} \mathbf{W} \mathbf{q}_{1}``.

A column of K is the vector ``k_j``, a row of Q is ``Q_i``, as the texts write them, and the inner
product of two columns is ``k_j · q_i``.  What has no vectors in it stands as an index form.  Here
indices count from 1, sums say how far they run, and a head is told by a superscript, apart from the
positions: ``q_t^{(i)}`` is column t of the queries of head i.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from symattn.meaning.form import Entry, Form, Index
from symattn.notation.dialects import dialect_named
from symattn.notation.glyphs import latex_name, latex_script, text_name
from symattn.notation.index_forms import EntryLatexPrinter, EntryRules, EntryTextPrinter
from symattn.notation.names import parse_name
from symattn.notation.presets import Preset
from symattn.notation.printer import Written
from symattn.notation.rewritten import Reading
from symattn.notation.rows import Binding, Kind, Printable
from symattn.tags import Size


def is_capital(label: str) -> bool:
    """Tell whether a name begins with a capital, so that its columns have a name of their own.

    >>> is_capital("W^Q"), is_capital("lambda"), is_capital("h")
    (True, False, False)
    """
    base = parse_name(label).base
    return base[0] != base[0].lower()


def lowered(label: str) -> str:
    """Return the name of the columns of a matrix: x for X, w^Q for W^Q.

    >>> lowered("W^Q"), lowered("Lambda")
    ('w^Q', 'lambda')
    """
    base = parse_name(label).base
    return base.lower() + label[len(base) :]


_NAMED = (Kind.SYMBOL, Kind.MEMBER, Kind.HEAD)


class ReadingRules(EntryRules):
    """What text and LaTeX of readings share."""

    base = 1
    far: Mapping[str, Size] = MappingProxyType({})
    """Indices that are called by the size of their axis: the last of them."""

    of_heads: Mapping[Index, str] = MappingProxyType({})
    """Indices of heads, which stand above and not among the positions."""

    beside: ClassVar[str]
    """What stands between things side by side."""

    def name_indices(
        self,
        names: Mapping[Index, str],
        taken: Collection[str],
        far: Mapping[str, Size] | None = None,
        heads: Mapping[Index, str] | None = None,
    ) -> None:
        """Name the indices that are free in what is written next; others avoid those taken."""
        self.far, self.of_heads = far or {}, heads or {}
        self.names, self.reserved = {**self.of_heads, **names}, {*taken, *self.of_heads.values()}
        vars(self).pop("_done", None)  # other names, other words

    def letter(self, name: str) -> str:
        """Write an index: a letter, a number, or a size."""
        if name in self.far:
            return self.size(self.far[name]).text
        return super().letter(name)  # pyright: ignore[reportAbstractUsage]

    def _entry(self, form: Entry) -> Written:
        above = [at for at in form.places if at and all(one in self.of_heads for one in at)]
        if not above:
            return super()._entry(form)
        below = [at for at in form.places if at and at not in above]
        letters = ([self.read(at) for at in places] for places in (below, above))
        return self.entry_of_head(form.name, *letters)

    SCALARS: ClassVar = {**EntryRules.SCALARS, Entry: _entry}

    def member_at(self, node: Printable, letters: Sequence[str]) -> Written:
        """Write a member of a family; a row or a column of one has the head above."""
        if not isinstance(node, Reading):
            return super().member_at(node, letters)  # pyright: ignore[reportAttributeAccessIssue]
        return self.above(self.symbol(node), letters)

    def above(self, written: Written, letters: Sequence[str]) -> Written:
        """Write the indices of a head above what is that head's."""
        held = self.held(written, Binding.ATOM)
        return Written(held.text + f"^{{({','.join(letters)})}}", Binding.POWER, held.tall)

    def entry_of_head(self, name: str, read: Sequence[str], head: Sequence[str]) -> Written:
        """Write an entry of a matrix that each head has one of."""
        raise NotImplementedError

    def is_inner_product(self, node: Printable) -> bool:
        """Tell whether a product is that of two columns, xᵀy."""
        if len(node.parts) != 2:
            return False
        left, right = node.parts
        if isinstance(left, Form) or left.notation.kind is not Kind.TRANSPOSE:
            return False
        return _is_column(left.parts[0]) and _is_column(right)


def _is_column(part: Printable | Form) -> bool:
    if isinstance(part, Form) or part.notation.kind not in _NAMED:
        return False
    rows, columns = part.sizes
    return columns.is_one and not rows.is_one


class ReadingTextPrinter(ReadingRules, EntryTextPrinter):
    """Readings as text."""

    beside = "  "

    def symbol(self, node: Printable) -> Written:
        at = node.at if isinstance(node, Reading) else ()
        return Written(*text_name(node.label, self.read(at)))

    def entry_of_head(self, name: str, read: Sequence[str], head: Sequence[str]) -> Written:
        base = self.above(self.name(name), head)
        return Written(f"{base.text}[{','.join(read)}]" if read else base.text, Binding.POWER)

    def factors(self, node: Printable) -> Written:
        if not self.is_inner_product(node):
            return super().factors(node)
        left, right = node.parts
        assert not isinstance(left, Form)
        pair = (self.write(part).text for part in (left.parts[0], right))
        return Written("·".join(pair), Binding.PRODUCT)

    def sigma(self, letter: str, size: Size) -> str:
        last = self.size(size).text
        return f"Σ_{{{letter}=1}}^{last if last.isalnum() else '{' + last + '}'}"


class ReadingLatexPrinter(ReadingRules, EntryLatexPrinter):
    """Readings as LaTeX."""

    beside = " & "

    def symbol(self, node: Printable) -> Written:
        at = self.read(node.at) if isinstance(node, Reading) else ""
        return Written(*latex_name(node.label, self.preset, bold=self.preset.bold, at=at))

    def entry_of_head(self, name: str, read: Sequence[str], head: Sequence[str]) -> Written:
        base = self.entry(name, read) if read else self.name(name)
        # Another superscript would need parentheses, a subscript stands beside this one.
        is_free = not parse_name(name).superscript and not parse_name(name).primes
        return self.above(Written(base.text, Binding.ATOM) if is_free else base, head)

    def factors(self, node: Printable) -> Written:
        if not self.is_inner_product(node):
            return super().factors(node)
        left, right = node.parts
        assert not isinstance(left, Form)
        pair = (self.write(part).text for part in (left.parts[0], right))
        return Written(r" \cdot ".join(pair), Binding.PRODUCT)

    def sigma(self, letter: str, size: Size) -> str:
        last = latex_script("^", self.size(size).text, self.preset)
        return rf"\sum_{{{letter}=1}}{last}"


def text_printer(preset: Preset) -> ReadingTextPrinter:
    """Return a printer of readings as text."""
    return ReadingTextPrinter(preset)


def latex_printer(preset: Preset, dialect: str) -> ReadingLatexPrinter:
    """Return a printer of readings as LaTeX."""
    return ReadingLatexPrinter(preset, dialect_named(dialect))
