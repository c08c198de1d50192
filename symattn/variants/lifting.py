"""Scores of pairs in matrix form: ``[k_iᵀ W q_j]`` is ``KᵀWQ``.

A score that is linear in the key and in the query, ``kᵀ W q``, is an entry of a product of
matrices; sums of such scores, multiples, and functions of them are what they are entry by entry.
Anything else (``vᵀ tanh(W q + U k)``) has no matrix form, and is kept as a score of pairs.

Invariant: the matrix form means what the score of pairs means, entry for entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from symattn.nodes import (
    Elementwise,
    Hadamard,
    MatrixProduct,
    MatrixSum,
    Negated,
    Node,
    Pairwise,
    Quotient,
    Transposed,
    ones,
)
from symattn.nodes.fixes import turned

_ENTRYWISE = (Elementwise, Hadamard, MatrixSum, Negated, Quotient)


def matrix_form(scores: Pairwise) -> Node | None:
    """Return the scores of all pairs as a product of matrices, or None if they are none.

    >>> import symattn as sa
    >>> d, n, m = sa.dims("d n m")
    >>> Q, K, W = sa.matrix("Q", d, n), sa.matrix("K", d, m), sa.matrix("W", d, d)
    >>> matrix_form(sa.pairwise(lambda q, k: k.T @ W @ q, Q, K))
    K.T @ W @ Q
    >>> matrix_form(sa.pairwise(lambda q, k: q.T @ W.T @ k, Q.T, K.T, layout="row"))
    Q.T @ W.T @ K.T.T
    """
    query, key = scores.vectors
    Q, K = scores.data
    rows, columns = scores.shape
    if scores.axis == 1:
        lift = _Lift(key, query, K.T, Q, rows, columns)
    else:
        lift = _Lift(query, key, Q, K.T, rows, columns)
    return lift.entries(scores.body)


@dataclass(frozen=True)
class _Lift:
    """What stands along the rows of the scores, and what along the columns.

    ``left`` has a row for each vector of the rows, ``right`` a column for each of the columns.
    """

    of_rows: Node
    of_columns: Node
    left: Node
    right: Node
    rows: Any
    columns: Any

    def has_vector(self, node: Node) -> bool:
        return not {self.of_rows, self.of_columns}.isdisjoint(node.inputs())

    def entries(self, number: Node) -> Node | None:
        """Return the matrix of a 1×1 expression read at every pair."""
        if not self.has_vector(number):
            return ones(self.rows, 1) @ number @ ones(1, self.columns)
        if isinstance(number, Transposed):
            return self.entries(number.matrices[0])
        scaled = isinstance(number, MatrixProduct) and len(number.matrices) == 1
        if scaled or isinstance(number, _ENTRYWISE):
            lifted = {part: self.entries(part) for part in number.matrices}
            if None in lifted.values():
                return None
            return number.rebuilt(lambda part: lifted[part] or part)
        return self.chain(number) if isinstance(number, MatrixProduct) else None

    def chain(self, product: MatrixProduct) -> Node | None:
        """Return ``left A … B right`` for ``kᵀ A … B q``, whichever way round it is written."""
        factors = self.opened(product)
        if factors is None:
            return None
        for way in (factors, [_turned(factor) for factor in reversed(factors)]):
            matrices = [factor for factor in way if isinstance(factor, Node)]
            ends = matrices[0] == self.of_rows.T, matrices[-1] == self.of_columns
            inside = matrices[int(ends[0]) : len(matrices) - int(ends[1])]
            if not any(ends) or any(map(self.has_vector, inside)):
                continue
            ways = {id(matrices[0]): self.left} if ends[0] else {}
            ways |= {id(matrices[-1]): self.right} if ends[1] else {}
            changed = [ways.get(id(factor), factor) for factor in way]
            before = () if ends[0] else (ones(self.rows, 1),)
            after = () if ends[1] else (ones(1, self.columns),)
            return MatrixProduct(*before, *changed, *after)
        return None

    def opened(self, product: Node) -> list[Any] | None:
        """Return the factors of a product, those of a factor such as ``(W q)`` among them."""
        factors: list[Any] = []
        for factor in product.operands:
            if self.is_plain(factor):
                factors.append(factor)
            elif isinstance(factor, MatrixProduct):
                inner = self.opened(factor)
                if inner is None:
                    return None
                factors += inner
            elif isinstance(factor, Transposed) and isinstance(factor.matrices[0], MatrixProduct):
                inner = self.opened(factor.matrices[0])
                if inner is None:
                    return None
                factors += [_turned(each) for each in reversed(inner)]
            else:
                return None
        return factors

    def is_plain(self, factor: Any) -> bool:
        """Tell whether a factor has no vector inside it: it may be one, or its transpose."""
        if not isinstance(factor, Node) or not self.has_vector(factor):
            return True
        return factor in self.vectors or turned(factor) in self.vectors

    @property
    def vectors(self) -> tuple[Node, Node]:
        return self.of_rows, self.of_columns


def _turned(factor: Any) -> Any:
    return turned(factor) if isinstance(factor, Node) else factor
