"""The corpus: formulas as public texts print them, and which tests answer for which.

A test says which formula it is about with `built`, `wrong` or `unclear`; the completeness test then
compares what is answered for with the verdicts in the file.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "data" / "formulas.jsonl"

Test = Callable[..., Any]


@dataclass(frozen=True)
class Entry:
    """A formula of the corpus: ``latex`` as printed, and what a reader made of it."""

    id: str
    layout: str
    verdict: str
    latex: str
    notes: str


CORPUS = {
    entry.id: entry
    for entry in (Entry(**json.loads(line)) for line in FILE.read_text("utf-8").splitlines())
}

ANSWERS: dict[str, dict[str, list[str]]] = {"OK": {}, "BAD": {}, "AMB": {}}
"""By verdict and id, the tests that build, refute or read an entry in every way."""


def _answers(verdict: str) -> Callable[[str], Callable[[Test], Test]]:
    def about(entry: str) -> Callable[[Test], Test]:
        def register(test: Test) -> Test:
            ANSWERS[verdict].setdefault(entry, []).append(test.__name__)
            return test

        return register

    return about


built = _answers("OK")
wrong = _answers("BAD")
unclear = _answers("AMB")

LATER = {
    "F42: the floor in K_{⌊i/g⌋}": "an index is a letter, and a head's number is (group, head)",
    "F44: RoPE as an operation": "there is no rotary; it is written with a family of rotations",
    "F46: Q[:, h, :]": "slices of arrays are read by no parser",
    "F47: dQ, dK, dV found by differentiating": "there is no calculus; the lines are given",
    "F58: the parenthesis that is missing": "LaTeX is not read",
}
"""Parts of entries that cannot be written yet, and why; the rest of each is tested."""
