"""Scores of pairs, biases by position and direct sums: meaning, printing, refusals."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy

import symattn as sa
from symattn.meaning.form import Entry, Index, Sum, children
from symattn.meaning.substitution import substitute
from symattn.nodes import Node, Pairwise
from symattn.tags import Size

a, d_q, d_k, n, m = sa.dims("a d_q d_k n m")
Q, K = sa.matrix("Q", d_q, n), sa.matrix("K", d_k, m)
Q_row, K_row = sa.matrix("Q", n, d_q), sa.matrix("K", m, d_k)
W, U, v = sa.matrix("W", a, d_q), sa.matrix("U", a, d_k), sa.vector("v", a)
slope: Any = sa.scalar("slope")


def additive(q: Any, k: Any) -> Any:
    return v.T @ sa.tanh(W @ q + U @ k)


S = sa.pairwise(additive, Q, K)
B = sa.positional(lambda i, j: slope * (i - 2 * j), n, m)


def test_shapes_inputs_and_symbols() -> None:
    assert S.shape == (m, n)
    assert sa.pairwise(additive, Q_row, K_row, layout="row").shape == (n, m)
    assert S.symbols() == (Q, K, v, W, U)
    assert S.free_symbols == {Q, K, v, W, U}
    assert B.shape == (m, n)
    assert B.symbols() == ()
    assert B.free_symbols == {slope}
    assert B.scalars() == (slope,)


def test_it_prints() -> None:
    assert sa.text(S) == "[vᵀ tanh(Wq + Uk)]_{k ∈ K, q ∈ Q}"
    assert sa.latex(S, "vaswani") == r"[v^T\tanh(Wq + Uk)]_{k \in K,\, q \in Q}"
    row = sa.pairwise(additive, Q_row, K_row, layout="row")
    assert sa.text(row) == "[vᵀ tanh(Wq + Uk)]_{q ∈ Q, k ∈ K}"
    assert sa.text(B) == "[slope (i - 2j)]_{j,i}"
    assert sa.text(sa.concat(Q, Q, axis=0)) == "[Q; Q]"
    assert sa.text(sa.concat(W, U, axis=1)) == "[W, U]"


@pytest.mark.parametrize("node", [S, B, sa.concat(W, U, axis=1), S + B], ids=str)
def test_its_python_builds_it_again(node: Any) -> None:
    names: dict[str, Any] = {str(symbol): symbol for symbol in node.symbols()}
    names |= {str(tag): tag for tag in node.dims} | {str(s): s for s in node.scalars()}
    names |= {name: getattr(sa, name) for name in ("pairwise", "positional", "concat", "tanh")}
    assert eval(str(node), names) == node


@pytest.mark.parametrize("node", [S, B, sa.concat(W, U, axis=1)], ids=str)
def test_it_is_copied_and_rebuilt(node: Any) -> None:
    assert node.func(*node.args) == node
    assert copy.deepcopy(node) == node
    assert pickle.loads(pickle.dumps(node)) == node


def test_parts_are_replaced() -> None:
    other = sa.matrix("W_2", a, d_q)
    assert S.xreplace({W: other}) == sa.pairwise(
        lambda q, k: v.T @ sa.tanh(other @ q + U @ k), Q, K
    )
    X, P = sa.matrix("X", a, n), sa.matrix("P", d_q, a)
    assert S.xreplace({Q: P @ X}) == sa.pairwise(additive, P @ X, K)
    assert S.xreplace({n: 2 * m}).shape == (m, 2 * m)
    assert S.xreplace({d_q: d_k}).data[0].shape == (d_k, n)
    with pytest.raises(sa.ShapeError):
        S.xreplace({Q: K})


def test_a_vector_of_the_users_is_not_the_bound_one() -> None:
    q_of_user = sa.vector("q", d_q)
    score = sa.pairwise(lambda q, k: q_of_user.T @ q, Q, sa.matrix("K", d_q, m))
    assert q_of_user in score.symbols()
    assert sa.text(score) == "[qᵀ q']_{k ∈ K, q' ∈ Q}"
    renamed = sa.pairwise(lambda q, k: v.T @ W @ q, Q, K).xreplace({v: sa.vector("q", a)})
    assert sa.text(renamed) == "[qᵀW q']_{k ∈ K, q' ∈ Q}"
    lifted = sa.ones(m, 1) @ (q_of_user.T @ Q)
    assert sa.prove(score, lifted).verdict == "proved"


def test_positions_are_not_the_users_scalars() -> None:
    i_of_user: Any = sa.scalar("i")
    bias = sa.positional(lambda i, j: i_of_user * i + j, n, m)
    assert bias.scalars() == (i_of_user,)
    values = sa.lambdify([i_of_user], bias)(3.0, n=4, m=2)
    expected = [[3 * i + j for i in range(4)] for j in range(2)]
    np.testing.assert_array_equal(values, expected)


def test_a_transpose_turns_the_layout() -> None:
    turned = sa.pairwise(additive, Q.T, K.T, layout="row")
    proof = sa.prove(S.T, turned)
    assert proof.verdict == "proved"
    assert [step.law for step in proof.steps] == ["transpose of the scores of pairs"]
    assert proof.check()
    row = sa.positional(lambda i, j: slope * (i - 2 * j), n, m, layout="row")
    assert [step.law for step in sa.prove(B.T, row).steps] == ["transpose of a bias by position"]


def test_layouts_are_not_confused() -> None:
    square, other = sa.matrix("X", d_q, n), sa.matrix("Y", d_q, n)

    def score(q: Any, k: Any) -> Any:
        return q.T @ sa.tanh(q + 2 * k)

    right = sa.pairwise(score, square, other)
    wrong = sa.pairwise(lambda q, k: score(k, q), square, other)
    assert sa.prove(right, wrong).verdict == "refuted"
    assert sa.prove(right, right.T).verdict == "refuted"


# Direct sums.


def test_a_concatenated_weight_is_a_split_one() -> None:
    whole = sa.matrix("W_a", a, d_q + d_k)
    concat = sa.pairwise(lambda q, k: v.T @ sa.tanh(whole @ sa.concat(q, k, axis=0)), Q, K)
    split = {whole: sa.concat(W, U, axis=1)}
    proof = sa.prove(concat, S, given=split)
    assert proof.verdict == "proved"
    assert proof.check()
    assert sa.prove(concat, S, given={whole: sa.concat(2 * W, U, axis=1)}).verdict == "refuted"


def test_the_product_of_concatenations_has_a_step() -> None:
    proof = sa.prove(sa.concat(W, U, axis=1) @ sa.concat(Q, K @ B, axis=0), W @ Q + U @ (K @ B))
    assert [step.law for step in proof.steps] == ["product of concatenations"]


def test_blocks_are_kept_in_order() -> None:
    X, Y = sa.matrix("X", d_q, d_q), sa.matrix("Y", d_q, d_q)
    assert sa.prove(sa.concat(X, Y, axis=0), sa.concat(Y, X, axis=0)).verdict == "refuted"
    assert sa.prove(sa.concat(X, Y, axis=0), sa.concat(Y, X, axis=0), given={X: Y}).verdict


def test_concatenation_is_associative() -> None:
    X, Y, Z = sa.matrix("X", d_q, n), sa.matrix("Y", d_k, n), sa.matrix("Z", a, n)
    left = sa.concat(sa.concat(X, Y, axis=0), Z, axis=0)
    right = sa.concat(X, sa.concat(Y, Z, axis=0), axis=0)
    assert sa.prove(left, right).verdict == "proved"
    assert sa.prove(left, sa.concat(X, Y, Z, axis=0)).verdict == "proved"
    assert sa.prove(left.T @ left, X.T @ X + Y.T @ Y + Z.T @ Z).verdict == "proved"


def test_softmax_over_a_direct_sum() -> None:
    """Key blocks: exponentials of each over their common sum."""
    X, Y = sa.matrix("X", m, n), sa.matrix("Y", d_k, n)
    whole = sa.softmax(sa.concat(X, Y, axis=0), axis=0)
    total = sa.ones(m, m) @ sa.exp(X) + sa.ones(m, d_k) @ sa.exp(Y)
    below = sa.ones(d_k, m) @ sa.exp(X) + sa.ones(d_k, d_k) @ sa.exp(Y)
    parts = sa.concat(
        sa.hadamard(sa.exp(X), sa.reciprocal(total)),
        sa.hadamard(sa.exp(Y), sa.reciprocal(below)),
        axis=0,
    )
    assert sa.prove(whole, parts).verdict == "proved"


def test_conflicting_splits_are_undecided_not_guessed() -> None:
    X, Y = sa.matrix("X", d_q, n), sa.matrix("Y", d_k, n)
    first, second = sa.concat(X, Y, axis=0), sa.concat(Y, X, axis=0)
    proof = sa.prove(first + second, second + first)
    assert proof.verdict == "undecided"
    assert "read both as" in proof.reason
    assert sa.prove(first.T @ first, second.T @ second)  # two axes, each read in one way


def test_a_maximum_over_a_direct_sum_is_undecided() -> None:
    X = sa.concat(Q, Q, axis=0)
    assert sa.prove(sa.max(X, axis=0), sa.max(Q, axis=0)).verdict == "undecided"


@pytest.mark.parametrize("axis", [0, 1])
def test_concatenation_broadcasts_batches(axis: int) -> None:
    X, Y = sa.matrix("X", d_q, n), sa.matrix("Y", *((d_k, n) if axis == 0 else (d_q, m)))
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(6, 1, 3, 4)), rng.normal(size=(2, *((5, 4) if axis == 0 else (3, 7))))
    result = sa.lambdify([X, Y], sa.concat(X, Y, axis=axis))(x, y)
    assert result.shape == (6, 2, 8, 4) if axis == 0 else (6, 2, 3, 11)
    np.testing.assert_array_equal(result[4, 1], np.concatenate([x[4, 0], y[1]], axis=axis))


# Numbers, against loops over entries.

SIZES = {"a": 6, "d_q": 3, "d_k": 4, "n": 5, "m": 7}


def arrays(*symbols: Node, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=[s.value(SIZES) for s in symbol.sizes]) for symbol in symbols]


@pytest.mark.parametrize("layout", ["column", "row"])
def test_scores_and_biases_run_as_loops(layout: str) -> None:
    queries, keys, w, u, vector = arrays(Q, K, W, U, v)
    vector = vector[:, 0]
    expected = np.empty((7, 5))
    for j in range(7):
        for i in range(5):
            inner = [
                sum(w[c, t] * queries[t, i] for t in range(3))
                + sum(u[c, t] * keys[t, j] for t in range(4))
                for c in range(6)
            ]
            total = sum(x * np.tanh(y) for x, y in zip(vector, inner, strict=True))
            expected[j, i] = total + 0.3 * (i - 2 * j)
    is_row = layout == "row"
    data = (Q_row, K_row) if is_row else (Q, K)
    scores = sa.pairwise(additive, *data, layout=layout)
    bias = sa.positional(lambda i, j: slope * (i - 2 * j), n, m, layout=layout)
    f = sa.lambdify([*data, W, U, v, slope], scores + bias)
    given = (queries.T, keys.T) if is_row else (queries, keys)
    result = f(*given, w, u, vector, slope=0.3)
    np.testing.assert_allclose(result.T if is_row else result, expected, rtol=0, atol=1e-12)
    batch = f(*(np.stack([x, 2 * x]) for x in given), w, u, vector, slope=0.3)
    np.testing.assert_allclose(batch[0], result, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "score",
    [
        lambda q, k: k.T @ sa.tanh(k),
        lambda q, k: q.T @ sa.tanh(q),
        lambda q, k: v.T @ v,
        lambda q, k: v.T @ sa.softmax(W @ q, axis=0),
    ],
)
def test_scores_that_leave_a_vector_out_run(score: Callable[..., Any]) -> None:
    node = sa.pairwise(score, Q, K)
    symbols = node.symbols()
    values = [x[:, 0] if s == v else x for s, x in zip(symbols, arrays(*symbols), strict=True)]
    result = sa.lambdify(symbols, node)(*values)
    assert result.shape == (7, 5)
    names = [*symbols, *node.dims]
    plain = sympy.lambdify(names, node, "numpy")(
        *arrays(*symbols), *(SIZES[tag] for tag in node.tags)
    )
    np.testing.assert_allclose(plain, result, rtol=0, atol=1e-12)


# What is refused.


@pytest.mark.parametrize(
    ("score", "error", "words"),
    [
        (lambda q, k: q @ k.T, sa.ShapeError, "d_q×d_k, but the score of one query and one key"),
        (lambda q, k: q, sa.ShapeError, "number, 1×1"),
        (lambda q, k: k.T @ q, sa.ShapeError, "the columns of k.T are d_k"),
        (lambda q, k: W @ k, sa.ShapeError, "d_q"),
        (lambda q, k: "k.T @ q", sa.TextRefusedError, "a score does not take text"),
        (lambda q, k: 3, sa.NotAnOperandError, "1×1 expression of the columns q and k"),
        (lambda q, k: None, sa.NotAnOperandError, "1×1 expression"),
        (lambda q, k: np.ones((1, 1)), sa.NotAnOperandError, "1×1 expression"),
        (lambda q: q.T @ q, sa.OperationRefusedError, "takes a query and a key"),
        (lambda q, k: sa.pairwise(additive, Q, K), sa.NotSupportedError, "score inside a score"),
    ],
)
def test_what_is_no_score_is_refused(
    score: Callable[..., Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as caught:
        sa.pairwise(score, Q, K)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("bias", "error"),
    [
        (lambda i, j: "i - j", sa.TextRefusedError),
        (lambda i, j: Q, sa.NotAnOperandError),
        (lambda i, j: None, sa.NotAnOperandError),
        (lambda i: i, sa.OperationRefusedError),
        (lambda i, j: sympy.floor((i - j) / 2), sa.NotSupportedError),
    ],
)
def test_what_is_no_bias_is_refused(bias: Callable[..., Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        sa.positional(bias, n, m)


def test_what_is_no_concatenation_is_refused() -> None:
    for build in (
        lambda: sa.concat(Q, K, axis=0),
        lambda: sa.concat(Q, Q, axis=2),
        lambda: sa.concat(Q, axis=0),
        lambda: sa.concat(Q, "K", axis=0),
        lambda: sa.pairwise(additive, Q, K, layout="columns"),
        lambda: sa.positional(lambda i, j: i, n, m, layout="columns"),
    ):
        with pytest.raises(sa.SymattnError):
            build()


# The primitive beneath: substitution of entries, with binders renamed.


def binders(form: Any) -> list[Index]:
    own = [form.index] if isinstance(form, Sum) else []
    return own + [index for child in children(form) for index in binders(child)]


def test_substitution_binds_no_index_twice() -> None:
    D, one = Size.tag("d"), Size.of(1)
    c, t, i = Index(D), Index(D), Index(Size.tag("n"))
    x = Entry("x", (D, one), ((c,), ()))
    form = Sum(c, x)
    inside = {("x", (D, one)): lambda at: Sum(t, Entry("Y", (D, D), (at[0], (t,))))}
    once = substitute(form, inside)
    again = substitute(once, {})
    assert not set(binders(form)) & set(binders(once))
    assert not set(binders(once)) & set(binders(again))
    assert len(set(binders(again))) == 2
    free = substitute(Entry("x", (D, one), ((i,), ())), {})
    assert free == Entry("x", (D, one), ((i,), ()))


def test_substitution_captures_nothing() -> None:
    """Σ_c x[c] with x[c] := z[c'] for a free c' is d · z[c'], whatever the two are called."""
    D, one = Size.tag("d"), Size.of(1)
    c, outside = Index(D, "c"), Index(D, "c")
    form = Sum(c, Entry("x", (D, one), ((c,), ())))
    read = substitute(form, {("x", (D, one)): lambda at: Entry("z", (D, one), ((outside,), ()))})
    assert isinstance(read, Sum)
    assert isinstance(read.body, Entry)
    assert read.body.places == ((outside,), ())
    assert read.index != outside


def test_pairwise_is_a_node_of_the_package() -> None:
    assert isinstance(S, Pairwise)


# A score may ignore a vector; how many there are, in which batch and for which head, it may not.

h, d = sa.dims("h d")
i = sa.index("i", h)
SAME, OTHER = sa.matrix("Q", d, n), sa.matrix("K", d, m)


def test_an_ignored_vector_keeps_its_head() -> None:
    of_heads = sa.family("K", h, d, m)
    total = sa.sum_over(sa.pairwise(lambda q, k: q.T @ q, SAME, of_heads[i]), i)
    found = sa.lambdify([SAME, of_heads], total)(np.ones((2, 3)), np.ones((4, 2, 6)))
    np.testing.assert_array_equal(found, np.full((6, 3), 8.0))


SCORES: list[Callable[[Any, Any], Any]] = [
    lambda q, k: q.T @ q,
    lambda q, k: k.T @ k,
    lambda q, k: sa.ones(1, 1) * 2,
]


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(("of_q", "of_k"), [((5,), ()), ((), (5,)), ((5,), (1,)), ((5, 1), (7,))])
@pytest.mark.parametrize("layout", ["column", "row"])
def test_an_ignored_vector_keeps_its_batch(
    score: Any, of_q: tuple[int, ...], of_k: tuple[int, ...], layout: str
) -> None:
    turn = (lambda a: a.swapaxes(-1, -2)) if layout == "row" else (lambda a: a)
    queries, keys = (
        (SAME, OTHER) if layout == "column" else (sa.matrix("Q", n, d), sa.matrix("K", m, d))
    )
    f = sa.lambdify([queries, keys], sa.pairwise(score, queries, keys, layout=layout))
    found = turn(f(turn(np.ones((*of_q, 2, 3))), turn(np.ones((*of_k, 2, 6)))))
    assert found.shape == (*np.broadcast_shapes(of_q, of_k), 6, 3)
    assert (found == 2.0).all()


def test_booleans_of_a_call_are_not_read_inside_a_score() -> None:
    E = sa.matrix("E", d, d)
    for mask in (sa.keep(), sa.padding(), ~sa.keep() | sa.causal()):
        weights = sa.softmax(E, axis=0, mask=mask)
        with pytest.raises(sa.NotSupportedError, match="inside a score"):
            sa.pairwise(lambda q, k, weights=weights: q.T @ weights @ k, SAME, OTHER)
    weights = sa.softmax(E, axis=0, mask=sa.causal())
    assert sa.pairwise(lambda q, k: q.T @ weights @ k, SAME, OTHER).shape == (m, n)
