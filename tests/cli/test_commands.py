"""The command line: what each command prints, its exit status, and what a wrong call is told."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sympy
from click.testing import CliRunner, Result

import symattn as sa
from symattn.cli import main

ROOT = Path(__file__).parents[2]
NAMES = tuple(sa.formulas())
COMMANDS = (
    *("formulas", "show", "translate", "prove", "theorems", "theorem"),
    *("derivations", "derivation", "run", "doctor"),
)

each_name = pytest.mark.parametrize("name", NAMES)
each_layout = pytest.mark.parametrize("layout", ["column", "row"])


def call(*arguments: str, status: int = 0) -> Result:
    """What a command answers; it never ends in a traceback."""
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == status, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def data(*arguments: str, status: int = 0) -> Any:
    """The JSON that a command prints, with nothing around it."""
    result = call(*arguments, "--json", status=status)
    assert result.stderr == ""
    return json.loads(result.stdout)


def refused(*arguments: str) -> str:
    """The message of a call that is wrong."""
    result = call(*arguments, status=2)
    assert result.stdout == ""
    return result.stderr.partition("Error: ")[2].strip()


# -- formulas


def test_every_formula_is_listed() -> None:
    shown = call("formulas").stdout
    listed = data("formulas")
    assert [entry["name"] for entry in listed] == list(NAMES)
    for entry in listed:
        assert entry["name"] in shown
        assert entry["row"] in shown
        assert entry["column"] in shown
        assert entry["source"]


# -- show


@each_name
@each_layout
def test_show_tells_all_about_a_formula(name: str, layout: str) -> None:
    formula = sa.formula(name, layout=layout)
    shown = call("show", f"{name}:{layout}").stdout
    found = data("show", f"{name}:{layout}")
    words = re.sub(r"\s+", " ", shown)
    assert formula.title in shown
    assert formula.source in words
    assert sa.text(formula.expr) in shown
    for signature in formula.signatures():
        assert signature in shown
    assert found["formula"] == sa.text(formula.expr)
    assert found["latex"] == sa.latex(formula.expr)
    assert found["layout"] == layout
    assert [(i["name"], i["shape"]) for i in found["inputs"]] == [
        (symbol.name, [str(size) for size in symbol.sizes]) for symbol in formula.inputs
    ]
    other = sa.formula(name, layout="row" if layout == "column" else "column")
    assert found["translation"]["layout"] == other.layout
    assert found["translation"]["formula"] == sa.text(other.expr)
    assert found["translation"]["verdict"] == "proved"
    assert f"In {other.layout} layout (proved)" in shown
    assert "transpose of softmax" in shown


@each_name
@each_layout
@pytest.mark.parametrize("preset", ["freshrimp", "vaswani"])
def test_show_prints_latex(name: str, layout: str, preset: str) -> None:
    shown = call("show", f"{name}:{layout}", "--preset", preset, "--format", "latex").stdout
    formula = sa.formula(name, layout=layout)
    assert rf"\[ {sa.latex(formula.expr, preset=preset)} \]" in shown
    assert shown.count(r"\[") == shown.count(r"\]")
    for latex in formula.latex_signatures(preset):
        assert latex in shown
    assert ":= \\begin{bmatrix}" in shown


@pytest.mark.parametrize("layout", ["column", "row"])
def test_show_prints_single_views(layout: str) -> None:
    name = f"luong_general:{layout}"
    formula = sa.formula("luong_general", layout=layout)
    options = ("--entries", "--steps", "--per-position", "--einsum")
    views: dict[str, Any] = {
        "entries": sa.entries(formula.scores),
        "steps": sa.shapes(formula),
        "per_position": sa.per_position(formula),
        "einsum": sa.einsum(formula),
    }
    preset = {"column": "freshrimp", "row": "vaswani"}[layout]
    shown = call("show", name, *options).stdout
    latex = call("show", name, *options, "--format", "latex").stdout
    found = data("show", name, *options)
    assert list(found) == ["name", "layout", "preset", *views]
    for view in views.values():
        for line in view.text().splitlines():
            assert line.rstrip() in shown
    for key in ("entries", "steps", "per_position"):
        assert found[key] == {"text": views[key].text(preset), "latex": views[key].latex(preset)}
        assert views[key].latex(preset) in latex
    assert found["einsum"]["lines"] == [str(line) for line in views["einsum"]]
    assert "def compute" in found["einsum"]["source"]
    assert "luong_general" not in call("show", name, "--steps").stdout


def test_show_without_a_layout_is_the_column_one() -> None:
    assert call("show", "dot_product").stdout == call("show", "dot_product:column").stdout


def test_show_prints_what_the_paper_prints() -> None:
    latex = data("show", "scaled_dot_product:row")["latex"]
    assert latex == r"\mathrm{softmax}\left(\frac{QK^T}{\sqrt{d_k}}\right)V"


def test_a_bare_name_is_in_the_layout_of_the_preset() -> None:
    found = data("show", "dot_product", "--preset", "vaswani")
    assert (found["layout"], found["formula"]) == ("row", "softmax(Q Kᵀ) V")
    assert data("show", "dot_product", "--preset", "freshrimp")["layout"] == "column"
    assert data("show", "dot_product:column", "--preset", "vaswani")["layout"] == "column"


@pytest.mark.parametrize("preset", ["freshrimp", "vaswani"])
def test_the_preset_is_that_of_the_other_layout_too(preset: str) -> None:
    row = sa.formula("dot_product", layout="row").expr
    arguments = ("show", "dot_product:column", "--preset", preset)
    found = data(*arguments)["translation"]
    assert found["formula"] == sa.text(row, preset)
    assert found["latex"] == sa.latex(row, preset)
    assert sa.text(row, preset) in call(*arguments).stdout
    assert sa.latex(row, preset) in call(*arguments, "--format", "latex").stdout


# -- translate


@each_name
@pytest.mark.parametrize(("source", "target"), [("column", "row"), ("row", "column")])
def test_translate_gives_the_catalogues_other_layout(name: str, source: str, target: str) -> None:
    found = data("translate", f"{name}:{source}", "--to", target)
    expected = sa.formula(name, layout=target)
    assert found["verdict"] == "proved"
    assert found["formula"] == sa.text(expected.expr)
    assert found["latex"] == sa.latex(expected.expr)
    shown = call("translate", f"{name}:{source}", "--to", target).stdout
    assert sa.text(expected.expr) in shown
    latex = call("translate", f"{name}:{source}", "--to", target, "--format", "latex").stdout
    assert r"\begin{aligned}" in latex


def test_the_weight_of_the_general_score_stays() -> None:
    found = data("translate", "luong_general", "--to", "row")
    assert set(found["inputs"]) == {"Q", "K", "V"}
    found = data("translate", "self_attention", "--to", "row")
    assert set(found["inputs"]) == {"X", "W^Q", "W^K", "W^V"}


def test_a_translation_to_its_own_layout_is_the_formula() -> None:
    found = data("translate", "dot_product:column", "--to", "column")
    assert (found["from"], found["formula"]) == ("dot_product:column", "V Softmax(KᵀQ)")


@pytest.mark.parametrize("preset", [(), ("--preset", "vaswani"), ("--preset", "freshrimp")])
def test_a_bare_name_is_translated_from_the_other_layout(preset: tuple[str, ...]) -> None:
    for to, other in (("row", "column"), ("column", "row")):
        found = data("translate", "dot_product", "--to", to, *preset)
        assert (found["from"], found["to"]) == (f"dot_product:{other}", to)


# -- prove


@each_name
def test_the_layouts_of_a_formula_are_proved_equal(name: str) -> None:
    for left, right in ((name, f"{name}:row"), (f"{name}:row", name), (name, name)):
        found = data("prove", left, right)
        assert found["verdict"] == "proved"
        assert bool(found["twins"]) is (left != right)
    shown = call("prove", name, f"{name}:row").stdout
    assert "proved" in shown
    assert shown.count("writing") == 1  # which symbols stand for which is said once


@pytest.mark.parametrize("right", ["scaled_dot_product", "scaled_dot_product:row", "luong_general"])
def test_different_formulas_are_refuted_with_numbers(right: str) -> None:
    found = data("prove", "dot_product", right, status=1)
    assert found["verdict"] == "refuted"
    assert found["left_value"] != found["right_value"]
    assert found["sizes"]["d_k"] > 0
    rows = found["inputs"]["Q"]
    assert len(rows) == found["sizes"]["d_k"]
    assert {len(row) for row in rows} == {found["sizes"]["n"]}
    assert "refuted" in call("prove", "dot_product", right, status=1).stdout


def test_one_name_of_two_shapes_is_refused() -> None:
    message = refused("prove", "self_attention", "cross_attention")
    assert "two different symbols" in message


# -- calls that are wrong


@pytest.mark.parametrize("command", ["show", "run", "translate"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("scaled_dot_prodct", "there is no formula named 'scaled_dot_prodct'; did you mean"),
        ("dot_product:colum", "there is no layout named 'colum'; did you mean 'column'"),
        ("dot_product:row:row", "there is no layout named 'row:row'; did you mean 'row'"),
        ("", "there is no formula named ''"),
        ("a\nb", r"there is no formula named 'a\nb'"),
        ("\x1b[31m", r"there is no formula named '\x1b[31m'"),
        ("__import__('os').system('x')", "there is no formula named"),
    ],
)
def test_an_unknown_formula_is_refused(command: str, name: str, message: str) -> None:
    more = ["--to", "row"] if command == "translate" else []
    assert message in refused(command, name, *more)


def test_either_side_of_a_proof_may_be_unknown() -> None:
    assert "'dot_prodct'" in refused("prove", "dot_prodct", "dot_product")
    assert "'dot_prodct'" in refused("prove", "dot_product", "dot_prodct")


@pytest.mark.parametrize("command", ["show", "translate"])
def test_an_unknown_preset_is_refused(command: str) -> None:
    more = ["--to", "row"] if command == "translate" else []
    message = refused(command, "dot_product", "--preset", "vaswan", *more)
    assert message == "there is no preset named 'vaswan'; did you mean 'vaswani'?"


def test_where_nothing_is_near_all_are_listed() -> None:
    assert refused("show", "nope") == (
        f"there is no formula named 'nope'; there are {', '.join(NAMES)}"
    )
    message = refused("show", "dot_product", "--preset", "x")
    assert message == "there is no preset named 'x'; there are freshrimp, vaswani"


def test_an_unknown_layout_to_translate_to_is_refused() -> None:
    assert "did you mean 'row'" in refused("translate", "dot_product", "--to", "rows")


def test_an_unknown_command_is_answered_with_the_nearest() -> None:
    assert refused("shwo", "x") == "there is no command 'shwo'; did you mean 'show'?"
    assert refused("zzzz") == "there is no command 'zzzz'"


@pytest.mark.parametrize("arguments", [("show",), ("prove", "dot_product"), ("show", "a", "b")])
def test_a_wrong_number_of_arguments_is_refused(arguments: tuple[str, ...]) -> None:
    assert refused(*arguments)


def test_a_fault_of_symattn_is_not_taken_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: Any, **_kwargs: Any) -> None:
        raise sa.InternalError("two routes differ")

    monkeypatch.setattr("symattn.cli.proving.prove", broken)
    result = call("prove", "dot_product", "dot_product", status=3)
    assert "this is a bug in symattn" in result.stderr


# -- in a process of its own


def process(*arguments: str, encoding: str = "utf-8") -> subprocess.CompletedProcess[str]:
    """What a fresh process answers, warnings being errors."""
    code = "import sys; sys.argv[0] = 'symattn'; from symattn.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-W", "error", "-X", "utf8=0", "-c", code, *arguments],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding, "PATH": ""},
        capture_output=True,
        encoding=encoding,
        timeout=120,
    )


def test_the_version_is_the_packages() -> None:
    done = process("--version")
    assert done.stdout.strip() == f"symattn, version {sa.__version__}"
    assert not done.stderr


@pytest.mark.parametrize("command", [(), *((command,) for command in COMMANDS)], ids=str)
def test_help_does_not_load_sympy_or_numpy(command: tuple[str, ...]) -> None:
    code = f"""
import sys
from symattn.cli import main
sys.argv = ["symattn", *{command!r}, "--help"]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
assert not {{"sympy", "numpy"}} & set(sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "Usage: symattn" in done.stdout


def test_a_terminal_without_the_letters_is_no_reason_to_fail() -> None:
    done = process("show", "scaled_dot_product", encoding="latin-1")
    assert done.returncode == 0, done.stderr
    assert "V Softmax(K?Q / ?d_k)" in done.stdout


def test_a_wrong_call_ends_without_a_traceback() -> None:
    done = process("show", "scaled_dot_prodct")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "Error: there is no formula named 'scaled_dot_prodct'; did you mean "
        "'scaled_dot_product' or 'dot_product'?\n"
    )


# -- derivations


def test_every_derivation_is_listed_with_its_check() -> None:
    shown, listed = call("derivations").stdout, data("derivations")
    assert [entry["name"] for entry in listed] == list(sa.derivations())
    for entry in listed:
        assert entry["checked"] is True
        assert entry["name"] in shown
        assert entry["title"] in shown
    assert shown.count("agrees") == len(listed)


@pytest.mark.parametrize("name", sa.derivations())
def test_a_derivation_is_shown_with_its_steps_and_its_check(name: str) -> None:
    derivation = sa.derivation(name)
    shown, found = call("derivation", name).stdout, data("derivation", name)
    assert shown.startswith(derivation.text())
    assert found["kind"].startswith("derivation, not a proof")
    assert [step["rule"] for step in found["steps"]] == [step.rule for step in derivation.steps]
    assert all(step["replays"] and step["points"] for step in found["steps"])
    assert found["checked"] is True
    assert found["experiment"]["title"] in shown
    latex = call("derivation", name, "--format", "latex").stdout
    assert derivation.latex() in latex
    assert "not a proof" in latex.splitlines()[0]


def test_a_derivation_that_fails_is_shown_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    derivation = sa.derivation("saturation")
    chains = derivation.chains
    step = replace(chains[-1].steps[-1], after=sympy.S.One)
    broken = replace(derivation, chains=(*chains[:-1], replace(chains[-1], steps=(step,))))
    monkeypatch.setattr("symattn.cli.deriving.derivation", lambda _: broken)
    assert "FAILS" in call("derivation", "saturation", status=1).stdout
    assert data("derivation", "saturation", status=1)["checked"] is False
    assert "FAILS" in call("derivations", status=1).stdout


def test_an_unknown_derivation_is_refused() -> None:
    assert refused("derivation", "jacobian").startswith("there is no derivation named 'jacobian'")
