"""Expectation and variance as SymPy expressions, and the few rules by which they are computed.

The random quantities are entries of arrays, written as SymPy's ``Indexed``: ``q[c]``.  What is
known of them stands in the assumptions of a derivation; a rule here uses one of these assumptions
each, so that a reader sees where it enters.
"""

from __future__ import annotations

import itertools
from typing import Any

import sympy
from sympy import Indexed, KroneckerDelta, Mul, Pow, Sum


class Expected(sympy.Expr):
    """The expectation of a quantity; it is not evaluated, rules rewrite it."""

    @property
    def quantity(self) -> Any:
        """What the expectation is of."""
        return self.args[0]

    def _latex(self, printer: Any, *_: Any) -> str:
        return rf"\mathbb{{E}}\left[{printer._print(self.quantity)}\right]"

    def _sympystr(self, printer: Any, *_: Any) -> str:
        return f"E[{printer._print(self.quantity)}]"


class VarianceOf(sympy.Expr):
    """The variance of a quantity; it is not evaluated, rules rewrite it."""

    @property
    def quantity(self) -> Any:
        """What the variance is of."""
        return self.args[0]

    def _latex(self, printer: Any, *_: Any) -> str:
        return rf"\mathrm{{Var}}\left({printer._print(self.quantity)}\right)"

    def _sympystr(self, printer: Any, *_: Any) -> str:
        return f"Var({printer._print(self.quantity)})"


def variance_defined(expr: Any) -> Any:
    """Rewrite Var(X) into E[X²] − E[X]².

    >>> x = sympy.IndexedBase("x")[sympy.Symbol("c")]
    >>> variance_defined(VarianceOf(x))
    -E[x[c]]**2 + E[x[c]**2]
    """
    return expr.replace(
        VarianceOf, lambda quantity: Expected(quantity**2) - Expected(quantity) ** 2
    )


def linear(expr: Any) -> Any:
    """Rewrite the expectation of a finite sum into the sum of the expectations."""
    return expr.replace(
        lambda part: isinstance(part, Expected) and isinstance(part.quantity, Sum),
        lambda part: Sum(Expected(part.quantity.function), *part.quantity.limits),
    )


def independent_arrays(expr: Any) -> Any:
    """Rewrite E[X Y], with X of one array and Y of another, into E[X] E[Y]."""

    def factored(quantity: Any) -> Any:
        of_array = {
            base: [factor for factor in Mul.make_args(quantity) if factor.has(base)]
            for base in sorted({entry.base for entry in quantity.atoms(Indexed)}, key=str)
        }
        if sum(map(len, of_array.values())) != len(Mul.make_args(quantity)):
            return Expected(quantity)  # a factor that reads two arrays
        return Mul(*(Expected(Mul(*factors)) for factors in of_array.values()))

    return expr.replace(Expected, factored)


def independent_entries(expr: Any) -> Any:
    """Rewrite E[x_c x_e] by whether both are the same entry."""

    def by_case(quantity: Any) -> Any:
        match quantity:
            case Mul(args=(Indexed() as one, Indexed() as other)) if one.base == other.base:
                same = KroneckerDelta(*one.indices, *other.indices)
                return same * Expected(one**2) + (1 - same) * Expected(one) * Expected(other)
        return Expected(quantity)

    return expr.replace(Expected, by_case)


def zero_mean(expr: Any) -> Any:
    """Rewrite the expectation of one entry into 0."""
    return expr.replace(
        lambda part: isinstance(part, Expected) and isinstance(part.quantity, Indexed),
        lambda _: sympy.S.Zero,
    )


def unit_variance(expr: Any) -> Any:
    """Rewrite the expectation of the square of one entry, whose mean is 0, into 1."""

    def is_square(part: Any) -> bool:
        match part:
            case Expected(quantity=Pow(base=Indexed(), exp=sympy.Integer() as power)):
                return power == 2
        return False

    return expr.replace(is_square, lambda _: sympy.S.One)


def second_moments(expr: Any) -> Any:
    """Rewrite E[x_c x_e] into δ_ce."""
    return unit_variance(zero_mean(independent_entries(expr)))


def constant_factors(expr: Any) -> Any:
    """Rewrite Var(a X), with no random entry in a, into a² Var(X)."""

    def outside(quantity: Any) -> Any:
        fixed, random = quantity.as_independent(Indexed, as_Add=False)
        return fixed**2 * VarianceOf(random)

    return expr.replace(VarianceOf, outside)


def square_of_sum(expr: Any) -> Any:
    """Rewrite (Σ_c f_c)² into Σ_c Σ_e f_c f_e, with a new index."""

    def is_square(part: Any) -> bool:
        return isinstance(part, Pow) and part.exp == 2 and isinstance(part.base, Sum)

    def doubled(part: Any) -> Any:
        total = part.base
        ((index, low, high),) = total.limits
        other = next(
            symbol
            for symbol in (sympy.Symbol(letter, integer=True) for letter in _LETTERS)
            if not total.has(symbol)
        )
        again = total.function.xreplace({index: other})
        return Sum(total.function * again, (other, low, high), (index, low, high))

    return expr.replace(is_square, doubled)


_LETTERS = tuple(itertools.chain("efg", "abcd"))
