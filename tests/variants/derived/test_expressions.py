"""Expressions of derivations: how they are written, their values, and rules that change them."""

from typing import Any

import mpmath
import pytest
import sympy
from sympy import Derivative, IndexedBase, KroneckerDelta, Limit, Sum

import symattn as sa
from symattn.variants.derived import expectations, sums
from symattn.variants.derived.expectations import Expected, VarianceOf
from symattn.variants.derived.values import Point, difference, value_at
from symattn.variants.derived.writing import expression_latex, expression_text

c, e, i, j = sympy.symbols("c e i j", integer=True)
t, n, d_k = sympy.Symbol("t", positive=True), sa.dim("n"), sa.dim("d_k")
p: Any = IndexedBase("p")
q: Any = IndexedBase("q")
k: Any = IndexedBase("k")
total: Any = Sum(sympy.exp(p[j]), (j, 1, n))
SUM: Any = Sum(p[i], (i, 1, n))

WRITTEN = [
    (sympy.Integer(-3), "−3", "-3"),
    (sympy.Rational(2, 3) * n, "2 n / 3", r"\frac{2 n}{3}"),
    (n - 1, "n − 1", "n - 1"),
    (1 - n, "1 − n", "1 - n"),
    (-n, "−n", "-n"),
    (2 * (n + 1), "2 n + 2", "2 n + 2"),
    (t * (n + 1), "t (n + 1)", r"t \left(n + 1\right)"),
    ((n + 1) ** 2, "(n + 1)²", r"\left(n + 1\right)^{2}"),
    (n**t, "n^t", "n^{t}"),
    (n ** (t + 1), "n^(t + 1)", "n^{t + 1}"),
    (1 / n**t, "1 / n^t", r"\frac{1}{n^{t}}"),
    (1 / (n * t), "1 / (n t)", r"\frac{1}{n t}"),
    (n / sympy.sqrt(d_k), "n / √d_k", r"\frac{n}{\sqrt{d_k}}"),
    (sympy.sqrt(n + 1), "√(n + 1)", r"\sqrt{n + 1}"),
    (1 / (n + 1), "1 / (n + 1)", r"\frac{1}{n + 1}"),
    (k[c] * q[c], "q_c k_c", "q_{c} k_{c}"),
    (KroneckerDelta(i, j) * p[i], "δ_ij p_i", r"\delta_{ij} p_{i}"),
    (sympy.exp(-t * p[i]), "exp(−t p_i)", "e^{-t p_{i}}"),
    (total, "Σ_{j=1}^{n} exp(p_j)", r"\sum_{j=1}^{n} e^{p_{j}}"),
    (total**2, "(Σ_{j=1}^{n} exp(p_j))²", r"\left(\sum_{j=1}^{n} e^{p_{j}}\right)^{2}"),
    (2 * total, "2 Σ_{j=1}^{n} exp(p_j)", r"2 \sum_{j=1}^{n} e^{p_{j}}"),
    (
        Sum(p[i] + 1, (i, 1, n)),
        "Σ_{i=1}^{n} (p_i + 1)",
        r"\sum_{i=1}^{n} \left(p_{i} + 1\right)",
    ),
    (SUM + 1, "1 + Σ_{i=1}^{n} p_i", r"1 + \sum_{i=1}^{n} p_{i}"),
    (
        Derivative(p[i] ** 2, p[j]) * total,
        "(∂/∂p_j p_i²) Σ_{j=1}^{n} exp(p_j)",
        r"\left(\frac{\partial}{\partial p_{j}} p_{i}^{2}\right) \sum_{j=1}^{n} e^{p_{j}}",
    ),
    (
        Limit(1 / t, t, sympy.oo, dir="-"),
        "lim_{t → ∞} 1 / t",
        r"\lim_{t \to \infty} \frac{1}{t}",
    ),
    (Expected(q[c]) ** 2, "E[q_c]²", r"\mathbb{E}\left[q_{c}\right]^{2}"),
    (VarianceOf(q[c] + 1), "Var(q_c + 1)", r"\mathrm{Var}\left(q_{c} + 1\right)"),
    (sa.dim("d_model") * n, "n d_model", r"n d_{\text{model}}"),
]


@pytest.mark.parametrize(("expr", "text", "latex"), WRITTEN, ids=[row[1] for row in WRITTEN])
def test_writing(expr: Any, text: str, latex: str) -> None:
    assert expression_text(expr) == text
    assert expression_latex(expr) == latex


def test_what_no_derivation_uses_is_refused() -> None:
    for use in (expression_text, lambda expr: value_at(expr, Point(symbols={"t": 1}))):
        with pytest.raises(sa.NotSupportedError, match="log"):
            use(sympy.log(t))


DIE = [(mpmath.mpf(side), mpmath.mpf(1) / 6) for side in range(1, 7)]
HERE = Point(
    symbols={"n": 3, "i": 2, "j": 3, "t": 5},
    arrays={"p": [1, 2, 4]},
    random={"q": [DIE, DIE], "k": [DIE]},
)


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        (p[i] * p[1], 2),
        (Sum(p[c] ** 2, (c, 2, n)), 20),
        (Sum(p[c] * KroneckerDelta(c, e), (e, 1, n), (c, 1, 2)), 3),
        (Sum(p[e], (e, 1, c), (c, 1, n)), 1 + 3 + 7),
        (Derivative(p[i] ** 3, p[i]), 12),
        (Derivative(p[i] ** 3, p[j]), 0),
        (Limit((3 * t + 1) / t, t, sympy.oo, dir="-"), 3),
        (Expected(q[1]), 3.5),
        (Expected(q[1] * q[2] + k[1]), 3.5**2 + 3.5),
        (Expected(q[1] ** 2), 91 / 6),
        (VarianceOf(q[1] + q[2]), 35 / 6),
        (VarianceOf(2 * q[1]), 35 / 3),
        (VarianceOf(q[1] + 7), 35 / 12),
    ],
    ids=str,
)
def test_values(expr: Any, value: float) -> None:
    assert float(value_at(expr, HERE)) == pytest.approx(value, rel=1e-15, abs=1e-15)


def test_a_limit_that_is_none_has_no_value() -> None:
    endless = Limit(t, t, sympy.oo, dir="-")
    assert mpmath.isnan(value_at(endless, HERE))
    assert not difference(endless, endless, HERE) <= 1


ENTRIES: Any = Sum(q[c], (c, 1, n))
SQUARE = ENTRIES**2


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        (expectations.linear, Expected(q[c] + 1), None),
        (expectations.independent_arrays, Expected(q[c] ** 2), None),
        (expectations.independent_arrays, Expected(k[c] * (q[c] + k[c])), None),
        (
            expectations.independent_arrays,
            Expected(k[c] * q[c] * q[e]),
            Expected(k[c]) * Expected(q[c] * q[e]),
        ),
        (expectations.independent_entries, Expected(q[c] * k[e]), None),
        (expectations.zero_mean, Expected(q[c] ** 2), None),
        (expectations.unit_variance, Expected(q[c] ** 3), None),
        (expectations.unit_variance, Expected(q[c]), None),
        (expectations.second_moments, Expected(q[c] * q[e]), KroneckerDelta(c, e)),
        (expectations.constant_factors, VarianceOf(n * q[c]), n**2 * VarianceOf(q[c])),
        (expectations.constant_factors, VarianceOf(q[c] * k[c]), None),
        (
            expectations.square_of_sum,
            SQUARE,
            Sum(q[c] * q[e], (e, 1, n), (c, 1, n)),
        ),
        (expectations.square_of_sum, SQUARE**2, None),
        (sums.sifted, Sum(KroneckerDelta(i, j) * p[c], (c, 1, n)), None),
        (sums.counted, Sum(p[c], (c, 1, n)), None),
        (sums.counted, Sum(p[i], (c, 1, n)), n * p[i]),
        (sums.separated, Sum(p[c + e], (e, 1, n), (c, 1, n)), None),
        (sums.separated, Sum(p[c], (c, 1, n)), None),
        (sums.constant_in_front, Sum(p[i] * p[c], (c, 1, n)), p[i] * Sum(p[c], (c, 1, n))),
    ],
    ids=str,
)
def test_rules_do_only_what_they_are_for(rule: Any, before: Any, after: Any) -> None:
    assert rule(before) == (before if after is None else after)
