"""Where −∞ may stand: in an addend of what a softmax or an exp takes up, and nowhere else.

A node with an additive mask that nothing has taken up yet is *open*: it has no value.  Sums,
transposes and positive scalars leave it open, a softmax and an exp close it, and all else refuses
it, whole formulas included.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import sympy

from symattn.errors import MinusInfinityError
from symattn.notation.code import brief

if TYPE_CHECKING:
    from symattn.nodes.core import Node


def is_open(operand: sympy.Basic) -> bool:
    """Tell whether an operand has entries of −∞: an additive mask that nothing has taken up.

    >>> import symattn as sa
    >>> S, M = sa.matrix("S", 3, 3), sa.additive_mask(sa.causal(), 3, 3, axis=0)
    >>> is_open(S), is_open(S + M), is_open(sa.exp(S + M))
    (False, True, False)
    """
    return bool(getattr(operand, "has_minus_infinity", False))


def require_finite(operands: Iterable[sympy.Basic], reason: str) -> None:
    """Raise `MinusInfinityError`, for that reason, if one of the operands is open.

    >>> import symattn as sa
    >>> require_finite([sa.ones(2, 3)], "a product takes finite numbers")
    """
    for operand in operands:
        if is_open(operand):
            raise MinusInfinityError(brief(operand), reason)


def require_positive(operand: Node, scalars: Iterable[sympy.Basic]) -> bool:
    """Tell whether an operand is open, which positive scalars beside it leave as it is.

    >>> import symattn as sa
    >>> M = sa.additive_mask(sa.causal(), 3, 3, axis=0)
    >>> require_positive(M, [sympy.Integer(-1)])
    Traceback (most recent call last):
        ...
    symattn.errors.MinusInfinityError: ...: only what is certainly positive may scale it, not -1

    0 times −∞ is nothing, and −1 times −∞ would be +∞: for them it raises `MinusInfinityError`.
    """
    if not is_open(operand):
        return False
    for scalar in scalars:
        if not scalar.is_positive:
            declared = "" if scalar.is_number else '; declare it so: sa.scalar("c", positive=True)'
            reason = f"only what is certainly positive may scale it, not {scalar}{declared}"
            raise MinusInfinityError(brief(operand), reason)
    return True


def as_finite(formula: Node, call: str) -> Node:
    """Return a whole formula, or raise `MinusInfinityError` if it is open; ``call`` takes it.

    >>> import symattn as sa
    >>> as_finite(sa.ones(2, 3), "prove")
    ones(2, 3)
    """
    reason = f"{call} takes a whole formula; take the softmax or the exp of it first"
    require_finite((formula,), reason)
    return formula


def with_selections(formula: Node) -> Node:
    """Return a formula with its additive masks as conditions, as code computes them.

    >>> import symattn as sa
    >>> S, M = sa.matrix("S", 3, 3), sa.additive_mask(sa.causal(), 3, 3, axis=0)
    >>> with_selections(sa.softmax((S + M) / 2, axis=0))
    softmax(S / 2, axis=0, mask=causal())

    What is masked out may be anything, NaN included, and NaN plus −∞ would be NaN.
    """
    changed: dict[Node, Node] = {}
    for node in formula.walk():
        changed[node] = node.rebuilt(lambda part: changed.get(part, part)).selecting()
    return changed[formula]
