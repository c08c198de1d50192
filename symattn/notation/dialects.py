r"""Dialects of LaTeX: what each renderer takes, one table row each.

Everything that the printers emit is taken by all of them, except what stands in these rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from symattn.tags import named


@dataclass(frozen=True, slots=True)
class Dialect:
    r"""How one renderer differs: its writing of ``\operatorname{x}``, and how a part is coloured.

    Each has ``{x}`` where the name or the coloured part stands.
    """

    name: str
    operator: str
    red: str

    def adapted(self, text: str) -> str:
        r"""Return LaTeX with this renderer's writing of ``\operatorname``.

        >>> DIALECTS["github"].adapted(r"\operatorname{ReLU}(A)")
        '\\mathop{\\mathrm{ReLU}}\\nolimits(A)'
        """
        return _OPERATOR.sub(lambda found: self.operator.replace("{x}", found[1]), text)


_OPERATOR = re.compile(r"\\operatorname(\{[^{}]*\})")

# MathJax's own \color takes the coloured part as an argument, LaTeX's is a switch: with a braced
# part inside a group both readings colour the same.
_EITHER = r"{\color{red}{{x}}}"

_ROWS = (
    Dialect("latex", r"\operatorname{x}", r"{\color{red} {x}}"),
    Dialect("katex", r"\operatorname{x}", r"{\color{red} {x}}"),
    Dialect("mathjax", r"\operatorname{x}", _EITHER),
    Dialect("jupyter", r"\operatorname{x}", _EITHER),
    # GitHub's Markdown refuses \operatorname; this has its spacing, which \mathrm alone has not.
    Dialect("github", r"\mathop{\mathrm{x}}\nolimits", _EITHER),
)

DIALECTS: dict[str, Dialect] = {row.name: row for row in _ROWS}


def dialect_named(name: str) -> Dialect:
    r"""Return the dialect of that name.

    >>> dialect_named("github").operator
    '\\mathop{\\mathrm{x}}\\nolimits'

    Raises `UnknownNameError`, which suggests the nearest names.
    """
    return named("dialect", name, DIALECTS)
