r"""Presets: the glyphs of a source, one table row each.

A preset says how things look (bold or italic, ``^{\mathsf{T}}`` or ``^T``, ``M`` or ``ℝ``), never
what they mean: the layout is the expression's own.  Where a softmax runs along the axis that a
preset's source does not mean by "softmax", the printers say so with a subscript.
"""

from __future__ import annotations

from dataclasses import dataclass

from symattn.errors import UnknownNameError
from symattn.meaning.form import Form
from symattn.notation.rows import Kind, Printable
from symattn.tags import nearest


@dataclass(frozen=True, slots=True)
class Preset:
    """How one source writes attention.

    ``axis`` is the axis along which its softmax runs (0 down each column, 1 along each row);
    ``gap`` stands between factors; ``braces`` tells whether one-letter scripts are braced too.
    """

    name: str
    axis: int
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


_ROWS = (
    Preset(
        name="freshrimp",
        axis=0,
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
        axis=1,
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

_DEFAULTS = {0: PRESETS["freshrimp"], 1: PRESETS["vaswani"]}


def preset_named(name: str) -> Preset:
    """Return the preset of that name.

    >>> preset_named("vaswani").transpose
    'T'

    Raises `UnknownNameError`, which suggests the nearest names.
    """
    preset = PRESETS.get(name) if isinstance(name, str) else None
    if preset is None:
        raise UnknownNameError("preset", str(name), nearest(str(name), PRESETS))
    return preset


def default_preset(expr: Printable | Form) -> Preset:
    """Return the preset whose softmax runs as the first softmax of an expression does.

    Without a softmax it is ``freshrimp``, the default of the column layout.
    """
    pending: list[Printable | Form] = [expr]
    seen: set[int] = set()
    while pending:
        part = pending.pop()
        # An index form stands for a scalar and has no matrix inside.
        if id(part) in seen or isinstance(part, Form):
            continue
        seen.add(id(part))
        if part.notation.kind is Kind.SOFTMAX and part.axis is not None:
            return _DEFAULTS[part.axis]
        pending.extend(reversed(part.parts))
    return PRESETS["freshrimp"]


def chosen_preset(preset: Preset | str | None, expr: Printable | Form) -> Preset:
    """Return the preset that a call asked for, or the expression's default."""
    if preset is None:
        return default_preset(expr)
    return preset if isinstance(preset, Preset) else preset_named(preset)
