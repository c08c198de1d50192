"""Attention as a formula of three lines: scores S, weights P, output O.

``Attention(Q, K, V) = V Softmax(f(Q, K))``: only the score function f and the layout vary.  The
layout is read off the shapes; where both fit, or none, the call says so and asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from symattn.errors import OperationRefusedError, ShapeError
from symattn.nodes import Node, Transposed, matrix, softmax
from symattn.nodes.core import as_matrix
from symattn.nodes.fixes import facts, transposed
from symattn.nodes.given import in_force
from symattn.notation import brief
from symattn.tags import Size
from symattn.variants.layouts import BUILDERS, Layout, layout_named
from symattn.variants.scores import Score, score_named

Operands = tuple[Node, Node, Node]
"""Queries, keys and values."""


def attention(
    Q: Any, K: Any, V: Any, score: str = "scaled_dot", *, layout: str | None = None, W: Any = None
) -> Node:
    """Return the attention of queries Q over keys K and values V, as a formula.

    >>> import symattn as sa
    >>> d_k, d_v, n, m = sa.dims("d_k d_v n m")
    >>> Q, K, V = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
    >>> print(sa.text(sa.attention(Q, K, V)))
    softmax(Q Kᵀ / √d_k) V

    ``score`` is "dot", "general" (``KᵀWQ``, with ``W=`` or a matrix of that name) or "scaled_dot".
    In column layout Q is d_k × n, K d_k × m, V d_v × m, in row layout each is transposed; the one
    that fits is taken.  Raises `ShapeError`, with the shapes, if both fit and no ``layout=`` is
    given, or if none does; `UnknownNameError` for an unknown score or layout.

    Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.2.
    """
    query, key, value = (as_matrix(operand, "attention") for operand in (Q, K, V))
    operands = (query, key, value)
    chosen = _fitting(operands, layout)
    return attend(operands, score_named(score), chosen, W)["O"]


def attend(operands: Operands, score: Score, layout: Layout, W: Any = None) -> dict[str, Node]:
    """Return the lines S, P and O of attention in a layout that fits."""
    query, key, value = operands
    if score.weighted:
        arguments = (query, key, _weight(operands, layout) if W is None else W)
    elif W is None:
        arguments = (query, key)
    else:
        raise OperationRefusedError(
            f"attention(…, score={score.name!r}, W=…)", "only the score 'general' has a weight"
        )
    scores = score.in_layout[layout.name](*arguments)
    weights = softmax(scores, axis=layout.axis)
    return {"S": scores, "P": weights, "O": layout.mix(value, weights)}


def _weight(operands: Operands, layout: Layout) -> Node:
    """Return the weight W of the general score, from the features of queries to those of keys."""
    query, key, _ = operands
    weight = matrix("W", layout.feature_size(key), layout.feature_size(query))
    taken = [node for operand in operands for node in operand.inputs() if node.label == "W"]
    if any(node != weight for node in taken):
        raise OperationRefusedError(
            "attention(…, score='general')",
            f"a matrix W with other sizes is in it already; give the weight of the score as W= "
            f"({weight.sizes[0]}×{weight.sizes[1]})",
        )
    return weight


def _fitting(operands: Operands, name: str | None) -> Layout:
    """Return the layout of that name, or the one that fits; raise if it is not to be found."""
    clashes = {layout: list(_clashes(operands, layout)) for layout in BUILDERS.values()}
    fitting = [layout for layout, found in clashes.items() if not found]
    wanted = None if name is None else layout_named(name)
    if wanted in fitting:
        return wanted
    if wanted is None and len(fitting) == 1:
        return fitting[0]
    if wanted is not None:
        clash, fix = _said(wanted, clashes[wanted]), _calls(fitting)
    elif fitting:
        clash, fix = "both layouts fit", _calls(fitting)
    else:
        clash, fix = "; ".join(_said(*found) for found in clashes.items()), _transposes(operands)
    written = ", ".join(brief(operand) for operand in operands)
    raise ShapeError(f"attention({written})", facts(operands), clash, fix)


def _clashes(operands: Operands, layout: Layout) -> Iterator[str]:
    """Say which sizes differ that a layout wants equal."""
    query, key, value = operands
    given = query.given.merge(key.given).merge(value.given).merge(in_force())
    for left, right, axis in (
        (query, key, layout.features),
        (key, value, layout.tokens),
    ):
        sizes: tuple[Size, Size] = left.sizes[axis], right.sizes[axis]
        if given.needed(*sizes) is None:
            side = ("rows", "columns")[axis]
            yield (
                f"the {side} of {brief(left)} are {sizes[0]}, "
                f"but the {side} of {brief(right)} are {sizes[1]}"
            )


def _said(layout: Layout, clashes: list[str]) -> str:
    return f"in {layout.name} layout " + " and ".join(clashes)


def _calls(layouts: list[Layout]) -> str:
    meant = {"column": "tokens are columns", "row": "tokens are rows"}
    return " or ".join(f"layout={layout.name!r} ({meant[layout.name]})" for layout in layouts)


def _transposes(operands: Operands) -> str:
    """Return the call with the fewest operands transposed that fits a layout."""
    for changed in transposed(operands):
        query, key, value = (_plainly(operand) for operand in changed)
        if any(not list(_clashes((query, key, value), layout)) for layout in BUILDERS.values()):
            return f"attention({', '.join(brief(operand) for operand in (query, key, value))})"
    return ""


def _plainly(operand: Node) -> Node:
    """Return X for X.T.T."""
    inner = operand.matrices[0] if isinstance(operand, Transposed) else operand
    return inner.matrices[0] if isinstance(inner, Transposed) and inner is not operand else operand
