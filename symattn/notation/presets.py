r"""Presets: the glyphs of a source, one table row each.

A preset says how things look (bold or italic, ``^{\mathsf{T}}`` or ``^T``, ``M`` or ``ℝ``), never
what they mean: the layout is the expression's own.  Where a softmax runs along the axis that a
preset's source does not mean by "softmax", the printers say so with a subscript.
"""

from __future__ import annotations

from dataclasses import dataclass

from symattn.meaning.form import Form
from symattn.notation.layouts import LAYOUTS, layout_of
from symattn.notation.rows import Printable, Titled
from symattn.tags import named


@dataclass(frozen=True, slots=True)
class Preset:
    """How one source writes attention.

    ``layout`` is the one that it writes in, and so the axis along which its softmax runs;
    ``gap`` stands between factors; ``braces`` tells whether one-letter scripts are braced too.
    """

    name: str
    layout: str
    bold: bool
    braces: bool
    gap: str
    transpose: str
    softmax_matrix: str
    softmax_vector: str
    space: str
    text_softmax_matrix: str
    text_softmax_vector: str
    text_space: str
    source: str

    @property
    def axis(self) -> int:
        """The axis along which its softmax runs: 0 down each column, 1 along each row."""
        return LAYOUTS[self.layout]


_ROWS = (
    Preset(
        name="freshrimp",
        layout="column",
        bold=True,
        braces=True,
        gap=" ",
        transpose=r"\mathsf{T}",
        softmax_matrix=r"\operatorname{Softmax}",
        softmax_vector=r"\operatorname{softmax}",
        space="M",
        text_softmax_matrix="Softmax",
        text_softmax_vector="softmax",
        text_space="M",
        source="column-major texts of freshrimp.com on attention functions",
    ),
    Preset(
        name="vaswani",
        layout="row",
        bold=False,
        braces=False,
        gap="",
        transpose="T",
        softmax_matrix=r"\mathrm{softmax}",
        softmax_vector=r"\mathrm{softmax}",
        space=r"\mathbb{R}",
        text_softmax_matrix="softmax",
        text_softmax_vector="softmax",
        text_space="ℝ",
        source="Vaswani et al. 2017, Attention Is All You Need, arXiv 1706.03762",
    ),
)

PRESETS: dict[str, Preset] = {row.name: row for row in _ROWS}

_DEFAULTS = {row.layout: row for row in _ROWS}


def preset_named(name: str) -> Preset:
    """Return the preset of that name.

    >>> preset_named("vaswani").transpose
    'T'

    Raises `UnknownNameError`, which suggests the nearest names.
    """
    return named("preset", name, PRESETS)


def default_preset(expr: Printable | Form | Titled) -> Preset:
    """Return the preset of the layout that an expression is in; the column one if none tells."""
    return _DEFAULTS[layout_of(expr) or "column"]


def preset_of(layout: str) -> Preset:
    """Return the preset in which formulas of a layout are printed.

    >>> preset_of("row").name
    'vaswani'
    """
    return _DEFAULTS[layout]


def chosen_preset(preset: Preset | str | None, expr: Printable | Form | Titled) -> Preset:
    """Return the preset that a call asked for, or the expression's default."""
    if preset is None:
        return default_preset(expr)
    return preset if isinstance(preset, Preset) else preset_named(preset)
