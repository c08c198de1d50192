"""The scalars of a formula as numbers: computed once before the arrays are, to refuse early.

A formula divides by √d_k, or by a scalar that the caller gives; where that is zero, or no real
number, the arrays would fill with NaN.  Invariant: after the check, every scalar expression in the
generated source is a finite real number.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import cast

from symattn.errors import ScalarError, UndefinedPointError
from symattn.evaluate import BOUNDED_FLOATS, entry_value
from symattn.meaning.form import Extent, Form, Parameter, children, reciprocal
from symattn.nodes import Node, PositionBias, Quotient
from symattn.notation import text
from symattn.notation.conditions import parts_of

_NO_NUMBER = "it is no finite real number"


class Scalars:
    """Every scalar that stands in a formula."""

    def __init__(self, result: Node) -> None:
        found: dict[Form, None] = {}
        for node in result.everything():
            for operand, part in zip(node.operands, node.parts, strict=False):
                if not isinstance(operand, Node):
                    form = cast(Form, part)
                    found[reciprocal(form) if isinstance(node, Quotient) else form] = None
            if isinstance(node, PositionBias):
                names = {position.name for position in node.positions}
                found |= dict.fromkeys(_apart_from(names, cast(Form, node.parts[0])))
        self.forms = tuple(found)

    def check(self, sizes: Mapping[str, int], numbers: Mapping[str, float], largest: float) -> None:
        """Raise `ScalarError` for a scalar that no array element can hold with these values."""
        for form in self.forms:
            reason = _problem(form, sizes, numbers, largest)
            if reason:
                raise ScalarError(text(form), reason, dict(_used(form, sizes, numbers)))


def _apart_from(names: Collection[str], form: Form) -> Iterator[Form]:
    """Yield the largest parts of a form in which no scalar has one of these names."""
    if not any(isinstance(part, Parameter) and part.name in names for part in parts_of(form)):
        yield form
        return
    for child in children(form):
        yield from _apart_from(names, cast(Form, child))


def _problem(
    form: Form, sizes: Mapping[str, int], numbers: Mapping[str, float], largest: float
) -> str:
    """Return why a scalar has no value, or an empty text if it has one."""
    try:
        value = entry_value(form, {}, sizes, {}, numbers, BOUNDED_FLOATS)
    except UndefinedPointError as error:
        return "it divides by zero" if error.divides_by_zero else _NO_NUMBER
    if not math.isfinite(value):
        return _NO_NUMBER
    return "" if abs(value) <= largest else f"it is larger than the dtype can hold ({largest:.3g})"


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
