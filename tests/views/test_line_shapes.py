"""The steps of a computation with a shape at each line."""

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
    (X @ W + X @ W, "(n × d_k)"),
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
        for left, right in zip(line.factors, line.factors[1:], strict=False):
            assert left[1] == right[0]
        if line.factors:
            assert (line.factors[0][0], line.factors[-1][1]) == line.shape
    assert shown.lines[-1].factors  # the output is a product


def test_a_formula_has_the_steps_of_attention() -> None:
    S = sa.matrix("A", n, m)
    assert [line.name for line in sa.shapes(sa.softmax(2 * S, axis=1) @ S.T)] == ["S", "P", "O"]
