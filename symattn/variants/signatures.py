r"""What a formula maps to what: the attention function's type, and its score function's.

``Attention: M^{d_k×n} × M^{d_k×m} × M^{d_v×m} → M^{d_v×n}, (Q, K, V) ↦ V Softmax(f(Q, K))``, with
``f: M^{d_k×n} × M^{d_k×m} → M^{m×n}``; where Q, K and V are made from other data, that is said by
the lines of the formula, not by its type.
"""

from __future__ import annotations

from symattn.nodes import Node, Program
from symattn.nodes.inputs import InputMatrix
from symattn.notation.displays import latex_signature
from symattn.notation.presets import Preset, chosen_preset
from symattn.notation.terminal import text, text_signature
from symattn.tags import Size

Shape = tuple[Size, Size]
Domain = list[tuple[str, Shape]]


def domain_of(operands: tuple[Node, ...]) -> Domain:
    """Return queries, keys and values by name, with their shapes; fewer operands, fewer names."""
    return [(name, node.sizes) for name, node in zip("QKV", operands, strict=False)]


def symbols_of(operands: tuple[Node, Node, Node]) -> tuple[Node, Node, Node]:
    """Return matrices named Q, K and V of the operands' shapes."""
    query, key, value = (InputMatrix(name, *shape) for name, shape in domain_of(operands))
    return query, key, value


def attention_latex(
    operands: tuple[Node, Node, Node],
    function: Program,
    preset: Preset | str | None = None,
    dialect: str = "latex",
    *,
    name: str = "Attention",
) -> str:
    """Return the attention function's type and what it maps Q, K and V to, in LaTeX."""
    value = function.result
    chosen = chosen_preset(preset, value)
    domain = domain_of(operands)
    return latex_signature(name, domain, value.sizes, chosen, value, dialect=dialect)


def score_latex(
    operands: tuple[Node, Node, Node],
    function: Program,
    preset: Preset | str | None = None,
    dialect: str = "latex",
) -> str:
    """Return the score function's type in LaTeX."""
    chosen = chosen_preset(preset, function.result)
    domain = domain_of(operands[:2])
    return latex_signature("f", domain, function["S"].sizes, chosen, dialect=dialect)


def attention_text(
    operands: tuple[Node, Node, Node],
    function: Program,
    preset: Preset | str | None = None,
    name: str = "Attention",
) -> str:
    """Return the attention function's type and what it maps Q, K and V to, as text."""
    value = function.result
    chosen = chosen_preset(preset, value)
    typed = text_signature(name, domain_of(operands), value.sizes, chosen)
    return f"{typed}, (Q, K, V) ↦ {text(value, chosen)}"


def score_text(
    operands: tuple[Node, Node, Node], function: Program, preset: Preset | str | None = None
) -> str:
    """Return the score function's type and what it maps Q and K to, as text."""
    scores = function["S"]
    chosen = chosen_preset(preset, function.result)
    typed = text_signature("f", domain_of(operands[:2]), scores.sizes, chosen)
    return f"{typed}, (Q, K) ↦ {text(scores, chosen)}"
