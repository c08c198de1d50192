r"""What a formula maps to what: the attention function's type, and its score function's.

``Attention: M^{d_k×n} × M^{d_k×m} × M^{d_v×m} → M^{d_v×n}, (Q, K, V) ↦ V Softmax(f(Q, K))``, with
``f: M^{d_k×n} × M^{d_k×m} → M^{m×n}``; where Q, K and V are made from other data, that is said by
the lines of the formula, not by its type.  With several heads each has a score function of its own,
``f_i`` with ``i = 1, …, h``.
"""

from __future__ import annotations

from symattn.nodes import Node, Program
from symattn.nodes.inputs import InputMatrix
from symattn.notation.displays import latex_signature
from symattn.notation.glyphs import latex_name, text_name
from symattn.notation.names import member_name
from symattn.notation.presets import Preset, chosen_preset
from symattn.notation.terminal import text, text_signature, text_sizes
from symattn.notation.tex import latex_sizes
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
    """Return the score function's type in LaTeX; with several heads, that of each head's."""
    scores = function["S"]
    chosen = chosen_preset(preset, function.result)
    domain = domain_of(operands[:2])
    typed = latex_signature(_score_name(scores), domain, scores.sizes, chosen, dialect=dialect)
    heads = (
        rf",\quad {latex_name(each.name, chosen)[0]} = 1, \ldots, "
        + latex_sizes((each.size,), chosen)
        for each in scores.indices
    )
    return typed + "".join(heads)


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
    """Return the score function's type and what it maps Q and K to, as text.

    With several heads it is that of each head's, f_i with i = 1, …, h.
    """
    scores = function["S"]
    chosen = chosen_preset(preset, function.result)
    typed = text_signature(_score_name(scores), domain_of(operands[:2]), scores.sizes, chosen)
    heads = (
        f", {text_name(each.name)[0]} = 1, …, {text_sizes((each.size,))}" for each in scores.indices
    )
    return f"{typed}, (Q, K) ↦ {text(scores, chosen)}{''.join(heads)}"


def _score_name(scores: Node) -> str:
    """Return what the score function is called: f, or f_i where each head has one."""
    letters = [each.name for each in scores.indices]
    return member_name("f", letters) if letters else "f"
