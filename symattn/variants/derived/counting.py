"""Multi-head attention on numbers that count what is done to them: no formula, no array library.

Plain loops over columns, as a person would write them down: each head has weights of its own, the
heads are stacked, and one more weight mixes them.  Sums start from 0, so a product of m×k and k×n
takes m k n multiplications and as many additions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from symattn.errors import SizeError
from symattn.tags import check_size

_MOST_COUNTED = 10**6  # products of two numbers, a quarter of them: some seconds

Columns = list[list["Counted"]]
"""A matrix, column by column."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A number that notes each operation on it under the name of the running step."""

    value: float
    notes: Notes

    def __add__(self, other: Counted) -> Counted:
        return self.notes.number(self.value + other.value)

    def __sub__(self, other: Counted) -> Counted:
        return self.notes.number(self.value - other.value)

    def __mul__(self, other: Counted) -> Counted:
        return self.notes.number(self.value * other.value)

    def __truediv__(self, other: Counted) -> Counted:
        return self.notes.number(self.value / other.value)

    def larger(self, other: Counted) -> Counted:
        """Return the larger of two numbers: one operation."""
        return self.notes.number(max(self.value, other.value))

    def exp(self) -> Counted:
        """Return e to that power: one operation."""
        return self.notes.number(math.exp(self.value))


class Notes:
    """How many operations each step took."""

    def __init__(self) -> None:
        self.flops: Counter[str] = Counter()
        self.step = ""

    def number(self, value: float) -> Counted:
        """Return the result of an operation, and note it."""
        self.flops[self.step] += 1
        return Counted(value, self)

    def given(self, value: float) -> Counted:
        """Return a number that no operation of ours made."""
        return Counted(value, self)

    def matrix(self, rows: int, columns: int, entries: Iterator[float]) -> Columns:
        """Return a matrix of given numbers."""
        return [[self.given(next(entries)) for _ in range(rows)] for _ in range(columns)]

    def product(self, left: Columns, right: Columns) -> Columns:
        """Return the product of two matrices."""
        return [
            [self.dot((line[row] for line in left), column) for row in range(len(left[0]))]
            for column in right
        ]

    def dot(self, one: Iterator[Counted] | list[Counted], other: list[Counted]) -> Counted:
        """Return the sum of the products of entries."""
        total = self.given(0)
        for left, right in zip(one, other, strict=True):
            total = total + left * right
        return total

    def softmax(self, column: list[Counted]) -> list[Counted]:
        """Return the softmax of a column, with the largest score taken off first."""
        largest, total = self.given(-math.inf), self.given(0)
        for score in column:
            largest = largest.larger(score)
        powers = [(score - largest).exp() for score in column]
        for power in powers:
            total = total + power
        return [power / total for power in powers]


def flops_of_heads(h: int, n: int, m: int, d_k: int) -> dict[str, int]:
    """Run h heads of size d_k, for n queries and m keys, and return the FLOPs of each step.

    >>> flops_of_heads(h=1, n=1, m=2, d_k=1)["softmax"]  # 6 for each of 2 scores
    12

    The model has h·d_k features, in queries and in keys.  Raises `SizeError` for what is no
    positive integer, and for sizes at which counting one by one would take minutes.
    """
    sizes = {"h": h, "n": n, "m": m, "d_k": d_k}
    h, n, m, d_k = (check_size(tag, size) for tag, size in sizes.items())
    features = h * d_k
    if features * (features * (n + m) + n * m) > _MOST_COUNTED:
        raise SizeError("too large")
    notes, entries = Notes(), _entries()
    queries = notes.matrix(h * d_k, n, entries)
    keys = notes.matrix(h * d_k, m, entries)
    heads: Columns = [[] for _ in range(n)]
    for _ in range(h):
        w_q, w_k, w_v = (notes.matrix(d_k, h * d_k, entries) for _ in range(3))
        notes.step = "projections"
        q, k, v = notes.product(w_q, queries), notes.product(w_k, keys), notes.product(w_v, keys)
        notes.step = "scores"
        scores = [[notes.dot(key, query) for key in k] for query in q]
        notes.step = "softmax"
        root = notes.given(math.sqrt(d_k))
        weights = [notes.softmax([score / root for score in column]) for column in scores]
        notes.step = "weighted sums"
        for head, column in zip(heads, notes.product(v, weights), strict=True):
            head += column
    notes.step = "output"
    notes.product(notes.matrix(h * d_k, h * d_k, entries), heads)
    return dict(notes.flops)


def _entries() -> Iterator[float]:
    """Yield numbers between −1 and 1; which ones does not change what is counted."""
    at = 0
    while True:
        at += 1
        yield math.sin(at)
