"""Attention at one position: the lines of the texts, and their values."""

from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.views.by_position import PerPosition
from symattn.views.operands import as_steps
from tests.views.points import (
    CATALOGUE,
    SIZES,
    arrays_for,
    heads_of,
    of_all_heads,
    written,
)
from tests.views.readings import Numbers

d_k, d_v, n, m = sa.dims("d_k d_v n m")
Q, K, V = sa.matrix("Q", n, d_k), sa.matrix("K", m, d_k), sa.matrix("V", m, d_v)


@pytest.mark.parametrize(("name", "layout"), CATALOGUE)
def test_scores_weights_and_values_give_the_output(name: str, layout: str) -> None:
    """The steps are computed as they are printed, from vectors, one query of a head at a time."""
    formula = sa.formula(name, layout=layout)
    view: Any = sa.per_position(formula)
    arrays = arrays_with_lines(formula)
    attended = formula.program[view._steps.result.label]
    queries, keys = (size.value(SIZES) for size in (view._queries, view._keys))
    mask = view._steps.softmax.mask
    for heads in heads_of(attended):
        expected = written(attended, arrays, heads)
        head = {index: k for each, k in heads.items() for index in each.place}
        for i in range(queries):
            at = [
                {**head, **dict.fromkeys(view._query, i), **dict.fromkeys(view._key, j)}
                for j in range(keys)
            ]
            scores = [float(np.squeeze(Numbers(arrays, here)(view._score))) for here in at]
            values = [Numbers(arrays, here)(view._value) for here in at]
            kept = [j for j in range(keys) if mask is None or allowed(mask, arrays, view, i, j)]
            total = sum(np.exp(scores[j]) for j in kept)
            output = sum(np.exp(scores[j]) / total * values[j] for j in kept)
            np.testing.assert_allclose(output, line_of(expected, layout, i), atol=1e-12)


def arrays_with_lines(formula: Any) -> dict[Any, Any]:
    """Arrays for the inputs of a formula, and what its lines are, by their symbols."""
    arrays = arrays_for(formula.expr)
    symbols = formula.program.line_symbols
    lines = formula.program.lines.items()
    return arrays | {symbols[name].source: of_all_heads(line, arrays) for name, line in lines}


def line_of(array: Any, layout: str, k: int) -> Any:
    """The token at a position."""
    return array[:, k : k + 1] if layout == "column" else array[k : k + 1, :]


HEADS = [(name, layout) for name, layout in CATALOGUE if "head" in sa.formula(name).program]


@pytest.mark.parametrize(("name", "layout"), HEADS)
def test_heads_are_put_together_to_the_output(name: str, layout: str) -> None:
    formula = sa.formula(name, layout=layout)
    view: Any = sa.per_position(formula)
    arrays = arrays_with_lines(formula)
    ((_, value),) = view._after
    for k in range(view._queries.value(SIZES)):
        found = Numbers(arrays, dict.fromkeys(view._query, k))(value)
        expected = line_of(written(formula.expr, arrays), layout, k)
        np.testing.assert_allclose(found, expected, atol=1e-12)


def allowed(mask: Any, arrays: dict[Any, Any], view: Any, i: int, j: int) -> bool:
    """Whether a mask of the catalogue lets query i attend to key j."""
    match str(mask):
        case "causal()":
            return j <= i
        case "window(w)":
            return abs(i - j) < SIZES["w"]
        case "padding()":
            (given,) = (array for symbol, array in arrays.items() if symbol.label == "padding")
            return bool(given[j])
        case other:
            raise AssertionError(f"{other} is new in the catalogue: say here what it allows")


@pytest.mark.parametrize(("name", "layout"), CATALOGUE)
def test_vectors_that_are_made_are_their_lines(name: str, layout: str) -> None:
    formula = sa.formula(name, layout=layout)
    view: Any = sa.per_position(formula)
    arrays = arrays_with_lines(formula)
    steps = ("S", "P", "head", "O")
    made = {k: line for k, line in formula.program.lines.items() if k not in steps}
    assert len(view._made) == len(made)
    for (vector, value), (name_of, line) in zip(view._made, made.items(), strict=True):
        (position,) = vector.at
        for heads in heads_of(line):
            head = {index: k for each, k in heads.items() for index in each.place}
            found = Numbers(arrays, {**head, position: 2})(value)
            expected = line_of(written(line, arrays, heads), layout, 2)
            np.testing.assert_allclose(found, expected, atol=1e-12)
        assert vector.label == (name_of.lower() if layout == "column" else name_of)


def test_latex_is_that_of_the_text() -> None:
    assert sa.per_position(sa.formula("scaled_dot_product", layout="row")).latex() == (
        "\\begin{aligned}\n"
        "\\mathrm{score}_{ij} &= \\frac{Q_iK_j^T}{\\sqrt{d_k}} \\\\\n"
        "a_{ij} &= \\mathrm{softmax}_j(\\mathrm{score}_{ij}) = \\frac{\\exp(\\mathrm{score}_{ij})}"
        "{\\sum_{t=1}^m \\exp(\\mathrm{score}_{it})} \\\\\n"
        "\\mathrm{output}_i &= \\sum_{j=1}^m a_{ij}V_j \\qquad (1 \\times d_v) \\\\\n"
        "\\mathrm{output} &= \\begin{bmatrix} \\mathrm{output}_1 \\\\ \\mathrm{output}_2 \\\\ "
        "\\vdots \\\\ \\mathrm{output}_n \\end{bmatrix} \\qquad (n \\times d_v)\n"
        "\\end{aligned}"
    )


MASKED = """\
q_i        = W^Q x_i  (d_k × 1)
k_j        = W^K x_j  (d_k × 1)
v_j        = W^V x_j  (d_v × 1)
score[i,j] = k_j·q_i / √d_k
a[i,j]     = softmax_{j: j ≤ i}(score[i,j]) = [j ≤ i] exp(score[i,j]) / \
(Σ_{t=1}^n [t ≤ i] exp(score[i,t]))  (0 where no key is allowed)
output_i   = Σ_{j=1}^n a[i,j] v_j  (d_v × 1)
output     = [output_1  output_2  ⋯  output_n]  (d_v × n)"""


def test_text() -> None:
    assert str(sa.per_position(sa.formula("causal_self_attention"))) == MASKED


IN_HEADS = """\
q_t^{(i)}        = W^Q_i x_t  (d_k × 1)  (for each head i)
k_j^{(i)}        = W^K_i x_j  (d_k × 1)
v_j^{(i)}        = W^V_i x_j  (d_v × 1)
score^{(i)}[t,j] = k_j^{(i)}·q_t^{(i)} / √d_k
a^{(i)}[t,j]     = softmax_j(score^{(i)}[t,j]) = exp(score^{(i)}[t,j]) / \
(Σ_{s=1}^n exp(score^{(i)}[t,s]))
head_t^{(i)}     = Σ_{j=1}^n a^{(i)}[t,j] v_j^{(i)}  (d_v × 1)
output_t         = W^O [head_t^{(1)}; …; head_t^{(h)}]  (d_model × 1)
output           = [output_1  output_2  ⋯  output_n]  (d_model × n)"""


def test_heads_are_told_above() -> None:
    assert str(sa.per_position(sa.formula("multi_head_attention"))) == IN_HEADS
    packed = sa.per_position(sa.formula("packed_multi_head", layout="row"))
    assert "\\mathrm{head}_t^{(i)} &= \\sum_{j=1}^n a_{tj}^{(i)}V_j^{(i)} " in packed.latex()
    assert "W^O + (b^O)ᵀ  (1 × d_model)" in packed.text()
    groups = sa.per_position(sa.formula("grouped_query", layout="row"))
    assert "score^{(a,b)}[i,j] = Q_i^{(a,b)} (K_j^{(a)})ᵀ / √d_k\n" in str(groups)


@pytest.mark.parametrize(
    ("name", "first", "letters"),
    [
        ("multi_head_attention", "Q_t^{(i)}", "i"),
        ("packed_multi_head", r"\mathrm{score}_{tj}^{(i)}", "i"),
        ("grouped_query", "Q_i^{(a,b)}", "a,b"),
    ],
)
def test_heads_are_named_on_the_first_line_that_has_them(
    name: str, first: str, letters: str
) -> None:
    lines = sa.per_position(sa.formula(name, layout="row")).latex().splitlines()
    at = next(k for k, line in enumerate(lines) if f"^{{({letters})}}" in line)
    assert lines[at].startswith(first)
    said = rf"&& \text{{(for each head }}{letters}\text{{)}}"
    assert [k for k, line in enumerate(lines) if said in line] == [at]


@pytest.mark.parametrize(("name", "layout"), HEADS)
def test_a_formula_with_heads_has_a_line_for_each_head(name: str, layout: str) -> None:
    formula = sa.formula(name, layout=layout)
    assert list(as_steps(formula.expr, "")) == ["S", "P", "head", "O"]
    last = [str(sa.per_position(of)).splitlines()[-2:] for of in (formula, formula.expr)]
    assert [[*map(str.split, lines)] for lines in last] == [[*map(str.split, last[0])]] * 2


def test_a_line_after_attention() -> None:
    X = sa.matrix("X", n, d_v)
    W = sa.matrix("W", d_v, d_v)
    O = sa.softmax(Q @ K.T, axis=1) @ V
    text = sa.per_position(sa.Program(S=Q @ K.T, O=O, Y=O + X, Z=(O + X) @ W)).text()
    assert "\nO_i        = Σ_{j=1}^m a[i,j] V_j  (1 × d_v)\n" in text
    assert "\nY_i        = O_i + X_i  (1 × d_v)\noutput_i   = Y_i W  (1 × d_v)\n" in text
    with pytest.raises(sa.NotSupportedError, match="the per-position form of softmax"):
        sa.per_position(sa.Program(O=O, Y=sa.softmax(O, axis=0)))


def test_a_formula_of_ones_own() -> None:
    W = sa.matrix("W_O", d_v, d_v)
    mine = sa.softmax(Q @ K.T + sa.positional(lambda i, j: j, n, m, layout="row"), axis=1) @ V @ W
    text = sa.per_position(mine).text()
    assert "score[i,j] = Q_i K_jᵀ + (j - 1)\n" in text
    assert "output_i   = Σ_{j=1}^m a[i,j] V_j W_O  (1 × d_v)" in text
    prefixed = sa.softmax(Q @ K.T, axis=1, mask=sa.prefix(3)) @ V
    assert "[j < 4] exp(score[i,j])" in sa.per_position(prefixed).text()


def test_one_query_has_no_index_and_nothing_to_stack() -> None:
    text = sa.per_position(sa.formula("single_query")).text()
    assert text.splitlines() == [
        "score[j] = x_j·q",
        "a[j]     = softmax_j(score[j]) = exp(score[j]) / (Σ_{t=1}^n exp(score[t]))",
        "output   = Σ_{j=1}^n a[j] x_j  (d × 1)",
    ]


def test_letters_avoid_the_names_of_the_formula() -> None:
    i, j = sa.scalar("i"), sa.scalar("j")
    text = sa.per_position(sa.softmax(i * Q @ K.T + j * Q @ K.T, axis=1) @ V).text()
    assert text.startswith("score[t,s] = i Q_t K_sᵀ + j Q_t K_sᵀ")


@pytest.mark.parametrize(
    "formula",
    [
        Q @ K.T,
        sa.softmax(Q @ K.T, axis=1),
        sa.softmax(Q @ K.T, axis=0) @ V,
        V.T @ sa.softmax(Q @ K.T, axis=1).T,
        sa.softmax(Q @ K.T, axis=1) @ V + sa.ones(n, d_v),
    ],
)
def test_what_has_no_positions(formula: Any) -> None:
    with pytest.raises(sa.NotSupportedError, match="the per-position form"):
        sa.per_position(formula)


def test_steps_have_names_of_their_own() -> None:
    S = sa.matrix("S", n, n)
    twice = sa.softmax(S @ sa.softmax(S @ S, axis=0), axis=0)
    assert list(as_steps(twice, "shapes")) == ["S_1", "P_1", "S_2", "P_2"]
    assert list(as_steps(sa.softmax(S @ S, axis=0) @ S, "shapes")) == ["S'", "P", "O"]
    assert list(as_steps(sa.softmax(S, axis=0), "shapes")) == ["P"]
    assert isinstance(sa.per_position(as_steps(sa.softmax(Q @ K.T, axis=1) @ V, "")), PerPosition)
