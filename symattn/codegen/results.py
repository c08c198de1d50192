"""What a generated function returns: the result, and on request what its softmax computed.

A softmax is two things besides its weights: exponentials and their sum.  The logarithm of the sum,
log Σ_j exp(s_ij), is what merges results over parts of the keys, and what a gradient needs; the
weights are for looking at.  Both are asked for by name, and come in the order in which they were
asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from symattn.errors import NotSupportedError, SignatureError
from symattn.nodes import Node, Softmax
from symattn.tags import named

RESULTS = {
    "output": "the result of the formula",
    "lse": "log Σ exp(scores) over the keys of every query",
    "weights": "the softmax",
}
"""What can be returned, and what it is."""


def names_of_results(returns: str | Iterable[str] | None, formula: str) -> tuple[str, ...]:
    """Return the names of what is returned, in order; empty for the result alone, as no tuple.

    Raises `UnknownNameError` for another name, and `SignatureError` for none or one twice.
    """
    if returns is None:
        return ()
    alone = isinstance(returns, str) or not isinstance(returns, Iterable)
    names = (cast(str, returns),) if alone else tuple(returns)
    for name in names:
        named("result", name, RESULTS)
    if not names:
        raise SignatureError(formula, ("returns=() asks for nothing",))
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    if twice:
        raise SignatureError(formula, (f"returns= asks for {twice[0]} twice",))
    return names


def the_softmax(nodes: Iterable[Node], returns: Sequence[str]) -> Softmax | None:
    """Return the one softmax whose weights or sums are returned, None if none are asked for.

    ``nodes`` are those of a formula.  Raises `NotSupportedError` unless there is one softmax (it
    may have heads) among them.
    """
    asked = [name for name in returns if name != "output"]
    if not asked:
        return None
    nodes = tuple(nodes)
    found = [node for node in nodes if isinstance(node, Softmax)]
    inside = [
        node
        for outer in nodes
        for body in outer.bodies
        for node in body.everything()
        if isinstance(node, Softmax)
    ]
    if len(found) == 1 and not inside:
        return found[0]
    count = len(found) + len(inside)
    if count > 1:
        which = f"{count} softmaxes"
    else:
        which = "a softmax in a score" if inside else "no softmax"
    raise NotSupportedError(f"returns={asked[0]!r} of a formula with {which}")
