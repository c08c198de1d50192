"""Catalogue entries with several heads: what is written for head i, and how all are put together.

One head is attention of its own queries, keys and values; the formula is written once, with the
index of the head free, and the heads are stacked along the features and mixed by W^O.  In the
packed form one weight makes the queries of all heads, and head i takes its block of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any, cast

from symattn.nodes import Node, Program, assuming, dims, index, vector
from symattn.nodes.indices import AxisIndex
from symattn.nodes.inputs import InputMatrix, InputVector
from symattn.tags import Size
from symattn.variants.attend import Operands, attend
from symattn.variants.known import Formula, Input
from symattn.variants.layouts import COLUMN, ROW, Layout
from symattn.variants.scores import score_named
from symattn.variants.signatures import symbols_of
from symattn.variants.sources import GROUPED_QUERY, VASWANI

d_model, d_k, d_v, d_x, d_y, h, g, r, n, m = dims("d_model d_k d_v d_x d_y h g r n m")

Made = dict[str, Node]
"""Named lines."""


@dataclass(frozen=True, slots=True)
class HeadedAttention:
    """The heads of a formula in one layout.

    ``symbols`` are its matrices as they stand in it, in calling order, ``data`` those that queries,
    keys and values are made from.  ``projections`` gives the lines that lead from such data to the
    queries, keys and values of one head, and these; ``indices`` say which head, outermost first,
    and ``output`` leads from all heads, stacked, to the result.
    """

    symbols: tuple[Node, ...]
    data: Operands
    projections: Callable[[Operands], tuple[Made, Operands]]
    indices: tuple[AxisIndex, ...]
    output: Callable[[Node], Node]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """What the formula is given: matrices, and families for symbols of one head."""
        return tuple(cast(Input, symbol.source) for symbol in self.symbols)


def _per_head(
    layout: Layout,
    data: tuple[InputMatrix, ...],
    weights: tuple[Node, Node, Node],
    heads: tuple[AxisIndex, ...],
) -> HeadedAttention:
    """Return heads that are projected by weights of queries, of keys and of values."""
    query, key = data[0], data[-1]
    out = layout.matrix("W^O", layout.feature_size(query), _product(heads) * Size.tag("d_v"))

    def projections(operands: Operands) -> tuple[Made, Operands]:
        made = [layout.project(W, x) for W, x in zip(weights, operands, strict=True)]
        return dict(zip("QKV", made, strict=True)), (made[0], made[1], made[2])

    return HeadedAttention(
        (*data, *weights, out),
        (query, key, key),
        projections,
        heads,
        lambda stacked: layout.project(out, stacked),
    )


def _product(indices: tuple[AxisIndex, ...]) -> Size:
    """Return how many heads there are."""
    return prod((each.size for each in indices), start=Size.of(1))


_i, _a, _b = index("i", h), index("a", g), index("b", r)


def multi_head(layout: Layout) -> HeadedAttention:
    """Self-attention in h heads."""
    X = layout.matrix("X", d_model, n)
    return _per_head(layout, (X,), _of_each_head(layout, d_model, d_model), (_i,))


def multi_head_cross(layout: Layout) -> HeadedAttention:
    """Cross-attention in h heads: queries from X, keys and values from Y."""
    X, Y = layout.matrix("X", d_x, n), layout.matrix("Y", d_y, m)
    return _per_head(layout, (X, Y), _of_each_head(layout, d_x, d_y), (_i,))


def _of_each_head(
    layout: Layout, query_features: Any, key_features: Any
) -> tuple[Node, Node, Node]:
    """Return the weights of head i."""
    return (
        layout.family("W^Q", (h,), d_k, query_features)[_i],
        layout.family("W^K", (h,), d_k, key_features)[_i],
        layout.family("W^V", (h,), d_v, key_features)[_i],
    )


def grouped_query(layout: Layout) -> HeadedAttention:
    """Self-attention in g groups of r heads: a group shares its keys and values."""
    X = layout.matrix("X", d_model, n)
    weights = (
        layout.family("W^Q", (g, r), d_k, d_model)[_a, _b],
        layout.family("W^K", (g,), d_k, d_model)[_a],
        layout.family("W^V", (g,), d_v, d_model)[_a],
    )
    return _per_head(layout, (X,), weights, (_a, _b))


def multi_query(layout: Layout) -> HeadedAttention:
    """Self-attention in h heads that share their keys and values."""
    X = layout.matrix("X", d_model, n)
    weights = (
        layout.family("W^Q", (h,), d_k, d_model)[_i],
        layout.matrix("W^K", d_k, d_model),
        layout.matrix("W^V", d_v, d_model),
    )
    return _per_head(layout, (X,), weights, (_i,))


def packed(layout: Layout, *, bias: bool) -> HeadedAttention:
    """Self-attention in h heads, whose projections are the blocks of one weight."""
    return _packed(layout, (layout.matrix("X", d_model, n),), bias)


def packed_cross(layout: Layout, *, bias: bool) -> HeadedAttention:
    """Cross-attention in h heads, whose projections are the blocks of one weight."""
    data = layout.matrix("X", d_model, n), layout.matrix("Y", d_model, m)
    return _packed(layout, data, bias)


def _packed(layout: Layout, data: tuple[InputMatrix, ...], bias: bool) -> HeadedAttention:
    weights = {name: layout.matrix(f"W^{name}", d_model, d_model) for name in "QKVO"}
    biases = {name: vector(f"b^{name}", d_model) for name in "QKVO"} if bias else {}

    def applied(name: str, x: Node) -> Node:
        made = layout.project(weights[name], x)
        return layout.shifted(made, biases[name]) if bias else made

    def projections(operands: Operands) -> tuple[Made, Operands]:
        made = {name: applied(name, x) for name, x in zip("QKV", operands, strict=True)}
        query, key, value = (layout.part(whole, _i) for whole in made.values())
        return made, (query, key, value)

    learned = [given[name] for name in "QKVO" for given in (weights, biases) if name in given]
    return HeadedAttention(
        (*data, *learned),
        (data[0], data[-1], data[-1]),
        projections,
        (_i,),
        lambda stacked: applied("O", stacked),
    )


@dataclass(frozen=True)
class HeadsEntry:
    """One formula of the catalogue with several heads; ``options`` are what can be chosen."""

    name: str
    title: str
    source: str
    heads: Callable[..., HeadedAttention]
    relations: tuple[str, ...] = ()
    options: dict[str, bool] = field(default_factory=dict)

    def build(self, layout: Layout, **options: bool) -> Formula:
        """Return the formula in a layout."""
        chosen = {**self.options, **options}
        with assuming(*self.relations):
            heads, row, column = (self.heads(at, **chosen) for at in (layout, ROW, COLUMN))
            lines, stacked = _lines(layout, heads, heads.data)
            function, _ = _lines(layout, heads, symbols_of(heads.data))
            return Formula(
                name=self.name,
                title=self.title,
                source=self.source,
                layout=layout.name,
                inputs=heads.inputs,
                operands=heads.data,
                function=Program({name: function[name] for name in "SPO"}),
                program=Program(lines),
                # A vector is a column in either layout.
                pairs=tuple(
                    (one, other.T)
                    for one, other in zip(row.symbols, column.symbols, strict=True)
                    if not isinstance(one, InputVector)
                ),
                context=stacked,
                called="MultiHead",
                options=tuple(chosen.items()),
            )


def _lines(layout: Layout, heads: HeadedAttention, data: Operands) -> tuple[Made, Node]:
    """Return every line from the data to the result, and all heads, stacked."""
    made, operands = heads.projections(data)
    attended = attend(operands, score_named("scaled_dot"), layout)
    lines = {**made, "S": attended["S"], "P": attended["P"], "head": attended["O"]}
    stacked = attended["O"]
    for each in reversed(heads.indices):
        stacked = layout.stacked(stacked, each)
    return {**lines, "O": heads.output(stacked)}, stacked


HEAD_ENTRIES = (
    HeadsEntry(
        name="multi_head_attention",
        title="Multi-head self-attention",
        source=f"{VASWANI}, section 3.2.2, of queries, keys and values that are all X",
        heads=multi_head,
    ),
    HeadsEntry(
        name="multi_head_cross_attention",
        title="Multi-head cross-attention (encoder-decoder attention)",
        source=f"{VASWANI}, sections 3.2.2 and 3.2.3",
        heads=multi_head_cross,
    ),
    HeadsEntry(
        name="packed_multi_head",
        title="Multi-head self-attention with one weight for the projections of all heads",
        source=f"{VASWANI}, section 3.2.2, with d_model = h·d_k and d_v = d_k",
        heads=packed,
        relations=("d_model = h*d_k",),
        options={"bias": True},
    ),
    HeadsEntry(
        name="packed_multi_head_cross",
        title="Multi-head cross-attention with one weight for the projections of all heads",
        source=f"{VASWANI}, sections 3.2.2 and 3.2.3, with d_model = h·d_k and d_v = d_k",
        heads=packed_cross,
        relations=("d_model = h*d_k",),
        options={"bias": True},
    ),
    HeadsEntry(
        name="grouped_query",
        title="Grouped-query attention: g groups of r heads, with keys and values for each group",
        source=f"{GROUPED_QUERY}, section 2.2",
        heads=grouped_query,
    ),
    HeadsEntry(
        name="multi_query",
        title="Multi-query attention: h heads that share their keys and values",
        source=(
            "Shazeer 2019, Fast Transformer Decoding: One Write-Head is All You Need, "
            "arXiv 1911.02150, section 3"
        ),
        heads=multi_query,
    ),
)
