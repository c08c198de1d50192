"""What SymPy asks of an expression, answered for formulas: they print, and stay as written.

SymPy's printers and functions look for hooks on the expressions they meet.  Those that would
evaluate or simplify return the expression itself; those that print hand over to `symattn.notation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

import sympy
from sympy.printing.numpy import JaxPrinter, NumPyPrinter
from sympy.printing.pretty.stringpict import prettyForm

from symattn.errors import NotSupportedError, OperationRefusedError
from symattn.nodes.arrays import inline
from symattn.nodes.finite import as_finite, with_selections
from symattn.nodes.guarded import refuse_text
from symattn.nodes.refused import Refusals
from symattn.notation.code import python
from symattn.notation.rows import Printable
from symattn.notation.terminal import text
from symattn.notation.tex import latex

if TYPE_CHECKING:
    from symattn.nodes.core import Node


class WrittenExpr(Refusals, sympy.MatrixExpr):
    """A matrix expression that stays as it was written."""

    _op_priority = 1000.0  # SymPy asks the operand of higher priority first
    is_commutative = False
    is_number = False

    # Nothing is evaluated.

    def doit(self, **_hints: Any) -> Self:
        """Return the expression itself: nothing is evaluated."""
        return self

    def _eval_simplify(self, **_options: Any) -> Self:
        return self

    def simplify(self, **_options: Any) -> Self:
        """Return the expression itself: a formula stays as it was written."""
        return self

    def as_numer_denom(self) -> tuple[Self, sympy.Expr]:
        """Return the expression over one: SymPy's ``Eq`` asks, and nothing is taken apart."""
        return self, sympy.S.One

    def replace(self, query: Any, *_values: Any, **_options: Any) -> Self:
        """Return the expression itself where SymPy looks for a class that no formula holds."""
        if isinstance(query, type) and not self.atoms(query):
            return self
        raise OperationRefusedError(
            ".replace", "to change a part write .xreplace({old: new}), which checks the result"
        )

    # Expressions are immutable, so a copy may be the same.

    def copy(self) -> Self:
        """Return the same expression, built again."""
        return type(self)(*self.args)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: Any) -> Self:
        return self

    def has(self, *patterns: Any) -> bool:
        """Tell whether one of the patterns occurs in the expression."""
        refuse_text("has", *patterns)
        return bool(super().has(*patterns))

    def sort_key(self, order: Any = None) -> Any:
        """Return a key for SymPy's orderings."""
        return self.class_key(), (1, (str(self),)), sympy.S.One.sort_key(), sympy.S.One

    # Printing.

    @property
    def _printable(self) -> Printable:
        return cast(Printable, self)

    def _latex(self, _printer: Any) -> str:
        return latex(self._printable)

    def _sympystr(self, _printer: Any) -> str:
        return python(self._printable)

    def _pretty(self, _printer: Any) -> Any:
        return prettyForm(text(self._printable))

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {latex(self._printable)}$"

    def _numpycode(self, printer: Any) -> str:
        root = with_selections(as_finite(cast("Node", self), "lambdify"))
        return inline(root, lambda name: printer._module_format(f"{printer._module}.{name}"))

    _cupycode = _numpycode

    # NumPy's and CuPy's printers ask for Python code too, and know the module that they write for.
    def _pythoncode(self, printer: Any) -> str:
        if isinstance(printer, NumPyPrinter) and not isinstance(printer, JaxPrinter):
            return self._numpycode(printer)
        return self._othercode(printer)

    def _othercode(self, printer: Any) -> str:
        raise NotSupportedError(
            f"code by SymPy's {type(printer).__name__}; with sympy.lambdify use modules='numpy', "
            "or generate a function with sa.lambdify"
        )

    _lambdacode = _mpmathcode = _numexprcode = _tensorflowcode = _torchcode = _jaxcode = _othercode
