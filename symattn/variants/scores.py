"""Score functions by name: how queries are compared with keys.

A score compares one query with one key, ``score(q, k) = kᵀq``; the matrix of all scores is written
here in both layouts, as papers write it: ``KᵀQ`` (m × n) in columns, ``QKᵀ`` (n × m) in rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from symattn.errors import NotSupportedError
from symattn.nodes import Node, sqrt
from symattn.tags import named


@dataclass(frozen=True, slots=True)
class Score:
    """The scores of every query and key, by layout; ``weighted`` ones take a weight W too."""

    name: str
    in_layout: dict[str, Callable[..., Node]]
    weighted: bool = False


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
            weighted=True,
        ),
        Score(
            "scaled_dot",
            {
                "column": lambda Q, K: K.T @ Q / sqrt(Q.shape[0]),
                "row": lambda Q, K: Q @ K.T / sqrt(Q.shape[1]),
            },
        ),
    )
}


def score_named(name: Any) -> Score:
    """Return the score of that name.

    >>> score_named("general").weighted
    True

    Raises `UnknownNameError`, which suggests the nearest names.
    """
    if callable(name):
        raise NotSupportedError("a score given as a function; give one by name")
    return named("score", name, SCORES)
