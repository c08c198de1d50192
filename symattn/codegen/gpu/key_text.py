"""Which keys a block of queries sees, as statements of a kernel.

They are the sums of `symattn.codegen.spans`, written for the queries ``i0`` up to ``i1`` and for
``m`` keys: a kernel skips what none of its queries sees, and does not look at what all of them see.
Four numbers say it: some query sees keys ``first`` up to ``last``, every query ``full`` up to
``stop``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from symattn.codegen.blocked import Attended
from symattn.codegen.gpu.score_text import LARGEST
from symattn.codegen.key_ranges import Interval, Joined, KeyRanges, Keys, Somewhere
from symattn.meaning.form import Extent, Form, place
from symattn.nodes.along_axis import queries_and_keys
from symattn.nodes.arrays import ArrayContext
from symattn.tags import Size


@dataclass(frozen=True, slots=True)
class KeyText:
    """The statements, and what is known of their numbers before any call.

    ``sizes`` are all whole numbers that have a name.  ``from_start`` tells that ``first``
    and ``full`` are 0, ``has_full`` that there may be keys which every query sees.
    """

    lines: tuple[str, ...]
    sizes: Mapping[str, Form]
    from_start: bool
    has_full: bool


def key_text(attended: Attended, sizes: Mapping[str, Form]) -> KeyText:
    """Return the statements for the mask of a weighted sum; ``sizes`` are those that have names.

    >>> import symattn as sa
    >>> from symattn.codegen.blocked import blocked_program
    >>> formula = sa.formula("causal_self_attention", layout="row")
    >>> found = key_text(blocked_program(formula.program).result, {})
    >>> print("\\n".join(found.lines))
    first = 0
    last = tl.maximum(first, tl.minimum(m, i1))
    full = 0
    stop = tl.maximum(full, tl.minimum(last, i0 + 1))
    """
    mask = attended.attends_under
    if mask is None:
        return KeyText(("first, full, stop, last = 0, 0, m, m",), sizes, True, True)
    axes = queries_and_keys(attended.weights.sizes, attended.weights.axis)
    query, key = (place(size) for size in axes)
    ranges = KeyRanges(ArrayContext(str, str, ""), str, query, key)
    writer = _Writer(dict(sizes))
    found = writer.write(ranges.keys(mask.condition(query, key, axes)))
    lines = tuple(re.sub(rf"{found}\b", "", line) for line in writer.lines)
    return KeyText(lines, writer.sizes, *writer.known[found])


@dataclass(slots=True)
class _Writer:
    """Writes ranges of keys, each with an ending of its own for its four names."""

    sizes: dict[str, Form]
    lines: list[str] = field(default_factory=list)
    known: dict[str, tuple[bool, bool]] = field(default_factory=dict)

    def write(self, keys: Keys) -> str:
        """Write the statements of a range, and return the ending of its names."""
        match keys:
            case Somewhere():
                return self.ordered(("0", "0", "0", "m"), from_start=True, has_full=False)
            case Interval(True, low, high):
                ends = (
                    "0" if low is None else self.sum("i0", low),
                    "0" if low is None else self.sum("i1 - 1", low),
                    "m" if high is None else self.sum("i0", high + Size.of(1)),
                    "m" if high is None else self.sum("i1", high),
                )
                return self.ordered(ends, from_start=low is None, has_full=True)
            case Interval(_, low, high):
                start = "0" if low is None else self.sum("", low)
                end = "m" if high is None else self.sum("", high + Size.of(1))
                ends = start, start, end, end
                return self.ordered(ends, from_start=low is None, has_full=True)
            case Joined(how, (one, other)):
                return self.joined(how, self.write(one), self.write(other))

    def joined(self, how: str, one: str, other: str) -> str:
        """Write what two ranges are together."""
        from_start = self.known[one][0] and self.known[other][0]
        has_full = self.known[one][1], self.known[other][1]
        names = zip(self.names(one), self.names(other), strict=True)
        (j0, k0), (full0, all0), (full1, all1), (j1, k1) = names
        if how == "both":
            ends = (
                f"tl.maximum({j0}, {k0})",
                f"tl.maximum({full0}, {all0})",
                f"tl.minimum({full1}, {all1})",
                f"tl.minimum({j1}, {k1})",
            )
            return self.ordered(ends, from_start=from_start, has_full=all(has_full))
        # What is empty takes no part: its start is moved to the end, and its end to the start.
        longer = f"{full1} - {full0} >= {all1} - {all0}"
        ends = (
            f"tl.minimum(tl.where({j0} < {j1}, {j0}, m), tl.where({k0} < {k1}, {k0}, m))",
            f"tl.where({longer}, {full0}, {all0})",
            f"tl.where({longer}, {full1}, {all1})",
            f"tl.maximum(tl.where({j0} < {j1}, {j1}, 0), tl.where({k0} < {k1}, {k1}, 0))",
        )
        return self.ordered(ends, from_start=from_start, has_full=any(has_full))

    def ordered(self, ends: tuple[str, str, str, str], *, from_start: bool, has_full: bool) -> str:
        """Write 0 ≤ first ≤ full ≤ stop ≤ last ≤ m; return the ending of these names."""
        ending = f"_{len(self.known)}"
        self.known[ending] = from_start, has_full
        first, full, stop, last = self.names(ending)
        j0, full0, full1, j1 = ends
        self.lines += [
            f"{first} = 0" if from_start else f"{first} = tl.minimum(m, tl.maximum(0, {j0}))",
            f"{last} = tl.maximum({first}, {_at_most('m', j1)})",
            f"{full} = 0"
            if from_start
            else f"{full} = tl.minimum({last}, tl.maximum({first}, {full0}))",
            f"{stop} = tl.maximum({full}, {_at_most(last, full1)})",
        ]
        return ending

    def names(self, ending: str) -> tuple[str, str, str, str]:
        return f"first{ending}", f"full{ending}", f"stop{ending}", f"last{ending}"

    def sum(self, start: str, size: Size) -> str:
        """Return a position plus a size: a small number where it is known, else a name."""
        constant = size.constant
        if constant is not None and abs(constant) <= LARGEST:
            if not start:
                return str(constant)
            sign = "-" if constant < 0 else "+"
            return f"{start} {sign} {abs(constant)}" if constant else start
        name = next((name for name, known in self.sizes.items() if known == Extent(size)), "")
        name = name or f"n{len(self.sizes)}"
        self.sizes[name] = Extent(size)
        return f"{start} + {name}" if start else name


def _at_most(largest: str, end: str) -> str:
    return largest if end == "m" else f"tl.minimum({largest}, {end})"
