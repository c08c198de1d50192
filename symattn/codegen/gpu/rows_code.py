"""The kernel between two matrix products, written from the text of a score.

A block of threads has the row of one query: the inner products with its keys, which the first
product left in memory.  It makes them scores, finds the largest, and leaves ``exp(s - largest)`` in
the place of each, for the second product; what they sum to goes with them, and divides that
product afterwards.  So a weight is rounded to two bytes once, relative to the largest, and the sum
is that of the rounded ones: what weights are multiplied with cannot lose what their sum lost.

Invariant: parameters stand in the order of `parameters_of`, which the host follows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

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
from symattn.codegen.gpu.score_text import ScoreText

AT_ONCE = 8
"""Scores of a thread that are loaded together."""

_ALONG: dict[type, str] = {QueryLeaf: "i", KeyLeaf: "j", EntryLeaf: "ij", FixedLeaf: ""}
"""The positions that a leaf depends on."""


def mentions(code: str, name: str) -> bool:
    """Tell whether source reads a name."""
    return re.search(rf"\b{name}\b", code) is not None


def dots_of(score: ScoreText) -> tuple[str, ...]:
    """Return the names of the inner products, in the order of their buffers."""
    return tuple(name for name, leaf in score.leaves.items() if isinstance(leaf, DotLeaf))


def first_is_kept(score: ScoreText) -> bool:
    """Tell whether the first inner products are read again after weights have been written."""
    return any(mentions(score.reweigh, name) for name in dots_of(score)[:1])


def bodies_of(score: ScoreText) -> str:
    """Return all texts of a score, one after another."""
    sums = (leaf.body for leaf in score.leaves.values() if isinstance(leaf, PairSumLeaf))
    return " ; ".join((score.score, score.seen, score.reweigh, *sums))


def scalars_of(score: ScoreText) -> tuple[str, ...]:
    """Return the scalars that a kernel takes; the others scale inner products."""
    return tuple(name for name in score.scalars if mentions(bodies_of(score), name))


def rows_kernel(score: ScoreText) -> str:
    """Return the source of the kernel ``rows``, which stands after `row_kernels.PRELUDE`."""
    return _Kernel(score).text()


class _Kernel:
    """One kernel: its parameters, and what its threads do for one query."""

    def __init__(self, score: ScoreText) -> None:
        self.score = score
        self.dots = dots_of(score)
        self.own = first_is_kept(score)
        self.in_place = not self.own and score.score == "".join(self.dots[:1])
        """The scores are what the first product left."""
        keeps = any(isinstance(leaf, KeepLeaf) for leaf in score.leaves.values())
        self.stored = not self.in_place or keeps
        """Scores are written, so that they, and what is seen, are computed once."""
        sums = any(isinstance(leaf, PairSumLeaf) for leaf in score.leaves.values())
        self.at_once = 1 if sums else AT_ONCE

    def text(self) -> str:
        before = [self.score.helpers, ""] if self.score.helpers else []
        body = [*self.once(), *self.largest(), *self.weights(), *self.sums()]
        return "\n".join([*before, self.header(), "{", *body, "}", ""])

    # Parameters.

    def header(self) -> str:
        fixed = [
            "real* scores",
            "long long apart",
            "long long pitch",
            "long long width",
            "long long i0",
            "long long j0",
            "real* totals",
            "real* lse",
            "long long lse_h",
            "long long lse_i",
        ]
        given = [part for name, leaf in self.score.leaves.items() for part in pointers(name, leaf)]
        numbers = [f"real {name}" for name in scalars_of(self.score)]
        numbers += [f"long long {name}" for name in self.score.sizes]
        lines = [", ".join(fixed[:6]), ", ".join(fixed[6:]), *given]
        lines += [", ".join(numbers)] if numbers else []
        inside = ",\n    ".join(lines)
        return f'extern "C" __global__ void rows(\n    {inside})'

    # The parts of the body.

    def once(self) -> Iterator[str]:
        """Yield what is done once for a query."""
        yield "    __shared__ real shared[1024];"
        yield "    const long long row = blockIdx.x, head = blockIdx.y, i = i0 + row;"
        yield "    const unsigned threads = blockDim.x;"
        yield "    scores += (head * gridDim.x + row) * pitch;"
        for number, name in enumerate(self.dots, start=self.own):
            if number:
                yield f"    const real* const {name}_at = scores + {number} * apart;"
        for name, leaf in self.score.leaves.items():
            if isinstance(leaf, QueryLeaf):
                yield f"    const real {name} = {_read(name, leaf)};"

    def largest(self) -> Iterator[str]:
        """Yield the first pass: scores, and the largest of those that are seen."""
        seen, needed = self.score.seen, self.loads(self.score.seen)
        scored = [*self.loads(self.score.score, seen), f"s[u] = {self.score.score};"]
        if needed:
            computed = _block("if (x < width)", [*needed, *_block(f"if ({seen})", scored)])
        else:
            computed = _block(f"if (x < width && ({seen}))" if seen else "if (x < width)", scored)
        kept = ["if (x < width) scores[x] = s[u];"] if self.stored else []
        loops = [
            f"real s[{self.at_once}];",
            *self.each(["s[u] = -INFINITE;", *computed]),
            *self.each([*kept, "top = larger(top, s[u]);"]),
        ]
        yield ""
        yield "    // the largest score that is seen"
        yield "    real top = -INFINITE;"
        yield from self.parts(loops)
        yield "    top = over_block<larger>(top, shared);"

    def weights(self) -> Iterator[str]:
        """Yield the second pass: exponentials in the place of scores, and what they sum to."""
        seen = self.score.seen if not self.stored else ""
        here = f"x < width && ({seen})" if seen else "x < width"
        loops = [
            f"real e[{self.at_once}];",
            *self.each(["e[u] = 0;", f"if ({here}) e[u] = exp(scores[x] - base);"]),
            "if (sizeof(weight) < sizeof(real)) __syncthreads();  // all have read",
            *self.each(_block("if (x < width)", self.weighed())),
        ]
        yield ""
        yield "    // exponentials, in the place of scores"
        if self.score.seen:
            yield "    const real base = top == -INFINITE ? real(0) : top;"
        else:
            yield "    const real base = top;"
        yield "    real total = 0, exact = 0;"
        yield "    weight* const weights = (weight*)scores;"
        yield from self.parts(loops)

    def sums(self) -> Iterator[str]:
        """Yield what is left of a query: the sums of its weights."""
        yield "    total = over_block<added>(total, shared);"
        yield "    if (lse) exact = over_block<added>(exact, shared);"
        yield "    if (threadIdx.x == 0) {"
        yield "        totals[head * gridDim.x + row] = total;"
        yield "        if (lse) lse[head * lse_h + i * lse_i] = base + log(exact);"
        yield "    }"

    def parts(self, lines: Sequence[str]) -> Iterator[str]:
        """Yield the loop over what all threads do together."""
        step = f"{self.at_once} * threads"
        header = f"for (long long first = 0; first < width; first += {step})"
        yield from (f"    {line}" for line in _block(header, lines))

    def each(self, lines: Sequence[str]) -> list[str]:
        """Return the loop over what one thread does of it."""
        place: list[str] = []
        if any(mentions(line, "j") for line in lines):
            place = ["const long long j = j0 + x;"]
        if any(mentions(line, "x") for line in lines):
            place.insert(0, "const long long x = first + u * threads + threadIdx.x;")
        return [
            "#pragma unroll",
            *_block(f"for (int u = 0; u < {self.at_once}; ++u)", [*place, *lines]),
        ]

    def weighed(self) -> list[str]:
        """Return the statements that write one weight."""
        if self.score.reweigh:
            return [
                *self.loads(self.score.reweigh),
                "const real p = e[u];",
                "exact += p;",
                "total += p;",
                f"put(weights + x, {self.score.reweigh});",
            ]
        return [
            "weight w;",
            "put(&w, e[u] * LARGEST);",
            "weights[x] = w;",
            "exact += e[u];",
            "total += wide(w);",
        ]

    def loads(self, code: str, known: str = "") -> list[str]:
        """Return the statements that load what source reads of a key, or of a pair."""
        lines: list[str] = []
        for name, leaf in self.score.leaves.items():
            if not mentions(code, name) or mentions(known, name):
                continue
            match leaf:
                case DotLeaf():
                    at = "scores" if name == self.dots[0] and not self.own else f"{name}_at"
                    lines.append(f"const real {name} = {at}[x];")
                case KeepLeaf():
                    lines.append(f"const bool {name} = {_read(name, leaf)};")
                case KeyLeaf() | EntryLeaf():
                    lines.append(f"const real {name} = {_read(name, leaf)};")
                case PairSumLeaf():
                    lines += _summed(name, leaf)
                case _:
                    pass
        return lines


def _block(header: str, lines: Sequence[str]) -> list[str]:
    """Return statements with a header, indented."""
    return [f"{header} {{", *(f"    {line}" for line in lines), "}"]


def pointers(name: str, leaf: Leaf) -> list[str]:
    """Return the parameters of a leaf: where it is, and how far its numbers are apart."""
    if isinstance(leaf, DotLeaf):
        return []
    if isinstance(leaf, PairSumLeaf):
        parts = [_pointer(f"{name}_{part}", "e", leaf.vectors[part]) for part in vectors_of(leaf)]
        weight = f"const real* {name}_w_at, long long {name}_w_h, long long {name}_w_e"
        return [f"long long {name}_size, {weight}", *parts]
    return [_pointer(name, "", leaf)]


def vectors_of(leaf: PairSumLeaf) -> list[str]:
    """Return the names of the vectors of a pair: those of queries, of keys, and of neither."""
    kinds = [QueryLeaf, KeyLeaf, FixedLeaf]
    return sorted(leaf.vectors, key=lambda name: kinds.index(type(leaf.vectors[name])))


def _along(leaf: Leaf | FixedLeaf) -> str:
    if isinstance(leaf, KeepLeaf):
        return "ij" if leaf.ranks == 2 else "j"
    return _ALONG[type(leaf)]


def _pointer(name: str, inner: str, leaf: Leaf | FixedLeaf) -> str:
    kinds: dict[type, str] = {KeepLeaf: "bool", EntryLeaf: "entry"}
    strides = (f"long long {name}_{axis}" for axis in ("h", *_along(leaf), *inner))
    return ", ".join((f"const {kinds.get(type(leaf), 'real')}* {name}_at", *strides))


def _read(name: str, leaf: Leaf | FixedLeaf, inner: str = "") -> str:
    """Return the source of one number, or truth value, of a leaf."""
    steps = ["head * {0}_h", *(f"{axis} * {{0}}_{axis}" for axis in (*_along(leaf), *inner))]
    code = f"{name}_at[{' + '.join(steps).format(name)}]"
    return f"wide({code})" if isinstance(leaf, EntryLeaf) else code


def _summed(name: str, leaf: PairSumLeaf) -> list[str]:
    """Return the statements that sum over the entries of the vectors of a pair."""
    reads = [
        f"const real {part} = {_read(f'{name}_{part}', leaf.vectors[part], 'e')};"
        for part in vectors_of(leaf)
    ]
    weight = f"{name}_w_at[head * {name}_w_h + e * {name}_w_e]"
    body = [*reads, f"{name} += {weight} * ({leaf.body});"]
    return [f"real {name} = 0;", *_block(f"for (long long e = 0; e < {name}_size; ++e)", body)]
