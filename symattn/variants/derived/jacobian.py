"""The softmax Jacobian, by the quotient rule: ∂p_i/∂s_j = p_i (δ_ij − p_j).

The steps are checked with central differences in 100 digits, at every pair of positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath
import numpy as np
import sympy
from sympy import Derivative, IndexedBase, KroneckerDelta, Sum
from sympy.matrices.expressions.diagonal import DiagMatrix
from sympy.matrices.expressions.matexpr import MatrixElement

from symattn.nodes.sizes import Dim
from symattn.variants.derived.chains import Chain, Derivation, Rule, chain
from symattn.variants.derived.experiments import Experiment, finite
from symattn.variants.derived.sums import constant_in_front, expanded, sifted, term_by_term
from symattn.variants.derived.values import DIGITS, Point

_N = Dim("n")
_I, _J, _T = sympy.symbols("i j t", integer=True)
_S: Any = IndexedBase("s")
_P: Any = IndexedBase("p")
_TOTAL = Sum(sympy.exp(_S[_T]), (_T, 1, _N))
_COLUMN = sympy.MatrixSymbol("p", _N, 1)
ENTRY = _P[_I] * (KroneckerDelta(_I, _J) - _P[_J])
"""The derivative of p_i by s_j, as derived here."""

_LOGITS = ("0.7", "-1.3", "0.2", "1.9")
_TEXT_SCORES = (2.0, 1.0, 0.5)


def _points() -> tuple[Point, ...]:
    """Return a point for every pair of positions; the diagonal is among them."""
    with mpmath.workdps(DIGITS):
        scores = [mpmath.mpf(number) for number in _LOGITS]
        powers = [mpmath.exp(score) for score in scores]
        weights = [power / mpmath.fsum(powers) for power in powers]
    size = len(_LOGITS)
    return tuple(
        Point(symbols={"n": size, "i": i, "j": j}, arrays={"s": scores, "p": weights})
        for i in range(1, size + 1)
        for j in range(1, size + 1)
    )


def quotient_rule(expr: Any) -> Any:
    """Rewrite (a / b)' into (a' b − a b') / b²."""

    def by_rule(part: Any) -> Any:
        above, below = sympy.fraction(part.expr)
        if below == 1:
            return part
        ((by, _),) = part.variable_count
        slopes = Derivative(above, by) * below - above * Derivative(below, by)
        return slopes / below**2

    return expr.replace(lambda part: isinstance(part, Derivative), by_rule)


def slope_of_sum(expr: Any) -> Any:
    """Rewrite the derivative of a finite sum into the sum of the derivatives."""

    def inside(part: Any) -> Any:
        ((by, _),) = part.variable_count
        return Sum(Derivative(part.expr.function, by), *part.expr.limits)

    return expr.replace(
        lambda part: isinstance(part, Derivative) and isinstance(part.expr, Sum), inside
    )


def slope_computed(expr: Any) -> Any:
    """Compute derivatives by SymPy."""
    return expr.replace(lambda part: isinstance(part, Derivative), lambda part: part.doit())


def softmax_named(expr: Any) -> Any:
    """Write p_a for exp(s_a) / Σ_t exp(s_t)."""
    return expr.xreplace({sympy.exp(_S[index]): _P[index] * _TOTAL for index in (_I, _J)})


def as_matrix_entry(expr: Any) -> Any:
    """Write the entry of diag(p) − p pᵀ for p_i δ_ij − p_i p_j."""
    matrix = DiagMatrix(_COLUMN) - _COLUMN * _COLUMN.T
    written_out = KroneckerDelta(_I, _J) * _P[_I] - _P[_I] * _P[_J]
    return MatrixElement(matrix, _I, _J) if sympy.expand(expr - written_out) == 0 else expr


def _entry() -> Chain:
    return chain(
        "the derivative of a weight by a score",
        Derivative(sympy.exp(_S[_I]) / _TOTAL, _S[_J]),
        [
            Rule("quotient rule", "the sum of exponentials is positive", quotient_rule),
            Rule("derivative of a sum", "the sum is finite", slope_of_sum),
            Rule("derivative of exp", "exp(s_i) depends on s_j only for i = j", slope_computed),
            Rule("one term is left", "δ_jt is 0 unless t = j", sifted),
            Rule("one fraction a term", "a common factor cancels", sympy.expand),
            Rule("softmax by its name", "p_i = exp(s_i) / Σ_t exp(s_t)", softmax_named),
            Rule("common factor", "p_i is in both terms", sympy.factor_terms),
        ],
        _points(),
    )


def _matrix() -> Chain:
    return chain(
        "all derivatives in one matrix",
        ENTRY,
        [
            Rule("multiplied out", "distributivity", sympy.expand),
            Rule(
                "entries of matrices",
                "diag(p) has p_i δ_ij at (i, j), p pᵀ has p_i p_j",
                as_matrix_entry,
            ),
        ],
        _points(),
    )


def _row_sum() -> Chain:
    return chain(
        "what a shift of all scores does",
        Sum(ENTRY, (_J, 1, _N)),
        [
            Rule("multiplied out", "distributivity", expanded),
            Rule("sum of a sum", "term by term", term_by_term),
            Rule("one term is left", "δ_ij is 0 unless j = i", sifted),
            Rule("constant in front", "p_i does not depend on j", constant_in_front),
            Rule("weights sum to one", "Σ_j p_j = 1", _summed_to_one),
        ],
        [point for point in _points() if point.symbols["j"] == 1],
    )


def _summed_to_one(expr: Any) -> Any:
    return expr.xreplace({Sum(_P[_J], (_J, 1, _N)): sympy.S.One})


def differences(scores: Sequence[float] = _TEXT_SCORES, step: float = 1e-6) -> Experiment:
    """Compare diag(p) − p pᵀ with central differences of a float64 softmax.

    >>> bool(differences([0.0, 3.0]))
    True

    A row is one weight: its derivatives by every score, and the largest difference found.
    Raises `InputError` for scores that are no finite numbers.
    """
    at = finite("scores", scores)
    weights = softmax_of(at)
    jacobian = jacobian_of(weights)
    moved = np.eye(len(at)) * step
    found = np.array(
        [(softmax_of(at + shift) - softmax_of(at - shift)) / (2 * step) for shift in moved]
    ).T  # one column a shifted score
    apart = np.abs(found - jacobian).max(axis=1)
    return Experiment(
        f"Jacobian of softmax at ({', '.join(f'{score:g}' for score in at)})",
        ("i", "p_i", *(f"∂p_i/∂s_{j + 1}" for j in range(len(at))), "from differences"),
        tuple(
            (i + 1, float(weights[i]), *map(float, jacobian[i]), float(apart[i]))
            for i in range(len(at))
        ),
        tuple(bool(gap < 1e-8) for gap in apart),
    )


def softmax_of(scores: np.ndarray) -> np.ndarray:
    """Return the softmax of a vector in float64."""
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def jacobian_of(weights: np.ndarray) -> np.ndarray:
    """Return diag(p) − p pᵀ."""
    return np.diag(weights) - np.outer(weights, weights)


def softmax_jacobian() -> Derivation:
    """Return the derivation of J = diag(p) − p pᵀ."""
    return Derivation(
        name="softmax_jacobian",
        title="The Jacobian of softmax is diag(p) − p pᵀ",
        source="the quotient rule; Bridle 1990, Probabilistic Interpretation of Feedforward "
        "Classification Network Outputs",
        assumptions=(
            "p_i = exp(s_i) / Σ_t exp(s_t) for i = 1, …, n",
            "the scores s are finite real numbers",
        ),
        chains=(_entry(), _matrix(), _row_sum()),
        conclusion="J = diag(p) − p pᵀ is symmetric, and its rows sum to 0: a shift of all scores "
        "changes nothing",
        run=differences,
    )
