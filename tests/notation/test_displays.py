"""Shapes, signatures, definitions and derivations, as the sources print them."""

import pytest

import symattn as sa
from symattn.notation.displays import (
    latex_aligned,
    latex_signature,
    latex_softmax_definition,
)
from symattn.notation.presets import PRESETS
from symattn.notation.terminal import text_shape, text_signature
from symattn.notation.tex import latex_shape, latex_space
from symattn.tags import parse_size

FRESHRIMP, VASWANI = PRESETS["freshrimp"], PRESETS["vaswani"]
d_k, d_v, n, m = sa.dims("d_k d_v n m")
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
ATTENTION = V @ sa.softmax(K.T @ Q, axis=0)
DOMAIN = [(node.label, node.sizes) for node in (Q, K, V)]


@pytest.mark.parametrize(
    ("size", "freshrimp", "vaswani", "as_text"),
    [
        ("d_k", "d_{k}", "d_k", "d_k"),
        ("h*d_k", "h d_{k}", "h d_k", "h·d_k"),
        ("n+m", "m + n", "m + n", "m + n"),
        ("2*n-1", "2 n - 1", "2 n - 1", "2·n - 1"),
        ("n^2", "n^{2}", "n^2", "n²"),
        ("d_model//h", r"d_{\text{model}} / h", r"d_{\text{model}} / h", "d_model/h"),
        ("7", "7", "7", "7"),
    ],
)
def test_sizes(size: str, freshrimp: str, vaswani: str, as_text: str) -> None:
    sizes = (parse_size(size), parse_size("d_v"))
    inside = (freshrimp, vaswani, as_text)
    if "+" in size or "-" in size:
        inside = tuple(f"({part})" for part in inside)
    assert latex_space(sizes, FRESHRIMP) == rf"M^{{{inside[0]} \times d_{{v}}}}"
    assert latex_space(sizes, VASWANI) == rf"\mathbb{{R}}^{{{inside[1]} \times d_v}}"
    assert text_shape("A", sizes, VASWANI) == f"A ∈ ℝ^{{{inside[2].replace(' ', '')}×d_v}}"


def test_shapes() -> None:
    assert latex_shape("Q", Q.sizes, FRESHRIMP) == r"\mathbf{Q} \in M^{d_{k} \times n}"
    assert latex_shape("Q", (Q.sizes[1], Q.sizes[0]), VASWANI) == r"Q \in \mathbb{R}^{n \times d_k}"
    assert text_shape("K", K.sizes, FRESHRIMP) == "K ∈ M^{d_k×m}"


def test_a_signature_is_the_text_s_own() -> None:
    spaces = r"M^{d_{k} \times n} \times M^{d_{k} \times m} \times M^{d_{v} \times m}"
    assert latex_signature("Attention", DOMAIN, ATTENTION.sizes, FRESHRIMP) == (
        rf"\operatorname{{Attention}}: {spaces} \to M^{{d_{{v}} \times n}}"
    )
    assert latex_signature("Attention", DOMAIN, ATTENTION.sizes, FRESHRIMP, ATTENTION) == (
        rf"\begin{{aligned}} \operatorname{{Attention}}: {spaces} &\to M^{{d_{{v}} \times n}} \\ "
        r"(\mathbf{Q},\mathbf{K},\mathbf{V}) &\mapsto \mathbf{V} \operatorname{Softmax} "
        r"(\mathbf{K}^{\mathsf{T}} \mathbf{Q}) \end{aligned}"
    )
    assert text_signature("f", DOMAIN[:2], (m_n := (K.T @ Q).sizes), FRESHRIMP) == (
        "f: M^{d_k×n} × M^{d_k×m} → M^{m×n}"
    )
    assert latex_signature("f", DOMAIN[:2], m_n, FRESHRIMP).startswith("f: M")


def test_softmax_is_written_out_as_columns_or_rows() -> None:
    assert latex_softmax_definition(FRESHRIMP) == (
        r"\operatorname{Softmax}(\mathbf{X}) := \begin{bmatrix} "
        r"\underset{\vert}{\overset{\vert}{\operatorname{softmax}(\mathbf{x}_{1})}} & \cdots & "
        r"\underset{\vert}{\overset{\vert}{\operatorname{softmax}(\mathbf{x}_{N})}} \end{bmatrix}"
    )
    rows = latex_softmax_definition(VASWANI)
    assert "&" not in rows
    assert rows.count(r"\\") == 2
    assert r"\operatorname" not in latex_softmax_definition(FRESHRIMP, dialect="github")


def test_a_derivation_is_aligned_with_its_reasons() -> None:
    shown = latex_aligned([("A", "B", "a_b & 100%"), ("", "C", "")])
    assert shown == (
        "\\begin{aligned}\n"
        r"A &= B && \text{(}\mathrm{a_b}\text{ }\&\text{ 100}\%\text{)} \\"
        "\n&= C\n\\end{aligned}"
    )
