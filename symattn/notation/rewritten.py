"""What is written in place of a node: the same value, as one would write it by hand.

A printer may write ``q / √(qᵀq)`` for an entrywise product of numbers, and put a vector in where a
bound one stands for it alone.  Python is not printed so: it rebuilds the nodes that there are.

Invariant: what is written in place of a node has its value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from symattn.meaning.form import ONE, Form, Place
from symattn.notation.rows import Binding, Kind, Notation, Printable, PrintableMask
from symattn.tags import Size

Part = Printable | Form
"""A matrix, or a number that stands as an index form."""

Pairs = list[tuple[Printable, Printable]]
"""Bound vectors, each with the matrix whose vectors it stands for."""

_ONE = Size.of(1)
_TRANSPOSE = Notation(Kind.TRANSPOSE, Binding.POWER)
_PRODUCT = Notation(Kind.PRODUCT, Binding.PRODUCT)
_FRACTION = Notation(Kind.FRACTION, Binding.PRODUCT)


@dataclass(frozen=True, eq=False)
class Reading:
    """A part of a formula as it is to be written, which is no node, for printers.

    ``at`` is where a named matrix is read, if this is a row or a column of one; that of a member of
    a family has the indices of the member too (``running``).
    """

    notation: Notation
    sizes: tuple[Size, Size]
    parts: tuple[Part, ...] = ()
    label: str = ""
    axis: int | None = None
    mask: PrintableMask | None = None
    at: Place = ()
    running: tuple[tuple[str, Size], ...] = ()


def transposed(part: Printable) -> Printable:
    """Return the transpose, without two transposes in a row."""
    if part.notation.kind is Kind.TRANSPOSE:
        inner = part.parts[0]
        assert not isinstance(inner, Form)
        return inner
    return Reading(_TRANSPOSE, (part.sizes[1], part.sizes[0]), (part,))


# Products of numbers.


def is_number(part: Printable) -> bool:
    """Tell whether a matrix is 1×1."""
    return part.sizes == (_ONE, _ONE)


def product_of_numbers(factors: list[Part]) -> Part:
    """Return a product of numbers."""
    if not factors:
        return ONE
    return factors[0] if len(factors) == 1 else Reading(_PRODUCT, (_ONE, _ONE), tuple(factors))


def quotient_of_numbers(
    factors: Iterable[Part], entry: Callable[[Printable], Part] = lambda part: part
) -> Part:
    """Return the product of an entry of each factor, with reciprocals below a line.

    Without ``entry`` the factors are numbers.
    """
    above: list[Part] = []
    below: list[Part] = []
    for factor in factors:
        assert not isinstance(factor, Form)
        inverse = factor.notation.kind is Kind.FUNCTION and factor.label == "reciprocal"
        inside = factor.parts[0] if inverse else factor
        assert not isinstance(inside, Form)
        (below if inverse else above).append(entry(inside))
    numerator = product_of_numbers(above)
    if not below:
        return numerator
    return Reading(_FRACTION, (_ONE, _ONE), (numerator, product_of_numbers(below)))


# Vectors in the place of bound ones.


def score_and_pairs(node: Printable) -> tuple[Printable, Pairs]:
    """Return the score of pairs, and its bound vectors, that of the rows first.

    A named vector that is the only query or the only key stands in the score itself.
    """
    score, query, key, queries, keys = (p for p in node.parts if not isinstance(p, Form))
    bound = [(query, queries), (key, keys)] if node.axis == 0 else [(key, keys), (query, queries)]
    names = {query.label, key.label}
    alone: dict[str, Printable] = {}
    pairs: Pairs = []
    for vector, data in bound:
        named = data.notation.kind is Kind.SYMBOL and not data.running
        # A vector k in the place of q would be taken for the bound k.
        free = data.label not in names - {vector.label}
        if named and free and data.sizes[node.axis or 0] == _ONE:
            alone[vector.label] = data if node.axis == 1 else transposed(data)
        else:
            pairs.append((vector, data))
    return (with_vectors(score, alone) if alone else score), pairs


def with_vectors(whole: Printable, vectors: Mapping[str, Printable]) -> Printable:
    """Return a score with vectors in the place of the symbols of their names."""
    done: dict[int, Printable] = {}
    pending = [whole]
    while pending:  # not by recursion: a score may be as deep as any formula
        node = pending[-1]
        parts = [part for part in node.parts if not isinstance(part, Form)]
        waiting = [part for part in parts if id(part) not in done]
        if waiting:
            pending.extend(waiting)
            continue
        pending.pop()
        if id(node) not in done:
            done[id(node)] = _with_parts(node, vectors, done)
    return done[id(whole)]


def _with_parts(
    node: Printable, vectors: Mapping[str, Printable], done: Mapping[int, Printable]
) -> Printable:
    if node.notation.kind is Kind.SYMBOL:
        return vectors.get(node.label, node)
    parts = tuple(part if isinstance(part, Form) else done[id(part)] for part in node.parts)
    if all(new is old for new, old in zip(parts, node.parts, strict=True)):
        return node
    if node.notation.kind is Kind.TRANSPOSE and not isinstance(parts[0], Form):
        return transposed(parts[0])
    if isinstance(node, Reading):
        return replace(node, parts=parts)
    own = node.label, node.axis, node.mask
    return Reading(node.notation, node.sizes, parts, *own, running=node.running)
