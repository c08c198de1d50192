"""Scalars: real parameters, numbers and tags used as values, and what they mean.

A scalar is an ordinary SymPy expression.  At the door its symbols are made ours: a symbol with the
name of a tag of the matrix beside it is that tag, any other is a real parameter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache, partial
from numbers import Rational, Real
from types import MappingProxyType
from typing import Any

import sympy
from sympy.core.function import FunctionClass

from symattn.errors import NotAnOperandError, NotSupportedError
from symattn.meaning.form import Add, Apply, Extent, Form, Mul, Number, Parameter, Power
from symattn.meaning.functions import FUNCTIONS
from symattn.nodes.guarded import Guarded
from symattn.nodes.sizes import Dim, size_of
from symattn.notation.names import check_name

_MOST_BITS = 4096
_MOST_EXPONENT = 1000


class Scalar(Guarded, sympy.Symbol):
    """A scalar input: a finite real number, positive if declared so."""

    __slots__ = ()

    def __new__(cls, name: str, *, positive: bool = False, **_assumptions: Any) -> Scalar:
        known = {"positive": True} if positive else {"real": True}
        return super().__new__(cls, check_name(name), **known)  # pyright: ignore[reportReturnType]


_ARGUMENT = Parameter("x")

_IN_SYMPY: dict[str, Any] = {
    name: getattr(sympy, row.sympy or name)
    for name, row in FUNCTIONS.items()
    if row.definition is None and isinstance(getattr(sympy, row.sympy or name, None), FunctionClass)
}

NAMES_OF_FUNCTIONS: Mapping[type[sympy.Basic], str] = MappingProxyType(
    {function: name for name, function in _IN_SYMPY.items()}
)
"""The functions that may stand in a scalar: SymPy's own that have a row, with the row's name."""


def _defined(definition: Callable[[Form], Form], x: sympy.Expr) -> sympy.Expr:
    return _expression(definition(_ARGUMENT), x)


OF_SCALARS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    _IN_SYMPY
    | {
        name: partial(_defined, row.definition)
        for name, row in FUNCTIONS.items()
        if row.definition is not None
    }
)
"""By name, the functions that a scalar may be given to: those, and what is defined by them."""


def _expression(form: Form, x: sympy.Expr) -> sympy.Expr:
    """Return the definition of a function, where its argument is this scalar."""
    match form:
        case Parameter():
            return x
        case Number(value):
            return sympy.Rational(value.numerator, value.denominator)
        case Add(terms):
            return sympy.Add(*(_expression(term, x) for term in terms))
        case Mul(factors):
            return sympy.Mul(*(_expression(factor, x) for factor in factors))
        case Power(base, exponent):
            return _expression(base, x) ** sympy.Rational(exponent.numerator, exponent.denominator)
        case Apply(function, argument) if function in OF_SCALARS:
            return OF_SCALARS[function](_expression(argument, x))
        case _:
            raise NotSupportedError(f"a scalar for {form}")


class PositionSymbol(sympy.Symbol):
    """The position of a query or key in a bias: a whole number, bound by the bias."""

    __slots__ = ()

    def __new__(cls, name: str, **_assumptions: Any) -> PositionSymbol:
        symbol = super().__new__(cls, check_name(name), integer=True, nonnegative=True)
        return symbol  # pyright: ignore[reportReturnType]


def scalar(name: str, *, positive: bool = False) -> Scalar:
    """Return a scalar input: a finite real number.

    >>> c = scalar("c", positive=True)
    >>> c.is_positive
    True

    Proofs may divide by a positive scalar and take its roots without a condition.
    Raises `NameSyntaxError` if the name is not one.
    """
    return Scalar(name, positive=positive)


def as_scalar(value: Any, tags: frozenset[str] = frozenset()) -> sympy.Expr | None:
    """Return the scalar that a value means, or None if it is no scalar at all.

    >>> as_scalar(0.1), as_scalar("c"), as_scalar(True)
    (1/10, None, None)

    Floats mean the decimal number that they print.  Raises `NotAnOperandError` for scalars that
    are not finite reals, and for SymPy expressions that hide a matrix.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, Rational):
        exact = sympy.Rational(int(value.numerator), int(value.denominator))
        _refuse_long(exact)
        return exact
    if isinstance(value, Real):  # a float of Python, NumPy or SymPy
        return _decimal(value)
    if not isinstance(value, sympy.Expr) or getattr(value, "is_Matrix", False):
        return None
    return _own(value, tags)


def _refuse_long(expr: sympy.Expr) -> None:
    """Raise for numbers, and for powers, that nobody writes and that would take for ever."""
    for number in expr.atoms(sympy.Rational):
        if max(abs(number.p), number.q).bit_length() > _MOST_BITS:
            raise NotAnOperandError("a number", f"it has over {_MOST_BITS:,} bits")
    for power in expr.atoms(sympy.Pow):
        if power.exp.is_Rational and abs(power.exp) > _MOST_EXPONENT:
            raise NotAnOperandError("a power", f"its exponent is over {_MOST_EXPONENT:,}")


_INFINITE = (sympy.oo, -sympy.oo, sympy.zoo)


def _not_finite(value: Any) -> NotAnOperandError:
    """Return the error for what is no finite real number."""
    infinite = value.has(*_INFINITE) if isinstance(value, sympy.Basic) else math.isinf(value)
    mask = "; a mask is added to scores as sa.additive_mask(…), or is the mask= of a softmax"
    return NotAnOperandError(
        str(value), f"it is not a finite real number{mask if infinite else ''}"
    )


def _decimal(value: Any) -> sympy.Expr:
    """Return the decimal number that a float prints."""
    if not math.isfinite(value):
        raise _not_finite(value)
    exact = Fraction(str(value))
    return sympy.Rational(exact.numerator, exact.denominator)


@lru_cache(maxsize=4096)
def _own(expr: sympy.Expr, tags: frozenset[str]) -> sympy.Expr:
    """Return a scalar in our symbols and exact numbers."""
    for part in sympy.preorder_traversal(expr):
        if getattr(part, "is_Matrix", False):
            raise NotAnOperandError(
                type(expr).__name__ + "(…)",
                "it is a SymPy function of a matrix, whose sizes SymPy does not check; "
                "use symattn's own, such as sa.tanh(X)",
            )
    _refuse_long(expr)
    if expr.has(sympy.nan, *_INFINITE) or (
        expr.is_number and (expr.is_finite is False or expr.is_real is False)
    ):
        raise _not_finite(expr)
    exact = {number: _decimal(number) for number in expr.atoms(sympy.Float)}
    own: Any = expr.xreplace({s: _symbol(s, tags) for s in expr.free_symbols} | exact)
    scalar_form(own)
    return own


def _symbol(symbol: Any, tags: frozenset[str]) -> sympy.Symbol:
    """Return our symbol of that name: the tag, if one has it, or a scalar."""
    if isinstance(symbol, (Dim, Scalar, PositionSymbol)):
        return symbol
    if type(symbol) is not sympy.Symbol or not symbol.is_commutative or symbol.is_real is False:
        raise NotAnOperandError(str(symbol), "it is not a real number with a name; see sa.scalar")
    if symbol.name in tags:
        return Dim(symbol.name)
    return Scalar(symbol.name, positive=bool(symbol.is_positive))


@lru_cache(maxsize=4096)
def scalar_form(expr: Any) -> Form:
    """Return what a scalar means.

    >>> scalar_form(sympy.sqrt(Scalar("c")))
    Power(base=Parameter(name='c', positive=False), exponent=Fraction(1, 2))

    Raises `NotSupportedError` for SymPy functions that have no row in the table of functions.
    """
    if isinstance(expr, Dim):
        return Extent(size_of(expr))
    if isinstance(expr, Scalar):
        return Parameter(expr.name, bool(expr.is_positive))
    if isinstance(expr, PositionSymbol):  # the bias that binds it says where it is read
        return Parameter(expr.name)
    if isinstance(expr, sympy.Rational):
        return Number(Fraction(int(expr.p), int(expr.q)))
    if expr is sympy.E:
        return Apply("exp", Number(Fraction(1)))
    if isinstance(expr, sympy.Add):
        terms: Any = expr.as_ordered_terms()
        return Add(tuple(scalar_form(term) for term in terms))
    if isinstance(expr, sympy.Mul):
        return Mul(tuple(scalar_form(factor) for factor in expr.as_ordered_factors()))
    if isinstance(expr, sympy.Pow) and isinstance(expr.exp, sympy.Rational):
        return Power(scalar_form(expr.base), Fraction(int(expr.exp.p), int(expr.exp.q)))
    function = NAMES_OF_FUNCTIONS.get(type(expr))
    if function is not None:
        return Apply(function, scalar_form(expr.args[0]))
    raise NotSupportedError(f"the scalar {expr} ({type(expr).__name__})")
