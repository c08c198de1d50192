"""Sums, transposes, quotients and entrywise products, kept in the order in which they were written.

Left-deep chains are flat (``A + B - C`` is one sum of three terms), so that chains of thousands do
not recurse; ``A + (B + C)`` keeps its parentheses.
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
    reciprocal,
    times,
    total,
)
from symattn.nodes.arrays import ArrayContext
from symattn.nodes.core import (
    Agreement,
    Arguments,
    Node,
    as_matrix,
    as_operand,
)
from symattn.nodes.finite import is_open, require_positive
from symattn.nodes.fixes import (
    Candidate,
    declared_equal,
    facts,
    smallest_fix,
    transposed,
    turned,
)
from symattn.nodes.given import carried
from symattn.nodes.indicators import AdditiveMask, selected_code
from symattn.nodes.inputs import Ones
from symattn.nodes.operators import operation
from symattn.nodes.products import MatrixProduct, factor
from symattn.nodes.scalars import scalar_form
from symattn.notation.code import brief
from symattn.notation.rows import Binding, Kind, Notation
from symattn.tags import Size

_SHOWN = 6
"""So many terms of a sum are shown in an error."""


@operation("transpose")
class Transposed(Node):
    """``Xᵀ``, kept as written."""

    notation = Notation(Kind.TRANSPOSE, Binding.POWER)
    is_view = True

    @classmethod
    def _accept(cls, operand: Any) -> Arguments:
        return (as_matrix(operand, "a transpose"),)

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        rows, columns = cast(Node, operands[0]).sizes
        return columns, rows

    @classmethod
    def _leaves_open(cls, operands: Arguments) -> bool:
        return any(map(is_open, operands))

    def finite_and_masks(self) -> tuple[Node | None, tuple[Node, ...]]:
        """Return both parts transposed."""
        if not self.has_minus_infinity:
            return self, ()
        finite, masks = self.matrices[0].finite_and_masks()
        across = (mask.along(1 - mask.axis) for mask in masks if isinstance(mask, AdditiveMask))
        return None if finite is None else finite.T, tuple(across)

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
        return _only_matrices("+", terms)

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        return require_one_shape(cls, operands, agreement)

    @classmethod
    def _flat(cls, operands: Arguments) -> Arguments:
        first = operands[0]
        return first.operands + operands[1:] if isinstance(first, MatrixSum) else operands

    @classmethod
    def _leaves_open(cls, operands: Arguments) -> bool:
        return any(map(is_open, operands))

    def finite_and_masks(self) -> tuple[Node | None, tuple[Node, ...]]:
        """Return the sum of the finite parts, and the masks of all terms."""
        if not self.has_minus_infinity:
            return self, ()
        parts = [term.finite_and_masks() for term in self.matrices]
        finite = [part for part, _ in parts if part is not None]
        masks = tuple(mask for _, found in parts for mask in found)
        if len(finite) < 2:
            return finite[0] if finite else None, masks
        return MatrixSum(*finite, *carried(self.given)), masks

    def meaning(self, row: Place, column: Place) -> Form:
        """``A[i, j] + B[i, j]``."""
        return total([term.meaning(row, column) for term in self.matrices])

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return ``a + b``; an additive mask selects, so that NaN plus −∞ is −∞."""
        terms = list(zip(self.matrices, operands, strict=True))
        masks = [term for term, _ in terms if isinstance(term, AdditiveMask)]
        finite = [code for term, code in terms if not isinstance(term, AdditiveMask)]
        if not masks or not finite:
            return "(" + " + ".join(operands) + ")"
        return selected_code(" + ".join(finite), masks, context, len(self.indices))


@operation("negation")
class Negated(Node):
    """``-X``."""

    notation = Notation(Kind.NEGATION, Binding.NEGATION)

    only_finite = "minus −∞ would be +∞; an additive mask is added, as in S + M"

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
        bottom = as_operand(denominator, frozenset(top.tags))
        if isinstance(bottom, Node):
            raise OperationRefusedError(
                f"{factor(top)} / {factor(bottom)}",
                "to divide entry by entry write "
                f"sa.hadamard({brief(top)}, sa.reciprocal({brief(bottom)}))",
            )
        if bottom.is_zero:
            raise NotAnOperandError(f"{brief(top)} / 0", "it is undefined")
        return top, bottom

    @classmethod
    def _leaves_open(cls, operands: Arguments) -> bool:
        top, bottom = operands
        return require_positive(cast(Node, top), (bottom,))

    def finite_and_masks(self) -> tuple[Node | None, tuple[Node, ...]]:
        """Return the finite part over the scalar; over what is positive, −∞ stays −∞."""
        if not self.has_minus_infinity:
            return self, ()
        finite, masks = self.matrices[0].finite_and_masks()
        over = self.operands[1], *carried(self.given)
        return None if finite is None else Quotient(finite, *over), masks

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
    only_finite = (
        "0 times −∞ is nothing; as a factor a mask is sa.indicator(mask, rows, columns, axis=…)"
    )

    @classmethod
    def _accept(cls, *factors: Any) -> Arguments:
        return _only_matrices("∘", factors)

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        return require_one_shape(cls, operands, agreement)

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
    """Return ``left - right``, a sum with a negated term.

    >>> import symattn as sa
    >>> A, B = sa.matrix("A", "n", "m"), sa.matrix("B", "n", "m")
    >>> (A - B).operands
    (A, -B)
    """
    _only_matrices("-", (left, right))
    return MatrixSum(left, Negated(right))


def _only_matrices(sign: str, values: tuple[Any, ...]) -> tuple[Node, ...]:
    if not values:
        raise OperationRefusedError(f"{sign} of nothing", "give two matrices or more")
    operands = tuple(as_operand(value) for value in values)
    for operand in operands:
        if not isinstance(operand, Node):
            raise OperationRefusedError(
                f" {sign} ".join(brief(value) for value in values),
                "both sides have to be matrices of one shape; "
                f"for {brief(operand)} at every entry write {brief(operand)} * "
                "sa.ones(rows, columns)",
            )
    return cast(tuple[Node, ...], operands)


def require_one_shape(
    cls: type[Node], operands: Arguments, agreement: Agreement
) -> tuple[Size, Size]:
    """Return the one shape of all operands, or raise `ShapeError` with a fix.

    >>> import symattn as sa
    >>> X, b = sa.matrix("X", "d", "n"), sa.vector("b", "d")
    >>> sa.hadamard(X, b)
    Traceback (most recent call last):
        ...
    symattn.errors.ShapeError: hadamard(X, b) does not fit: the columns of X are n, but those of ...
      X ∈ M^{d×n}
      b ∈ M^{d×1}
      this fits: hadamard(X, b @ ones(1, n))
    """
    first, *others = cast(tuple[Node, ...], operands)
    for other in others:
        for axis in (0, 1):
            if not agreement(first.sizes[axis], other.sizes[axis]):
                raise _unequal(cls, cast(tuple[Node, ...], cls._flat(operands)), other, axis)
    return first.sizes


def _unequal(cls: type[Node], matrices: tuple[Node, ...], other: Node, axis: int) -> ShapeError:
    """Return the error for an operand whose shape is not that of the first."""
    first, second = _positive(matrices[0]), _positive(other)
    return ShapeError(
        _written(cls, matrices),
        facts((first, second)),
        f"the {('rows', 'columns')[axis]} of {brief(first)} are {first.sizes[axis]}, "
        f"but those of {brief(second)} are {second.sizes[axis]}",
        *smallest_fix(_one_shape_fixes(cls, matrices, other)),
    )


def _positive(term: Node) -> Node:
    """Return X for -X: whoever writes A - X means X."""
    return term.matrices[0] if isinstance(term, Negated) else term


def _written(cls: type[Node], matrices: tuple[Node, ...]) -> str:
    """Return how the operands were combined, as Python; of a long chain the beginning."""
    if cls is not MatrixSum:
        return "hadamard(" + ", ".join(brief(matrix) for matrix in matrices) + ")"
    first, *rest = matrices[:_SHOWN]
    terms = (
        f" {'-' if isinstance(term, Negated) else '+'} {brief(_positive(term))}" for term in rest
    )
    return brief(first) + "".join(terms) + (" + …" if len(matrices) > _SHOWN else "")


def _one_shape_fixes(
    cls: type[Node], matrices: tuple[Node, ...], other: Node
) -> Iterator[Candidate]:
    """Yield the operands transposed, broadcast with ones, or with the clash declared equal."""
    at = next(k for k, matrix in enumerate(matrices) if matrix is other)
    first, second = _positive(matrices[0]), _positive(other)
    changes = [(at, turned(second)), (0, turned(first))]
    changes += [(at, wide) for wide in _broadcasts(second, first.sizes)]
    changes += [(0, wide) for wide in _broadcasts(first, second.sizes)]
    for where, positive in changes:
        before = matrices[where]
        changed = Negated(positive) if isinstance(before, Negated) else positive
        operands = (*matrices[:where], changed, *matrices[where + 1 :])
        yield Candidate(
            lambda operands=operands: cls(*operands),
            part=lambda positive=positive, before=before: (positive, brief(_positive(before))),
        )
    for operands in transposed(matrices):
        yield Candidate(lambda operands=operands: cls(*operands))
    clashes = {
        clash
        for matrix in matrices
        for clash in zip(first.sizes, matrix.sizes, strict=True)
        if clash[0] != clash[1]
    }
    yield from declared_equal(sorted(clashes, key=str), lambda: cls(*matrices))


def _broadcasts(narrow: Node, full: tuple[Size, Size]) -> Iterator[Node]:
    """Yield a vector or a single number repeated, with ones, to the full shape."""
    if is_open(narrow):  # no product repeats an additive mask
        return
    across, down = Ones(Size.of(1), full[1]), Ones(full[0], Size.of(1))
    for vector in (narrow, turned(narrow)):
        is_column, is_row = vector.sizes[1].is_one, vector.sizes[0].is_one
        if is_column and is_row:
            yield MatrixProduct(down, vector, across)
        elif is_column:
            yield MatrixProduct(vector, across)
        elif is_row:
            yield MatrixProduct(down, vector)
