"""Every named claim: complete, printed, and proved or refuted as it says.

Counterexamples are computed again by the generated NumPy code, which shares nothing with the
evaluator that found them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from inspect import signature
from itertools import product
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


AS_TEXTS_PRINT_THEM = {
    ("softmax_weights_sum_to_one", "column"): "1_{1×m} Softmax(S) = 1_{1×n}",
    ("softmax_weights_sum_to_one", "row"): "softmax(S) · 1_{m×1} = 1_{n×1}",
    ("two_fourth_roots_are_the_scale", "column"): (
        "V Softmax((K / d_k^(1/4))ᵀ (Q / d_k^(1/4))) = V Softmax(KᵀQ / √d_k)"
    ),
    ("two_fourth_roots_are_the_scale", "row"): (
        "softmax((Q / d_k^(1/4)) (K / d_k^(1/4))ᵀ) V = softmax(Q Kᵀ / √d_k) V"
    ),
    ("keys_twice_are_keys_once", "column"): (
        "[V, V] Softmax([K, K]ᵀ Q / √d_k) = V Softmax(KᵀQ / √d_k)"
    ),
    ("keys_twice_are_keys_once", "row"): (
        "softmax(Q [K; K]ᵀ / √d_k) [V; V] = softmax(Q Kᵀ / √d_k) V"
    ),
    ("masked_keys_may_be_left_out", "column"): (
        "[V_1, V_2] Softmax_{j < m_1}([K_1, K_2]ᵀ Q / √d_k) = V_1 Softmax(K_1ᵀ Q / √d_k)"
    ),
    ("masked_keys_may_be_left_out", "row"): (
        "softmax_{j < m_1}(Q [K_1; K_2]ᵀ / √d_k) [V_1; V_2] = softmax(Q K_1ᵀ / √d_k) V_1"
    ),
    ("one_allowed_key_returns_its_value", "column, the first of many"): (
        "[v, V] Softmax_{j < 1}([k, K]ᵀ Q / √d_k) = v · 1_{1×n}"
    ),
    ("one_allowed_key_returns_its_value", "row, the first of many"): (
        "softmax_{j < 1}(Q [k; K]ᵀ / √d_k) [v; V] = 1_{n×1} v"
    ),
    ("the_order_of_keys_is_free", "column, others around"): (
        "[V_1, V_3, V_2, V_4] Softmax([K_1, K_3, K_2, K_4]ᵀ Q / √d_k) = "
        "[V_1, V_2, V_3, V_4] Softmax([K_1, K_2, K_3, K_4]ᵀ Q / √d_k)"
    ),
    ("the_order_of_keys_is_free", "row, others before"): (
        "softmax(Q [K_1; K_3; K_2]ᵀ / √d_k) [V_1; V_3; V_2] = "
        "softmax(Q [K_1; K_2; K_3]ᵀ / √d_k) [V_1; V_2; V_3]"
    ),
    ("the_order_of_queries_is_that_of_outputs", "column, others after"): (
        "V Softmax(Kᵀ [Q_2, Q_1, Q_3] / √d_k) = [V Softmax(Kᵀ Q_2 / √d_k), "
        "V Softmax(Kᵀ Q_1 / √d_k), V Softmax(Kᵀ Q_3 / √d_k)]"
    ),
    ("the_order_of_queries_is_that_of_outputs", "row, nothing around"): (
        "softmax([Q_2; Q_1] Kᵀ / √d_k) V = [softmax(Q_2 Kᵀ / √d_k) V; softmax(Q_1 Kᵀ / √d_k) V]"
    ),
    ("each_query_takes_three_steps", "column, keys and values"): (
        "(V Softmax(KᵀQ / √d_k))^{(i)} = V softmax(Kᵀ Q^{(i)} / √d_k)"
    ),
    ("each_query_takes_three_steps", "row, keys and values"): (
        "(softmax(Q Kᵀ / √d_k) V)^{(i)} = softmax(Q^{(i)} Kᵀ / √d_k) V"
    ),
    ("each_query_takes_three_steps", "column, candidates"): (
        "(X Softmax(XᵀQ))^{(i)} = X softmax(Xᵀ Q^{(i)})"
    ),
    ("each_query_takes_three_steps", "row, candidates"): (
        "(softmax(Q Xᵀ) X)^{(i)} = softmax(Q^{(i)} Xᵀ) X"
    ),
    ("alignments_agree_for_equal_counts", "row"): (
        "softmax_{j ≤ i}(S) = softmax_{j ≤ i + m - n}(S), with m = n"
    ),
    ("softmax_over_the_queries", "column"): "V Softmax_rows(KᵀQ / √d_k) ≠ V Softmax(KᵀQ / √d_k)",
    ("softmax_over_the_queries", "row"): (
        "softmax_columns(Q Kᵀ / √d_k) V ≠ softmax(Q Kᵀ / √d_k) V"
    ),
    ("groups_in_tile_order", "column"): (
        "Concat_{a=1..g}(Concat_{b=1..r}(V_a Softmax(K_aᵀ (((W^Q)^{(a)})^{(b)} X) / √d_k))) ≠ "
        "Concat_{b=1..r}(Concat_{a=1..g}(V_a Softmax(K_aᵀ (((W^Q)^{(b)})^{(a)} X) / √d_k)))"
    ),
}


@pytest.mark.parametrize(("name", "label"), AS_TEXTS_PRINT_THEM)
def test_a_claim_is_printed_as_texts_do(name: str, label: str) -> None:
    claim = sa.theorem(name)
    (equation,) = (each for each in claim.equations if each.label == label)
    sign = {"proved": "=", "refuted": "≠"}[claim.expected]
    assert equation.text(sign=sign) == AS_TEXTS_PRINT_THEM[name, label]


def test_proofs_are_printed_in_the_glyphs_of_their_layout() -> None:
    outcome = sa.theorem("softmax_over_the_queries").prove()
    texts, latex = outcome.texts(), outcome.latex()
    assert "left   V Softmax_rows(KᵀQ / √d_k)\n  right  V Softmax(KᵀQ / √d_k)" in texts["column"]
    assert "left   softmax_columns(Q Kᵀ / √d_k) V\n" in texts["row"]
    assert all(part in outcome.text() for part in texts.values())
    assert latex["column"].count(r"\operatorname{Softmax}") == 2
    assert latex["row"].count(r"\mathrm{softmax}") == 2
    assert r"\mathbf" in latex["column"]
    assert r"\mathbf" not in latex["row"]
    # A preset that is asked for holds for every layout.
    assert r"\mathbf" not in "".join(outcome.latex("vaswani").values())


@pytest.mark.parametrize(
    "name", ["the_order_of_keys_is_free", "the_order_of_queries_is_that_of_outputs"]
)
def test_swaps_make_up_every_permutation(name: str) -> None:
    """Of four tokens, by the orders of blocks that are printed, at all sizes with that sum."""
    swaps: set[tuple[int, ...]] = set()
    letter = "K" if "keys" in name else "Q"
    for equation in sa.theorem(name).equations:
        (shown,) = re.findall(rf"\[({letter}_[^\]]*)\]", equation.text())[:1]
        blocks = [int(number) - 1 for number in re.findall(r"\d", shown)]
        for counts in product(range(1, 4), repeat=len(blocks)):
            if sum(counts) == 4:
                starts = [sum(counts[:k]) for k in range(len(counts))]
                swaps.add(tuple(starts[k] + t for k in blocks for t in range(counts[k])))
    assert {(1, 0, 2, 3), (0, 2, 1, 3), (0, 1, 3, 2)} <= swaps


@pytest.mark.parametrize("layout", ["column", "row"])
@pytest.mark.parametrize("shared", [False, True])
def test_tiled_groups_are_heads_with_the_keys_of_others(layout: str, shared: bool) -> None:
    """Head by head in loops: the groups ⌊k/r⌋ and k mod g differ, but not with shared keys."""
    g, r, d_k, d_v, d_model, n, m = 2, 3, 4, 5, 6, 7, 8
    (equation,) = (e for e in sa.theorem("groups_in_tile_order").equations if e.label == layout)
    rng = np.random.default_rng(0)
    W, X = rng.normal(size=(g * r * d_k, d_model)), rng.normal(size=(d_model, n))
    K, V = rng.normal(size=(g, d_k, m)), rng.normal(size=(g, d_v, m))
    if shared:
        K[:], V[:] = K[0], V[0]

    def expected(groups: list[int]) -> Any:
        heads = []
        for k, group in enumerate(groups):
            scores = np.exp(K[group].T @ (W[k * d_k : (k + 1) * d_k] @ X) / np.sqrt(d_k))
            heads.append(V[group] @ (scores / scores.sum(axis=0)))
        return np.vstack(heads)

    def computed(side: Any) -> Any:
        given = {"W_Q": W, "X": X, "K": K, "V": V}
        if layout == "row":
            given = {name: np.swapaxes(array, -1, -2) for name, array in given.items()}
        f = sa.lambdify(side.inputs(), side)
        result = f(**given, **({"g": g, "r": r} if "r" in signature(f).parameters else {}))
        return result if layout == "column" else result.T

    neighbours, tiled = expected([0, 0, 0, 1, 1, 1]), expected([0, 1, 0, 1, 0, 1])
    np.testing.assert_allclose(computed(equation.lhs), neighbours)
    np.testing.assert_allclose(computed(equation.rhs), tiled)
    assert np.allclose(neighbours, tiled) is shared


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
    needed = {name for name, p in signature(f).parameters.items() if p.default is p.empty}
    asked = needed - arrays.keys()
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
