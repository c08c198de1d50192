"""Attention of rows, token by token, in float64: what formulas are compared with in numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.loops import inner, softmax_of


def attended_rows(
    q: Any, k: Any, v: Any, score: Any, allowed: Callable[[int, int], bool] = lambda i, j: True
) -> Any:
    """Attention of each query to the keys that it may attend to, from the score of two vectors."""
    out = np.zeros((len(q), np.shape(v)[1]))
    for i, query in enumerate(q):
        kept = [j for j in range(len(k)) if allowed(i, j)]
        for weight, j in zip(softmax_of([score(query, k[j]) for j in kept]), kept, strict=True):
            out[i] += weight * v[j]
    return out


def scaled(q: Any, k: Any) -> float:
    """The scaled dot product of two vectors."""
    return inner(q, k) / math.sqrt(len(q))
