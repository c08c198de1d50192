"""One Triton kernel for a softmax-weighted sum, written from the text of its score.

A program of the kernel takes a block of queries through the keys, block by block (FlashAttention-2,
arXiv:2307.08691): full blocks, in which every query sees every key, need no condition; then mixed
ones, in which the mask selects.  With ``top`` the largest score so far times log₂ e,

    p = 2^(s log₂ e - top),   l ← l 2^(old top - top) + Σ p,   o ← o 2^(old top - top) + p V,

and the result is o / l.  Nothing of n × m numbers is ever in memory.

What is masked out may be anything.  Scores are selected; values are multiplied as they are, and
only where a result is no finite number is it computed again, so that a value counts for the queries
that give it a weight, and is not there for others (0 · NaN is NaN).

Invariant: offsets into arrays are computed in 64 bits; every name is the kernel's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from symattn.codegen.blocked import Attended
from symattn.codegen.gpu.dialects import TRITON
from symattn.codegen.gpu.key_text import KeyText, key_text
from symattn.codegen.gpu.leaves import (
    DotLeaf,
    EntryLeaf,
    FixedLeaf,
    KeepLeaf,
    KeyLeaf,
    PairSumLeaf,
    QueryLeaf,
)
from symattn.codegen.gpu.parameters import parameters
from symattn.codegen.gpu.score_text import ScoreText, score_text
from symattn.errors import NotSupportedError
from symattn.meaning.form import Add, Extent, Form, Mul, Number, Parameter, Power

_LOG2E = "1.4426950408889634"
_LN2 = "0.6931471805599453"
_TINY = "1.1754943508222875e-38"
_LARGE = "1073741824.0"  # exponents of two from here on have no digits up to 2⁶

Dots = tuple[tuple[int, int, int, int], ...]
"""Of each inner product: the operand of queries, their axis, the operand of keys, their axis."""


@dataclass(frozen=True, slots=True)
class KernelText:
    """The source of a kernel, and what the host has to know of it.

    ``axis`` is that along which queries lie in the result, ``dots`` are the inner products, and
    ``sums`` the operands whose rows weigh the entries of vectors of pairs.  ``numbers`` and
    ``counts`` are the scalars that it takes, in order, and ``masks`` the labels of boolean arrays.
    """

    text: str
    operands: int
    axis: int
    dots: Dots
    sums: tuple[int, ...]
    numbers: Mapping[str, Form]
    counts: Mapping[str, Form]
    masks: tuple[str, ...]


def kernel_text(attended: Attended) -> KernelText:
    """Return the kernel of a weighted sum; raises `NotSupportedError` where one cannot do it.

    >>> import symattn as sa
    >>> from symattn.codegen.blocked import blocked_program
    >>> formula = sa.formula("scaled_dot_product", layout="row")
    >>> kernel = kernel_text(blocked_program(formula.program).result)
    >>> kernel.dots, list(kernel.numbers)
    (((0, 0, 1, 0),), ['c0'])
    """
    score = score_text(attended, TRITON)
    if score.reweigh:
        raise NotSupportedError("weights that are changed after the softmax, in one kernel")
    return _Writer(attended, score, key_text(attended, score.sizes)).kernel()


class _Writer:
    """Writes one kernel, part by part."""

    def __init__(self, attended: Attended, score: ScoreText, keys: KeyText) -> None:
        self.score, self.keys = score, keys
        self.axis = attended.query_axis
        self.operands = len(attended.matrices) - 1
        self.masks = tuple(dict.fromkeys(array.label for array in attended.mask_arrays))
        self.is_masked = attended.attends_under is not None
        self.dots = {name: leaf for name, leaf in score.leaves.items() if isinstance(leaf, DotLeaf)}
        self.sums = {
            name: leaf for name, leaf in score.leaves.items() if isinstance(leaf, PairSumLeaf)
        }
        self.bare = self.bare_dot()

    def bare_dot(self) -> DotLeaf | None:
        """Return the inner product that the score is, if its scale is certain to be positive."""
        leaf = self.dots.get(self.score.score)
        if leaf is None or (leaf.scale and not _is_positive(self.score.scalars[leaf.scale])):
            return None
        return leaf

    def kernel(self) -> KernelText:
        dots = tuple(
            (leaf.query, leaf.query_axis, leaf.key, leaf.key_axis) for leaf in self.dots.values()
        )
        sums = tuple(leaf.weight for leaf in self.sums.values())
        names = parameters(
            operands=self.operands,
            masks=len(self.masks),
            dots=len(dots),
            sums=len(sums),
            numbers=len(self.score.scalars),
            counts=len(self.keys.sizes),
        )
        lines = ["import triton", "import triton.language as tl", "", ""]
        if self.score.helpers:
            lines += [*self.score.helpers.rstrip().split("\n"), "", ""]
        lines += ["@triton.jit", "def attend("]
        lines += [f"    {', '.join(line)}," for line in names.lines]
        lines += [f"    {name}: tl.constexpr," for name in names.constants]
        lines += ["):"]
        lines += [f"    {line}" if line else "" for line in self.body()]
        text = "\n".join([*lines, ""])
        return KernelText(
            text,
            self.operands,
            self.axis,
            dots,
            sums,
            self.score.scalars,
            self.keys.sizes,
            self.masks,
        )

    def body(self) -> Iterator[str]:
        yield from self.beginning()
        yield "# the keys that these queries see"
        yield from self.keys.lines
        yield from self.whole_blocks()
        yield ""
        yield from self.queries()
        yield from self.factors()
        yield 'top = tl.full([BM], float("-inf"), tl.float32)'
        yield "by = tl.zeros([BM], tl.float32) + power"
        yield "l = tl.zeros([BM], tl.float32)"
        yield "o = tl.zeros([BM, DV_WIDE], tl.float32)"
        if self.keys.has_full:
            yield "for a in tl.range(full, stop, BN):  # every query sees every key"
            yield from _indented(self.block(mixed=False))
        yield from self.mixed_loop("BN")
        yield from _indented(self.block(mixed=True))
        if self.is_masked:
            yield from self.again()
        yield from self.ending()

    def beginning(self) -> Iterator[str]:
        yield "# the last blocks of a head come first: where a mask is causal they are the longest"
        yield "blocks = tl.cdiv(n, BM)"
        yield "head = (tl.program_id(0) // blocks).to(tl.int64)"
        yield "i0 = (blocks - 1 - tl.program_id(0) % blocks) * BM"
        yield "i1 = tl.minimum(n, i0 + BM)"
        yield "h0, h1, h2 = head // (size_1 * size_2), head // size_2 % size_1, head % size_2"
        arrays = ["O", "V", *(f"X{k}" for k in range(self.operands))]
        arrays += [f"M{k}" for k in range(len(self.masks))]
        for name in arrays:
            yield f"{name} += h0 * {name}_0 + h1 * {name}_1 + h2 * {name}_2"
        yield "i = i0 + tl.arange(0, BM)[:, None]  # (BM, 1)"
        yield "y = tl.arange(0, DV_WIDE)[None, :]  # (1, DV_WIDE)"

    def whole_blocks(self) -> Iterator[str]:
        """Round the ends of full blocks, so that every block starts at a multiple of its width."""
        yield "stop = stop // BN * BN"
        if not self.keys.from_start:
            yield "first = first // BN * BN"
            yield "full = (full + BN - 1) // BN * BN"
            yield "stop = tl.maximum(full, stop)"
            yield "left = tl.cdiv(tl.minimum(full, last) - first, BN)  # mixed blocks before these"
            yield "right = tl.maximum(0, tl.cdiv(last - stop, BN))"

    def mixed_loop(self, width: str) -> Iterator[str]:
        if self.keys.from_start:
            yield f"for a in tl.range(stop, last, {width}):"
        else:
            yield "for block in tl.range(0, left + right):"
            yield "    a = tl.where(block < left, first + block * BN, stop + (block - left) * BN)"

    def queries(self) -> Iterator[str]:
        """Load what the queries bring, once."""
        for k, (name, leaf) in enumerate(self.dots.items()):
            yield f"d{k} = tl.arange(0, D{k}_WIDE)"
            query = self.at(leaf.query, leaf.query_axis, "i", f"d{k}[None, :]")
            seen = f"(i < n) & (d{k} < D{k})[None, :]"
            yield f"{name}_of = {query}  # (BM, D{k}_WIDE)"
            yield f"{name}_q = tl.load({name}_of, mask={seen}, other=0.0)"
        for name, leaf in self.score.leaves.items():
            if isinstance(leaf, QueryLeaf):
                yield f"{name} = {self.number_of(leaf, 'i', '', 'i < n')}  # (BM, 1)"

    # One block of keys.

    def block(self, *, mixed: bool) -> Iterator[str]:
        """Yield what one block of keys adds to top, l and o."""
        yield from self.scores(mixed=mixed, width="BN")
        # fma does not round s log₂ e, which for large scores has no digits left behind the point.
        yield "new = tl.maximum(top, tl.max(s, 1))"
        yield "new_by = tl.where(tl.abs(new) < large, factor, power)"
        yield 'base = tl.where(new == float("-inf"), 0.0, new * new_by)'
        yield "p = tl.exp2(tl.fma(s, new_by[:, None], -base[:, None]))  # (BM, BN)"
        yield "shrink = tl.where(by == new_by, tl.exp2(top * by - base), 0.0)"
        yield "l = l * shrink + tl.sum(p, 1)"
        yield from self.values("BN", mixed=mixed)
        yield "o = tl.dot(p.to(v.dtype), v, o * shrink[:, None], input_precision=PRECISION)"
        yield "top, by = new, new_by"

    def scores(self, *, mixed: bool, width: str) -> Iterator[str]:
        """Yield the scores of a block, those that are not seen being -inf."""
        leaves = self.score.leaves
        # Addresses are computed from j each time: kept over the loop, they would take registers.
        yield f"j = a + tl.arange(0, {width})[None, :]  # (1, {width})"
        for k, (name, leaf) in enumerate(self.dots.items()):
            key = self.at(leaf.key, leaf.key_axis, "j", f"d{k}[:, None]")
            inside = [f"(d{k} < D{k})[:, None]"] + (["(j < m)"] if mixed else [])
            yield f"{name}_at = {key}  # (D{k}_WIDE, {width})"
            yield f"{name}_k = {self.loaded(f'{name}_at', inside, f'D{k}')}"
            product = f"tl.dot({name}_q, {name}_k, input_precision=PRECISION)"
            scale = f" * {leaf.scale}" if leaf.scale and leaf is not self.bare else ""
            yield f"{name} = {product}{scale}"
        seen_key, seen_pair = "", "i < n"
        if mixed:
            seen_key, seen_pair = "j < m", "(i < n) & (j < m)"
        for name, leaf in leaves.items():
            match leaf:
                case KeyLeaf():
                    yield f"{name} = {self.number_of(leaf, 'j', '', seen_key)}"
                case EntryLeaf(operand, axis):
                    yield f"{name} = {self.single(self.at(operand, axis, 'i', 'j'), seen_pair)}"
                case KeepLeaf(label, ranks) if mixed:
                    mask = self.masks.index(label)
                    row = f"i * M{mask}_r + " if ranks == 2 else ""
                    where = seen_pair if ranks == 2 else seen_key
                    address = f"M{mask} + {row}j * M{mask}_c"
                    yield f"{name} = tl.load({address}, mask={where}, other=0) != 0"
                case _:
                    pass
        for k, (name, leaf) in enumerate(self.sums.items()):
            yield from self.pair_sum(k, name, leaf, seen_key, width)
        code = self.score.score
        if not self.dots:  # it may be the same for all queries, or for all keys
            code = f"tl.zeros([BM, {width}], tl.float32) + ({code})"
        yield f"s = {code}  # (BM, {width})"
        if mixed:
            seen = f"(j < m) & ({self.score.seen})" if self.score.seen else "j < m"
            yield f's = tl.where({seen}, s, float("-inf"))'

    def pair_sum(
        self, k: int, name: str, leaf: PairSumLeaf, seen_key: str, width: str
    ) -> Iterator[str]:
        yield f"{name} = tl.zeros([BM, {width}], tl.float32)"
        yield f"for e in tl.range(0, E{k}):"
        for entry, vector in leaf.vectors.items():
            match vector:
                case QueryLeaf():
                    yield f"    {entry} = {self.number_of(vector, 'i', 'e', 'i < n')}"
                case KeyLeaf():
                    yield f"    {entry} = {self.number_of(vector, 'j', 'e', seen_key)}"
                case FixedLeaf(operand):
                    yield f"    {entry} = {self.single(self.at(operand, 0, 'e', ''), '')}"
        weight = self.single(self.at(leaf.weight, 1, "e", ""), "")
        yield f"    {name} += {weight} * ({leaf.body})"

    def values(self, width: str, *, mixed: bool) -> Iterator[str]:
        yield f"k = (a + tl.arange(0, {width}))[:, None]  # ({width}, 1)"
        rows, columns = f"k * V_{'rc'[self.axis]}", f"y * V_{'cr'[self.axis]}"
        yield f"v_at = V + {rows} + {columns}  # ({width}, DV_WIDE)"
        yield f"v = {self.loaded('v_at', ['(y < DV)', *(['(k < m)'] if mixed else [])], 'DV')}"

    def loaded(self, at: str, inside: list[str], size: str) -> str:
        """Return a load whose condition on features is there only where they are padded."""
        condition = f"tl.load({at}, mask={' & '.join(inside)}, other=0.0)"
        if len(inside) > 1:
            return condition
        return f"tl.load({at}) if {size} == {size}_WIDE else {condition}"

    def at(self, operand: int, axis: int, token: str, feature: str) -> str:
        """Return the address of a token's feature, where tokens lie along this axis."""
        steps = [f"{token} * X{operand}_{'rc'[axis]}"]
        if feature:
            steps.append(f"{feature} * X{operand}_{'cr'[axis]}")
        return " + ".join([f"X{operand}", *steps])

    def number_of(self, leaf: QueryLeaf | KeyLeaf, token: str, feature: str, where: str) -> str:
        return self.single(self.at(leaf.operand, leaf.axis, token, feature), where)

    def single(self, at: str, where: str) -> str:
        """Return a load as float32."""
        masked = f", mask={where}, other=0.0" if where else ""
        return f"tl.load({at}{masked}).to(tl.float32)"

    def factors(self) -> Iterator[str]:
        """Yield what a score is multiplied with to be an exponent of two.

        Large scores are multiplied with a power of two: the product that fma subtracts from has to
        be the number that is subtracted, and what it is rounded by would be an exponent itself.  As
        large ones differ by more than 2⁵ or not at all, so do the exponents: weights are the same.
        """
        scale = self.bare.scale if self.bare is not None else ""
        factor = f"tl.maximum({scale} * {_LOG2E}, {_TINY})" if scale else _LOG2E
        yield f"factor = tl.zeros([], tl.float32) + {factor}"
        yield "power = tl.exp2(tl.floor(tl.log2(factor)))"
        yield f"large = {_LARGE} / factor"

    # After all blocks.

    def again(self) -> Iterator[str]:
        """Yield the sum once more, where a value that is no finite number came into it."""
        yield "total = tl.where(l == 0.0, 1.0, l)  # no key is seen: zeros"
        yield "o = o / total[:, None]"
        yield 'odd = tl.where((tl.abs(o) < float("inf")) | (i >= n), 0, 1)'
        yield "if tl.max(tl.max(odd, 1), 0) > 0:"
        lines = ["o = tl.zeros([BM, DV_WIDE], tl.float32)"]
        start = "0" if self.keys.from_start else "first"
        lines.append(f"for a in tl.range({start}, last, BS, num_stages=1):")
        inner = [
            *self.scores(mixed=True, width="BS"),
            'base = tl.where(top == float("-inf"), 0.0, top * by)',
            "p = tl.exp2(tl.fma(s, by[:, None], -base[:, None])) / total[:, None]",
            *self.values("BS", mixed=True),
            "w = v.to(tl.float32)",
            'finite = tl.abs(w) < float("inf")',
            "v = tl.where(finite, w, 0.0).to(v.dtype)",
            "o = tl.dot(p.to(v.dtype), v, o, input_precision=PRECISION)",
            "# how many values of each kind a query meets: NaN, -inf and inf, as digits of a count",
            'kind = tl.where(w == float("inf"), 1.0, tl.where(w == float("-inf"), 128.0, 16384.0))',
            "kind = tl.where(finite, 0.0, kind).to(v.dtype)",
            "some = tl.where(p != 0.0, 1.0, 0.0).to(v.dtype)",
            "met = tl.dot(some, kind).to(tl.int32)",
            'o += tl.where(met % 128 > 0, float("inf"), 0.0)',
            'o += tl.where(met // 128 % 128 > 0, float("-inf"), 0.0)',
            'o += tl.where(met >= 16384, float("nan"), 0.0)',
        ]
        yield from _indented([*lines, *_indented(inner)])

    def ending(self) -> Iterator[str]:
        if not self.is_masked:
            yield "o = o / l[:, None]"
        row, column = f"i * O_{'rc'[self.axis]}", f"y * O_{'cr'[self.axis]}"
        yield f"tl.store(O + {row} + {column}, o.to(O.dtype.element_ty), mask=(i < n) & (y < DV))"
        yield "if SUMS:  # log Σ exp(s)"
        yield "    rows = i0 + tl.arange(0, BM)"
        yield "    L += h0 * L_0 + h1 * L_1 + h2 * L_2"
        near, far = f"top * by * {_LN2}", f"top * (factor * {_LN2})"
        yield f"    base = tl.where(tl.abs(top) < large, {near}, {far})"
        sums = f"base + tl.log2(l) * {_LN2}"
        if not self.is_masked:  # scores that are all -inf have no softmax
            sums = f'tl.where(l == 0.0, float("nan"), {sums})'
        yield f"    tl.store(L + rows, {sums}, mask=rows < n)"


def _is_positive(form: Form) -> bool:
    """Tell whether a scalar is certain to be more than zero."""
    match form:
        case Number(value):
            return value > 0
        case Extent():
            return True
        case Parameter():
            return form.positive
        case Mul(parts) | Add(parts):
            return all(map(_is_positive, parts))
        case Power(base, _):
            return _is_positive(base)
        case _:
            return False


def _indented(lines: Iterator[str] | Sequence[str]) -> list[str]:
    return [f"    {line}" if line else "" for line in lines]
