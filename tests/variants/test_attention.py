"""`sa.attention`: the layout is read off the shapes, and asked for where they do not tell."""

from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.nodes import Pairwise
from symattn.variants.lifting import matrix_form

d_k, d_v, n, m, d, d_x, d_y = sa.dims("d_k d_v n m d d_x d_y")
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
Q_row, K_row, V_row = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)

NAMES = {"dot": "dot_product", "general": "luong_general", "scaled_dot": "scaled_dot_product"}


@pytest.mark.parametrize("score", NAMES)
def test_column_inputs_give_the_column_formula(score: str) -> None:
    assert sa.attention(Q, K, V, score=score) == sa.formula(NAMES[score]).expr


@pytest.mark.parametrize("score", NAMES)
def test_row_inputs_give_the_row_formula(score: str) -> None:
    expected = sa.formula(NAMES[score], layout="row").expr
    assert sa.attention(Q_row, K_row, V_row, score=score) == expected


def test_the_default_is_scaled() -> None:
    assert sa.attention(Q, K, V) == sa.attention(Q, K, V, "scaled_dot")


def test_projections_give_self_attention() -> None:
    X, *weights = sa.formula("self_attention").inputs
    query, key, value = (W @ X for W in weights)
    made = sa.attention(query, key, value, score="dot", layout="column")
    assert made == sa.formula("self_attention").expr


def test_one_layout_named_both_fit() -> None:
    A, B, C = (sa.matrix(name, n, n) for name in "ABC")
    with pytest.raises(sa.ShapeError) as error:
        sa.attention(A, B, C)
    assert "both layouts fit" in str(error.value)
    assert "layout='column'" in str(error.value)
    assert "layout='row'" in str(error.value)
    assert sa.attention(A, B, C, layout="row") == sa.softmax(A @ B.T / sa.sqrt(n), axis=1) @ C
    assert sa.attention(A, B, C, layout="column") == C @ sa.softmax(B.T @ A / sa.sqrt(n), axis=0)


def test_no_layout_fits() -> None:
    with pytest.raises(sa.ShapeError) as error:
        sa.attention(Q, K, V.T)
    message = str(error.value)
    for part in ("attention(Q, K, V.T)", "K ∈ M^{d_k×m}", "V.T ∈ M^{m×d_v}", "column layout"):
        assert part in message
    assert error.value.fix == "attention(Q, K, V)"


def test_the_smallest_fix_is_offered() -> None:
    with pytest.raises(sa.ShapeError) as error:
        sa.attention(Q_row, K, V_row)
    assert error.value.fix == "attention(Q, K.T, V)"
    with pytest.raises(sa.ShapeError) as error:
        sa.attention(Q, K.T, V)
    assert error.value.fix == "attention(Q, K, V)"


def test_a_layout_that_does_not_fit_is_refused_with_the_one_that_does() -> None:
    with pytest.raises(sa.ShapeError, match="this fits: layout='column'"):
        sa.attention(Q, K, V, layout="row")


def test_relations_in_force_count() -> None:
    other = sa.matrix("V", d_v, n)
    with pytest.raises(sa.ShapeError):
        sa.attention(Q, K, other)
    with sa.assuming("m = n"):
        formula = sa.attention(Q, K, other)
    assert formula.shape == (d_v, n)
    assert formula.given.text() == "m = n"


def test_the_weight_of_the_general_score_may_be_given() -> None:
    W = sa.matrix("W_a", d_k, d_k)
    assert sa.attention(Q, K, V, "general", W=W) == V @ sa.softmax(K.T @ W @ Q, axis=0)
    expected = sa.softmax(Q_row @ W.T @ K_row.T, axis=1) @ V_row
    assert sa.attention(Q_row, K_row, V_row, "general", W=W) == expected


def test_a_weight_without_use_is_refused() -> None:
    with pytest.raises(sa.OperationRefusedError, match="takes no weights"):
        sa.attention(Q, K, V, W=sa.matrix("W", d_k, d_k))


def test_two_weights_of_one_name_are_refused() -> None:
    X = sa.matrix("X", d, n)
    with pytest.raises(sa.OperationRefusedError, match="W="):
        sa.attention(sa.matrix("W", d_k, d) @ X, K, V, "general")


def test_a_weight_that_does_not_fit_is_refused() -> None:
    with pytest.raises(sa.ShapeError):
        sa.attention(Q, K, V, "general", W=sa.matrix("W", d_k, d_v))


def test_it_runs() -> None:
    random = np.random.default_rng(4)
    q, k, v = random.normal(size=(4, 5)), random.normal(size=(4, 7)), random.normal(size=(3, 7))
    exponentials = np.exp(np.einsum("cj,ci->ji", k, q) / 2)
    expected = np.einsum("vj,ji->vi", v, exponentials / exponentials.sum(axis=0))
    result = sa.lambdify([Q, K, V], sa.attention(Q, K, V))(q, k, v)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("score", "near"), [("scaled-dot", "scaled_dot"), ("genral", "general"), ("", "dot")]
)
def test_an_unknown_score_is_answered_with_the_nearest(score: str, near: str) -> None:
    with pytest.raises(sa.UnknownNameError, match=f"no score named.*{near}"):
        sa.attention(Q, K, V, score=score)


@pytest.mark.parametrize("operand", ["Q", 3, None, True, np.ones((2, 2)), sa.scalar("c")])
def test_what_is_no_matrix_is_refused(operand: Any) -> None:
    with pytest.raises(sa.SymattnError):
        sa.attention(operand, K, V)


# Scores as functions, and the theorems about them.

W, c = sa.matrix("W", d_k, d_k), sa.scalar("c", positive=True)
u = sa.vector("u", d_k)

BILINEAR: dict[str, tuple[Any, Any, Any]] = {
    "kᵀq": (lambda q, k: k.T @ q, K.T @ Q, Q_row @ K_row.T),
    "qᵀk": (lambda q, k: q.T @ k, K.T @ Q, Q_row @ K_row.T),
    "kᵀWq": (lambda q, k: k.T @ W @ q, K.T @ W @ Q, Q_row @ W.T @ K_row.T),
    "qᵀWk": (lambda q, k: q.T @ W @ k, K.T @ W.T @ Q, Q_row @ W @ K_row.T),
    "(Wk)ᵀ(Wq)": (
        lambda q, k: (W @ k).T @ (W @ q),
        K.T @ W.T @ W @ Q,
        Q_row @ W.T @ W @ K_row.T,
    ),
    "c tanh(kᵀq/c)": (
        lambda q, k: c * sa.tanh(k.T @ q / c),
        c * sa.tanh(K.T @ Q / c),
        c * sa.tanh(Q_row @ K_row.T / c),
    ),
    "kᵀq - uᵀk": (
        lambda q, k: k.T @ q - u.T @ k,
        K.T @ Q - K.T @ u @ sa.ones(1, n),
        Q_row @ K_row.T - sa.ones(n, 1) @ u.T @ K_row.T,
    ),
    "uᵀu + 2qᵀu": (
        lambda q, k: u.T @ u + 2 * q.T @ u,
        sa.ones(m, 1) @ (u.T @ u) @ sa.ones(1, n) + sa.ones(m, 1) * 2 @ u.T @ Q,
        sa.ones(n, 1) @ (u.T @ u) @ sa.ones(1, m) + 2 * Q_row @ u @ sa.ones(1, m),
    ),
}


@pytest.mark.parametrize("name", BILINEAR)
def test_a_bilinear_score_is_lifted(name: str) -> None:
    score, column, row = BILINEAR[name]
    for data, layout, expected in (((Q, K), "column", column), ((Q_row, K_row), "row", row)):
        pairs = sa.pairwise(score, *data, layout=layout)
        lifted = matrix_form(pairs)
        assert lifted is not None
        assert not any(isinstance(part, Pairwise) for part in lifted.walk())
        assert sa.prove(pairs, lifted).verdict == "proved"
        assert sa.prove(lifted, expected).verdict == "proved"
    given = sa.attention(Q, K, V, score=score)
    assert sa.prove(given, V @ sa.softmax(column, axis=0)).verdict == "proved"


def test_the_lift_is_the_matrix_that_a_person_writes() -> None:
    assert sa.attention(Q, K, V, score=lambda q, k: k.T @ W @ q) == sa.attention(
        Q, K, V, score="general", W=W
    )
    assert sa.attention(Q_row, K_row, V_row, score=lambda q, k: q.T @ k) == sa.attention(
        Q_row, K_row, V_row, score="dot"
    )


@pytest.mark.parametrize(
    "score",
    [
        lambda q, k: u.T @ sa.tanh(q + k),
        lambda q, k: k.T @ q @ q.T @ k,
        lambda q, k: k.T @ k,
        lambda q, k: k.T @ (q + u),
        lambda q, k: sa.max(q.T @ W @ W @ k, axis=0),
    ],
)
def test_what_is_not_bilinear_is_kept_as_pairs(score: Any) -> None:
    assert matrix_form(sa.pairwise(score, Q, K)) is None
    attended = sa.attention(Q, K, V, score=score)
    assert any(isinstance(part, Pairwise) for part in attended.walk())
    row = sa.attention(Q_row, K_row, V_row, score=score)
    proof = sa.prove(attended, row.T, given={Q_row: Q.T, K_row: K.T, V_row: V.T})
    assert proof.verdict == "proved"


def test_concat_is_additive_with_a_split_weight() -> None:
    """Luong's concat: W_a [q; k] = W_1 q + W_2 k, where W_a = [W_1 W_2]."""
    d_a, d_q = sa.dims("d_a d_q")
    whole, first, second = (
        sa.matrix(name, d_a, size) for name, size in (("W", d_q + d_k), ("W_1", d_q), ("W_2", d_k))
    )
    query = sa.matrix("Q", d_q, n)
    joined = sa.attention(query, K, V, score="concat", W=whole)
    split = sa.attention(query, K, V, score="additive", W=first, U=second)
    proof = sa.prove(joined, split, given={whole: sa.concat(first, second, axis=1)})
    assert proof.verdict == "proved"
    assert proof.check()
    both = (sa.concat(part, second, axis=1) for part in (2 * first, -first))
    for wrong in both:
        assert sa.prove(joined, split, given={whole: wrong}).verdict == "refuted"


def test_the_score_of_the_api_with_a_bias() -> None:
    slope: Any = sa.scalar("slope")
    made = sa.attention(
        Q,
        K,
        V,
        score=lambda q, k: c * sa.tanh(k.T @ q / c),
        bias=lambda i, j: -slope * (i - j),
    )
    rng = np.random.default_rng(5)
    q, k, v = rng.normal(size=(4, 5)), rng.normal(size=(4, 7)), rng.normal(size=(3, 7))
    scores = [
        [1.5 * np.tanh(k[:, j] @ q[:, i] / 1.5) - 0.2 * (i - j) for i in range(5)] for j in range(7)
    ]
    weights = np.exp(scores) / np.exp(scores).sum(axis=0)
    expected = np.einsum("vj,ji->vi", v, weights)
    found = sa.lambdify([Q, K, V], made)(q, k, v, c=1.5, slope=0.2)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_the_cap_comes_before_the_mask() -> None:
    """A mask is no score: what it forbids is left out, and not capped."""
    made = sa.attention(
        Q, K, V, lambda q, k: c * sa.tanh(k.T @ q / c), mask=sa.causal(align="top_left")
    )
    rng = np.random.default_rng(6)
    q, k, v = rng.normal(size=(4, 5)), rng.normal(size=(4, 7)), rng.normal(size=(3, 7))
    found = sa.lambdify([Q, K, V], made)(q, k, v, c=0.1)
    np.testing.assert_allclose(found[:, 0], v[:, 0], rtol=0, atol=1e-12)


def test_unequal_features_are_for_scores_that_take_them() -> None:
    d_q = sa.dim("d_q")
    query, query_row = sa.matrix("Q", d_q, n), sa.matrix("Q", n, d_q)
    for score in ("additive", "concat", "general", "location"):
        assert sa.attention(query, K, V, score=score).shape == (d_v, n)
        assert sa.attention(query_row, K_row, V_row, score=score).shape == (n, d_v)
    for score in ("dot", "scaled_dot", "cosine"):
        with pytest.raises(sa.ShapeError):
            sa.attention(query, K, V, score=score)


def test_the_norms_of_cosine_are_conditions() -> None:
    proof = sa.prove(sa.formula("cosine"), sa.formula("cosine", layout="row"))
    assert proof.verdict == "proved"
    assert len(proof.conditions) == 1
    assert "≠ 0" in proof.conditions[0]


@pytest.mark.parametrize(
    ("score", "error", "words"),
    [
        (lambda q, k: q @ k.T, sa.ShapeError, "the score of one query and one key is a number"),
        (lambda q, k: "kᵀq", sa.TextRefusedError, "a score does not take text"),
        (lambda q, k: 1.0, sa.NotAnOperandError, "1×1 expression"),
        (lambda q, k: sa.vector("w", d_v).T @ q, sa.ShapeError, "the columns of w.T are d_v"),
        (lambda q: q, sa.OperationRefusedError, "takes a query and a key"),
        (dict.fromkeys, sa.SymattnError, "q is not an operation of formulas"),
    ],
)
def test_what_is_no_score_is_refused(score: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        sa.attention(Q, K, V, score=score)
    assert words in str(caught.value)


@pytest.mark.parametrize("bias", [type, lambda i: i, lambda i, j, w: i, lambda: 0])
def test_a_bias_takes_two_positions(bias: Any) -> None:
    with pytest.raises(sa.OperationRefusedError, match="a bias takes two positions"):
        sa.attention(Q, K, V, bias=bias)
