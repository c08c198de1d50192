r"""Derivations in print: SymPy expressions as text for a terminal and as LaTeX.

SymPy's own printers order factors and terms by their names; here they stand as a reader expects
them: ``p_i (δ_ij − p_j)``, not ``(δ_ij − p_j) p_i``.  One walk writes both languages; what differs
between them is `Language`, a table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy
from sympy import Add, Derivative, Indexed, KroneckerDelta, Limit, MatMul, Mul, Pow, Sum
from sympy.matrices.expressions.diagonal import DiagMatrix
from sympy.matrices.expressions.matexpr import MatrixElement

from symattn.errors import NotSupportedError
from symattn.notation.glyphs import SUPERSCRIPTS, latex_name, text_name
from symattn.notation.presets import PRESETS
from symattn.variants.derived.expectations import Expected, VarianceOf

_SUM, _PRODUCT, _POWER, _ATOM = range(4)  # how tightly what is written holds together

# Factors stand in the order of their kinds, and those of one kind in that of their names.
_NAMES = (
    *("h", "a", "r", "n", "m", "d_k", "d_model", "t"),
    *("p", "q", "k", "x", "s", "Delta"),
)


_KINDS = (
    *(sympy.Number, sympy.Symbol, KroneckerDelta, Indexed, Add, sympy.exp),
    *(Expected, VarianceOf, Derivative, Limit, Sum),
)


@dataclass(frozen=True, slots=True)
class Language:
    """How a language writes what every derivation needs; ``{…}`` are the parts."""

    name: Callable[[str], str]
    minus: str
    infinity: str
    indexed: str
    parentheses: str
    fraction: str
    square_root: str
    exponential: str
    delta: str
    total: str
    slope: str
    limit: str
    mean: str
    variance: str
    diagonal: str
    entry: str
    transpose: str
    short_power: str
    power: str


TEXT = Language(
    name=lambda label: text_name(label)[0],
    minus="−",
    infinity="∞",
    indexed="{0}_{1}",
    parentheses="({0})",
    fraction="{0} / {1}",
    square_root="√{0}",
    exponential="exp({0})",
    delta="δ_{0}{1}",
    total="Σ_{{{0}={1}}}^{{{2}}} {3}",
    slope="∂/∂{1} {0}",
    limit="lim_{{{0} → {1}}} {2}",
    mean="E[{0}]",
    variance="Var({0})",
    diagonal="diag({0})",
    entry="[{0}]_{1}{2}",
    transpose="{0}ᵀ",
    short_power="{0}{1}",
    power="{0}^({1})",
)
LATEX = Language(
    name=lambda label: latex_name(label, PRESETS["vaswani"])[0],
    minus="-",
    infinity=r"\infty",
    indexed="{0}_{{{1}}}",
    parentheses=r"\left({0}\right)",
    fraction=r"\frac{{{0}}}{{{1}}}",
    square_root=r"\sqrt{{{0}}}",
    exponential="e^{{{0}}}",
    delta=r"\delta_{{{0}{1}}}",
    total=r"\sum_{{{0}={1}}}^{{{2}}} {3}",
    slope=r"\frac{{\partial}}{{\partial {1}}} {0}",
    limit=r"\lim_{{{0} \to {1}}} {2}",
    mean=r"\mathbb{{E}}\left[{0}\right]",
    variance=r"\mathrm{{Var}}\left({0}\right)",
    diagonal=r"\mathrm{{diag}}\left({0}\right)",
    entry=r"\left[{0}\right]_{{{1}{2}}}",
    transpose="{0}^T",
    short_power="{0}^{{{1}}}",
    power="{0}^{{{1}}}",
)


def expression_text(expr: Any) -> str:
    """Return an expression of a derivation as text.

    >>> p, (i, j) = sympy.IndexedBase("p"), sympy.symbols("i j")
    >>> expression_text(p[i] * (KroneckerDelta(i, j) - p[j]))
    'p_i (δ_ij − p_j)'
    """
    return _Writer(TEXT).whole(expr)


def expression_latex(expr: Any) -> str:
    r"""Return an expression of a derivation as LaTeX that every dialect takes.

    >>> p, (i, j) = sympy.IndexedBase("p"), sympy.symbols("i j")
    >>> print(expression_latex(p[i] * (KroneckerDelta(i, j) - p[j])))
    p_{i} \left(\delta_{ij} - p_{j}\right)
    """
    return _Writer(LATEX).whole(expr)


class _Writer:
    def __init__(self, language: Language) -> None:
        self.language = language

    def whole(self, expr: Any) -> str:
        return self.write(expr)[0]

    def write(self, expr: Any) -> tuple[str, int]:
        """Return an expression with how tightly it holds together."""
        for kind in type(expr).__mro__:
            if kind in _WRITTEN:
                return _WRITTEN[kind](self, expr)
        raise NotSupportedError(f"writing {type(expr).__name__} in a derivation")

    def within(self, expr: Any, least: int) -> str:
        """Return an expression, in parentheses if it holds together less than it has to."""
        written, tightness = self.write(expr)
        return written if tightness >= least else self.language.parentheses.format(written)

    def number(self, expr: Any) -> tuple[str, int]:
        sign = self.language.minus if expr < 0 else ""
        if expr.q == 1:
            return f"{sign}{abs(expr.p)}", _SUM if sign else _ATOM
        fraction = self.language.fraction.format(abs(expr.p), expr.q)
        return f"{sign}{fraction}", _SUM if sign else _PRODUCT

    def add(self, expr: Any) -> tuple[str, int]:
        terms = sorted(expr.args, key=_place_of_term)
        written = ""
        for term in terms:
            negative = term.could_extract_minus_sign()
            part = self.within(-term if negative else term, _PRODUCT)
            sign = self.language.minus if negative else "+"
            written += f" {sign} {part}" if written else (sign if negative else "") + part
        return written, _SUM

    def mul(self, expr: Any) -> tuple[str, int]:
        number, rest = expr.as_coeff_Mul()
        if number < 0:
            return f"{self.language.minus}{self.within(-expr, _PRODUCT)}", _SUM
        above, below = _split(rest)
        above += [sympy.Integer(number.p)] if number.p != 1 or not above else []
        below += [sympy.Integer(number.q)] if number.q != 1 else []
        if not below:
            return self.factors(above), _PRODUCT
        if self.language is LATEX:  # the bar does what parentheses do
            top, bottom = self.bare(above), self.bare(below)
        else:
            top, bottom = self.factors(above), self.factors(below)
            bottom = self.language.parentheses.format(bottom) if len(below) > 1 else bottom
        return self.language.fraction.format(top, bottom), _PRODUCT

    def bare(self, factors: list[Any]) -> str:
        return self.whole(factors[0]) if len(factors) == 1 else self.factors(factors)

    def factors(self, factors: list[Any]) -> str:
        *others, last = sorted(factors, key=_place_of_factor)
        parts = [self.within(factor, _POWER) for factor in others]
        # What runs on to the end of a product needs no parentheses there; a bar has none behind it.
        parts.append(self.within(last, _PRODUCT if others and _runs_on(last) else _POWER))
        return " ".join(parts)

    def power(self, expr: Any) -> tuple[str, int]:
        base, exponent = expr.base, expr.exp
        if exponent == sympy.S.Half:
            least = _ATOM if self.language is TEXT else _SUM
            return self.language.square_root.format(self.within(base, least)), _POWER
        if exponent.could_extract_minus_sign():
            return self.mul(Mul(expr, evaluate=False))
        inner = self.within(base, _ATOM)
        if self.language is TEXT and exponent.is_Integer:
            return inner + str(exponent).translate(SUPERSCRIPTS), _POWER
        written = self.whole(exponent)
        simple = self.language.power if len(written) > 1 else self.language.short_power
        if self.language is TEXT and len(written) == 1:
            return f"{inner}^{written}", _POWER
        return simple.format(inner, written), _POWER

    def total(self, expr: Any) -> tuple[str, int]:
        written = self.within(expr.function, _PRODUCT)
        for index, low, high in expr.limits:  # the first one is the innermost
            parts = (self.whole(part) for part in (index, low, high))
            written = self.language.total.format(*parts, written)
        return written, _PRODUCT

    def slope(self, expr: Any) -> tuple[str, int]:
        ((variable, _),) = expr.variable_count
        inner = self.within(expr.expr, _POWER)
        return self.language.slope.format(inner, self.whole(variable)), _PRODUCT

    def limit(self, expr: Any) -> tuple[str, int]:
        body, variable, target, _ = expr.args
        inner = self.within(body, _PRODUCT)
        limit = self.language.limit
        return limit.format(self.whole(variable), self.whole(target), inner), _PRODUCT

    def form(self, pattern: str, *parts: Any) -> tuple[str, int]:
        return pattern.format(*map(self.whole, parts)), _ATOM

    def matrices(self, expr: Any) -> tuple[str, int]:
        parts = [self.within(part, _POWER) for part in expr.args if part != -1]
        sign = self.language.minus if -1 in expr.args else ""
        return sign + " ".join(parts), _SUM if sign else _PRODUCT

    def matrix_sum(self, expr: Any) -> tuple[str, int]:
        minus = self.language.minus
        parts = (self.whole(part) for part in expr.args)
        first, *others = sorted(parts, key=lambda part: part.startswith(minus))
        signed = (
            f" {minus} {part[len(minus) :]}" if part.startswith(minus) else f" + {part}"
            for part in others
        )
        return first + "".join(signed), _SUM


def _runs_on(expr: Any) -> bool:
    """Whether what follows would be read as part of it."""
    return isinstance(expr, Sum | Derivative | Limit)


def _split(expr: Any) -> tuple[list[Any], list[Any]]:
    """Return the factors above and below the bar."""
    above, below = [], []
    for factor in Mul.make_args(expr):
        if isinstance(factor, Pow) and factor.exp.could_extract_minus_sign():
            below.append(Pow(factor.base, -factor.exp))
        elif factor != 1:
            above.append(factor)
    return above, below


def _place_of_factor(factor: Any) -> tuple[Any, ...]:
    """Where a factor stands: by its kind, then by the names in it."""
    base = factor.base if isinstance(factor, Pow) else factor
    kind = next((at for at, kind in enumerate(_KINDS) if isinstance(base, kind)), len(_KINDS))
    entries: set[Any] = base.atoms(Indexed)
    names = [str(entry.base.label) for entry in entries] or [getattr(base, "name", "")]
    place = min(_NAMES.index(name) if name in _NAMES else len(_NAMES) for name in names)
    return kind, place, sympy.default_sort_key(base)


def _place_of_term(term: Any) -> tuple[Any, ...]:
    """Where a term stands: negative ones behind the others, among these sums and numbers last."""
    return (
        term.could_extract_minus_sign(),
        term.has(Sum),
        term.is_Number,
        sympy.default_sort_key(term),
    )


_WRITTEN: dict[type[Any], Callable[[_Writer, Any], tuple[str, int]]] = {
    sympy.Rational: _Writer.number,
    sympy.Symbol: lambda self, expr: (self.language.name(expr.name), _ATOM),
    sympy.MatrixSymbol: lambda self, expr: (self.language.name(expr.name), _ATOM),
    type(sympy.oo): lambda self, _: (self.language.infinity, _ATOM),
    Indexed: lambda self, expr: (
        self.language.indexed.format(
            self.language.name(str(expr.base.label)), *map(self.whole, expr.indices)
        ),
        _ATOM,
    ),
    Add: _Writer.add,
    Mul: _Writer.mul,
    Pow: _Writer.power,
    sympy.exp: lambda self, expr: self.form(self.language.exponential, *expr.args),
    KroneckerDelta: lambda self, expr: self.form(self.language.delta, *expr.args),
    Sum: _Writer.total,
    Derivative: _Writer.slope,
    Limit: _Writer.limit,
    Expected: lambda self, expr: self.form(self.language.mean, expr.quantity),
    VarianceOf: lambda self, expr: self.form(self.language.variance, expr.quantity),
    MatrixElement: lambda self, expr: self.form(self.language.entry, *expr.args),
    MatMul: _Writer.matrices,
    sympy.MatAdd: _Writer.matrix_sum,
    sympy.Transpose: lambda self, expr: self.form(self.language.transpose, *expr.args),
    DiagMatrix: lambda self, expr: self.form(self.language.diagonal, *expr.args),
}
