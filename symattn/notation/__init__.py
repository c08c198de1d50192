"""How formulas are written: notation rows, presets, and the printers that walk them.

* `rows`: what kind of writing an operation has, and how tightly it binds;
* `layouts`: tokens as columns or as rows, and which of them an expression is in;
* `names`, `glyphs`: the grammar of names, and names as LaTeX and text;
* `extents`: sizes as the index forms that they are;
* `presets`, `dialects`: the glyphs of a source, and what a renderer of LaTeX takes;
* `printer`: the walk; `tex`, `terminal`, `code` are its three languages;
* `displays`: signatures, definitions and aligned derivations in LaTeX;
* `index_forms`: index forms, entry by entry.
"""

from symattn.notation.code import brief
from symattn.notation.terminal import text
from symattn.notation.tex import latex

__all__ = ["brief", "latex", "text"]
