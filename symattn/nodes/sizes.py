"""Tags as SymPy symbols, and the two ways between SymPy expressions and sizes.

`Dim` is the only tag that SymPy sees.  Sizes themselves are polynomials of `symattn.tags`, which
know nothing of SymPy; a symbol of the same name is the same tag, whatever its assumptions.

A `Dim` refuses text (see `symattn.nodes.guarded`).  What SymPy computes from it, ``2*m`` or
``sqrt(d_k)``, belongs to SymPy, and evaluates text that its methods are given, as SymPy does.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import sympy

from symattn.errors import SizeError, SizeSyntaxError
from symattn.nodes.guarded import Guarded
from symattn.notation.code import brief
from symattn.tags import Quotient, Size, check_size, check_tag_name, parse_size
from symattn.tags.grammar import MAX_DIGITS, MAX_EXPONENT, MAX_TERMS


class Dim(Guarded, sympy.Symbol):
    """A tag: the name of an axis, standing for its size, a positive integer.

    >>> d_k = Dim("d_k")
    >>> d_k.is_positive, d_k.is_integer
    (True, True)
    """

    __slots__ = ()

    def __new__(cls, name: str, **_assumptions: Any) -> Dim:
        symbol = super().__new__(cls, check_tag_name(_text(name)), integer=True, positive=True)
        return symbol  # pyright: ignore[reportReturnType]


def dim(name: str) -> Dim:
    """Return the tag of that name.

    >>> dim("n") == dim("n"), dim("n") == dim("m")
    (True, False)

    Raises `SizeSyntaxError` if the text is not one name.
    """
    return Dim(name)


def dims(names: str) -> tuple[Dim, ...]:
    """Return the tags named in a text, always as a tuple.

    >>> d_k, n, m = dims("d_k n m")
    >>> dims("n")
    (n,)

    Names are separated by spaces or commas.  Raises `SizeSyntaxError` if one is not a name.
    """
    found = _text(names).replace(",", " ").split()
    if not found:
        raise SizeSyntaxError(names, len(names), "a letter", what="the names of tags")
    return tuple(Dim(name) for name in found)


def _text(name: Any) -> str:
    if not isinstance(name, str):
        raise SizeSyntaxError(brief(name), 0, "text such as 'd_k'", what="the name of a tag")
    return name


def size_of(value: Any) -> Size:
    """Return the size that a declaration means: a tag, a positive integer, or arithmetic of them.

    >>> h, d_k = dims("h d_k")
    >>> size_of(h * d_k + 2)
    Size('h*d_k+2')
    """
    if isinstance(value, Size):
        return value
    if isinstance(value, str):
        return parse_size(value)
    if isinstance(value, sympy.Expr) and not value.is_Integer:
        return _from_sympy(value)
    number = check_size("a size", int(value) if isinstance(value, sympy.Integer) else value)
    if number >= 10**MAX_DIGITS:
        raise SizeError("too large")
    return Size.of(number)


@lru_cache(maxsize=4096)
def _from_sympy(expr: Any) -> Size:
    """Return a polynomial of SymPy as a size; what is no polynomial of tags is refused."""
    # Not a scalar of ours, nor a Dummy, which are symbols too.
    if isinstance(expr, Dim) or type(expr) is sympy.Symbol:
        return Size.tag(check_tag_name(expr.name))
    match expr:
        case sympy.Integer():
            size = Size.of(int(expr))
        case sympy.floor():  # n // 2
            size = _from_sympy(expr.args[0])
        case sympy.Add():
            size = sum((_from_sympy(term) for term in expr.args), start=Size.of(0))
        case sympy.Mul() if expr.as_numer_denom()[1] != 1:
            above, below = expr.as_numer_denom()
            size = _from_sympy(above) // _from_sympy(below)
        case sympy.Mul():
            size = prod((_from_sympy(factor) for factor in expr.args), start=Size.of(1))
        case sympy.Pow(exp=sympy.Integer() as exponent) if exponent > 0:
            if exponent > MAX_EXPONENT:
                raise SizeError("too large")
            size = _from_sympy(expr.base) ** int(exponent)
        case _:
            raise SizeError("positive", tag="a size", value=brief(expr))
    if len(size.terms) > MAX_TERMS:
        raise SizeError("too large")
    return size


@lru_cache(maxsize=4096)
def expression_of(size: Size) -> sympy.Expr:
    """Return a size as a SymPy expression in `Dim` symbols.

    >>> expression_of(parse_size("h*d_k"))
    d_k*h
    """
    total = sympy.S.Zero
    for coefficient, powers in size.terms:
        term: sympy.Expr = sympy.Integer(coefficient)
        for atom, exponent in powers:
            if isinstance(atom, Quotient):
                base = expression_of(atom.num) / expression_of(atom.den)
            else:
                base = Dim(atom)
            term = term * base**exponent
        total = total + term
    return total
