"""What ``subs`` takes: an old and a new, pairs of them, or a dict, as SymPy's own does.

Pairs are replaced one after another, those of a dict from the largest old part to the smallest;
``simultaneous=True`` replaces all at once, as ``xreplace`` does.  Text is refused wherever it
hides, since SymPy would evaluate it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sympy

from symattn.errors import OperationRefusedError
from symattn.nodes.guarded import without_text

Pairs = list[tuple[Any, Any]]


def pairs_of(*rules: Any) -> Pairs:
    """Return the pairs (old, new) that the arguments of ``subs`` mean, in order of replacement.

    >>> x, y = sympy.symbols("x y")
    >>> pairs_of(x, y), pairs_of([(x, 1), (y, 2)]), pairs_of({x: 1, x + y: 2})
    ([(x, y)], [(x, 1), (y, 2)], [(x + y, 2), (x, 1)])

    Raises `TextRefusedError` for text in any of them, `OperationRefusedError` for anything else.
    """
    match without_text("subs", *rules):
        case (old, new):
            return [_pair((old, new))]
        case (rule,) if isinstance(rule, (Mapping, sympy.Dict)):
            return sorted(rule.items(), key=lambda pair: -_parts(pair[0]))
        case (pairs,) if isinstance(pairs, Iterable) and not isinstance(pairs, sympy.Basic):
            return [_pair(pair) for pair in pairs]
        case _:
            raise _refusal()


def _pair(pair: Any) -> tuple[Any, Any]:
    if not isinstance(pair, (tuple, list, sympy.Tuple)) or len(pair) != 2:
        raise _refusal()
    try:
        hash(pair[0])
    except TypeError:
        raise _refusal() from None
    return pair[0], pair[1]


def _parts(expression: Any) -> int:
    """Return how many parts an expression has."""
    return sum(1 for _ in sympy.preorder_traversal(expression))


def _refusal() -> OperationRefusedError:
    return OperationRefusedError(
        ".subs of these arguments",
        "write .subs(old, new), .subs([(old, new), …]) or .subs({old: new})",
    )
