"""`symattn derivations` and `symattn derivation`: arguments that are no proofs, with checks."""

from __future__ import annotations

import click

from symattn.cli.printing import columns, display, print_json, section
from symattn.variants.derived import Derivation, derivation, derivations
from symattn.variants.derived.chains import NOT_A_PROOF, Checked
from symattn.variants.derived.writing import expression_latex, expression_text


def list_derivations(*, as_json: bool) -> bool:
    """Print every derivation with what its check found; return whether all is as derived."""
    found = [(known, known.check()) for known in map(derivation, derivations())]
    if as_json:
        print_json(
            [
                {
                    "name": known.name,
                    "title": known.title,
                    "source": known.source,
                    "steps": len(known.steps),
                    "checked": bool(checked),
                }
                for known, checked in found
            ]
        )
    else:
        rows = [("name", "steps", "check", "what it derives")]
        rows += [
            (known.name, str(len(known.steps)), "agrees" if checked else "FAILS", known.title)
            for known, checked in found
        ]
        click.echo("\n".join(columns(rows)))
    return all(checked for _, checked in found)


def show_derivation(name: str, *, language: str, as_json: bool) -> bool:
    """Print one derivation with its check; return whether it is as derived."""
    known = derivation(name)
    checked = known.check()
    if as_json:
        print_json(_as_data(known, checked))
    elif language == "latex":
        comment = f"{known.title} ({NOT_A_PROOF})\n% {known.source}"
        click.echo(display(known.latex(), comment))
    else:
        findings = [*checked.text().splitlines(), *checked.experiment.text().splitlines()]
        click.echo(f"{known.text()}\n{section('Checked', findings)}")
    return bool(checked)


def _as_data(known: Derivation, checked: Checked) -> dict[str, object]:
    titles = [part.title for part in known.chains for _ in part.steps]
    return {
        "name": known.name,
        "title": known.title,
        "kind": NOT_A_PROOF,
        "source": known.source,
        "assumptions": list(known.assumptions),
        "steps": [
            {
                "part": title,
                "rule": found.step.rule,
                "reason": found.step.reason,
                "before": expression_text(found.step.before),
                "after": expression_text(found.step.after),
                "before_latex": expression_latex(found.step.before),
                "after_latex": expression_latex(found.step.after),
                "replays": found.replays,
                "largest_difference": found.difference,
                "points": found.points,
            }
            for title, found in zip(titles, checked.steps, strict=True)
        ],
        "conclusion": known.conclusion,
        "latex": known.latex(),
        "experiment": {
            "title": checked.experiment.title,
            "columns": list(checked.experiment.columns),
            "rows": [list(row) for row in checked.experiment.rows],
            "as_derived": list(checked.experiment.as_derived),
        },
        "checked": bool(checked),
    }
