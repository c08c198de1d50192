"""How scores of pairs, biases by position and direct sums become statements.

A score is written for one query and one key; here both get a batch axis of their own, so that the
arrays broadcast to all pairs and every operation of the score stays what it is for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from symattn.codegen.steps import Step
from symattn.codegen.writer import Writer
from symattn.nodes import Concat, Pairwise, PositionBias
from symattn.nodes.arrays import nested
from symattn.nodes.pairs import each_pair
from symattn.notation.names import identifier


def write_concat(step: Step, out: Writer) -> None:
    """Write matrices stacked along an axis."""
    node = cast(Concat, step.node)
    code = _stacked(node, [out.code(part) for part in step.operands], out)
    out.write(f"{step.name} = {code}", step.shape)


def _stacked(node: Concat, parts: Sequence[str], out: Writer) -> str:
    """Write the batch that all parts have together; return the source of their concatenation."""
    corners = ", ".join(f"({part})[..., :1, :1]" for part in parts)
    batch, part = out.fresh("batch"), out.fresh("part")
    out.write(f"{batch} = {out.context.call('broadcast_arrays')}({corners})[0].shape[:-2]")
    wide = f"{out.context.call('broadcast_to')}({part}, {batch} + {part}.shape[-2:])"
    every = f"[{wide} for {part} in ({', '.join(parts)})]"
    return f"{out.context.call('concatenate')}({every}, axis={node.axis - 2})"


def write_pairs(step: Step, out: Writer) -> None:
    """Write the score as for one query and one key, with all pairs as batch axes."""
    node = cast(Pairwise, step.node)
    queries, keys, *weights = (out.code(operand) for operand in step.operands)
    names: list[str] = []
    for vector, code, what in zip(
        node.vectors, node.vector_code((queries, keys)), ("query", "key"), strict=True
    ):
        names.append(out.fresh(identifier(vector.label)))
        one = [count if what == kind else "1" for count, kind in _pair_axes(node)]
        axes = ", ".join((*one, str(vector.sizes[0]), "1"))
        out.write(f"{names[-1]} = {code}", f"every {what}: (…, {axes})")
    alone = dict(zip(node.weights, weights, strict=True))
    paired = dict(zip(node.vectors, names, strict=True))
    paired |= {weight: each_pair(code) for weight, code in alone.items()}
    stacks = [part for part in node.body.walk() if isinstance(part, Concat)]
    for part in stacks:  # a statement of their own each: they are long
        has_vector = not set(node.vectors).isdisjoint(part.inputs())
        known = paired if has_vector else alone
        pieces = [nested(piece, known, out.context) for piece in part.matrices]
        code = _stacked(part, pieces, out)
        name = out.fresh("Y")
        pairs = "".join(f"{size}, " for size in node.sizes) if has_vector else ""
        out.write(f"{name} = {code}", f"(…, {pairs}{part.sizes[0]}, {part.sizes[1]})")
        known[part] = name
        if not has_vector:
            paired[part] = each_pair(name)
    known = {part: code for part, code in paired.items() if part in stacks}
    out.write(f"{step.name} = {node.pair_code(names, weights, out.context, known)}", step.shape)


def _pair_axes(node: Pairwise) -> list[tuple[str, str]]:
    """Return the size of each axis of the scores, and what stands along it."""
    kinds = ("key", "query") if node.axis == 1 else ("query", "key")
    return list(zip(map(str, node.sizes), kinds, strict=True))


def write_positions(step: Step, out: Writer) -> None:
    """Write the positions of queries and keys as arrays, and what is computed from them."""
    node = cast(PositionBias, step.node)
    names = tuple(out.fresh(identifier(symbol.name)) for symbol in node.positions)
    for name, code, what in zip(
        names, node.arange_code(out.context), ("queries", "keys"), strict=True
    ):
        out.write(f"{name} = {code}", f"positions of the {what}")
    out.write(
        f"{step.name} = {node.bias_code(node.named((names[0], names[1])), out.context)}",
        step.shape,
    )
