"""How answers look: sections of text on a terminal, displays of LaTeX, JSON for programs."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Sequence

import click

WIDTH = 100


def print_json(data: object) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(data, ensure_ascii=False, indent=2))


def section(title: str, lines: Iterable[str]) -> str:
    """Return a heading with indented lines under it."""
    return "\n".join([title, *(f"  {line}" for line in lines)])


def paragraph(text: str) -> str:
    """Return text broken into indented lines."""
    return textwrap.fill(
        text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
    )


def columns(rows: Sequence[Sequence[str]], gap: str = "  ") -> list[str]:
    """Return rows of cells as lines, aligned on the left.

    >>> columns([("n", "= 5"), ("d_k", "= 4")])
    ['n    = 5', 'd_k  = 4']
    """
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))] if rows else []
    return [
        gap.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def display(latex: str, comment: str = "") -> str:
    r"""Return LaTeX as a display, under a comment.

    >>> print(display("x", "a letter"))
    % a letter
    \[ x \]
    """
    body = f"\\[\n{latex}\n\\]" if "\n" in latex else rf"\[ {latex} \]"
    return f"% {comment}\n{body}" if comment else body


def printable(text: str) -> str:
    """Return text without what would move the cursor or change a terminal's colours."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)
