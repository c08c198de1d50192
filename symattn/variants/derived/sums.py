"""Rules on finite sums, as every derivation needs them: take apart, sift, count, limit.

Each takes a SymPy expression and returns it rewritten wherever the rule applies.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Add, Indexed, KroneckerDelta, Limit, Mul, Pow, Sum


def expanded(expr: Any) -> Any:
    """Multiply out, inside sums too."""
    return expr.replace(
        lambda part: isinstance(part, Sum),
        lambda part: Sum(sympy.expand(part.function), *part.limits),
    )


def term_by_term(expr: Any) -> Any:
    """Rewrite Σ (a + b) into Σ a + Σ b, and take constant coefficients in front.

    >>> x, i, n = sympy.IndexedBase("x"), sympy.Symbol("i"), sympy.Symbol("n")
    >>> term_by_term(Sum(2 * x[i] - x[i] ** 2, (i, 1, n)))
    2*Sum(x[i], (i, 1, n)) - Sum(x[i]**2, (i, 1, n))
    """

    def taken_apart(part: Any) -> Any:
        terms = (term.as_coeff_Mul() for term in Add.make_args(part.function))
        return Add(*(number * Sum(rest, *part.limits) for number, rest in terms))

    return expr.replace(lambda part: isinstance(part, Sum), taken_apart)


def sifted(expr: Any) -> Any:
    """Rewrite Σ_e δ_ce f_e into f_c; both indices run over the same range.

    >>> x, n = sympy.IndexedBase("x"), sympy.Symbol("n")
    >>> c, e = sympy.symbols("c e")
    >>> sifted(Sum(KroneckerDelta(c, e) * x[e], (e, 1, n)))
    x[c]
    """

    def picked(part: Any) -> Any:
        factors = Mul.make_args(part.function)
        for delta in (factor for factor in factors if isinstance(factor, KroneckerDelta)):
            for limit in part.limits:
                if limit[0] in delta.args:
                    (kept,) = (index for index in delta.args if index != limit[0])
                    rest = Mul(*(factor for factor in factors if factor != delta))
                    others = [other for other in part.limits if other != limit]
                    body = rest.xreplace({limit[0]: kept})
                    return Sum(body, *others) if others else body
        return part

    return expr.replace(lambda part: isinstance(part, Sum), picked)


def constant_in_front(expr: Any) -> Any:
    """Rewrite Σ_i c f_i into c Σ_i f_i, where c does not depend on i."""

    def in_front(part: Any) -> Any:
        ((index, *_),) = part.limits
        fixed, rest = part.function.as_independent(index, as_Add=False)
        return fixed * Sum(rest, *part.limits)

    return expr.replace(lambda part: isinstance(part, Sum), in_front)


def counted(expr: Any) -> Any:
    """Rewrite a sum of equal terms into their number times the term."""

    def times(part: Any) -> Any:
        free = all(not part.function.has(index) for index, *_ in part.limits)
        return part.doit() if free else part

    return expr.replace(lambda part: isinstance(part, Sum), times)


def separated(expr: Any) -> Any:
    """Rewrite Σ_i Σ_j a_i b_j into (Σ_i a_i)(Σ_j b_j)."""

    def factors_apart(part: Any) -> Any:
        if len(part.limits) != 2:
            return part
        inner, outer = part.limits
        outside, inside = part.function.as_independent(inner[0], as_Add=False)
        if inside.has(outer[0]):
            return part
        # Both sums may be read with one letter: what is bound has no name of its own.
        again: Any = Sum(inside.xreplace({inner[0]: outer[0]}), (outer[0], *inner[1:]))
        return again * Sum(outside, outer)

    return expr.replace(lambda part: isinstance(part, Sum), factors_apart)


def limits_inside(expr: Any) -> Any:
    """Take a limit into finite sums, products and powers, to the parts that depend on it.

    Right where the parts converge and no base of a negative power goes to 0.
    """

    def inside(body: Any, variable: Any, target: Any) -> Any:
        match body:
            case _ if not body.has(variable):
                return body
            case Add() | Mul():
                return body.func(*(inside(part, variable, target) for part in body.args))
            case Pow(base=base, exp=power) if not power.has(variable):
                return inside(base, variable, target) ** power
            case Sum():
                return Sum(inside(body.function, variable, target), *body.limits)
        return Limit(body, variable, target, dir="-")

    return expr.replace(lambda part: isinstance(part, Limit), lambda part: inside(*part.args[:3]))


def limits_computed(expr: Any) -> Any:
    """Compute the limits by SymPy; an entry of an array stands for a positive number there."""

    def computed(part: Any) -> Any:
        body, variable, target, _ = part.args
        numbers = {entry: sympy.Dummy(positive=True) for entry in body.atoms(Indexed)}
        limit = sympy.limit(body.xreplace(numbers), variable, target)
        return limit.xreplace({number: entry for entry, number in numbers.items()})

    found = expr.replace(lambda part: isinstance(part, Limit), computed)
    return found.replace(lambda part: isinstance(part, Sum) and part.function == 0, lambda _: 0)
