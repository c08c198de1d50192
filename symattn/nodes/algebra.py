"""Products, sums and transposes of matrices, kept in the order in which they were written.

Left-deep chains are flat (``A @ B @ C`` is one product of three factors, ``A + B - C`` one sum of
three terms), so that chains of thousands do not recurse; ``A @ (B @ C)`` keeps its parentheses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import sympy

from symattn.errors import NotAnOperandError, OperationRefusedError, ShapeError
from symattn.meaning.form import (
    MINUS_ONE,
    Form,
    Mul,
    Place,
    place,
    reciprocal,
    sum_over,
    times,
    total,
)
from symattn.nodes.arrays import ArrayContext
from symattn.nodes.core import Agreement, Arguments, Node, as_matrix, as_operand, operation
from symattn.nodes.fixes import Candidate, declared_equal, facts, smallest_fix, transposed
from symattn.nodes.inputs import Ones
from symattn.nodes.scalars import scalar_form
from symattn.notation.code import brief
from symattn.notation.rows import Binding, Kind, Notation
from symattn.tags import Size


def _tags_of(values: tuple[Any, ...]) -> frozenset[str]:
    return frozenset(tag for value in values if isinstance(value, Node) for tag in value.tags)


@operation("product")
class MatrixProduct(Node):
    """``A B``: factors side by side, matrices and scalars in the order written."""

    notation = Notation(Kind.PRODUCT, Binding.PRODUCT)

    @classmethod
    def _accept(cls, *factors: Any) -> Arguments:
        tags = _tags_of(factors)
        operands = tuple(as_operand(factor, tags) for factor in factors)
        if operands and isinstance(operands[0], MatrixProduct):
            operands = operands[0].operands + operands[1:]
        if not any(isinstance(operand, Node) for operand in operands):
            raise NotAnOperandError("a product of scalars", "a matrix expression needs a matrix")
        return operands

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        factors = [operand for operand in operands if isinstance(operand, Node)]
        for left, right in zip(factors, factors[1:], strict=False):
            if not agreement(left.sizes[1], right.sizes[0]):
                raise ShapeError(
                    f"{_factor(left)} @ {_factor(right)}",
                    facts((left, right)),
                    f"the columns of {brief(left)} are {left.sizes[1]}, "
                    f"but the rows of {brief(right)} are {right.sizes[0]}",
                    smallest_fix(_product_fixes(operands, left, right)),
                )
        return factors[0].sizes[0], factors[-1].sizes[1]

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


def _factor(node: Node) -> str:
    written = brief(node)
    return f"({written})" if node.notation.binding < Binding.PRODUCT else written


def _product_fixes(operands: Arguments, left: Node, right: Node) -> Iterator[Candidate]:
    """Yield the product with the pair that clashes transposed or swapped, then declared equal."""
    matrices = [k for k, operand in enumerate(operands) if isinstance(operand, Node)]
    at, after = next(
        (i, j)
        for i, j in zip(matrices, matrices[1:], strict=False)
        if operands[i] is left and operands[j] is right
    )
    for pair in (*transposed((left, right)), (right, left), *transposed((right, left))):
        changed = list(operands)
        changed[at], changed[after] = pair
        yield Candidate(lambda changed=changed: MatrixProduct(*changed))
    yield from declared_equal(left.sizes[1], right.sizes[0], lambda: MatrixProduct(*operands))


@operation("transpose")
class Transposed(Node):
    """``Xᵀ``, kept as written."""

    notation = Notation(Kind.TRANSPOSE, Binding.POWER)

    @classmethod
    def _accept(cls, operand: Any) -> Arguments:
        return (as_matrix(operand, "a transpose"),)

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        rows, columns = cast(Node, operands[0]).sizes
        return columns, rows

    def meaning(self, row: Place, column: Place) -> Form:
        """``X[j, i]``."""
        return self.matrices[0].meaning(column, row)

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return the last two axes swapped."""
        return f"{operands[0]}.swapaxes(-1, -2)"


@operation("sum")
class MatrixSum(Node):
    """``A + B``: matrices of one shape; a difference is a sum with a negated term."""

    notation = Notation(Kind.SUM, Binding.SUM)

    @classmethod
    def _accept(cls, *terms: Any) -> Arguments:
        operands = _only_matrices("+", terms)
        if operands and isinstance(operands[0], MatrixSum):
            operands = cast(tuple[Node, ...], operands[0].operands) + operands[1:]
        return operands

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        return require_one_shape(cls, "+", operands, agreement)

    def meaning(self, row: Place, column: Place) -> Form:
        """``A[i, j] + B[i, j]``."""
        return total([term.meaning(row, column) for term in self.matrices])

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return ``a + b``."""
        return "(" + " + ".join(operands) + ")"


@operation("negation")
class Negated(Node):
    """``-X``."""

    notation = Notation(Kind.NEGATION, Binding.NEGATION)

    @classmethod
    def _accept(cls, operand: Any) -> Arguments:
        return (as_matrix(operand, "a negation"),)

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        return cast(Node, operands[0]).sizes

    def meaning(self, row: Place, column: Place) -> Form:
        """``-X[i, j]``."""
        return Mul((MINUS_ONE, self.matrices[0].meaning(row, column)))

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return ``-x``."""
        return f"(-{operands[0]})"


@operation("quotient")
class Quotient(Node):
    """``X / c``: a matrix over a scalar, written as a fraction."""

    notation = Notation(Kind.FRACTION, Binding.PRODUCT)

    @classmethod
    def _accept(cls, numerator: Any, denominator: Any) -> Arguments:
        top = as_matrix(numerator, "a quotient")
        bottom = as_operand(denominator, _tags_of((top,)))
        if isinstance(bottom, Node):
            raise OperationRefusedError(
                f"{_factor(top)} / {_factor(bottom)}",
                "to divide entry by entry write "
                f"sa.hadamard({brief(top)}, sa.reciprocal({brief(bottom)}))",
            )
        if bottom.is_zero:
            raise NotAnOperandError(f"{brief(top)} / 0", "it is undefined")
        return top, bottom

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        return cast(Node, operands[0]).sizes

    def meaning(self, row: Place, column: Place) -> Form:
        """``X[i, j] · 1/c``."""
        top, bottom = self.operands
        return Mul(
            (
                cast(Node, top).meaning(row, column),
                reciprocal(scalar_form(cast(sympy.Expr, bottom))),
            )
        )

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return ``x / c``."""
        return f"({operands[0]} / {operands[1]})"


class Hadamard(Node):
    """``A ∘ B``: entry by entry; build one with `hadamard`."""

    notation = Notation(Kind.HADAMARD, Binding.HADAMARD)

    @classmethod
    def _accept(cls, *factors: Any) -> Arguments:
        return _only_matrices("∘", factors)

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        return require_one_shape(cls, "∘", operands, agreement)

    def meaning(self, row: Place, column: Place) -> Form:
        """``A[i, j] · B[i, j]``."""
        return times([factor.meaning(row, column) for factor in self.matrices])

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return ``a * b``."""
        return "(" + " * ".join(operands) + ")"


def hadamard(*factors: Any) -> Node:
    """Return the product entry by entry of matrices of one shape.

    >>> import symattn as sa
    >>> m, n = sa.dims("m n")
    >>> P, D = sa.matrix("P", m, n), sa.matrix("D", m, n)
    >>> sa.hadamard(P, D).shape
    (m, n)

    Raises `ShapeError` if the shapes differ: nothing is broadcast.
    """
    if len(factors) < 2:
        raise OperationRefusedError("hadamard of fewer than two matrices", "give two or more")
    return Hadamard(*factors)


@operation("difference")
def difference(left: Any, right: Any) -> Node:
    """Return ``left - right``, a sum with a negated term."""
    _only_matrices("-", (left, right))
    return MatrixSum(left, Negated(right))


def _only_matrices(sign: str, values: tuple[Any, ...]) -> tuple[Node, ...]:
    tags = _tags_of(values)
    operands = tuple(as_operand(value, tags) for value in values)
    for operand in operands:
        if not isinstance(operand, Node):
            raise OperationRefusedError(
                f" {sign} ".join(brief(value) for value in values),
                "both sides have to be matrices of one shape; "
                f"for {brief(operand)} at every entry write {brief(operand)} * sa.ones(rows, columns)",
            )
    return cast(tuple[Node, ...], operands)


def require_one_shape(
    cls: type[Node], sign: str, operands: Arguments, agreement: Agreement
) -> tuple[Size, Size]:
    """Return the one shape of all operands, or raise `ShapeError` with a fix."""
    matrices = cast(tuple[Node, ...], operands)
    first = matrices[0]
    for at, other in enumerate(matrices[1:], start=1):
        for axis, name in enumerate(("rows", "columns")):
            if agreement(first.sizes[axis], other.sizes[axis]):
                continue
            raise ShapeError(
                f" {sign} ".join(brief(matrix) for matrix in matrices),
                facts((first, other)),
                f"the {name} of {brief(first)} are {first.sizes[axis]}, "
                f"but those of {brief(other)} are {other.sizes[axis]}",
                smallest_fix(_one_shape_fixes(cls, matrices, at, axis)),
            )
    return first.sizes


def _one_shape_fixes(
    cls: type[Node], matrices: tuple[Node, ...], at: int, axis: int
) -> Iterator[Candidate]:
    """Yield the operands transposed, broadcast with ones, or with the clash declared equal."""
    for changed in transposed(matrices):
        yield Candidate(lambda changed=changed: cls(*changed))
    for narrow, wide in ((at, 0), (0, at)):
        full = matrices[wide].sizes
        for broadcast in _broadcasts(matrices[narrow], full):
            changed = (*matrices[:narrow], broadcast, *matrices[narrow + 1 :])
            yield Candidate(lambda changed=changed: cls(*changed))
    clash = matrices[0].sizes[axis], matrices[at].sizes[axis]
    yield from declared_equal(*clash, lambda: cls(*matrices))


def _broadcasts(narrow: Node, full: tuple[Size, Size]) -> Iterator[Node]:
    for vector in (narrow, narrow.T):
        if vector.sizes[1].is_one:
            yield MatrixProduct(vector, Ones(Size.of(1), full[1]))
        if vector.sizes[0].is_one:
            yield MatrixProduct(Ones(full[0], Size.of(1)), vector)
