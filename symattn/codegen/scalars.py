"""The scalars of a formula as numbers: computed once before the arrays are, to refuse early.

A formula divides by √d_k, or by a scalar that the caller gives; where that is zero, or no real
number, the arrays would fill with NaN.  Invariant: after the check, every scalar expression in the
generated source is a finite real number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import cast

from symattn.errors import InternalError, ScalarError
from symattn.meaning.form import (
    Add,
    Apply,
    Extent,
    Form,
    Mul,
    Number,
    Parameter,
    Power,
    children,
    reciprocal,
)
from symattn.nodes import Node, Quotient
from symattn.notation import text

_FUNCTIONS: Mapping[str, Callable[[float], float]] = MappingProxyType(
    {"exp": math.exp, "log": math.log, "tanh": math.tanh, "sin": math.sin, "cos": math.cos}
)


class Scalars:
    """Every scalar that stands in a formula."""

    def __init__(self, result: Node) -> None:
        found: dict[Form, None] = {}
        for node in result.walk():
            for operand, part in zip(node.operands, node.parts, strict=False):
                if not isinstance(operand, Node):
                    form = cast(Form, part)
                    found[reciprocal(form) if isinstance(node, Quotient) else form] = None
        self.forms = tuple(found)

    def check(self, sizes: Mapping[str, int], numbers: Mapping[str, float]) -> None:
        """Raise `ScalarError` for a scalar that is no finite real number with these values."""
        for form in self.forms:
            try:
                value = scalar_value(form, sizes, numbers)
            except ZeroDivisionError:
                reason = "it divides by zero"
            except (ValueError, OverflowError):
                reason = "it is no finite real number"
            else:
                if math.isfinite(value):
                    continue
                reason = "it is no finite real number"
            raise ScalarError(text(form), reason, dict(_used(form, sizes, numbers)))


def scalar_value(form: Form, sizes: Mapping[str, int], numbers: Mapping[str, float]) -> float:
    """Return the number that a scalar is; raises what arithmetic raises where it is none."""
    match form:
        case Number(value):
            return float(value)
        case Extent(size):
            return float(size.value(sizes))
        case Parameter(name):
            return numbers[name]
        case Add(terms):
            return sum(scalar_value(term, sizes, numbers) for term in terms)
        case Mul(factors):
            return math.prod(scalar_value(factor, sizes, numbers) for factor in factors)
        case Power(base, exponent):
            # math.pow stays in the real numbers, and raises ValueError where ** would leave them.
            inner = scalar_value(base, sizes, numbers)
            if inner == 0 and exponent < 0:
                raise ZeroDivisionError
            return math.pow(inner, float(exponent))
        case Apply(function, argument) if function in _FUNCTIONS:
            return _FUNCTIONS[function](scalar_value(argument, sizes, numbers))
        case _:
            raise InternalError(f"a scalar without a value: {form}")


def _used(
    form: Form, sizes: Mapping[str, int], numbers: Mapping[str, float]
) -> list[tuple[str, float]]:
    """Return the sizes and scalars in a form, with their values."""
    found: list[tuple[str, float]] = []
    match form:
        case Extent(size):
            found += [(tag, sizes[tag]) for tag in size.tags]
        case Parameter(name):
            found.append((name, numbers[name]))
        case _:
            for child in children(form):
                found += _used(cast(Form, child), sizes, numbers)
    return found
