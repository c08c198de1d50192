"""A softmax-weighted sum as statements for a device: its kernel as text, and what it is given.

The kernel is a constant of the generated module; every operand is named as the kernel names it, and
handed over as a view: queries as rows, keys as rows, pairs as queries × keys.
"""

from __future__ import annotations

from typing import cast

from symattn.codegen.blocked import Attended
from symattn.codegen.gpu.dialects import CUDA
from symattn.codegen.gpu.leaves import (
    DotLeaf,
    EntryLeaf,
    FixedLeaf,
    KeepLeaf,
    KeyLeaf,
    Leaf,
    PairSumLeaf,
    QueryLeaf,
)
from symattn.codegen.gpu.rows_code import first_is_kept, rows_kernel, scalars_of, vectors_of
from symattn.codegen.gpu.score_text import score_text
from symattn.codegen.key_ranges import KeyRanges, Somewhere
from symattn.codegen.steps import Step
from symattn.codegen.writer import Writer
from symattn.meaning.form import place
from symattn.nodes import BooleanInput
from symattn.nodes.along_axis import queries_and_keys
from symattn.nodes.arrays import size_code
from symattn.notation.names import identifier


def write_rows(step: Step, out: Writer) -> None:
    """Write a weighted sum in strips of queries, each with a kernel over its rows of scores."""
    _Rows(step, out).write()


class _Rows:
    """One weighted sum: its kernel, its operands, and the call that computes it."""

    def __init__(self, step: Step, out: Writer) -> None:
        self.step, self.out = step, out
        self.node = cast(Attended, step.node)
        self.score = score_text(self.node, CUDA)
        self.operands: dict[int, str] = {}
        self.masks: dict[str, str] = {}

    def write(self) -> None:
        out, call, name = self.out, self.out.context.call, self.step.name
        kernel = out.constant("KERNEL", rows_kernel(self.score))
        values, batch = self.spread()
        weights = self.node.weights
        sizes = queries_and_keys(weights.sizes, weights.axis)
        n, m = (size_code(size, out.context) for size in sizes)
        rows = self.node.query_axis == 0
        shape = (n, f"{values}.shape[-1]") if rows else (f"{values}.shape[-2]", n)
        dtype, to = out.destination(self.step)
        made = f"{call('empty')}({batch} + ({', '.join(shape)}), {dtype})"
        out.write(
            f"{name} = {f'{made} if {to} is None else {to}' if to else made}", self.step.shape
        )
        sums = out.sums_of(self.step)
        if sums is not None:
            out.write(f"{sums} = {call('empty')}({batch} + ({n},), {out.wide})")
        scores = self.scores(kernel, n, m)
        turned = "" if rows else ".swapaxes(-1, -2)"
        given = [scores, f"{values}{turned}", f"{name}{turned}", out.wide, *self.keys()]
        given += [f"lse={sums}"] if sums is not None else []
        out.write(f"{out.support('weighted_sums')}({', '.join(given)})")

    def scores(self, kernel: str, n: str, m: str) -> str:
        """Write what the scores are made from; return the variable."""
        out, score, variable = self.out, self.score, self.out.fresh("scores")
        leaves = [self.leaf(label, leaf) for label, leaf in score.leaves.items()]
        numbers = [out.scalar(score.scalars[label]) for label in scalars_of(score)]
        sizes = [out.scalar(form) for form in score.sizes.values()]
        given = [kernel, n, m, f"[{', '.join(leaves)}]"]
        for label, codes in (("numbers", numbers), ("sizes", sizes)):
            given += [f"{label}=[{', '.join(codes)}]"] if codes else []
        flags = {"masked": score.seen, "apart": first_is_kept(score), "reweighed": score.reweigh}
        given += [f"{label}=True" for label, holds in flags.items() if holds]
        out.write(f"{variable} = {out.support('Scores')}({', '.join(given)})")
        return variable

    # Operands.

    def spread(self) -> tuple[str, str]:
        """Write all operands with the same leading axes; return the values and these axes."""
        out = self.out
        values, *operands = self.node.matrices
        self.keep_narrow()
        batch, name = out.fresh("batch"), out.fresh("values")
        names, arrays, roles = [name], [out.code(values)], self.roles()
        for number, operand in enumerate(operands):
            self.operands[number] = out.fresh(roles.get(number, "operand"))
            names.append(self.operands[number])
            arrays.append(out.code(operand))
        for array in self.node.mask_arrays:
            label = identifier(array.label)
            self.masks[array.label] = out.fresh(f"{label}_of_all")
            names.append(self.masks[array.label])
            arrays.append(self.mask_code(array, label))
        out.remark("every operand with all leading axes: views, nothing is copied")
        out.write(f"{batch}, {', '.join(names)} = {out.support('spread')}({', '.join(arrays)})")
        return name, batch

    def mask_code(self, array: BooleanInput, label: str) -> str:
        """Return the array of a mask with the axes of heads; one of keys has them as its rows."""
        each = "None, " * len(self.out.context.axes(self.node.inner_indices))
        if len(array.sizes) == 2:
            return f"{label}[..., {each}:, :]" if each else label
        return f"{label}[..., {each}:, None]"

    def keep_narrow(self) -> None:
        """Leave in two bytes what is multiplied, and what is read pair by pair."""
        values, *operands = self.node.matrices
        narrow: set[int] = set()
        wide: set[int] = set()
        for leaf in self.score.leaves.values():
            match leaf:
                case DotLeaf(query, _, key, _, _):
                    narrow |= {query, key}
                case EntryLeaf(operand, _):
                    narrow.add(operand)
                case QueryLeaf(operand, _) | KeyLeaf(operand, _):
                    wide.add(operand)
                case PairSumLeaf(weight, vectors, _):
                    wide |= {weight, *(vector.operand for vector in vectors.values())}
                case KeepLeaf():
                    pass
        left = [operand for number, operand in enumerate(operands) if number in narrow - wide]
        read = [operand for number, operand in enumerate(operands) if number in wide]
        self.out.keep_narrow(self.node, [values, *left], read)

    def roles(self) -> dict[int, str]:
        """Return what operands are called, by what they are used for."""
        roles: dict[int, str] = {}
        for leaf in self.score.leaves.values():
            match leaf:
                case DotLeaf(query, _, key, _, _):
                    roles.setdefault(query, "queries")
                    roles.setdefault(key, "keys")
                case EntryLeaf(operand, _):
                    roles.setdefault(operand, "bias")
                case QueryLeaf(operand, _) | KeyLeaf(operand, _):
                    roles.setdefault(operand, _ROLES[type(leaf)])
                case PairSumLeaf(weight, vectors, _):
                    roles.setdefault(weight, "weight")
                    for vector in vectors.values():
                        roles.setdefault(vector.operand, _ROLES[type(vector)])
                case KeepLeaf():
                    pass
        return roles

    def view(self, number: int, axis: int) -> str:
        """Return an operand whose tokens lie along this axis, as rows."""
        return self.operands[number] + ("" if axis == 0 else ".swapaxes(-1, -2)")

    def leaf(self, label: str, leaf: Leaf) -> str:
        """Write what the kernel reads under a name; return the variable."""
        variable = self.out.fresh(label)
        self.out.write(f"{variable} = {self.leaf_code(leaf)}")
        return variable

    def leaf_code(self, leaf: Leaf) -> str:
        """Return what the kernel reads."""
        kind = self.out.support(_KINDS.get(type(leaf), "Entries"))
        match leaf:
            case DotLeaf(query, query_axis, key, key_axis, scale):
                factor = f", {self.out.scalar(self.score.scalars[scale])}" if scale else ""
                return f"{kind}({self.view(query, query_axis)}, {self.view(key, key_axis)}{factor})"
            case QueryLeaf(operand, axis) | KeyLeaf(operand, axis):
                return f"{kind}({self.view(operand, axis)})"
            case EntryLeaf(operand, axis):
                return f"{kind}({self.view(operand, axis)}, True)"
            case KeepLeaf(name, ranks):
                return f"{kind}({self.masks[name]}{', True' if ranks == 2 else ''})"
            case PairSumLeaf(weight, vectors, _):
                lists: dict[str, list[str]] = {"of_queries": [], "of_keys": [], "of_neither": []}
                for name in vectors_of(leaf):
                    vector = vectors[name]
                    axis = 1 if isinstance(vector, FixedLeaf) else vector.axis
                    lists[_ROLES[type(vector)]].append(self.view(vector.operand, axis))
                given = [self.operands[weight]]
                given += [f"{kind}=[{', '.join(codes)}]" for kind, codes in lists.items() if codes]
                return f"{kind}({', '.join(given)})"

    # The mask.

    def keys(self) -> list[str]:
        """Return the argument for the keys that a strip sees, if there is a mask."""
        mask, weights = self.node.attends_under, self.node.weights
        if mask is None:
            return []
        sizes = queries_and_keys(weights.sizes, weights.axis)
        query, key = (place(size) for size in sizes)
        ranges = KeyRanges(self.out.context, self.out.support, query, key)
        condition = mask.condition(query, key, sizes)
        if isinstance(ranges.keys(condition), Somewhere):
            return []
        return [f"keys={ranges.code(condition)}"]


_ROLES: dict[type, str] = {QueryLeaf: "of_queries", KeyLeaf: "of_keys", FixedLeaf: "of_neither"}
"""What operands are called."""

_KINDS: dict[type, str] = {DotLeaf: "Dots", PairSumLeaf: "PairSums"}
