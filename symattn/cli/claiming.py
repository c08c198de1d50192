"""`symattn theorems` and `symattn theorem`: named claims, each proved or refuted on the spot."""

from __future__ import annotations

from collections.abc import Iterator

import click

from symattn.cli.printing import columns, display, paragraph, print_json, section
from symattn.cli.proving import proof_as_data
from symattn.notation.presets import preset_named
from symattn.variants import false_claims, theorem, theorems
from symattn.variants.claims import Claim, Outcome


def list_theorems(*, as_json: bool) -> bool:
    """Print every claim with its verdict; return whether all are as expected."""
    lists = {"theorems": theorems(), "false claims": false_claims()}
    outcomes = {title: [theorem(name).prove() for name in names] for title, names in lists.items()}
    if as_json:
        print_json(
            {
                title.replace(" ", "_"): [_as_data(outcome) for outcome in listed]
                for title, listed in outcomes.items()
            }
        )
    else:
        parts = [section(title.capitalize(), _table(listed)) for title, listed in outcomes.items()]
        click.echo("\n\n".join(parts))
    return all(outcome.as_expected for listed in outcomes.values() for outcome in listed)


def show_theorem(name: str, *, preset: str | None, language: str, as_json: bool) -> bool:
    """Print one claim with the proof or counterexample of each equation; return if it is proved."""
    claim = theorem(name)
    if preset is not None:
        preset_named(preset)
    outcome = claim.prove()
    if as_json:
        equations = [
            {
                "label": equation.label,
                "text": equation.text(preset),
                **proof_as_data(outcome.proofs[equation.label], equation.printed_in(preset)),
            }
            for equation in claim.equations
        ]
        latex = claim.latex(preset)
        print_json({**_as_data(outcome), "latex": latex, "proofs": equations})
    elif language == "latex":
        click.echo(f"% {claim.title} ({claim.name}): {outcome.verdict}\n% {claim.statement}")
        click.echo("\n".join([display(claim.latex(preset)), *_as_latex(outcome, preset)]))
    else:
        click.echo("\n\n".join(_as_text(claim, outcome, preset)))
    return bool(outcome)


def _as_text(claim: Claim, outcome: Outcome, preset: str | None) -> list[str]:
    words = [claim.statement, claim.explanation]
    words += [f"Source: {claim.source}"] if claim.source else []
    head = "\n".join([f"{claim.title}  ({claim.name})", *map(paragraph, words)])
    proofs = (
        section(f"{label[:1].upper()}{label[1:]}", proof.splitlines())
        for label, proof in outcome.texts(preset).items()
    )
    return [head, *proofs]


def _as_latex(outcome: Outcome, preset: str | None) -> Iterator[str]:
    """Return each derivation as a display; what is not proved is numbers or reasons, no formula."""
    proofs, texts = outcome.latex(preset), outcome.texts(preset)
    for label, proof in outcome.proofs.items():
        if proof:
            yield display(proofs[label], label)
        else:
            yield "\n".join(f"% {line}" for line in [label, *texts[label].splitlines()])


def _table(outcomes: list[Outcome]) -> list[str]:
    rows = [
        (
            outcome.claim.name,
            outcome.verdict if outcome.as_expected else f"{outcome.verdict} (!)",
            outcome.claim.title,
        )
        for outcome in outcomes
    ]
    return columns([("name", "verdict", "title"), *rows])


def _as_data(outcome: Outcome) -> dict[str, object]:
    claim = outcome.claim
    return {
        "name": claim.name,
        "title": claim.title,
        "statement": claim.statement,
        "explanation": claim.explanation,
        "source": claim.source,
        "expected": claim.expected,
        "verdict": outcome.verdict,
        "as_expected": outcome.as_expected,
        "equations": {label: proof.verdict for label, proof in outcome.proofs.items()},
    }
