"""How each kind of node becomes statements, one row each.

A row says which operands' memory the node can be computed in, and writes its statements.  A node
without a row is one assignment of its own array expression (``Node.array_code``), so a new kind of
node runs before anybody writes a row for it; a row is for what is faster, stabler or more readable
as statements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from symattn.codegen.block_code import write_attended
from symattn.codegen.blocked import Attended
from symattn.codegen.distributed import Distributed
from symattn.codegen.gpu.fused_step import write_fused
from symattn.codegen.gpu.rows_step import write_rows
from symattn.codegen.in_place import in_place
from symattn.codegen.kin import Summed
from symattn.codegen.masked import (
    EVERY,
    Factors,
    selects,
    write_masked_factors,
    write_masked_product,
    write_masked_softmax,
    write_selection,
    write_sums,
)
from symattn.codegen.pairs import write_concat, write_pairs, write_positions
from symattn.codegen.steps import Step, single_call
from symattn.codegen.writer import Writer
from symattn.meaning.form import Form
from symattn.meaning.functions import FUNCTIONS
from symattn.nodes import (
    AdditiveMask,
    Concat,
    Elementwise,
    Hadamard,
    MatrixProduct,
    MatrixSum,
    Negated,
    Node,
    Pairwise,
    PositionBias,
    Quotient,
    Softmax,
)

_MOST_OPERANDS = 8  # in one expression: longer chains are several statements


@dataclass(frozen=True, slots=True)
class Lowering:
    """One row: the operands (by position) that may be overwritten, and the statements."""

    reuses: Callable[[Node], Sequence[int]]
    write: Callable[[Step, Writer], None]


def _assign(step: Step, expression: str, out: Writer) -> None:
    out.write(f"{step.name} = {expression}", step.shape)


def _into(step: Step, call: str, out: Writer) -> None:
    """Write a library function's result where its operand is."""
    assert step.overwrites is not None
    operand = out.code(step.operands[step.overwrites])
    written = f"{out.context.call(call)}({operand}, out={operand})"
    bound = written if operand == step.name else f"{step.name} = {written}"
    out.write(bound, step.shape)


def _taken_over(step: Step, out: Writer) -> None:
    """Give the operand's memory the name of the step, if that is another."""
    assert step.overwrites is not None
    before = out.code(step.operands[step.overwrites])
    if before != step.name:
        out.write(f"{step.name} = {before}", f"in the memory of {before}")


def _update(step: Step, operation: str, operand: str, out: Writer) -> None:
    out.write(f"{step.name} {operation}= {operand}", step.shape)


def _any(step: Step, out: Writer) -> None:
    operands = [
        out.code(part) if isinstance(part, Node) else out.scalar(cast(Form, part))
        for part in step.node.parts
    ]
    _assign(step, step.node.array_code(tuple(operands), out.context), out)


_Item = TypeVar("_Item")


def _groups(items: Sequence[_Item]) -> list[Sequence[_Item]]:
    return [items[k : k + _MOST_OPERANDS] for k in range(0, len(items), _MOST_OPERANDS)]


def _sum(step: Step, out: Writer) -> None:
    if not selects(step.node):
        _terms(step, step.operands, out)
        return
    finite = [term for term in step.operands if not isinstance(term, AdditiveMask)]
    if len(finite) == 1 and not isinstance(finite[0], Negated):
        write_selection(step, out.code(finite[0]), out)
    else:
        _terms(step, finite, out)
        write_selection(step, step.name, out)


def _terms(step: Step, operands: Sequence[Node], out: Writer) -> None:
    terms = [
        ("-" if isinstance(term, Negated) and not out.has_variable(term) else "+", out.code(term))
        for term in operands
    ]
    if step.overwrites is not None:
        _taken_over(step, out)
        for position, (sign, term) in enumerate(terms):
            if position != step.overwrites:
                _update(step, sign, term, out)
        return
    for number, group in enumerate(_groups(terms)):
        written = " ".join(f"{sign} {term}" for sign, term in group)
        _assign(step, f"{step.name} {written}" if number else written.removeprefix("+ "), out)


def _hadamard(step: Step, out: Writer) -> None:
    factors = [out.code(factor) for factor in step.operands]
    masked = [k for k, factor in enumerate(step.operands) if out.is_masked(factor)]
    if step.overwrites is not None:
        _taken_over(step, out)
        factors[step.overwrites] = step.name

    def product() -> None:
        if step.overwrites is not None:
            for position, factor in enumerate(factors):
                if position != step.overwrites:
                    _update(step, "*", factor, out)
            return
        for number, group in enumerate(_groups(factors)):
            written = " * ".join(group)
            _assign(step, f"{step.name} * {written}" if number else written, out)

    if masked:
        weights = [factors[k] for k in masked]
        write_masked_factors(step, weights, step.overwrites in masked, product, out)
    else:
        product()


def _product(step: Step, out: Writer) -> None:
    """Write matrix products from left to right; scalars multiply where they stand."""
    node = step.node
    pairs = list(zip(node.operands, node.parts, strict=True))
    if step.overwrites is not None:  # scalars and one matrix
        _taken_over(step, out)
        for operand, part in pairs:
            if not isinstance(operand, Node):
                _update(step, "*", out.scalar(cast(Form, part)), out)
        return
    masked = len(step.operands) > 1 and any(map(out.is_masked, step.operands))
    trailing: list[str] = []
    while len(step.operands) > 1 and not isinstance(pairs[-1][0], Node):
        trailing.insert(0, out.scalar(cast(Form, pairs.pop()[1])))
    if masked:
        write_masked_product(step, pairs, out)
    else:
        _plain_product(step, pairs, out)
    for scalar in trailing:  # the product is memory of its own
        _update(step, "*", scalar, out)


def _plain_product(step: Step, pairs: Factors, out: Writer) -> None:
    seen_matrix = False
    for number, group in enumerate(_groups(pairs)):
        code = step.name if number else ""
        for operand, part in group:
            is_matrix = isinstance(operand, Node)
            factor = out.code(operand) if is_matrix else out.scalar(cast(Form, part))
            sign = "@" if is_matrix and seen_matrix else "*"
            code = f"{code} {sign} {factor}" if code else factor
            seen_matrix = seen_matrix or is_matrix
        _assign(step, code, out)


def _only_scalars_beside(node: Node) -> Sequence[int]:
    return (0,) if len(node.matrices) == 1 else ()


def _quotient(step: Step, out: Writer) -> None:
    divisor = out.scalar(cast(Form, step.node.parts[1]))
    if step.overwrites is None:
        _assign(step, f"{out.code(step.operands[0])} / {divisor}", out)
    else:
        _taken_over(step, out)
        _update(step, "/", divisor, out)


def _negated(step: Step, out: Writer) -> None:
    if step.overwrites is None:
        _assign(step, f"-{out.code(step.operands[0])}", out)
    else:
        _into(step, "negative", out)


def _elementwise_reuses(node: Node) -> Sequence[int]:
    known = FUNCTIONS.get(cast(Elementwise, node).function)
    code = known.array_code("x", "library.{}".format) if known is not None else "None"
    return () if in_place(code, "x", spare="y") is None else (0,)


def _elementwise(step: Step, out: Writer) -> None:
    if step.overwrites is None:
        _any(step, out)
        return
    node = cast(Elementwise, step.node)
    once = single_call(node)
    if once is not None:
        _into(step, once, out)
        return
    _taken_over(step, out)
    code = node.array_code((step.name,), out.context)
    statements = in_place(code, step.name)
    if statements is None:
        statements = in_place(code, step.name, spare=out.fresh("factor")) or []
    if len(statements) > 1:
        out.remark(f"{node.function} of every entry, in the memory of {step.name}")
    for statement in statements:
        out.write(statement, "" if statement.startswith("del ") else step.shape)


def _softmax(step: Step, out: Writer) -> None:
    """Write exponentials, with the maximum subtracted so that none overflows, over their sum.

    Over an empty axis there is nothing to divide: the empty weights sum to zero.
    """
    node = cast(Softmax, step.node)
    along = f"axis={node.axis - 2}, keepdims=True"
    if node.mask is not None:
        write_masked_softmax(step, node, along, out)
        return
    scores, weights = out.code(step.operands[0]), step.name
    # Over an empty axis there is no maximum; a library may take the one to begin with.
    minus_infinity, largest = f"-{out.context.call('inf')}", f"{scores}.max({along})"
    if node.over.constant is None and out.target.max_takes_initial:
        largest = f"{scores}.max({along}, initial={minus_infinity})"
    elif node.over.constant is None:
        largest = f"({largest} if {scores}.shape[{node.axis - 2}] else 0)"
    remark = f"softmax of every {EVERY[node.axis]}"
    in_place = step.overwrites is not None
    out.remark(f"{remark}, in the memory of {scores}" if in_place else remark)
    if out.sums_of(step) is not None:  # the maximum is used once more
        kept = out.fresh("largest")
        out.write(f"{kept} = {largest}")
        largest = kept
    if in_place:
        out.write(f"{scores} -= {largest}")
        _into(step, "exp", out)
    else:
        _assign(step, f"{scores} - {largest}", out)
        out.write(f"{out.context.call('exp')}({weights}, out={weights})")
    total = f"{weights}.sum({along})"
    if out.sums_of(step) is not None:
        kept = out.fresh("total")
        out.write(f"{kept} = {total}")
        total = kept
        write_sums(step, node, largest, total, out)
    out.write(f"{weights} /= {total}")


def _distributed(step: Step, out: Writer) -> None:
    """Write a sum of products, and that all starts again with whole matrices if it is not finite.

    An infinite value times a difference of weights is not the difference of the products.
    """
    if step.overwrites is None:
        _assign(step, f"{out.code(step.operands[0])}.copy()", out)
    else:
        _taken_over(step, out)
    with out.indented(f"if not {out.support('all_finite')}({step.name}):"):
        out.write(f"return {out.whole}()")


_WEIGHTED_SUMS: Mapping[tuple[str, str], Callable[[Step, Writer], None]] = {
    ("numpy", "blocked"): write_attended,
    ("cupy", "blocked"): write_rows,
    ("cupy", "fused"): write_fused,
}
"""How a weighted sum is written, by target and plan."""


def _attended(step: Step, out: Writer) -> None:
    _WEIGHTED_SUMS[out.target.name, out.plan_name](step, out)


def _nothing(_node: Node) -> Sequence[int]:
    return ()


def _first(_node: Node) -> Sequence[int]:
    return (0,)


def _softmax_reuses(node: Node) -> Sequence[int]:
    # The array of a mask may have more batch axes than the scores.
    return () if node.mask_arrays else (0,)


def _first_two(_node: Node) -> Sequence[int]:
    return (0, 1)


def _sum_reuses(node: Node) -> Sequence[int]:
    # Additive masks, which come last, are selected by and never added.
    first_two = enumerate(node.matrices[:2])
    return [k for k, term in first_two if not isinstance(term, AdditiveMask)]


_PLAIN = Lowering(_nothing, _any)

_ROWS: dict[type[Node], Lowering] = {
    MatrixSum: Lowering(_sum_reuses, _sum),
    Hadamard: Lowering(_first_two, _hadamard),
    MatrixProduct: Lowering(_only_scalars_beside, _product),
    Quotient: Lowering(_first, _quotient),
    Negated: Lowering(_first, _negated),
    Elementwise: Lowering(_elementwise_reuses, _elementwise),
    Softmax: Lowering(_softmax_reuses, _softmax),
    Concat: Lowering(_nothing, write_concat),
    Pairwise: Lowering(_nothing, write_pairs),
    PositionBias: Lowering(_nothing, write_positions),
    Attended: Lowering(_nothing, _attended),
    Summed: Lowering(_nothing, write_attended),
    Distributed: Lowering(_first, _distributed),
}


def lowering_of(node: Node) -> Lowering:
    """Return the row of a node's class, or the plain one."""
    return _ROWS.get(type(node), _PLAIN)
