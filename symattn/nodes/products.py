"""The product of matrices, kept in the order in which its factors were written.

Left-deep chains are flat: ``A @ B @ C`` is one product of three factors, so that chains of
thousands do not recurse; ``A @ (B @ C)`` keeps its parentheses.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

import sympy

from symattn.errors import NotAnOperandError, ShapeError
from symattn.meaning.form import (
    Form,
    Place,
    place,
    sum_over,
    times,
)
from symattn.nodes.arrays import ArrayContext
from symattn.nodes.core import (
    Agreement,
    Arguments,
    Node,
    as_operand,
    tags_of,
)
from symattn.nodes.finite import require_finite, require_positive
from symattn.nodes.fixes import (
    Candidate,
    declared_equal,
    facts,
    smallest_fix,
    turned,
)
from symattn.nodes.given import carried
from symattn.nodes.operators import operation
from symattn.nodes.scalars import scalar_form
from symattn.notation.code import brief
from symattn.notation.rows import Binding, Kind, Notation
from symattn.tags import Size


@operation("product")
class MatrixProduct(Node):
    """``A B``: factors side by side, matrices and scalars in the order written."""

    notation = Notation(Kind.PRODUCT, Binding.PRODUCT)

    @classmethod
    def _accept(cls, *factors: Any) -> Arguments:
        tags = tags_of(factors)
        operands = tuple(as_operand(factor, tags) for factor in factors)
        if not any(isinstance(operand, Node) for operand in operands):
            raise NotAnOperandError("a product of scalars", "a matrix expression needs a matrix")
        return operands

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        factors = [operand for operand in operands if isinstance(operand, Node)]
        for left, right in pairwise(factors):
            if not agreement(left.sizes[1], right.sizes[0]):
                # Of a chain on the left, which is opened up, the last factor is meant.
                chain = isinstance(left, MatrixProduct) and left is operands[0]
                raise _misfit(cls._flat(operands), left.matrices[-1] if chain else left, right)
        return factors[0].sizes[0], factors[-1].sizes[1]

    @classmethod
    def _flat(cls, operands: Arguments) -> Arguments:
        first = operands[0]
        return first.operands + operands[1:] if isinstance(first, MatrixProduct) else operands

    @classmethod
    def _leaves_open(cls, operands: Arguments) -> bool:
        matrices = [operand for operand in operands if isinstance(operand, Node)]
        if len(matrices) == 1:
            scalars = (operand for operand in operands if operand is not matrices[0])
            return require_positive(matrices[0], scalars)
        require_finite(
            matrices,
            "a product of matrices takes finite numbers; mask the scores inside the softmax, as in "
            "V @ softmax(S + M, axis=0)",
        )
        return False

    def finite_and_masks(self) -> tuple[Node | None, tuple[Node, ...]]:
        """Return the finite part with the scalars; times what is positive, −∞ stays −∞."""
        if not self.has_minus_infinity:
            return self, ()
        finite, masks = self.matrices[0].finite_and_masks()
        if finite is None:
            return None, masks
        operands = (finite if isinstance(operand, Node) else operand for operand in self.operands)
        return MatrixProduct(*operands, *carried(self.given)), masks

    def meaning(self, row: Place, column: Place) -> Form:
        """``Σ_c A[i, c] B[c, j]``."""
        factors: list[Form] = []
        sums: list[Place] = []
        left, remaining = row, len(self.matrices)
        for operand in self.operands:
            if not isinstance(operand, Node):
                factors.append(scalar_form(cast(sympy.Expr, operand)))
                continue
            remaining -= 1
            right = place(operand.sizes[1]) if remaining else column
            if remaining:
                sums.append(right)
            factors.append(operand.meaning(left, right))
            left = right
        body = times(factors)
        for bound in reversed(sums):
            body = sum_over(bound, body)
        return body

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return ``a * b @ c``: scalars multiply entry by entry, matrices as matrices."""
        code = operands[0]
        seen_matrix = isinstance(self.operands[0], Node)
        for operand, source in zip(self.operands[1:], operands[1:], strict=True):
            both = seen_matrix and isinstance(operand, Node)
            code = f"({code} {'@' if both else '*'} {source})"
            seen_matrix = seen_matrix or isinstance(operand, Node)
        return code


def factor(node: Node) -> str:
    """Return a factor in few words, in parentheses where it needs them.

    >>> import symattn as sa
    >>> X = sa.matrix("X", *sa.dims("n m"))
    >>> factor(X), factor(X + X)
    ('X', '(X + X)')
    """
    written = brief(node)
    return f"({written})" if node.notation.binding < Binding.APPLICATION else written


def _misfit(operands: Arguments, left: Node, right: Node) -> ShapeError:
    """Return the error for two neighbouring factors that do not fit."""
    by_entry = f"; by entry it is sa.hadamard({brief(left)}, {brief(right)})"
    return ShapeError(
        f"{factor(left)} @ {factor(right)}",
        facts((left, right)),
        f"the columns of {brief(left)} are {left.sizes[1]}, "
        f"but the rows of {brief(right)} are {right.sizes[0]}"
        + (by_entry if left.sizes == right.sizes and left != right else ""),
        *smallest_fix(_product_fixes(operands, left, right)),
    )


def _arrangements(left: Node, right: Node) -> tuple[tuple[Node, Node], ...]:
    """Return two factors with one transposed, swapped, or both, the smallest changes first."""
    return (
        (turned(left), right),
        (left, turned(right)),
        (right, left),
        (turned(left), turned(right)),
        (turned(right), left),
        (right, turned(left)),
    )


def _product_fixes(operands: Arguments, left: Node, right: Node) -> Iterator[Candidate]:
    """Yield the pair that clashes with one transposed, swapped, or both; then equal tags.

    The pair may be all that stands before the right factor and that factor: ``A @ W`` is written
    flat where A is itself a product, and ``W @ A`` is what its author may have meant.
    """
    matrices = [k for k, operand in enumerate(operands) if isinstance(operand, Node)]
    at, after = next(
        (i, j) for i, j in pairwise(matrices) if operands[i] is left and operands[j] is right
    )
    before = f"{factor(left)} @ {factor(right)}"
    for pair in _arrangements(left, right):
        changed = list(operands)
        changed[at], changed[after] = pair
        yield Candidate(
            lambda changed=changed: MatrixProduct(*changed),
            part=lambda pair=pair: (MatrixProduct(*pair), before),
        )
    if at != matrices[0]:
        whole = MatrixProduct(*operands[:after])
        for pair in _arrangements(whole, right):
            yield Candidate(lambda pair=pair: MatrixProduct(*pair, *operands[after + 1 :]))
    clash = left.sizes[1], right.sizes[0]
    yield from declared_equal((clash,), lambda: MatrixProduct(*operands))
