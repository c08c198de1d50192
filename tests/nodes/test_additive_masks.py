"""Additive masks: where −∞ may stand, what is refused by name elsewhere, and what is printed."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy

import symattn as sa
from symattn.evaluate import evaluate
from symattn.meaning.form import Softmax as SoftmaxForm, Truth, children, place
from symattn.nodes import Mask, Program, Softmax
from symattn.nodes.finite import with_selections

d_k, d_v, n, m = sa.dims("d_k d_v n m")
S, V, A = sa.matrix("S", m, n), sa.matrix("V", d_v, m), sa.matrix("A", n, n)
LEFT, RIGHT = sa.causal("top_left"), sa.causal("bottom_right")
M = sa.additive_mask(RIGHT, m, n, axis=0)
c, tau, x = sa.scalar("c"), sa.scalar("tau", positive=True), sympy.Symbol("x")

# Where it may stand.

PASSING: list[Callable[[Any], Any]] = [
    *(lambda x: x, lambda x: S + x, lambda x: x - S, lambda x: x + x, lambda x: S + (S + x)),
    *(lambda x: x / sympy.sqrt(d_k), lambda x: 2 * x, lambda x: x * 0.5, lambda x: tau * x / 3),
    *(lambda x: x / (d_k * tau), lambda x: sa.exp(c) * x, lambda x: x.T.T),
    *(lambda x: (S.T + x.T).T, lambda x: tau * ((S + x) / n + S)),
]


@pytest.mark.parametrize("written", PASSING)
def test_what_passes_an_additive_mask_on(written: Callable[[Any], Any]) -> None:
    scores = written(M)
    assert scores.has_minus_infinity
    assert scores.shape == (m, n)
    for closed in (sa.softmax(scores, axis=0), sa.exp(scores), V @ sa.softmax(scores, axis=0)):
        assert not closed.has_minus_infinity
        for again in (copy.deepcopy(closed), pickle.loads(pickle.dumps(closed))):
            assert again == closed
            assert not again.has_minus_infinity
    assert written(S).has_minus_infinity is False
    # Code selects by the same mask, from the same scores without it.
    finite, masks = scores.finite_and_masks()
    assert set(masks) == {M}
    selected = with_selections(sa.softmax(scores, axis=0))
    assert selected.mask == RIGHT
    assert finite is None or selected == sa.softmax(finite, axis=0, mask=RIGHT)


def test_masks_are_met() -> None:
    added = sa.additive_mask(sa.padding(), m, n, axis=0)
    node = sa.softmax((S + M) / 2 + added + M, axis=0, mask=sa.keep())
    assert isinstance(node, Softmax)
    assert str(node.allowed) == "keep() & causal(align='bottom_right') & padding()"
    assert node.mask == sa.keep()
    assert [array.label for array in node.booleans()] == ["padding", "keep"]
    form = node.meaning(place(m_size), place(n_size))
    assert isinstance(form, SoftmaxForm)
    assert form.allowed is not None
    exp = sa.exp(S + M + added).meaning(place(m_size), place(n_size))
    assert sum(isinstance(part, Truth) for part in children(exp)) == 2


m_size, n_size = S.sizes


# Where it may not.

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a mask that leaves": (lambda: S + M - M, r"an additive mask is added"),
    "a negation": (lambda: -M, r"\+∞"),
    "a difference": (lambda: S - M, r"added, as in S \+ M"),
    "a product in front": (lambda: V @ (S + M), r"V @ softmax\(S \+ M, axis=0\)"),
    "a product behind": (lambda: (S + M) @ sa.ones(n, 1), "a product of matrices"),
    "zero": (lambda: 0 * M, "certainly positive may scale it, not 0$"),
    "a negative number": (lambda: M / -2, "not -2$"),
    "a scalar of unknown sign": (lambda: c * (S + M), r'not c; .* sa.scalar\("c", positive=True\)'),
    "a SymPy symbol": (lambda: M / x, "not x; declare it"),
    "a size less one": (lambda: M * (d_k - 1), "not d_k - 1;"),
    "a factor": (lambda: sa.hadamard(S, M), r"sa\.indicator\(mask, rows, columns, axis=…\)"),
    "tanh": (lambda: c * sa.tanh(S + M), r"add the mask last, to tanh\(S\)"),
    "log": (lambda: sa.log(M), "log takes finite numbers"),
    "reciprocal": (lambda: sa.reciprocal(M), "reciprocal takes finite numbers"),
    "phi": (lambda: sa.function("phi")(M), "phi takes finite numbers"),
    "max": (lambda: sa.max(S + M, axis=0), "a softmax subtracts its maximum by itself"),
    "concat": (lambda: sa.concat(M, S, axis=1), "one mask of all keys"),
    "a score": (
        lambda: sa.pairwise(lambda q, k: k.T @ q + sa.additive_mask(LEFT, 1, 1, axis=0), V, V),
        "add the mask to all scores together",
    ),
    "a negative replacement": (
        lambda: sa.softmax(tau * (S + M), axis=0).xreplace({tau: sympy.Integer(-1)}),
        "not -1",
    ),
    "a replaced operand": (lambda: sa.tanh(S).xreplace({S: S + M}), "tanh takes finite"),
    "a meaning": (lambda: (S + M).meaning((), ()), "only a softmax or an exp"),
    "prove": (lambda: sa.prove(S + M, S + M), "prove takes a whole formula"),
    "prove, on the right": (lambda: sa.prove(S, M), "prove takes a whole formula"),
    "prove, given": (lambda: sa.prove(S, V.T @ V, given={S: M}), "prove takes a whole formula"),
    "translate": (lambda: sa.translate(S + M, to="row"), "translate takes a whole formula"),
    "lambdify": (lambda: sa.lambdify([S], S + M), "lambdify takes a whole formula"),
    "a program": (lambda: sa.lambdify([S], Program(S_M=S + M)), "lambdify takes a whole formula"),
    "evaluate": (
        lambda: evaluate(S + M, {"m": 1, "n": 1}, {S: [[1]]}),
        "evaluate takes a whole formula",
    ),
    "SymPy's lambdify": (lambda: sympy.lambdify([S, n, m], S + M, "numpy"), "lambdify takes a"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_minus_infinity_is_refused_by_name(name: str) -> None:
    call, words = REFUSED[name]
    with pytest.raises(sa.MinusInfinityError, match=words) as caught:
        call()
    assert "additive_mask(" in caught.value.value
    assert caught.value.reason in str(caught.value)
    assert "which is no number" in str(caught.value)


@pytest.mark.parametrize("axis", [0, 1])
def test_keys_lie_along_the_axis_of_the_softmax(axis: int) -> None:
    scores = A + sa.additive_mask(sa.causal(), n, n, axis=axis)
    for right in (sa.softmax(scores, axis=axis), sa.softmax(scores.T, axis=1 - axis)):
        assert isinstance(right, Softmax)
        assert right.allowed == sa.causal()
    for wrong in (
        lambda: sa.softmax(scores, axis=1 - axis),
        lambda: sa.softmax(scores.T, axis=axis),
    ):
        with pytest.raises(sa.AxisError, match="the keys of additive_mask") as caught:
            wrong()
        assert caught.value.fix.endswith(")")


@pytest.mark.parametrize(
    "value", [1, np.ones((5, 7)), np.ones((5, 7), bool), M, sa.indicator(LEFT, m, n, axis=0), "M"]
)
def test_what_is_no_mask_is_refused(value: Any) -> None:
    for call in (
        lambda: sa.additive_mask(value, m, n, axis=0),
        lambda: sa.softmax(S, axis=0, mask=value),
    ):
        with pytest.raises(sa.MaskError, match=r"is not a mask here: \w"):
            call()


def test_a_matrix_of_a_mask_is_no_mask_and_says_which_is() -> None:
    with pytest.raises(
        sa.MaskError, match=r"write the mask itself, causal\(align='bottom_right'\)"
    ):
        sa.softmax(S, axis=0, mask=M)


def test_other_arguments() -> None:
    with pytest.raises(sa.AlignmentError):
        sa.additive_mask(sa.causal(), m, n, axis=0)
    with pytest.raises(sa.AxisError, match="an axis is 0 or 1"):
        sa.additive_mask(RIGHT, m, n, axis=2)
    with pytest.raises(sa.ShapeError, match="does not fit"):
        _ = V + M
    with pytest.raises(sa.ShapeError, match="the rows of S are m"):
        _ = S + sa.additive_mask(sa.padding(), 1, n, axis=0)
    with pytest.raises(sa.ShapeError, match="the rows of the left side are m"):
        sa.prove(sa.exp(S), sa.exp(S), given={S: sa.additive_mask(RIGHT, 1, n, axis=0)})
    with sa.assuming("m = n"):
        related = sa.softmax(S + sa.additive_mask(sa.causal(), n, n, axis=0), axis=0)
    # The relation is carried along, also to what code computes.
    assert with_selections(related).given == related.given != sa.ones(1, 1).given


INFINITIES: list[Callable[[], Any]] = [
    *(lambda: S * float("-inf"), lambda: float("inf") * S, lambda: S * sympy.oo),
    *(lambda: S / sympy.oo, lambda: S - sympy.oo, lambda: S + float("-inf")),
    *(lambda: S * np.float32("-inf"), lambda: (-sympy.oo * x) * S, lambda: (x - sympy.oo) * S),
    *(lambda: S * sympy.zoo, lambda: sa.exp(sympy.oo), lambda: (c * S).xreplace({c: -sympy.oo})),
    lambda: sa.positional(lambda i, j: float("-inf"), n, m, layout="row"),
    lambda: sa.positional(lambda i, j: -sympy.oo * (i - j), n, m, layout="row"),
]


@pytest.mark.parametrize("call", INFINITIES)
def test_an_infinity_is_no_number_of_a_formula(call: Callable[[], Any]) -> None:
    with pytest.raises(sa.NotAnOperandError, match=r"sa\.additive_mask\(…\)"):
        call()


def test_what_is_no_number_at_all_has_nothing_to_do_with_masks() -> None:
    for value in (float("nan"), sympy.nan, sympy.I):
        with pytest.raises(sa.NotAnOperandError, match=r"finite real number$"):
            _ = S * value


# Printing.


@pytest.mark.parametrize(
    ("mask", "as_text", "as_latex"),
    [
        (LEFT, "j ≤ i", r"j \le i"),
        (RIGHT, "j ≤ i + m - n", r"j \le i + m - n"),
        (sa.padding(), "padding[j]", r"\mathrm{padding}_{j}"),
    ],
    ids=["top left", "bottom right", "padding"],
)
def test_it_is_written_by_its_condition(mask: Mask, as_text: str, as_latex: str) -> None:
    column, row = (sa.additive_mask(mask, *at, axis=k) for k, at in enumerate(((m, n), (n, m))))
    scores = sa.softmax((S + column) / sa.sqrt(d_k), axis=0)
    assert sa.text(scores) == f"Softmax((S + M_{{{as_text}}}) / √d_k)"
    assert sa.text(sa.exp(S.T + row)) == f"exp(Sᵀ + M_{{{as_text}}})"
    assert sa.latex(column) == rf"\mathbf{{M}}_{{{as_latex}}}"
    assert column.definition() == f"M_{{{as_text}}}[j,i] = 0 where {as_text}, −∞ elsewhere"
    assert row.definition() == f"M_{{{as_text}}}[i,j] = 0 where {as_text}, −∞ elsewhere"
    bare = as_latex.replace("_{j}", "_j")  # as this preset writes one letter
    assert sa.latex(row, "vaswani") == rf"M_{{{bare}}}"
    assert sa.latex(column.T, "vaswani") == rf"M_{{{bare}}}^T"
    cases = rf"\begin{{cases}} 0 & {as_latex} \\ -\infty & \text{{otherwise}} \end{{cases}}"
    assert column.latex_definition() == rf"(\mathbf{{M}}_{{{as_latex}}})_{{ji}} = {cases}"
    cases = cases.replace(as_latex, bare)
    assert row.latex_definition("vaswani") == rf"(M_{{{bare}}})_{{ij}} = {cases}"
    namespace = {**vars(sa), "m": m, "n": n, **{k: getattr(sa, k) for k in ("causal", "padding")}}
    assert eval(str(column), {**namespace, "additive_mask": sa.additive_mask}) == column


def test_of_a_single_query() -> None:
    one = sa.additive_mask(sa.padding(), m, 1, axis=0)
    assert one.definition() == "M_{padding[j]}[j] = 0 where padding[j], −∞ elsewhere"
    assert sa.additive_mask(sa.causal(), 1, 1, axis=0).latex_definition("vaswani") == (
        r"M_{0 \le 0} = \begin{cases} 0 & 0 \le 0 \\ -\infty & \text{otherwise} \end{cases}"
    )


def test_lines_of_a_program() -> None:
    scores = (V.T @ V @ S + M) / sa.sqrt(d_k)
    program = Program(S_M=scores, P=sa.softmax(scores, axis=0))
    assert repr(program) == "S_M = (VᵀVS + M_{j ≤ i + m - n}) / √d_k\nP = Softmax(S_M)"
    assert r"\frac{\mathbf{V}^{\mathsf{T}} \mathbf{V} \mathbf{S} + \mathbf{M}" in program.latex()
