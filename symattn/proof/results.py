"""What a proof attempt says: proved with steps, refuted with numbers, or undecided with the reason.

`Proof` holds facts and prints them; how the verdict came about is `symattn.proof.decide`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from symattn.evaluate.points import Rows
from symattn.meaning.form import place
from symattn.nodes.core import Node
from symattn.notation.displays import latex_aligned
from symattn.notation.entries import entry_text
from symattn.notation.latex import latex
from symattn.notation.presets import Preset, chosen_preset
from symattn.notation.text import text
from symattn.proof.counterexample import (
    Agreement,
    Difference,
    UndefinedEverywhere,
    find_difference,
    find_difference_among,
)
from symattn.proof.laws import LAWS
from symattn.proof.normal import Comparison, compare
from symattn.proof.steps import Step
from symattn.tags import Relations

Verdict = Literal["proved", "refuted", "undecided"]

SAME_INDEX_FORM = "same index form"

_NO_DIFFERENCE = (Agreement, UndefinedEverywhere)


@dataclass(frozen=True)
class Proof:
    """The answer to "are these two formulas equal?"; true as a condition only if they are.

    ``steps`` lead from ``lhs`` to ``rhs`` if it is proved; ``conditions`` lists what has to hold
    for both sides to be defined.  A counterexample is ``sizes``, ``inputs`` (rows by name),
    ``scalars``, the ``entry`` (counted from 0) and the two values there.  ``reason`` tells why
    nothing was decided, ``note`` how two layouts were compared.
    """

    verdict: Verdict
    lhs: Node
    rhs: Node
    relations: Relations
    steps: tuple[Step, ...] = ()
    conditions: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, Rows] = field(default_factory=dict)
    scalars: Mapping[str, Fraction] = field(default_factory=dict)
    entry: tuple[int, int] | None = None
    lhs_value: Any = None
    rhs_value: Any = None
    reason: str = ""
    note: str = ""

    def __bool__(self) -> bool:
        return self.verdict == "proved"

    def check(self) -> bool:
        """Replay the result: every step again, by the normal form and by numbers.

        >>> import symattn as sa
        >>> d, n, m = sa.dims("d n m")
        >>> Q, K = sa.matrix("Q", d, n), sa.matrix("K", d, m)
        >>> sa.prove((K.T @ Q).T, Q.T @ K).check()
        True

        A counterexample is computed again; what is undecided has nothing to replay.
        """
        if self.verdict == "refuted":
            found = find_difference(self.lhs, self.rhs, self.relations)
            return isinstance(found, Difference) and found.entry == self.entry
        if self.verdict == "undecided":
            return True
        lines = [self.lhs, *(step.after for step in self.steps)]
        laws_apply = all(
            step.before == line and (step.law not in LAWS or step.replays())
            for line, step in zip(lines, self.steps, strict=False)
        )
        return (
            laws_apply
            and lines[-1] == self.rhs
            and bool(compared(lines, self.relations).equal)
            and isinstance(find_difference_among(lines, self.relations, attempts=2), _NO_DIFFERENCE)
        )

    def text(self, preset: Preset | str | None = None) -> str:
        """Return the result as text for a terminal."""
        chosen = chosen_preset(preset, self.lhs)
        lines = {"proved": self._proof, "refuted": self._refutation, "undecided": self._doubt}
        body = lines[self.verdict](chosen)
        return "\n".join([*([self.note] if self.note else []), *body])

    def _proof(self, preset: Preset) -> list[str]:
        shown = [text(step.after, preset) for step in self.steps]
        width = max(map(len, shown), default=0)
        lines = [f"proved{self._under()}", text(self.lhs, preset)]
        for step, line in zip(self.steps, shown, strict=True):
            lines.append(f"  = {line:<{width}}    {step.law}")
            if step.law == SAME_INDEX_FORM:
                lines += [f"      {part}" for part in step.reason.splitlines()]
        if not self.steps:
            lines.append(f"  = {text(self.rhs, preset)}    as it is written")
        return lines + [f"where {condition}" for condition in self.conditions]

    def _refutation(self, preset: Preset) -> list[str]:
        sizes = ", ".join(f"{tag} = {size}" for tag, size in self.sizes.items())
        lines = [f"refuted{self._under()}", f"  left   {text(self.lhs, preset)}"]
        lines += [f"  right  {text(self.rhs, preset)}", f"  sizes  {sizes}"]
        for name, rows in self.inputs.items():
            lines.append(f"  {name} = [{'; '.join(' '.join(map(str, row)) for row in rows)}]")
        lines += [f"  {name} = {value}" for name, value in self.scalars.items()]
        lines.append(f"  entry {self.entry}, counted from 0:")
        lines += [f"    left   {number(self.lhs_value)}", f"    right  {number(self.rhs_value)}"]
        return lines

    def _doubt(self, preset: Preset) -> list[str]:
        return [
            f"undecided{self._under()}: {self.reason}",
            f"  left   {text(self.lhs, preset)}",
            f"  right  {text(self.rhs, preset)}",
        ]

    def _under(self) -> str:
        return f" with {self.relations.text()}" if self.relations else ""

    def latex(self, preset: Preset | str | None = None, *, dialect: str = "latex") -> str:
        r"""Return the derivation as an ``aligned`` block with the law of each step.

        What is refuted is printed with ``\neq``, what is undecided with ``\overset{?}{=}``.
        """
        chosen = chosen_preset(preset, self.lhs)
        left, right = (latex(side, chosen, dialect=dialect) for side in (self.lhs, self.rhs))
        if self.verdict == "refuted":
            return rf"{left} \neq {right}"
        if self.verdict == "undecided":
            return rf"{left} \overset{{?}}{{=}} {right}"
        if not self.steps:
            return f"{left} = {right}"
        return latex_aligned(
            [
                ("" if k else left, latex(step.after, chosen, dialect=dialect), step.law)
                for k, step in enumerate(self.steps)
            ]
        )

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex(dialect='jupyter')}$"

    def __repr__(self) -> str:
        return self.text()


def number(value: Any) -> str:
    """Return a value of a counterexample with 15 digits."""
    return format(float(value), ".15g")


def entry_forms(left: Node, right: Node) -> str:
    """Return the (i, j) entries of both sides, a line each."""
    row, column = place(left.sizes[0]), place(left.sizes[1])
    names = dict(zip((*row, *column), "ij" if row else "j", strict=False))
    return "\n".join(entry_text(side.meaning(row, column), names) for side in (left, right))


def compared(sides: Sequence[Node], relations: Relations) -> Comparison:
    """Compare the entries of formulas of one shape by their normal forms."""
    row, column = (place(size) for size in sides[0].sizes)
    return compare([side.meaning(row, column) for side in sides], (*row, *column), relations)
