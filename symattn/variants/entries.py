"""The catalogue: one entry a formula, as data.

An entry is a name, a title, a source, a score function, and where queries, keys and values come
from.  Its two layouts are built from the score as written in each, never by transposing one into
the other: that they agree is then something to prove.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from symattn.nodes import Node, Program, dims
from symattn.nodes.inputs import InputMatrix
from symattn.variants.attend import Operands, attend
from symattn.variants.known import Formula
from symattn.variants.layouts import COLUMN, ROW, Layout
from symattn.variants.scores import SCORES
from symattn.variants.signatures import symbols_of

d, d_k, d_v, d_x, d_y, n, m = dims("d d_k d_v d_x d_y n m")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where queries, keys and values come from: the inputs, and the three made from them."""

    inputs: tuple[InputMatrix, ...]
    operands: Operands


def given(layout: Layout) -> Origin:
    """Queries, keys and values are the inputs themselves."""
    Q = layout.matrix("Q", d_k, n)
    K = layout.matrix("K", d_k, m)
    V = layout.matrix("V", d_v, m)
    return Origin((Q, K, V), (Q, K, V))


def from_one(layout: Layout) -> Origin:
    """Queries, keys and values are made from the same data: Q = W^Q X, K = W^K X, V = W^V X."""
    X = layout.matrix("X", d, n)
    weights = [layout.matrix(f"W^{name}", size, d) for name, size in _SIZES]
    return Origin((X, *weights), _projected(layout, weights, (X, X, X)))


def from_two(layout: Layout) -> Origin:
    """Queries are made from X, keys and values from Y: Q = W^Q X, K = W^K Y, V = W^V Y."""
    X, Y = layout.matrix("X", d_x, n), layout.matrix("Y", d_y, m)
    takes = {"Q": d_x, "K": d_y, "V": d_y}
    weights = [layout.matrix(f"W^{name}", size, takes[name]) for name, size in _SIZES]
    return Origin((X, Y, *weights), _projected(layout, weights, (X, Y, Y)))


_SIZES = (("Q", d_k), ("K", d_k), ("V", d_v))


def _projected(layout: Layout, weights: list[InputMatrix], data: Operands) -> Operands:
    query, key, value = (layout.project(W, x) for W, x in zip(weights, data, strict=True))
    return query, key, value


@dataclass(frozen=True, slots=True)
class Entry:
    """One formula of the catalogue.

    The weight W of a score is an input after the others; it is the same matrix in both layouts.
    """

    name: str
    title: str
    source: str
    score: str
    origin: Callable[[Layout], Origin] = given

    def build(self, layout: Layout) -> Formula:
        """Return the formula in a layout."""
        origin, score = self.origin(layout), SCORES[self.score]
        lines = attend(origin.operands, score, layout)
        made: dict[str, Node] = {
            name: node
            for name, node in zip("QKV", origin.operands, strict=True)
            if node not in origin.inputs
        }
        weights = [node for node in lines["S"].inputs() if node not in origin.inputs]
        return Formula(
            name=self.name,
            title=self.title,
            source=self.source,
            layout=layout.name,
            inputs=(*origin.inputs, *(w for w in weights if isinstance(w, InputMatrix))),
            operands=origin.operands,
            function=Program(attend(symbols_of(origin.operands), score, layout)),
            program=Program({**made, **lines}),
            pairs=tuple(
                (row, column.T)
                for row, column in zip(
                    self.origin(ROW).inputs, self.origin(COLUMN).inputs, strict=True
                )
            ),
        )


_LUONG = (
    "Luong, Pham and Manning 2015, Effective Approaches to Attention-based Neural Machine "
    "Translation, arXiv 1508.04025, section 3.1, the score after equation 7"
)
_VASWANI = "Vaswani et al. 2017, Attention Is All You Need, arXiv 1706.03762"

_ENTRIES = (
    Entry(
        name="dot_product",
        title="Dot-product attention (Luong's dot)",
        source=f"{_LUONG}: dot",
        score="dot",
    ),
    Entry(
        name="luong_general",
        title="Luong's general attention",
        source=f"{_LUONG}: general, there with the transposed weight, qᵀW_a k",
        score="general",
    ),
    Entry(
        name="scaled_dot_product",
        title="Scaled dot-product attention",
        source=f"{_VASWANI}, section 3.2.1, equation 1",
        score="scaled_dot",
    ),
    Entry(
        name="self_attention",
        title="Self-attention",
        source=f"{_VASWANI}, section 3.2.3, without the scale of its scores",
        score="dot",
        origin=from_one,
    ),
    Entry(
        name="cross_attention",
        title="Cross-attention (encoder-decoder attention)",
        source=f"{_VASWANI}, section 3.2.3, without the scale of its scores",
        score="dot",
        origin=from_two,
    ),
)

CATALOGUE = {entry.name: entry for entry in _ENTRIES}
