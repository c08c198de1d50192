"""The numbers that formulas are evaluated with: many digits of mpmath, or Python's floats.

Both evaluators take their arithmetic from here.  An arithmetic is what the table of elementwise
functions asks of a module: ``mpf`` makes a number, and there are ``exp``, ``log``, ``sqrt`` and so
on.  The many-digit one is a context of its own for every thread, so the precision that a user has
set in mpmath is neither read nor changed.

Invariant: a value that is no finite real number never leaves an evaluator; `UndefinedPointError` is
raised in its place, and whoever chose the point chooses another.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol, cast

import mpmath
import numpy as np

from symattn.errors import SizeError, UndefinedPointError
from symattn.meaning.functions import FUNCTIONS
from symattn.nodes import InputVector
from symattn.nodes.core import NamedInput

DIGITS = 50

# Beyond it, exact cancellation could hide everything that the digits hold.
_MOST_BITS = 133


class Arithmetic(Protocol):
    """What a number is made with, and the functions of numbers."""

    mpf: Callable[[Any], Any]
    exp: Callable[[Any], Any]
    log: Callable[[Any], Any]
    tanh: Callable[[Any], Any]
    sin: Callable[[Any], Any]
    cos: Callable[[Any], Any]
    sqrt: Callable[[Any], Any]


class _Exact(threading.local):
    """The contexts of one thread, by their digits."""

    def __init__(self) -> None:
        self.contexts: dict[int, Arithmetic] = {}


_exact = _Exact()


def exact(digits: int = DIGITS) -> Arithmetic:
    """Return real arithmetic with that many decimal digits, this thread's own.

    >>> print(exact(30).mpf(2) / 3)
    0.666666666666666666666666666667
    """
    context = _exact.contexts.get(digits)
    if context is None:
        context = mpmath.mp.clone()
        context.dps = digits
        _exact.contexts[digits] = cast(Arithmetic, context)
    return cast(Arithmetic, context)


def _exp_of_float(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf  # so that 1/(1 + e^1000) is 0


class _Floats:
    """The functions of `math`, by their names; ``exp`` is given."""

    mpf = float

    def __init__(self, exp: Callable[[float], float]) -> None:
        self.exp = exp

    def __getattr__(self, name: str) -> Any:
        return getattr(math, name)


FLOATS = cast(Arithmetic, _Floats(_exp_of_float))
"""Python's float64 numbers."""

BOUNDED_FLOATS = cast(Arithmetic, _Floats(math.exp))
"""Python's float64 numbers, where an exponential beyond them is undefined rather than infinite."""


def undefined(error: ArithmeticError) -> UndefinedPointError:
    """Return the error for arithmetic that has no result."""
    if isinstance(error, ZeroDivisionError):
        return UndefinedPointError("a division by zero", divides_by_zero=True)
    return UndefinedPointError("a number beyond bounds")


def number(value: Any, arithmetic: Arithmetic) -> Any:
    """Return a rational, an integer or a float as a number of the arithmetic."""
    if isinstance(value, Fraction):
        return arithmetic.mpf(value.numerator) / value.denominator
    if isinstance(value, (np.floating, np.integer)):
        return arithmetic.mpf(value.item())
    return arithmetic.mpf(value)


def defined(value: Any, arithmetic: Arithmetic, what: str) -> Any:
    """Return a value that is a real number of moderate size, or raise `UndefinedPointError`."""
    if arithmetic.mpf is float:
        return value
    # mpmath answers log(-1) with a complex number, and log(0) with an infinite one.  A number is
    # ±man·2^exp, man of bc bits; 0, infinity and NaN have no bits, and only 0 has no exponent.
    if isinstance(value, cast(type, arithmetic.mpf)):
        _, man, exp, bc = cast(Any, value)._mpf_
        if exp + bc <= _MOST_BITS if man else exp == 0:
            return value
    raise UndefinedPointError(f"{what} is not real, or beyond ±2^{_MOST_BITS}")


def apply_function(name: str, x: Any, arithmetic: Arithmetic) -> Any:
    """Return the value of an elementwise function, by its row or by its name alone."""
    known = FUNCTIONS.get(name)
    try:
        y = known.mpmath(arithmetic, x) if known else arbitrary_function(name)(arithmetic, x)
    except (ZeroDivisionError, ValueError, OverflowError) as error:
        by_zero = isinstance(error, ZeroDivisionError)
        raise UndefinedPointError(f"{name}({x})", divides_by_zero=by_zero) from None
    return defined(y, arithmetic, name)


@lru_cache(maxsize=256)
def arbitrary_function(name: str) -> Callable[[Arithmetic, Any], Any]:
    """Return the function that stands for one of which only the name is known.

    It is ``sin(a x + b) + c x`` with numbers that follow from the name: smooth, defined everywhere,
    and neither odd nor even nor of one sign, so that nothing is true of it that is not true of all.
    """
    digest = hashlib.sha256(name.encode()).digest()
    a, b, c = (int.from_bytes(digest[4 * k : 4 * k + 4], "big") % 997 for k in range(3))

    def value(arithmetic: Arithmetic, x: Any) -> Any:
        return arithmetic.sin(x * (1009 + a) / 1009 + arithmetic.mpf(400 + b) / 1301) + (
            x * (500 + c) / 1511
        )

    return value


def rows_of(
    source: NamedInput, value: Any, sizes: Mapping[str, int], arithmetic: Arithmetic
) -> list[Any]:
    """Return the entries of an input, given as rows or as an array, as numbers.

    A family is a list of its members' rows; a vector may be given as one row of numbers.  Raises
    `SizeError` if the shape is another.
    """
    rows: Sequence[Any] = value.tolist() if isinstance(value, np.ndarray) else value
    if isinstance(source, InputVector) and rows and not isinstance(rows[0], (list, tuple)):
        rows = [[entry] for entry in rows]
    expected = [size.value(sizes) for size in source.sizes]
    shape = _shape_of(rows, len(expected))
    if shape != expected:
        raise SizeError(
            "inconsistent",
            size=f"{source.label} ∈ M^{{{'×'.join(map(str, source.sizes))}}}",
            value="×".join(map(str, expected)),
            where="the sizes given",
            detail=f"its value is {'×'.join(map(str, shape))}",
        )
    return _numbers(rows, len(expected), arithmetic)


def _shape_of(rows: Sequence[Any], depth: int) -> list[int]:
    """Return the lengths of nested rows; several on one level where they are ragged."""
    shape: list[int] = []
    level: list[Any] = [rows]
    for _ in range(depth):
        shape += sorted({len(row) for row in level})
        level = [entry for row in level for entry in row]
    return shape


def _numbers(rows: Sequence[Any], depth: int, arithmetic: Arithmetic) -> list[Any]:
    if depth == 1:
        return [number(entry, arithmetic) for entry in rows]
    return [_numbers(row, depth - 1, arithmetic) for row in rows]
