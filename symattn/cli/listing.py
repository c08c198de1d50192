"""`symattn formulas` and `symattn show`: the catalogue, and all about one formula."""

from __future__ import annotations

import click

from symattn.cli.arguments import formula_named, layout_of_preset
from symattn.cli.printing import columns, display, paragraph, print_json, section
from symattn.cli.proving import proof_as_data, translation_as_text
from symattn.notation.displays import latex_aligned, latex_softmax_definition
from symattn.notation.layouts import LAYOUTS, other_layout
from symattn.notation.names import identifier
from symattn.notation.presets import Preset, chosen_preset
from symattn.notation.terminal import LINES, text, text_name, text_shape, text_space
from symattn.notation.tex import latex, latex_shape
from symattn.proof import Translation, translate
from symattn.variants import Formula, formula, formulas

_WRITTEN_OUT = {
    0: "[x₁ … x_N] is [softmax(x₁) … softmax(x_N)]: each column sums to one",
    1: "[x₁; …; x_N] is [softmax(x₁); …; softmax(x_N)]: each row sums to one",
}


def list_formulas(*, as_json: bool) -> None:
    """Print every formula of the catalogue in both layouts."""
    known = [(formula(name), formula(name, layout="row")) for name in formulas()]
    if as_json:
        print_json(
            [
                {
                    "name": column.name,
                    "title": column.title,
                    "column": text(column.expr),
                    "row": text(row.expr),
                    "source": column.source,
                }
                for column, row in known
            ]
        )
    else:
        rows = [("name", "column layout", "row layout")]
        rows += [(column.name, text(column.expr), text(row.expr)) for column, row in known]
        click.echo("\n".join(columns(rows)))


def show_formula(name: str, *, preset: str | None, language: str, as_json: bool) -> None:
    """Print all about one formula."""
    shown = formula_named(name, otherwise=layout_of_preset(preset))
    translation = translate(shown, to=other_layout(shown.layout))
    chosen = chosen_preset(preset, shown)
    if as_json:
        print_json({**_as_data(shown, chosen), "translation": _other_as_data(translation, preset)})
        return
    if language == "latex":
        sections = _as_latex(shown, chosen) + _other_as_latex(translation, preset)
    else:
        sections = _as_text(shown, chosen) + translation_as_text(translation, preset)
    click.echo("\n\n".join(sections))


def _as_text(shown: Formula, preset: Preset) -> list[str]:
    axis = LAYOUTS[shown.layout]
    softmax = preset.text_softmax_matrix + ("" if axis == preset.axis else f"_{LINES[axis]}")
    symbols = shown.program.line_symbols
    lines = [
        (
            text(symbols[name], preset),
            f"= {text(line, preset)}",
            f"∈ {text_space(line.sizes, preset)}",
        )
        for name, line in shown.lines.items()
    ]
    return [
        f"{shown.title}  ({shown.name}, {shown.layout} layout)\n{paragraph(shown.source)}",
        section(
            "Formula", [f"{text(shown.expr, preset)} ∈ {text_space(shown.expr.sizes, preset)}"]
        ),
        section(
            "Inputs",
            [
                *(text_shape(s.name, s.sizes, preset) for s in shown.inputs),
                *(f"{text_name(s.name)[0]} ∈ ℝ" for s in shown.scalars),
            ],
        ),
        section("Line by line", columns(lines)),
        section("Types", shown.signatures(preset)),
        section("Softmax", [f"{softmax} of {_WRITTEN_OUT[axis]}"]),
    ]


def _as_latex(shown: Formula, preset: Preset) -> list[str]:
    attention, score = shown.latex_signatures(preset)
    symbols = shown.program.line_symbols
    lines = [
        (latex(symbols[name], preset), latex(line, preset), "")
        for name, line in shown.lines.items()
    ]
    return [
        f"% {shown.title} ({shown.name}, {shown.layout} layout)\n% {shown.source}",
        display(latex(shown.expr, preset)),
        *(display(latex_shape(s.name, s.sizes, preset)) for s in shown.inputs),
        display(latex_aligned(lines), "line by line"),
        display(attention, "the type of the attention function"),
        display(score, "the type of its score function"),
        display(latex_softmax_definition(preset, LAYOUTS[shown.layout])),
    ]


def _other_as_latex(translation: Translation, preset: str | None) -> list[str]:
    return [
        display(latex(translation.expr, preset), f"in {translation.to} layout"),
        display(translation.latex(preset), "the proof that both say the same"),
    ]


def _as_data(shown: Formula, preset: Preset) -> dict[str, object]:
    attention, score = shown.latex_signatures(preset)
    attention_text, score_text = shown.signatures(preset)
    return {
        "name": shown.name,
        "title": shown.title,
        "source": shown.source,
        "layout": shown.layout,
        "preset": preset.name,
        "formula": text(shown.expr, preset),
        "latex": latex(shown.expr, preset),
        "shape": [str(size) for size in shown.expr.sizes],
        "inputs": [
            {
                "name": text_name(symbol.name)[0],
                "argument": identifier(symbol.name),
                "shape": [str(size) for size in symbol.sizes],
                "latex": latex_shape(symbol.name, symbol.sizes, preset),
            }
            for symbol in shown.inputs
        ],
        "scalars": [scalar.name for scalar in shown.scalars],
        "dims": [dim.name for dim in shown.dims],
        "lines": {
            text(symbol, preset): text(line, preset)
            for symbol, line in zip(
                shown.program.line_symbols.values(), shown.lines.values(), strict=True
            )
        },
        "signature": attention_text,
        "signature_latex": attention,
        "score_signature": score_text,
        "score_signature_latex": score,
        "softmax_latex": latex_softmax_definition(preset, LAYOUTS[shown.layout]),
    }


def _other_as_data(translation: Translation, preset: str | None) -> dict[str, object]:
    return {
        "layout": translation.to,
        "formula": text(translation.expr, preset),
        "latex": latex(translation.expr, preset),
        "inputs": {text(symbol): text(form) for symbol, form in translation.inputs.items()},
        **proof_as_data(translation.proof),
    }
