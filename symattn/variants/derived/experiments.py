"""What an experiment found: a table, and whether it is what the derivation says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symattn.errors import InputError


@dataclass(frozen=True, slots=True)
class Experiment:
    """Rows of measurements; true as a condition if every row is as derived.

    >>> found = Experiment("halves", ("x", "x / 2"), ((1.0, 0.5), (4.0, 2.0)), (True, True))
    >>> print(found.text())
    halves
      x  x / 2
      1  0.5    as derived
      4  2      as derived
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[float | int | str, ...], ...]
    as_derived: tuple[bool, ...]

    def __bool__(self) -> bool:
        return all(self.as_derived)

    def text(self) -> str:
        """Return the table as text, numbers with four significant digits."""
        cells = [[*self.columns, ""]] + [
            [*map(_cell, row), "as derived" if holds else "DIFFERS"]
            for row, holds in zip(self.rows, self.as_derived, strict=True)
        ]
        return "\n".join([self.title, *(f"  {line}" for line in _aligned(cells))])

    def __repr__(self) -> str:
        return self.text()


def _cell(value: float | int | str) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def finite(name: str, numbers: Any) -> np.ndarray:
    """Return a list of finite numbers as a float64 vector.

    >>> finite("scores", [2, 1, 0.5])
    array([2. , 1. , 0.5])

    Raises `InputError`, which says what was given instead.
    """
    wanted = "a list of at least one finite real number"
    try:
        vector = np.asarray(numbers, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(name, f"a {type(numbers).__name__}", "", wanted) from None
    if isinstance(numbers, str) or vector.ndim != 1 or not vector.size:
        raise InputError(name, f"of shape {vector.shape}", "", wanted)
    if not np.isfinite(vector).all():
        raise InputError(name, "not finite", "", wanted)
    return vector
