r"""A claim about attention, the equations that make it up, and what proving them says.

A claim has a name and says one thing in words.  In symbols it may be several equations: in column
and in row layout, with and without a mask, for each formula of the catalogue; sizes stay symbolic.
``expected`` is what every equation has to come out as: "proved" for a theorem, "refuted" for a
mistake that people make.

Invariant: nothing of a claim is built before somebody asks for its equations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from symattn.nodes import Node, assuming
from symattn.notation.displays import latex_aligned
from symattn.notation.presets import Preset, preset_of
from symattn.notation.terminal import text
from symattn.notation.tex import latex
from symattn.proof import Proof, prove
from symattn.tags import Relations
from symattn.variants.known import Formula

Expected = Literal["proved", "refuted"]

_SIGN = {"proved": ("=", "="), "refuted": ("≠", r"\neq")}


@dataclass(frozen=True)
class Equation:
    """One equation of a claim; ``label`` tells it from the others.

    Sides are expressions, or a formula of the catalogue in column layout and the same in row
    layout.  ``given`` says what symbols stand for, ``relations`` what holds between tags, and
    ``layout`` in which layout both sides are printed, where that is one.
    """

    label: str
    lhs: Node | Formula
    rhs: Node | Formula
    given: Mapping[Node, Node] = field(default_factory=dict)
    relations: tuple[str, ...] = ()
    layout: str = ""

    def prove(self) -> Proof:
        """Prove the equation, refute it, or say why neither was possible."""
        with assuming(*self.relations):
            return prove(self.lhs, self.rhs, given=self.given)

    @property
    def sides(self) -> tuple[Node, Node]:
        """Both sides as they are printed: a formula in column layout is transposed."""
        if isinstance(self.lhs, Formula) and isinstance(self.rhs, Formula):
            return self.lhs.expr.T, self.rhs.expr
        left, right = (s.expr if isinstance(s, Formula) else s for s in (self.lhs, self.rhs))
        return left, right

    def text(self, preset: Preset | str | None = None, sign: str = "=") -> str:
        """Return the equation as text, and what it takes for granted."""
        chosen = self.printed_in(preset)
        left, right = (text(side, chosen) for side in self.sides)
        remark = self._remark(text)
        return f"{left} {sign} {right}" + (f", with {remark}" if remark else "")

    def latex_line(self, preset: Preset | str | None, dialect: str) -> tuple[str, str, str]:
        """Return the line of an ``aligned`` block: left side, right side, label and remark."""

        def inline(symbol: Node) -> str:
            return f"${latex(symbol, preset, dialect=dialect)}$"

        chosen = self.printed_in(preset)
        left, right = (latex(side, chosen, dialect=dialect) for side in self.sides)
        label = self.label.replace("_", " ")  # a name of the catalogue has no subscripts
        reason = ", with ".join(filter(None, (label, self._remark(inline))))
        return left, right, reason

    def printed_in(self, preset: Preset | str | None) -> Preset | str | None:
        """Return the preset asked for, or that of the layout: a wrong axis is no other layout."""
        return preset_of(self.layout) if preset is None and self.layout else preset

    def _remark(self, write: Callable[[Node], str]) -> str:
        """Say what symbols stand for, and which relations are declared."""
        told = self.given
        if isinstance(self.rhs, Formula):
            inputs = self.rhs.expr.inputs()
            told = {s: form for s, form in self.rhs.twins.items() if s in inputs} | dict(told)
        symbols, forms = ", ".join(map(write, told)), ", ".join(map(write, told.values()))
        parts = [f"{symbols} for {forms}"] if told else []
        return " and ".join(parts + [Relations().declare(r).text() for r in self.relations])


@dataclass(frozen=True)
class Claim:
    """A named claim: what it says, why, and its equations; get one with `theorem`.

    >>> import symattn as sa
    >>> claim = sa.theorem("softmax_ignores_a_shift")
    >>> claim.title
    'Softmax ignores a shift'
    >>> print(claim.equations[0].text())
    Softmax(S + 1_{m×1} y) = Softmax(S)
    >>> claim.prove().verdict
    'proved'

    ``explanation`` is the reason in a sentence: why it holds, or what the mistake is where it is
    ``expected`` to be refuted.  ``source`` is a paper with the section, where one says it.
    """

    name: str
    title: str
    statement: str
    explanation: str
    write: Callable[[], Iterable[Equation]] = field(repr=False)
    source: str = ""
    expected: Expected = "proved"

    @cached_property
    def equations(self) -> tuple[Equation, ...]:
        """The equations, built when they are first asked for."""
        return tuple(self.write())

    def prove(self) -> Outcome:
        """Try to prove every equation."""
        return Outcome(self, {each.label: each.prove() for each in self.equations})

    def text(self, preset: Preset | str | None = None) -> str:
        """Return what it says in words and in symbols, one equation a line.

        A claim that is expected to be refuted is written with ``≠``.
        """
        sign, _ = _SIGN[self.expected]
        width = max(len(each.label) for each in self.equations)
        lines = [f"{self.title}  ({self.name})", self.statement, self.explanation]
        lines += [f"Source: {self.source}"] if self.source else []
        equations = (f"  {e.label:<{width}}  {e.text(preset, sign)}" for e in self.equations)
        return "\n".join([*lines, *equations])

    def latex(self, preset: Preset | str | None = None, *, dialect: str = "latex") -> str:
        r"""Return the equations as an ``aligned`` block, one a line.

        >>> import symattn as sa
        >>> print(sa.theorem("softmax_weights_sum_to_one").latex())
        \begin{aligned}
        \mathbf{1}_{1 \times m} \operatorname{Softmax} (\mathbf{S}) &= ...
        \end{aligned}

        A claim that is expected to be refuted is written with ``\neq``.
        """
        _, sign = _SIGN[self.expected]
        return latex_aligned([each.latex_line(preset, dialect) for each in self.equations], sign)

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex(dialect='jupyter')}$"

    def __str__(self) -> str:
        return self.text()


@dataclass(frozen=True)
class Outcome:
    """What proving a claim says: a proof, or a counterexample, for each equation by its label."""

    claim: Claim
    proofs: Mapping[str, Proof]

    @property
    def verdict(self) -> str:
        """ "proved" if every equation is, "refuted" if one is, "undecided" otherwise."""
        verdicts = {proof.verdict for proof in self.proofs.values()}
        if verdicts == {"proved"}:
            return "proved"
        return "refuted" if "refuted" in verdicts else "undecided"

    def __bool__(self) -> bool:
        return self.verdict == "proved"

    @property
    def as_expected(self) -> bool:
        """Whether every equation came out as the claim expects."""
        return all(proof.verdict == self.claim.expected for proof in self.proofs.values())

    @property
    def conditions(self) -> tuple[str, ...]:
        """What has to hold for both sides of every equation to be defined."""
        found = (condition for proof in self.proofs.values() for condition in proof.conditions)
        return tuple(dict.fromkeys(found))

    def check(self) -> bool:
        """Replay every proof and every counterexample."""
        return all(proof.check() for proof in self.proofs.values())

    def text(self, preset: Preset | str | None = None) -> str:
        """Return every proof or counterexample as text, under the label of its equation."""
        parts = (f"{label}: {proof}" for label, proof in self.texts(preset).items())
        return "\n".join([f"{self.claim.title}: {self.verdict}", *parts])

    def texts(self, preset: Preset | str | None = None) -> dict[str, str]:
        """Return every proof or counterexample as text, by the label of its equation."""
        chosen = self._presets(preset)
        return {label: proof.text(chosen[label]) for label, proof in self.proofs.items()}

    def latex(
        self, preset: Preset | str | None = None, *, dialect: str = "latex"
    ) -> dict[str, str]:
        """Return every derivation in LaTeX, by the label of its equation."""
        chosen = self._presets(preset)
        return {
            label: proof.latex(chosen[label], dialect=dialect)
            for label, proof in self.proofs.items()
        }

    def _presets(self, preset: Preset | str | None) -> dict[str, Preset | str | None]:
        """Return the preset of each equation by its label: proofs look as the claim does."""
        return {each.label: each.printed_in(preset) for each in self.claim.equations}

    def __repr__(self) -> str:
        return self.text()
