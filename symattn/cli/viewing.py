"""`symattn show NAME --entries`, and so on: one view of a formula at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import click

from symattn.cli.arguments import formula_named, layout_of_preset
from symattn.cli.printing import display, print_json, section
from symattn.notation.presets import Preset, chosen_preset
from symattn.variants import Formula
from symattn.views import einsum, entries, per_position, shapes


@dataclass(frozen=True, slots=True)
class _Row:
    """One view: its title, what it is made from, and whether it is mathematics or code."""

    title: str
    build: Callable[[Formula], Any]
    is_code: bool = False


_VIEWS: Mapping[str, _Row] = MappingProxyType(
    {
        "entries": _Row("Scores, written out", lambda shown: entries(shown.scores)),
        "steps": _Row("Step by step", shapes),
        "per_position": _Row("At one position", per_position),
        "einsum": _Row("As einsum", einsum, is_code=True),
    }
)


def show_views(
    name: str, views: Sequence[str], *, preset: str | None, language: str, as_json: bool
) -> None:
    """Print some views of a formula."""
    shown = formula_named(name, otherwise=layout_of_preset(preset))
    chosen = chosen_preset(preset, shown)
    rows = {view: _VIEWS[view] for view in views}
    if as_json:
        about = {"name": shown.name, "layout": shown.layout, "preset": chosen.name}
        print_json(about | {view: _as_data(row, shown, chosen) for view, row in rows.items()})
    elif language == "latex":
        click.echo("\n\n".join(_as_latex(row, shown, chosen) for row in rows.values()))
    else:
        texts = (section(row.title, _text(row, shown, chosen)) for row in rows.values())
        click.echo("\n\n".join(texts))


def _text(row: _Row, shown: Formula, preset: Preset) -> list[str]:
    view = row.build(shown)
    return (view.text() if row.is_code else view.text(preset)).splitlines()


def _as_latex(row: _Row, shown: Formula, preset: Preset) -> str:
    if row.is_code:
        return "\n".join(f"% {line}" for line in (row.title, *_text(row, shown, preset)))
    return display(row.build(shown).latex(preset), row.title)


def _as_data(row: _Row, shown: Formula, preset: Preset) -> dict[str, object]:
    view = row.build(shown)
    if row.is_code:
        return {"lines": view.text().splitlines(), "source": view.source}
    return {"text": view.text(preset), "latex": view.latex(preset)}
