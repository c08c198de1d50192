"""The catalogue: one entry a formula, as data.

An entry is a name, a title, a source, a score function, and where queries, keys and values come
from.  Its two layouts are built from the score as written in each, never by transposing one into
the other: that they agree is then something to prove.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from symattn.nodes import Mask, Node, Program, causal, dims, padding, scalar, sqrt, tanh, window
from symattn.nodes.inputs import InputMatrix
from symattn.variants.attend import Operands, attend
from symattn.variants.known import Formula
from symattn.variants.layouts import COLUMN, ROW, Layout
from symattn.variants.scores import score_named, weights_of
from symattn.variants.signatures import symbols_of
from symattn.variants.sources import ALIBI, BAHDANAU, LUONG, VASWANI

d, d_k, d_v, d_x, d_y, n, m = dims("d d_k d_v d_x d_y n m")
d_q, d_s, d_h = dims("d_q d_s d_h")
cap, slope = scalar("c", positive=True), scalar("slope")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where queries, keys and values come from: the inputs, and the three made from them.

    ``bias`` is an input that is added to the scores, where there is one.
    """

    inputs: tuple[InputMatrix, ...]
    operands: Operands
    bias: InputMatrix | None = None


def given(layout: Layout) -> Origin:
    """Queries, keys and values are the inputs themselves."""
    Q = layout.matrix("Q", d_k, n)
    K = layout.matrix("K", d_k, m)
    V = layout.matrix("V", d_v, m)
    return Origin((Q, K, V), (Q, K, V))


def of_two_sizes(layout: Layout) -> Origin:
    """Queries, keys and values are the inputs; queries and keys need not have one size."""
    Q = layout.matrix("Q", d_q, n)
    K = layout.matrix("K", d_k, m)
    V = layout.matrix("V", d_v, m)
    return Origin((Q, K, V), (Q, K, V))


def with_bias(layout: Layout) -> Origin:
    """Queries, keys and values are the inputs themselves, and so is a bias B of every pair."""
    Q, K, V = given(layout).inputs
    B = layout.matrix("B", m, n)
    return Origin((Q, K, V, B), (Q, K, V), B)


def one_query(layout: Layout) -> Origin:
    """One query q and n candidates X, which are keys and values at once."""
    q, X = layout.matrix("q", d, 1), layout.matrix("X", d, n)
    return Origin((q, X), (q, X, X))


def states(layout: Layout) -> Origin:
    """The query is a decoder's state s, keys and values are the m states H of an encoder."""
    s, H = layout.matrix("s", d_s, 1), layout.matrix("H", d_h, m)
    return Origin((s, H), (s, H, H))


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

    The weights of a score are inputs after the others; they are the same in both layouts.
    """

    name: str
    title: str
    source: str
    score: str | Callable[[Any, Any], Any]
    origin: Callable[[Layout], Origin] = given
    mask: Mask | None = None
    bias: Callable[[Any, Any], Any] | None = None
    options: ClassVar[dict[str, bool]] = {}
    """What can be chosen: nothing."""

    def build(self, layout: Layout) -> Formula:
        """Return the formula in a layout."""
        origin, score = self.origin(layout), score_named(self.score)
        bias = self.bias if origin.bias is None else origin.bias
        attended = partial(attend, score=score, layout=layout, bias=bias, mask=self.mask)
        lines = attended(origin.operands)
        made: dict[str, Node] = {
            name: node
            for name, node in zip("QKV", origin.operands, strict=True)
            if node not in origin.inputs
        }
        taken = weights_of(score, layout, *origin.operands[:2], {}).values()
        weights = [weight for weight in taken if isinstance(weight, InputMatrix)]
        used = lines["O"].inputs()  # a score may not look at the keys
        return Formula(
            name=self.name,
            title=self.title,
            source=self.source,
            layout=layout.name,
            inputs=(*(symbol for symbol in origin.inputs if symbol in used), *weights),
            operands=origin.operands,
            function=Program(attended(symbols_of(origin.operands))),
            program=Program({**made, **lines}),
            context=lines["O"],
            pairs=tuple(
                (row, column.T)
                for row, column in zip(
                    self.origin(ROW).inputs, self.origin(COLUMN).inputs, strict=True
                )
                if {row, column} & set(used)
            ),
        )


_LUONG = f"{LUONG}, section 3.1, the score after equation 7"

ENTRIES = (
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
        source=f"{VASWANI}, section 3.2.1, equation 1",
        score="scaled_dot",
    ),
    Entry(
        name="additive",
        title="Additive attention (Bahdanau's alignment model)",
        source=f"{BAHDANAU}, section A.1.2: e_ij = v_aᵀ tanh(W_a s_(i-1) + U_a h_j)",
        score="additive",
        origin=of_two_sizes,
    ),
    Entry(
        name="luong_concat",
        title="Luong's concat attention",
        source=f"{_LUONG}: concat",
        score="concat",
        origin=of_two_sizes,
    ),
    Entry(
        name="location",
        title="Luong's location-based attention",
        source=f"{LUONG}, section 3.1, equation 8",
        score="location",
        origin=of_two_sizes,
    ),
    Entry(
        name="cosine",
        title="Cosine attention with a temperature",
        source=(
            "Liu et al. 2021, Swin Transformer V2: Scaling Up Capacity and Resolution, "
            "arXiv 2111.09883, section 3.3, equation 2, without the bias"
        ),
        score="cosine",
    ),
    Entry(
        name="softcap",
        title="Scaled dot-product attention with capped scores",
        source=(
            "Gemma Team 2024, Gemma 2: Improving Open Language Models at a Practical Size, "
            "arXiv 2408.00118, section 2, logit soft-capping"
        ),
        score=lambda q, k: cap * tanh(k.T @ q / sqrt(q.shape[0]) / cap),
    ),
    Entry(
        name="alibi",
        title="Attention with linear biases (ALiBi), one head, without the causal mask",
        source=f"{ALIBI}, section 3",
        score="scaled_dot",
        bias=lambda i, j: -slope * (i - j),
    ),
    Entry(
        name="additive_bias",
        title="Scaled dot-product attention with a bias of every pair added to the scores",
        source=(
            "Liu et al. 2021, Swin Transformer: Hierarchical Vision Transformer using Shifted "
            "Windows, arXiv 2103.14030, section 3.2, equation 4, there between tokens of one window"
        ),
        score="scaled_dot",
        origin=with_bias,
    ),
    Entry(
        name="single_query",
        title="One query and n candidates: inner products, softmax, weighted sum",
        source=f"{BAHDANAU}, section 3.1, equations 5 and 6, with the inner product as the score",
        score="dot",
        origin=one_query,
    ),
    Entry(
        name="encoder_decoder_context",
        title="The context vector of an encoder-decoder: c_i = Σ_j α_ij h_j",
        source=f"{BAHDANAU}, section 3.1, equations 5 and 6; the score as in section A.1.2",
        score="additive",
        origin=states,
    ),
    Entry(
        name="self_attention",
        title="Self-attention (intra-attention)",
        source=f"{VASWANI}, section 3.2.3, without the scale of its scores",
        score="dot",
        origin=from_one,
    ),
    Entry(
        name="cross_attention",
        title="Cross-attention (encoder-decoder attention)",
        source=f"{VASWANI}, section 3.2.3, without the scale of its scores",
        score="dot",
        origin=from_two,
    ),
    Entry(
        name="causal_self_attention",
        title="Causal self-attention",
        source=f"{VASWANI}, section 3.2.3, the decoder: illegal connections are masked out",
        score="scaled_dot",
        origin=from_one,
        mask=causal(),
    ),
    Entry(
        name="sliding_window",
        title="Self-attention in a sliding window",
        source=(
            "Beltagy, Peters and Cohan 2020, Longformer: The Long-Document Transformer, "
            "arXiv 2004.05150, section 3.1, sliding window; w is one more than the keys on a side"
        ),
        score="scaled_dot",
        origin=from_one,
        mask=window("w"),
    ),
    Entry(
        name="key_padding",
        title="Attention without the padding among the keys",
        source=(
            "Phuong and Hutter 2022, Formal Algorithms for Transformers, arXiv 2207.09238, "
            "section 5, algorithm 4, with a mask of the keys alone"
        ),
        score="scaled_dot",
        mask=padding(),
    ),
)
