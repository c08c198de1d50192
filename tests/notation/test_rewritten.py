"""What text and LaTeX write in place of a node, and Python does not: fractions, single vectors."""

from typing import Any

import pytest

import symattn as sa

d, m, n = sa.dims("d m n")
q, k = sa.vector("q", d), sa.vector("k", d)
A, B = sa.matrix("A", m, n), sa.matrix("B", m, n)
b, t = sa.vector("b", n), sa.vector("t", d)
s, K, W = sa.vector("s", d), sa.matrix("K", d, m), sa.matrix("W", d, d)
s_row, K_row = sa.matrix("s", 1, d), sa.matrix("K", m, d)


def score(query: Any, key: Any) -> Any:
    return query.T @ sa.tanh(W @ query + key)


@pytest.mark.parametrize(
    ("expr", "text", "latex"),
    [
        (
            sa.hadamard(k.T @ q, sa.reciprocal(sa.hadamard(q.T @ q, k.T @ k))),
            "kᵀq / ((qᵀq) (kᵀk))",
            r"\frac{k^Tq}{(q^Tq)(k^Tk)}",
        ),
        (
            sa.hadamard(sa.reciprocal(sa.exp(k.T @ q)), sa.reciprocal(k.T @ k + q.T @ q)),
            "1 / (exp(kᵀq) (kᵀk + qᵀq))",
            r"\frac{1}{\exp(k^Tq)(k^Tk + q^Tq)}",
        ),
        (sa.hadamard(k.T @ q, -(q.T @ q)), "(kᵀq) (-qᵀq)", "(k^Tq)(-q^Tq)"),
        (
            sa.hadamard(A, sa.reciprocal(B)),  # matrices are not divided
            "A ∘ reciprocal(B)",
            r"A \circ \operatorname{reciprocal}(B)",
        ),
    ],
)
def test_an_entrywise_product_of_numbers_is_a_fraction(expr: Any, text: str, latex: str) -> None:
    assert sa.text(expr) == text
    assert sa.latex(expr, "vaswani") == latex
    assert str(expr).startswith("hadamard(")


@pytest.mark.parametrize(
    ("expr", "text", "latex"),
    [
        (
            sa.pairwise(score, s, K),
            "[sᵀ tanh(Ws + k)]_{k ∈ K}",
            r"[s^T\tanh(Ws + k)]_{k \in K}",
        ),
        (
            sa.pairwise(score, s_row, K_row, layout="row"),  # the vector is the row's transpose
            "[s tanh(W sᵀ + k)]_{k ∈ K}",
            r"[s\tanh(Ws^T + k)]_{k \in K}",
        ),
        (
            sa.pairwise(score, K, s),
            "[qᵀ tanh(Wq + s)]_{q ∈ K}",
            r"[q^T\tanh(Wq + s)]_{q \in K}",
        ),
        (
            b @ (sa.pairwise(score, s, t) + sa.pairwise(score, t, s)),  # numbers
            "b (sᵀ tanh(Ws + t) + tᵀ tanh(Wt + s))",
            r"b(s^T\tanh(Ws + t) + t^T\tanh(Wt + s))",
        ),
        (
            sa.pairwise(score, W @ s, K),  # it has no name
            "[qᵀ tanh(Wq + k)]_{k ∈ K, q ∈ Ws}",
            r"[q^T\tanh(Wq + k)]_{k \in K,\, q \in Ws}",
        ),
    ],
)
def test_a_vector_that_is_alone_stands_in_the_score(expr: Any, text: str, latex: str) -> None:
    assert sa.text(expr) == text
    assert sa.latex(expr, "vaswani") == latex
    assert "lambda q, k: q.T @ tanh(W @ q + k)" in str(expr)


def test_a_vector_with_the_name_of_a_bound_one_keeps_out() -> None:
    assert sa.text(sa.pairwise(score, k, K)) == "[qᵀ tanh(Wq + k)]_{k ∈ K, q ∈ k}"
    assert sa.text(sa.pairwise(score, q, K)) == "[qᵀ tanh(Wq + k)]_{k ∈ K}"


def test_a_vector_that_stands_in_a_score_is_highlighted() -> None:
    red = sa.latex(sa.pairwise(score, s, K), "vaswani", highlight=s)
    assert red == r"[{\color{red} s}^T\tanh(W{\color{red} s} + k)]_{k \in K}"


def test_a_deep_score_is_written_without_recursion() -> None:
    def deep(query: Any, key: Any) -> Any:
        found = query + key
        for _ in range(1500):
            found = sa.tanh(found)
        return key.T @ found

    assert sa.text(sa.pairwise(deep, s, K)).startswith("[kᵀ tanh(tanh(")
