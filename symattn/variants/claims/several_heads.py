"""Claims about several heads: Concat as a sum, packed weights, groups of queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from symattn.nodes import (
    AxisIndex,
    Member,
    Node,
    assuming,
    dims,
    head,
    heads,
    index,
    reshape,
    sum_over,
)
from symattn.variants.attend import attend
from symattn.variants.catalogue import formula
from symattn.variants.claims.claim import Claim, Equation
from symattn.variants.claims.written import Sides, Written, d_k, d_v, in_both, m, n
from symattn.variants.known import Formula
from symattn.variants.layouts import BUILDERS, Layout
from symattn.variants.scores import score_named
from symattn.variants.sources import GROUPED_QUERY, VASWANI

d_model, h, g, r = dims("d_model h g r")
i, a, b = index("i", h), index("a", g), index("b", r)

_PACKED = ("d_model = h*d_k",)
_HEADS = f"{VASWANI}, section 3.2.2"
_GROUPS = f"{GROUPED_QUERY}, section 2.2"


def _mixed(at: Written, each: Node) -> tuple[Node, Node]:
    """Return all heads times W^O, and the sum of every head times its block of W^O."""
    W_O = at.matrix("W^O", d_model, h * d_v)
    stacked = at.product(W_O, at.layout.stacked(each, i))
    block = head(W_O, i, axis=at.layout.tokens)
    return stacked, sum_over(at.product(block, each), i)


def _sum_of_heads(at: Written) -> Iterator[Sides]:
    yield "any heads", *_mixed(at, at.layout.family("E", (h,), d_v, n)[i])
    whole = formula("multi_head_attention", at.layout.name)
    yield "attention", whole.expr, _mixed(at, whole.program["head"])[1]


def per_head(packed: Formula, layout: Layout) -> Node:
    """Return packed multi-head attention with the projections of each head for themselves."""
    given = {symbol.label: symbol for symbol in packed.expr.symbols()}
    data = given["X"], *[given.get("Y", given["X"])] * 2
    made: list[Node] = []
    for name, x in zip("QKV", data, strict=True):
        projected = layout.project(layout.part(given[f"W^{name}"], i), x)
        bias = given.get(f"b^{name}")
        made.append(projected if bias is None else layout.shifted(projected, head(bias, i, axis=0)))
    each = attend((made[0], made[1], made[2]), score_named("scaled_dot"), layout)["O"]
    mixed = layout.project(given["W^O"], layout.stacked(each, i))
    return layout.shifted(mixed, given["b^O"]) if "b^O" in given else mixed


def _packed(name: str, *, bias: bool) -> Callable[[], Iterator[Equation]]:
    def write(at: Written) -> Iterator[Sides]:
        with assuming(*_PACKED):
            packed = formula(name, at.layout.name, bias=bias)
            yield "", packed.expr, per_head(packed, at.layout)

    return in_both(write)


def _stacked_weights() -> Iterator[Equation]:
    for layout in BUILDERS.values():
        packed = formula("packed_multi_head", layout.name, bias=False).expr
        alone = formula("multi_head_attention", layout.name).expr.subs({d_v: d_k})
        given = {symbol.label: symbol for symbol in packed.symbols()}
        weights = {symbol.label: symbol for symbol in alone.symbols()}
        with assuming(*_PACKED):
            stacked = {
                given[f"W^{name}"]: layout.stacked(weights[f"W^{name}"], i) for name in "QKV"
            }
            yield Equation(layout.name, packed.xreplace(stacked), alone, {}, _PACKED)


def _of(member: Node, which: AxisIndex) -> Node:
    """Return another member of the same family."""
    assert isinstance(member, Member)
    return member.source[which]


def _one_group() -> Iterator[Equation]:
    for layout in BUILDERS.values():
        grouped = formula("grouped_query", layout.name).expr.subs({g: 1})
        shared = formula("multi_query", layout.name).expr.subs({h: r})
        ours = {symbol.label: symbol for symbol in shared.symbols()}
        ours["W^Q"] = _of(ours["W^Q"], b)
        told = {s: ours[s.label] for s in grouped.symbols() if s.indices or s.reads}
        yield Equation(layout.name, grouped.xreplace(told), shared)


def _one_query_a_group() -> Iterator[Equation]:
    for layout in BUILDERS.values():
        grouped = formula("grouped_query", layout.name).expr.subs({g: h, r: 1})
        whole = formula("multi_head_attention", layout.name).expr
        ours = {symbol.label: symbol for symbol in whole.symbols()}
        of_group = _of(ours["W^Q"], index("a", h))
        told = {s: of_group for s in grouped.symbols() if s.label == "W^Q"}
        yield Equation(layout.name, grouped.xreplace(told), whole)


def _one_head(at: Written) -> Iterator[Sides]:
    whole = formula("multi_head_attention", at.layout.name).expr.subs({h: 1})
    weights = {symbol.label: symbol for symbol in whole.symbols()}
    X = weights["X"]
    query, key, value = (at.layout.project(weights[f"W^{name}"], X) for name in "QKV")
    yield "", whole, at.layout.project(weights["W^O"], at.attention(query, key, value))


# Mistakes.


def _tiled(at: Written) -> Iterator[Sides]:
    layout = at.layout
    W_Q, X = at.matrix("W^Q", g * r * d_k, d_model), at.matrix("X", d_model, n)
    K, V = layout.family("K", (g,), d_k, m)[a], layout.family("V", (g,), d_v, m)[a]

    def head_at(outer: AxisIndex, inner: AxisIndex) -> Node:
        """Return a head with the keys of group a: its queries are a block of a block of W^Q."""
        weight = layout.part(layout.part(W_Q, outer), inner)
        return at.attention(layout.project(weight, X), K, V)

    # Both sides have the heads in one order, and head k the same queries: k = a·r + b, whose
    # group is a = ⌊k/r⌋, and k = b·g + a, where a is k mod g.
    repeated = layout.stacked(layout.stacked(head_at(a, b), b), a)
    yield "", repeated, layout.stacked(layout.stacked(head_at(b, a), a), b)


def _reshaped(at: Written) -> Iterator[Sides]:
    Q = at.matrix("Q", h * d_k, n)
    reshaped = reshape(Q, *at.layout.shape(d_k, h * n))
    yield "", at.layout.part(Q, i), head(reshaped, i, axis=at.layout.tokens)


def _features_first(at: Written) -> Iterator[Sides]:
    E, feature = at.layout.family("E", (h,), d_v, n)[i], index("c", d_v)
    along = at.layout.features
    one = head(E, feature, axis=along)
    wrong = heads(heads(one, i, axis=along), feature, axis=along)
    yield "", at.layout.stacked(E, i), wrong


CLAIMS = (
    Claim(
        name="multi_head_is_a_sum",
        title="Concat(head_1, …, head_h) W^O is the sum of head_i W^O_i",
        statement=(
            "All heads, stacked along the features and multiplied by W^O, are the sum of every "
            "head times its own block of W^O."
        ),
        explanation="A sum over a merged axis is a sum over the heads of sums over their features.",
        write=in_both(_sum_of_heads),
        source=_HEADS,
    ),
    *(
        Claim(
            name=f"{name}_is_per_head" + ("" if bias else "_without_biases"),
            title=f"{title}: one packed projection is a projection for each head{said.rstrip(',')}",
            statement=(
                f"With d_model = h·d_k, splitting the projections of {name}{said} into heads is "
                "projecting with the blocks of each weight."
            ),
            explanation="The rows of a product are made from the rows of its first factor alone.",
            write=_packed(name, bias=bias),
            source=_HEADS,
        )
        for name, title in (
            ("packed_multi_head", "Self-attention"),
            ("packed_multi_head_cross", "Cross-attention"),
        )
        for bias, said in ((True, ", with biases,"), (False, ""))
    ),
    Claim(
        name="packed_weights_are_stacked_weights",
        title="Packed multi-head attention is multi-head attention",
        statement=(
            "With the weights of all heads stacked into one, the packed form computes multi-head "
            "attention with d_v = d_k."
        ),
        explanation="Block i of the stacked weights is the weight of head i.",
        write=_stacked_weights,
        source=_HEADS,
    ),
    Claim(
        name="multi_query_is_one_group",
        title="Multi-query attention is grouped-query attention with one group",
        statement="If all r heads are in one group, they share one key and one value projection.",
        explanation="The index of the group has a single value.",
        write=_one_group,
        source=_GROUPS,
    ),
    Claim(
        name="one_query_a_group_is_multi_head",
        title="Grouped-query attention with one query head a group is multi-head attention",
        statement="If every group has one head, every head has its own keys and values.",
        explanation="The index of the head in its group has a single value.",
        write=_one_query_a_group,
        source=_GROUPS,
    ),
    Claim(
        name="one_head_is_attention",
        title="Multi-head attention with one head is attention",
        statement="With h = 1 nothing is stacked: the output is W^O times one attention.",
        explanation="Concat of one head is that head.",
        write=in_both(_one_head),
        source=_HEADS,
    ),
    Claim(
        name="groups_in_tile_order",
        title="Head k uses the keys of group k mod g",
        statement="Repeating all g groups r times (tile) gives each of the g·r heads its keys.",
        explanation=(
            "Heads of one group are neighbours, k = a·r + b uses group a = ⌊k/r⌋: each group is "
            "repeated by itself (repeat), not all of them over and over (tile)."
        ),
        write=in_both(_tiled),
        expected="refuted",
    ),
    Claim(
        name="heads_split_by_reshape_alone",
        title="A reshape alone splits the features into heads",
        statement="Reshaping n tokens of h·d_k features to h blocks of n tokens gives the heads.",
        explanation=(
            "A reshape keeps the order of entries in memory, so a block holds whole tokens in "
            "place of the features of one head; the axes have to be swapped as well."
        ),
        write=in_both(_reshaped),
        expected="refuted",
    ),
    Claim(
        name="heads_stacked_feature_by_feature",
        title="Stacking heads feature by feature is Concat",
        statement="The merged axis may run over the features first and over the heads inside.",
        explanation=(
            "W^O expects all features of head 1, then all of head 2: the axis (h, d_v) is not "
            "(d_v, h)."
        ),
        write=in_both(_features_first),
        expected="refuted",
    ),
)
