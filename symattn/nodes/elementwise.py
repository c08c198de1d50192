"""Functions applied to every entry, and the same names for scalars.

What a function is stands in one row of `symattn.meaning.functions`; this module gives each row a
public function.  ``function("phi")`` is a function of which nothing is known but its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import sympy
from sympy.core.symbol import Str

from symattn.errors import NotSupportedError, TextRefusedError
from symattn.meaning.form import Apply, Form, Place
from symattn.meaning.functions import FUNCTIONS
from symattn.nodes.arrays import ArrayContext
from symattn.nodes.core import Agreement, Arguments, Node, as_matrix, as_operand
from symattn.notation.names import check_name
from symattn.notation.rows import Binding, Kind, Notation
from symattn.tags import Size

# SymPy's own functions, for arguments that are scalars.
_OF_SCALARS: dict[str, Callable[[Any], Any]] = {
    "exp": sympy.exp,
    "log": sympy.log,
    "tanh": sympy.tanh,
    "sin": sympy.sin,
    "cos": sympy.cos,
    "sqrt": sympy.sqrt,
    "square": lambda x: x**2,
    "reciprocal": lambda x: 1 / x,
}


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

    @property
    def matrices(self) -> tuple[Node, ...]:
        """The matrix to which the function is applied."""
        return (cast(Node, self.args[1]),)

    def rebuilt(self, change: Callable[[Node], Node]) -> Node:
        """Return the same function of the changed matrix."""
        changed = change(self.matrices[0])
        return self if changed is self.matrices[0] else type(self)(self.args[0], changed)

    def meaning(self, row: Place, column: Place) -> Form:
        """``f(X[i, j])``, or what ``f`` is defined to be."""
        argument = self.matrices[0].meaning(row, column)
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
    known = _OF_SCALARS.get(name)
    if known is None:
        raise NotSupportedError(f"{name} of a scalar ({value})")
    # A symbol of SymPy's own is left as it is: only a matrix beside it says whether it is a tag.
    result = known(operand if isinstance(operand, sympy.Expr) else value)
    as_operand(result)
    return result


def exp(x: Any) -> Any:
    """Return the exponential of every entry.

    >>> import symattn as sa
    >>> sa.exp(sa.matrix("S", *sa.dims("m n"))).shape
    (m, n)
    """
    return _apply("exp", x)


def log(x: Any) -> Any:
    """Return the natural logarithm of every entry.

    >>> import symattn as sa
    >>> sa.log(sa.matrix("S", *sa.dims("m n"))).shape
    (m, n)

    Undefined where an entry is not positive.
    """
    return _apply("log", x)


def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent of every entry.

    >>> import symattn as sa
    >>> sa.tanh(sa.matrix("S", *sa.dims("m n"))).shape
    (m, n)
    """
    return _apply("tanh", x)


def sin(x: Any) -> Any:
    """Return the sine of every entry.

    >>> import symattn as sa
    >>> sa.sin(sa.matrix("S", *sa.dims("m n"))).shape
    (m, n)
    """
    return _apply("sin", x)


def cos(x: Any) -> Any:
    """Return the cosine of every entry.

    >>> import symattn as sa
    >>> sa.cos(sa.matrix("S", *sa.dims("m n"))).shape
    (m, n)
    """
    return _apply("cos", x)


def relu(x: Any) -> Any:
    """Return the positive part of every entry.

    >>> import symattn as sa
    >>> sa.relu(sa.matrix("S", *sa.dims("m n"))).shape
    (m, n)
    """
    return _apply("relu", x)


def sigmoid(x: Any) -> Any:
    """Return the logistic function 1/(1 + e^-x) of every entry.

    >>> import symattn as sa
    >>> sa.sigmoid(sa.matrix("S", *sa.dims("m n"))).shape
    (m, n)
    """
    return _apply("sigmoid", x)


def silu(x: Any) -> Any:
    """Return x times its logistic function of every entry.

    >>> import symattn as sa
    >>> sa.silu(sa.matrix("S", *sa.dims("m n"))).shape
    (m, n)
    """
    return _apply("silu", x)


def softplus(x: Any) -> Any:
    """Return log(1 + e^x) for every entry.

    >>> import symattn as sa
    >>> sa.softplus(sa.matrix("S", *sa.dims("m n"))).shape
    (m, n)
    """
    return _apply("softplus", x)


def sqrt(x: Any) -> Any:
    """Return the square root of every entry.

    >>> import symattn as sa
    >>> sa.sqrt(sa.dim("d_k"))
    sqrt(d_k)

    Of a scalar it is a scalar.
    """
    return _apply("sqrt", x)


def square(x: Any) -> Any:
    """Return the square of every entry.

    >>> import symattn as sa
    >>> sa.square(sa.matrix("S", *sa.dims("m n"))).shape
    (m, n)
    """
    return _apply("square", x)


def reciprocal(x: Any) -> Any:
    """Return 1/x for every entry.

    >>> import symattn as sa
    >>> sa.reciprocal(sa.matrix("S", *sa.dims("m n"))).shape
    (m, n)

    Undefined at 0: a proof that divides lists the condition.
    """
    return _apply("reciprocal", x)
