"""Every named claim: complete, printed, and proved or refuted as it says.

Counterexamples are computed again by the generated NumPy code, which shares nothing with the
evaluator that found them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from inspect import signature
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.nodes import Node
from symattn.nodes.inputs import InputVector
from symattn.notation.names import identifier
from symattn.proof import Proof
from symattn.variants import Formula
from symattn.variants.claims import CLAIMS, Claim, Equation

THEOREMS, FALSE_CLAIMS = sa.theorems(), sa.false_claims()

each_claim = pytest.mark.parametrize("name", CLAIMS)
each_theorem = pytest.mark.parametrize("name", THEOREMS)
each_false_claim = pytest.mark.parametrize("name", FALSE_CLAIMS)


def test_the_lists_are_of_all_claims() -> None:
    assert sorted((*THEOREMS, *FALSE_CLAIMS)) == sorted(CLAIMS)
    assert THEOREMS
    assert FALSE_CLAIMS


@each_claim
def test_a_claim_says_what_it_is(name: str) -> None:
    claim = sa.theorem(name)
    assert claim.name == name
    assert re.fullmatch("[a-z0-9_]+", name)
    for said in (claim.title, claim.statement, claim.explanation):
        assert said
        assert said == said.strip()
    assert claim.statement.endswith(".")
    assert claim.explanation.endswith(".")
    labels = [equation.label for equation in claim.equations]
    assert len(labels) == len(set(labels))
    assert all(labels)


def test_titles_and_statements_differ() -> None:
    for part in ("title", "statement"):
        said = [getattr(claim, part) for claim in CLAIMS.values()]
        assert len(said) == len(set(said))


@each_claim
def test_a_claim_is_made_in_both_layouts(name: str) -> None:
    claim = sa.theorem(name)
    layouts = {label.partition(",")[0] for label in (each.label for each in claim.equations)}
    about_layouts = {f"{each}_in_both_layouts" for each in sa.formulas()}
    assert layouts == {"column", "row"} or name in {*about_layouts, "untransposed_weight_in_rows"}


@each_claim
@pytest.mark.parametrize("preset", [None, "freshrimp", "vaswani"])
def test_a_claim_is_printed(name: str, preset: str | None) -> None:
    claim = sa.theorem(name)
    latex, text = claim.latex(preset), claim.text(preset)
    signs = {"proved": ("=", "&="), "refuted": ("≠", r"&\neq")}[claim.expected]
    assert latex.count(signs[1]) == len(claim.equations)
    assert latex.count("{") == latex.count("}")
    for equation in claim.equations:
        assert equation.text(preset, signs[0]) in text
        of_layout = {"column": "freshrimp", "row": "vaswani"}.get(equation.layout)
        for side in equation.sides:
            assert sa.latex(side, preset=preset or of_layout) in latex
    assert claim.title in text


@each_theorem
def test_a_theorem_is_proved_and_replayed(name: str) -> None:
    outcome = sa.theorem(name).prove()
    assert outcome.verdict == "proved", outcome.text()
    assert outcome
    assert outcome.as_expected
    assert outcome.check()
    assert set(outcome.latex()) == set(outcome.proofs)


@each_false_claim
def test_a_false_claim_is_refuted_by_numbers(name: str) -> None:
    claim = sa.theorem(name)
    outcome = claim.prove()
    assert outcome.as_expected, outcome.text()
    assert outcome.verdict == "refuted"
    assert not outcome
    assert outcome.check()
    for proof in outcome.proofs.values():
        assert proof.entry is not None
        left, right = (generated(side, proof)[proof.entry] for side in (proof.lhs, proof.rhs))
        assert left == pytest.approx(float(proof.lhs_value), rel=1e-9, abs=1e-12)
        assert right == pytest.approx(float(proof.rhs_value), rel=1e-9, abs=1e-12)
        assert abs(left - right) > 1e-9


def generated(side: Node, proof: Proof) -> Any:
    """The value of a side at a counterexample, by the code that is generated for it."""
    arrays: dict[str, Any] = {}
    for symbol in side.inputs():
        rows = np.array(proof.inputs[symbol.label], dtype=float)
        arrays[identifier(symbol.label)] = rows[:, 0] if isinstance(symbol, InputVector) else rows
    for mask in side.booleans():
        arrays[mask.label] = np.array(proof.inputs[mask.label])
    arrays |= {each.name: float(proof.scalars[each.name]) for each in side.scalars()}
    f = sa.lambdify(side.inputs(), side)
    asked = signature(f).parameters.keys() - arrays.keys()
    result = f(**arrays, **{tag: proof.sizes[tag] for tag in asked})
    return result[tuple(proof.indices[index.name] for index in side.indices)]


def test_every_formula_of_the_catalogue_has_its_layouts_proved() -> None:
    for name in sa.formulas():
        (equation,) = sa.theorem(f"{name}_in_both_layouts").equations
        assert isinstance(equation.lhs, Formula)
        assert isinstance(equation.rhs, Formula)
        assert (equation.lhs.layout, equation.rhs.layout) == ("column", "row")
        assert equation.lhs.name == equation.rhs.name == name


def test_what_symbols_stand_for_is_said() -> None:
    layouts = sa.theorem("dot_product_in_both_layouts")
    assert "with Q, K, V for Qᵀ, Kᵀ, Vᵀ" in layouts.text()
    assert r"Q^T" in layouts.latex("vaswani")
    source = sa.theorem("self_attention_is_cross_attention_with_one_source").text()
    assert "d_x = d and d_y = d and m = n" in source


def test_an_outcome_counts_every_equation() -> None:
    S, T = sa.matrix("S", 2, 3), sa.matrix("T", 2, 3)
    X, Y = sa.matrix("X", "n", "n"), sa.matrix("Y", "n", "m")
    true = Equation("true", S + T, T + S)
    false = Equation("false", S + T, S - T)
    open_ = Equation(
        "open",
        sa.max(sa.concat(X, Y, axis=1), axis=1),
        sa.max(sa.concat(X, X @ Y @ Y.T @ Y - X @ Y @ (Y.T @ Y) + Y, axis=1), axis=1),
    )
    assert open_.prove().verdict == "undecided"
    for equations, verdict, expected in [
        ((true, true), "proved", True),
        ((true, false), "refuted", False),
        ((true, open_), "undecided", False),
        ((open_, false), "refuted", False),
    ]:
        named = [Equation(f"{k}", e.lhs, e.rhs) for k, e in enumerate(equations)]
        outcome = Claim("name", "title", "statement", "why", lambda named=named: named).prove()
        assert (outcome.verdict, outcome.as_expected) == (verdict, expected)
        assert bool(outcome) is expected


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(sa.UnknownNameError, match="softmax_ignores_a_shift"):
        sa.theorem("softmax_ignores_shift")


def test_conditions_are_those_of_the_equations() -> None:
    [condition] = sa.theorem("cosine_in_both_layouts").prove().conditions
    assert "≠ 0" in condition
    assert sa.theorem("softmax_ignores_a_shift").prove().conditions == ()


def test_nothing_is_built_before_it_is_asked_for() -> None:
    code = """
import symattn as sa
from symattn.variants.catalogue import _built
claims = [sa.theorem(name) for name in (*sa.theorems(), *sa.false_claims())]
assert not any("equations" in claim.__dict__ for claim in claims)
assert not _built.cache_info().currsize
claims[0].equations
assert _built.cache_info().currsize
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
