"""What entries are made of that SymPy does not have: 0/1 brackets, weights, a largest term, blocks.

Everything here is a SymPy expression like any other: it substitutes, evaluates once nothing
symbolic stands in its way, prints, and goes through `sympy.lambdify`.  What an entry reads,
``K[c, j]``, is an `InputEntries`: SymPy's `IndexedBase`, but real, and spelt as generated code
spells it.

Invariant: a weight whose exponentials are all masked out is 0, never 0/0.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy.concrete.expr_with_limits import ExprWithLimits
from sympy.core.symbol import Str
from sympy.logic.boolalg import Boolean
from sympy.printing.precedence import PRECEDENCE

from symattn.nodes.guarded import refuse_text
from symattn.notation.glyphs import latex_name
from symattn.notation.names import identifier
from symattn.notation.presets import PRESETS

_PRESET = PRESETS["vaswani"]
"""SymPy's printer knows no preset; the plain glyphs are those nearest to its own."""


class _Spelt:
    """What is spelt alike in the Python of every library that SymPy's `lambdify` writes for."""

    def _code(self, printer: Any) -> str:
        raise NotImplementedError

    def _pythoncode(self, printer: Any) -> str:
        return self._code(printer)

    _numpycode = _scipycode = _cupycode = _jaxcode = _mpmathcode = _lambdacode = _pythoncode

    def __new__(cls, *args: Any, **options: Any) -> Any:
        """Refuse text, which SymPy would evaluate."""
        refuse_text(cls.__name__, *args)
        return super().__new__(cls, *args, **options)


class InputEntries(sympy.IndexedBase):
    """An input whose entries are read: its name and its shape, axes of size one left out."""

    def __new__(cls, name: Any, shape: Any = (), **_assumptions: Any) -> Any:
        label = name if isinstance(name, sympy.Symbol) else sympy.Symbol(str(name))
        return super().__new__(cls, label, sympy.Tuple(*shape), real=True)

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The name of the input."""
        label: Any = self.label
        return label.name

    def _sympystr(self, p: Any) -> str:
        return identifier(self.name)

    def _latex(self, _printer: Any, **_options: Any) -> str:
        return latex_name(self.name, _PRESET)[0]


class BooleanEntry(_Spelt, Boolean):
    """An entry of a boolean array that is given at run time; True means "may attend"."""

    def __new__(cls, name: Any, *positions: Any) -> Any:
        label = name if isinstance(name, Str) else Str(str(name))
        return super().__new__(cls, label, *map(sympy.sympify, positions))

    @property
    def name(self) -> str:
        """The name of the array."""
        label: Any = self.args[0]
        return label.name

    def _sympystr(self, printer: Any) -> str:
        positions = ", ".join(printer._print(position) for position in self.args[1:])
        return f"{identifier(self.name)}[{positions}]"

    _code = _sympystr

    def _latex(self, printer: Any, **_options: Any) -> str:
        positions = ",".join(printer._print(position) for position in self.args[1:])
        return rf"{{{latex_name(self.name, _PRESET)[0]}}}_{{{positions}}}"


class Bracket(_Spelt, sympy.Function):
    """``[condition]``: 1 where the condition holds, 0 where it does not.

    >>> i, j = sympy.symbols("i j", integer=True)
    >>> Bracket(j <= i), Bracket(j <= i).subs({i: 2, j: 3})
    ([j <= i], 0)
    >>> Bracket(j <= i).rewrite(sympy.Piecewise)
    Piecewise((1, i >= j), (0, True))
    """

    is_integer = True
    is_nonnegative = True

    @classmethod
    def eval(cls, condition: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the number as soon as the condition is decided."""
        decided = {sympy.true: sympy.S.One, sympy.false: sympy.S.Zero}
        return decided.get(condition)

    def _eval_rewrite_as_Piecewise(self, condition: Any, **_options: Any) -> Any:
        return sympy.Piecewise((1, condition), (0, True))

    def _sympystr(self, printer: Any) -> str:
        return f"[{printer._print(self.args[0])}]"

    def _latex(self, printer: Any, **_options: Any) -> str:
        return rf"\left[{printer._print(self.args[0])}\right]"

    def _code(self, printer: Any) -> str:
        return f"(1*({printer._print(self.args[0])}))"


class Share(_Spelt, sympy.Function):
    """``part / whole``, and 0 where the whole is 0: a weight under a mask.

    >>> Share(sympy.Integer(0), sympy.Integer(0)), Share(sympy.Integer(1), sympy.Integer(3))
    (0, 1/3)
    """

    nargs = 2
    is_real = True

    @classmethod
    def eval(cls, part: Any, whole: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the quotient as soon as the whole is known to be 0, or known not to be."""
        if whole.is_zero:
            return sympy.S.Zero
        return part / whole if whole.is_nonzero else None

    def _sympystr(self, printer: Any) -> str:
        part, whole = (printer._print(argument) for argument in self.args)
        return f"({part})/({whole})"

    def _latex(self, printer: Any, **_options: Any) -> str:
        part, whole = (printer._print(argument) for argument in self.args)
        return rf"\frac{{{part}}}{{{whole}}}"

    def _code(self, printer: Any) -> str:
        part, whole = (printer._print(argument) for argument in self.args)
        return f"(lambda whole: ({part})/(whole + (whole == 0))*(whole != 0))({whole})"


class BlockOf(_Spelt, sympy.Function):
    """The number of the block in which a position lies, where all blocks are of one size.

    >>> p, d = sympy.symbols("p d", integer=True)
    >>> BlockOf(p, d), BlockOf(p, d).subs({p: 7, d: 3}), BlockOf(p, d).rewrite(sympy.floor)
    (p//d, 2, floor(p/d))
    """

    nargs = 2
    is_integer = True

    @classmethod
    def eval(cls, position: Any, size: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the number as soon as it is known."""
        known = position.is_Integer and size.is_Integer and size.is_positive
        return sympy.floor(position / size) if known or position.is_zero else None

    def _eval_rewrite_as_floor(self, position: Any, size: Any, **_options: Any) -> Any:
        return sympy.floor(position / size)

    def _sympystr(self, printer: Any) -> str:
        level = PRECEDENCE["Atom"]
        return "//".join(printer.parenthesize(part, level, strict=True) for part in self.args)

    def _latex(self, printer: Any, **_options: Any) -> str:
        return printer._print(self.rewrite(sympy.floor))

    def _code(self, printer: Any) -> str:
        position, size = (printer._print(argument) for argument in self.args)
        return f"(({position})//({size}))"


class Largest(_Spelt, ExprWithLimits):
    """The largest of the terms that an index runs through, as `sympy.Sum` is their sum.

    >>> x, t = sympy.IndexedBase("x", real=True), sympy.Symbol("t")
    >>> Largest(x[t], (t, 0, 2)).doit()
    Max(x[0], x[1], x[2])
    """

    is_commutative = True

    def _eval_is_extended_real(self) -> bool | None:
        return self.function.is_extended_real

    def doit(self, **hints: Any) -> Any:
        """Return SymPy's `Max` of the terms where the indices have numbers for limits."""
        body = self.function.doit(**hints) if hints.get("deep", True) else self.function
        every: Any = [limits.args for limits in self.limits]
        if not all(first.is_Integer and last.is_Integer for _, first, last in every):
            return self.func(body, *self.limits)
        for index, first, last in every:
            numbers = range(int(first), int(last) + 1)
            body = sympy.Max(*(body.subs(index, k).doit(**hints) for k in numbers))
        return body

    def _sympystr(self, printer: Any) -> str:
        return f"Largest({', '.join(printer._print(argument) for argument in self.args)})"

    def _latex(self, printer: Any, **_options: Any) -> str:
        written = printer._print(self.function)
        for limits in self.limits:
            index, first, last = (printer._print(part) for part in limits.args)
            written = rf"\max_{{{first} \leq {index} \leq {last}}} \left({written}\right)"
        return written

    def _code(self, printer: Any) -> str:
        loops = ""
        for limits in self.limits:
            index, first, last = (printer._print(part) for part in limits.args)
            loops += f" for {index} in range({first}, {last} + 1)"
        return f"builtins.max({printer._print(self.function)}{loops})"


class ByPart(_Spelt, sympy.Function):
    """An entry of a direct sum read at a place: what stands in the part where the place lies.

    The arguments are a value and the condition under which it is read, again and again, and last
    the value of the last part.  It is no `sympy.Piecewise`, which SymPy folds and NumPy's code
    evaluates as a whole, beyond the ends of the other parts.

    >>> a, c = sympy.symbols("a c", integer=True)
    >>> x = sympy.IndexedBase("x", real=True)
    >>> whole = ByPart(x[a], a < c, x[a - c])
    >>> whole.rewrite(sympy.Piecewise)
    Piecewise((x[a], a < c), (x[a - c], True))
    >>> whole.subs({a: 5, c: 3})
    x[2]
    """

    is_real = True

    @classmethod
    def eval(cls, *arguments: Any) -> Any:
        """Return the value once it is decided; leave out parts in which the place is not."""
        *pairs, last = arguments
        kept: list[Any] = []
        for value, condition in zip(pairs[::2], pairs[1::2], strict=True):
            if condition == sympy.true:
                last = value
                break
            if condition != sympy.false:
                kept += [value, condition]
        if not kept:
            return last
        return None if len(kept) + 1 == len(arguments) else cls(*kept, last)

    def _eval_rewrite_as_Piecewise(self, *arguments: Any, **_options: Any) -> Any:
        *pairs, last = arguments
        return sympy.Piecewise(*zip(pairs[::2], pairs[1::2], strict=True), (last, True))

    def _sympystr(self, printer: Any) -> str:
        return printer._print(self.rewrite(sympy.Piecewise))

    def _latex(self, printer: Any, **_options: Any) -> str:
        return printer._print(self.rewrite(sympy.Piecewise))

    def _code(self, printer: Any) -> str:
        *pairs, last = (printer._print(argument) for argument in self.args)
        chosen = zip(pairs[::2], pairs[1::2], strict=True)
        return "(" + "".join(f"{value} if {where} else " for value, where in chosen) + f"{last})"
