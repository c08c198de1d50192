"""Translation between layouts: the twin as written, on numbers, and back again."""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pytest
import sympy

import symattn as sa
from symattn.nodes.core import Node
from symattn.nodes.sizes import Dim
from symattn.proof.steps import derive
from symattn.proof.translation import Translation

SIZES = {"d_k": 3, "d_v": 2, "n": 4, "m": 5, "d": 6}
d_k, d_v, n, m, d = sa.dims("d_k d_v n m d")
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
Q_row, K_row, V_row = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)
W, X, X_row = sa.matrix("W", d_k, d_k), sa.matrix("X", d, n), sa.matrix("X", n, d)
W_Q, W_K, W_V = sa.matrix("W^Q", d_k, d), sa.matrix("W^K", d_k, d), sa.matrix("W^V", d_v, d)
B, B_row = sa.matrix("B", m, n), sa.matrix("B", n, m)
q = sa.vector("q", d_k)
root = sa.sqrt(d_k)


@dataclass
class Pair:
    """A formula in both layouts."""

    column: Node
    row: Node


PAIRS = {
    "scaled dot-product": Pair(
        V @ sa.softmax(K.T @ Q / root, axis=0),
        sa.softmax(Q_row @ K_row.T / root, axis=1) @ V_row,
    ),
    "general": Pair(
        V @ sa.softmax(K.T @ W @ Q, axis=0),
        sa.softmax(Q_row @ W.T @ K_row.T, axis=1) @ V_row,
    ),
    "self-attention": Pair(
        W_V @ X @ sa.softmax((W_K @ X).T @ (W_Q @ X), axis=0),
        sa.softmax((X_row @ W_Q.T) @ (X_row @ W_K.T).T, axis=1) @ (X_row @ W_V.T),
    ),
    "a bias and a shift": Pair(
        V @ sa.softmax(K.T @ Q + B - sa.ones(m, 1) @ sa.max(K.T @ Q, axis=0), axis=0),
        sa.softmax(
            Q_row @ K_row.T + B_row - sa.max(Q_row @ K_row.T, axis=1) @ sa.ones(1, m), axis=1
        )
        @ V_row,
    ),
    "a function and a mask of numbers": Pair(
        V @ sa.hadamard(sa.softmax(sa.tanh(K.T @ Q), axis=0), B),
        sa.hadamard(sa.softmax(sa.tanh(Q_row @ K_row.T), axis=1), B_row) @ V_row,
    ),
    "a single query": Pair(
        V @ sa.softmax(K.T @ q / root, axis=0),
        sa.softmax(q.T @ K_row.T / root, axis=1) @ V_row,
    ),
    "a scale of its own": Pair(
        sa.scalar("c") * V @ sa.softmax(-(K.T @ Q), axis=0),
        sa.scalar("c") * sa.softmax(-(Q_row @ K_row.T), axis=1) @ V_row,
    ),
    "an identity": Pair(
        V @ sa.identity(m) @ sa.softmax(K.T @ Q, axis=0),
        sa.softmax(Q_row @ K_row.T, axis=1) @ (sa.identity(m) @ V_row),
    ),
}

each_pair = pytest.mark.parametrize("pair", PAIRS.values(), ids=list(PAIRS))


def value(expr: Node, arrays: Mapping[Node, np.ndarray]) -> np.ndarray:
    names = [*expr.symbols(), *expr.scalars(), *map(Dim, SIZES)]
    scalars = [1.5] * len(expr.scalars())
    given = [*(arrays[node] for node in expr.symbols()), *scalars, *SIZES.values()]
    return np.asarray(sympy.lambdify(names, expr, "numpy")(*given))


def arrays_for(*exprs: Node) -> dict[Node, np.ndarray]:
    rng = np.random.default_rng(3)
    inputs = dict.fromkeys(node for expr in exprs for node in expr.symbols())
    return {node: rng.normal(size=[s.value(SIZES) for s in node.sizes]) for node in inputs}


@each_pair
def test_the_twin_is_as_written(pair: Pair) -> None:
    assert sa.translate(pair.column, to="row").expr == pair.row


@each_pair
def test_there_and_back_is_where_it_began(pair: Pair) -> None:
    assert sa.translate(sa.translate(pair.column, to="row").expr, to="column").expr == pair.column
    assert sa.translate(sa.translate(pair.row, to="column").expr, to="row").expr == pair.row


@each_pair
def test_the_twin_is_the_transpose_on_numbers(pair: Pair) -> None:
    translation = sa.translate(pair.column, to="row")
    arrays = arrays_for(pair.column)
    twins = {row: value(column, arrays) for row, column in translation.inputs.items()}
    result = value(translation.expr, {**arrays, **twins})
    np.testing.assert_allclose(result, value(pair.column, arrays).T, rtol=1e-12, atol=1e-12)


@each_pair
def test_the_lemma_is_proved_and_replays(pair: Pair) -> None:
    for source, to in ((pair.column, "row"), (pair.row, "column")):
        translation = sa.translate(source, to=to)
        assert translation.proof.verdict == "proved"
        assert translation.proof.check()
        assert translation.proof.rhs == translation.expr.xreplace(translation.inputs)
        assert translation.proof.lhs == source.T


@each_pair
def test_the_steps_lead_from_the_transpose_to_the_twin(pair: Pair) -> None:
    translation = sa.translate(pair.column, to="row")
    steps = translation.steps
    assert steps[0].before == pair.column.T
    for step, following in itertools.pairwise(steps):
        assert step.after == following.before
    assert all(step.replays() for step in steps)
    assert all(step.law.startswith("transpose of") for step in steps)
    # What is left is to write the twins: no law but that of a transpose twice is needed.
    left = derive(steps[-1].after, translation.expr.xreplace(translation.inputs))
    assert left is not None
    assert {step.law for step in left} <= {"transpose of a transpose"}


def test_the_row_formula_agrees_with_loops_from_its_entries() -> None:
    """Σ_j softmax_t(Σ_c Q[i, c] K[t, c] / √d_k)[j] V[j, v], by hand."""
    expr = sa.translate(PAIRS["scaled dot-product"].column, to="row").expr
    arrays = arrays_for(expr)
    queries, keys, values = (arrays[node] for node in (Q_row, K_row, V_row))
    expected = np.empty((SIZES["n"], SIZES["d_v"]))
    for i in range(SIZES["n"]):
        products = [
            sum(queries[i, c] * keys[t, c] for c in range(SIZES["d_k"])) for t in range(SIZES["m"])
        ]
        weights = [math.exp(product / math.sqrt(SIZES["d_k"])) for product in products]
        for v in range(SIZES["d_v"]):
            mixed = sum(weights[j] * values[j, v] for j in range(SIZES["m"]))
            expected[i, v] = mixed / sum(weights)
    np.testing.assert_allclose(value(expr, arrays), expected, rtol=1e-12, atol=1e-13)


def test_scaled_dot_product_takes_five_steps() -> None:
    translation = sa.translate(PAIRS["scaled dot-product"].column, to="row")
    assert [step.law for step in translation.steps] == [
        "transpose of a product",
        "transpose of softmax",
        "transpose of a quotient",
        "transpose of a product",
        "transpose of a transpose",
    ]
    assert translation.steps[-1].after == sa.softmax(Q.T @ K / root, axis=1) @ V.T
    assert translation.inputs == {Q_row: Q.T, K_row: K.T, V_row: V.T}
    assert list(translation.inputs) == [Q_row, K_row, V_row]


def test_weights_stay_unless_they_are_named() -> None:
    column = PAIRS["general"].column
    assert W not in sa.translate(column, to="row").inputs
    for named in ([W], W, ["W"]):
        translation = sa.translate(column, to="row", twin=named)
        W_row = sa.matrix("W", d_k, d_k)
        assert translation.expr == sa.softmax(Q_row @ W_row @ K_row.T, axis=1) @ V_row
        assert translation.inputs[W_row] == W.T
        assert translation.proof
        back = sa.translate(translation.expr, to="column", twin=named)
        assert back.expr == column


def test_named_weights_get_swapped_sizes() -> None:
    column = PAIRS["self-attention"].column
    translation = sa.translate(column, to="row", twin=[W_Q, W_K, W_V])
    expected = [sa.matrix(w.name, *w.shape[::-1]) for w in (W_Q, W_K, W_V)]
    q_row, k_row, v_row = expected
    assert translation.expr == (
        sa.softmax(X_row @ q_row @ (X_row @ k_row).T, axis=1) @ (X_row @ v_row)
    )
    assert {translation.inputs[w] for w in expected} == {W_Q.T, W_K.T, W_V.T}


def test_a_matrix_over_tokens_twice_is_its_own_twin() -> None:
    D = sa.matrix("D", n, n)
    column = X @ sa.softmax(X.T @ X + D, axis=0)
    translation = sa.translate(column, to="row")
    assert translation.expr == sa.softmax(X_row @ X_row.T + D, axis=1) @ X_row
    assert translation.inputs == {X_row: X.T, D: D.T}
    assert translation.proof
    assert sa.translate(translation.expr, to="column").expr == column
    # Without the transpose it would be another formula.
    assert not sa.prove(translation.expr.xreplace({X_row: X.T}), column.T)


def test_one_name_with_both_shapes_keeps_both_meanings() -> None:
    """The twin of one is the other, so the other is translated as well."""
    W_turned = sa.matrix("U", d, d_k)
    U = sa.matrix("U", d_k, d)
    column = U @ W_turned @ Q @ sa.softmax(Q.T @ Q, axis=0)
    translation = sa.translate(column, to="row", twin=[U])
    assert translation.inputs == {Q_row: Q.T, U: W_turned.T, W_turned: U.T}
    assert derive(translation.expr.xreplace(translation.inputs), column.T) is not None
    assert derive(translation.expr.xreplace({Q_row: Q.T}), column.T) is None


def test_the_layout_it_has_needs_no_step() -> None:
    for pair in PAIRS.values():
        for expr, to in ((pair.column, "column"), (pair.row, "row")):
            translation = sa.translate(expr, to=to)
            assert translation.expr is expr
            assert (translation.steps, translation.inputs) == ((), {})
            assert translation.proof
            assert translation.text() == sa.text(expr)
            assert translation.latex("vaswani") == sa.latex(expr, "vaswani")


def test_without_a_softmax_the_other_layout_is_meant() -> None:
    values = V @ B
    assert sa.translate(values, to="row").expr == B_row @ V.T
    assert sa.translate(values, to="row").expr.shape == (n, d_v)
    assert sa.translate(values, to="column").expr == B.T @ sa.matrix("V", m, d_v)


def test_an_inner_transpose_stays_where_the_author_put_it() -> None:
    column = X @ sa.softmax(((W_K @ X).T @ (W_Q @ X)).T.T, axis=0)
    translation = sa.translate(column, to="row")
    assert translation.proof
    assert sa.translate(translation.expr, to="column").proof


def test_an_axis_of_one_is_no_token_axis() -> None:
    """Else a matrix of one column, however meant, would be a token of every single query."""
    u, one = sa.matrix("u", d_k, 1), sa.matrix("q", d_k, 1)
    column = V @ sa.softmax(K.T @ (W @ one + u), axis=0)
    translation = sa.translate(column, to="row")
    assert translation.inputs == {K_row: K.T, V_row: V.T}
    assert translation.expr == sa.softmax((one.T @ W.T + u.T) @ K_row.T, axis=1) @ V_row
    assert translation.proof


def test_relations_are_carried() -> None:
    Y = sa.matrix("Y", d, m)
    with sa.assuming("m = n"):
        column = X @ sa.softmax(Y.T @ X, axis=0)
    translation = sa.translate(column, to="row")
    assert translation.expr.given == column.given
    Y_row = sa.matrix("Y", m, d)
    assert translation.inputs == {X_row: X.T, Y_row: Y.T}
    assert translation.proof
    assert sa.translate(translation.expr, to="column").expr == column


@pytest.mark.parametrize("name", sa.formulas())
@pytest.mark.parametrize(("layout", "to"), [("column", "row"), ("row", "column")])
def test_the_catalogue_is_its_own_translation(name: str, layout: str, to: str) -> None:
    source, target = (sa.formula(name, layout=of) for of in (layout, to))
    translation = sa.translate(source, to=to)
    assert translation.expr == target.expr
    assert translation.proof
    if to == "row":
        assert translation.inputs == target.twins
    assert sa.translate(source, to=layout).expr is source.expr


def test_a_layout_that_there_is_not_is_answered_with_the_nearest() -> None:
    with pytest.raises(sa.UnknownNameError, match="layout named 'rows'; did you mean 'row'"):
        sa.translate(PAIRS["general"].column, to="rows")
    with pytest.raises(sa.UnknownNameError, match="there are column, row"):
        sa.translate(PAIRS["general"].column, to=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("twin", "message"),
    [
        ([sa.matrix("W", d_k, d)], "input named 'W ∈ .*d_k×d.*'; did you mean 'W ∈ .*d_k×d_k.*'"),
        (["w"], "no input named 'w'"),
        ([K.T], "no input named 'K.T'"),
        ([3], "no input named '3'"),
    ],
)
def test_a_twin_of_what_is_no_input_is_refused(twin: list[object], message: str) -> None:
    with pytest.raises(sa.UnknownNameError, match=message):
        sa.translate(PAIRS["general"].column, to="row", twin=twin)
    with pytest.raises(sa.UnknownNameError):
        sa.translate(PAIRS["general"].column, to="column", twin=twin)


@pytest.mark.parametrize("expr", ["V @ P", np.eye(2), 3], ids=["text", "array", "number"])
def test_what_is_no_formula_is_refused(expr: object) -> None:
    with pytest.raises(sa.SymattnError):
        sa.translate(expr, to="row")


def test_text_and_latex_end_with_the_twin() -> None:
    translation = sa.translate(PAIRS["scaled dot-product"].column, to="row")
    lines = translation.text().splitlines()
    assert lines[0] == "(V Softmax(KᵀQ / √d_k))ᵀ"
    assert lines[-1].split("    ")[0] == f"  = {sa.text(PAIRS['scaled dot-product'].row)}"
    assert lines[-1].endswith("writing Q, K, V for Qᵀ, Kᵀ, Vᵀ")
    assert len(lines) == 7
    written = translation.latex("vaswani")
    assert written.count("&=") == 6
    assert r"&= \mathrm{softmax}\left(\frac{QK^T}{\sqrt{d_k}}\right)V && " in written


@pytest.mark.parametrize("write", [lambda t: t.text(), lambda t: t.latex()], ids=["text", "latex"])
def test_a_derivation_without_steps_is_one_line(write: Callable[[Translation], str]) -> None:
    assert write(sa.translate(Q, to="row")).count("= ") == 1


def test_scores_without_a_softmax_are_translated_as_scores_are() -> None:
    d_k, n, m, e = sa.dims("d_k n m e")
    Q, K, W = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("W", d_k, d_k)
    X, W_Q = sa.matrix("X", e, n), sa.matrix("W_Q", d_k, e)
    assert sa.text(sa.translate(K.T @ Q, to="row").expr, "vaswani") == "Q Kᵀ"
    assert sa.text(sa.translate(K.T @ W @ Q, to="row").expr, "vaswani") == "Q Wᵀ Kᵀ"
    # Features are no tokens: a projection keeps its weight.
    assert sa.text(sa.translate(W_Q @ X, to="row").expr, "vaswani") == "X W_Qᵀ"
    assert sa.text(sa.translate(W @ Q, to="row").expr, "vaswani") == "Q Wᵀ"
    for expr in (K.T @ Q, K.T @ W @ Q, W_Q @ X, W @ Q):
        twin = sa.translate(expr, to="row")
        assert twin.proof
        assert sa.prove(twin.expr.xreplace(twin.inputs), expr.T)
