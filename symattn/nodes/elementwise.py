"""Functions applied to every entry, and the same names for scalars.

What a function is stands in one row of `symattn.meaning.functions`, its documentation included;
this module gives each row a public function.  ``function("phi")`` is a function of which nothing is
known but its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import sympy
from sympy.core.symbol import Str

from symattn.errors import NotSupportedError, TextRefusedError
from symattn.meaning.form import ZERO, Apply, Form, Mul, Place, Truth
from symattn.meaning.functions import FUNCTIONS
from symattn.nodes.algebra import MatrixSum
from symattn.nodes.arrays import ArrayContext
from symattn.nodes.core import Agreement, Arguments, Node, as_matrix, as_operand
from symattn.nodes.finite import require_finite
from symattn.nodes.given import carried
from symattn.nodes.indicators import AdditiveMask
from symattn.nodes.scalars import OF_SCALARS
from symattn.notation.names import check_name
from symattn.notation.rows import Binding, Kind, Notation
from symattn.tags import Size


class Elementwise(Node):
    """A function applied to every entry of a matrix."""

    notation = Notation(Kind.FUNCTION, Binding.APPLICATION)

    @classmethod
    def _accept(cls, name: Any, operand: Any) -> Arguments:
        label = check_name(name.name if isinstance(name, Str) else name)
        return Str(label), as_matrix(operand, label)

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        return cast(Node, operands[1]).sizes

    @property
    def function(self) -> str:
        """The name of the function."""
        return cast(Str, self.args[0]).name

    @property
    def label(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The name of the function, as a printer asks for it."""
        return self.function

    @property
    def operands(self) -> Arguments:
        """The matrix alone; the name is not an operand."""
        return self.matrices

    @classmethod
    def _leaves_open(cls, operands: Arguments) -> bool:
        name = cast(Str, operands[0]).name
        if name != "exp":
            reason = f"{name} takes finite numbers; add the mask last, to {name}(S)"
            require_finite(operands, reason)
        return False

    def selecting(self) -> Node:
        finite, masks = self.matrices[0].finite_and_masks()
        if finite is None or not masks:
            return self
        return Elementwise(self.function, MatrixSum(finite, *masks, *carried(self.given)))

    def meaning(self, row: Place, column: Place) -> Form:
        """``f(X[i, j])``, or what ``f`` is defined to be; under an additive mask ``[g] e^x``."""
        finite, masks = self.matrices[0].finite_and_masks()
        argument = ZERO if finite is None else finite.meaning(row, column)
        if masks:
            allowed = [Truth(cast(AdditiveMask, mask).allowed(row, column)) for mask in masks]
            return Mul((*allowed, Apply(self.function, argument)))
        known = FUNCTIONS.get(self.function)
        if known is not None and known.definition is not None:
            return known.definition(argument)
        return Apply(self.function, argument)

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return the row's own array expression."""
        known = FUNCTIONS.get(self.function)
        if known is None:
            raise NotSupportedError(f"running {self.function}: nothing is known of it but its name")
        return known.array_code(operands[0], context.call)


def function(name: str) -> Callable[[Any], Node]:
    """Return a function of every entry by its name alone, for proofs that hold for any function.

    >>> import symattn as sa
    >>> phi = sa.function("phi")
    >>> phi(sa.matrix("X", *sa.dims("d n"))).shape
    (d, n)

    A name of the table of functions (``"tanh"``) is that function.  A function known by name only
    is printed and proved with, but has no numbers: running it raises `NotSupportedError`.
    """
    label = check_name(name)

    def apply(operand: Any) -> Node:
        return _apply(label, operand)

    apply.__name__ = label
    return apply


def _apply(name: str, operand: Any) -> Any:
    if isinstance(operand, str):
        raise TextRefusedError(name, operand)
    value = as_operand(operand)
    if isinstance(value, Node):
        return Elementwise(name, value)
    if name not in OF_SCALARS:
        raise NotSupportedError(f"{name} of a scalar ({value})")
    # A symbol of SymPy's own is left as it is: only a matrix beside it says whether it is a tag.
    result = OF_SCALARS[name](operand if isinstance(operand, sympy.Expr) else value)
    as_operand(result)
    return result


def _public(name: str) -> Callable[[Any], Any]:
    """Return the public function of a row, with its documentation."""
    row = FUNCTIONS[name]
    of_a_scalar = "it is a scalar" if name in OF_SCALARS else "it raises `NotSupportedError`"
    finite = "" if name == "exp" else "Entries of −∞ raise `MinusInfinityError`."

    def apply(x: Any) -> Any:
        return _apply(name, x)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"""Return {row.summary} of every entry{row.domain and f", {row.domain}"}.

    >>> import symattn as sa
    >>> sa.{name}(sa.matrix("S", *sa.dims("m n"))).shape
    (m, n)

    Of a scalar {of_a_scalar}.
    Raises `NotAnOperandError` for arrays and for what is no finite real number.
    {finite}
    """
    return apply


exp = _public("exp")
log = _public("log")
tanh = _public("tanh")
sin = _public("sin")
cos = _public("cos")
abs = _public("abs")
relu = _public("relu")
sigmoid = _public("sigmoid")
silu = _public("silu")
softplus = _public("softplus")
sqrt = _public("sqrt")
square = _public("square")
reciprocal = _public("reciprocal")
