"""What was measured, as rows of a table: in a terminal, in JSON, in Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.benchmarks.on_the_cpu.attentions import Attention
from tests.benchmarks.on_the_cpu.rounds import BUSY, Rounds

COLUMNS = ", columns"  # what is added to the name of a candidate in column layout


@dataclass(frozen=True)
class Row:
    """One number: a ratio of times, or mebibytes; with its bar, if there is one."""

    case: str
    size: str
    ours: str
    over: str
    value: float
    bar: float | None = None
    at_least: bool = False  # the value should not be under its bar; else not over it
    unit: str = "×"
    ours_ms: float | None = None
    rounds: int | None = None
    others_cores: float | None = None

    @property
    def missed(self) -> bool:
        """Whether the bar, if there is one, is not kept."""
        if self.bar is None:
            return False
        return self.value < self.bar if self.at_least else self.value > self.bar

    @property
    def is_busy(self) -> bool:
        """Whether other processes were at work meanwhile."""
        return (self.others_cores or 0) > BUSY

    @property
    def shown(self) -> str:
        """The number as a table shows it."""
        return f"{self.value:.2f}" if self.unit == "×" else f"{self.value:.1f} {self.unit}"

    @property
    def bar_shown(self) -> str:
        """The bar as a table shows it."""
        return "" if self.bar is None else f"{'≥' if self.at_least else '≤'} {self.bar:.2f}"


def ratio_row(
    which: Attention | str, size: str, rounds: Rounds, ours: str, over: str, **bar: Any
) -> Row:
    """The row of one candidate over another."""
    return Row(
        case=which if isinstance(which, str) else which.name,
        size=size,
        ours=ours,
        over=over,
        value=rounds.ratio(ours, over),
        ours_ms=rounds.milliseconds(ours),
        rounds=rounds.count,
        others_cores=rounds.others_used,
        **bar,
    )


def as_line(row: Row) -> str:
    """A row of the table in a terminal."""
    remarks = ["MISSED"] * row.missed
    if row.is_busy:
        remarks.append(f"busy ({row.others_cores:.1f} cores by others)")
    time = "" if row.ours_ms is None else f"{row.ours_ms:.1f} ms"
    cells = f"{row.case:24}{row.size:17}{row.ours:17}{row.over:27}{time:>10}{row.shown:>11}"
    return f"{cells}  {row.bar_shown:8}{', '.join(remarks)}".rstrip()


def as_markdown(reports: list[dict[str, Any]]) -> str:
    """The rows of one or several reports as one table, with the BLAS kernel above each column.

    Row and column layout share a cell; what `plan="auto"` takes stands for it.  How two workers did
    while others used their processors says nothing, and is left out.
    """
    rows: dict[tuple[str, ...], list[list[Row]]] = {}
    for column, report in enumerate(reports):
        for row in (Row(**values) for values in report["rows"]):
            ours = row.ours.removesuffix(COLUMNS)
            if ours != "blocked":
                over = row.over.removesuffix(COLUMNS)
                label = (row.case, row.size, f"{ours} over {over}" if over else ours)
                rows.setdefault(label, [[] for _ in reports])[column].append(row)
    kernels = [report["machine"]["blas"][0].split()[-1] for report in reports]
    lines = [f"| attention | b,h,n | what | {' | '.join(f'{k} | bar' for k in kernels)} |"]
    lines.append("|---|---|---|" + "--:|---|" * len(reports))
    for label, columns in rows.items():
        cells: list[str] = []
        for found in columns:
            measured = [row for row in found if not (row.at_least and row.is_busy)]
            cells.append(" / ".join(row.shown for row in measured) or "busy" * bool(found))
            missed = " missed" * any(row.missed for row in measured)
            cells.append(found[0].bar_shown + missed if found else "")
        lines.append(f"| {' | '.join((*label, *cells))} |")
    return "\n".join(lines)
