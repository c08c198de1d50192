"""The steps of a computation with a shape at each line."""

from itertools import pairwise
from typing import Any

import pytest

import symattn as sa
from tests.views.points import CATALOGUE

n, m, h, d_k, d_model = sa.dims("n m h d_k d_model")
X, W = sa.matrix("X", n, d_model), sa.matrix("W_Q", d_model, d_k)


def test_text_is_that_of_the_text() -> None:
    shown = sa.shapes(sa.Program(Q=X @ W))
    assert shown.text() == str(shown) == "Q = X W_Q  (n × d_model)(d_model × d_k) = (n × d_k)"
    assert shown.latex("vaswani") == (
        "\\begin{aligned}\n"
        "Q &= XW_Q &\\quad (n \\times d_{\\text{model}}) \\cdot "
        "(d_{\\text{model}} \\times d_k) &= (n \\times d_k)\n"
        "\\end{aligned}"
    )


LINES: list[tuple[Any, str]] = [
    (-2 * X, "(n × d_model)"),
    (-(X @ W) / sa.sqrt(d_k), "(n × d_model)(d_model × d_k) = (n × d_k)"),
    (2 * (X @ W), "(n × d_model)(d_model × d_k) = (n × d_k)"),
    (sa.tanh(X @ W), "(n × d_model)(d_model × d_k) = (n × d_k)"),
    (
        X @ W - X @ W,
        "(n × d_model)(d_model × d_k) + (n × d_model)(d_model × d_k) = (n × d_k)",
    ),
    (
        X + X @ W @ W.T,
        "(n × d_model) + (n × d_model)(d_model × d_k)(d_k × d_model) = (n × d_model)",
    ),
    (X + X, "(n × d_model)"),
    ((X @ W).T, "(d_k × n)"),
    (X @ W @ W.T @ X.T, "(n × d_model)(d_model × d_k)(d_k × d_model)(d_model × n) = (n × n)"),
    (X @ (W @ W.T), "(n × d_model)(d_model × d_model) = (n × d_model)"),
    (sa.matrix("A", h * d_k, n + m), "(h·d_k × (m+n))"),
]


@pytest.mark.parametrize(("formula", "shape"), LINES)
def test_lines(formula: Any, shape: str) -> None:
    assert sa.shapes(formula).text().endswith(f"  {shape}")


def test_lines_of_one_head_say_which() -> None:
    shown = sa.shapes(sa.formula("multi_head_attention", layout="row"))
    starts = [line.partition(" ")[0] for line in shown.text().splitlines()]
    assert starts == ["Q_i", "K_i", "V_i", "S_i", "P_i", "head_i", "O"]
    assert r"\mathrm{head}_i &= P_iV_i" in shown.latex("vaswani")


@pytest.mark.parametrize(("name", "layout"), CATALOGUE)
def test_catalogue(name: str, layout: str) -> None:
    formula = sa.formula(name, layout=layout)
    shown = sa.shapes(formula)
    assert [line.name for line in shown] == list(formula.program)
    assert len(shown) == len(shown.text().splitlines())
    for line in shown:
        assert line.shape == formula.program[line.name].sizes
        for factors in line.terms:
            for left, right in pairwise(factors):
                assert formula.relations.needed(left[1], right[0]) is not None
            assert (factors[0][0], factors[-1][1]) == line.shape
    assert shown.lines[-1].terms  # the output is a product, or one and a bias


def test_heads() -> None:
    lines = sa.shapes(sa.formula("packed_multi_head", layout="row")).text().splitlines()
    assert lines[3].endswith("  (n × d_k)(d_k × n) = (n × n), i = 1, …, h")
    assert lines[5].endswith("  (n × n)(n × d_k) = (n × d_k), i = 1, …, h")
    assert lines[5].startswith("head_i = P_i V^{(i)} ")
    assert lines[6].endswith(
        "  (n × h·d_k)(d_model × d_model) + (n × 1)(1 × d_model) = (n × d_model), "
        "Concat: h × (n × d_k) → (n × h·d_k), d_model = h·d_k"
    )
    groups = sa.shapes(sa.formula("grouped_query"))
    assert groups.text().endswith("Concat: g × r × (d_v × n) → (g·r·d_v × n)")
    assert "\nS_{a,b}    = K_aᵀ Q_{a,b} / √d_k" in groups.text()
    latex = groups.latex("vaswani")
    assert r"Q_{a,b} &= W_{a,b}^QX &\quad" in latex
    assert latex.splitlines()[-2].endswith(
        r"&= (d_{\text{model}} \times n),\ \mathrm{Concat}: g \times r \times (d_v \times n) "
        r"\to (g r d_v \times n)"
    )


def test_a_formula_has_the_steps_of_attention() -> None:
    S = sa.matrix("A", n, m)
    assert [line.name for line in sa.shapes(sa.softmax(2 * S, axis=1) @ S.T)] == ["S", "P", "O"]
