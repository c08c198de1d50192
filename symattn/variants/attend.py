"""Attention as a formula of three lines: scores S, weights P, output O.

``Attention(Q, K, V) = V Softmax(f(Q, K))``: only the score function f and the layout vary.  The
layout is read off the shapes; where both fit, or none, the call says so and asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from symattn.errors import ShapeError
from symattn.nodes import Node, Transposed, positional, softmax
from symattn.nodes.core import as_matrix
from symattn.nodes.fixes import facts, transposed
from symattn.nodes.given import in_force
from symattn.notation import brief
from symattn.tags import Size
from symattn.variants.layouts import BUILDERS, Layout, layout_named
from symattn.variants.scores import Score, score_named, weights_of

Operands = tuple[Node, Node, Node]
"""Queries, keys and values."""


def attention(
    Q: Any,
    K: Any,
    V: Any,
    score: str | Callable[[Any, Any], Any] = "scaled_dot",
    *,
    bias: Callable[[Any, Any], Any] | Node | None = None,
    mask: Any = None,
    layout: str | None = None,
    **weights: Any,
) -> Node:
    """Return the attention of queries Q over keys K and values V, as a formula.

    >>> import symattn as sa
    >>> d_k, d_v, n, m = sa.dims("d_k d_v n m")
    >>> Q, K, V = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
    >>> print(sa.text(sa.attention(Q, K, V)))
    softmax(Q Kᵀ / √d_k) V

    >>> print(sa.text(sa.attention(Q, K, V, mask=sa.causal(align="top_left"))))
    softmax_{j ≤ i}(Q Kᵀ / √d_k) V

    ``score`` is a name or a function of a query and a key, two column vectors:

    >>> W, c = sa.matrix("W", d_k, d_k), sa.scalar("c", positive=True)
    >>> print(sa.text(sa.attention(Q, K, V, score=lambda q, k: k.T @ W @ q)))
    softmax(Q Wᵀ Kᵀ) V
    >>> print(sa.text(sa.attention(Q, K, V, score=lambda q, k: c * sa.tanh(k.T @ q / c))))
    softmax(c tanh(Q Kᵀ / c)) V

    The names are "dot", "scaled_dot", "general" (``KᵀWQ``), "additive" (``vᵀ tanh(W q + U k)``),
    "concat" (``vᵀ tanh(W [q; k])``), "location" (``W q``) and "cosine" (over ``tau``); their
    weights are given by keyword (``W=``, ``U=``, ``v=``, ``tau=``), or are symbols of their own.
    ``bias`` is a number from the positions of a query and a key, as in
    ``bias=lambda i, j: -slope * (i - j)``, or a matrix of biases, and is added to the score.

    In column layout Q is d_k × n, K d_k × m, V d_v × m, in row layout each is transposed; the one
    that fits is taken.  ``mask`` says which queries may attend to which keys, as in `softmax`; it
    comes after the score.  Raises `ShapeError`, with the shapes, if both fit and no ``layout=`` is
    given, if none does, or for a score that is not 1×1; `UnknownNameError` for an unknown score or
    layout; `OperationRefusedError` for a weight that the score does not take.

    Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.2.
    """
    query, key, value = (as_matrix(operand, "attention") for operand in (Q, K, V))
    operands = (query, key, value)
    compared = score_named(score)
    chosen = _fitting(operands, layout, alike=compared.alike)
    return attend(operands, compared, chosen, weights=weights, bias=bias, mask=mask)["O"]


def attend(
    operands: Operands,
    score: Score,
    layout: Layout,
    *,
    weights: Mapping[str, Any] | None = None,
    bias: Callable[[Any, Any], Any] | Node | None = None,
    mask: Any = None,
) -> dict[str, Node]:
    """Return the lines S, P and O of attention in a layout that fits.

    A bias is a number from two positions, or a matrix of the scores' shape.
    """
    query, key, value = operands
    taken = weights_of(score, layout, query, key, weights or {})
    scores = score.in_layout[layout.name](query, key, **taken)
    if isinstance(bias, Node):
        scores = scores + bias
    elif bias is not None:
        counts = layout.token_count(query), layout.token_count(key)
        scores = scores + positional(bias, *counts, layout=layout.name)
    attended = softmax(scores, axis=layout.axis, mask=mask)
    return {"S": scores, "P": attended, "O": layout.mix(value, attended)}


def _fitting(operands: Operands, name: str | None, *, alike: bool = True) -> Layout:
    """Return the layout of that name, or the one that fits; raise if it is not to be found.

    Queries and keys of one size fit best; where the score does not ask for it, others fit too.
    """
    clashes = {layout: list(_clashes(operands, layout)) for layout in BUILDERS.values()}
    if not alike and (name is not None or all(clashes.values())):
        clashes = {at: list(_clashes(operands, at, alike=False)) for at in BUILDERS.values()}
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


def _clashes(operands: Operands, layout: Layout, *, alike: bool = True) -> Iterator[str]:
    """Say which sizes differ that a layout wants equal."""
    query, key, value = operands
    given = query.given.merge(key.given).merge(value.given).merge(in_force())
    features = [(query, key, layout.features)] if alike else []
    for left, right, axis in (*features, (key, value, layout.tokens)):
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
