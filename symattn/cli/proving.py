"""`symattn prove` and `symattn translate`: two notations, one meaning, step by step."""

from __future__ import annotations

import click

from symattn.cli.arguments import formula_named
from symattn.cli.printing import display, print_json, section
from symattn.notation.layouts import other_layout
from symattn.notation.presets import Preset, chosen_preset
from symattn.notation.terminal import text, text_space
from symattn.notation.tex import latex
from symattn.proof import Proof, Translation, prove, translate
from symattn.variants.layouts import layout_named


def prove_formulas(left: str, right: str, *, as_json: bool) -> bool:
    """Prove two formulas equal, print the proof or a counterexample; return whether they are."""
    one, other = formula_named(left), formula_named(right)
    result = prove(one, other)
    if as_json:
        sides = {"left": f"{one.name}:{one.layout}", "right": f"{other.name}:{other.layout}"}
        print_json({**sides, **proof_as_data(result)})
    else:
        click.echo(result.text())
    return bool(result)


def proof_as_data(result: Proof, preset: Preset | str | None = None) -> dict[str, object]:
    """Return a proof or a counterexample as data."""
    preset = chosen_preset(preset, result.lhs)
    data: dict[str, object] = {
        "verdict": result.verdict,
        "claim": f"{text(result.lhs, preset)} = {text(result.rhs, preset)}",
        "note": result.note,
        "twins": {text(symbol): text(form) for symbol, form in result.twins.items()},
    }
    if result.verdict == "proved":
        data["steps"] = [
            {
                "law": step.law,
                "before": text(step.before, preset),
                "after": text(step.after, preset),
                "reason": step.reason,
            }
            for step in result.steps
        ]
        data["conditions"] = list(result.conditions)
    elif result.verdict == "refuted":
        data["sizes"] = dict(result.sizes)
        data["inputs"] = {
            name: [
                [str(entry) for entry in row] if isinstance(row, tuple) else str(row)
                for row in rows
            ]
            for name, rows in result.inputs.items()
        }
        data["scalars"] = {name: str(value) for name, value in result.scalars.items()}
        data["entry"] = list(result.entry or ())
        data["left_value"] = float(result.lhs_value)
        data["right_value"] = float(result.rhs_value)
    else:
        data["reason"] = result.reason
    return data


def translate_formula(
    name: str, layout: str, *, preset: str | None, language: str, as_json: bool
) -> None:
    """Print a formula in the other layout, with the proof that both say the same.

    Without a layout the formula is in the one that there is something to translate from.
    """
    chosen = layout_named(layout).name
    formula = formula_named(name, otherwise=other_layout(chosen))
    result = translate(formula, to=chosen)
    if as_json:
        print_json(
            {
                "from": f"{formula.name}:{formula.layout}",
                "to": chosen,
                "formula": text(result.expr, preset),
                "latex": latex(result.expr, preset),
                "inputs": {text(symbol): text(form) for symbol, form in result.inputs.items()},
                **proof_as_data(result.proof),
            }
        )
    elif language == "latex":
        click.echo(display(latex(result.expr, preset)))
        click.echo(display(result.latex(preset)))
    else:
        click.echo("\n\n".join(translation_as_text(result, preset)))


def translation_as_text(result: Translation, preset: Preset | str | None = None) -> list[str]:
    """Return the sections that show a translation: the formula, its matrices, the derivation."""
    verdict = f"In {result.to} layout ({result.proof.verdict})"
    rows = chosen_preset(preset, result.expr)
    matrices = [
        f"{text(twin, rows)} ∈ {text_space(twin.sizes, rows)} stands for {text(form, rows)}"
        for twin, form in result.inputs.items()
    ]
    return [
        section(verdict, [text(result.expr, preset), *matrices]),
        section("Step by step", result.text(preset).splitlines()),
    ]
