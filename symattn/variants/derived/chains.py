"""What a derivation is: chains of equal expressions, a named rule for each, checked on numbers.

A limit, an expectation or a count is not what the proof kernel decides.  So a derivation is no
proof, and says so: each step is taken by a rule that a person can read, and is checked in two ways
that know nothing of each other.  The rule, applied again, has to give what the step says; and
both sides have to have one value at every point of the chain (see `values`, beside this file).

Invariant: a chain is built by applying its rules, so no step is only claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from symattn.notation.dialects import dialect_named
from symattn.notation.displays import latex_aligned
from symattn.variants.derived.experiments import Experiment
from symattn.variants.derived.values import TOLERANCE, Point, difference
from symattn.variants.derived.writing import expression_latex, expression_text

NOT_A_PROOF = "derivation, not a proof: named steps, each checked on numbers"

_WIDEST = 64  # what is longer does not push the rules of the other lines aside


@dataclass(frozen=True, slots=True)
class Rule:
    """What leads from one line to the next, with its name and why it is right.

    ``points`` are for a rule that needs less than its chain assumes: it is checked where the other
    assumptions do not hold.
    """

    name: str
    reason: str
    apply: Callable[[Any], Any]
    points: tuple[Point, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a derivation: ``before = after`` by a rule; both are SymPy expressions.

    ``points`` are where it is checked.
    """

    rule: str
    before: Any
    after: Any
    reason: str
    apply: Callable[[Any], Any] = field(repr=False)
    points: tuple[Point, ...] = field(repr=False)

    def replays(self) -> bool:
        """Tell whether the rule, applied again, gives what the step says."""
        return self.apply(self.before) == self.after

    def difference(self) -> float:
        """Return how far apart both sides are, at the point where they are furthest apart."""
        return max(_magnitude(difference(self.before, self.after, at)) for at in self.points)


def _magnitude(number: float) -> float:
    return number if number == number else float("inf")  # what has no value agrees with nothing


@dataclass(frozen=True, slots=True)
class Chain:
    """Steps that lead from one expression to another."""

    title: str
    steps: tuple[Step, ...]

    @property
    def start(self) -> Any:
        """The first line."""
        return self.steps[0].before

    @property
    def result(self) -> Any:
        """The last line."""
        return self.steps[-1].after


def chain(title: str, start: Any, rules: Sequence[Rule], points: Sequence[Point]) -> Chain:
    """Return the chain that the rules, applied one after the other, make of an expression.

    Its steps are checked at these points, but for rules that have points of their own.
    """
    steps: list[Step] = []
    for rule in rules:
        after = rule.apply(start)
        at = rule.points or tuple(points)
        steps.append(Step(rule.name, start, after, rule.reason, rule.apply, at))
        start = after
    return Chain(title, tuple(steps))


@dataclass(frozen=True, slots=True)
class CheckedStep:
    """What checking a step found."""

    step: Step
    replays: bool
    difference: float
    points: int

    def __bool__(self) -> bool:
        return self.replays and self.difference <= TOLERANCE


@dataclass(frozen=True, slots=True)
class Checked:
    """What checking a derivation found; true as a condition only if everything agrees."""

    steps: tuple[CheckedStep, ...]
    experiment: Experiment

    def __bool__(self) -> bool:
        return all(self.steps) and bool(self.experiment)

    def text(self) -> str:
        """Return the findings as text."""
        points = sum(found.points for found in self.steps)
        worst = max(found.difference for found in self.steps)
        failed = [found for found in self.steps if not found]
        lines = [
            f"{len(self.steps)} steps at {points} points: largest difference {worst:.0e}",
            *(
                f"FAILS: {expression_text(found.step.before)} = "
                f"{expression_text(found.step.after)} ({found.step.rule})"
                for found in failed
            ),
            f"experiment: {'as derived' if self.experiment else 'DIFFERS from what is derived'}",
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.text()


@dataclass(frozen=True)
class Derivation:
    """Named steps from assumptions to a result, outside the proofs, with an experiment.

    ``chains`` are its parts, in order, each with a title and its own steps; ``steps`` are all of
    them.  ``conclusion`` says in words what the last lines mean.
    """

    name: str
    title: str
    source: str
    assumptions: tuple[str, ...]
    chains: tuple[Chain, ...]
    conclusion: str
    run: Callable[..., Experiment] = field(repr=False)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of all chains."""
        return tuple(step for part in self.chains for step in part.steps)

    def experiment(self, **options: Any) -> Experiment:
        """Return what is measured where the derivation says what should be.

        >>> import symattn as sa
        >>> measured = sa.derivation("variance_of_scores").experiment(d_k=(4, 64), samples=2000)
        >>> bool(measured)
        True

        Each derivation has options of its own; without any, the numbers are those of its source.
        """
        return self.run(**options)

    def check(self) -> Checked:
        """Check every step, by its rule and on numbers, and run the experiment.

        >>> import symattn as sa
        >>> bool(sa.derivation("softmax_jacobian").check())
        True

        The answer is true as a condition only if all agrees; its ``steps`` tell which do not.
        """
        steps = tuple(
            CheckedStep(step, step.replays(), step.difference(), len(step.points))
            for step in self.steps
        )
        return Checked(steps, self.experiment())

    def text(self) -> str:
        """Return the derivation as text for a terminal."""
        lines = [f"{self.title}  ({NOT_A_PROOF})", "Assumptions"]
        lines += [f"  {assumption}" for assumption in self.assumptions]
        for part in self.chains:
            lines += [part.title[:1].upper() + part.title[1:], f"  {expression_text(part.start)}"]
            shown = [expression_text(step.after) for step in part.steps]
            width = min(max(map(len, shown)), _WIDEST)
            lines += [
                f"    = {line:<{width}}    {step.rule}"
                for line, step in zip(shown, part.steps, strict=True)
            ]
        return "\n".join([*lines, "So", f"  {self.conclusion}"])

    def latex(self, *, dialect: str = "latex") -> str:
        r"""Return the steps as an ``aligned`` block, with the rule of each.

        >>> import symattn as sa
        >>> print(sa.derivation("cost_of_heads").latex().splitlines()[0])
        \begin{aligned}
        """
        lines = [
            (
                "" if k else expression_latex(part.start),
                expression_latex(step.after),
                step.rule,
            )
            for part in self.chains
            for k, step in enumerate(part.steps)
        ]
        return dialect_named(dialect).adapted(latex_aligned(lines))

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex(dialect='jupyter')}$"

    def __repr__(self) -> str:
        return self.text()
