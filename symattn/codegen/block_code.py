"""A weighted sum as statements: what the scores of a block are, and which of them are seen.

The loop over strips is `symattn.codegen.strips`, that over blocks `symattn.codegen.softmax_sums`,
or `symattn.codegen.plain_sums` where there is no softmax; the source gives it three things that
depend on the formula: the scores of a block, the mask of a block, and the keys that a strip of
queries sees, so that what nobody sees is skipped and what everybody sees is not looked at.
"""

from __future__ import annotations

from symattn.codegen.key_ranges import KeyRanges
from symattn.codegen.kin import Summed
from symattn.codegen.steps import Step
from symattn.codegen.tile_code import TileWriter
from symattn.codegen.tiles import Weights
from symattn.codegen.writer import Writer
from symattn.meaning.form import Allowed, Condition, Place, place
from symattn.nodes.arrays import condition_code, size_code
from symattn.notation.names import identifier


def write_attended(step: Step, out: Writer) -> None:
    """Write a weighted sum block by block."""
    _Attention(step, out).write()


class _Attention(TileWriter):
    """One weighted sum: its variables, and its parts in the order in which they are written."""

    def write(self) -> None:
        out, call = self.out, self.out.context.call
        values, batch = self.spread()
        rows = self.node.query_axis == 0
        shape = (self.n, f"{values}.shape[-1]") if rows else (f"{values}.shape[-2]", self.n)
        name = self.step.name
        dtype, place = out.destination(self.step)
        made = f"{call('empty')}({batch} + ({', '.join(shape)}), {dtype})"
        out.write(
            f"{name} = {f'{made} if {place} is None else {place}' if place else made}",
            self.step.shape,
        )
        sums = out.sums_of(self.step)
        if sums is not None:
            out.write(f"{sums} = {call('empty')}({batch} + ({self.n},), {out.wide})")
        work = out.fresh("attend")
        strip, head, i0, i1 = self.strip, self.head, self.i0, self.i1
        self.biases_by_distance()
        hides = self.hides()
        keys, seen = self.keys(hides), self.seen_by_distance()
        out.gap()
        a, z, s = self.a, self.z, self.s
        out.remark(f"b queries of one head; scores of w keys, {a} up to {z}, are written to {s}")
        with out.indented(f"def {work}({head}, {strip}, {self.space}):"):
            out.write(f"{i0}, {i1} = {strip}[:2]", "the queries of the strip")
            self.prepare()
            scores = self.scores("weights" if isinstance(self.node, Summed) else "scores")
            visible = self.visible(seen)
            of_head = f"{values}[{head}]" if rows else f"{values}[{head}].T"
            result = f"{name}[{head}][{i0}:{i1}]" if rows else f"{name}[{head}].T[{i0}:{i1}]"
            given = [scores, of_head, result, strip, self.space, *visible]
            if self.change != Weights():
                given.append(f"reweigh={self.reweigh()}")
            if sums is not None:
                given.append(f"lse={sums}[{head}][{i0}:{i1}]")
            given += [f"hides={hides}"] if hides else []
            summed = "plain_sum" if isinstance(self.node, Summed) else "weighted_sum"
            out.gap()
            out.write(f"{out.support(summed)}({', '.join(given)})")
        out.gap()
        entries = self.entries()
        strips = f"{out.support('strips_of')}({', '.join([self.n, self.m, *keys, *entries])})"
        d_v = f"{values}.shape[{-1 if rows else -2}]"
        arguments = [work, batch, strips, d_v, out.wide, out.workers, *entries]
        out.write(f"{out.support('run')}({', '.join(arguments)})")

    def entries(self) -> list[str]:
        """Write how many numbers a score of a pair is computed from; return it as an argument."""
        sizes = dict.fromkeys(self.reading.entries)
        if not sizes:
            return []
        name, codes = self.out.fresh("entries"), [size_code(s, self.out.context) for s in sizes]
        largest = f"{self.out.context.call('max')}([{', '.join(codes)}])"
        code = codes[0] if len(codes) == 1 else largest
        self.out.write(f"{name} = {code}", "of the longest vector of a pair")
        return [f"entries={name}"]

    def spread(self) -> tuple[str, str]:
        """Write all operands with the same leading axes; return the values and these axes."""
        out = self.out
        values, *operands = self.node.matrices
        roles = self.roles()
        self.narrow = self.kept_narrow()
        batch, name = out.fresh("batch"), out.fresh("values")
        names, arrays = [name], [out.code(values)]
        for number, operand in enumerate(operands):
            self.stacks[number] = out.fresh(roles.get(number, "operand"))
            names.append(self.stacks[number])
            arrays.append(out.code(operand))
        each = "None, " * len(out.context.axes(self.node.inner_indices))
        for array in self.node.mask_arrays:
            label = identifier(array.label)
            self.masks[array.label] = out.fresh(f"{label}_of_all")
            names.append(self.masks[array.label])
            axes = f"{each}:, :" if len(array.sizes) == 2 else f"{each}None, :"
            arrays.append(f"{label}[..., {axes}]" if each or len(array.sizes) == 1 else label)
        out.remark("every operand with all leading axes: views, nothing is copied")
        out.write(f"{batch}, {', '.join(names)} = {out.support('spread')}({', '.join(arrays)})")
        return name, batch

    # The mask.

    def condition(self) -> tuple[Condition, Place, Place]:
        """Return the condition of the mask, and the places of query and key in it."""
        mask = self.node.attends_under
        assert mask is not None
        query, key = (place(size) for size in self.sizes)
        return mask.condition(query, key, self.sizes), query, key

    def hides(self) -> str:
        """Write whether a mask hides, if that depends on the call; return what that is called.

        A mask that weights are multiplied by hides what is finite; 0 · NaN is NaN.
        """
        out = self.out
        if not (isinstance(self.node, Summed) and self.node.multiplies_by_mask):
            return ""
        name, arrays = out.fresh("hides"), ", ".join(map(out.code, self.node.matrices))
        test = f"{out.support('all_finite')}({arrays})"
        out.write(f"{name} = {test}", "else no key is skipped: 0 · NaN is NaN")
        return name

    def keys(self, hides: str) -> list[str]:
        """Return the argument for the keys that a strip sees, if there is a mask."""
        if self.node.attends_under is None:
            return []
        condition, query, key = self.condition()
        code = self.ranges(query, key).code(condition)
        return [f"{code} if {hides} else None"] if hides else [code]

    def ranges(self, query: Place, key: Place) -> KeyRanges:
        return KeyRanges(self.out.context, self.out.support, query, key)

    def seen_by_distance(self) -> str | None:
        """Write what is seen of a tile, if that depends on j - i: it is the same in many strips."""
        if self.node.attends_under is None:
            return None
        condition, query, key = self.condition()
        ranges = self.ranges(query, key)
        if not ranges.is_relative(condition):
            return None
        seen, r = map(self.out.fresh, ("seen", "r"))
        tile = self.diagonals(f"lambda {r}: {ranges.relative(condition, r)}")
        self.out.write(f"{seen} = {tile}", f"{r} = j - i")
        return seen

    def visible(self, seen: str | None) -> list[str]:
        """Write the function that tells what is seen in a block, if there is a mask."""
        if self.node.attends_under is None:
            return []
        out, name = self.out, self.out.fresh("visible")
        condition, _, key = self.condition()
        out.gap()
        with out.indented(f"def {name}({self.a}, {self.z}):"):
            if seen is not None:
                out.write(f"return {seen}({self.ends})", "(b, w)")
                return [name]
            names: dict[str, str] = {}

            def position(at: Place) -> str:
                kind = "j" if at == key and at else "i"
                if not at:
                    return f"{out.context.call('arange')}(1)[None, :]"
                if kind not in names:
                    names[kind] = out.fresh(kind)
                    what = {"i": "queries", "j": "keys"}[kind]
                    out.write(f"{names[kind]} = {self.arange(kind)}", what)
                return names[kind]

            def given(allowed: Allowed) -> str:
                array, cut = self.masks[allowed.name], f"{self.a}:{self.z}"
                rows = f"{self.i0}:{self.i1}" if len(allowed.places) == 2 else ":"
                return f"{array}[{self.head}][{rows}, {cut}]"

            code = condition_code(condition, position, given, out.context)
            out.write(f"return {code}", "(b, w)")
        return [name]
