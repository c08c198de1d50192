"""Tags as SymPy symbols, and the two ways between SymPy expressions and sizes.

`Dim` is the only tag that SymPy sees.  Sizes themselves are polynomials of `symattn.tags`, which
know nothing of SymPy; a symbol of the same name is the same tag, whatever its assumptions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import sympy

from symattn.errors import SizeError, TextRefusedError
from symattn.tags import Quotient, Size, check_size, check_tag_name, parse_size


class Dim(sympy.Symbol):
    """A tag: the name of an axis, standing for its size, a positive integer.

    >>> d_k = Dim("d_k")
    >>> d_k.is_positive, d_k.is_integer
    (True, True)
    """

    __slots__ = ()

    def __new__(cls, name: str, **_assumptions: Any) -> Dim:
        symbol = super().__new__(cls, check_tag_name(name), integer=True, positive=True)
        return symbol  # pyright: ignore[reportReturnType]

    def subs(self, *args: Any, **kwargs: Any) -> Any:
        refuse_text("subs", *args)
        return super().subs(*args, **kwargs)


def refuse_text(call: str, *values: Any) -> None:
    """Raise if a string stands among the values: SymPy would evaluate it."""
    for value in values:
        if isinstance(value, str):
            raise TextRefusedError(call, value)
        if isinstance(value, dict):
            refuse_text(call, *value, *value.values())
        elif isinstance(value, (list, tuple, set)):
            refuse_text(call, *value)


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
    if not isinstance(names, str):
        raise TypeError(f"dims takes one text of names such as 'd_k n m', not {names!r}")
    return tuple(Dim(name) for name in names.replace(",", " ").split())


def size_of(value: Any) -> Size:
    """Return the size that a declaration means: a tag, a positive integer, or arithmetic of them.

    >>> h, d_k = dims("h d_k")
    >>> size_of(h * d_k + 2)
    Size('2 + d_k*h')
    """
    if isinstance(value, Size):
        return value
    if isinstance(value, str):
        return parse_size(value)
    if isinstance(value, sympy.Expr) and not value.is_Integer:
        return _from_sympy(value)
    return Size.of(check_size("a size", int(value) if isinstance(value, sympy.Integer) else value))


@lru_cache(maxsize=4096)
def _from_sympy(expr: sympy.Expr) -> Size:
    if isinstance(expr, sympy.Symbol):
        return Size.tag(check_tag_name(expr.name))
    if isinstance(expr, sympy.Integer):
        return Size.of(int(expr))
    if isinstance(expr, sympy.floor):
        return _from_sympy(expr.args[0])  # pyright: ignore[reportArgumentType]
    if isinstance(expr, sympy.Add):
        total = Size.of(0)
        for term in expr.args:
            total = total + _from_sympy(term)  # pyright: ignore[reportArgumentType]
        return total
    if isinstance(expr, sympy.Mul):
        numerator, denominator = expr.as_numer_denom()
        if denominator != 1:
            return _from_sympy(numerator) // _from_sympy(denominator)
        product = Size.of(1)
        for factor in expr.args:
            product = product * _from_sympy(factor)  # pyright: ignore[reportArgumentType]
        return product
    if isinstance(expr, sympy.Pow) and expr.exp.is_Integer and 0 < int(expr.exp) <= 16:
        base, power = _from_sympy(expr.base), Size.of(1)  # pyright: ignore[reportArgumentType]
        for _ in range(int(expr.exp)):
            power = power * base
        return power
    raise SizeError("positive", tag="a size", value=expr)


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
