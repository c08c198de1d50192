"""`prove`: what has to be proved, what has to be refuted, and what is neither."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

import symattn as sa
from symattn.evaluate import evaluate
from symattn.proof import Proof
from symattn.proof.results import SAME_INDEX_FORM

d, d_k, d_v, n, m = sa.dims("d d_k d_v n m")
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
X, Y = sa.matrix("X", d, n), sa.matrix("Y", d, m)
W_Q, W_K = sa.matrix("W_Q", d_k, d), sa.matrix("W_K", d_k, d)
W = sa.matrix("W", d_k, d_k)
P, R = sa.matrix("P", m, n), sa.matrix("R", m, n)
G = sa.matrix("G", n, n)
shift = sa.matrix("c", 1, n)
S = K.T @ Q
quarter = d_k ** sympy.Rational(1, 4)


def over_its_sum(weights: Any) -> Any:
    """exp(…) over the sum of its columns, written with matrices."""
    return sa.hadamard(weights, sa.reciprocal(sa.ones(m, 1) @ (sa.ones(1, m) @ weights)))


PROVED: dict[str, tuple[Any, Any]] = {
    "column is row": (
        (V @ sa.softmax(S / sa.sqrt(d_k), axis=0)).T,
        sa.softmax(Q.T @ K / sa.sqrt(d_k), axis=1) @ V.T,
    ),
    "general column is row": ((K.T @ W @ Q).T, Q.T @ W.T @ K),
    "shift by a query row": (sa.softmax(S + sa.ones(m, 1) @ shift, axis=0), sa.softmax(S, axis=0)),
    "columns sum to one": (sa.ones(1, m) @ sa.softmax(S, axis=0), sa.ones(1, n)),
    "values are linear": (V @ (P - R), V @ P - V @ R),
    "merged weights": ((W_K @ Y).T @ (W_Q @ X), Y.T @ (W_K.T @ W_Q) @ X),
    "tanh is odd": (sa.tanh(-S), -sa.tanh(S)),
    "tanh of a difference": (sa.tanh(P - R), -sa.tanh(R - P)),
    "exp over its sum": (over_its_sum(sa.exp(S)), sa.softmax(S, axis=0)),
    "with a shift": (over_its_sum(sa.exp(S - sa.ones(m, 1) @ shift)), sa.softmax(S, axis=0)),
    "with the maximum": (
        over_its_sum(sa.exp(S - sa.ones(m, 1) @ sa.max(S, axis=0))),
        sa.softmax(S, axis=0),
    ),
    "scale on the keys": ((K / sa.sqrt(d_k)).T @ Q, S / sa.sqrt(d_k)),
    "scale on the queries": (K.T @ (Q / sa.sqrt(d_k)), S / sa.sqrt(d_k)),
    "two fourth roots": ((K / quarter).T @ (Q / quarter), S / sa.sqrt(d_k)),
    "sigmoid": (sa.sigmoid(S) + sa.sigmoid(-S), sa.ones(m, n)),
    "associativity": (V @ (K.T @ Q), V @ K.T @ Q),
    "constant columns pass through": (
        sa.matrix("u", d_v, 1) @ sa.ones(1, m) @ sa.softmax(S, axis=0),
        sa.matrix("u", d_v, 1) @ sa.ones(1, n),
    ),
    "antisymmetric scores": (sa.tanh(G - G.T).T, -sa.tanh(G - G.T)),
    "any function of equals": (
        sa.function("phi")(W_K @ X + W_Q @ X),
        sa.function("phi")((W_Q + W_K) @ X),
    ),
    "softmax along an axis of size one": (
        sa.softmax(sa.matrix("r", 1, n), axis=0),
        sa.ones(1, n),
    ),
    "a size as a number": (sa.ones(1, m) @ sa.ones(m, n), m * sa.ones(1, n)),
    "log undoes exp": (sa.log(sa.exp(P)), P),
}

REFUTED: dict[str, tuple[Any, Any]] = {
    "softmax over the other axis": (V @ sa.softmax(S, axis=0), V @ sa.softmax(S, axis=1)),
    "row twin with W untransposed": ((K.T @ W @ Q).T, Q.T @ W @ K),
    "a missing scale": (
        V @ sa.softmax(S / sa.sqrt(d_k), axis=0),
        V @ sa.softmax(S, axis=0),
    ),
    "a single fourth root": ((K / quarter).T @ Q, S / sa.sqrt(d_k)),
    "a transposed weight": (K.T @ W @ Q, K.T @ W.T @ Q),
    "softmax of a sum": (sa.softmax(P + R, axis=0), sa.softmax(P, axis=0) + sa.softmax(R, axis=0)),
    "a shift along the axis": (
        sa.softmax(S + sa.matrix("b", m, 1) @ sa.ones(1, n), axis=0),
        sa.softmax(S, axis=0),
    ),
    "columns summed along rows": (sa.softmax(S, axis=0) @ sa.ones(n, 1), sa.ones(m, 1)),
    "root of a square": (sa.sqrt(sa.square(P)), P),
    "order of factors": (G @ G.T, G.T @ G),
    "an unknown function is not odd": (sa.function("phi")(-P), -sa.function("phi")(P)),
    "relu is not odd": (sa.relu(-P), -sa.relu(P)),
    "true at size one only": (sa.ones(1, m) @ P, sa.max(P, axis=0)),
}


@pytest.mark.parametrize("name", PROVED)
def test_proved_with_steps_that_replay(name: str) -> None:
    result = sa.prove(*PROVED[name])
    assert result.verdict == "proved", result.text()
    assert result
    assert result.conditions == ()
    assert result.steps[0].before == PROVED[name][0]
    assert result.steps[-1].after == PROVED[name][1]
    assert result.check()
    assert all(step.law and step.reason for step in result.steps)
    assert r"\begin{aligned}" in result.latex()


@pytest.mark.parametrize("name", REFUTED)
def test_refuted_with_numbers_that_differ(name: str) -> None:
    left, right = REFUTED[name]
    result = sa.prove(left, right)
    assert result.verdict == "refuted", result.text()
    assert not result
    assert result.check()
    for tag, size in result.relations:
        assert result.sizes[tag] == size.value(result.sizes)
    inputs = {node: result.inputs[node.label] for node in {*left.inputs(), *right.inputs()}}
    i, j = result.entry or (0, 0)
    values = [evaluate(side, result.sizes, inputs, result.scalars)[i, j] for side in (left, right)]
    assert abs(values[0] - values[1]) > 1e-9
    assert math.isclose(float(values[0]), float(result.lhs_value), rel_tol=1e-14)
    assert math.isclose(float(values[1]), float(result.rhs_value), rel_tol=1e-14)
    assert r"\neq" in result.latex()


def test_values_on_the_wrong_side_are_refuted_where_the_shapes_allow_it() -> None:
    weights = sa.softmax(S, axis=0)
    with sa.assuming("m = n", "d_v = n"):
        result = sa.prove(V @ weights, weights @ V)
        assert not sa.prove(V @ weights, V @ sa.softmax(S, axis=1))
    assert result.verdict == "refuted"
    assert result.sizes["n"] == result.sizes["m"] == result.sizes["d_v"] != result.sizes["d_k"]
    assert "with d_v = n, m = n" in result.text()


def test_a_counterexample_holds_for_numpy_too() -> None:
    left, right = REFUTED["a missing scale"]
    result = sa.prove(left, right)
    arrays = [
        np.array([[float(Fraction(x)) for x in row] for row in result.inputs[name]])
        for name in ("Q", "K", "V")
    ]
    f, g = (sympy.lambdify([Q, K, V], side, "numpy") for side in (left, right))
    assert f(*arrays)[result.entry] == pytest.approx(float(result.lhs_value), rel=1e-12)
    assert g(*arrays)[result.entry] == pytest.approx(float(result.rhs_value), rel=1e-12)


def test_the_derivation_from_column_to_row_is_five_named_steps() -> None:
    result = sa.prove(*PROVED["column is row"])
    assert [step.law for step in result.steps] == [
        "transpose of a product",
        "transpose of softmax",
        "transpose of a quotient",
        "transpose of a product",
        "transpose of a transpose",
    ]
    assert result.text("vaswani").splitlines()[0] == "proved"


def test_where_no_steps_are_found_the_entries_are_shown() -> None:
    result = sa.prove(sa.hadamard(P, sa.reciprocal(P)), sa.ones(m, n))
    assert result.verdict == "proved"
    assert [step.law for step in result.steps] == [SAME_INDEX_FORM]
    assert result.conditions == ("P[i,j] ≠ 0",)
    assert "where P[i,j] ≠ 0" in result.text()
    assert result.check()


@pytest.mark.parametrize("name", sa.formulas())
def test_every_formula_says_the_same_in_both_layouts(name: str) -> None:
    column, row = sa.formula(name), sa.formula(name, layout="row")
    for left, right in ((column, row), (row, column)):
        result = sa.prove(left, right)
        assert result.verdict == "proved", result.text()
        assert result.row == row.expr
        assert sa.text(row.expr) in result.text()
        assert result.check()


def test_a_translation_is_proved_as_it_is_given() -> None:
    source = sa.formula("scaled_dot_product").expr
    twin = sa.translate(source, to="row")
    assert sa.prove(source, twin).text().endswith("writing Q, K, V for Qᵀ, Kᵀ, Vᵀ")
    assert sa.prove(twin, source)
    assert sa.prove(twin.expr, sa.translate(twin.expr, to="column"))


def test_symbols_that_only_one_side_knows_are_named() -> None:
    query, key = sa.matrix("query", d_k, n), sa.matrix("key", d_k, m)
    result = sa.prove(S, key.T @ query)
    assert result.verdict == "refuted"
    assert "K, Q only on the left, key, query only on the right" in result.note
    assert sa.prove(S, key.T @ query, given={query: Q, key: K})


def test_equal_expressions_need_no_step() -> None:
    result = sa.prove(S, S)
    assert result
    assert result.steps == ()
    assert result.check()
    assert sa.prove(sa.Program(S=S), S).verdict == "proved"
    assert sa.prove(sa.reciprocal(P), sa.reciprocal(P)).conditions == ("P[i,j] ≠ 0",)
    big = P
    for _ in range(13):
        big = big + big
    result = sa.prove(big, big)
    assert result.verdict == "proved"
    assert "not listed" in result.note


def test_nothing_is_proved_where_the_evaluator_never_had_a_value() -> None:
    never = sa.log(-sa.exp(P))
    result = sa.prove(never + P, P + never)
    assert result.verdict == "undecided"
    assert "the normal forms agree; at each of" in result.reason


def test_a_counterexample_that_was_hard_to_find_is_replayed_at_its_point() -> None:
    x = [sa.matrix(f"x_{k}", 1, 1) for k in range(4)]
    rare = sa.relu(x[0] + x[1] + x[2] + x[3] - 3 * sa.ones(1, 1))
    result = sa.prove(rare, 0 * x[0] + 0 * x[1] + 0 * x[2] + 0 * x[3])
    assert result.verdict == "refuted"
    assert result.check()
    assert not replace(result, lhs_value=result.rhs_value).check()


def test_exact_divisions_are_conditions() -> None:
    h, d_model = sa.dims("h d_model")
    A = sa.matrix("A", d_model // h, n)
    assert sa.prove(A + A, 2 * A).conditions == ("h divides d_model",)
    with sa.assuming("d_model = h*d_k"):
        assert sa.prove(A + A, 2 * A).conditions == ()


@pytest.mark.parametrize(("left", "right"), [("row", "column"), ("column", "row")])
@pytest.mark.parametrize("name", sa.formulas())
def test_no_derivation_goes_in_circles(name: str, left: str, right: str) -> None:
    result = sa.prove(sa.formula(name, layout=left), sa.formula(name, layout=right))
    lines = [result.lhs, *(step.after for step in result.steps)]
    assert len(set(lines)) == len(lines)


def test_undecided_says_why() -> None:
    root = sa.sqrt(sa.hadamard(P, P))
    result = sa.prove(sa.relu(P) + sa.relu(-P), root)
    assert result.verdict == "undecided"
    assert "agree on" in result.reason
    assert result.check()
    assert not result
    big = P
    for k in range(14):
        big = sa.hadamard(big, P + R + sa.matrix(f"T_{k}", m, n))
    result = sa.prove(big, big + 0 * P)
    assert result.verdict == "undecided"
    assert "budget" in result.reason


def test_relations_in_force_and_carried_decide() -> None:
    a, b = sa.ones(1, m) @ sa.ones(m, 1), n * sa.ones(1, 1)
    assert sa.prove(a, b).verdict == "refuted"
    with sa.assuming("m = n"):
        assert sa.prove(a, b).verdict == "proved"
    with sa.assuming("d_model = h*d_k"):
        h, d_model = sa.dims("h d_model")
        assert sa.prove(d_model * sa.ones(1, 1), h * d_k * sa.ones(1, 1)).verdict == "proved"


def test_positive_scalars_need_no_condition() -> None:
    c, t = sa.scalar("c"), sa.scalar("t", positive=True)
    free = sa.prove(c * (P / c), P)
    assert free.verdict == "proved"
    assert free.conditions == ("c ≠ 0",)
    assert sa.prove(t * (P / t), P).conditions == ()
    assert sa.prove(sa.sqrt(t) * (sa.sqrt(t) * P), t * P).conditions == ()


def test_unequal_shapes_are_an_error_with_a_fix() -> None:
    A = V @ sa.softmax(S, axis=0)
    with pytest.raises(sa.ShapeError, match="the rows of the left side are d_v") as caught:
        sa.prove(A, A.T)
    assert ".T" in caught.value.fix


def test_one_name_for_two_symbols_is_an_error_unless_it_is_said_how_they_relate() -> None:
    Q_row, K_row = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k)
    with pytest.raises(sa.SymbolClashError, match="Q is two different symbols"):
        sa.prove(S.T, Q_row @ K.T.T)
    assert sa.prove(S.T, Q_row @ K_row.T, given={Q_row: Q.T, K_row: K.T})
    with pytest.raises(sa.SymbolClashError, match="scalar"):
        sa.prove(sa.scalar("m") * P, P)


BAD_CALLS: list[tuple[Callable[[], object], type[Exception]]] = [
    (lambda: sa.prove("Q", Q), sa.TextRefusedError),
    (lambda: sa.prove(Q, np.ones((2, 3))), sa.NotAnOperandError),
    (lambda: sa.prove(Q, 1), sa.NotAnOperandError),
    (lambda: sa.prove(Q, Q, given={"Q": Q}), sa.TextRefusedError),
    (lambda: sa.prove(Q, Q, given=[1]), sa.NotAnOperandError),  # pyright: ignore[reportArgumentType]
    (lambda: sa.prove(Q, Q, given={Q: Q.T}), sa.ShapeError),
    (lambda: sa.prove(S, S, given={K: sa.matrix("Z", d, m)}), sa.ShapeError),
    (lambda: sa.prove(sympy.MatrixSymbol("Q", 2, 2), Q), sa.NotAnOperandError),
]


@pytest.mark.parametrize(("call", "error"), BAD_CALLS)
def test_bad_calls_are_refused(call: Callable[[], object], error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


def test_a_wrong_normal_form_would_be_reported_as_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    from symattn.proof import decide
    from symattn.proof.normal import Comparison

    monkeypatch.setattr(decide, "compared", lambda *_: Comparison(True, "", ()))
    with pytest.raises(sa.InternalError, match="bug in symattn"):
        sa.prove(V @ sa.softmax(S, axis=0), V @ sa.softmax(S, axis=1))


def test_proofs_are_printed_and_read_as_results() -> None:
    result = sa.prove(*PROVED["values are linear"])
    assert isinstance(result, Proof)
    assert repr(result) == result.text()
    assert (result._repr_latex_() or "").startswith("$")
    assert sa.prove(*REFUTED["root of a square"])._repr_latex_() is None
