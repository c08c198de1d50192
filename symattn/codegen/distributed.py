"""Values times a sum of weights: they are multiplied with every term of it.

``(softmax(A) - λ softmax(B)) V`` is ``softmax(A) V - λ softmax(B) V``, of which each product is a
weighted sum in blocks (`symattn.codegen.blocked`), and no matrix of all weights is made.  Nor is it
of terms with masks of their own, ``exp(A + M) - exp(B)``.  A term that is no such sum, a given
matrix say, stays a product of whole matrices.

Both sides are the same number as long as values are finite.  An infinite value times the difference
of two weights is infinite, but the difference of infinities is NaN: where a sum is not finite, the
function starts again with whole matrices.
"""

from __future__ import annotations

from typing import Any, cast

from symattn.codegen.in_blocks import is_scaled, replaced, used_otherwise, values_beside
from symattn.errors import ShapeError
from symattn.meaning.form import Form, Place
from symattn.nodes import (
    AdditiveMask,
    Elementwise,
    Hadamard,
    Indicator,
    MatrixProduct,
    MatrixSum,
    Negated,
    Node,
    Program,
    Quotient,
    Softmax,
    Transposed,
)
from symattn.nodes.arrays import ArrayContext
from symattn.nodes.core import Agreement, Arguments
from symattn.notation.rows import Binding, Kind, Notation
from symattn.tags import Size


class Distributed(Node):
    """A sum of products with the same values, which counts where it is finite."""

    notation = Notation(Kind.SUM, Binding.SUM)

    @classmethod
    def _accept(cls, total: Any) -> Arguments:
        return (total,)

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        (total,) = operands
        assert isinstance(total, Node)
        return total.sizes

    def meaning(self, row: Place, column: Place) -> Form:
        """That of the sum."""
        return self.matrices[0].meaning(row, column)

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return the sum."""
        return operands[0]


def distributed(program: Program) -> Program:
    """Return a program in which no sum that has a softmax, or masks, is multiplied with values."""
    refused: set[Node] = set()
    while True:
        nodes = list(program.result.walk())
        products = [node for node in nodes if isinstance(node, MatrixProduct)]
        for product in products:
            if product in refused:
                continue
            found = _without_sum(product, nodes)
            if found is not None:
                program = replaced(program, {product: found})
                break
            refused.add(product)
        else:
            return program


def _without_sum(product: Node, nodes: list[Node]) -> Node | None:
    """Return a product with the values in it multiplied with each term, None if there is no sum."""
    for factor in product.matrices:
        terms = _terms(factor)
        query_axis = next((axis for axis in map(_query_axis, terms) if axis is not None), None)
        if len(terms) == 1 or query_axis is None or used_otherwise(factor, nodes):
            continue
        rows = query_axis == 0
        before, values, after = values_beside(product, factor, rows=rows)
        if values is None:
            continue
        try:
            one = Distributed(MatrixSum(*(_times(term, values, rows=rows) for term in terms)))
            return MatrixProduct(*before, one, *after) if before or after else one
        except ShapeError:  # of sizes that are equal by what another part of the formula declares
            continue
    return None


def _terms(node: Node) -> list[Node]:
    """Return the matrices whose sum a node is: weights, products, and all else as one."""
    match node:
        case MatrixSum():
            parts = [term for part in node.matrices for term in _terms(part)]
            alone = [part for part in parts if _query_axis(part) is not None or _is_large(part)]
            others = [part for part in parts if part not in alone]
            rest = [MatrixSum(*others)] if len(others) > 1 else others
            return [*alone, *rest]
        case Hadamard():
            for at, part in enumerate(node.matrices):
                inner = _terms(part)
                if len(inner) > 1 and any(_query_axis(term) is not None for term in inner):
                    before, after = node.matrices[:at], node.matrices[at + 1 :]
                    return [Hadamard(*before, term, *after) for term in inner]
            return [node]
        case Negated() | Quotient() | Transposed() | MatrixProduct() if len(node.matrices) == 1:
            inner = _terms(node.matrices[0])
            return [node.rebuilt(lambda _, term=term: term) for term in inner]
        case _:
            return [node]


def _query_axis(node: Node) -> int | None:
    """Return along which axis of weights queries lie: a softmax, or what is masked, changed.

    None for anything else; a mask by itself is a factor that nothing is computed for.
    """
    match node:
        case Softmax():
            return 1 - node.axis
        case Elementwise() if node.matrices[0].has_minus_infinity:  # an exp
            masks = node.matrices[0].finite_and_masks()[1]
            return 1 - cast(AdditiveMask, masks[0]).axis
        case Hadamard() if any(isinstance(part, Indicator) for part in node.matrices):
            return next(1 - part.axis for part in node.matrices if isinstance(part, Indicator))
        case Transposed():
            inner = _query_axis(node.matrices[0])
            return None if inner is None else 1 - inner
        case Negated() | Quotient() | Hadamard():
            found = (_query_axis(part) for part in node.matrices)
            return next((axis for axis in found if axis is not None), None)
        case MatrixProduct() if len(node.matrices) == 1:
            return _query_axis(node.matrices[0])
        case _:
            return None


def _is_large(node: Node) -> bool:
    """Tell whether a node is a product of matrices, or a mask, perhaps over or times a scalar."""
    if isinstance(node, Negated | Quotient | Transposed) or is_scaled(node):
        return _is_large(node.matrices[0])
    return isinstance(node, MatrixProduct | Indicator)


def _times(term: Node, values: Node, *, rows: bool) -> Node:
    """Return a term times values; what it is scaled by comes after, on fewer numbers."""
    if isinstance(term, Negated | Quotient) or is_scaled(term):
        return term.rebuilt(lambda inner: _times(inner, values, rows=rows))
    if not rows:
        return MatrixProduct(values, term)
    if isinstance(term, MatrixProduct):  # F (G V): F G is as large as all weights
        *before, last = term.operands
        if isinstance(last, Node):
            return MatrixProduct(*before, MatrixProduct(last, values))
    return MatrixProduct(term, values)
