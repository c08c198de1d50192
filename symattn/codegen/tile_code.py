"""The scores of a block as statements: what a strip brings once, and what is done for each block.

Statements work in the memory of the block, which holds scores (b, w) of b queries and w keys;
of what is added to them, or multiplied, only what is no product of matrices is made beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import sympy

from symattn.codegen.in_blocks import InBlocks
from symattn.codegen.in_place import in_place
from symattn.codegen.steps import Step
from symattn.codegen.tiles import (
    Applied,
    Beside,
    Dot,
    Entries,
    Mixed,
    OfKeys,
    OfNeither,
    OfQueries,
    One,
    Positions,
    Product,
    Scale,
    Scaled,
    Stacked,
    Sum,
    Tile,
    Weights,
    everything,
)
from symattn.codegen.writer import Writer
from symattn.nodes.arrays import ArrayContext, scalar_code, size_code
from symattn.nodes.scalars import Scalar, scalar_form


class TileWriter:
    """Writes the scores of one weighted sum, and what becomes of its weights."""

    def __init__(self, step: Step, out: Writer) -> None:
        self.out, self.step = out, step
        self.node = cast(InBlocks, step.node)
        self.tile, self.change, self.reading = self.node.scores()
        self.sizes = self.node.tokens
        self.n, self.m = (size_code(size, out.context) for size in self.sizes)
        self.head, self.strip, self.space = map(out.fresh, ("at", "strip", "space"))
        self.i0, self.i1, self.a, self.z, self.s = map(out.fresh, ("i0", "i1", "a", "z", "s"))
        self.stacks: dict[int, str] = {}
        self.masks: dict[str, str] = {}
        self.local: dict[object, str] = {}
        self.narrow: set[int] = set()
        """Operands of the dtype of the inputs, which may be one of two bytes."""

    def kept_narrow(self) -> set[int]:
        """Return the operands of which no wider copy is made: they are read block by block."""
        values, *operands = self.node.matrices
        blockwise = dict.fromkeys(range(len(operands)), True)
        for tile in self.all_tiles():
            match tile:
                case OfQueries(operand) | OfKeys(operand) | OfNeither(operand) | Mixed(operand):
                    blockwise[operand] = False
                case _:
                    pass
        wide = [operand for number, operand in enumerate(operands) if not blockwise[number]]
        kept = self.out.keep_narrow(self.node, [values, *operands], wide)
        return {number for number, operand in enumerate(operands) if operand in kept}

    def widened(self, number: int, code: str) -> str:
        """Return the source of a part of an operand in the dtype that is computed in."""
        narrow = number in self.narrow
        return f"{code}.astype({self.out.wide}, copy=False)" if narrow else code

    def roles(self) -> dict[int, str]:
        """Return what operands are called, by what they are used for."""
        roles: dict[int, str] = {}
        for tile in self.all_tiles():
            match tile:
                case Dot(query, _, key, _):
                    roles.setdefault(query, "queries")
                    roles.setdefault(key, "keys")
                case OfQueries(operand):
                    roles.setdefault(operand, "of_queries")
                case OfKeys(operand):
                    roles.setdefault(operand, "of_keys")
                case Entries(operand):
                    roles.setdefault(operand, "bias")
                case Mixed(operand) | OfNeither(operand):
                    roles.setdefault(operand, "weight")
                case _:
                    pass
        return roles

    def all_tiles(self) -> Iterator[Tile]:
        """Yield every tile in the scores, and in what becomes of the weights."""
        yield from everything(self.tile)
        yield from everything(self.change)

    # What is done once for a call.

    @property
    def of_arrays(self) -> ArrayContext:
        """How scalars are written whose positions are arrays."""
        context = self.out.context
        return ArrayContext(context.call, context.extent, context.dtype, context.call)

    def biases_by_distance(self) -> None:
        """Write the biases of j - i: they are the same in many strips, and for all heads."""
        for tile in self.all_tiles():
            if not isinstance(tile, Positions) or tile in self.local:
                continue
            query, key = tile.node.positions[tile.query], tile.node.positions[1 - tile.query]
            distance = Scalar(self.out.fresh("r"))  # of any sign, where a position has none
            of_distance = sympy.expand(tile.node.body.xreplace({query: key - distance}))
            if of_distance.has(key) or not of_distance.has(distance):
                continue
            body = tile.node.body.xreplace({query: sympy.Integer(0), key: distance})
            code = scalar_code(scalar_form(body), self.of_arrays)
            self.local[tile] = self.out.fresh("bias")
            made = self.diagonals(f"lambda {distance.name}: {code}")
            self.out.write(f"{self.local[tile]} = {made}", f"{distance.name} = j - i")

    # What is done once for a strip.

    def prepare(self) -> None:
        """Write what the queries of a strip bring, and the operands of its head."""
        for tile in self.all_tiles():
            if tile in self.local:
                continue
            match tile:
                case Dot(query, axis, key, _, scale):
                    self.of_head(key, "k", self.axes(key))
                    q = self.out.fresh("q")
                    rows = self.widened(query, self.rows(query, axis))
                    self.out.write(f"{q} = {self.scaled(rows, scale)}", self.axes(query, axis))
                    self.local[tile] = q if axis == 0 else f"{q}.T"
                case OfQueries(operand, axis, is_vector):
                    x = self.out.fresh("x")
                    rows = self.rows(operand, axis) + ("" if axis == 0 else ".T")
                    if is_vector and axis == 1:
                        rows = f"{self.out.context.call('ascontiguousarray')}({rows})"
                    self.out.write(f"{x} = {rows}", "(b, d)" if is_vector else "(b, 1)")
                    self.local[tile] = f"{x}[:, None, :]" if is_vector else x
                case OfKeys(operand, _):
                    self.of_head(operand, "y")
                case Entries(operand, axis):
                    e = self.out.fresh("e")
                    turned = "" if axis == 0 else ".T"
                    self.out.write(f"{e} = {self.rows(operand, axis)}{turned}", "(b, m)")
                    self.local[tile] = e
                case Mixed(operand) | OfNeither(operand):
                    self.of_head(operand, "w")
                case _:
                    pass

    def rows(self, number: int, axis: int) -> str:
        """Return the source of the queries of a strip, along this axis of an operand."""
        read = "" if axis == 0 else ":, "
        return f"{self.stacks[number]}[{self.head}][{read}{self.i0}:{self.i1}]"

    def axes(self, number: int, strip: int | None = None) -> str:
        """Return the axes of an operand of one head, of which one may be that of a strip."""
        sizes = self.node.matrices[1 + number].sizes
        return f"({', '.join('b' if k == strip else str(size) for k, size in enumerate(sizes))})"

    def of_head(self, number: int, wanted: str, shape: str = "") -> None:
        """Write an operand of one head, once."""
        if number not in self.local:
            self.local[number] = self.out.fresh(wanted)
            self.out.write(f"{self.local[number]} = {self.stacks[number]}[{self.head}]", shape)

    def scaled(self, code: str, scale: Scale) -> str:
        for operation, form in scale:
            code = f"{code} {operation} {self.out.scalar(form)}"
        return code

    # The scores of a block.

    def scores(self, called: str = "scores") -> str:
        """Write the function that computes the scores of a block; return its name."""
        self.beside(self.tile)
        out, name = self.out, self.out.fresh(called)
        out.gap()
        with out.indented(f"def {name}({self.a}, {self.z}, {self.s}):"):
            self.into(self.tile)
        return name

    def reweigh(self) -> str:
        """Write the function that changes the weights of a block; return its name."""
        self.beside(self.change)
        name = self.out.fresh("reweigh")
        self.out.gap()
        with self.out.indented(f"def {name}({self.a}, {self.z}, {self.s}):"):
            self.into(self.change)
        return name

    def beside(self, whole: Tile) -> None:
        """Write the functions that compute the parts of what lies beside each other in a tile."""
        found = [tile for tile in everything(whole) if isinstance(tile, Beside)]
        for tile in reversed(found):  # one may be a part of another
            names: list[str] = []
            for part, _ in tile.parts:
                names.append(self.out.fresh("side"))
                self.out.gap()
                with self.out.indented(f"def {names[-1]}({self.a}, {self.z}, {self.s}):"):
                    self.into(part)
            sizes = (size_code(size, self.out.context) for _, size in tile.parts)
            pairs = zip(sizes, names, strict=True)
            self.local[tile] = ", ".join(f"({size}, {name})" for size, name in pairs)

    def side_by_side(self, tile: Beside, s: str) -> str:
        """Return the call that writes the parts of a tile into some memory, and returns that."""
        call = self.out.support("side_by_side")
        return f"{call}({self.a}, {self.z}, {s}, {self.local[tile]})"

    def into(self, tile: Tile) -> None:
        """Write the statements after which the memory of the block holds a tile."""
        out, s, call = self.out, self.s, self.out.context.call
        shape = "(b, w)"
        match tile:
            case Weights():
                pass
            case Dot():
                out.write(f"{call('matmul')}({', '.join(self.factors(tile))}, out={s})", shape)
            case Beside():
                out.write(self.side_by_side(tile, s), shape)
            case Sum(terms):
                first = _heaviest([term for _, term in terms])
                self.into(terms[first][1])
                if terms[first][0] == "-":
                    out.write(f"{s} *= -1", shape)  # np.negative errs in memory with gaps
                for k, (sign, term) in enumerate(terms):
                    if k != first:
                        out.write(f"{s} {sign}= {self.code(term)}", shape)
            case Product(factors):
                first = factors[_heaviest(factors)]
                self.into(first)
                if factors.count(first) > 1:
                    out.write(f"{s} **= {factors.count(first)}", shape)
                for factor in factors:
                    if factor != first:
                        out.write(f"{s} *= {self.code(factor)}", shape)
            case Scaled(inner, scale):
                self.into(inner)
                for operation, form in scale:
                    out.write(f"{s} {operation}= {out.scalar(form)}", shape)
            case Applied(node, inner):
                self.into(inner)
                code = node.array_code((s,), out.context)
                steps = in_place(code, s)
                for step in [f"{s}[...] = {code}"] if steps is None else steps:
                    out.write(step, shape)
            case _:
                out.write(f"{s}[...] = {self.code(tile)}", shape)

    def factors(self, tile: Dot) -> tuple[str, str]:
        """Return the two factors of an inner product."""
        return self.local[tile], self.keys_of(tile.key, tile.key_axis, turned=True)

    def keys_of(self, number: int, axis: int, *, turned: bool) -> str:
        """Return the keys of a block: one in each row, or, turned, in each column."""
        k, a, z = self.local[number], self.a, self.z
        code = self.widened(number, f"{k}[{a}:{z}]" if axis == 0 else f"{k}[:, {a}:{z}]")
        return code if (axis == 1) == turned else f"{code}.T"

    def code(self, tile: Tile) -> str:
        """Return an expression that computes a tile: of numbers (b, w), or of vectors (b, w, d)."""
        call = self.out.context.call
        match tile:
            case Dot():
                return f"({' @ '.join(self.factors(tile))})"
            case OfQueries():
                return self.local[tile]
            case OfKeys(operand, axis, is_vector):
                keys = self.keys_of(operand, axis, turned=not is_vector)
                return f"{call('ascontiguousarray')}({keys})" if is_vector and axis == 1 else keys
            case OfNeither(operand):
                return f"{self.local[operand]}[:, 0]"
            case Entries(operand):
                return self.widened(operand, f"{self.local[tile]}[:, {self.a}:{self.z}]")
            case One():
                return "1"
            case Weights():
                return self.s
            case Positions():
                return self.positions(tile)
            case Sum(terms):
                written = " ".join(f"{sign} {self.code(term)}" for sign, term in terms)
                return f"({written.removeprefix('+ ')})"
            case Product(factors):
                return f"({' * '.join(map(self.code, factors))})"
            case Scaled(inner, scale):
                return f"({self.scaled(self.code(inner), scale)})"
            case Applied(node, inner):
                return node.array_code((self.code(inner),), self.out.context)
            case Mixed(operand, inner, is_row):
                weight = self.local[operand]
                return f"({self.code(inner)} @ {f'{weight}[0]' if is_row else f'{weight}.T'})"
            case Beside():
                return self.side_by_side(tile, f"{call('empty_like')}({self.s})")
            case Stacked(parts):
                part, b, w = "part", f"{self.i1} - {self.i0}", f"{self.z} - {self.a}"
                wide = f"{call('broadcast_to')}({part}, ({b}, {w}, {part}.shape[-1]))"
                codes = ", ".join(map(self.code, parts))
                return f"{call('concatenate')}([{wide} for {part} in ({codes})], axis=-1)"

    def positions(self, tile: Positions) -> str:
        """Return a bias by position; one of j - i is a view of its diagonals."""
        node = tile.node
        query, key = node.positions[tile.query], node.positions[1 - tile.query]
        if tile in self.local:
            return f"{self.local[tile]}({self.ends})"
        arrays = self.of_arrays
        i, j = (self.arange(kind, f"{self.s}.dtype") for kind in ("i", "j"))
        names = {query: self.out.fresh("i"), key: self.out.fresh("j")}
        for symbol, code in ((query, i), (key, j)):
            if node.body.has(symbol):
                self.out.write(f"{names[symbol]} = {code}")
        both = tuple(names[position] for position in node.positions)
        return scalar_code(node.named((both[0], both[1])), arrays)

    @property
    def ends(self) -> str:
        """The queries and keys of a block."""
        return ", ".join((self.i0, self.i1, self.a, self.z))

    def diagonals(self, function: str) -> str:
        return f"{self.out.support('diagonals')}({function}, {self.out.wide})"

    def arange(self, kind: str, dtype: str = "") -> str:
        first, last = (self.i0, self.i1) if kind == "i" else (self.a, self.z)
        along = "[:, None]" if kind == "i" else "[None, :]"
        of_dtype = f", dtype={dtype}" if dtype else ""
        return f"{self.out.context.call('arange')}({first}, {last}{of_dtype}){along}"


def _heaviest(tiles: Sequence[Tile]) -> int:
    """Return which of some tiles to compute in the memory of the block.

    It is the one that is there already, or the first that has products of matrices.
    """
    for kinds in (Weights, Dot | Mixed):
        for k, tile in enumerate(tiles):
            if any(isinstance(part, kinds) for part in everything(tile)):
                return k
    return 0
