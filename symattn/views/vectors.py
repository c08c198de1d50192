"""Rows, columns and entries of a formula, said in the rows and columns of its matrices.

Column i of ``W X`` is ``W x_i``, row j of ``Kᵀ`` is ``k_jᵀ``, and the entry of ``KᵀWQ`` is
``k_jᵀ W q_i``.  There is one rule a kind of writing; a kind without a rule, or whose rule finds
nothing, has no vectors, and its entries are its index form.

Invariant: what a rule returns has the value of the row, column or entry that it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from symattn.meaning.form import ONE, Form, Place
from symattn.nodes import Node
from symattn.notation.conditions import names_in
from symattn.notation.readings import is_capital, lowered
from symattn.notation.rewritten import (
    Part,
    Reading,
    product_of_numbers,
    quotient_of_numbers,
    transposed,
    with_vectors,
)
from symattn.notation.rows import Kind, Printable
from symattn.tags import Size

_ONE = Size.of(1)


class Vectors:
    """Reads one formula, in which matrices have the names in ``taken``.

    Of matrices whose names are in ``rows`` it has rows, though they have no capital.
    """

    def __init__(self, whole: Node, rows: Iterable[str] = ()) -> None:
        self.rows = frozenset(rows)
        named = [node for node in whole.everything() if node.is_input]
        # A single column v is told from the columns v_1, v_2, … of a matrix V by having no index.
        self.taken = frozenset(n.label for n in named if not n.sizes[1].is_one)

    def entry(self, node: Node, row: Place, column: Place) -> Part:
        """Return an entry of a formula, for printers."""
        rule = None if _takes_up(node) else _ENTRIES.get(node.notation.kind)
        found = rule(self, node, row, column) if rule is not None else None
        return node.meaning(row, column) if found is None else found

    def line(self, node: Node, axis: int, at: Place) -> Printable | None:
        """Return the column (``axis=1``) or the row (``axis=0``) at a place, or None."""
        if node.sizes[axis].is_one:
            return node
        rule = None if _takes_up(node) else _LINES.get(node.notation.kind)
        return None if rule is None else rule(self, node, axis, at)


def _takes_up(node: Node) -> bool:
    """Tell whether a node takes up additive masks, whose entries of −∞ have no meaning alone."""
    return any(matrix.has_minus_infinity for matrix in node.matrices)


def _sizes_of_line(node: Node, axis: int) -> tuple[Size, Size]:
    return (_ONE, node.sizes[1]) if axis == 0 else (node.sizes[0], _ONE)


# Lines: rules take a node, the axis that is read, and where.


def _line_of_symbol(read: Vectors, node: Node, axis: int, at: Place) -> Printable | None:
    """Read a named matrix, or the member of a family."""
    label = lowered(node.label) if axis == 1 else node.label
    if axis == 1 and label != node.label and label in read.taken:
        return None
    # A row keeps the capital, which tells it from a column.
    if axis == 0 and not is_capital(label) and label not in read.rows:
        return None
    sizes = _sizes_of_line(node, axis)
    return Reading(node.notation, sizes, label=label, at=at, running=node.running)


def _line_of_transpose(read: Vectors, node: Node, axis: int, at: Place) -> Printable | None:
    inner = read.line(node.matrices[0], 1 - axis, at)
    return None if inner is None else transposed(inner)


def _line_of_product(read: Vectors, node: Node, axis: int, at: Place) -> Printable | None:
    ends = node.matrices[0] if axis == 0 else node.matrices[-1]
    line = read.line(ends, axis, at)
    if line is None:
        return None
    parts: list[Part] = list(node.parts)
    matrices = [k for k, part in enumerate(parts) if not isinstance(part, Form)]
    parts[matrices[0] if axis == 0 else matrices[-1]] = line
    parts = _without_ones(parts)
    if len(parts) == 1 and not isinstance(parts[0], Form):
        return parts[0]
    return Reading(node.notation, _sizes_of_line(node, axis), tuple(parts))


def _without_ones(parts: list[Part]) -> list[Part]:
    """Leave out factors that are the number 1, as b has in each column of ``b 1ᵀ``."""
    kept = [part for part in parts if isinstance(part, Form) or not _is_one(part)]
    return kept or parts[:1]


def _is_one(part: Printable) -> bool:
    if part.notation.kind is Kind.TRANSPOSE and not isinstance(part.parts[0], Form):
        return _is_one(part.parts[0])
    return part.notation.kind is Kind.ONES and part.sizes == (_ONE, _ONE)


def _line_of_each(read: Vectors, node: Node, axis: int, at: Place) -> Printable | None:
    """Read every part alike: sums, entrywise products, functions, what is over a scalar."""
    parts: list[Part] = []
    for part in node.parts:
        line = read.line(part, axis, at) if isinstance(part, Node) else part
        if line is None:
            return None
        parts.append(line)
    sizes, running = _sizes_of_line(node, axis), node.running
    return Reading(node.notation, sizes, tuple(parts), node.label, node.axis, running=running)


def _line_along(read: Vectors, node: Node, axis: int, at: Place) -> Printable | None:
    """Read in a column a softmax of columns, and what stands one on top of the other."""
    along = node.axis != axis and node.mask is None
    return _line_of_each(read, node, axis, at) if along else None


def _line_of_head(read: Vectors, node: Node, axis: int, at: Place) -> Printable | None:
    """Read a block of rows: its columns are parts of columns, its rows are rows of the whole."""
    if node.axis != axis:
        return _line_of_each(read, node, axis, at)
    (index,) = node.reads
    return read.line(node.matrices[0], axis, index.place + at)


def _line_of_ones(read: Vectors, node: Node, axis: int, at: Place) -> Printable | None:
    return Reading(node.notation, _sizes_of_line(node, axis))


_LINES: Mapping[Kind, Callable[[Vectors, Node, int, Place], Printable | None]] = MappingProxyType(
    {
        Kind.SYMBOL: _line_of_symbol,
        Kind.TRANSPOSE: _line_of_transpose,
        Kind.PRODUCT: _line_of_product,
        Kind.SUM: _line_of_each,
        Kind.HADAMARD: _line_of_each,
        Kind.NEGATION: _line_of_each,
        Kind.FRACTION: _line_of_each,
        Kind.FUNCTION: _line_of_each,
        Kind.SOFTMAX: _line_along,
        Kind.CONCAT: _line_along,
        Kind.MEMBER: _line_of_symbol,
        Kind.HEADS: _line_along,
        Kind.SUM_OVER: _line_of_each,
        Kind.HEAD: _line_of_head,
        Kind.ONES: _line_of_ones,
    }
)


# Entries: rules take a node, and where in its rows and columns.


def _entry_of_transpose(read: Vectors, node: Node, row: Place, column: Place) -> Part | None:
    return read.entry(node.matrices[0], column, row)


def _entry_of_product(read: Vectors, node: Node, row: Place, column: Place) -> Part | None:
    parts: list[Part] = list(node.parts)
    matrices = [k for k, part in enumerate(parts) if not isinstance(part, Form)]
    if len(matrices) == 1:
        parts[matrices[0]] = read.entry(node.matrices[0], row, column)
    else:
        first, last = read.line(node.matrices[0], 0, row), read.line(node.matrices[-1], 1, column)
        if first is None or last is None:
            return None
        parts[matrices[0]], parts[matrices[-1]] = first, last
    return product_of_numbers(_without_ones(parts))


def _entry_of_each(read: Vectors, node: Node, row: Place, column: Place) -> Part | None:
    parts = tuple(
        read.entry(part, row, column) if isinstance(part, Node) else part for part in node.parts
    )
    running = node.running
    return Reading(node.notation, (_ONE, _ONE), parts, node.label, node.axis, running=running)


def _entry_of_head(read: Vectors, node: Node, row: Place, column: Place) -> Part | None:
    (index,) = node.reads
    if node.axis == 0:
        return read.entry(node.matrices[0], index.place + row, column)
    return read.entry(node.matrices[0], row, index.place + column)


def _entry_of_hadamard(read: Vectors, node: Node, row: Place, column: Place) -> Part | None:
    """Read a product entry by entry as one of numbers, with reciprocals below a line."""
    return quotient_of_numbers(node.matrices, lambda factor: _entry_at(read, factor, row, column))


def _entry_at(read: Vectors, part: Printable, row: Place, column: Place) -> Part:
    assert isinstance(part, Node)
    return read.entry(part, row, column)


def _entry_of_pairs(read: Vectors, node: Node, row: Place, column: Place) -> Part | None:
    body, q, k, queries, keys = node.parts
    assert node.axis is not None
    places = (column, row) if node.axis == 1 else (row, column)
    vectors: dict[str, Printable] = {}
    for vector, data, at in zip((q, k), (queries, keys), places, strict=True):
        assert isinstance(vector, Node)
        assert isinstance(data, Node)
        line = read.line(data, node.axis, at)
        if line is None:
            return None
        vectors[vector.label] = line if node.axis == 1 else transposed(line)
    assert isinstance(body, Node)
    return _with_vectors(read.entry(body, (), ()), vectors)


def _with_vectors(part: Part, read: Mapping[str, Printable]) -> Part | None:
    """Return the score of one pair with its vectors in it, or None where it is read by entries."""
    if any(set(names_in(form)) & set(read) for form in _forms_in(part)):
        return None
    return part if isinstance(part, Form) else with_vectors(part, read)


def _forms_in(part: Part) -> Iterator[Form]:
    pending = [part]
    while pending:
        inner = pending.pop()
        if isinstance(inner, Form):
            yield inner
        else:
            pending.extend(inner.parts)


def _entry_of_ones(read: Vectors, node: Node, row: Place, column: Place) -> Part | None:
    return ONE


_ENTRIES: Mapping[Kind, Callable[[Vectors, Node, Place, Place], Part | None]] = MappingProxyType(
    {
        Kind.TRANSPOSE: _entry_of_transpose,
        Kind.PRODUCT: _entry_of_product,
        Kind.SUM: _entry_of_each,
        Kind.HADAMARD: _entry_of_hadamard,
        Kind.NEGATION: _entry_of_each,
        Kind.FRACTION: _entry_of_each,
        Kind.FUNCTION: _entry_of_each,
        Kind.PAIRS: _entry_of_pairs,
        Kind.SUM_OVER: _entry_of_each,
        Kind.HEAD: _entry_of_head,
        Kind.ONES: _entry_of_ones,
    }
)
