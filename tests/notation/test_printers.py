"""Expressions in LaTeX, text and Python: tables of what is written for what was written."""

from dataclasses import dataclass, field
from typing import Any

import pytest
import sympy

import symattn as sa
from symattn.errors import NotAnOperandError, TextRefusedError, UnknownNameError
from symattn.meaning.form import Extent, Parameter
from symattn.notation.code import PythonPrinter, brief, python
from symattn.notation.dialects import DIALECTS
from symattn.notation.presets import PRESETS, Preset, default_preset, preset_named
from symattn.notation.rows import Binding, Kind, Notation
from symattn.notation.terminal import TextPrinter, text
from symattn.notation.tex import LatexPrinter, latex
from symattn.tags import Size

d_k, d_v, n, m, h, d_model = sa.dims("d_k d_v n m h d_model")
c, lam = sa.scalar("c"), sa.scalar("lambda")
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
A, B, C = (sa.matrix(name, n, n) for name in "ABC")
X, W_Q = sa.matrix("X", d_model, n), sa.matrix("W^Q", h * d_k, d_model)
v = sa.vector("v", n)
g = sa.dim("g")
i, j = sa.index("i", h), sa.index("j", g)
F, G = sa.family("W^Q", h, n, n), sa.family("W_K", (g, h), n, n)
D = sa.matrix("D", h * n, h * n)
quarter = sympy.Rational(1, 4)

# expression, text, LaTeX as freshrimp, LaTeX as vaswani
TABLE: list[tuple[Any, str, str, str]] = [
    (W_Q @ X, "W^Q X", r"\mathbf{W}^{Q} \mathbf{X}", "W^QX"),
    (
        (W_Q @ X).T,
        "(W^Q X)ᵀ",
        r"(\mathbf{W}^{Q} \mathbf{X})^{\mathsf{T}}",
        "(W^QX)^T",
    ),
    (W_Q.T, "(W^Q)ᵀ", r"(\mathbf{W}^{Q})^{\mathsf{T}}", "(W^Q)^T"),
    (Q.T.T, "(Qᵀ)ᵀ", r"(\mathbf{Q}^{\mathsf{T}})^{\mathsf{T}}", "(Q^T)^T"),
    (K.T @ Q, "KᵀQ", r"\mathbf{K}^{\mathsf{T}} \mathbf{Q}", "K^TQ"),
    (A @ B.T, "A Bᵀ", r"\mathbf{A} \mathbf{B}^{\mathsf{T}}", "AB^T"),
    (A @ (B @ C), "A (BC)", r"\mathbf{A} (\mathbf{B} \mathbf{C})", "A(BC)"),
    (A @ B @ C, "ABC", r"\mathbf{A} \mathbf{B} \mathbf{C}", "ABC"),
    (A - (B + C), "A - (B + C)", r"\mathbf{A} - (\mathbf{B} + \mathbf{C})", "A - (B + C)"),
    (A + (-B), "A - B", r"\mathbf{A} - \mathbf{B}", "A - B"),
    (A - (-B), "A - (-B)", r"\mathbf{A} - (-\mathbf{B})", "A - (-B)"),
    (-(A @ B), "-AB", r"-\mathbf{A} \mathbf{B}", "-AB"),
    ((-A) @ B, "(-A) B", r"(-\mathbf{A}) \mathbf{B}", "(-A)B"),
    (
        (A + B) @ (A - C),
        "(A + B) (A - C)",
        r"(\mathbf{A} + \mathbf{B}) (\mathbf{A} - \mathbf{C})",
        "(A + B)(A - C)",
    ),
    (2 * c * A, "2cA", r"2 c \mathbf{A}", "2cA"),
    (lam * A, "λA", r"\lambda \mathbf{A}", r"\lambda A"),
    (A * 2, "A · 2", r"\mathbf{A} \cdot 2", r"A\cdot 2"),
    (A * (c - 2 * lam), "A (c - 2λ)", r"\mathbf{A} (c - 2 \lambda)", r"A(c - 2\lambda)"),
    (B - 2 * A, "B - 2A", r"\mathbf{B} - 2 \mathbf{A}", "B - 2A"),
    (A / (2 * c), "A / (2c)", r"\frac{\mathbf{A}}{2 c}", r"\frac{A}{2c}"),
    ((A / c) @ B, "(A / c) B", r"\frac{\mathbf{A}}{c} \mathbf{B}", r"\frac{A}{c}B"),
    (sympy.Rational(1, 2) * A, "(1/2) A", r"\frac{1}{2} \mathbf{A}", r"\frac{1}{2}A"),
    (
        A / d_k**quarter,
        "A / d_k^(1/4)",
        r"\frac{\mathbf{A}}{\sqrt[4]{d_{k}}}",
        r"\frac{A}{\sqrt[4]{d_k}}",
    ),
    (
        c / sa.sqrt(d_k) * A,
        "(c / √d_k) A",
        r"\frac{c}{\sqrt{d_{k}}} \mathbf{A}",
        r"\frac{c}{\sqrt{d_k}}A",
    ),
    (
        sa.hadamard(A @ B, C) @ A,
        "(AB ∘ C) A",
        r"(\mathbf{A} \mathbf{B} \circ \mathbf{C}) \mathbf{A}",
        r"(AB \circ C)A",
    ),
    (
        sa.tanh(A / d_k),
        "tanh(A / d_k)",
        r"\tanh \left( \frac{\mathbf{A}}{d_{k}} \right)",
        r"\tanh\left(\frac{A}{d_k}\right)",
    ),
    (sa.function("phi")(A), "φ(A)", r"\phi(\mathbf{A})", r"\phi(A)"),
    (
        sa.function("elu")(A),
        "elu(A)",
        r"\operatorname{elu}(\mathbf{A})",
        r"\operatorname{elu}(A)",
    ),
    (
        sa.square(A + B),
        "(A + B)²",
        r"(\mathbf{A} + \mathbf{B})^{\circ 2}",
        r"(A + B)^{\circ 2}",
    ),
    (sa.ones(m, n), "1_{m×n}", r"\mathbf{1}_{m \times n}", r"\mathbf{1}_{m \times n}"),
    (sa.identity(n), "I_n", r"\mathbf{I}_{n}", "I_n"),
    (
        sa.max(A, axis=0),
        "max_columns(A)",
        r"\max_{\text{columns}} (\mathbf{A})",
        r"\max_{\text{columns}}(A)",
    ),
    (
        V @ sa.softmax(K.T @ Q / sa.sqrt(d_k), axis=0),
        "V Softmax(KᵀQ / √d_k)",
        r"\mathbf{V} \operatorname{Softmax} \left( "
        r"\frac{\mathbf{K}^{\mathsf{T}} \mathbf{Q}}{\sqrt{d_{k}}} \right)",
        r"V\,\mathrm{softmax}_{\text{columns}}\left(\frac{K^TQ}{\sqrt{d_k}}\right)",
    ),
    (
        V @ sa.softmax(K.T @ Q, axis=0),
        "V Softmax(KᵀQ)",
        r"\mathbf{V} \operatorname{Softmax} (\mathbf{K}^{\mathsf{T}} \mathbf{Q})",
        r"V\,\mathrm{softmax}_{\text{columns}}(K^TQ)",
    ),
    (
        sa.softmax(A, axis=1) @ B,
        "Softmax_rows(A) B",
        r"\operatorname{Softmax}_{\text{rows}} (\mathbf{A}) \mathbf{B}",
        r"\mathrm{softmax}(A)B",
    ),
    (
        sa.concat(A, B, axis=0),
        "[A; B]",
        r"\begin{bmatrix} \mathbf{A} \\ \mathbf{B} \end{bmatrix}",
        r"\begin{bmatrix} A \\ B \end{bmatrix}",
    ),
    (
        sa.concat(A, B + C, axis=1),
        "[A, B + C]",
        r"\begin{bmatrix} \mathbf{A} & \mathbf{B} + \mathbf{C} \end{bmatrix}",
        r"\begin{bmatrix} A & B + C \end{bmatrix}",
    ),
    (
        sa.pairwise(lambda q, k: q.T @ sa.tanh(k), Q, K),
        "[qᵀ tanh(k)]_{k ∈ K, q ∈ Q}",
        r"[\mathbf{q}^{\mathsf{T}} \tanh(\mathbf{k})]_{\mathbf{k} \in \mathbf{K},\, "
        r"\mathbf{q} \in \mathbf{Q}}",
        r"[q^T\tanh(k)]_{k \in K,\, q \in Q}",
    ),
    (
        sa.positional(lambda i, j: c * (i - j) / n, n, m, layout="row"),
        "[c (i - j) / n]_{i,j}",
        r"\left[ \frac{c (i - j)}{n} \right]_{i,j}",
        r"\left[\frac{c(i - j)}{n}\right]_{i,j}",
    ),
    (
        sa.softmax(v, axis=0),
        "softmax(v)",
        r"\operatorname{softmax} (\mathbf{v})",
        r"\mathrm{softmax}_{\text{columns}}(v)",
    ),
    (F[i] @ A, "W^Q_i A", r"\mathbf{W}_{i}^{Q} \mathbf{A}", "W_i^QA"),
    (
        G[j, i].T,
        "(W^{(j,i)}_K)ᵀ",
        r"(\mathbf{W}_{K}^{(j,i)})^{\mathsf{T}}",
        "(W_K^{(j,i)})^T",
    ),
    (
        sa.heads(F[i], i, axis=0),
        "[W^Q_1; …; W^Q_h]",
        r"\begin{bmatrix} \mathbf{W}_{1}^{Q} \\ \vdots \\ \mathbf{W}_{h}^{Q} \end{bmatrix}",
        r"\begin{bmatrix} W_1^Q \\ \vdots \\ W_h^Q \end{bmatrix}",
    ),
    (
        sa.heads(F[i], i, axis=1) @ D,
        "Concat(W^Q_1, …, W^Q_h) D",
        r"\mathrm{Concat} (\mathbf{W}_{1}^{Q}, \ldots, \mathbf{W}_{h}^{Q}) \mathbf{D}",
        r"\mathrm{Concat}(W_1^Q, \ldots, W_h^Q)D",
    ),
    (
        sa.heads(sa.heads(G[j, i], i, axis=1), j, axis=1),
        "Concat(W^{(1,1)}_K, …, W^{(g,h)}_K)",
        r"\mathrm{Concat} (\mathbf{W}_{K}^{(1,1)}, \ldots, \mathbf{W}_{K}^{(g,h)})",
        r"\mathrm{Concat}(W_K^{(1,1)}, \ldots, W_K^{(g,h)})",
    ),
    (  # the other order of heads
        sa.heads(sa.heads(G[j, i], j, axis=1), i, axis=1),
        "Concat_{i=1..h}(Concat(W^{(1,i)}_K, …, W^{(g,i)}_K))_columns",
        r"\mathrm{Concat}_{i=1}^{h} "
        r"(\mathrm{Concat} (\mathbf{W}_{K}^{(1,i)}, \ldots, \mathbf{W}_{K}^{(g,i)}))"
        r"_{\text{columns}}",
        r"\mathrm{Concat}_{i=1}^h(\mathrm{Concat}(W_K^{(1,i)}, \ldots, W_K^{(g,i)}))",
    ),
    (  # h times the same
        sa.heads(sa.heads(F[i], i, axis=0), i, axis=0),
        "Concat_{i=1..h}([W^Q_1; …; W^Q_h])",
        r"\mathrm{Concat}_{i=1}^{h} \left( "
        r"\begin{bmatrix} \mathbf{W}_{1}^{Q} \\ \vdots \\ \mathbf{W}_{h}^{Q} \end{bmatrix} \right)",
        r"\mathrm{Concat}_{i=1}^h"
        r"\left(\begin{bmatrix} W_1^Q \\ \vdots \\ W_h^Q \end{bmatrix}\right)_{\text{rows}}",
    ),
    (
        sa.heads(F[i] @ A, i, axis=0),
        "Concat_{i=1..h}(W^Q_i A)",
        r"\mathrm{Concat}_{i=1}^{h} (\mathbf{W}_{i}^{Q} \mathbf{A})",
        r"\mathrm{Concat}_{i=1}^h(W_i^QA)_{\text{rows}}",
    ),
    (
        sa.sum_over(F[i] + A, i) @ B - sa.sum_over(F[i] @ A, i),
        "(Σ_{i=1..h} (W^Q_i + A)) B - Σ_{i=1..h} W^Q_i A",
        r"\left( \sum_{i=1}^{h} (\mathbf{W}_{i}^{Q} + \mathbf{A}) \right) \mathbf{B} - "
        r"\sum_{i=1}^{h} \mathbf{W}_{i}^{Q} \mathbf{A}",
        r"\left(\sum_{i=1}^h (W_i^Q + A)\right)B - \sum_{i=1}^h W_i^QA",
    ),
    (
        sa.hadamard(sa.sum_over(F[i], i), A),
        "(Σ_{i=1..h} W^Q_i) ∘ A",
        r"\left( \sum_{i=1}^{h} \mathbf{W}_{i}^{Q} \right) \circ \mathbf{A}",
        r"\left(\sum_{i=1}^h W_i^Q\right) \circ A",
    ),
    (
        sa.sum_over(sa.hadamard(F[i], A), i),
        "Σ_{i=1..h} W^Q_i ∘ A",
        r"\sum_{i=1}^{h} \mathbf{W}_{i}^{Q} \circ \mathbf{A}",
        r"\sum_{i=1}^h W_i^Q \circ A",
    ),
    (
        sa.head(D @ D, i, axis=0) @ D,
        "(DD)^{(i)} D",
        r"(\mathbf{D} \mathbf{D})^{(i)} \mathbf{D}",
        r"(DD)^{(i),\, \text{rows}}D",
    ),
    (
        sa.head(D, i, axis=1).T,
        "(D^{(i), columns})ᵀ",
        r"(\mathbf{D}^{(i),\, \text{columns}})^{\mathsf{T}}",
        r"(D^{(i)})^T",
    ),
    (
        sa.reshape(A, 1, n * n),
        "reshape_{1×n²}(A)",
        r"\mathrm{reshape}_{1 \times n^{2}} (\mathbf{A})",
        r"\mathrm{reshape}_{1 \times n^2}(A)",
    ),
]


@pytest.mark.parametrize(("expr", "as_text", "freshrimp", "vaswani"), TABLE)
def test_what_is_written(expr: Any, as_text: str, freshrimp: str, vaswani: str) -> None:
    assert text(expr, "freshrimp") == as_text
    assert latex(expr, "freshrimp") == freshrimp
    assert latex(expr, "vaswani") == vaswani


@pytest.mark.parametrize(
    ("name", "freshrimp", "vaswani", "as_text"),
    [
        ("d_{model}", r"\mathbf{d}_{\text{model}}", r"d_{\text{model}}", "d_model"),
        ("W_Q^{(1)}", r"\mathbf{W}_{Q}^{(1)}", "W_Q^{(1)}", "W^{(1)}_Q"),
        ("W_QK", r"\mathbf{W}_{QK}", "W_{QK}", "W_QK"),
        ("Q'", r"\mathbf{Q}'", "Q'", "Q'"),
        ("Q'^K", r"\mathbf{Q}^{\prime K}", r"Q^{\prime K}", "Q^K'"),
        ("beta", r"\boldsymbol{\beta}", r"\beta", "β"),
        ("Σ_α", r"\boldsymbol{\Sigma}_{\alpha}", r"\Sigma_{\alpha}", "Σ_α"),
        ("W_{i,alpha_max}", r"\mathbf{W}_{i,\alpha_{\text{max}}}", None, "W_{i,alpha_max}"),
        ("Head", r"\mathbf{Head}", r"\mathrm{Head}", "Head"),
        ("X_{tok 1}", r"\mathbf{X}_{\text{tok}\,1}", r"X_{\text{tok}\,1}", "X_{tok 1}"),
    ],
)
def test_names(name: str, freshrimp: str, vaswani: str | None, as_text: str) -> None:
    node = sa.matrix(name, n, m)
    assert latex(node, "freshrimp") == freshrimp
    assert vaswani is None or latex(node, "vaswani") == vaswani
    assert text(node) == as_text


@pytest.mark.parametrize(
    ("expr", "code"),
    [
        (
            V @ sa.softmax(K.T @ Q / sa.sqrt(d_k), axis=0),
            "V @ softmax(K.T @ Q / sqrt(d_k), axis=0)",
        ),
        (2 * A, "2*A"),
        (c * A @ B, "c*A @ B"),
        (A @ c @ B, "A*c @ B"),
        ((A @ B) / c, "A @ B / c"),
        (A @ (B / c), "A @ (B / c)"),
        ((A / c) @ B, "A / c @ B"),
        (A / (2 * c), "A / (2*c)"),
        (-(A @ B), "-(A @ B)"),
        ((-A) @ B, "(-A) @ B"),
        (-(A / c), "-(A / c)"),
        (-A + B, "-A + B"),
        (A - (-B), "A - (-B)"),
        (A - (B + C), "A - (B + C)"),
        (A - B @ C, "A - B @ C"),
        (A - 2 * B, "A - 2*B"),
        (A + (-2) * B, "A + -2*B"),
        (A @ (B @ C), "A @ (B @ C)"),
        ((A + B).T, "(A + B).T"),
        (A.T.T, "A.T.T"),
        (sa.hadamard(A, B @ C), "hadamard(A, B @ C)"),
        (sa.tanh(A).T, "tanh(A).T"),
        (sa.function("phi")(A), "function('phi')(A)"),
        (sa.ones(m, h * d_k + 1), "ones(m, h*d_k + 1)"),
        (sa.identity(n), "identity(n)"),
        (sa.max(A, axis=1), "max(A, axis=1)"),
        (W_Q @ X, "W_Q @ X"),
        (lam * A, "lambda_*A"),
        (sympy.Rational(1, 2) * A, "Rational(1, 2)*A"),
        (d_k**-quarter * A, "1/d_k**Rational(1, 4)*A"),
        (c / sa.sqrt(d_k) * A, "c/sqrt(d_k)*A"),
        ((c - 2 * lam) * A, "(c - 2*lambda_)*A"),
        (A / (c + 1) ** 2, "A / (c + 1)**2"),
        (sa.exp(c) * A, "exp(c)*A"),
        (F[i] @ G[j, i].T, "W_Q[i] @ W_K[j, i].T"),
        (sa.heads(F[i] @ A, i, axis=1), "heads(W_Q[i] @ A, i, axis=1)"),
        (sa.sum_over(F[i], i).T, "sum_over(W_Q[i], i).T"),
        (sa.head(D, i, axis=0) @ D, "head(D, i, axis=0) @ D"),
        (sa.reshape(A, 1, n * n), "reshape(A, 1, n**2)"),
    ],
)
def test_python_rebuilds_what_it_spells(expr: Any, code: str) -> None:
    assert python(expr) == code
    words = ("softmax", "max", "hadamard", "tanh", "exp", "sqrt", "function", "ones", "identity")
    namespace: dict[str, Any] = {word: getattr(sa, word) for word in words}
    words = ("heads", "head", "sum_over", "reshape")
    namespace |= {word: getattr(sa, word) for word in words} | {"i": i, "j": j, "D": D}
    namespace |= {"Rational": sympy.Rational, "lambda_": lam, "c": c, "X": X}
    namespace |= {"W_Q": F if "W_Q[" in code else W_Q, "W_K": G}
    namespace |= {"Q": Q, "K": K, "V": V, "A": A, "B": B, "C": C}
    namespace |= {str(tag): tag for tag in (d_k, d_v, n, m, h, d_model)}
    rebuilt = eval(code, {"__builtins__": {}}, namespace)
    assert rebuilt == expr
    assert type(rebuilt) is type(expr)


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_every_kind_has_a_rule_in_every_printer(preset: Preset) -> None:
    latex_printer = LatexPrinter(preset, DIALECTS["latex"])
    for printer in (latex_printer, TextPrinter(preset), PythonPrinter()):
        assert set(printer.rules) == set(Kind)


@dataclass
class Stub:
    """Anything with a row and parts can be printed."""

    notation: Notation
    parts: tuple[Any, ...] = ()
    label: str = ""
    axis: int | None = None
    mask: None = None
    sizes: tuple[Size, Size] = field(default=(Size.tag("n"), Size.tag("m")))
    running: tuple[tuple[str, Size], ...] = ()


def _letter(label: str) -> Stub:
    return Stub(Notation(Kind.SYMBOL, Binding.ATOM), label=label)


def test_printers_know_no_node() -> None:
    product = Stub(
        Notation(Kind.PRODUCT, Binding.PRODUCT), (Parameter("c"), _letter("A"), _letter("B"))
    )
    over = Stub(Notation(Kind.FRACTION, Binding.PRODUCT), (product, Extent(Size.tag("n"))))
    assert text(over) == "cAB / n"
    assert latex(over, "vaswani") == r"\frac{cAB}{n}"
    assert python(over) == "c*A @ B / n"


def test_a_long_sum_and_a_long_product_are_printed() -> None:
    terms = sum([A] * 2999, A)
    product = A
    for _ in range(2999):
        product = product @ A
    assert text(terms).count("A") == text(product).count("A") == 3000
    assert latex(terms).count("A") == latex(product).count("A") == 3000
    assert python(terms).count("A") == python(product).count("A") == 3000


# Highlighting and dialects.

CROSS = V @ sa.softmax(K.T @ Q, axis=0)


def test_every_occurrence_of_a_highlighted_operand_is_red() -> None:
    shown = latex(A @ B @ A, highlight=[A])
    assert shown == (r"{\color{red} \mathbf{A}} \mathbf{B} {\color{red} \mathbf{A}}")


def test_a_highlighted_part_may_be_an_expression_and_keeps_its_parentheses() -> None:
    assert latex((A + B) @ C, "vaswani", highlight=[A + B]) == r"({\color{red} A + B})C"


def test_one_operand_may_stand_alone() -> None:
    assert latex(CROSS, highlight=K) == latex(CROSS, highlight=[K])


@pytest.mark.parametrize("expr", [CROSS, sa.Program(S=K.T @ Q, O=V @ (K.T @ Q))], ids=str)
def test_what_is_highlighted_has_to_be_there(expr: Any) -> None:
    with pytest.raises(UnknownNameError, match=r"no operand named 'Q \(m×d_k\)'.*Q \(d_k×n\)"):
        latex(expr, highlight=[sa.matrix("Q", m, d_k)])
    with pytest.raises(UnknownNameError, match=r"no operand named 'Q @ K'"):
        latex(expr, highlight=[K, sa.matrix("Q", m, d_k) @ K])
    texts: tuple[Any, ...] = (["Q"], "Q")
    for names in texts:
        with pytest.raises(TextRefusedError, match="highlight does not take text"):
            latex(expr, highlight=names)
    others: tuple[Any, ...] = ([3], 3, None, c)
    for value in others:
        with pytest.raises(NotAnOperandError, match="highlight"):
            latex(expr, highlight=value)


def test_a_highlighted_line_is_red_where_it_is_named_too() -> None:
    program = sa.Program(S=K.T @ Q, O=V @ (K.T @ Q))
    assert latex(program, highlight=sa.matrix("S", m, n)).count("red") == 2


@pytest.mark.parametrize("dialect", DIALECTS)
def test_colour_is_a_group_in_every_dialect(dialect: str) -> None:
    shown = latex(CROSS, highlight=[K], dialect=dialect)
    plain = latex(CROSS, dialect=dialect)
    red = DIALECTS[dialect].red.replace("{x}", r"\mathbf{K}")
    assert shown.replace(red, r"\mathbf{K}") == plain
    assert shown.count("{") == shown.count("}")


def test_github_takes_no_operatorname() -> None:
    everything = CROSS + V @ sa.relu(K.T @ Q)
    assert r"\operatorname" in latex(everything)
    assert r"\operatorname" not in latex(everything, dialect="github")


# Presets.


def test_the_default_preset_is_that_of_the_first_softmax() -> None:
    assert default_preset(CROSS).name == "freshrimp"
    assert default_preset(sa.softmax(A, axis=1) @ B).name == "vaswani"
    assert default_preset(A @ B).name == "freshrimp"
    assert default_preset(sa.softmax(sa.softmax(A, axis=0), axis=1)).name == "vaswani"
    assert text(sa.softmax(Q.T @ K.T.T / sa.sqrt(d_k), axis=1) @ V.T) == (
        "softmax(Qᵀ (Kᵀ)ᵀ / √d_k) Vᵀ"
    )


@pytest.mark.parametrize("layout", ["column", "row"])
def test_a_formula_of_the_catalogue_is_printed_in_its_own_layout(layout: str) -> None:
    formula = sa.formula("scaled_dot_product", layout=layout)
    assert sa.latex(formula) == sa.latex(formula.expr)
    assert sa.text(formula) == sa.text(formula.expr)
    assert sa.text(formula, "vaswani") == sa.text(formula.expr, "vaswani")
    with pytest.raises(UnknownNameError, match="there are latex"):
        sa.latex(formula, dialect="x")


def test_each_preset_is_complete() -> None:
    for name, preset in PRESETS.items():
        assert preset_named(name) is preset
        assert preset.name == name
        assert preset.axis in (0, 1)
        assert preset.source


@pytest.mark.parametrize("call", [latex, text])
def test_an_unknown_preset_is_answered_with_the_nearest(call: Any) -> None:
    with pytest.raises(UnknownNameError, match="vaswani"):
        call(A, "vaswany")


def test_an_unknown_dialect_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="katex"):
        latex(A, dialect="ketax")


@pytest.mark.parametrize("call", [latex, text, python])
def test_what_is_no_expression_is_refused(call: Any) -> None:
    with pytest.raises(TextRefusedError):
        call("A")
    with pytest.raises(NotAnOperandError):
        call(3)


# Short descriptions.


class Array:
    """Looks like an array and gives its values to nobody."""

    shape = (3, 4)

    def __array__(self) -> None:
        raise AssertionError("the values were asked for")

    def __repr__(self) -> str:
        raise AssertionError("the values were asked for")

    __str__ = __repr__


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("abc", "text 'abc'"),
        ("a" * 200, "text '" + "a" * 30 + "…" + "a" * 29 + "'"),
        (3, "3"),
        (True, "True"),
        (float("inf"), "inf"),
        (None, "None"),
        ([1, 2], "a list"),
        (object(), "an object"),
        (Array(), "array of shape (3, 4)"),
        (c + 1, "c + 1"),
        (K.T @ Q, "K.T @ Q"),
    ],
)
def test_brief(value: Any, shown: str) -> None:
    assert brief(value) == shown


def test_a_tag_may_have_a_name_that_no_matrix_has() -> None:
    assert python(sa.ones(sa.dim("d__k"), n)) == "ones(d__k, n)"
    assert latex(sa.ones(sa.dim("d__k"), n)) == r"\mathbf{1}_{d_{k} \times n}"


def test_brief_shortens_in_the_middle() -> None:
    shown = brief(sum([A] * 50), 21)
    assert len(shown) == 21
    assert shown.startswith("A + A")
    assert "…" in shown
    assert shown.endswith("A")
