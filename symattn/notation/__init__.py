"""How formulas are written: notation rows, presets, and the printers that walk them.

* `rows`: what kind of writing an operation has, and how tightly it binds;
* `names`, `glyphs`: the grammar of names, and names and sizes as LaTeX and text;
* `presets`, `dialects`: the glyphs of a source, and what a renderer of LaTeX takes;
* `printer`: the walk; `latex`, `text`, `code` are its three languages;
* `displays`: signatures, definitions and aligned derivations in LaTeX;
* `entries`: index forms, entry by entry.
"""

from symattn.notation.code import brief, python
from symattn.notation.dialects import DIALECTS, Dialect
from symattn.notation.displays import (
    latex_aligned,
    latex_operator,
    latex_signature,
    latex_softmax_definition,
)
from symattn.notation.entries import entry_latex, entry_text
from symattn.notation.latex import latex, latex_shape, latex_space
from symattn.notation.presets import PRESETS, Preset, default_preset, preset_named
from symattn.notation.text import text, text_shape, text_signature, text_space

__all__ = [
    "DIALECTS",
    "PRESETS",
    "Dialect",
    "Preset",
    "brief",
    "default_preset",
    "entry_latex",
    "entry_text",
    "latex",
    "latex_aligned",
    "latex_operator",
    "latex_shape",
    "latex_signature",
    "latex_softmax_definition",
    "latex_space",
    "preset_named",
    "python",
    "text",
    "text_shape",
    "text_signature",
    "text_space",
]
