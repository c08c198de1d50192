"""Where a formula is evaluated, and the numbers that its scalars are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import sympy

from symattn.errors import InternalError, OperationRefusedError
from symattn.evaluate.arithmetic import Arithmetic, apply_function, defined, number, rows_of
from symattn.nodes import BooleanInput, Dim, Scalar
from symattn.nodes.core import NamedInput, Node
from symattn.nodes.indices import AxisIndex
from symattn.nodes.scalars import NAMES_OF_FUNCTIONS, PositionSymbol


@dataclass(frozen=True)
class Point:
    """Where a formula is evaluated: sizes, inputs, scalars, the arithmetic, and indices."""

    sizes: Mapping[str, int]
    inputs: Mapping[NamedInput | BooleanInput, Any]
    scalars: Mapping[str, Any]
    arithmetic: Arithmetic
    indices: Mapping[AxisIndex, int] = field(default_factory=dict)
    converted: dict[NamedInput, list[Any]] = field(default_factory=dict)

    def shape(self, node: Node) -> tuple[int, int]:
        """Return the numbers of rows and columns of a node here."""
        return node.sizes[0].value(self.sizes), node.sizes[1].value(self.sizes)

    def rows(self, source: NamedInput) -> list[Any]:
        """Return the numbers of an input here; they are converted once."""
        if source not in self.converted:
            given = self.inputs[source]
            self.converted[source] = rows_of(source, given, self.sizes, self.arithmetic)
        return self.converted[source]


def require_indices(
    nodes: Iterable[Node], sizes: Mapping[str, int], indices: Mapping[AxisIndex, int]
) -> None:
    """Raise unless every index that is free in a formula has a value below its size.

    >>> from symattn.nodes import family, index
    >>> require_indices([family("W", 3, 2, 2)[index("i", 3)]], {}, {})
    Traceback (most recent call last):
        ...
    symattn.errors.OperationRefusedError: evaluating a formula in which i is free is not an ...
    """
    for index in dict.fromkeys(i for node in nodes for i in node.indices):
        value, size = indices.get(index), index.size.value(sizes)
        if value is None or not 0 <= value < size:
            raise OperationRefusedError(
                f"evaluating a formula in which {index.name} is free",
                f"give its value, from 0 to {size - 1}: indices={{{index.name}: 0}}",
            )


# Scalars are SymPy expressions; these are the classes that a formula lets in.

ScalarRule = Callable[[Any, Point], Any]


def _sum(expr: sympy.Expr, point: Point) -> Any:
    result = point.arithmetic.mpf(0)
    for term in expr.args:
        result = result + scalar_value(term, point)
    return result


def _product(expr: sympy.Expr, point: Point) -> Any:
    result = point.arithmetic.mpf(1)
    for factor in expr.args:
        result = result * scalar_value(factor, point)
    return result


def _power(expr: sympy.Pow, point: Point) -> Any:
    base = scalar_value(expr.base, point)
    if expr.exp.is_Integer:
        return base ** int(expr.exp)
    return base ** scalar_value(expr.exp, point)


def _function(name: str) -> ScalarRule:
    def value(expr: sympy.Expr, point: Point) -> Any:
        return apply_function(name, scalar_value(expr.args[0], point), point.arithmetic)

    return value


SCALAR_RULES: dict[type[sympy.Basic], ScalarRule] = {
    Dim: lambda expr, point: point.arithmetic.mpf(point.sizes[expr.name]),
    Scalar: lambda expr, point: number(point.scalars[expr.name], point.arithmetic),
    PositionSymbol: lambda expr, point: number(point.scalars[expr.name], point.arithmetic),
    sympy.Rational: lambda expr, point: point.arithmetic.mpf(int(expr.p)) / int(expr.q),
    type(sympy.E): lambda expr, point: point.arithmetic.exp(point.arithmetic.mpf(1)),
    sympy.Add: _sum,
    sympy.Mul: _product,
    sympy.Pow: _power,
    **{function: _function(name) for function, name in NAMES_OF_FUNCTIONS.items()},
}
"""How each class of SymPy scalars is computed; subclasses follow their base."""


def scalar_value(expr: sympy.Basic, point: Point) -> Any:
    """Return the number that a scalar is at a point."""
    for base in type(expr).__mro__:
        compute = SCALAR_RULES.get(cast(Any, base))
        if compute is not None:
            return defined(compute(expr, point), point.arithmetic, "a scalar")
    raise InternalError(f"no number for the scalar {expr} ({type(expr).__name__})")
