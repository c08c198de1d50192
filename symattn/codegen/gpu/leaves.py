"""What a kernel loads or computes for each query and key, and a score's text calls by a name.

Operands are numbered as those of `Attended.matrices` after the values; an axis is the one of an
operand along which its queries or keys lie.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DotLeaf:
    """The inner product of the query and the key, times the scalar named ``scale`` ("": 1)."""

    query: int
    query_axis: int
    key: int
    key_axis: int
    scale: str


@dataclass(frozen=True, slots=True)
class QueryLeaf:
    """A number of each query, or, in a `PairSumLeaf`, an entry of its vector; they lie on axis."""

    operand: int
    axis: int


@dataclass(frozen=True, slots=True)
class KeyLeaf:
    """A number of each key, or, in a `PairSumLeaf`, an entry of its vector; they lie on axis."""

    operand: int
    axis: int


@dataclass(frozen=True, slots=True)
class FixedLeaf:
    """In a `PairSumLeaf`: an entry of a column (d, 1) that is the same for all pairs."""

    operand: int


@dataclass(frozen=True, slots=True)
class EntryLeaf:
    """The entry of a given matrix; queries lie along this axis of it."""

    operand: int
    query_axis: int


@dataclass(frozen=True, slots=True)
class PairSumLeaf:
    """``Σ_e weight[0, e] · body_e``; the names of ``vectors`` in the body are entries e of each."""

    weight: int
    vectors: Mapping[str, QueryLeaf | KeyLeaf | FixedLeaf]
    body: str


@dataclass(frozen=True, slots=True)
class KeepLeaf:
    """A truth value of a boolean array: of each pair (``ranks`` 2), or of each key (1)."""

    label: str
    ranks: int


Leaf = DotLeaf | QueryLeaf | KeyLeaf | EntryLeaf | PairSumLeaf | KeepLeaf
