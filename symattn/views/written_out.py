r"""A matrix written out, with ``\cdots`` and ``\vdots`` where it goes on.

The entries are those that a text writes: ``k_1 · q_1`` for ``KᵀQ``, ``k_1ᵀ W q_1`` for ``KᵀWQ``,
``Q_1 K_1ᵀ`` for ``QKᵀ``; where no rows and columns of the matrices say it, the entry as sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from symattn.meaning.form import Index, place
from symattn.nodes import Node, Program
from symattn.nodes.depth import shallow_enough
from symattn.notation.conditions import names_in
from symattn.notation.presets import Preset, chosen_preset
from symattn.notation.readings import ReadingRules, latex_printer, text_printer
from symattn.tags import Size
from symattn.views.operands import as_expression, heads_in
from symattn.views.vectors import Vectors
from symattn.views.view import View

_WHOLE = 4
"""Up to so many rows or columns are written in full."""

_DOTS = None
_TEXT_DOTS = {(True, True): "⋱", (True, False): "⋮", (False, True): "⋯"}
_LATEX_DOTS = {(True, True): r"\ddots", (True, False): r"\vdots", (False, True): r"\cdots"}


class WrittenOut(View):
    """A matrix with its entries; `entries` returns it."""

    def __init__(self, node: Node) -> None:
        self.expr = node
        self._places = place(node.sizes[0]), place(node.sizes[1])
        self._entry = Vectors(node).entry(node, *self._places)
        self._taken = {*names_in(node.meaning(*self._places)), *node.tags}
        self._heads = heads_in(Program(S=node))

    def text(self, preset: Preset | str | None = None) -> str:
        """Return the matrix as lines of text."""
        printer = text_printer(chosen_preset(preset, self.expr))
        cells = self._cells(printer, _TEXT_DOTS)
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        rows = (
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            for row in cells
        )
        return "\n".join(f"[ {row} ]" for row in rows)

    def latex(self, preset: Preset | str | None = None, *, dialect: str = "latex") -> str:
        """Return the matrix as LaTeX."""
        printer = latex_printer(chosen_preset(preset, self.expr), dialect)
        rows = r" \\ ".join(" & ".join(row) for row in self._cells(printer, _LATEX_DOTS))
        return printer.dialect_of(rf"\begin{{bmatrix}} {rows} \end{{bmatrix}}")

    @shallow_enough("writing a matrix out")
    def _cells(self, printer: ReadingRules, dots: dict[tuple[bool, bool], str]) -> list[list[str]]:
        rows, columns = (list(indices_shown(size)) for size in self.expr.sizes)
        return [
            [
                dots[row is _DOTS, column is _DOTS]
                if _DOTS in (row, column)
                else self._cell(printer, (row, column))
                for column in columns
            ]
            for row in rows
        ]

    def _cell(self, printer: ReadingRules, at: Sequence[Size | None]) -> str:
        names: dict[Index, str] = {}
        far: dict[str, Size] = {}
        for index_of_axis, size in zip(self._places, at, strict=True):
            assert size is not None
            names.update((index, str(size)) for index in index_of_axis)
            far |= far_of(size)
        printer.name_indices(names, self._taken, far, self._heads)
        return printer.write(self._entry).text


def far_of(size: Size) -> dict[str, Size]:
    """Return the index that is called by a size, if the size is no number."""
    return {} if size.constant is not None else {str(size): size}


def indices_shown(size: Size) -> Iterator[Size | None]:
    """Yield the rows or columns that are written, counted from 1; None where it goes on.

    >>> [str(at) for at in indices_shown(Size.of(3))], [str(at) for at in indices_shown(Size.of(9))]
    (['1', '2', '3'], ['1', '2', 'None', '9'])
    """
    count = size.constant
    if count is not None and count <= _WHOLE:
        yield from map(Size.of, range(1, count + 1))
        return
    yield from (Size.of(1), Size.of(2), _DOTS, size)


@shallow_enough("writing a matrix out")
def entries(A: Any) -> WrittenOut:
    r"""Return a formula as a matrix with its entries written out.

    >>> import symattn as sa
    >>> sa.entries(sa.formula("luong_general").scores)
    [ k_1ᵀ W q_1  k_1ᵀ W q_2  ⋯  k_1ᵀ W q_n ]
    [ k_2ᵀ W q_1  k_2ᵀ W q_2  ⋯  k_2ᵀ W q_n ]
    [ ⋮           ⋮           ⋱  ⋮          ]
    [ k_mᵀ W q_1  k_mᵀ W q_2  ⋯  k_mᵀ W q_n ]

    It prints as text and as LaTeX, by preset and dialect: ``entries(S).latex("vaswani")``.
    Lower-case vectors are the columns of a matrix, capitals its rows; indices count from 1, and a
    size that is a number of at most 4 is written in full.  Entries that no rows and columns of the
    matrices say, those of a softmax of rows and columns, are written as sums.  What belongs to a
    head has its index above, ``k_1^{(i)}·q_1^{(i)}``.

    Raises `NotAnOperandError` and `TextRefusedError` for what is no formula.
    """
    return WrittenOut(as_expression(A, "entries"))
