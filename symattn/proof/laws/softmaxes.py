"""Softmax: written out, shifted, and summed.

Values are finite, an axis has at least one place and every weight is positive, so nothing here
divides by zero.
"""

from __future__ import annotations

import sympy

from symattn.nodes.algebra import Hadamard, MatrixProduct, MatrixSum, Negated, Quotient, hadamard
from symattn.nodes.along_axis import MaxAlong, Softmax, max as largest, softmax
from symattn.nodes.core import Node
from symattn.nodes.elementwise import Elementwise, exp, reciprocal
from symattn.nodes.given import Given
from symattn.nodes.indicators import Indicator, indicator
from symattn.nodes.inputs import Ones, ones
from symattn.nodes.known_masks import causal
from symattn.proof.laws.law import Law, laws_of, product
from symattn.proof.laws.samples import A, M, p, q, x, y
from symattn.tags import Size

SOFTMAXES: dict[str, Law] = {}
_law = laws_of(SOFTMAXES)

# With fewer keys than queries it leaves the first queries without any.
_LAST = causal("bottom_right")

_AXIS_NOT_EMPTY = "the axis is not empty"


@_law(
    "shift invariance of softmax",
    softmax(A + ones(p, 1) @ y.T, axis=0),
    softmax(A, axis=0),
    mistake=(softmax(A + x @ ones(1, q), axis=0), softmax(A, axis=0)),
    reason="a term that is constant along the axis multiplies every exponential by one factor",
    sound="e^(s + t) = e^s e^t, and e^t leaves the sum and cancels; e^t > 0, under any mask",
    ends="a term disappears",
)
def _shift(node: Node) -> Node | None:
    if not isinstance(node, Softmax) or not isinstance(node.matrices[0], MatrixSum):
        return None
    terms = node.matrices[0].matrices
    for k, term in enumerate(terms):
        if _is_constant_along(term, node.axis):
            rest = terms[:k] + terms[k + 1 :]
            return node.along(rest[0] if len(rest) == 1 else MatrixSum(*rest), node.axis)
    return None


def _is_constant_along(term: Node, axis: int) -> bool:
    """Tell whether every row (axis 0) or every column (axis 1) of a term is the same."""
    while isinstance(term, Negated | Quotient):
        term = term.matrices[0]
    if isinstance(term, MatrixProduct):
        return isinstance(term.matrices[0 if axis == 0 else -1], Ones)
    return isinstance(term, Ones)


@_law(
    "softmax written out",
    hadamard(exp(A), reciprocal(ones(p, 1) @ (ones(1, p) @ exp(A)))),
    softmax(A, axis=0),
    mistake=(
        hadamard(exp(A), reciprocal(ones(p, 1) @ (ones(1, p) @ exp(A)))),
        softmax(A, axis=1),
    ),
    reason="softmax is exponentials over their sum along the axis",
    sound="the definition of softmax; the sum of exponentials is positive",
    ends="exponentials and a reciprocal disappear",
    condition=_AXIS_NOT_EMPTY,
)
def _written_out(node: Node) -> Node | None:
    if not isinstance(node, Hadamard) or len(node.matrices) != 2:
        return None
    for weights, scale in (node.matrices, node.matrices[::-1]):
        if not _is(weights, "exp") or not _is(scale, "reciprocal"):
            continue
        if weights.matrices[0].has_minus_infinity:  # the sum of what is allowed may be 0
            continue
        for axis in (0, 1):
            if _is_sum_along(scale.matrices[0], weights, axis):
                return Softmax(weights.matrices[0], axis)
    return None


def _is(node: Node, function: str) -> bool:
    return isinstance(node, Elementwise) and node.function == function


def _is_sum_along(node: Node, summed: Node, axis: int) -> bool:
    """Tell whether a node is, at every place, the sum of a matrix along the axis."""
    factors = _factors(node)
    length, one = summed.sizes[axis], Size.of(1)
    spread, total = Ones(length, one), Ones(one, length)
    if axis == 0:
        return factors in ([spread, total, summed], [Ones(length, length), summed])
    return factors in ([summed, spread, total], [summed, Ones(length, length)])


def _factors(node: Node) -> list[sympy.Basic]:
    """Return the factors of a product without its parentheses."""
    if not isinstance(node, MatrixProduct):
        return [node]
    return [
        inner
        for factor in node.operands
        for inner in (_factors(factor) if isinstance(factor, Node) else [factor])
    ]


@_law(
    "columns of softmax sum to one",
    ones(1, p) @ softmax(A, axis=0),
    ones(1, q),
    mistake=(ones(1, p) @ softmax(M, axis=1), ones(1, p)),
    reason="each column of weights is exponentials over their own sum",
    sound="Σ_i softmax_t(X[t, j])[i] = 1, for every row of ones",
    ends="a softmax disappears",
    condition=_AXIS_NOT_EMPTY,
)
def _columns_sum_to_one(node: Node) -> Node | None:
    return _summed(node, 0)


@_law(
    "rows of softmax sum to one",
    softmax(A, axis=1) @ ones(q, 1),
    ones(p, 1),
    mistake=(softmax(M, axis=0) @ ones(p, 1), ones(p, 1)),
    reason="each row of weights is exponentials over their own sum",
    sound="Σ_j softmax_t(X[i, t])[j] = 1, for every column of ones",
    ends="a softmax disappears",
    condition=_AXIS_NOT_EMPTY,
)
def _rows_sum_to_one(node: Node) -> Node | None:
    return _summed(node, 1)


@_law(
    "columns of masked softmax sum to one or zero",
    ones(1, p) @ softmax(A, axis=0, mask=_LAST),
    largest(indicator(_LAST, p, q, axis=0), axis=0),
    mistake=(ones(1, p) @ softmax(A, axis=0, mask=_LAST), ones(1, q)),
    reason="the weights of a query sum to 1 if it may attend to a key, and to 0 if to none",
    sound="Σ_i [g_i] e^(x_i) · inv0(Σ_t [g_t] e^(x_t)) = max_i [g_i], for every row of ones",
    ends="a softmax disappears",
)
def _masked_columns(node: Node) -> Node | None:
    return _summed(node, 0, masked=True)


@_law(
    "rows of masked softmax sum to one or zero",
    softmax(A, axis=1, mask=_LAST) @ ones(q, 1),
    largest(indicator(_LAST, p, q, axis=1), axis=1),
    mistake=(softmax(A.T, axis=1, mask=_LAST) @ ones(p, 1), ones(q, 1)),
    reason="the weights of a query sum to 1 if it may attend to a key, and to 0 if to none",
    sound="Σ_j [g_j] e^(x_j) · inv0(Σ_t [g_t] e^(x_t)) = max_j [g_j], for every column of ones",
    ends="a softmax disappears",
)
def _masked_rows(node: Node) -> Node | None:
    return _summed(node, 1, masked=True)


def _summed(node: Node, axis: int, *, masked: bool = False) -> Node | None:
    """Return a product in which ones beside a softmax along the axis have swallowed it."""
    if not isinstance(node, MatrixProduct):
        return None
    factors = node.operands
    for k in range(len(factors) - 1):
        left, right = factors[k], factors[k + 1]
        weights, summing = (right, left) if axis == 0 else (left, right)
        if not isinstance(weights, Softmax) or weights.axis != axis:
            continue
        if isinstance(summing, Ones) and masked == (weights.mask is not None):
            rows = summing.sizes[0] if axis == 0 else weights.sizes[0]
            columns = weights.sizes[1] if axis == 0 else summing.sizes[1]
            sums = _some_allowed(weights, rows, columns) if masked else [Ones(rows, columns)]
            return product(*factors[:k], *sums, *factors[k + 2 :])
    return None


def _some_allowed(weights: Softmax, rows: Size, columns: Size) -> list[Node]:
    """Return the factors of the matrix that is 1 where a query may attend to some key."""
    axis, one = weights.axis, Size.of(1)
    given = (argument for argument in weights.args if isinstance(argument, Given))
    found = MaxAlong(Indicator(weights.mask, *weights.sizes, axis, *given), axis)
    if (rows if axis == 0 else columns).is_one:
        return [found]
    return [Ones(rows, one), found] if axis == 0 else [found, Ones(one, columns)]
