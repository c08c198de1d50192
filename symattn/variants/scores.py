"""Score functions by name: how queries are compared with keys.

A score compares one query with one key, ``score(q, k) = kᵀq``.  The matrix of all scores is written
here in both layouts, as papers write it: ``KᵀQ`` (m × n) in columns, ``QKᵀ`` (n × m) in rows; a
score without a matrix form (``vᵀ tanh(W q + U k)``) is written for one pair and read at all.

Adding a score is adding a row: the scores in each layout, and the weights that it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from symattn.errors import OperationRefusedError
from symattn.nodes import (
    Node,
    Scalar,
    concat,
    hadamard,
    matrix,
    pairwise,
    reciprocal,
    scalar,
    sqrt,
    tanh,
    vector,
)
from symattn.nodes.pairs import check_takes_two
from symattn.tags import Size, named
from symattn.variants.layouts import BUILDERS, Layout
from symattn.variants.lifting import matrix_form

Sizes = Callable[[Layout, Node, Node], tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Weight:
    """What a score takes besides queries and keys: its keyword, its name, and its sizes.

    ``sizes`` follow from the queries and the keys: two of a matrix, one of a vector, none of a
    positive scalar.
    """

    keyword: str
    label: str
    sizes: Sizes

    def symbol(self, layout: Layout, query: Node, key: Node) -> Node | Scalar:
        """Return the symbol that stands for it where none is given."""
        sizes = self.sizes(layout, query, key)
        if not sizes:
            return scalar(self.label, positive=True)
        return matrix(self.label, *sizes) if len(sizes) == 2 else vector(self.label, *sizes)


@dataclass(frozen=True, slots=True)
class Score:
    """The scores of every query and key, by layout, and the weights that they take.

    ``alike`` says that queries and keys have to have one size.
    """

    name: str
    in_layout: Mapping[str, Callable[..., Node]]
    weights: tuple[Weight, ...] = ()
    alike: bool = True


def of_pairs(score: Callable[..., Any]) -> Mapping[str, Callable[..., Node]]:
    """Return the scores in each layout, given the score of one pair (and weights by keyword).

    >>> import symattn as sa
    >>> Q, K = sa.matrix("Q", "d", "n"), sa.matrix("K", "d", "m")
    >>> of_pairs(lambda q, k: k.T @ q)["column"](Q, K)
    K.T @ Q
    """

    def within(layout: Layout) -> Callable[..., Node]:
        def scores(Q: Node, K: Node, **weights: Any) -> Node:
            def one(q: Node, k: Node) -> Any:
                return score(q, k, **weights)

            made = pairwise(one, Q, K, layout=layout.name)
            return matrix_form(made) or made

        return scores

    return {name: within(layout) for name, layout in BUILDERS.items()}


def _cosine(q: Node, k: Node, tau: Any) -> Node:
    norms = hadamard(sqrt(q.T @ q), sqrt(k.T @ k))
    return hadamard(k.T @ q, reciprocal(norms)) / tau


_ALIGNMENT_VECTOR = Weight("v", "v", lambda layout, Q, K: (Size.tag("d_a"),))

SCORES = {
    score.name: score
    for score in (
        Score(
            "dot",
            {
                "column": lambda Q, K: K.T @ Q,
                "row": lambda Q, K: Q @ K.T,
            },
        ),
        Score(
            "general",
            {
                "column": lambda Q, K, W: K.T @ W @ Q,
                "row": lambda Q, K, W: Q @ W.T @ K.T,
            },
            weights=(Weight("W", "W", lambda at, Q, K: (at.feature_size(K), at.feature_size(Q))),),
            alike=False,
        ),
        Score(
            "scaled_dot",
            {
                "column": lambda Q, K: K.T @ Q / sqrt(Q.shape[0]),
                "row": lambda Q, K: Q @ K.T / sqrt(Q.shape[1]),
            },
        ),
        Score(
            "additive",
            of_pairs(lambda q, k, W, U, v: v.T @ tanh(W @ q + U @ k)),
            weights=(
                Weight("W", "W_a", lambda at, Q, K: (Size.tag("d_a"), at.feature_size(Q))),
                Weight("U", "U_a", lambda at, Q, K: (Size.tag("d_a"), at.feature_size(K))),
                _ALIGNMENT_VECTOR,
            ),
            alike=False,
        ),
        Score(
            "concat",
            of_pairs(lambda q, k, W, v: v.T @ tanh(W @ concat(q, k, axis=0))),
            weights=(
                Weight(
                    "W",
                    "W_a",
                    lambda at, Q, K: (Size.tag("d_a"), at.feature_size(Q) + at.feature_size(K)),
                ),
                _ALIGNMENT_VECTOR,
            ),
            alike=False,
        ),
        Score(
            "location",
            {
                "column": lambda Q, K, W: W @ Q,
                "row": lambda Q, K, W: Q @ W.T,
            },
            weights=(Weight("W", "W_a", lambda at, Q, K: (at.token_count(K), at.feature_size(Q))),),
            alike=False,
        ),
        Score(
            "cosine",
            of_pairs(_cosine),
            weights=(Weight("tau", "tau", lambda at, Q, K: ()),),
        ),
    )
}


def score_named(score: Any) -> Score:
    """Return the score of that name, or that of a function of one query and one key.

    >>> [weight.keyword for weight in score_named("additive").weights]
    ['W', 'U', 'v']

    Raises `UnknownNameError`, which suggests the nearest names.
    """
    if callable(score):
        check_takes_two(score)
        return Score("", of_pairs(score), alike=False)
    return named("score", score, SCORES)


def weights_of(
    score: Score, layout: Layout, query: Node, key: Node, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return every weight of a score by keyword: the one given, or a symbol of its own.

    Raises `OperationRefusedError` for a weight that the score does not take, and where a symbol of
    that name and other sizes is there already.
    """
    known = {weight.keyword: weight for weight in score.weights}
    for keyword in given:
        if keyword not in known:
            takes = ", ".join(f"{name}=" for name in known) or "no weights"
            whose = f"the score {score.name!r}" if score.name else "a score given as a function"
            raise OperationRefusedError(
                f"attention(…, score={score.name!r}, {keyword}=…)", f"{whose} takes {takes}"
            )
    made: dict[str, Any] = {}
    for keyword, weight in known.items():
        made[keyword] = given.get(keyword)
        if made[keyword] is None:
            made[keyword] = _unclashing(weight.symbol(layout, query, key), (query, key), keyword)
    return made


def _unclashing(symbol: Node | Scalar, operands: tuple[Node, ...], keyword: str) -> Node | Scalar:
    """Return a symbol, or raise if its name stands for something else in the operands."""
    if isinstance(symbol, Node):
        taken = [node for each in operands for node in each.inputs() if node.label == symbol.label]
        if any(node != symbol for node in taken):
            raise OperationRefusedError(
                "attention(…)",
                f"a matrix {symbol.label} with other sizes is in it already; give the weight of "
                f"the score as {keyword}= ({symbol.sizes[0]}×{symbol.sizes[1]})",
            )
    return symbol
