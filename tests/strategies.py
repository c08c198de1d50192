"""Random formulas for Hypothesis: well-shaped expressions, and pairs of them.

`expressions` draws any formula; `equal_pairs` rewrites one by laws that are true on paper, each
written here directly and independently of the laws that the package knows; `mutated_pairs` makes
one of the mistakes that people make, which usually, but not always, changes the meaning.

Sizes are the tags d_k, d_v, n and m (and 1); there are inputs of every shape in them.  Under a sum
over heads or a product of stacked heads there are members of families of every shape as well; two
letters run over the h heads, so that one is often bound inside where it is bound already.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import sympy
from hypothesis import strategies as st

import symattn.nodes as sa
from symattn.errors import AxisError, MinusInfinityError
from symattn.nodes.core import Node
from symattn.nodes.indices import AxisIndex
from symattn.nodes.sizes import expression_of
from symattn.tags import Size

d_k, d_v, n, m, h = sa.dims("d_k d_v n m h")
LETTERS = (sa.index("i", h), sa.index("k", h))
c = sa.scalar("c")
tau = sa.scalar("tau", positive=True)
phi = sa.function("phi")

Axis = sympy.Expr
Shape = tuple[Axis, Axis]
ONE = sympy.Integer(1)
AXES: tuple[Axis, ...] = (n, m, d_k, d_v, ONE)

MATRICES = (
    *(sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)),
    *(sa.matrix("S", m, n), sa.matrix("B", m, n), sa.matrix("G", d_v, m), sa.matrix("H", d_k, n)),
    *(sa.matrix("W", d_k, d_k), sa.matrix("U", d_v, d_k), sa.matrix("Y", d_v, n)),
    *(sa.matrix("N", n, n), sa.matrix("M", m, m), sa.matrix("Z", d_v, d_v)),
)
VECTORS = (sa.vector("a", d_k), sa.vector("b", d_v), sa.vector("x", n), sa.vector("y", m))
INPUTS: tuple[Node, ...] = (*MATRICES, *VECTORS)

SCALARS: tuple[Any, ...] = (
    *(sympy.Integer(2), sympy.Integer(-3), sympy.Rational(1, 2), sympy.Rational(-2, 3)),
    *(sympy.sqrt(d_k), 1 / sympy.sqrt(d_k), d_v, c, tau, sympy.sqrt(tau), c + 2 * tau, c * tau),
)
DIVISORS: tuple[Any, ...] = (
    *(sympy.Integer(2), sympy.Integer(-3), sympy.Rational(2, 3)),
    *(sympy.sqrt(d_k), d_k, sympy.sqrt(n), tau, sympy.sqrt(tau), c, d_k + tau),
)

Operation = Callable[[st.DrawFn, Callable[..., Node], Shape], Node]
"""Draws an operation of a shape, given how its parts are drawn: ``part(shape)``, and
``part(shape, i)`` where the index i is bound around it."""


def shape_of(node: Node) -> Shape:
    rows, columns = node.sizes
    return expression_of(rows), expression_of(columns)


def leaves(shape: Shape) -> Sequence[Node]:
    """Inputs of a shape, as they are and transposed, and constants."""
    found: list[Node] = [node for node in INPUTS if shape_of(node) == shape]
    found += [node.T for node in INPUTS if shape_of(node) == shape[::-1] != shape]
    found += [node.T for node in MATRICES if shape_of(node) == shape and shape[0] == shape[1]]
    found *= 3  # constants make coincidences: draw them less often
    found.append(sa.ones(*shape))
    if shape[0] == shape[1]:
        found.append(sa.identity(shape[0]))
    return found


def members(shape: Shape, indices: Sequence[AxisIndex]) -> list[Node]:
    """The member of a family of that shape at each of the indices."""
    label = "F" + "".join(str(AXES.index(axis)) for axis in shape)
    return [sa.family(label, h, *shape)[index] for index in indices]


def _product(draw: st.DrawFn, part: Callable[[Shape], Node], shape: Shape) -> Node:
    inner = draw(st.lists(st.sampled_from(AXES), min_size=1, max_size=2))
    axes = [shape[0], *inner, shape[1]]
    factors = [part(of) for of in pairwise(axes)]
    if len(factors) == 3 and draw(st.booleans()):
        return factors[0] @ (factors[1] @ factors[2])
    result = factors[0]
    for factor in factors[1:]:
        result = result @ factor
    return result


def _sum(draw: st.DrawFn, part: Callable[[Shape], Node], shape: Shape) -> Node:
    left, right = part(shape), part(shape)
    return left + right if draw(st.booleans()) else left - right


def _scaled(draw: st.DrawFn, part: Callable[[Shape], Node], shape: Shape) -> Node:
    scalar, operand = draw(st.sampled_from(SCALARS)), part(shape)
    return scalar * operand if draw(st.booleans()) else operand * scalar


def _elementwise(draw: st.DrawFn, part: Callable[[Shape], Node], shape: Shape) -> Node:
    functions = (sa.tanh, sa.exp, phi, sa.sigmoid, sa.relu, sa.sin, sa.cos, sa.square)
    return draw(st.sampled_from((*functions, sa.silu, sa.softplus)))(part(shape))


def _of_positive(draw: st.DrawFn, part: Callable[[Shape], Node], shape: Shape) -> Node:
    inside = part(shape)
    positive = draw(
        st.sampled_from(
            (
                lambda x: sa.exp(x),
                lambda x: sa.exp(x) + sa.ones(*shape),
                lambda x: sa.softmax(x, axis=0),
                lambda x: sa.square(x),
                lambda x: x,
            )
        )
    )
    return draw(st.sampled_from((sa.reciprocal, sa.log, sa.sqrt)))(positive(inside))


def _max(draw: st.DrawFn, part: Callable[[Shape], Node], shape: Shape) -> Node:
    """The maximum along an axis, broadcast back where the shape asks for it."""
    axis = draw(st.sampled_from((0, 1)))
    if shape[axis] == ONE:
        other = draw(st.sampled_from(AXES))
        return sa.max(part((other, shape[1]) if axis == 0 else (shape[0], other)), axis=axis)
    largest = sa.max(part(shape), axis=axis)
    return sa.ones(shape[0], 1) @ largest if axis == 0 else largest @ sa.ones(1, shape[1])


POSITIONAL: tuple[sa.Mask, ...] = (
    *(sa.causal("top_left"), sa.causal("bottom_right"), sa.window(2, "top_left")),
    *(sa.window(n, "bottom_right"), sa.prefix(1), sa.prefix(d_k), sa.prefix(3)),
)
RUN_TIME: tuple[sa.Mask, ...] = (sa.padding(), sa.keep())


def masks(leaves: Sequence[sa.Mask] = POSITIONAL) -> st.SearchStrategy[sa.Mask]:
    """Draw masks and what is combined from them."""
    return st.recursive(
        st.sampled_from(leaves),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
            st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
            inner.map(lambda mask: ~mask),
        ),
        max_leaves=3,
    )


def _masked(draw: st.DrawFn, part: Callable[[Shape], Node], shape: Shape) -> Node:
    axis, mask = draw(st.sampled_from((0, 1))), draw(masks())
    if draw(st.integers(0, 3)) == 0:
        return sa.indicator(mask, *shape, axis=axis)
    return sa.softmax(part(shape), axis=axis, mask=mask)


def _under_additive_mask(draw: st.DrawFn, part: Callable[[Shape], Node], shape: Shape) -> Node:
    """A softmax or an exp of scores with an additive mask, scaled or not."""
    axis, scale = draw(st.sampled_from((0, 1))), draw(st.sampled_from((1, 2, tau, 1 / tau)))
    added = sa.additive_mask(draw(masks()), *shape, axis=axis)
    scores = draw(
        st.sampled_from(
            (
                lambda x: x + added,
                lambda x: (added + x) / scale,
                lambda x: scale * x + added / tau,
                lambda x: (x.T + added.T).T,
            )
        )
    )(part(shape))
    return sa.exp(scores) if draw(st.integers(0, 2)) == 0 else sa.softmax(scores, axis=axis)


def _sum_over(draw: st.DrawFn, part: Callable[..., Node], shape: Shape) -> Node:
    index = draw(st.sampled_from(LETTERS))
    return sa.sum_over(part(shape, index), index)


def _product_of_heads(draw: st.DrawFn, part: Callable[..., Node], shape: Shape) -> Node:
    """Heads side by side times heads one on top of the other, or times a matrix."""
    first, second = draw(st.sampled_from(LETTERS)), draw(st.sampled_from(LETTERS))
    axis = draw(st.sampled_from(AXES))
    left = sa.heads(part((shape[0], axis), first), first, axis=1)
    if draw(st.booleans()):
        right = sa.heads(part((axis, shape[1]), second), second, axis=0)
    else:
        label = "P" + "".join(str(AXES.index(one)) for one in (axis, shape[1]))
        right = sa.matrix(label, h * axis, shape[1])
    return left @ right


def _blocks(draw: st.DrawFn, part: Callable[..., Node], shape: Shape) -> Node:
    """Block i of all heads, taken of the stack or of something made of it."""
    axis, (outer, inner) = draw(st.sampled_from((0, 1))), draw(st.permutations(LETTERS))
    stacked = sa.heads(part(shape, inner), inner, axis=axis)
    of_all = draw(st.sampled_from((lambda x: x, sa.tanh, lambda x: sa.softmax(x, axis=axis))))
    return sa.sum_over(sa.head(of_all(stacked), outer, axis=axis), outer)


OPERATIONS: tuple[Operation, ...] = (
    *(_sum_over, _product_of_heads, _blocks),
    *(_product, _product, _product, _sum, _sum),
    lambda draw, part, shape: part((shape[1], shape[0])).T,
    lambda draw, part, shape: sa.softmax(part(shape), axis=draw(st.sampled_from((0, 1)))),
    _scaled,
    lambda draw, part, shape: part(shape) / draw(st.sampled_from(DIVISORS)),
    lambda draw, part, shape: sa.hadamard(part(shape), part(shape)),
    _elementwise,
    lambda draw, part, shape: -part(shape),
    _max,
    _of_positive,
    _masked,
    _under_additive_mask,
)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    return draw(st.sampled_from(AXES)), draw(st.sampled_from(AXES))


@st.composite
def expressions(
    draw: st.DrawFn,
    depth: int = 4,
    shape: Shape | None = None,
    indices: tuple[AxisIndex, ...] = (),
) -> Node:
    """Draw a well-shaped formula of at most that depth, of that shape if one is given.

    The ``indices`` are those that are bound around it.
    """
    wanted = draw(shapes()) if shape is None else shape

    def part(of: Shape, *bound: AxisIndex) -> Node:
        return draw(expressions(depth - 1, of, tuple(dict.fromkeys((*indices, *bound)))))

    if depth <= 1 or (depth <= 3 and draw(st.integers(0, 5)) == 0):
        ours = members(wanted, indices)
        return draw(st.sampled_from(ours if ours and draw(st.booleans()) else leaves(wanted)))
    return draw(st.sampled_from(OPERATIONS))(draw, part, wanted)


# Rewriting a part of a formula.


def operands_of(node: Node) -> tuple[Any, ...]:
    """The operands, which may be multiplied whatever they are: SymPy's types know only its own."""
    return node.operands


Rewriting = Callable[[st.DrawFn, Node], Node | None]
"""Another way of writing a node, or None where this one does not apply."""


def with_part(root: Node, old: Node, new: Node) -> Node:
    """Return the formula with every occurrence of a part replaced."""
    return new if root == old else root.rebuilt(lambda child: with_part(child, old, new))


def _reversed_product(draw: st.DrawFn, node: Node) -> Node | None:
    inner = node.matrices[0] if isinstance(node, sa.Transposed) else None
    if not isinstance(inner, sa.MatrixProduct) or len(inner.operands) != 2:
        return None
    left, right = operands_of(inner)
    if not isinstance(left, Node):
        return left * right.T
    return right.T @ left.T if isinstance(right, Node) else left.T * right


def _distributed(draw: st.DrawFn, node: Node) -> Node | None:
    if not isinstance(node, sa.MatrixProduct) or len(node.operands) != 2:
        return None
    left, right = operands_of(node)
    if isinstance(right, sa.MatrixSum):
        terms: list[Any] = [left * term for term in right.matrices]
    elif isinstance(left, sa.MatrixSum):
        terms = [term * right for term in left.matrices]
    else:
        return None
    return sa.MatrixSum(*terms)


def _reassociated(draw: st.DrawFn, node: Node) -> Node | None:
    if not isinstance(node, sa.MatrixProduct) or len(node.operands) != 3:
        return None
    first, second, third = operands_of(node)
    if not isinstance(second, Node) and not isinstance(third, Node):
        return None
    return first * (second * third)


def _reordered(draw: st.DrawFn, node: Node) -> Node | None:
    if isinstance(node, sa.MatrixSum):
        terms = draw(st.permutations(node.matrices))
        return sum(terms[1:], terms[0])
    if isinstance(node, sa.Hadamard):
        return sa.hadamard(*draw(st.permutations(node.matrices)))
    return None


def _softmax_of_transpose(draw: st.DrawFn, node: Node) -> Node | None:
    if not isinstance(node, sa.Softmax | sa.MaxAlong):
        return None
    if isinstance(node, sa.Softmax):
        return sa.softmax(node.matrices[0].T, axis=1 - node.axis, mask=node.mask).T
    return sa.max(node.matrices[0].T, axis=1 - node.axis).T


def _shifted_softmax(draw: st.DrawFn, node: Node) -> Node | None:
    if not isinstance(node, sa.Softmax):
        return None
    rows, columns = shape_of(node)
    if node.axis == 0:
        shift = sa.ones(rows, 1) @ draw(st.sampled_from(leaves((ONE, columns))))
    else:
        shift = draw(st.sampled_from(leaves((rows, ONE)))) @ sa.ones(1, columns)
    return sa.softmax(node.matrices[0] + shift, axis=node.axis, mask=node.mask)


def _mask_of_complements(draw: st.DrawFn, node: Node) -> Node | None:
    if not isinstance(node, sa.Softmax) or node.mask is None:
        return None
    other = draw(masks())
    mask = draw(st.sampled_from((~(~node.mask | ~node.mask), node.mask & (node.mask | other))))
    return sa.softmax(node.matrices[0], axis=node.axis, mask=mask)


def _masked_twice(draw: st.DrawFn, node: Node) -> Node | None:
    if not isinstance(node, sa.Softmax) or node.mask is None:
        return None
    return sa.hadamard(node, sa.indicator(node.mask, *node.shape, axis=node.axis))


def _softmax_by_definition(draw: st.DrawFn, node: Node) -> Node | None:
    # Under a mask 1/x is undefined where a query has no key.
    if not isinstance(node, sa.Softmax) or node.allowed is not None:
        return None
    rows, columns = shape_of(node)
    weights = sa.exp(node.matrices[0])
    totals = (sa.ones(rows, rows) @ weights, weights @ sa.ones(columns, columns))
    return sa.hadamard(weights, sa.reciprocal(totals[node.axis]))


def _moved_scalar(draw: st.DrawFn, node: Node) -> Node | None:
    if isinstance(node, sa.Quotient):
        top, bottom = operands_of(node)
        return top.__rmul__(1 / bottom)
    if isinstance(node, sa.MatrixProduct) and len(node.operands) == 2:
        left, right = operands_of(node)
        if not (isinstance(left, Node) and isinstance(right, Node)):
            return right * left
    return None


def _rewritten_function(draw: st.DrawFn, node: Node) -> Node | None:
    if not isinstance(node, sa.Elementwise):
        return None
    (inside,) = node.matrices
    known: dict[str, Callable[[], Node]] = {
        "tanh": lambda: -sa.tanh(-inside),
        "sin": lambda: -sa.sin(-inside),
        "square": lambda: sa.hadamard(inside, inside),
        "sigmoid": lambda: sa.reciprocal(sa.ones(*shape_of(node)) + sa.exp(-inside)),
        "silu": lambda: sa.hadamard(inside, sa.sigmoid(inside)),
        "exp": lambda: sa.hadamard(sa.exp(inside / 2), sa.exp(inside / 2)),
    }
    other = known.get(node.function, lambda: sa.function(node.function)(inside.T).T)
    return draw(st.sampled_from((other, lambda: sa.function(node.function)(inside.T).T)))()


def _exp_of_sum(draw: st.DrawFn, node: Node) -> Node | None:
    if not (isinstance(node, sa.Elementwise) and node.function == "exp"):
        return None
    (inside,) = node.matrices
    if not isinstance(inside, sa.MatrixSum):
        return None
    return sa.hadamard(*(sa.exp(term) for term in inside.matrices))


def _times_identity(draw: st.DrawFn, node: Node) -> Node | None:
    rows, columns = shape_of(node)
    return draw(
        st.sampled_from(
            (
                lambda: sa.identity(rows) @ node,
                lambda: node @ sa.identity(columns),
                lambda: sa.hadamard(node, sa.ones(rows, 1) @ sa.ones(1, columns)),
            )
        )
    )()


def _negated(draw: st.DrawFn, node: Node) -> Node | None:
    return node.matrices[0] @ -1 if isinstance(node, sa.Negated) else -node @ -1


def _added_and_taken_away(draw: st.DrawFn, node: Node) -> Node | None:
    other = draw(st.sampled_from(leaves(shape_of(node))))
    return node + other - other


def _sum_of_heads(draw: st.DrawFn, node: Node) -> Node | None:
    """Σ_i of a sum, of a product with a constant, and of a constant."""
    if not isinstance(node, sa.SumOver):
        return None
    (inside,), index = node.matrices, node.index
    if index not in inside.indices:
        return sa.MatrixProduct(h, inside)
    if isinstance(inside, sa.MatrixSum):
        terms = [sa.sum_over(term, index) for term in inside.matrices]
        return sum(terms[1:], terms[0])
    if isinstance(inside, sa.MatrixProduct) and len(inside.matrices) == 2 == len(inside.operands):
        left, right = inside.matrices
        if index not in right.indices:
            return sa.sum_over(left, index) @ right
        if index not in left.indices:
            return left @ sa.sum_over(right, index)
        return sa.heads(left, index, axis=1) @ sa.heads(right, index, axis=0)
    return None


def _sum_taken_in(draw: st.DrawFn, node: Node) -> Node | None:
    """(Σ_i A) B as Σ_i A B, where B does not read i."""
    if not (isinstance(node, sa.MatrixProduct) and len(node.matrices) == 2 == len(node.operands)):
        return None
    left, right = node.matrices
    if isinstance(left, sa.SumOver) and left.index not in right.indices:
        return sa.sum_over(left.matrices[0] @ right, left.index)
    if isinstance(right, sa.SumOver) and right.index not in left.indices:
        return sa.sum_over(left @ right.matrices[0], right.index)
    return None


def _turned_heads(draw: st.DrawFn, node: Node) -> Node | None:
    """The transpose inside: heads stand in the other direction."""
    if not isinstance(node, sa.Heads | sa.Head):
        return None
    (inside,), axis = node.matrices, node.axis
    call = sa.heads if isinstance(node, sa.Heads) else sa.head
    return call(inside.T, node.index, axis=1 - axis).T


def _there_and_back(draw: st.DrawFn, node: Node) -> Node | None:
    """Block i of all heads is head i."""
    if not node.indices:
        return None
    index, axis = draw(st.sampled_from(node.indices)), draw(st.sampled_from((0, 1)))
    return sa.head(sa.heads(node, index, axis=axis), index, axis=axis)


REWRITINGS: tuple[Rewriting, ...] = (
    *(_sum_of_heads, _sum_taken_in, _turned_heads, _there_and_back),
    _reversed_product,
    _distributed,
    _reassociated,
    _reordered,
    _softmax_of_transpose,
    _shifted_softmax,
    _softmax_by_definition,
    _mask_of_complements,
    _masked_twice,
    _moved_scalar,
    _rewritten_function,
    _exp_of_sum,
    _times_identity,
    _negated,
    _added_and_taken_away,
    lambda draw, node: node.T.T,
)


def _tried(rewriting: Rewriting, draw: st.DrawFn, part: Node) -> Node | None:
    """Another way of writing a part, or None where an additive mask cannot be written so."""
    try:
        return rewriting(draw, part)
    except (MinusInfinityError, AxisError):
        return None


@st.composite
def rewritten(
    draw: st.DrawFn, root: Node, by: Sequence[Rewriting], *, times: int = 1
) -> Node | None:
    """Draw the formula with up to so many rewritings, each of a part; None if none applies."""
    changed = False
    for _ in range(times):
        choices = [
            (part, new)
            for part in draw(st.permutations(list(root.walk())))[:4]
            for rewriting in draw(st.permutations(by))[:6]
            if (new := _tried(rewriting, draw, part)) is not None
        ]
        if choices:
            root = with_part(root, *draw(st.sampled_from(choices)))
            changed = True
    return root if changed else None


@st.composite
def equal_pairs(draw: st.DrawFn, depth: int = 3, *, times: int = 2) -> tuple[Node, Node]:
    """Draw a formula and another way of writing it, equal wherever both have values."""
    root = draw(expressions(depth))
    other = draw(rewritten(root, REWRITINGS, times=times))
    return root, other if other is not None else root.T.T


# Mistakes.


def _other_axis(draw: st.DrawFn, node: Node) -> Node | None:
    if isinstance(node, sa.Softmax):
        return sa.softmax(node.matrices[0], axis=1 - node.axis, mask=node.mask)
    return None


def _other_mask(draw: st.DrawFn, node: Node) -> Node | None:
    if not isinstance(node, sa.Softmax):
        return None
    return sa.softmax(node.matrices[0], axis=node.axis, mask=draw(st.none() | masks()))


def _dropped_mask(draw: st.DrawFn, node: Node) -> Node | None:
    return node.finite_and_masks()[0] if isinstance(node, sa.MatrixSum) else None


def _dropped_scale(draw: st.DrawFn, node: Node) -> Node | None:
    if isinstance(node, sa.Quotient | sa.Negated):
        return node.matrices[0]
    if isinstance(node, sa.MatrixProduct) and len(node.matrices) == 1 != len(node.operands):
        return node.matrices[0]
    return None


def _other_scale(draw: st.DrawFn, node: Node) -> Node | None:
    if not isinstance(node, sa.Quotient):
        return None
    return node.matrices[0] / draw(st.sampled_from(DIVISORS))


def _transposed_weight(draw: st.DrawFn, node: Node) -> Node | None:
    square = node.sizes[0] == node.sizes[1]
    return node.T if square and isinstance(node, sa.InputMatrix) else None


def _other_input(draw: st.DrawFn, node: Node) -> Node | None:
    if not node.is_input:
        return None
    others = [leaf for leaf in leaves(shape_of(node)) if leaf != node]
    return draw(st.sampled_from(others))


def _other_sign(draw: st.DrawFn, node: Node) -> Node | None:
    if not isinstance(node, sa.MatrixSum):
        return None
    *terms, last = node.matrices
    kept = sum(terms[1:], terms[0])
    return kept + last.matrices[0] if isinstance(last, sa.Negated) else kept - last


def _other_function(draw: st.DrawFn, node: Node) -> Node | None:
    if not isinstance(node, sa.Elementwise):
        return None
    names = {"tanh", "sin", "exp", "sigmoid", "relu", "psi"} - {node.function}
    return sa.function(draw(st.sampled_from(sorted(names))))(node.matrices[0])


def _sum_for_product(draw: st.DrawFn, node: Node) -> Node | None:
    if isinstance(node, sa.Hadamard):
        return sum(node.matrices[1:], node.matrices[0])
    return sa.hadamard(*node.matrices) if isinstance(node, sa.MatrixSum) else None


def _softmax_of_terms(draw: st.DrawFn, node: Node) -> Node | None:
    """softmax(S + B) for softmax(S) + softmax(B), and likewise for other functions."""
    if not isinstance(node, sa.Softmax | sa.Elementwise):
        return None
    (inside,) = node.matrices
    if not isinstance(inside, sa.MatrixSum):
        return None
    terms = [node.rebuilt(lambda _, term=term: term) for term in inside.matrices]
    return sum(terms[1:], terms[0])


def _swapped_factors(draw: st.DrawFn, node: Node) -> Node | None:
    if not (isinstance(node, sa.MatrixProduct) and len(node.matrices) == 2 == len(node.operands)):
        return None
    left, right = node.matrices
    square = len({*left.sizes, *right.sizes}) == 1
    return right @ left if square else None


def _identity_for_ones(draw: st.DrawFn, node: Node) -> Node | None:
    if isinstance(node, sa.Ones) and node.sizes[0] == node.sizes[1] != Size.of(1):
        return sa.identity(shape_of(node)[0])
    return None


def _other_letter(draw: st.DrawFn, node: Node) -> Node | None:
    """Another head than the one that is meant; it may be one that is bound further out."""
    if not isinstance(node, sa.Member | sa.Head) or len(node.reads) != 1:
        return None
    (other,) = (letter for letter in LETTERS if letter != node.reads[0])
    if isinstance(node, sa.Head):
        return sa.head(node.matrices[0], other, axis=node.axis)
    return node.source[other]


def _sums_of_factors(draw: st.DrawFn, node: Node) -> Node | None:
    """Σ A_i Σ B_i for Σ A_i B_i."""
    if not isinstance(node, sa.SumOver):
        return None
    (inside,) = node.matrices
    if not isinstance(inside, sa.MatrixProduct | sa.Hadamard) or len(inside.matrices) != 2:
        return None
    terms = iter([sa.sum_over(factor, node.index) for factor in inside.matrices])
    return inside.rebuilt(lambda _: next(terms))


def _uncounted(draw: st.DrawFn, node: Node) -> Node | None:
    """What does not depend on i for Σ_i of it."""
    if not isinstance(node, sa.SumOver) or node.index in node.matrices[0].indices:
        return None
    return node.matrices[0]


MISTAKES: tuple[Rewriting, ...] = (
    *(_other_letter, _other_letter, _sums_of_factors, _uncounted),
    _other_axis,
    _other_mask,
    _dropped_mask,
    _dropped_scale,
    _other_scale,
    _transposed_weight,
    _other_input,
    _other_sign,
    _other_function,
    _sum_for_product,
    _softmax_of_terms,
    _swapped_factors,
    _identity_for_ones,
)


@st.composite
def mutated_pairs(draw: st.DrawFn, depth: int = 3, *, times: int = 1) -> tuple[Node, Node]:
    """Draw a formula and one with a mistake in it, perhaps rewritten too: they are rarely equal."""
    root = draw(expressions(depth))
    other = draw(rewritten(root, MISTAKES, times=times))
    if other is None:
        return root, sa.tanh(root)
    return root, draw(rewritten(other, REWRITINGS)) or other


def pairs(depth: int = 3) -> st.SearchStrategy[tuple[Node, Node]]:
    """Draw two formulas of one shape: one rewritten, one mistaken, or two that are unrelated."""
    return st.one_of(
        equal_pairs(depth),
        mutated_pairs(depth),
        shapes().flatmap(
            lambda shape: st.tuples(expressions(depth, shape), expressions(depth, shape))
        ),
    )
