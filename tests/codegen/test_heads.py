"""Generated functions of several heads: axes, batches, masks, dtypes, and what is refused.

The right numbers are einsums and plain loops over heads, written here.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import sympy

import symattn as sa
from symattn.evaluate import evaluate
from symattn.nodes.core import Node

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.usefixtures("each_plan")

h, g, r, d_k, d_v, d, n, m = sa.dims("h g r d_k d_v d n m")
i, a, b, k = sa.index("i", h), sa.index("a", g), sa.index("b", r), sa.index("k", h)
SIZES = {"h": 3, "g": 2, "r": 5, "d_k": 4, "d_v": 6, "d": 7, "n": 8, "m": 9}
X, Y = sa.matrix("X", n, d), sa.matrix("Y", m, d)
W_Q, W_K, W_V = (
    sa.family(f"W_{c}", h, d, size) for c, size in zip("QKV", (d_k, d_k, d_v), strict=True)
)
S, F = sa.family("S", h, n, m), sa.family("F", (g, r), n, m)

Q, K, V = X @ W_Q[i], Y @ W_K[i], Y @ W_V[i]
SCORES = Q @ K.T / sa.sqrt(d_k)
HEAD = sa.softmax(SCORES, axis=1) @ V
INPUTS = (X, Y, W_Q, W_K, W_V)


def arrays(*sources: Any, batches: Sequence[tuple[int, ...]] = ((),), seed: int = 0) -> list[Array]:
    random = np.random.default_rng(seed)
    return [
        random.normal(
            size=batches[at % len(batches)] + tuple(size.value(SIZES) for size in source.sizes)
        )
        for at, source in enumerate(sources)
    ]


def run(node: Node, *values: Array, **sizes: int) -> Array:
    return sa.lambdify(node.inputs(), node)(*values, **sizes)


def softmax(scores: Array, allowed: Array | bool = True) -> Array:
    e = np.where(allowed, np.exp(scores), 0.0)
    total = e.sum(axis=-1, keepdims=True)
    return np.divide(e, total, out=np.zeros_like(e), where=total > 0)


def attention(x: Array, y: Array, wq: Array, wk: Array, wv: Array, allowed: Any = True) -> Array:
    """Every head, without a batch: h n d_v."""
    return np.stack(
        [
            softmax((x @ q) @ (y @ key).T / np.sqrt(q.shape[1]), allowed) @ (y @ v)
            for q, key, v in zip(wq, wk, wv, strict=True)
        ]
    )


def side_by_side(heads: Array) -> Array:
    return np.concatenate(list(heads), axis=1)


# Axes.


def test_an_open_index_is_an_axis_in_front_of_rows_and_columns() -> None:
    x, y, *weights = arrays(*INPUTS)
    found = sa.lambdify(INPUTS, HEAD)(x, y, *weights)
    assert found.shape == (3, 8, 6)
    np.testing.assert_allclose(found, attention(x, y, *weights), rtol=1e-12, atol=1e-13)


def test_unbatched_shapes() -> None:
    """No axis is left over where no input has a batch."""
    s, f = arrays(S, F)
    u = np.arange(24.0 * 9).reshape(24, 9)
    U = sa.matrix("U", h * n, m)
    for node, given, shape in (
        (sa.heads(S[i], i, axis=0), s, (24, 9)),
        (sa.heads(S[i], i, axis=1), s, (8, 27)),
        (sa.sum_over(S[i], i), s, (8, 9)),
        (S[i], s, (3, 8, 9)),
        (F[a, b], f, (2, 5, 8, 9)),
        (sa.sum_over(F[a, b], a), f, (5, 8, 9)),
        (sa.sum_over(F[a, b], b), f, (2, 8, 9)),
        (sa.heads(sa.heads(F[a, b], b, axis=0), a, axis=1), f, (40, 18)),
        (sa.sum_over(F[a, b] @ F[a, b].T, b), f, (2, 8, 8)),
    ):
        assert run(node, given).shape == shape
    assert run(sa.head(U, i, axis=0), u, h=3).shape == (3, 8, 9)
    assert run(sa.sum_over(sa.head(U, i, axis=0), i), u, h=3).shape == (8, 9)


def test_heads_are_stacked_head_after_head() -> None:
    (s,) = arrays(S)
    np.testing.assert_array_equal(run(sa.heads(S[i], i, axis=0), s), np.vstack(list(s)))
    np.testing.assert_array_equal(run(sa.heads(S[i], i, axis=1), s), np.hstack(list(s)))
    U, u = sa.matrix("U", m, h * n), np.arange(9.0 * 24).reshape(9, 24)
    block = run(sa.head(U, i, axis=1), u, h=3)
    np.testing.assert_array_equal(block, np.stack(np.hsplit(u, 3)))
    block = run(sa.head(U.T, i, axis=0), u, h=3)
    np.testing.assert_array_equal(block, np.stack(np.vsplit(u.T, 3)))


ORDERS = {
    "a then b": sa.heads(sa.heads(F[a, b], b, axis=0), a, axis=0),
    "b then a": sa.heads(sa.heads(F[a, b], a, axis=0), b, axis=0),
}


@pytest.mark.parametrize("order", ORDERS)
def test_several_indices_in_either_order(order: str) -> None:
    (f,) = arrays(F, batches=[(2, 3)])
    axes = [0, 1] if order == "a then b" else [1, 0]
    found = run(ORDERS[order], f)
    for at in np.ndindex(2, 3):
        expected = f[at].transpose(*axes, 2, 3).reshape(-1, 9)
        np.testing.assert_array_equal(found[at], expected)


def test_a_family_that_is_read_in_another_order_than_another() -> None:
    """The axes of its array are moved to where those of the other are."""
    G = sa.family("G", (r, g), m, n)
    f, other = arrays(F, G, batches=[(4,), (1,)])
    pair = F[a, b] @ G[b, a]
    assert "moveaxis" in sa.lambdify((F, G), pair).source
    products = np.einsum("zabnm,zbamk->zabnk", f, np.broadcast_to(other, (4, *other.shape[1:])))
    np.testing.assert_allclose(run(pair, f, other), products, rtol=1e-12, atol=1e-13)
    stacked = sa.heads(sa.heads(pair, b, axis=0), a, axis=1)
    expected = products.transpose(0, 2, 3, 1, 4).reshape(4, 40, 16)
    np.testing.assert_allclose(run(stacked, f, other), expected, rtol=1e-12, atol=1e-13)
    total = sa.sum_over(sa.sum_over(pair, a), b)
    np.testing.assert_allclose(run(total, f, other), products.sum((1, 2)), rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(run(G[b, a], other), other)  # alone, it is as it is given


def test_operands_that_lack_an_index_are_the_same_for_all_of_it() -> None:
    f, s, x = arrays(F, S, X, batches=[(2, 1), (3,), ()])
    A = sa.matrix("A", n, m)
    (y,) = arrays(A, seed=5)
    node = F[a, b] + S[i] + A
    found = sa.lambdify((F, S, A), node)(f, s, y)
    assert found.shape == (2, 3, 2, 5, 3, 8, 9)
    expected = f[:, :, :, :, None] + s[None, :, None, None] + y
    np.testing.assert_allclose(found, expected)
    product = sa.hadamard(S[i], F[a, b]) @ A.T
    found = sa.lambdify((S, F, A), product)(s, f, y)
    expected = (s[None, :, :, None, None] * f[:, :, None]) @ y.T
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    assert x.shape == (8, 7)


def test_over_an_index_that_the_body_does_not_contain() -> None:
    A = sa.matrix("A", n, m)
    (x,) = arrays(A, batches=[(2,)])
    np.testing.assert_allclose(run(sa.sum_over(A, i), x, h=3), 3 * x)
    stacked = run(sa.heads(A, i, axis=0), x, h=3)
    np.testing.assert_array_equal(stacked, np.concatenate([x, x, x], axis=1))
    beside = run(sa.heads(A, i, axis=1), x, h=3)
    np.testing.assert_array_equal(beside, np.concatenate([x, x, x], axis=2))
    (s,) = arrays(S)
    np.testing.assert_allclose(run(sa.sum_over(S[i], a), s, g=2), 2 * s)
    np.testing.assert_allclose(run(sa.sum_over(sa.sum_over(S[i], i), i), s), 3 * s.sum(0))


def test_bound_within_and_free_around() -> None:
    square = sa.family("S", h, n, n)
    s = np.random.default_rng(1).normal(size=(2, 3, 8, 8))
    total = sa.sum_over(square[i], i)
    found = run(square[i] @ total, s)
    np.testing.assert_allclose(found, s @ s.sum(axis=1, keepdims=True), rtol=1e-12, atol=1e-13)
    found = run(sa.sum_over(square[i] @ total, i), s)
    np.testing.assert_allclose(found, s.sum(axis=1) @ s.sum(axis=1), rtol=1e-12, atol=1e-13)
    found = run(sa.heads(square[i], i, axis=1) @ sa.heads(square[k].T, k, axis=0), s)
    np.testing.assert_allclose(found, (s @ s.mT).sum(axis=1), rtol=1e-12, atol=1e-13)


def test_two_letters_over_one_family() -> None:
    (s,) = arrays(S, batches=[(2,)])
    found = run(S[i] @ S[k].T, s)
    assert found.shape == (2, 3, 3, 8, 8)
    np.testing.assert_allclose(found, np.einsum("zinm,zkpm->ziknp", s, s), rtol=1e-12, atol=1e-13)
    found = run(sa.sum_over(S[i] @ S[k].T, i), s)
    np.testing.assert_allclose(found, np.einsum("zinm,zkpm->zknp", s, s), rtol=1e-12, atol=1e-13)


def test_a_block_of_what_is_another_matrix_at_each_index() -> None:
    """Block i of the matrix of head i: a diagonal of the two axes of heads."""
    T = sa.family("T", (g, h), h * n, m)
    t = np.random.default_rng(2).normal(size=(4, 2, 3, 24, 9))
    expected = np.stack([t[:, :, at, at * 8 : at * 8 + 8] for at in range(3)], axis=2)
    np.testing.assert_array_equal(run(sa.head(T[a, i], i, axis=0), t), expected)
    found = run(sa.heads(sa.head(T[a, i], i, axis=0), a, axis=0), t)
    np.testing.assert_array_equal(found, expected.transpose(0, 2, 1, 3, 4).reshape(4, 3, 16, 9))
    found = run(sa.head(T[a, i].T, i, axis=1), t)
    np.testing.assert_array_equal(found, expected.mT)
    found = run(sa.head(T[a, k], i, axis=0), t)  # both are free
    assert found.shape == (4, 2, 3, 3, 8, 9)
    order = [str(index) for index in sa.head(T[a, k], i, axis=0).indices]
    assert order == ["a", "k", "i"]
    for one, other in np.ndindex(3, 3):
        np.testing.assert_array_equal(
            found[:, :, one, other], t[:, :, one, other * 8 : other * 8 + 8]
        )


# Every other operation, of what is another matrix for each head.

B = sa.family("B", h, n, n)
v, W, b_W = sa.family("v", h, d_v, 1), sa.family("W", h, d_v, d_k), sa.family("b", h, d_v, 1)
QUERIES, KEYS = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m)
OF_HEADS, KEYS_OF_HEADS = sa.family("Q", h, d_k, n), sa.family("K", h, d_k, m)


def additive(q: Any, key: Any) -> Any:
    return v[i].T @ sa.tanh(W[i] @ q - W[i] @ key)


OTHERS: dict[str, Node] = {
    "scores of pairs": sa.pairwise(additive, QUERIES, KEYS),
    "scores of pairs of heads": sa.pairwise(additive, OF_HEADS[i], KEYS_OF_HEADS[i]),
    "scores of pairs of other heads": sa.pairwise(additive, OF_HEADS[k], KEYS_OF_HEADS[i]),
    "scores in rows": sa.pairwise(additive, OF_HEADS[k].T, KEYS_OF_HEADS[i].T, layout="row"),
    "scores of a stack": sa.pairwise(
        lambda q, key: v[i].T @ sa.tanh(sa.concat(W[i] @ q, W[k] @ key, axis=1) @ sa.ones(2, 1)),
        QUERIES,
        KEYS,
    ),
    "a bias for each head": sa.heads(W[i] @ QUERIES + b_W[i] @ sa.ones(1, n), i, axis=0),
    "a bias alone": sa.matrix("A", d_k, n) + OF_HEADS[i] @ sa.ones(n, 1) @ sa.ones(1, n),
    "a factor for each row": sa.hadamard(W[i] @ QUERIES, b_W[k] @ sa.ones(1, n)),
    "positions": sa.positional(lambda row, column: row - 2 * column, n, n) + B[i],
    "stacked": sa.concat(B[i], B[k], sa.identity(n), axis=1),
    "maximum": sa.max(B[i], axis=0) @ B[k],
    "indicator": sa.hadamard(sa.indicator(sa.causal("top_left"), n, n, axis=1), B[i]),
    "constants": sa.identity(n) + sa.sum_over(sa.ones(n, n), i) - B[k],
    "blocks of constants": sa.sum_over(sa.head(sa.ones(h * n, n), i, axis=0) @ B[i], i),
    "signs": -B[i] - (-B[k]),
    "a softmax, turned": sa.heads(B[i].T, i, axis=1)
    @ sa.heads(sa.softmax(B[i], axis=1), i, axis=0),
    "scalars": 2 * B[i] / n @ sa.sqrt(n) @ B[k],
}


@pytest.mark.parametrize("name", OTHERS)
def test_every_other_operation_of_heads(name: str) -> None:
    """Against the evaluator, which computes one head after another."""
    node = OTHERS[name]
    given = arrays(*node.inputs())
    by_input = dict(zip(node.inputs(), given, strict=True))
    known = {tag: SIZES[tag] for tag in node.tags}
    shape = tuple(index.size.value(SIZES) for index in node.indices)
    found = run(node, *given, **known)
    batched = run(node, *(np.stack([x, x / 2]) for x in given[:1]), *given[1:], **known)
    assert found.shape == shape + tuple(size.value(SIZES) for size in node.sizes)
    for at in np.ndindex(*shape):
        values = dict(zip(node.indices, at, strict=True))
        expected = np.array(evaluate(node, SIZES, by_input, indices=values), dtype=float)
        np.testing.assert_allclose(found[at], expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(batched[0][at], expected, rtol=1e-10, atol=1e-12)
    plain = sympy.lambdify([*node.inputs(), *map(sa.dim, SIZES)], node, "numpy")
    np.testing.assert_allclose(plain(*given, *SIZES.values()), found, rtol=1e-12, atol=1e-14)


def test_heads_that_are_put_together_inside_a_score_are_refused() -> None:
    """They are evaluated and proved; code for them would need their axes among those of pairs."""
    for score in (
        lambda q, key: sa.sum_over(additive(q, key), i),
        lambda q, key: sa.ones(1, h * d_v) @ sa.heads(W[i] @ (q + key), i, axis=0),
        lambda q, key: sa.sum_over(sa.head(q, sa.index("c", d_k), axis=0), sa.index("c", d_k)),
    ):
        node = sa.pairwise(score, QUERIES, KEYS)
        with pytest.raises(
            sa.NotSupportedError, match="heads that are put together inside a score"
        ):
            sa.lambdify(node.inputs(), node)


# Batches.


@pytest.mark.parametrize(
    "batches",
    [
        [()],
        [(2,)],
        [(2, 1), (), (3,), (1, 1), (2, 3)],
        [(), (), (2,), (2,), (2,)],
        [(1,), (2,), (), (), ()],
        [(3, 3), (3,), (), (1, 3), ()],  # as many as there are heads
    ],
    ids=str,
)
def test_leading_axes_broadcast_between_data_and_families(batches: Any) -> None:
    given = arrays(*INPUTS, batches=batches)
    before = [array.copy() for array in given]
    batch = np.broadcast_shapes(*batches)
    for node, whole in (
        (sa.heads(HEAD, i, axis=1), side_by_side),
        (sa.sum_over(HEAD, i), lambda heads: heads.sum(axis=0)),
        (HEAD, lambda heads: heads),
    ):
        found = sa.lambdify(INPUTS, node)(*given)
        assert found.shape[: len(batch)] == batch
        for at in itertools.product(*map(range, batch)):
            one = [
                np.broadcast_to(x, batch + x.shape[x.ndim - len(source.sizes) :])[at]
                for x, source in zip(given, INPUTS, strict=True)
            ]
            expected = whole(attention(*one))
            assert found[at].shape == expected.shape
            np.testing.assert_allclose(found[at], expected, rtol=1e-10, atol=1e-12)
    for array, copy in zip(given, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_a_batch_of_one_input_alone_is_that_of_the_result() -> None:
    """An operand without a batch is not overwritten by one that has a batch."""
    C = sa.family("C", h, n, m)
    node = sa.softmax(S[i] + C[i] - sa.sum_over(S[i], i), axis=1)
    s, c = arrays(S, C, batches=[(), (4,)])
    expected = softmax(s + c - s.sum(0))
    np.testing.assert_allclose(sa.lambdify((S, C), node)(s, c), expected, rtol=1e-12, atol=1e-13)


def test_inputs_are_never_written_and_never_returned() -> None:
    for node in (S[i], sa.heads(S[i], i, axis=0), sa.head(sa.matrix("U", h * n, m), i, axis=0)):
        (given,) = arrays(*node.inputs())
        before = given.copy()
        given.flags.writeable = False
        found = run(node, given, **({} if node.inputs() == (S,) else {"h": 3}))
        assert not np.shares_memory(found, given)
        found += 1
        np.testing.assert_array_equal(given, before)


U = sa.matrix("U", h * n, m)
T = sa.family("T", h, h * n, m)
VIEWS = {
    "stacked": sa.heads(S[i], i, axis=0),
    "side by side": sa.heads(S[i], i, axis=1),
    "of one": sa.heads(sa.family("S", 1, n, m)[sa.index("i", 1)], sa.index("i", 1), axis=0),
    "the same for one": sa.heads(sa.matrix("A", n, m), sa.index("i", 1), axis=0),
    "block of rows": sa.head(U, i, axis=0),
    "block of columns": sa.head(U.T, i, axis=1),
    "diagonal block": sa.head(T[i], i, axis=0),
    "reshaped": sa.reshape(U, h * m, n),
    "transposed": sa.head(U, i, axis=0).T,
    "of a view": sa.heads(sa.head(U, i, axis=0), i, axis=0),
    "of a view, turned": sa.reshape(sa.heads(sa.head(U, i, axis=0).T, i, axis=0), m * h, n),
    "made here": sa.heads(sa.head(U + U, i, axis=0), i, axis=1),
    "made here, a diagonal": sa.head(T[i] + T[i], i, axis=0),
    "made here, for one": sa.heads(sa.tanh(sa.matrix("A", n, m)), sa.index("i", 1), axis=0),
}


@pytest.mark.parametrize("name", VIEWS)
def test_what_lies_in_the_memory_of_an_input_is_not_written(name: str) -> None:
    """NumPy hands out views where it can: nothing is computed in their memory."""
    view = VIEWS[name]
    (given,) = arrays(*view.inputs())
    before = given.copy()
    sizes = {} if "h" not in view.tags or view.inputs() == (S,) else {"h": 3}
    plain = run(view, given, **sizes)
    assert plain.flags.writeable
    assert not np.shares_memory(plain, given)
    plain = plain.copy()
    for node, expected in (
        (view / 2, plain / 2),
        (sa.tanh(view), np.tanh(plain)),
        (sa.softmax(view, axis=1), softmax(plain)),
        (view + view / 2, plain * 1.5),
        (sa.hadamard(view, sa.exp(view)), plain * np.exp(plain)),
        (-view, -plain),
        (view @ 2, 2 * plain),
    ):
        found = run(node, given, **sizes)
        np.testing.assert_array_equal(given, before)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
        assert found.flags.writeable


def test_strided_and_read_only_inputs() -> None:
    given = arrays(*INPUTS, batches=[(2,)])
    expected = sa.lambdify(INPUTS, sa.heads(HEAD, i, axis=1))(*given)
    turned = [np.asfortranarray(x[::-1])[::-1] for x in given]
    wide = [np.broadcast_to(x[:1], x.shape) for x in given]
    for x in (*turned, *wide):
        x.flags.writeable = False
    f = sa.lambdify(INPUTS, sa.heads(HEAD, i, axis=1))
    np.testing.assert_allclose(f(*turned), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(f(*wide)[1], expected[0], rtol=1e-12, atol=1e-13)


# Masks.


def masked(mask: Any) -> Node:
    return sa.heads(sa.softmax(SCORES, axis=1, mask=mask) @ V, i, axis=1)


@pytest.mark.parametrize("batch", [(), (2,), (3,), (3, 2)])
def test_a_matrix_of_booleans_holds_for_every_head(batch: tuple[int, ...]) -> None:
    given = arrays(*INPUTS)
    keep = np.random.default_rng(3).random((*batch, 8, 9)) < 0.6
    keep[..., 2, :] = False
    found = sa.lambdify(INPUTS, masked(sa.keep()))(*given, keep=keep)
    assert found.shape == (*batch, 8, 18)
    for at in np.ndindex(*batch):
        expected = side_by_side(attention(*given, allowed=keep[at]))
        np.testing.assert_allclose(found[at], expected, rtol=1e-10, atol=1e-12)
    assert not found[..., 2, :].any()


@pytest.mark.parametrize("batch", [(), (2,), (3,), (3, 2)])
def test_a_boolean_for_each_key_holds_for_every_head(batch: tuple[int, ...]) -> None:
    given = arrays(*INPUTS, batches=[(1,), (1,), ()])
    padding = np.random.default_rng(4).random((*batch, 9)) < 0.6
    found = sa.lambdify(INPUTS, masked(sa.padding()))(*given, padding=padding)
    one = [given[0][0], given[1][0], given[2], given[3][0], given[4][0]]
    assert found.shape == (*(batch or (1,)), 8, 18)
    for at in np.ndindex(*batch):
        expected = side_by_side(attention(*one, allowed=padding[at]))
        np.testing.assert_allclose(
            found[at] if batch else found[0], expected, rtol=1e-10, atol=1e-13
        )


def test_a_mask_over_columns() -> None:
    """Column layout: the booleans are queries by keys all the same."""
    given = arrays(*INPUTS)
    turned = [x.mT for x in given]
    Xc, Yc = sa.matrix("X", d, n), sa.matrix("Y", d, m)
    Q, K, V = (
        sa.family(f"W_{c}", h, size, d)[i] @ x
        for c, size, x in (("Q", d_k, Xc), ("K", d_k, Yc), ("V", d_v, Yc))
    )
    P = sa.softmax(K.T @ Q / sa.sqrt(d_k), axis=0, mask=sa.keep() & sa.padding())
    node = sa.heads(V @ P, i, axis=0)
    random = np.random.default_rng(5)
    keep, padding = random.random((2, 8, 9)) < 0.7, random.random((2, 9)) < 0.7
    found = sa.lambdify(node.inputs(), node)
    order = {"X": 0, "Y": 1, "W_Q": 2, "W_K": 3, "W_V": 4}
    result = found(*(turned[order[x.label]] for x in node.inputs()), keep=keep, padding=padding)
    for at in range(2):
        allowed = keep[at] & padding[at]
        expected = side_by_side(attention(*given, allowed=allowed)).T
        np.testing.assert_allclose(result[at], expected, rtol=1e-10, atol=1e-12)


def test_causal_heads() -> None:
    x, _, *weights = arrays(*INPUTS)
    Q, K, V = (X @ W[i] for W in (W_Q, W_K, W_V))
    P = sa.softmax(Q @ K.T / sa.sqrt(d_k), axis=1, mask=sa.causal("top_left"))
    node = sa.heads(P @ V, i, axis=1)
    found = sa.lambdify((X, W_Q, W_K, W_V), node)(x, *weights)
    expected = side_by_side(attention(x, x, *weights, allowed=np.tri(8, dtype=bool)))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_masked_out_does_not_leak(value: float) -> None:
    """The scores and values of a key that nobody may attend to are of no matter, in any head."""
    q, keys, v = sa.family("Q", h, n, d_k), sa.family("K", h, m, d_k), sa.family("V", h, m, d_v)
    P = sa.softmax(q[i] @ keys[i].T / sa.sqrt(d_k), axis=1, mask=sa.padding())
    f = sa.lambdify((q, keys, v), sa.heads(P @ v[i], i, axis=1))
    given = arrays(q, keys, v, batches=[(), (2,), (2,)])
    padding = np.arange(9) != 4
    expected = f(*given, padding=padding)
    given[1][:, 1, 4] = value
    given[2][:, 2, 4] = value
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(f(*given, padding=padding), expected, rtol=1e-12, atol=1e-13)
        # And of a key that counts it reaches its own head alone.
        given[2][1, 2, 3, 0] = value
        leaked = ~np.isfinite(f(*given, padding=padding))
    there = np.zeros_like(leaked)
    there[1, :, 12] = True  # batch 1, head 2, feature 0
    np.testing.assert_array_equal(leaked, there)


def test_what_is_masked_out_does_not_leak_through_all_heads_at_once() -> None:
    """Weights of all heads side by side, of one block of them, and their sum."""
    values = sa.matrix("V", h * m, d_v)
    P = sa.softmax(S[i], axis=1, mask=sa.padding())
    Z = sa.matrix("Z", m, d_v)
    beside = sa.heads(P, i, axis=1) @ values
    block = sa.head(sa.heads(P, i, axis=1), k, axis=1) @ Z
    total = sa.sum_over(P, i) @ Z
    padding = np.arange(9) != 4
    for node, rows in ((beside, [4, 13, 22]), (block, [4]), (total, [4])):
        f = sa.lambdify(node.inputs(), node)
        given = arrays(*node.inputs())
        expected = f(*given, padding=padding)
        given[1][rows] = np.nan
        np.testing.assert_allclose(f(*given, padding=padding), expected, rtol=1e-12, atol=1e-13)
        given[1][3] = np.nan  # this one counts
        assert np.isnan(f(*given, padding=padding)).all()


# Numbers.


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float16", 4e-3)])
def test_dtypes_are_kept(dtype: str, tolerance: float) -> None:
    given = [(x / 3).astype(dtype) for x in arrays(*INPUTS, batches=[(2,), ()])]
    for node in (sa.heads(HEAD, i, axis=1), sa.sum_over(HEAD, i), HEAD):
        found = sa.lambdify(INPUTS, node)(*given)
        exact = sa.lambdify(INPUTS, node)(*(x.astype(np.float64) for x in given))
        assert found.dtype == dtype
        np.testing.assert_allclose(found, exact, rtol=tolerance, atol=tolerance)


def test_a_sum_over_an_index_that_is_not_there_keeps_the_dtype() -> None:
    x = np.ones((8, 9), np.float32)
    for node in (sa.sum_over(sa.matrix("A", n, m), i), sa.heads(sa.matrix("A", n, m), i, axis=0)):
        assert run(node, x, h=3).dtype == np.float32


ZEROS = [("h", (8, 0)), ("n", (0, 18)), ("m", (8, 18)), ("d", (8, 18)), ("d_k", (8, 18))]


@pytest.mark.parametrize(("empty", "shape"), ZEROS)
def test_empty_axes(empty: str, shape: tuple[int, int]) -> None:
    sizes = {**SIZES, empty: 0}
    given = [np.ones([size.value(sizes) for size in source.sizes]) for source in INPUTS]
    with np.errstate(divide="ignore", invalid="ignore"):
        found = sa.lambdify(INPUTS, sa.heads(HEAD, i, axis=1))(*given) if empty != "d_k" else None
    if found is not None:
        assert found.shape == shape
        if empty == "m":
            assert not found.any()
        if empty == "d":
            assert not found.any()  # values are sums of nothing


def test_no_heads_sum_to_zero() -> None:
    total = run(sa.sum_over(S[i], i), np.ones((2, 0, 8, 9)))
    np.testing.assert_array_equal(total, np.zeros((2, 8, 9)))
    assert run(sa.heads(S[i], i, axis=1), np.ones((2, 0, 8, 9))).shape == (2, 8, 0)
    assert run(sa.heads(S[i], i, axis=0), np.ones((2, 3, 8, 0))).shape == (2, 24, 0)
    assert (
        run(sa.sum_over(sa.matrix("A", n, m), i), np.ones((8, 9)), h=0).tolist() == [[0.0] * 9] * 8
    )


def test_one_head() -> None:
    one = sa.index("i", 1)
    A = sa.family("A", 1, n, m)[one]
    (x,) = arrays(A.source)
    assert x.shape == (1, 8, 9)
    np.testing.assert_array_equal(run(sa.heads(A, one, axis=0), x), x[0])
    np.testing.assert_array_equal(run(sa.sum_over(A, one), x), x[0])
    np.testing.assert_array_equal(run(A, x), x)
    np.testing.assert_array_equal(run(sa.head(sa.matrix("B", n, m), one, axis=1), x[0]), x)


def test_a_reshape_in_a_batch() -> None:
    (x,) = arrays(S, batches=[(2,)])
    found = run(sa.reshape(S[i], m, n), x)
    np.testing.assert_array_equal(found, x.reshape(2, 3, 9, 8))
    found = run(sa.reshape(sa.heads(S[i], i, axis=0), h * m, n), x)
    np.testing.assert_array_equal(found, x.reshape(2, 27, 8))


# What is refused.


def test_shapes_that_do_not_fit() -> None:
    f = sa.lambdify((W_Q, W_K), sa.sum_over(W_Q[i] + W_K[i], i))
    w = np.ones((3, 7, 4))
    with pytest.raises(sa.InputShapeError) as refused:
        f(w, np.ones((2, 7, 4)))
    assert str(refused.value).splitlines() == [
        "h = 3 from W_Q's heads, but 2 from W_K's heads",
        "  W_Q (…, h, d, d_k) has shape (3, 7, 4)",
        "  W_K (…, h, d, d_k) has shape (2, 7, 4)",
    ]
    with pytest.raises(sa.InputShapeError) as refused:
        f(w, np.ones((7, 4)))
    assert str(refused.value).splitlines()[0] == "W_K needs at least three axes, but has two"
    with pytest.raises(sa.InputShapeError, match=r"has shape \(3, 7, 4\), which fits W_Qᵀ"):
        f(w, np.ones((3, 4, 7)))


def test_a_number_of_heads_that_does_not_fit() -> None:
    f = sa.formula("packed_multi_head", "row", bias=False)
    run = sa.lambdify(f.inputs, f)
    given = [np.ones((5, 12)), *[np.ones((12, 12))] * 4]
    assert run(*given, h=3).shape == (5, 12)
    assert run(*given, d_k=3).shape == (5, 12)
    for wrong, first in (
        (5, "the relation d_model = h*d_k leaves a remainder: 12 divided by "
            "5 leaves 2, with d_model = 12 (X's columns), h = 5 (the sizes given)"),
        (0, "the relation d_model = h*d_k does not fit: not with d_model = "
            "12 (X's columns), h = 0 (the sizes given)"),
    ):  # fmt: skip
        with pytest.raises(sa.InputShapeError) as refused:
            run(*given, h=wrong)
        assert str(refused.value).splitlines()[0] == first
    with pytest.raises(sa.InputShapeError, match="not determined by the sizes at hand: h, d_k"):
        run(*given)
    for wrong in (-1, 2.0, "3", True):
        with pytest.raises(sa.SymattnError):
            run(*given, h=wrong)


def test_families_are_inputs_and_members_are_not() -> None:
    node = sa.sum_over(S[i], i)
    for inputs, problem in (
        ([S[i]], "S[i] is one of a family; give the family, S"),
        ([], "S ∈ M^{h×n×m} is in the formula, but not among the inputs"),
        ([S, S], "S ∈ M^{h×n×m} is given twice"),
        ([S, W_Q], "W_Q ∈ M^{h×d×d_k} is among the inputs, but not in the formula"),
        (S, "S stands alone; give a list of inputs, [S]"),
    ):
        with pytest.raises(sa.SignatureError) as refused:
            sa.lambdify(inputs, node)  # type: ignore[arg-type]
        assert problem in str(refused.value)
    both = sa.hadamard(S[i], sa.matrix("S", n, m))
    with pytest.raises(sa.SignatureError, match="would both be called S; rename one"):
        sa.lambdify(both.inputs(), both)
    assert sa.lambdify([S], node).inputs == (S,)


def test_the_source_says_the_axes() -> None:
    source = sa.lambdify(INPUTS, HEAD).source
    assert "W_Q: (…, h, d, d_k)" in source
    assert "returns: (…, h, n, d_v)" in source
    assert "# (…, h, n, m)" in source


# SymPy's own lambdify.


@pytest.mark.parametrize(
    "node",
    [
        sa.heads(HEAD, i, axis=1),
        sa.sum_over(HEAD, i),
        HEAD,
        sa.sum_over(sa.heads(HEAD, i, axis=0), i),
    ],
    ids=lambda node: str(node)[:20],
)
def test_plain_sympy_lambdify(node: Node) -> None:
    given = arrays(*INPUTS)
    found = sympy.lambdify(INPUTS, node, "numpy")(*given)
    np.testing.assert_allclose(found, sa.lambdify(INPUTS, node)(*given), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", [name for name in sa.formulas() if "head" in name])
def test_plain_sympy_lambdify_of_the_catalogue(name: str) -> None:
    f = sa.formula(name, "row")
    sizes = {**SIZES, "d_x": 10, "d_y": 11, "d_model": 12}
    sizes["d_k"] = 4
    given = [
        np.random.default_rng(6).normal(size=[size.value(sizes) for size in source.sizes])
        for source in f.inputs
    ]
    flat = [x[:, 0] if x.shape[1:] == (1,) else x for x in given]
    tags = [sa.dim(tag) for tag in ("h", "d_k")]
    found = sympy.lambdify([*f.inputs, *tags], f.expr, "numpy")(*given, 3, 4)
    packed = {"h": 3} if f.relations else {}
    np.testing.assert_allclose(
        found, sa.lambdify(f.inputs, f)(*flat, **packed), rtol=1e-10, atol=1e-13
    )


def test_a_mask_has_no_axis_of_heads() -> None:
    """Other libraries want masks of (batch, 1, n, m); here each would meet every batch item."""
    W = sa.family("W", h, d, d)
    head = sa.softmax(X @ W[i] @ X.T, axis=1, mask=sa.keep()) @ X
    f = sa.lambdify([X, W], sa.heads(head, i, axis=1))
    with pytest.raises(sa.InputShapeError, match="is the same for every head"):
        f(np.ones((2, 5, 4)), np.ones((3, 4, 4)), keep=np.ones((2, 1, 5, 5), dtype=bool))
    assert f(np.ones((2, 5, 4)), np.ones((3, 4, 4)), keep=np.ones((2, 5, 5), bool)).shape == (
        2,
        5,
        12,
    )
