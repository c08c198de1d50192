"""Every derivation: its steps hold, a changed step does not, and the results are those of others.

What is derived is compared with what this library does not compute: exact sums of fractions over
all outcomes, SymPy's own statistics, NumPy, and numbers worked out by hand.
"""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy
import sympy.stats
from sympy import IndexedBase, KroneckerDelta, Sum

import symattn as sa
from symattn.variants.derived import Derivation
from symattn.variants.derived.chains import NOT_A_PROOF, Chain, Step
from symattn.variants.derived.counting import flops_of_heads
from symattn.variants.derived.expectations import Expected, VarianceOf
from symattn.variants.derived.experiments import Experiment
from symattn.variants.derived.jacobian import jacobian_of, softmax_of
from symattn.variants.derived.known import DERIVATIONS
from symattn.variants.derived.values import TOLERANCE, Point

each_name = pytest.mark.parametrize("name", DERIVATIONS)


@each_name
def test_a_derivation_checks(name: str) -> None:
    derivation = sa.derivation(name)
    checked = derivation.check()
    assert checked, checked.text()
    assert len(checked.steps) == len(derivation.steps)
    assert all(found.points for found in checked.steps)
    assert "FAILS" not in checked.text()


@each_name
def test_a_derivation_is_complete(name: str) -> None:
    derivation = sa.derivation(name)
    assert derivation.name == name
    assert derivation.title
    assert derivation.source
    assert derivation.assumptions
    assert derivation.conclusion
    for step in derivation.steps:
        assert isinstance(step.before, sympy.Expr)
        assert step.before != step.after, step.rule
        for words in (step.rule, step.reason):
            assert words == words.strip()
            assert words
            assert not words.endswith(".")
    for part in derivation.chains:
        for one, other in itertools.pairwise(part.steps):
            assert one.after == other.before


@each_name
def test_it_says_that_it_is_no_proof(name: str) -> None:
    derivation = sa.derivation(name)
    assert NOT_A_PROOF in derivation.text().splitlines()[0]
    assert "proved" not in derivation.text()
    assert repr(derivation) == derivation.text()
    for step in derivation.steps:
        assert step.rule in derivation.text()


def with_step(derivation: Derivation, at: int, changed: Step) -> Derivation:
    """The derivation with another step in the place of one."""
    steps = iter(range(len(derivation.steps)))
    chains = tuple(
        replace(part, steps=tuple(changed if next(steps) == at else step for step in part.steps))
        for part in derivation.chains
    )
    return replace(derivation, chains=chains)


def mutations(step: Step) -> list[Any]:
    """What the step could have led to by mistake."""
    after = step.after
    found = [after + sympy.Rational(1, 7), 2 * after + 1, -after - 1]
    for part in sympy.preorder_traversal(after):
        if isinstance(part, sympy.Pow):
            found.append(after.xreplace({part: part.base ** (part.exp + 1)}))
        if isinstance(part, KroneckerDelta):
            found.append(after.xreplace({part: sympy.S.One}))
        if isinstance(part, sympy.Add):
            found.append(after.xreplace({part: sympy.Add(*part.args[1:])}))
    return [mutant for mutant in found if mutant != after]


@each_name
def test_a_changed_step_fails_by_its_rule_and_on_numbers(name: str) -> None:
    derivation = sa.derivation(name)
    for step in derivation.steps:
        for mutant in mutations(step):
            changed = replace(step, after=mutant)
            assert not changed.replays()
            assert not changed.difference() <= TOLERANCE, (step.rule, mutant)


@each_name
def test_a_derivation_with_a_changed_step_does_not_check(name: str) -> None:
    derivation = sa.derivation(name)
    last = len(derivation.steps) - 1
    step = derivation.steps[last]
    checked = with_step(derivation, last, replace(step, after=step.after + 1)).check()
    assert not checked
    assert [bool(found) for found in checked.steps] == [True] * last + [False]
    assert f"({step.rule})" in checked.text()
    assert "FAILS" in checked.text()


@each_name
def test_a_derivation_whose_experiment_differs_does_not_check(name: str) -> None:
    found = Experiment("measured", ("x",), ((1,), (2,)), (True, False))
    checked = replace(sa.derivation(name), run=lambda: found).check()
    assert not checked
    assert all(checked.steps)
    assert "DIFFERS" in checked.text()


@each_name
def test_plain_sympy_prints_the_expressions(name: str) -> None:
    for step in sa.derivation(name).steps:
        assert sympy.latex(step.after)
        assert str(step.before)


def test_names() -> None:
    assert sa.derivations() == tuple(DERIVATIONS)
    assert sa.derivation("saturation") is sa.derivation("saturation")
    with pytest.raises(sa.UnknownNameError, match="did you mean 'saturation'"):
        sa.derivation("saturations")


# -- the variance of scores

C, D_K = sympy.Symbol("c", integer=True), sa.dim("d_k")
Q: Any = IndexedBase("q")
K: Any = IndexedBase("k")
SCORE = Sum(Q[C] * K[C], (C, 1, D_K))


def result(name: str, start: Any) -> Any:
    """The last line of the chain that begins with this one."""
    [part] = [part for part in sa.derivation(name).chains if part.start == start]
    return part.result


def test_what_is_derived_of_scores() -> None:
    assert result("variance_of_scores", Expected(SCORE)) == 0
    assert result("variance_of_scores", VarianceOf(SCORE)) == D_K
    assert result("variance_of_scores", VarianceOf(SCORE / sympy.sqrt(D_K))) == 1


@pytest.mark.parametrize("size", [1, 2, 3])
def test_variance_by_fractions(size: int) -> None:
    """Entries a with probability 1/(1 + a²), else −1/a: exactly d_k, over all outcomes."""
    entries = [
        ((Fraction(a), Fraction(1, 1 + a * a)), (Fraction(-1, a), Fraction(a * a, 1 + a * a)))
        for a in range(2, 2 + 2 * size)
    ]
    mean = square = Fraction(0)
    for outcome in itertools.product(*entries):
        chance = math.prod(probability for _, probability in outcome)
        values = [value for value, _ in outcome]
        score = sum(q * k for q, k in zip(values[:size], values[size:], strict=True))
        mean += chance * score
        square += chance * score**2
    assert (mean, square - mean**2) == (0, size)


def test_variance_by_sympys_statistics() -> None:
    third, half = sympy.Rational(1, 3), sympy.Rational(1, 2)
    entries = [
        sympy.stats.FiniteRV(f"x_{a}", {a: 1 / (1 + a**2), -1 / a: a**2 / (1 + a**2)})
        for a in (half, third, sympy.Integer(2), sympy.Integer(3))
    ]
    score = entries[0] * entries[1] + entries[2] * entries[3]
    assert sympy.stats.variance(score) == 2


COIN = [(mpmath.mpf(-1), mpmath.mpf(1) / 2), (mpmath.mpf(1), mpmath.mpf(1) / 2)]


def worst(part: Chain, point: Point) -> float:
    return max(replace(step, points=(point,)).difference() for step in part.steps)


@pytest.mark.parametrize(
    ("broken", "entry"),
    [
        ("mean 1", [(value + 1, chance) for value, chance in COIN]),
        ("variance 4", [(2 * value, chance) for value, chance in COIN]),
    ],
)
def test_every_assumption_on_the_entries_is_needed(broken: str, entry: Any) -> None:
    point = Point(symbols={"d_k": 2}, random={"q": [entry, entry], "k": [COIN, COIN]})
    fair = Point(symbols={"d_k": 2}, random={"q": [COIN, COIN], "k": [COIN, COIN]})
    [part] = [p for p in sa.derivation("variance_of_scores").chains if p.result == D_K]
    assert worst(part, fair) <= TOLERANCE
    assert worst(part, point) > 0.4, broken


def test_independence_is_needed() -> None:
    """With k = q the score is a sum of squares: its variance is not d_k."""
    normal = np.random.default_rng(5).normal(size=(20_000, 16))
    assert abs((normal * normal).sum(axis=-1).var() - 16) > 10


def test_the_texts_experiment() -> None:
    measured = sa.derivation("variance_of_scores").experiment()
    assert measured
    assert [row[0] for row in measured.rows] == [4, 64, 512]
    for row, deviation in zip(measured.rows, (2.0, 8.0, 22.6), strict=True):
        assert row[4] == pytest.approx(deviation, rel=0.03)
        assert row[5] == pytest.approx(1, rel=0.06)


def test_the_experiment_follows_from_its_seed() -> None:
    derivation = sa.derivation("variance_of_scores")
    runs = [derivation.experiment(d_k=[7], samples=500, seed=seed) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_the_band_holds_the_variance_and_is_narrow() -> None:
    for seed in range(20):
        [row] = (
            sa.derivation("variance_of_scores").experiment(d_k=[9], samples=4000, seed=seed).rows
        )
        assert float(row[2]) <= 9 <= float(row[3])
        assert float(row[3]) - float(row[2]) < 4


# -- the Jacobian and saturation


def test_the_jacobian_is_the_derivative() -> None:
    i, j = sympy.symbols("i j", integer=True)
    p: Any = IndexedBase("p")
    first, second, _ = sa.derivation("softmax_jacobian").chains
    assert first.result == p[i] * (KroneckerDelta(i, j) - p[j]) == second.start
    column = sympy.MatrixSymbol("p", 3, 1)
    matrix = second.result.args[0].subs(sa.dim("n"), 3)
    weights = sympy.Matrix([sympy.Rational(1, 2), sympy.Rational(1, 3), sympy.Rational(1, 6)])
    assert matrix.xreplace({column: weights.as_immutable()}).doit() == (
        sympy.diag(*weights) - weights * weights.T
    )


def test_the_jacobian_by_mpmath() -> None:
    scores = [2.0, 1.0, 0.5, -1.0]

    def weight(i: int) -> Any:
        return lambda *s: mpmath.exp(s[i]) / mpmath.fsum(map(mpmath.exp, s))

    with mpmath.workdps(30):
        found = [
            [mpmath.diff(weight(i), scores, tuple(int(j == k) for k in range(4))) for j in range(4)]
            for i in range(4)
        ]
    jacobian = jacobian_of(softmax_of(np.array(scores)))
    assert np.abs(np.array(found, dtype=float) - jacobian).max() < 1e-14


def test_the_texts_numbers() -> None:
    rows = sa.derivation("saturation").experiment().rows
    weights = {(row[0], row[1]): [float(x) for x in str(row[2]).split()] for row in rows}
    assert [round(x, 2) for x in weights["(2, 1, 0.5)", "1"]] == [0.63, 0.23, 0.14]
    assert weights["(2, 1, 0.5)", "8"] == [0.9997, 0.0003, 0.0]


def test_the_norm_vanishes_unless_the_maximum_is_tied() -> None:
    r = sa.dim("r")
    squared = sa.derivation("saturation").chains[2].result
    for ties in (1, 2, 3, 5):
        scores = np.array([1.5] * ties + [1.0, -2.0, 0.25])
        norm = np.linalg.norm(jacobian_of(softmax_of(200 * scores)))
        assert norm == pytest.approx(math.sqrt(squared.subs(r, ties)), abs=1e-12)
    assert squared.subs(r, 1) == 0


def test_an_experiment_shows_a_limit_that_is_wrong() -> None:
    """A gap of 0.001 is no tie, but at small t the norm is still that of one, and says so."""
    saturation = sa.derivation("saturation")
    assert saturation.experiment(scores=[1, 0.999], tied=[1, 1], scales=[1e5])
    [row, _] = saturation.experiment(scores=[1, 0.999], tied=[1, 1], scales=[1]).rows
    assert (row[3], row[4]) == ("0.5000", "0")


# -- the cost of heads


def test_what_heads_cost_by_hand() -> None:
    """Two heads of three features, five queries, four keys: d_model = 6."""
    assert flops_of_heads(h=2, n=5, m=4, d_k=3) == {
        "projections": 2 * (2 * 3 * 6 * 5 + 2 * 2 * 3 * 6 * 4),
        "scores": 2 * (2 * 4 * 3 * 5),
        "softmax": 2 * 6 * 4 * 5,
        "weighted sums": 2 * (2 * 3 * 4 * 5),
        "output": 2 * 6 * 6 * 5,
    }


@pytest.mark.parametrize(("h", "n", "m", "d_k"), [(1, 2, 3, 4), (2, 3, 5, 4), (5, 2, 3, 1)])
def test_only_the_softmax_costs_more(h: int, n: int, m: int, d_k: int) -> None:
    experiment = sa.derivation("cost_of_heads").experiment(h=h, n=n, m=m, d_k=d_k)
    assert experiment
    more = {row[0]: row[3] for row in experiment.rows}
    assert [step for step, flops in more.items() if flops] == (["softmax", "all"] if h > 1 else [])
    assert more["all"] == 6 * (h - 1) * n * m
    [_, one, every, _] = experiment.rows[-1]
    assert float(every) < float(one) * (1 + 3 / (2 * d_k))


def test_the_formula_of_the_difference() -> None:
    h, n, m, d_model = sa.dims("h n m d_model")
    *_, difference, _, share = sa.derivation("cost_of_heads").chains
    assert sympy.expand(difference.result - 6 * (h - 1) * n * m) == 0
    assert share.result.subs({h: 8, d_model: 512}) == sympy.Rational(21, 1027)


# -- what is refused


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("variance_of_scores", {"d_k": [0]}, sa.SizeError),
        ("variance_of_scores", {"d_k": [2.5]}, sa.SizeError),
        ("variance_of_scores", {"samples": 1}, sa.SizeError),
        ("variance_of_scores", {"samples": 10**12}, sa.SizeError),
        ("variance_of_scores", {"seed": -1}, sa.SizeError),
        ("softmax_jacobian", {"scores": []}, sa.InputError),
        ("softmax_jacobian", {"scores": [1.0, math.nan]}, sa.InputError),
        ("softmax_jacobian", {"scores": "2 1"}, sa.InputError),
        ("saturation", {"scales": [math.inf]}, sa.InputError),
        ("saturation", {"tied": [[1.0]]}, sa.InputError),
        ("cost_of_heads", {"h": 0}, sa.SizeError),
        ("cost_of_heads", {"n": "3"}, sa.SizeError),
        ("cost_of_heads", {"n": 10**9}, sa.SizeError),
    ],
)
def test_options_out_of_bounds(name: str, options: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        sa.derivation(name).experiment(**options)
