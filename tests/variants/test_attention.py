"""`sa.attention`: the layout is read off the shapes, and asked for where they do not tell."""

from typing import Any

import numpy as np
import pytest

import symattn as sa

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
    with pytest.raises(sa.OperationRefusedError, match="only the score 'general'"):
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


def test_a_score_as_a_function_is_not_supported_yet() -> None:
    score: Any = dict.fromkeys
    with pytest.raises(sa.NotSupportedError):
        sa.attention(Q, K, V, score=score)
