"""The gallery: a page for every formula of the catalogue, and one for each other registry.

Run ``python docs/make_gallery.py`` after adding an entry; a test compares what it makes with what
is committed.  Nothing on the pages is written by hand: formulas, claims and derivations print and
prove themselves, so a page cannot say what the library does not.

A page is Markdown for GitHub.  LaTeX stands in ```` ```math ```` blocks or in ``$`…`$``, where
Markdown leaves it alone, and lines are broken at spaces, which mean nothing there.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import symattn as sa
from symattn.notation.displays import latex_additive_mask_definition, latex_softmax_definition
from symattn.notation.glyphs import latex_name
from symattn.notation.layouts import LAYOUTS
from symattn.notation.presets import Preset, chosen_preset
from symattn.notation.tex import latex_shape
from symattn.variants import Formula
from symattn.variants.claims import Outcome
from symattn.variants.derived.chains import NOT_A_PROOF
from symattn.variants.signatures import attention_latex, score_latex

FOLDER = Path(__file__).with_name("gallery")
DIALECT = "github"
WIDTH = 100

BACK = "[Gallery](README.md)"
NOT_SUPPORTED = "Not supported for this formula yet."

LEGEND = (
    "Formulas in column layout are set in bold, those in row layout as in *Attention Is All You "
    "Need*. A matrix of $`M^{n \\times m}`$ has n rows and m columns of real numbers. Softmax of a "
    "matrix is that of each column in column layout, and that of each row in row layout:"
)
LAST_LINE = (
    "A proof that both layouts say the same starts from the transpose of the column layout, in its "
    "glyphs. Its last line is the formula of the row layout, in the glyphs of that layout."
)


# Markdown.


def plain(words: str) -> str:
    r"""Return text in which Markdown sees no markup: an underscore inside a word is none.

    >>> plain("K | V and c_i = Σ_j α_ij")
    'K \\| V and c_i = Σ_j α_ij'
    """
    return re.sub(r"[\\*<>|`$~\[\]]|(?<!\w)_|_(?!\w)", r"\\\g<0>", words)


def paragraph(text: str) -> str:
    """Return a paragraph broken into lines, none of which starts like an item of a list."""
    kept = re.sub(r"\$`.*?`\$|\]\(\S*?\)| (?=[-+*=#]|\d+[.)] )", _held, text)
    return _broken(kept, "")


def math(latex: str) -> str:
    r"""Return a display; words in ``\text{…}`` stay on one line, and ``\\`` at its end."""
    kept = re.sub(r"\\text\{[^{}]*\}| \\\\", _held, latex)
    loose = re.sub(r"(\\text\{[^{}]*\})(?=\\)", r"\1 ", kept)
    return fenced("math", "\n".join(_broken(line, "  ") for line in loose.splitlines()))


def fenced(language: str, text: str) -> str:
    """Return a block in fences."""
    return f"```{language}\n{text.rstrip()}\n```"


def folded(summary: str, *blocks: str) -> str:
    """Return blocks that are seen after a click."""
    inside = "\n\n".join(blocks)
    return f"<details>\n<summary>{summary}</summary>\n\n{inside}\n\n</details>"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table."""
    lines = (head, ("---",) * len(head), *rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _held(found: re.Match[str]) -> str:
    return found[0].replace(" ", "\0")


def _broken(line: str, indent: str) -> str:
    filled = textwrap.fill(
        line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return filled.replace("\0", " ")


# A formula.


@dataclass(frozen=True)
class View:
    """One way to look at a formula: its title, and how the block under it is made."""

    title: str
    write: Callable[[Formula], str]
    is_folded: bool = False

    def section(self, formula: Formula) -> str:
        """Return the view, or one line where it does not cover the formula."""
        try:
            block = self.write(formula)
        except sa.NotSupportedError:
            return f"**{self.title}.** {NOT_SUPPORTED}"
        return folded(self.title, block) if self.is_folded else f"**{self.title}**\n\n{block}"


def _inputs(formula: Formula) -> str:
    preset = _preset(formula)
    given = [f"$`{latex_shape(g.name, g.sizes, preset)}`$" for g in formula.inputs]
    for scalar in formula.scalars:
        space = "> 0" if scalar.is_positive else r"\in \mathbb{R}"
        given.append(f"$`{latex_name(scalar.name, preset)[0]} {space}`$")
    given += [
        f"booleans `{mask.label}` of shape ({', '.join(map(str, mask.sizes))}), "
        "true where a query may attend"
        for mask in formula.masks
    ]
    related = f"; `{formula.relations.text()}`" if formula.relations else ""
    return paragraph(f"{', '.join(given)}{related}")


def _types(formula: Formula) -> str:
    typed = formula.operands, formula.function, _preset(formula), DIALECT
    return f"{math(attention_latex(*typed, name=formula.called))}\n\n{math(score_latex(*typed))}"


def _code(formula: Formula) -> str:
    return fenced("python", sa.lambdify(formula.inputs, formula).source)


VIEWS = (
    View("Inputs", _inputs),
    View("Types of the attention function and of its score function", _types),
    View("Line by line, with shapes", lambda f: math(sa.shapes(f).latex(dialect=DIALECT))),
    View("At one position", lambda f: math(sa.per_position(f).latex(dialect=DIALECT))),
    View("As einsum", lambda f: fenced("text", sa.einsum(f).text()), is_folded=True),
    View("NumPy code, as generated", _code, is_folded=True),
)


def formula_page(name: str) -> str:
    """Return the page of a formula: each layout, and the proof that both say the same."""
    column, row = (sa.formula(name, layout=layout) for layout in LAYOUTS)
    return _page(
        plain(column.title),
        f'{BACK} · `sa.formula("{name}")` · `symattn show {name}`',
        paragraph(f"Source: {plain(column.source)}."),
        "[Column layout](#column-layout) · [Row layout](#row-layout) ·\n"
        "[Both layouts say the same](#both-layouts-say-the-same)",
        *_layout("Column layout", column),
        *_layout("Row layout", row),
        *_both_layouts(column, row),
    )


def _layout(title: str, formula: Formula) -> list[str]:
    chosen = (
        f"With `{option}={not value}`:\n\n"
        + math(_latex(sa.formula(formula.name, formula.layout, **{option: not value})))
        for option, value in formula.options
    )
    sections = (view.section(formula) for view in VIEWS)
    return [f"## {title}", math(_latex(formula)), *chosen, *sections]


def _both_layouts(column: Formula, row: Formula) -> list[str]:
    proof = sa.prove(column, row)
    replayed = "; the proof has been replayed" if proof.check() else ""
    said = (
        f"The transpose of the one is the other: {proof.verdict} in {len(proof.steps)} steps, "
        f"for all sizes and all real inputs{replayed}."
    )
    derivation = folded("Proof", math(proof.latex(dialect=DIALECT)))
    return [
        "## Both layouts say the same",
        paragraph(said),
        *_conditions(proof.conditions),
        derivation,
    ]


def _preset(formula: Formula) -> Preset:
    return chosen_preset(None, formula)


def _latex(shown: Any) -> str:
    return sa.latex(getattr(shown, "expr", shown), dialect=DIALECT)


def _conditions(conditions: Iterable[str]) -> list[str]:
    told = "; ".join(f"`{condition}`" for condition in conditions)
    return [paragraph(f"It takes for granted: {told}.")] if told else []


# Claims.


def claims_page(title: str, words: str, names: Iterable[str]) -> str:
    """Return a page of claims: what each says, its equations, and what proving it says."""
    outcomes = [sa.theorem(name).prove() for name in names]
    links = ((f"[{plain(o.claim.title)}](#{o.claim.name})", o.verdict) for o in outcomes)
    listed = table(("Claim", "Verdict"), links)
    return _page(title, BACK, paragraph(words), listed, *map(_claim, outcomes))


def _claim(outcome: Outcome) -> str:
    claim = outcome.claim
    source = f" Source: {claim.source}." if claim.source else ""
    return _entry(
        claim.name,
        claim.title,
        paragraph(plain(f"{claim.statement} {claim.explanation}{source}")),
        math(claim.latex(dialect=DIALECT)),
        *_verdict(outcome),
    )


def _verdict(outcome: Outcome) -> list[str]:
    verdict = f"**{outcome.verdict.capitalize()}** (`{outcome.claim.name}`)"
    if outcome:
        steps = (step.law for proof in outcome.proofs.values() for step in proof.steps)
        laws = ", ".join(dict.fromkeys(steps)) or "both sides are written alike"
        return [paragraph(f"{verdict}: {plain(laws)}."), *_conditions(outcome.conditions)]
    found = "\n\n".join(f"{label}: {proof}" for label, proof in outcome.texts().items())
    lines = "\n".join(_broken(line, "    ") for line in found.splitlines())
    return [f"{verdict}.", folded("Numbers that refute it", fenced("text", lines))]


# Derivations.


def derivations_page(title: str, words: str) -> str:
    """Return the page of derivations: assumptions, steps, and what a check of them says."""
    names = sa.derivations()
    listed = (f"* [{plain(sa.derivation(name).title)}](#{name})" for name in names)
    return _page(title, BACK, paragraph(words), "\n".join(listed), *map(_derivation, names))


def _derivation(name: str) -> str:
    derivation = sa.derivation(name)
    checked = derivation.check()
    found = "all agree" if checked else "something does not agree"
    return _entry(
        name,
        derivation.title,
        paragraph(f"`{name}`. Source: {plain(derivation.source)}."),
        "\n".join(f"* {plain(assumption)}" for assumption in derivation.assumptions),
        math(derivation.latex(dialect=DIALECT)),
        paragraph(f"So {plain(derivation.conclusion)}."),
        paragraph(f"Checked: {len(checked.steps)} steps and an experiment, {found}."),
    )


def _entry(name: str, title: str, *blocks: str) -> str:
    return "\n\n".join([f'<a id="{name}"></a>', f"## {plain(title)}", *blocks])


# Masks.

p, w = sa.dims("p w")
MASKS = (
    sa.causal(align="top_left"),
    sa.causal(align="bottom_right"),
    sa.window(w, align="top_left"),
    sa.window(w, align="bottom_right"),
    sa.prefix(p),
    sa.padding(),
    sa.keep(),
    sa.window(w, align="bottom_right") & sa.causal(align="bottom_right"),
    sa.prefix(p) | sa.causal(align="top_left"),
    ~sa.causal(align="top_left"),
)
QUERIES, KEYS = 4, 6
GIVEN = {
    "p": 2,
    "w": 2,
    "padding": np.array([True, True, True, True, False, False]),
    "keep": np.array([[(i + j) % 3 != 2 for j in range(KEYS)] for i in range(QUERIES)]),
}


def masks_page(title: str, words: str) -> str:
    """Return the page of masks: the condition of each, and which pairs it allows."""
    return _page(title, BACK, paragraph(words), *map(_mask, MASKS))


def _mask(mask: Any) -> str:
    n, m = sa.dims("n m")
    added = sa.additive_mask(mask, n, m, axis=1)
    allowed = sa.indicator(mask, n, m, axis=1)
    named = {*allowed.tags, *(array.label for array in allowed.booleans())}
    sizes = {"n": QUERIES, "m": KEYS} | {name: GIVEN[name] for name in named & GIVEN.keys()}
    pairs = sa.lambdify([], allowed)(**sizes)
    drawn = "\n".join(" ".join("■" if one else "·" for one in row) for row in pairs)
    definition = math(latex_additive_mask_definition(added, dialect=DIALECT))
    return "\n\n".join([f"## `{mask}`", definition, fenced("text", drawn)])


# All pages.


def index_page() -> str:
    """Return the page that lists all others."""
    known = [sa.formula(name) for name in sa.formulas()]
    rows = ((f"[{plain(f.title)}]({f.name}.md)", f"$`{_latex(f)}`$") for f in known)
    counted = (f"* [{title}]({file}): {len(names)}" for file, (title, names) in _counted().items())
    softmaxes = (
        math(latex_softmax_definition(_preset(f), LAYOUTS[f.layout], dialect=DIALECT))
        for f in (known[0], sa.formula(known[0].name, layout="row"))
    )
    return _page(
        "Gallery",
        paragraph(
            "Everything that symattn knows by name, as it prints and proves it. The page of a "
            "formula has both layouts, types, shapes, the form at one position, generated code, "
            "and the proof that both layouts say the same."
        ),
        "\n".join(counted),
        "## Formulas",
        table(("Formula", "Column layout"), rows),
        "## Notation",
        paragraph(LEGEND),
        *softmaxes,
        paragraph(LAST_LINE),
        "These pages are made by [make_gallery.py](../make_gallery.py).",
    )


def _counted() -> dict[str, tuple[str, tuple[Any, ...]]]:
    return {
        "#formulas": ("Formulas", sa.formulas()),
        "theorems.md": ("Theorems", sa.theorems()),
        "false_claims.md": ("False claims, each with numbers that refute it", sa.false_claims()),
        "derivations.md": ("Derivations", sa.derivations()),
        "masks.md": ("Masks", MASKS),
    }


def pages() -> dict[str, str]:
    """Return every page of the gallery, by the name of its file."""
    return {
        "README.md": index_page(),
        **{f"{name}.md": formula_page(name) for name in sa.formulas()},
        "theorems.md": claims_page(
            "Theorems",
            "What is true of attention, proved for all sizes. Under each theorem stand the laws "
            "that its proof uses; `symattn theorem NAME` prints the proof.",
            sa.theorems(),
        ),
        "false_claims.md": claims_page(
            "False claims",
            "What runs without an error and is wrong, each with sizes and inputs that show it.",
            sa.false_claims(),
        ),
        "derivations.md": derivations_page(
            "Derivations", f"Each is a {NOT_A_PROOF}. `symattn derivation NAME` runs the check."
        ),
        "masks.md": masks_page(
            "Masks",
            "Each mask as it is added to scores: 0 where query i may attend to key j, −∞ "
            f"elsewhere, counted from 0. Below it, the pairs for n = {QUERIES} queries (rows) and "
            f"m = {KEYS} keys (columns): ■ may attend, · may not; w = {GIVEN['w']}, "
            f"p = {GIVEN['p']}, and some arrays for `padding` and `keep`.",
        ),
    }


def _page(title: str, *blocks: str) -> str:
    return "\n\n".join([f"# {title}", *blocks]) + "\n"


def main() -> None:
    """Write all pages, and remove those of entries that are gone."""
    made = pages()
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, page in made.items():
        (FOLDER / name).write_text(page, encoding="utf-8", newline="\n")
    print(f"{len(made)} pages in {FOLDER}")


if __name__ == "__main__":
    main()
