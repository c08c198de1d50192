"""Values of the expressions of derivations, in numbers, apart from the rules that rewrite them.

A point says what every free symbol and array is.  Nothing is differentiated, integrated or taken
to its limit by algebra here: a derivative is a central difference, an expectation runs over all
outcomes of a finite probability space, a sum is a loop, a limit is the value far out.  So a step
whose two sides agree here agrees for a reason of its own.

All arithmetic has `DIGITS` digits; values count as equal within `TOLERANCE` of the larger one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import mpmath
import sympy
from sympy import Derivative, Indexed, KroneckerDelta, Limit, Sum
from sympy.matrices.expressions.matexpr import MatrixElement

from symattn.errors import NotSupportedError
from symattn.variants.derived.expectations import Expected, VarianceOf

DIGITS = 100
TOLERANCE = 1e-20
_STEP = mpmath.mpf(10) ** -25  # of a difference: its own error is about the square
_FAR, _FARTHER = mpmath.mpf(10) ** 35, mpmath.mpf(10) ** 40

Outcomes = Sequence[tuple[Any, Any]]
"""The values of a random entry, each with its probability."""


@dataclass(frozen=True)
class Point:
    """What the symbols, the arrays and the random arrays of an expression are, by their names.

    Entries of arrays are counted from 1, as the sums of a derivation count them.
    """

    symbols: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    random: Mapping[str, Sequence[Outcomes]] = field(default_factory=dict)

    def with_symbol(self, name: str, value: Any) -> Point:
        """Return the point with another value of a symbol."""
        return replace(self, symbols={**self.symbols, name: value})

    def with_entry(self, name: str, at: int, value: Any) -> Point:
        """Return the point with another value of one entry of an array."""
        entries = [*self.arrays[name][: at - 1], value, *self.arrays[name][at:]]
        return replace(self, arrays={**self.arrays, name: entries})

    def outcomes(self, names: Sequence[str]) -> Iterator[tuple[Any, Point]]:
        """Yield every outcome of these random arrays: its probability, and the point there."""
        entries = [(name, entry) for name in names for entry in self.random[name]]
        for outcome in itertools.product(*(entry for _, entry in entries)):
            arrays: dict[str, list[Any]] = {name: [] for name in names}
            for (name, _), (value, _) in zip(entries, outcome, strict=True):
                arrays[name].append(value)
            probability = mpmath.fprod(chance for _, chance in outcome)
            yield probability, replace(self, arrays={**self.arrays, **arrays})


def value_at(expr: Any, point: Point) -> Any:
    """Return the value of an expression at a point, as an mpmath number.

    >>> x, c = sympy.IndexedBase("x"), sympy.Symbol("c")
    >>> point = Point(arrays={"x": (1, 2)}, random={"y": [[(-1, 0.5), (1, 0.5)]]})
    >>> value_at(Sum(x[c] ** 2, (c, 1, 2)), point)
    mpf('5.0')
    >>> value_at(VarianceOf(3 * sympy.IndexedBase("y")[1]), point)
    mpf('9.0')

    Raises `NotSupportedError` for an expression that no derivation uses.
    """
    with mpmath.workdps(DIGITS):
        return _value(expr, point)


def difference(left: Any, right: Any, point: Point) -> float:
    """Return how far apart two expressions are at a point, relative to the larger one above 1."""
    with mpmath.workdps(DIGITS):
        one, other = _value(left, point), _value(right, point)
        return float(abs(one - other) / max(1, abs(one), abs(other)))


def _value(expr: Any, point: Point) -> Any:
    for kind in type(expr).__mro__:
        if kind in _VALUES:
            return _VALUES[kind](expr, point)
    raise NotSupportedError(f"the value of {type(expr).__name__} in a derivation")


def _entry(expr: Any, point: Point) -> Any:
    (index,) = expr.indices
    return mpmath.mpf(point.arrays[str(expr.base.label)][int(_value(index, point)) - 1])


def _delta(expr: Any, point: Point) -> Any:
    one, other = (_value(index, point) for index in expr.args)
    return mpmath.mpf(one == other)


def _sum(expr: Any, point: Point) -> Any:
    return mpmath.fsum(_terms(expr.function, list(expr.limits)[::-1], point))


def _terms(body: Any, limits: Sequence[Any], point: Point) -> Iterator[Any]:
    """Yield the terms; the first limit is the outermost one."""
    if not limits:
        yield _value(body, point)
        return
    index, low, high = limits[0]
    for number in range(int(_value(low, point)), int(_value(high, point)) + 1):
        yield from _terms(body, limits[1:], point.with_symbol(index.name, number))


def _derivative(expr: Any, point: Point) -> Any:
    ((entry, _),) = expr.variable_count
    name, at = str(entry.base.label), int(_value(entry.indices[0], point))
    middle = mpmath.mpf(point.arrays[name][at - 1])
    above, below = (
        _value(expr.expr, point.with_entry(name, at, middle + step)) for step in (_STEP, -_STEP)
    )
    return (above - below) / (2 * _STEP)


def _limit(expr: Any, point: Point) -> Any:
    """The value far out; none where it still moves there."""
    body, variable, *_ = expr.args
    far, farther = (_value(body, point.with_symbol(variable.name, at)) for at in (_FAR, _FARTHER))
    return farther if abs(far - farther) <= TOLERANCE else mpmath.nan


def _mean(expr: Any, point: Point) -> Any:
    bases = {str(entry.base.label) for entry in expr.quantity.atoms(Indexed)}
    names = sorted(bases & set(point.random))
    return mpmath.fsum(
        probability * _value(expr.quantity, outcome)
        for probability, outcome in point.outcomes(names)
    )


def _variance(expr: Any, point: Point) -> Any:
    """Var(X) = E[(X − E[X])²], not as the derivation has it."""
    mean = sympy.Dummy("mean")
    known = point.with_symbol(mean.name, _mean(expr, point))
    return _mean(Expected((expr.quantity - mean) ** 2), known)


def _matrix_entry(expr: Any, point: Point) -> Any:
    """One entry of a matrix of columns, computed by SymPy's explicit matrices."""
    matrix, *indices = expr.args
    columns = {
        symbol: sympy.ImmutableMatrix([sympy.Float(x, DIGITS) for x in point.arrays[symbol.name]])
        for symbol in matrix.atoms(sympy.MatrixSymbol)
    }
    entries = matrix.xreplace(columns).doit()
    row, column = (int(_value(index, point)) - 1 for index in indices)
    return mpmath.mpf(sympy.Float(entries[row, column], DIGITS)._mpf_)


_VALUES: dict[type[Any], Callable[[Any, Point], Any]] = {
    sympy.Rational: lambda expr, _: mpmath.mpf(int(expr.p)) / int(expr.q),
    sympy.Symbol: lambda expr, point: mpmath.mpf(point.symbols[expr.name]),
    sympy.Add: lambda expr, point: mpmath.fsum(_value(part, point) for part in expr.args),
    sympy.Mul: lambda expr, point: mpmath.fprod(_value(part, point) for part in expr.args),
    sympy.Pow: lambda expr, point: _value(expr.base, point) ** _value(expr.exp, point),
    sympy.exp: lambda expr, point: mpmath.exp(_value(expr.args[0], point)),
    Indexed: _entry,
    KroneckerDelta: _delta,
    Sum: _sum,
    Derivative: _derivative,
    Limit: _limit,
    Expected: _mean,
    VarianceOf: _variance,
    MatrixElement: _matrix_entry,
}
