"""Whatever is printed as LaTeX is taken by the engines that its dialect is for.

`printed` collects it, once a dialect: the catalogue, every operation inside every other, names and
sizes, index forms, derivations, the pages of the gallery.  One run of an engine takes all of it:
pdflatex for ``latex``, KaTeX for ``katex``, MathJax for ``mathjax`` and ``github``, and both for
``jupyter``, since some notebooks have the one and some the other.  An engine that is missing is
skipped: KaTeX and MathJax (the npm packages ``katex`` and ``mathjax-full``) are looked for in the
folder that ``SYMATTN_NODE_MODULES`` names, or else among npm's global packages.
"""

import json
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sympy
from click.testing import CliRunner

import symattn as sa
from symattn.cli import main
from symattn.meaning.form import place
from symattn.meaning.functions import FUNCTIONS
from symattn.notation.dialects import DIALECTS
from symattn.notation.displays import (
    latex_additive_mask_definition,
    latex_aligned,
    latex_operator,
    latex_softmax_definition,
)
from symattn.notation.index_forms import entry_latex
from symattn.notation.presets import PRESETS, Preset
from symattn.notation.rows import Kind
from symattn.notation.tex import latex_shape
from symattn.tags import parse_size
from symattn.variants.signatures import attention_latex, score_latex
from tests.notation import test_index_forms, test_printers
from tests.test_gallery import latex_of_the_gallery

Printed = tuple[str, str]  # where it comes from, LaTeX

ENGINES = Path(__file__).with_name("engines")
SECONDS = 300

n, m, d_k, d_v, h = sa.dims("n m d_k d_v h")
i, j = sa.index("i", h), sa.index("j", n)
F = sa.family("F", h, n, n)
A, B = sa.matrix("A", n, n), sa.matrix("B", n, n)
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
Y = sa.matrix("Y", d_k, m)
ADDED = sa.additive_mask(sa.window(n) & ~sa.keep(), n, n, axis=1)
c, tau = sa.scalar("c"), sa.scalar("tau", positive=True)

OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "transpose": lambda x: x.T,
    "product on the left": lambda x: A @ x,
    "product on the right": lambda x: x @ B,
    "sum": lambda x: A + x,
    "difference": lambda x: x - A,
    "hadamard": lambda x: sa.hadamard(A, x),
    "minus": lambda x: -x,
    "scaled": lambda x: c * x,
    "scaled on the right": lambda x: x * 2,
    "over a root": lambda x: x / sa.sqrt(d_k),
    "over a sum": lambda x: x / (tau + n),
    "softmax of columns": lambda x: sa.softmax(x, axis=0),
    "softmax of rows": lambda x: sa.softmax(x, axis=1),
    "masked softmax": lambda x: sa.softmax(x, axis=0, mask=sa.causal() & ~sa.padding()),
    "additive mask": lambda x: sa.softmax(x / n + ADDED, axis=1),
    "max of columns": lambda x: sa.max(x, axis=0),
    "max of rows": lambda x: sa.max(x, axis=1),
    "sum over heads": lambda x: sa.sum_over(F[i] @ x, i),
    "sum of the same": lambda x: sa.sum_over(x, i),
    "block of heads": lambda x: sa.head(sa.heads(x, i, axis=0), i, axis=0),
    "columns of heads": lambda x: sa.head(sa.heads(x, i, axis=1), i, axis=1),
    "all heads": lambda x: sa.ones(n, h * n) @ sa.heads(F[i] @ x, i, axis=0),
    "reshaped": lambda x: sa.reshape(sa.reshape(x, 1, n * n), n, n),
    "unknown function": sa.function("phi"),
    "unknown word": sa.function("elu_2"),
    **{name: sa.function(name) for name in FUNCTIONS},
}
LEAVES = {
    "input": A,
    "transposed input": B.T,
    "power": sa.matrix("W^Q", n, n),
    "one of a family": sa.family("W^Q", (h, n), n, n)[i, j],
    "one of a family with two marks": sa.family("W_Q^{(1)}'", h, n, n)[i],
    "all of a family": sa.head(sa.heads(F[i], i, axis=0), i, axis=0),
    "all of a family, side by side": sa.head(sa.heads(F[i], i, axis=1), i, axis=1),
    "ones": sa.ones(n, n),
    "identity": sa.identity(n),
    "mask": sa.indicator(sa.window(n) & sa.causal("top_left") | ~sa.keep(), n, n, axis=1),
}
NAMES = (
    *("heads", "Layer^{norm}"),
    *("Q", "Head", "W^Q", "d_{model}", "Q'", "Q''", "λ", "lambda", "W_Q^{(1)}", "Q'^K", "W_QK"),
    *("Σ_α", "W_{i,alpha_max}", "X_{tok 1}", "Α", "ο", "ς", "x_{ς}", "x_{'}", "W^{'}", "X_{__}"),
    *("W^{a_b_c}_{(i,j')}", "aλb", "x1", "x_0", "Omega^{omega}", "X^{_a}", "A_{a_'}", "W_{λx}"),
)
SIZES = (
    "d_k",
    "h*d_k + 2",
    "-n",
    "2*n - 1",
    "n^12",
    "heads*d_model//h",
    "(n + m)//(2*h)",
    "7",
    "d__k",
)
# A reason may hold names, and a user's own may hold anything.
REASONS = ("W^Q, W_{Q}^{(1)}, λ' and d_model", r"a\b {c} $d$ & #5 100% e~f x_", "x^ ^2 _ |a| < b")


@cache
def derivations() -> tuple[tuple[str, Any], ...]:
    """Proofs, refutations and translations, each of which prints itself."""
    found: list[tuple[str, Any]] = []
    for name in sa.formulas():
        for layout, other in (("column", "row"), ("row", "column")):
            there = sa.translate(sa.formula(name, layout=layout), to=other)
            found += [(f"{name} to {other}", there), (f"{name} to {other}, proof", there.proof)]
    odd = V @ sa.softmax(sa.matrix("W_K^{(1)}", m, d_k) @ sa.matrix("λ'", d_k, n), axis=0)
    proofs = {
        "proved": sa.prove((A @ B).T, B.T @ A.T),
        "as it is written": sa.prove(A, A),
        "by index form": sa.prove(A @ (A + B), A @ B + A @ A),
        "refuted": sa.prove(A @ B, B @ A),
        "undecided": sa.prove(sa.relu(A) + sa.relu(-A), sa.sqrt(sa.hadamard(A, A))),
    }
    for name, proof in proofs.items():
        assert proof.verdict in (name, "proved")
        found.append((name, proof))
    found.append(("odd names to row", sa.translate(odd, to="row")))
    return tuple(found)


@cache
def printed(dialect: str) -> tuple[Printed, ...]:
    """Everything that is printed as LaTeX in a dialect."""
    found: dict[str, str] = {}
    for where, latex in _printed(dialect):
        found.setdefault(latex, where)
    return tuple((where, latex) for latex, where in found.items())


def _printed(dialect: str) -> Iterator[Printed]:
    for preset in PRESETS.values():
        for where, latex in (
            *_catalogue(preset, dialect),
            *_operations(preset, dialect),
            *_names(preset, dialect),
            *_entries(preset, dialect),
            *_views(preset, dialect),
        ):
            yield f"{where} as {preset.name}", latex
        definition = latex_additive_mask_definition(ADDED, preset, dialect=dialect)
        yield "an additive mask written out", definition
        yield "softmax written out", latex_softmax_definition(preset, dialect=dialect)
        for where, derivation in derivations():
            yield where, derivation.latex(preset, dialect=dialect)
    for where, derivation in derivations():
        yield where, derivation.latex(dialect=dialect)
    for name in sa.derivations():
        yield f"the derivation {name}", sa.derivation(name).latex(dialect=dialect)
    for reason in REASONS:
        yield "a reason", latex_aligned([("A", "B", reason), ("", "C", "")])
    if dialect == "github":
        yield from latex_of_the_gallery()
    if dialect == "jupyter":
        for shown in (
            A @ B.T,
            sa.formula("dot_product"),
            sa.Program(S=A @ B),
            sa.prove(A.T.T, A),
            sa.entries(A @ B),
            sa.per_position(sa.formula("key_padding")),
            sa.derivation("saturation"),
        ):
            whole = shown._repr_latex_()
            assert whole
            assert whole.startswith("$")
            assert whole.endswith("$")
            yield "shown by a notebook", whole[1:-1]


def _catalogue(preset: Preset, dialect: str) -> Iterator[Printed]:
    for name in sa.formulas():
        for layout in ("column", "row"):
            formula = sa.formula(name, layout=layout)
            where = f"{name}:{layout}"
            typed = (formula.operands, formula.function, preset, dialect)
            yield where, sa.latex(formula.expr, preset, dialect=dialect)
            yield f"{where}, type", attention_latex(*typed, name=formula.called)
            yield f"{where}, type of the score", score_latex(*typed)
            for given in formula.inputs:
                yield f"{where}, {given}", latex_shape(given.name, given.sizes, preset)
            for symbol in formula.expr.symbols():
                red = sa.latex(formula.expr, preset, highlight=[symbol], dialect=dialect)
                yield f"{where}, {symbol} in red", red
            for part in (formula.program, formula.function):
                lines = sa.latex(part, preset, highlight=part.result.symbols()[:1], dialect=dialect)
                yield f"{where}, line by line", lines
            for line in (formula.scores, formula.weights):
                red = sa.latex(formula.expr, preset, highlight=[line], dialect=dialect)
                yield f"{where}, {line} in red", red
            if dialect == "latex":
                signatures = formula.latex_signatures(preset)
                types = attention_latex(*typed, name=formula.called), score_latex(*typed)
                assert signatures == types


def _operations(preset: Preset, dialect: str) -> Iterator[Printed]:
    for where, expr in _expressions():
        yield where, sa.latex(expr, preset, dialect=dialect)
    for where, operation in OPERATIONS.items():
        for leaf, part in LEAVES.items():
            whole = operation(part)
            there = [part] if part in whole.walk() else []  # a chain takes the parts of a chain in
            red = sa.latex(whole, preset, highlight=there, dialect=dialect)
            yield f"{where} of {leaf} in red", red


def _expressions() -> Iterator[tuple[str, Any]]:
    for row in test_printers.TABLE:
        yield "the table of printers", row[0]
    for inside, part in LEAVES.items():
        yield inside, part
        for outside, operation in OPERATIONS.items():
            yield f"{outside} of {inside}", operation(part)
    for outside, outer in OPERATIONS.items():
        for inside, inner in OPERATIONS.items():
            if not inside.startswith("max"):  # a maximum is a vector
                yield f"{outside} of {inside}", outer(inner(A))


def _names(preset: Preset, dialect: str) -> Iterator[Printed]:
    for name in NAMES:
        matrix = sa.matrix(name, n, m)
        scaled = sa.scalar(name) * A @ matrix.T.T / sa.sqrt(sa.scalar(name))
        for expr in (matrix, matrix.T, scaled, sa.function(name)(A), sa.vector(name, n).T):
            there = [symbol for symbol in expr.symbols() if symbol.label == matrix.label]
            yield f"the name {name}", sa.latex(expr, preset, highlight=there, dialect=dialect)
        yield f"the name {name}, shape", latex_shape(name, matrix.sizes, preset)
        yield f"the name {name}, operator", latex_operator(name, preset, dialect)
        row, column = place(matrix.sizes[0]), place(matrix.sizes[1])
        entry = (matrix @ matrix.T).meaning(row, column)
        yield f"the name {name}, entry", entry_latex(entry, preset=preset, dialect=dialect)
    for size in map(parse_size, SIZES):
        yield f"the size {size}", latex_shape("A", (size, size), preset)


def _entries(preset: Preset, dialect: str) -> Iterator[Printed]:
    for form, *_ in test_index_forms.TABLE:
        yield "the table of entries", entry_latex(form, preset=preset, dialect=dialect)
    formulas = [
        (f"{name}:{layout}", sa.formula(name, layout=layout).expr)
        for name in sa.formulas()
        for layout in ("column", "row")
    ]
    for where, expr in (*formulas, *_expressions()):
        row, column = place(expr.sizes[0]), place(expr.sizes[1])
        entry = expr.meaning(row, column)
        yield f"{where}, entry", entry_latex(entry, preset=preset, dialect=dialect)


def _views(preset: Preset, dialect: str) -> Iterator[Printed]:
    for name in sa.formulas():
        for layout in ("column", "row"):
            formula = sa.formula(name, layout=layout)
            where = f"{name}:{layout}"
            parts = (formula.scores, formula.weights) if preset.layout == layout else ()
            for part in parts:
                yield f"{where}, written out", sa.entries(part).latex(preset, dialect=dialect)
            for view in (sa.per_position(formula), sa.shapes(formula)):
                yield f"{where}, {type(view).__name__}", view.latex(preset, dialect=dialect)
    for name in NAMES:
        matrix = sa.matrix(name, n, m)
        for whole in (matrix, matrix.T @ matrix, matrix @ matrix.T):
            yield f"the name {name}, entries", sa.entries(whole).latex(preset, dialect=dialect)
    for where, operation in OPERATIONS.items():
        whole = operation(A @ B)
        yield f"{where}, written out", sa.entries(whole).latex(preset, dialect=dialect)
        yield f"{where}, shapes", sa.shapes(whole).latex(preset, dialect=dialect)
        if dialect != "github":  # SymPy's own printer knows no dialects
            yield f"{where}, entry of SymPy", sympy.latex(sa.entry(whole, 0, 0))
    for size in map(parse_size, SIZES):
        if size.is_one or size.constant is None or size.constant > 0:
            whole = sa.matrix("A", size, size)
            yield f"the size {size}, entries", sa.entries(whole).latex(preset, dialect=dialect)


def test_every_kind_of_writing_is_collected() -> None:
    kinds = {part.notation.kind for _, whole in _expressions() for part in _parts(whole)}
    assert kinds == set(Kind)


def _parts(node: Any) -> Iterator[Any]:
    yield node
    for part in node.matrices:
        yield from _parts(part)


# KaTeX and MathJax.


@cache
def node_modules() -> str:
    """The folder of the npm packages."""
    named = os.environ.get("SYMATTN_NODE_MODULES", "")
    npm = shutil.which("npm")
    if named or npm is None:
        return named
    done = subprocess.run([npm, "root", "-g"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def answers(engine: str, sources: Iterable[str]) -> list[dict[str, str]]:
    """What KaTeX or MathJax says about each piece of LaTeX: its MathML, or its error."""
    package = {"katex": "katex", "mathjax": "mathjax-full"}[engine]
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not installed")
    if not (Path(node_modules()) / package).is_dir():
        pytest.skip(f"the npm package {package} is not installed; see SYMATTN_NODE_MODULES")
    done = subprocess.run(
        [node, str(ENGINES / f"{engine}.cjs")],
        input=json.dumps(list(sources)),
        env={**os.environ, "NODE_PATH": node_modules()},
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refusals(engine: str, collected: Iterable[Printed]) -> list[str]:
    """What an engine refuses, with its reason."""
    collected = list(collected)
    said = answers(engine, (latex for _, latex in collected))
    return [
        f"{where}: {answer['error']}\n    {latex}"
        for (where, latex), answer in zip(collected, said, strict=True)
        if "error" in answer
    ]


@pytest.mark.parametrize(
    ("engine", "dialect"),
    [
        ("katex", "katex"),
        ("mathjax", "mathjax"),
        ("mathjax", "github"),
        ("mathjax", "jupyter"),
        ("katex", "jupyter"),
    ],
)
def test_browsers_take_it(engine: str, dialect: str) -> None:
    refused = refusals(engine, printed(dialect))
    assert not refused, "\n".join(refused)


@pytest.mark.parametrize(
    ("engine", "latex"),
    [
        ("katex", "W^Q^T"),
        ("katex", r"\label{a}"),
        ("katex", "日"),
        ("katex", r"\unknown"),
        ("mathjax", "W^Q^T"),
        ("mathjax", r"\bm{x}"),
        ("mathjax", r"\unknown"),
        ("mathjax", r"{\color{red} \mathbf{A}}"),
    ],
)
def test_browsers_refuse(engine: str, latex: str) -> None:
    assert refusals(engine, [("control", latex)])


@pytest.mark.parametrize(
    ("engine", "dialect"),
    [("katex", "katex"), ("mathjax", "mathjax"), ("mathjax", "github"), ("katex", "jupyter")],
)
@pytest.mark.parametrize("preset", PRESETS)
def test_red_is_what_is_highlighted(engine: str, dialect: str, preset: str) -> None:
    cross = sa.formula("cross_attention")
    y = cross.inputs[1]
    cases = [
        *((part, cross.expr, times) for part, times in ((y, 2), (cross.scores, 1))),
        *((A + B, sa.tanh((A + B) @ A) + A + B, 1), (K, V @ sa.softmax(K.T @ Q, axis=0), 1)),
        *((A / c, (A / c).T @ A, 1), (Q, Q.T @ (Q / sa.sqrt(d_k)), 2)),
    ]
    sources = [
        latex
        for part, whole, _ in cases
        for latex in (
            sa.latex(part, preset, dialect=dialect),
            sa.latex(whole, preset, highlight=[part], dialect=dialect),
        )
    ]
    said = answers(engine, sources)
    for (_, _, times), part, whole in zip(cases, said[::2], said[1::2], strict=True):
        letters = _letters(ElementTree.fromstring(part["mathml"]))
        for way, mathml in whole.items():
            shown = ElementTree.fromstring(mathml)
            red = [_letters(node) for node in shown.iter() if node.get("mathcolor") == "red"]
            assert red == [letters] * times, way


def _letters(mathml: ElementTree.Element) -> str:
    tokens = (node.text or "" for node in mathml.iter() if _tag(node) in ("mi", "mn", "mo"))
    return re.sub(r"[\s\u2061]", "", "".join(tokens))  # and no invisible "function of"


def _tag(node: ElementTree.Element) -> str:
    return node.tag.rpartition("}")[2]


# What the renderers' own Markdown and inline modes refuse, which the engines alone do not show.

REFUSED = (
    *(r"\begin{align}", r"\begin{align*}", r"\begin{split}", r"\begin{multline", r"\tag"),
    *(r"\label", r"\eqref", r"\DeclareMathOperator", r"\mbox", r"\color[", r"\bm", r"\bold{"),
    *(r"\[", r"\("),
)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_nothing_that_some_renderer_refuses(dialect: str) -> None:
    refused = [*REFUSED, r"\operatorname"] if dialect == "github" else list(REFUSED)
    found = [
        (where, latex)
        for where, latex in printed(dialect)
        for command in refused
        # A line break before a bracket, `\\[`, is no \[; and \bmod is no \bm.
        if re.search(re.escape(command) + r"(?<![a-z](?=[a-z]))", latex.replace(r"\\", ""))
    ]
    assert not found
    # One blank line, or one dollar sign that is not escaped, ends a display.
    assert not [latex for _, latex in printed(dialect) if re.search(r"\n\s*\n|(?<!\\)\$", latex)]
    assert not [latex for _, latex in printed(dialect) if re.search(r"\\text\{[^}]*[_^\\]", latex)]


# pdflatex.

HEAD = r"""\documentclass{article}
\usepackage[utf8]{inputenc}
\usepackage{amsmath,amssymb,xcolor}
\textwidth=40cm
\begin{document}
"""


def compiled(bodies: Iterable[str], folder: Path) -> dict[int, str]:
    """What pdflatex has to complain of in a document of these pieces: the message by piece."""
    pdflatex = shutil.which("pdflatex")
    if pdflatex is None:
        pytest.skip("pdflatex is not installed")
    text, starts = HEAD, []
    for body in bodies:
        starts.append(text.count("\n") + 1)
        text += body.rstrip() + "\n\n"
    (folder / "all.tex").write_text(text + "\\end{document}\n", encoding="utf-8")
    done = subprocess.run(
        [pdflatex, "-interaction=nonstopmode", "-file-line-error", "-no-shell-escape", "all.tex"],
        cwd=folder,
        env={**os.environ, "max_print_line": "1000"},
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=SECONDS,
        check=False,
    )
    found: dict[int, str] = {}
    for line, message in re.findall(r"^(?:\./)?all\.tex:(\d+): (.*)", done.stdout, re.MULTILINE):
        piece = max((k for k, start in enumerate(starts) if start <= int(line)), default=-1)
        found.setdefault(piece, message)
    log = (folder / "all.log").read_text(encoding="latin-1")
    lost = re.findall(r"Missing character.*|LaTeX Font Warning.*undefined.*", log)
    assert not lost, "\n".join(lost)
    assert found or done.returncode == 0, done.stdout[-2000:]
    return found


def test_pdflatex_takes_it(tmp_path: Path) -> None:
    collected = printed("latex")
    found = compiled((f"\\[\n{latex}\n\\]" for _, latex in collected), tmp_path)
    refused = [f"{collected[k][0]}: {message}\n{collected[k][1]}" for k, message in found.items()]
    assert not refused, "\n".join(refused)


def test_pdflatex_takes_what_the_command_line_prints(tmp_path: Path) -> None:
    calls = [["translate", "self_attention", "--to", "row", "--format", "latex"]]
    calls += [["derivation", name, "--format", "latex"] for name in sa.derivations()]
    for name in sa.formulas():
        for formula in (name, f"{name}:row"):
            calls.append(["show", formula, "--format", "latex"])
            calls += [[*calls[-1], "--preset", preset] for preset in PRESETS]
    outputs = [CliRunner().invoke(main, call, catch_exceptions=False).output for call in calls]
    found = compiled(outputs, tmp_path)
    assert not [(calls[k], message) for k, message in found.items()]


def test_pdflatex_says_which_piece_it_refuses(tmp_path: Path) -> None:
    pieces = ["$A$", "\\[\nW^Q^T\n\\]", "$B$", r"$\unknown$"]
    found = compiled(pieces, tmp_path)
    assert {piece: message.rstrip(".") for piece, message in found.items()} == {
        1: "Double superscript",
        3: "Undefined control sequence",
    }
