"""Why large scores stop learning: the softmax Jacobian vanishes, unless the maximum is tied.

With the scores t·s and t → ∞ the softmax goes to the uniform distribution on the r largest scores.
The Frobenius norm of its Jacobian goes to √(r − 1) / r, which is 0 only for r = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath
import numpy as np
import sympy
from sympy import IndexedBase, KroneckerDelta, Limit, Pow, Sum

from symattn.nodes.sizes import Dim
from symattn.variants.derived.chains import Chain, Derivation, Rule, chain
from symattn.variants.derived.experiments import Experiment, finite
from symattn.variants.derived.jacobian import jacobian_of, softmax_of
from symattn.variants.derived.sums import (
    constant_in_front,
    expanded,
    limits_computed,
    limits_inside,
    separated,
    sifted,
    term_by_term,
)
from symattn.variants.derived.values import DIGITS, Point
from symattn.variants.sources import VASWANI

_N, _R, _A = Dim("n"), Dim("r"), Dim("a")
_I, _J = sympy.symbols("i j", integer=True)
_T = sympy.Symbol("t", positive=True)
_P: Any = IndexedBase("p")
_S: Any = IndexedBase("s")
_GAP: Any = IndexedBase("Delta")
_SQUARES, _CUBES = sympy.symbols("S_2 S_3", positive=True)

# The gaps to the largest score of those that are below it; each point takes as many as it needs.
_GAPS = ("0.5", "1.25", "3")
_TEXT_SCORES = (2.0, 1.0, 0.5)
_TIED_SCORES = (2.0, 2.0, 0.5)


def _points() -> tuple[Point, ...]:
    """Return points with one, two and three tied scores, at two powers each."""
    return tuple(_point(ties, power) for ties in (1, 2, 3) for power in (2, 3))


def _point(ties: int, power: int) -> Point:
    """Return five or six scores, of which the first ones are tied for the maximum of 2."""
    with mpmath.workdps(DIGITS):
        gaps = [mpmath.mpf(0)] * ties + [mpmath.mpf(gap) for gap in _GAPS]
        scores = [2 - gap for gap in gaps]
        powers = [mpmath.exp(score) for score in scores]
        weights = [value / mpmath.fsum(powers) for value in powers]
        limits = {f"S_{a}": mpmath.mpf(ties) ** (1 - a) for a in (2, 3)}
    return Point(
        symbols={"n": len(gaps), "r": ties, "a": power, **limits},
        arrays={"p": weights, "s": scores, "Delta": gaps},
    )


def _norm() -> Chain:
    jacobian = _P[_I] * (KroneckerDelta(_I, _J) - _P[_J])
    return chain(
        "the squared Frobenius norm of the Jacobian",
        Sum(jacobian**2, (_J, 1, _N), (_I, 1, _N)),
        [
            Rule("multiplied out", "δ_ij² = δ_ij", expanded),
            Rule("sum of a sum", "term by term", term_by_term),
            Rule("one term is left", "δ_ij is 0 unless j = i", sifted),
            Rule("product of sums", "p_i² does not depend on j, nor p_j² on i", separated),
        ],
        _points(),
    )


def shifted(expr: Any) -> Any:
    """Take the largest score off every score, above and below the bar: −Δ is what is left."""
    return expr.replace(sympy.exp, lambda power: sympy.exp(power.xreplace(_LEFT)))


_LEFT = {_S[index]: -_GAP[index] for index in (_I, _J)}


def tied_apart(expr: Any) -> Any:
    """Split sums over all scores into the r tied ones, whose gap is 0, and the others."""

    def split(part: Any) -> Any:
        ((index, _, last),) = part.limits
        tied = part.function.xreplace({_GAP[index]: sympy.S.Zero})
        return _R * tied + Sum(part.function, (index, _R + 1, last))

    return expr.replace(lambda part: isinstance(part, Sum), split)


def _powers() -> Chain:
    total = Sum(sympy.exp(_T * _S[_J]), (_J, 1, _N))
    return chain(
        "Σ_i p_i^a as the scores t·s grow",
        Limit(Sum(sympy.exp(_A * _T * _S[_I]) / total**_A, (_I, 1, _N)), _T, sympy.oo, dir="-"),
        [
            Rule("shift invariance of softmax", "Δ_i = max s − s_i", shifted),
            Rule("common denominator", "the total does not depend on i", constant_in_front),
            Rule("tied scores apart", "Δ_i = 0 for i = 1, …, r", tied_apart),
            Rule("limit term by term", "finite sums; the total is at least r", limits_inside),
            Rule("limit of exp", "Δ_i > 0 for i > r", limits_computed),
            Rule("powers of r", "r · r^(−a)", sympy.powsimp),
        ],
        _points(),
    )


def _limit(powers: Chain) -> Chain:
    def in_terms_of_ties(expr: Any) -> Any:
        return expr.xreplace(
            {total: powers.result.xreplace({_A: sympy.Integer(a)}) for total, a in _TOTALS}
        )

    return chain(
        "the squared norm at the limit, with S_a the limit of Σ_i p_i^a",
        _SQUARES - 2 * _CUBES + Pow(_SQUARES, 2),
        [
            Rule("limits of the powers", "S_a = r^(1 − a), as derived above", in_terms_of_ties),
            Rule("one fraction", "common denominator r²", sympy.factor),
        ],
        _points(),
    )


_TOTALS = ((_SQUARES, 2), (_CUBES, 3))


def _unique(limit: Chain) -> Chain:
    return chain(
        "one largest score",
        limit.result,
        [Rule("r = 1", "the maximum is unique", lambda expr: expr.xreplace({_R: sympy.S.One}))],
        [_point(1, 2)],
    )


def _tied(limit: Chain) -> Chain:
    return chain(
        "two largest scores",
        limit.result,
        [Rule("r = 2", "the maximum is tied", lambda expr: expr.xreplace({_R: sympy.Integer(2)}))],
        [_point(2, 2)],
    )


def scaled_scores(
    scores: Sequence[float] = _TEXT_SCORES,
    tied: Sequence[float] = _TIED_SCORES,
    scales: Sequence[float] = (1, 8, 64),
) -> Experiment:
    """Compute the softmax of growing scores, without and with a tie, and the norm of its Jacobian.

    >>> print(scaled_scores(scales=(1, 8)).text())
    Softmax of t·s in float64, and the Frobenius norm of its Jacobian
      s            t  softmax               norm    limit
      (2, 1, 0.5)  1  0.6285 0.2312 0.1402  0.4007  0       as derived
      (2, 1, 0.5)  8  0.9997 0.0003 0.0000  0.0007  0       as derived
      (2, 2, 0.5)  1  0.4498 0.4498 0.1004  0.4698  0.5000  as derived
      (2, 2, 0.5)  8  0.5000 0.5000 0.0000  0.5000  0.5000  as derived

    A row is as derived if its norm is as far from the limit as the scores that are not tied allow:
    at most 6 n exp(−t·gap), with the gap from the largest score to the next; for the weights are
    off by 2 n exp(−t·gap) in all, and the Jacobian by three times as much.  Raises `InputError` for
    scores that are no finite numbers.
    """
    rows, as_derived = [], []
    for at in (finite("scores", scores), finite("tied", tied)):
        gaps = at.max() - at
        ties = int((gaps == 0).sum())
        limit = np.sqrt(ties - 1) / ties
        for scale in finite("scales", scales):
            weights = softmax_of(scale * at)
            norm = np.linalg.norm(jacobian_of(weights))
            rest = np.exp(-scale * gaps[gaps > 0].min()) if ties < len(at) else 0.0
            as_derived.append(bool(abs(norm - limit) <= 6 * len(at) * rest + 1e-12))
            rows.append(
                (
                    f"({', '.join(f'{score:g}' for score in at)})",
                    f"{scale:g}",
                    " ".join(f"{weight:.4f}" for weight in weights),
                    f"{norm:.4f}",
                    f"{limit:.4f}" if limit else "0",
                )
            )
    return Experiment(
        "Softmax of t·s in float64, and the Frobenius norm of its Jacobian",
        ("s", "t", "softmax", "norm", "limit"),
        tuple(rows),
        tuple(as_derived),
    )


def saturation() -> Derivation:
    """Return the derivation of the norm of the softmax Jacobian as the scores grow."""
    powers = _powers()
    limit = _limit(powers)
    return Derivation(
        name="saturation",
        title="Softmax of large scores: its Jacobian vanishes, unless the maximum is tied",
        source=f"{VASWANI}, section 3.2.1",
        assumptions=(
            "p = softmax(t·s) with t > 0, for n finite scores s",
            "J_ij = p_i (δ_ij − p_j), the derivation softmax_jacobian",
            "Δ_i = max s − s_i; r scores are tied for the maximum, sorted so that these are the "
            "first; a is a positive integer",
        ),
        chains=(_norm(), powers, limit, _unique(limit), _tied(limit)),
        conclusion="‖J‖ goes to √(r − 1) / r: to 0 if the maximum is unique, else to the Jacobian "
        "of the uniform distribution on the r tied scores, which is not 0",
        run=scaled_scores,
    )
