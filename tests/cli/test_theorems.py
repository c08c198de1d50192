"""`symattn theorems` and `symattn theorem`: what they print, and their exit status."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

import symattn as sa
from symattn.cli import main
from symattn.variants.claims import CLAIMS, Claim, Equation
from symattn.variants.claims.registry import CLAIMS as REGISTERED


def call(*arguments: str, status: int = 0) -> Result:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == status, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def data(*arguments: str, status: int = 0) -> Any:
    result = call(*arguments, "--json", status=status)
    assert result.stderr == ""
    return json.loads(result.stdout)


def test_every_claim_is_listed_with_its_verdict() -> None:
    shown, found = call("theorems").stdout, data("theorems")
    true, false = shown.split("False claims")
    assert [each["name"] for each in found["theorems"]] == list(sa.theorems())
    assert [each["name"] for each in found["false_claims"]] == list(sa.false_claims())
    for part, verdict, listed in (
        (true, "proved", found["theorems"]),
        (false, "refuted", found["false_claims"]),
    ):
        for each in listed:
            (line,) = (line for line in part.splitlines() if line.split()[:1] == [each["name"]])
            assert line.split()[1] == each["verdict"] == each["expected"] == verdict
            assert line.endswith(each["title"])
            assert set(each["equations"].values()) == {verdict}


@pytest.mark.parametrize("expected", ["proved", "refuted"])
def test_a_claim_that_comes_out_otherwise_is_a_problem(
    expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A theorem that is false, and a false claim that is true."""
    S, T = sa.matrix("S", "n", "m"), sa.matrix("T", "n", "m")
    other = T + S if expected == "refuted" else S - T
    claim = Claim("broken", "t", "s", "e", lambda: [Equation("one", S + T, other)], "", expected)
    for name in tuple(CLAIMS):
        monkeypatch.delitem(REGISTERED, name)
    monkeypatch.setitem(REGISTERED, "broken", claim)
    assert "(!)" in call("theorems", status=1).stdout


def test_a_theorem_is_shown_with_its_proofs() -> None:
    name = "the_order_of_keys_is_free"
    claim, shown, found = sa.theorem(name), call("theorem", name).stdout, data("theorem", name)
    assert claim.title in shown
    assert found["source"] == claim.source
    assert found["latex"] == claim.latex()
    assert [proof["label"] for proof in found["proofs"]] == [
        f"{layout}, {around}"
        for layout in ("column", "row")
        for around in ("nothing around", "others before", "others after", "others around")
    ]
    for proof, equation in zip(found["proofs"], claim.equations, strict=True):
        assert proof["text"] == equation.text()
        assert proof["verdict"] == "proved"
        assert proof["steps"]
        assert sa.text(equation.lhs) in shown


def test_a_false_claim_is_shown_with_numbers_and_fails() -> None:
    shown = call("theorem", "anti_causal_mask", status=1).stdout
    assert "refuted" in shown
    assert "entry (" in shown
    found = data("theorem", "anti_causal_mask", status=1)
    assert found["as_expected"] is True
    assert all(p["left_value"] != p["right_value"] for p in found["proofs"])


@pytest.mark.parametrize("preset", ["freshrimp", "vaswani"])
def test_a_theorem_in_latex(preset: str) -> None:
    name = "two_fourth_roots_are_the_scale"
    shown = call("theorem", name, "--format", "latex", "--preset", preset).stdout
    assert sa.theorem(name).latex(preset) in shown
    assert shown.count(r"\[") == shown.count(r"\]") == 3


def test_a_false_claim_in_latex_is_one_inequality_each_and_numbers() -> None:
    name = "softmax_over_the_queries"
    shown = call("theorem", name, "--format", "latex", status=1).stdout
    assert shown.count(r"\neq") == 2
    assert shown.count(r"\[") == shown.count(r"\]") == 1
    assert all(line.startswith("%") for line in shown.partition(r"\]")[2].splitlines() if line)
    assert shown.count("% refuted") == shown.count("%   entry (") == 2
    assert "% column\n" in shown
    assert "% row\n" in shown


def test_a_wrong_axis_is_printed_in_the_glyphs_of_its_layout() -> None:
    name = "softmax_over_the_queries"
    shown, found = call("theorem", name, status=1).stdout, data("theorem", name, status=1)
    assert "left   V Softmax_rows(KᵀQ / √d_k)\n    right  V Softmax(KᵀQ / √d_k)" in shown
    assert "left   softmax_columns(Q Kᵀ / √d_k) V\n    right  softmax(Q Kᵀ / √d_k) V" in shown
    assert [proof["claim"] for proof in found["proofs"]] == [
        "V Softmax_rows(KᵀQ / √d_k) = V Softmax(KᵀQ / √d_k)",
        "softmax_columns(Q Kᵀ / √d_k) V = softmax(Q Kᵀ / √d_k) V",
    ]
    columns = call("theorem", name, "--preset", "freshrimp", status=1).stdout
    assert "right  Softmax_rows(Q Kᵀ / √d_k) V" in columns


def test_wrong_calls() -> None:
    near = call("theorem", "softmax_ignores_shift", status=2).stderr
    assert "softmax_ignores_a_shift" in near
    name = "softmax_ignores_a_shift"
    assert "preset" in call("theorem", name, "--preset", "nope", status=2).stderr
