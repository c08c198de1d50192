"""Softmax under a mask, and products with its weights, as statements.

What is masked out may be anything, NaN included, and never reaches a result: scores are selected,
not added to, and a value counts only for the queries that give it a weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from symattn.codegen.steps import Step, axes_text
from symattn.codegen.writer import Writer
from symattn.meaning.form import Form
from symattn.nodes import (
    AdditiveMask,
    Elementwise,
    Hadamard,
    MatrixProduct,
    MatrixSum,
    Negated,
    Node,
    Quotient,
    Softmax,
    SumOver,
)

Factors = Sequence[tuple[Any, Any]]
"""The factors of a product, each with how a printer sees it: a matrix, or an index form."""

EVERY = ("column", "row")
"""What a softmax along axis 0 or 1 normalises, one by one."""


def write_masked_softmax(step: Step, node: Softmax, along: str, out: Writer) -> None:
    """Write a softmax under a mask: what is not allowed is selected away, never added to.

    The mask comes last, so that whatever the scores are there, NaN included, is gone.
    """
    scores, weights, call = out.code(step.operands[0]), step.name, out.context.call
    allowed, total = out.fresh("allowed"), out.fresh("total")
    out.remark(f"softmax of every {EVERY[node.axis]}, over what the mask allows")
    _write_allowed(allowed, node, scores, len(step.heads), out)
    if step.overwrites is not None:
        out.write(f"{call('copyto')}({scores}, -{call('inf')}, where=~{allowed})")
        if scores != weights:
            out.write(f"{weights} = {scores}", f"in the memory of {scores}")
    else:
        selected = f"{call('where')}({allowed}, {scores}, -{call('inf')})"
        out.write(f"{weights} = {selected}", step.shape)
    # Where nothing is allowed the maximum is -inf, and -inf less -inf would be no number.
    least = f"{call('finfo')}({weights}.dtype).min"
    if out.target.max_takes_initial:
        largest = f"{weights}.max({along}, initial={least})"
    else:
        largest = f"{call('maximum')}({weights}.max({along}), {least})"
        if node.over.constant is None:  # over an empty axis there is no maximum
            largest = f"({largest} if {weights}.shape[{node.axis - 2}] else 0)"
    if out.sums_of(step) is not None:  # the maximum is used once more
        kept = out.fresh("largest")
        out.write(f"{kept} = {largest}")
        largest = kept
    out.write(f"{weights} -= {largest}")
    out.write(f"{call('exp')}({weights}, out={weights})")
    out.write(f"{total} = {weights}.sum({along})")
    write_sums(step, node, largest, total, out)
    out.write(f"{weights} /= {total} + ({total} == 0)", "0 where nothing is allowed")


def write_sums(step: Step, node: Softmax, largest: str, total: str, out: Writer) -> None:
    """Write log Σ exp(scores), if it is asked for: −∞ for a query without keys."""
    name, call = out.sums_of(step), out.context.call
    if name is None:
        return
    taken = ("[..., 0, :]", "[..., 0]")[node.axis]
    logarithm = f"{largest} + {call('log')}({total} + ({total} == 0))"
    code = f"{call('where')}({total} == 0, -{call('inf')}, {logarithm}){taken}"
    heads = (index.size for index in step.heads)
    out.write(f"{name} = {code}", axes_text((*heads, node.sizes[1 - node.axis])))


def _write_allowed(
    name: str, node: Softmax | AdditiveMask, scores: str, heads: int, out: Writer
) -> None:
    """Write where the mask of a node allows, as booleans that broadcast with the scores."""
    known: dict[str, str] = {}

    def named(role: str, code: str) -> str:
        if role not in known:
            known[role] = out.fresh(role)
            out.write(f"{known[role]} = {code}", {"i": "queries", "j": "keys"}[role])
        return known[role]

    out.write(f"{name} = {node.allowed_code(scores, out.context, named, heads=heads)}")


def selects(node: Node) -> bool:
    """Tell whether a node is a sum of scores and additive masks: it selects from the scores."""
    masks = [isinstance(term, AdditiveMask) for term in node.matrices]
    return isinstance(node, MatrixSum) and any(masks) and not all(masks)


def write_selection(step: Step, scores: str, out: Writer) -> None:
    """Write scores, but −∞ where an additive mask beside them allows nothing, whatever is there."""
    call = out.context.call
    for mask in step.operands:
        if isinstance(mask, AdditiveMask):
            allowed = out.fresh("allowed")
            _write_allowed(allowed, mask, scores, len(step.heads), out)
            selected = f"{call('where')}({allowed}, {scores}, -{call('inf')})"
            out.write(f"{step.name} = {selected}", step.shape)
            scores = step.name


def write_masked_product(step: Step, pairs: Factors, out: Writer) -> None:
    """Write a product, factor by factor, with weights under a mask among its factors."""
    code, is_weights, is_matrix = "", False, False
    for operand, part in pairs:
        if not isinstance(operand, Node):
            factor = out.scalar(cast(Form, part))
            code = f"{code} * {factor}" if code else factor
            continue
        factor, masked = out.code(operand), out.is_masked(operand)
        if is_matrix and (is_weights or masked):
            if not code.isidentifier() or code == step.name:
                before = out.fresh("Y")
                out.write(f"{before} = {code}")
                code = before
            _weighted_sum(step, code, factor, is_weights, out)
            code, is_weights = step.name, False
        else:
            code = f"{code} {'@' if is_matrix else '*'} {factor}" if code else factor
            is_weights = masked
        is_matrix = True
    if code != step.name:
        out.write(f"{step.name} = {code}", step.shape)


def _weighted_sum(step: Step, left: str, right: str, weights_first: bool, out: Writer) -> None:
    """Write the product of weights under a mask with values: no weight, no influence.

    0 · NaN is NaN, so that a value nobody may attend to would reach every query.  A key with values
    that are no finite numbers is left out of the product, and added where it has a weight.
    """
    call, name = out.context.call, step.name
    weight, value = (left, right) if weights_first else (right, left)
    finite, some, j = map(out.fresh, ("finite", "some", "j"))
    of_left, of_right = f"{finite}[..., None, :]", f"{finite}[..., :, None]"
    keys = -1 if weights_first else -2  # the axis of the weights
    out.write(f"{finite} = {call('isfinite')}({value}).all(axis={keys})", "all values of a key")
    with out.indented(f"if {finite}.all():"):
        out.write(f"{name} = {left} @ {right}", step.shape)
    with out.indented("else:"):
        out.remark("what is masked out takes no part, not even as 0 times NaN")
        kept = f"{call('where')}({of_left}, {left}, 0) @ {call('where')}({of_right}, {right}, 0)"
        out.write(f"{name} = {kept}")
        out.write(f"{some} = ({weight} != 0) & ~{of_left if weights_first else of_right}")
        at_left, at_right = f"[..., :, {j}, None]", f"[..., None, {j}, :]"
        found = f"{call('unique')}({call('nonzero')}({some})[{keys}]).tolist()"
        with out.indented(f"for {j} in {found}:"):
            taken = f"{some}{at_left if weights_first else at_right}"
            product = f"{left}{at_left} * {right}{at_right}"
            out.write(f"{name} += {call('where')}({taken}, {product}, 0)")


def write_masked_factors(
    step: Step, masked: Sequence[str], own: bool, write: Callable[[], None], out: Writer
) -> None:
    """Write a product entry by entry, and 0 wherever weights under a mask, ``masked``, are 0.

    The other factors may be anything there, NaN included.  ``own`` tells that the product is
    written in the memory of such weights.
    """
    call, name = out.context.call, step.name
    nothing = " | ".join(f"({weights} == 0)" for weights in masked)
    if own:
        kept = out.fresh("nothing")
        out.write(f"{kept} = {nothing}")
        nothing = kept
    write()
    with out.indented(f"if not {call('isfinite')}({name}.sum()):"):
        out.write(f"{call('copyto')}({name}, 0, where={nothing})", "0 times NaN is 0 here")


def keeps_zeros(node: Node, standing: Mapping[Node, Node]) -> bool:
    """Tell whether a node is 0 where a mask hides: weights, and products with them by entries.

    ``standing`` leads from the name of a line to the node that the line computes.
    """
    node = standing.get(node, node)
    if isinstance(node, MatrixSum):
        return all(keeps_zeros(term, standing) for term in node.matrices)
    if isinstance(node, Hadamard):
        return any(keeps_zeros(factor, standing) for factor in node.matrices)
    if isinstance(node, Elementwise):  # an exp
        return node.matrices[0].has_minus_infinity
    is_scaled = isinstance(node, MatrixProduct) and len(node.matrices) == 1
    if is_scaled or node.is_view or isinstance(node, Quotient | Negated | SumOver):
        return keeps_zeros(node.matrices[0], standing)
    return isinstance(node, Softmax) and node.mask is not None
