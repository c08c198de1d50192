"""What a proof attempt says: proved with steps, refuted with numbers, or undecided with the reason.

`Proof` holds facts and prints them; how the verdict came about is `symattn.proof.decide`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from symattn.evaluate import evaluate
from symattn.meaning.form import indices_of, place
from symattn.nodes.along_axis import Softmax
from symattn.nodes.core import Node
from symattn.notation.displays import latex_aligned
from symattn.notation.index_forms import entry_text
from symattn.notation.presets import Preset, chosen_preset
from symattn.notation.terminal import text
from symattn.notation.tex import latex
from symattn.proof.counterexample import NoDifference, find_difference_among
from symattn.proof.normal import Comparison, compare
from symattn.proof.steps import Step
from symattn.tags import Relations

Verdict = Literal["proved", "refuted", "undecided"]

SAME_INDEX_FORM = "same index form"

# A formula that repeats itself grows with every repetition; past this nothing is compared.
_MOST_WRITTEN_OUT = 6_000

# Values of a counterexample that is replayed are those that were found, up to this part of them.
_STEADY = 1e-30


@dataclass(frozen=True)
class Proof:
    """The answer to "are these two formulas equal?"; true as a condition only if they are.

    ``steps`` lead from ``lhs`` to ``rhs`` if it is proved; ``conditions`` lists what has to hold
    for both sides to be defined.  A counterexample is ``sizes``, ``inputs`` (rows by name),
    ``scalars``, ``indices``, the ``entry`` (counted from 0) and the two values there.  ``reason``
    tells why nothing was decided, ``note`` what else there is to know.  Where two layouts were
    compared, ``twins`` says what the symbols of the row layout stand for, and ``row`` is that side
    in them.
    """

    verdict: Verdict
    lhs: Node
    rhs: Node
    relations: Relations
    steps: tuple[Step, ...] = ()
    conditions: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    scalars: Mapping[str, Fraction] = field(default_factory=dict)
    indices: Mapping[str, int] = field(default_factory=dict)
    entry: tuple[int, int] | None = None
    lhs_value: Any = None
    rhs_value: Any = None
    reason: str = ""
    note: str = ""
    twins: Mapping[Node, Node] = field(default_factory=dict)
    row: Node | None = None

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
            return self._differs_again()
        if self.verdict == "undecided":
            return True
        lines = [self.lhs, *(step.after for step in self.steps)]
        return (
            all(step.before == line for line, step in zip(lines, self.steps, strict=False))
            and lines[-1] == self.rhs
            and all(map(self._means_the_same, self.steps))
            and (bool(self.steps) or self._agrees(self.lhs, self.rhs))
            and isinstance(find_difference_among(lines, self.relations, attempts=2), NoDifference)
        )

    def _means_the_same(self, step: Step) -> bool:
        """Replay a step, and compare the normal forms of what its law makes of one another.

        What is equal is equal wherever it stands; only a mask of 0 and −∞ has no meaning alone.
        """
        if step.law == SAME_INDEX_FORM:
            return self._agrees(step.before, step.after)
        if not step.replays():
            return False
        if step.part_before.has_minus_infinity or step.part_after.has_minus_infinity:
            return self._agrees(step.before, step.after)
        return self._agrees(step.part_before, step.part_after)

    def _agrees(self, left: Node, right: Node) -> bool:
        return bool(compared((left, right), self.relations).equal)

    def _differs_again(self) -> bool:
        """Evaluate both sides at the counterexample and compare with the values found there."""
        assert self.entry is not None
        values = []
        for side in (self.lhs, self.rhs):
            symbols = (*side.inputs(), *side.booleans())
            rows = {symbol: self.inputs[symbol.label] for symbol in symbols}
            at = {index: self.indices[index.name] for index in side.indices}
            matrix = evaluate(side, self.sizes, rows, self.scalars, indices=at)
            values.append(matrix[self.entry])
        found = (self.lhs_value, self.rhs_value)
        steady = all(abs(v - f) <= _STEADY * abs(f) for v, f in zip(values, found, strict=True))
        return steady and values[0] != values[1]

    def text(self, preset: Preset | str | None = None) -> str:
        """Return the result as text for a terminal."""
        lines = {"proved": self._proof, "refuted": self._refutation, "undecided": self._doubt}
        return "\n".join([*lines[self.verdict](preset), *([self.note] if self.note else [])])

    def _lines(self, write: Callable[[Node], str]) -> list[tuple[Node, str]]:
        """Return each line of the derivation with the law that leads to it, "" for the first.

        ``write`` prints the symbols and what they stand for where two layouts meet.
        """
        lines = [(self.lhs, ""), *((step.after, step.law) for step in self.steps)]
        if self.row is not None:
            symbols = ", ".join(map(write, self.twins))
            forms = ", ".join(map(write, self.twins.values()))
            if self.row.xreplace(dict(self.twins)) == self.lhs:
                lines[0] = (self.lhs, f"writing {forms} for {symbols}")
                lines.insert(0, (self.row, ""))
            else:
                lines.append((self.row, f"writing {symbols} for {forms}"))
        elif not self.steps:
            lines.append((self.rhs, "as it is written"))
        return lines

    def _in(self, preset: Preset | str | None, line: Node) -> Preset:
        """Return the preset of a line: the row layout's own for the side in its own symbols."""
        return chosen_preset(preset, line if line is self.row else self.lhs)

    def _proof(self, preset: Preset | str | None) -> list[str]:
        (first, _), *others = self._lines(text)
        shown = [text(line, self._in(preset, line)) for line, _ in others]
        width = max(map(len, shown))
        lines = [f"proved{self._under()}", text(first, self._in(preset, first))]
        for line, (_, law) in zip(shown, others, strict=True):
            lines.append(f"  = {line:<{width}}    {law}")
            if law == SAME_INDEX_FORM:
                lines += [f"      {part}" for part in self.steps[0].reason.splitlines()]
        return lines + [f"where {condition}" for condition in self.conditions]

    def _refutation(self, preset: Preset | str | None) -> list[str]:
        preset = chosen_preset(preset, self.lhs)
        sizes = ", ".join(f"{tag} = {size}" for tag, size in self.sizes.items())
        lines = [f"refuted{self._under()}", f"  left   {text(self.lhs, preset)}"]
        lines += [f"  right  {text(self.rhs, preset)}", f"  sizes  {sizes}"]
        for name, rows in self.inputs.items():
            lines.append(f"  {name} = {_written(rows)}")
        lines += [f"  {name} = {value}" for name, value in self.scalars.items()]
        lines += [f"  {name} = {value}, counted from 0" for name, value in self.indices.items()]
        lines.append(f"  entry {self.entry}, counted from 0:")
        lines += [f"    left   {number(self.lhs_value)}", f"    right  {number(self.rhs_value)}"]
        return lines

    def _doubt(self, preset: Preset | str | None) -> list[str]:
        preset = chosen_preset(preset, self.lhs)
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

        def inline(symbol: Node) -> str:
            return f"${latex(symbol, chosen, dialect=dialect)}$"

        (first, _), *others = [
            (latex(line, self._in(preset, line), dialect=dialect), law)
            for line, law in self._lines(inline)
        ]
        return latex_aligned([("" if k else first, *line) for k, line in enumerate(others)])

    def _repr_latex_(self) -> str | None:
        # A notebook shows the text of what is not proved: its numbers and reasons are the point.
        return f"$\\displaystyle {self.latex(dialect='jupyter')}$" if self else None

    def __repr__(self) -> str:
        return self.text()


def _written(rows: Any) -> str:
    """Return the entries of an input: those of a mask of keys, rows, or each member's rows."""
    if not isinstance(rows[0], tuple):
        return f"[{' '.join(map(str, rows))}]"
    if not isinstance(rows[0][0], tuple):
        return f"[{'; '.join(' '.join(map(str, row)) for row in rows)}]"
    return f"[{', '.join(map(_written, rows))}]"


def number(value: Any) -> str:
    """Return a value of a counterexample with 15 digits."""
    return format(float(value), ".15g")


def entry_forms(left: Node, right: Node) -> str:
    """Return the (i, j) entries of both sides, a line each."""
    row, column = place(left.sizes[0]), place(left.sizes[1])
    names = dict(zip((*row, *column), "ij" if row else "j", strict=False))
    return "\n".join(entry_text(side.meaning(row, column), names) for side in (left, right))


def _written_out(root: Node) -> int:
    """Return the number of parts of an entry in which nothing is shared; a softmax reads twice."""
    parts: dict[Node, int] = {}
    for node in root.walk():
        reads = 2 if isinstance(node, Softmax) else 1
        parts[node] = 1 + reads * sum(parts[operand] for operand in node.matrices)
    return parts[root]


def compared(sides: Sequence[Node], relations: Relations) -> Comparison:
    """Compare the entries of formulas of one shape by their normal forms."""
    if max(map(_written_out, sides)) > _MOST_WRITTEN_OUT:
        return Comparison(None, f"an entry written out has over {_MOST_WRITTEN_OUT:,} parts", ())
    row, column = (place(size) for size in sides[0].sizes)
    free = dict.fromkeys(
        inner for side in sides for index in side.indices for inner in indices_of(index.place)
    )
    forms = [side.meaning(row, column) for side in sides]
    return compare(forms, (*indices_of((*row, *column)), *free), relations)
