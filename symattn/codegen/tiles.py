"""Scores of a block, queries × keys, as an expression of what each query and each key brings.

A formula of scores can be computed block by block if every part of it is a product of something of
each query and something of each key, a vector repeated along the other axis, a bias of positions, a
given matrix, or a function of every entry, a sum or a product entry by entry of such parts, or
such parts beside each other, each with keys of its own.  What
each query and key brings (projections, norms, ``W q`` of an additive score) is computed beforehand,
as whole matrices, by the direct plan: they are the *operands* of a tile, and a tile refers to each
by its number.

Invariant: no operand has both the axis of queries and that of keys, unless it is an input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from symattn.meaning.form import Form
from symattn.nodes import Elementwise, PositionBias
from symattn.tags import Size

Scale = tuple[tuple[str, Form], ...]
"""Scalars that multiply (``*``) or divide (``/``), one after another."""


@dataclass(frozen=True, slots=True)
class Dot:
    """The inner products of every query and every key; tokens lie along these axes of each."""

    query: int
    query_axis: int
    key: int
    key_axis: int
    scale: Scale = ()


@dataclass(frozen=True, slots=True)
class OfQueries:
    """What each query brings: a number, or, where scores are of pairs, a vector."""

    operand: int
    axis: int
    is_vector: bool = False


@dataclass(frozen=True, slots=True)
class OfKeys:
    """What each key brings: a number, or, where scores are of pairs, a vector."""

    operand: int
    axis: int
    is_vector: bool = False


@dataclass(frozen=True, slots=True)
class OfNeither:
    """A column vector that is the same for every pair."""

    operand: int


@dataclass(frozen=True, slots=True)
class Entries:
    """A given matrix; queries lie along this axis of it."""

    operand: int
    query_axis: int


@dataclass(frozen=True, slots=True)
class Positions:
    """A bias by position; ``query`` says which of its two positions is that of queries."""

    node: PositionBias
    query: int


@dataclass(frozen=True, slots=True)
class One:
    """The number one everywhere."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights themselves, where they are changed entry by entry before values are summed."""


@dataclass(frozen=True, slots=True)
class Sum:
    """Terms, each with its sign."""

    terms: tuple[tuple[str, Tile], ...]


@dataclass(frozen=True, slots=True)
class Product:
    """Factors, entry by entry."""

    factors: tuple[Tile, ...]


@dataclass(frozen=True, slots=True)
class Scaled:
    """A tile times and over scalars."""

    inner: Tile
    scale: Scale


@dataclass(frozen=True, slots=True)
class Applied:
    """A function of every entry."""

    node: Elementwise
    inner: Tile


@dataclass(frozen=True, slots=True)
class Mixed:
    """A matrix times the vector of every pair; ``is_row`` where a number comes out."""

    operand: int
    inner: Tile
    is_row: bool


@dataclass(frozen=True, slots=True)
class Stacked:
    """Vectors of every pair, one on top of the other; each may be of queries or keys alone."""

    parts: tuple[Tile, ...]


@dataclass(frozen=True, slots=True)
class Beside:
    """Tiles whose keys lie beside each other, each with their number."""

    parts: tuple[tuple[Tile, Size], ...]


Tile = (
    Dot
    | OfQueries
    | OfKeys
    | OfNeither
    | Entries
    | Positions
    | One
    | Weights
    | Sum
    | Product
    | Scaled
    | Applied
    | Mixed
    | Stacked
    | Beside
)


def inside(tile: Tile) -> Sequence[Tile]:
    """Return the tiles that a tile is made of directly."""
    match tile:
        case Sum(terms):
            return [inner for _, inner in terms]
        case Product(parts) | Stacked(parts):
            return parts
        case Beside(parts):
            return [part for part, _ in parts]
        case Scaled(inner, _) | Applied(_, inner) | Mixed(_, inner, _):
            return [inner]
        case _:
            return ()


def everything(tile: Tile) -> Iterator[Tile]:
    """Yield a tile and all tiles in it."""
    yield tile
    for inner in inside(tile):
        yield from everything(inner)
