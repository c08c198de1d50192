"""Claims about masks as conditions: they combine as sets do, and some of them say nothing."""

from __future__ import annotations

from collections.abc import Iterator

from symattn.nodes import causal, keep, padding, prefix, window
from symattn.variants.claims.claim import Claim, Equation
from symattn.variants.claims.written import MASKS, Sides, Written, in_both, m, n, w
from symattn.variants.layouts import BUILDERS

g, p, c = keep(), padding(), causal("bottom_right")


def _twice_not(at: Written) -> Iterator[Sides]:
    for label, mask in MASKS.items():
        yield label, at.softmax(at.scores(), ~~mask), at.softmax(at.scores(), mask)


def _sets(at: Written) -> Iterator[Sides]:
    for label, one, other in (
        ("not either", ~(g | p), ~g & ~p),
        ("not both", ~(g & p), ~g | ~p),
        ("distributed", g & (p | c), (g & p) | (g & c)),
        ("absorbed", g | (g & p), g),
        ("in any order", g & p & c, c & p & g),
    ):
        yield label, at.softmax(at.scores(), one), at.softmax(at.scores(), other)


def _say_nothing(at: Written) -> Iterator[Sides]:
    S, A = at.scores(), at.scores(keys=n)
    yield "all keys", at.softmax(S, prefix(m)), at.softmax(S)
    yield "the widest window", at.softmax(A, window(n)), at.softmax(A)
    yield "a mask or its opposite", at.softmax(S, g | ~g), at.softmax(S)


def _none(at: Written) -> Iterator[Sides]:
    S = at.scores()
    yield "", at.softmax(S, g & ~g), S - S


def _looking_back(at: Written) -> Iterator[Sides]:
    A = at.scores(keys=n)
    both = window(w) & causal()
    yield "in either order", at.softmax(A, both), at.softmax(A, causal() & window(w))
    yield "the widest window", at.softmax(A, window(n) & causal()), at.softmax(A, causal())
    yield "alone", at.softmax(A, window(1) & causal()), at.softmax(A, window(1))


def _alignments() -> Iterator[Equation]:
    for layout in BUILDERS.values():
        at = Written(layout)
        left = at.softmax(at.scores(), causal("top_left"))
        yield Equation(layout.name, left, at.softmax(at.scores(), c), relations=("m = n",))


CLAIMS = (
    Claim(
        name="a_mask_is_its_double_complement",
        title="Not not a mask is the mask",
        statement="The complement of the complement of a mask is the mask.",
        explanation="A mask is a condition, true or false for each query and key.",
        write=in_both(_twice_not),
    ),
    Claim(
        name="masks_combine_as_sets",
        title="Masks combine as sets do",
        statement="& | ~ obey De Morgan's laws, distribute, absorb, and take any order.",
        explanation="They are intersection, union and complement of sets of allowed pairs.",
        write=in_both(_sets),
    ),
    Claim(
        name="masks_that_say_nothing",
        title="A mask that allows everything is no mask",
        statement="The prefix of all keys, and a window as wide as the sequence, change nothing.",
        explanation="The condition holds for every query and key.",
        write=in_both(_say_nothing),
    ),
    Claim(
        name="a_mask_that_allows_nothing_gives_zero",
        title="A query with no key gets zero weights",
        statement="Under a mask that allows nothing every weight is zero.",
        explanation="A sum over no keys is 0, and softmax under a mask takes its reciprocal as 0.",
        write=in_both(_none),
    ),
    Claim(
        name="a_causal_window_looks_back",
        title="A causal window looks back",
        statement=(
            "window(w) & causal is the last w keys of each query: all before it for w = n, itself "
            "for w = 1."
        ),
        explanation="i − w < j < i + w and j ≤ i leave i − w < j ≤ i.",
        write=in_both(_looking_back),
    ),
    Claim(
        name="alignments_agree_for_equal_counts",
        title="Both causal alignments agree where n = m",
        statement="With as many queries as keys, top-left and bottom-right causal masks are one.",
        explanation="j ≤ i + m − n is j ≤ i then; where n and m differ, libraries disagree.",
        write=_alignments,
    ),
)
