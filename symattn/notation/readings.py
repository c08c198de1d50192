r"""A formula read at an index: ``\mathbf{k}_{1}^{\mathsf{T}} \mathbf{W} \mathbf{q}_{1}``.

A column of K is the vector ``k_j``, a row of Q is ``Q_i``, as the texts write them, and the inner
product of two columns is ``k_j · q_i``.  What has no vectors in it stands as an index form.  Here
indices count from 1, and sums say how far they run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from symattn.meaning.form import Form, Index, Place
from symattn.notation.dialects import dialect_named
from symattn.notation.glyphs import latex_name, latex_script, text_name
from symattn.notation.index_forms import EntryLatexPrinter, EntryRules, EntryTextPrinter
from symattn.notation.names import parse_name
from symattn.notation.presets import Preset
from symattn.notation.printer import Written
from symattn.notation.rows import Binding, Kind, Notation, Printable, PrintableMask
from symattn.tags import Size


@dataclass(frozen=True, eq=False)
class Reading:
    """A part of a formula that is read at an index, for printers.

    ``at`` is where a named matrix is read, if this is a row or a column of one.
    """

    notation: Notation
    sizes: tuple[Size, Size]
    parts: tuple[Printable | Form, ...] = ()
    label: str = ""
    axis: int | None = None
    mask: PrintableMask | None = None
    at: Place = ()
    running: tuple[tuple[str, Size], ...] = ()


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


class ReadingRules(EntryRules):
    """What text and LaTeX of readings share."""

    base = 1
    far: Mapping[str, Size] = MappingProxyType({})
    """Indices that are called by the size of their axis: the last of them."""

    beside: ClassVar[str]
    """What stands between things side by side."""

    def name_indices(
        self,
        names: Mapping[Index, str],
        taken: Collection[str],
        far: Mapping[str, Size] | None = None,
    ) -> None:
        """Name the indices that are free in what is written next; others avoid those taken."""
        self.names, self.reserved, self.far = dict(names), set(taken), far or {}
        vars(self).pop("_done", None)  # other names, other words

    def letter(self, name: str) -> str:
        """Write an index: a letter, a number, or a size."""
        if name in self.far:
            return self.size(self.far[name]).text
        return super().letter(name)  # pyright: ignore[reportAbstractUsage]

    def is_inner_product(self, node: Printable) -> bool:
        """Tell whether a product is that of two columns, xᵀy."""
        if len(node.parts) != 2:
            return False
        left, right = node.parts
        if isinstance(left, Form) or left.notation.kind is not Kind.TRANSPOSE:
            return False
        return _is_column(left.parts[0]) and _is_column(right)


def _is_column(part: Printable | Form) -> bool:
    if isinstance(part, Form) or part.notation.kind is not Kind.SYMBOL:
        return False
    rows, columns = part.sizes
    return columns.is_one and not rows.is_one


class ReadingTextPrinter(ReadingRules, EntryTextPrinter):
    """Readings as text."""

    beside = "  "

    def symbol(self, node: Printable) -> Written:
        at = node.at if isinstance(node, Reading) else ()
        return Written(*text_name(node.label, self.read(at)))

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
