r"""Displays in LaTeX: a function's type, Softmax written out, derivations in an ``aligned`` block.

They use only what every dialect takes: ``aligned``, never ``align*``, ``\tag`` or ``\label``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from symattn.meaning.form import Form
from symattn.notation.dialects import dialect_named
from symattn.notation.glyphs import latex_name, latex_script
from symattn.notation.names import NAME, check_name
from symattn.notation.presets import PRESETS, Preset, chosen_preset
from symattn.notation.rows import Printable
from symattn.notation.tex import LINES, LatexPrinter, latex, latex_space, operands_in
from symattn.tags import Size

Shape = tuple[Size, Size]

# What \text{…} does not print as it stands, as it is written outside of it.
_OUTSIDE_TEXT = {
    "\\": r"\backslash ",
    "^": r"\hat{}",
    "~": r"\sim ",
    **{sign: "\\" + sign for sign in "{}$&#%_"},
    **{sign: sign for sign in "<>|"},
}
_READ_IN_TEXT = re.compile(rf"{NAME.pattern}|.", re.DOTALL)


def latex_operator(name: str, preset: Preset, dialect: str = "latex") -> str:
    r"""Return the name of a function, ``\operatorname{Attention}`` or ``f``."""
    label = latex_name(check_name(name), preset)[0].replace(r"\mathrm", r"\operatorname", 1)
    return dialect_named(dialect).adapted(label)


def latex_signature(
    name: str,
    domain: Sequence[tuple[str, Shape]],
    codomain: Shape,
    preset: Preset,
    value: Printable | Form | None = None,
    *,
    dialect: str = "latex",
) -> str:
    r"""Return a function's type; with a value, also what it maps its arguments to.

    >>> from symattn.notation.presets import PRESETS
    >>> from symattn.tags import Size
    >>> d, n, m = (Size.tag(tag) for tag in ("d_k", "n", "m"))
    >>> print(latex_signature("f", [("Q", (d, n)), ("K", (d, m))], (m, n), PRESETS["freshrimp"]))
    f: M^{d_{k} \times n} \times M^{d_{k} \times m} \to M^{m \times n}

    ``domain`` has each argument with its shape.  With a value the result is an ``aligned`` block of
    two lines, the type and ``(Q, K) \mapsto …``.
    """
    operator = latex_operator(name, preset, dialect)
    spaces = r" \times ".join(latex_space(sizes, preset) for _, sizes in domain)
    target = latex_space(codomain, preset)
    if value is None:
        return rf"{operator}: {spaces} \to {target}"
    arguments = ",".join(
        latex_name(check_name(label), preset, bold=preset.bold)[0] for label, _ in domain
    )
    shown = latex(value, preset, dialect=dialect)
    return (
        rf"\begin{{aligned}} {operator}: {spaces} &\to {target} \\ "
        rf"({arguments}) &\mapsto {shown} \end{{aligned}}"
    )


def latex_softmax_definition(
    preset: Preset, axis: int | None = None, *, dialect: str = "latex"
) -> str:
    r"""Return Softmax of a matrix written out: its columns, or its rows, one by one.

    ``axis`` is 0 for columns and 1 for rows, the preset's own if it is not given.

    >>> from symattn.notation.presets import PRESETS
    >>> print(latex_softmax_definition(PRESETS["vaswani"]))  # doctest: +ELLIPSIS
    \mathrm{softmax}(X) := \begin{bmatrix} ... \\ \vdots \\ ... \end{bmatrix}
    """
    axis = preset.axis if axis is None else axis
    named = "" if axis == preset.axis else latex_script("_", LINES[axis], preset)
    matrix = latex_name("X", preset, bold=preset.bold)[0]
    first, last = (latex_name(f"x_{at}", preset, bold=preset.bold)[0] for at in ("1", "N"))

    def line(vector: str) -> str:
        applied = f"{preset.softmax_vector}({vector})"
        if axis == 0:
            return rf"\underset{{\vert}}{{\overset{{\vert}}{{{applied}}}}}"
        return rf"\text{{—}} \; {applied} \; \text{{—}}"

    between = r" & \cdots & " if axis == 0 else r" \\ \vdots \\ "
    written = (
        rf"{preset.softmax_matrix}{named}({matrix}) := "
        rf"\begin{{bmatrix}} {line(first)}{between}{line(last)} \end{{bmatrix}}"
    )
    return dialect_named(dialect).adapted(written)


def latex_additive_mask_definition(
    node: Printable, preset: Preset | str | None = None, *, dialect: str = "latex"
) -> str:
    r"""Return the entries of an additive mask, 0 or −∞, as cases: i is the query, j is the key.

    >>> import symattn as sa
    >>> M = sa.additive_mask(sa.causal(), "n", "n", axis=1)
    >>> print(latex_additive_mask_definition(M, "vaswani"))
    (M_{j \le i})_{ij} = \begin{cases} 0 & j \le i \\ -\infty & \text{otherwise} \end{cases}
    """
    printer = LatexPrinter(chosen_preset(preset, node), dialect_named(dialect))
    condition, query, key = printer.mask_and_letters(node)
    letters = key + query if node.axis == 0 else query + key
    entry = printer.write(node).text
    if letters:
        entry = f"({entry})" + latex_script("_", letters, printer.preset)
    return printer.dialect_of(
        rf"{entry} = \begin{{cases}} 0 & {condition} \\ -\infty & \text{{otherwise}} \end{{cases}}"
    )


def latex_aligned(lines: Sequence[tuple[str, str, str]], sign: str = "=") -> str:
    r"""Return lines ``(left, right, reason)`` as an ``aligned`` block, a sign between the sides.

    >>> print(latex_aligned([("A^T", "(BC)^T", ""), ("", "C^TB^T", "transpose of a product")]))
    \begin{aligned}
    A^T &= (BC)^T \\
    &= C^TB^T && \text{(transpose of a product)}
    \end{aligned}

    Left and right are LaTeX; a reason is plain text, in which names such as ``W^Q`` are set with
    their scripts and what stands between ``$`` is LaTeX; an empty left side continues the line
    above.
    """
    rows = [
        f"{left} &{sign} {right}".lstrip() + (f" && {_reason(reason)}" if reason else "")
        for left, right, reason in lines
    ]
    return "\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}"


def _reason(reason: str) -> str:
    r"""Return a reason in parentheses as LaTeX.

    >>> print(_reason("writing $Q$ for $Q^T$"))
    \text{(writing }Q\text{ for }Q^T\text{)}
    """
    parts = f"({reason})".split("$")
    return "".join(part if k % 2 else _text(part) for k, part in enumerate(parts))


def latex_lines(
    lines: Sequence[tuple[Printable, Printable]], preset: Preset, highlight: Any, dialect: str
) -> str:
    """Return lines, each a name and what it stands for, as an ``aligned`` block.

    An operand to highlight stands somewhere, not in every line.
    """
    operands = operands_in([part for line in lines for part in line], highlight)
    printer = LatexPrinter(preset, dialect_named(dialect), operands)
    written = ((printer.write(name).text, printer.write(line).text, "") for name, line in lines)
    return printer.dialect_of(latex_aligned(tuple(written)))


def _text(plain: str) -> str:
    r"""Return plain text as LaTeX: names and signs stand between ``\text{…}``, for all dialects.

    >>> print(_text("writing W^Q for 100%"))
    \text{writing }\mathrm{W^Q}\text{ for 100}\%
    """
    written, words = "", ""
    for part in (found[0] for found in _READ_IN_TEXT.finditer(plain)):
        word = part.isascii() and part.isalnum()
        if part in _OUTSIDE_TEXT:
            outside = _OUTSIDE_TEXT[part]
        elif not word and NAME.fullmatch(part):
            outside = rf"\mathrm{{{latex_name(part, PRESETS['vaswani'])[0]}}}"
        else:
            words += part
            continue
        written += (rf"\text{{{words}}}" if words else "") + outside
        words = ""
    return written + (rf"\text{{{words}}}" if words else "")
