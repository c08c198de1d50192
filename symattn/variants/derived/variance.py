"""Why scores are divided by √d_k: the variance of a dot product grows with its length.

The steps hold for any distribution of the entries; they are checked exactly, over all outcomes of
entries that take two values each, and no two of them alike.  What needs no mean of 0 is checked
with other means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mpmath
import numpy as np
import sympy
from sympy import IndexedBase, Sum

from symattn.errors import SizeError
from symattn.nodes.sizes import Dim
from symattn.tags import check_size
from symattn.variants.derived.chains import Chain, Derivation, Rule, chain
from symattn.variants.derived.expectations import (
    Expected,
    VarianceOf,
    constant_factors,
    independent_arrays,
    independent_entries,
    linear,
    second_moments,
    square_of_sum,
    unit_variance,
    variance_defined,
    zero_mean,
)
from symattn.variants.derived.experiments import Experiment
from symattn.variants.derived.sums import counted, sifted
from symattn.variants.derived.values import DIGITS, Outcomes, Point
from symattn.variants.sources import VASWANI

_D = Dim("d_k")
_C, _E = sympy.symbols("c e", integer=True)
_Q: Any = IndexedBase("q")
_K: Any = IndexedBase("k")
_X: Any = IndexedBase("x")
_SCORE = Sum(_Q[_C] * _K[_C], (_C, 1, _D))

_MEAN_ZERO = "every entry has mean 0"
_TEXT_SIZES = (4, 64, 512)
_BAND = 4.0  # standard errors: a measurement falls outside about once in 16,000 times
_MOST_DRAWN = 10**9
_MOST_NUMBERS = 2**22  # at a time, so that many samples need no more memory than few


def _entry(value: int, mean: int = 0) -> Outcomes:
    """Return an entry of this mean and of variance 1 that takes two values.

    Without its mean it is a with probability 1 / (1 + a²) and −1 / a otherwise.
    """
    with mpmath.workdps(DIGITS):
        a = mpmath.mpf(value)
        return ((mean + a, 1 / (1 + a**2)), (mean - 1 / a, a**2 / (1 + a**2)))


def _points(mean: int = 0) -> tuple[Point, ...]:
    """Return a point for two and one for three entries of a query and of a key."""
    return tuple(
        Point(
            symbols={"d_k": size},
            random={
                "q": [_entry(2 + at, mean * at) for at in range(size)],
                "k": [_entry(-3 - 2 * at, mean + at * mean) for at in range(size)],
            },
        )
        for size in (2, 3)
    )


def _pairs(mean: int = 0) -> tuple[Point, ...]:
    """Return a point for every pair of two entries."""
    entries = {"x": [_entry(2, mean), _entry(-3, 2 * mean)]}
    return tuple(Point(symbols={"c": c, "e": e}, random=entries) for c in (1, 2) for e in (1, 2))


_ANY = _points(mean=1)
"""For the rules that hold whatever the means are."""


def _moments() -> Chain:
    return chain(
        "the entries of a query, or of a key",
        Expected(_X[_C] * _X[_E]),
        [
            Rule(
                "independent entries",
                "the expectation of a product of independent quantities is the product of theirs; "
                "for c = e both are one",
                independent_entries,
                _pairs(mean=1),
            ),
            Rule("mean 0", _MEAN_ZERO, zero_mean),
            Rule("variance 1", "E[x²] = Var(x) + E[x]² = 1 + 0", unit_variance),
        ],
        _pairs(),
    )


def _mean() -> Chain:
    return chain(
        "the mean of a score",
        Expected(_SCORE),
        [
            Rule("linearity of expectation", "the sum is finite", linear, _ANY),
            Rule("q and k independent", "E[X Y] = E[X] E[Y]", independent_arrays, _ANY),
            Rule("mean 0", _MEAN_ZERO, lambda expr: zero_mean(expr).doit()),
        ],
        _points(),
    )


def _variance(mean: Chain) -> Chain:
    return chain(
        "the variance of a score",
        VarianceOf(_SCORE),
        [
            Rule("definition of variance", "Var(X) = E[X²] − E[X]²", variance_defined, _ANY),
            Rule(
                "mean of a score",
                "it is 0, as derived above",
                lambda expr: expr.xreplace({mean.start: mean.result}),
            ),
            Rule("square of a sum", "every term times every term", square_of_sum, _ANY),
            Rule("linearity of expectation", "the sum is finite", linear, _ANY),
            Rule("q and k independent", "E[X Y] = E[X] E[Y]", independent_arrays, _ANY),
            Rule("moments of the entries", "E[x_c x_e] = δ_ce, as derived above", second_moments),
            Rule("one term is left", "δ_ce is 0 unless e = c", sifted),
            Rule("equal terms", "d_k terms of 1", counted),
        ],
        _points(),
    )


def _scaled(variance: Chain) -> Chain:
    return chain(
        "the variance of a scaled score",
        VarianceOf(_SCORE / sympy.sqrt(_D)),
        [
            Rule("constant factor", "Var(a X) = a² Var(X)", constant_factors, _ANY),
            Rule(
                "variance of a score",
                "it is d_k, as derived above",
                lambda expr: expr.xreplace({variance.start: variance.result}),
            ),
        ],
        _points(),
    )


def measured(d_k: Sequence[int] = _TEXT_SIZES, samples: int = 10_000, seed: int = 0) -> Experiment:
    """Draw queries and keys from the standard normal distribution and measure their scores.

    >>> found = measured(d_k=[4], samples=2000, seed=1)
    >>> found.columns[:3]
    ('d_k', 'variance', 'from')

    ``from`` and ``to`` are four standard errors below and above the measured variance; a row is as
    derived if d_k lies between them.  Raises `SizeError` for what is no positive integer, for fewer
    than two samples, and for more numbers than are drawn in about a minute.
    """
    check_size("samples", samples, least=2)
    sizes = [check_size("d_k", size) for size in d_k]
    if sum(sizes) * samples > _MOST_DRAWN:
        raise SizeError("too large")
    random = np.random.default_rng(check_size("seed", seed, least=0))
    rows, as_derived = [], []
    for size in sizes:
        scores = _scores(size, samples, random)
        variance = float(scores.var(ddof=1))
        fourth = float(np.mean((scores - scores.mean()) ** 4))
        band = _BAND * math.sqrt(max(fourth - variance**2, 0) / samples)
        low, high = variance - band, variance + band
        rows.append((size, variance, low, high, math.sqrt(variance), variance / size))
        as_derived.append(low <= size <= high)
    return Experiment(
        f"Variance of q·k over {samples} pairs, entries standard normal, seed {seed}",
        ("d_k", "variance", "from", "to", "deviation", "variance of q·k / √d_k"),
        tuple(rows),
        tuple(as_derived),
    )


def _scores(size: int, samples: int, random: np.random.Generator) -> np.ndarray:
    at_a_time = max(1, _MOST_NUMBERS // size)
    parts = []
    for start in range(0, samples, at_a_time):
        shape = (min(at_a_time, samples - start), size)
        parts.append((random.normal(size=shape) * random.normal(size=shape)).sum(axis=-1))
    return np.concatenate(parts)


def variance_of_scores() -> Derivation:
    """Return the derivation of Var(q·k) = d_k."""
    mean = _mean()
    variance = _variance(mean)
    return Derivation(
        name="variance_of_scores",
        title="The variance of a score is d_k, of a scaled score 1",
        source=f"{VASWANI}, footnote 4",
        assumptions=(
            "q·k = Σ_c q_c k_c over the d_k entries of a query and a key",
            "all entries of q and k are independent random numbers",
            "every entry has mean 0 and variance 1; x stands for q or k",
        ),
        chains=(_moments(), mean, variance, _scaled(variance)),
        conclusion="scores spread like √d_k; divided by √d_k they spread like 1 for every d_k",
        run=measured,
    )
