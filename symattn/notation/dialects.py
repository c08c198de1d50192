r"""Dialects of LaTeX: what each renderer takes, one table row each.

Everything that the printers emit is taken by all of them, except what stands in these rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from symattn.errors import UnknownNameError
from symattn.tags import nearest


@dataclass(frozen=True, slots=True)
class Dialect:
    r"""How one renderer differs: its word for ``\operatorname``, and how a part is coloured.

    ``red`` has ``{x}`` where the coloured part stands.
    """

    name: str
    operator: str
    red: str


# MathJax's own \color takes the coloured part as an argument, LaTeX's is a switch: with a braced
# part inside a group both readings colour the same.
_EITHER = r"{\color{red}{{x}}}"

_ROWS = (
    Dialect("latex", r"\operatorname", r"{\color{red} {x}}"),
    Dialect("katex", r"\operatorname", r"{\color{red} {x}}"),
    Dialect("mathjax", r"\operatorname", _EITHER),
    Dialect("jupyter", r"\operatorname", _EITHER),
    # GitHub's Markdown refuses \operatorname.
    Dialect("github", r"\mathrm", _EITHER),
)

DIALECTS: dict[str, Dialect] = {row.name: row for row in _ROWS}


def dialect_named(name: str) -> Dialect:
    r"""Return the dialect of that name.

    >>> dialect_named("github").operator
    '\\mathrm'

    Raises `UnknownNameError`, which suggests the nearest names.
    """
    dialect = DIALECTS.get(name) if isinstance(name, str) else None
    if dialect is None:
        raise UnknownNameError("dialect", str(name), nearest(str(name), DIALECTS))
    return dialect
