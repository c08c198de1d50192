"""Proofs about masks: what holds under a mask, what does not, and what a witness shows."""

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import symattn as sa
from symattn.evaluate import evaluate, random_inputs, random_sizes, sizes_in
from symattn.meaning.form import place
from symattn.nodes import Mask
from symattn.nodes.core import Node
from symattn.proof.counterexample import Difference, find_difference
from symattn.proof.normal.axes import Axes
from symattn.proof.normal.binders import Algebra
from symattn.proof.normal.lowering import Lowering
from symattn.proof.results import compared
from symattn.tags import Relations
from tests.strategies import POSITIONAL, RUN_TIME, masks

m, n, w, d_k, d_v = sa.dims("m n w d_k d_v")
S, A = sa.matrix("S", m, n), sa.matrix("A", n, n)
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
y, I = sa.vector("y", n), sa.identity(n)
LEFT, RIGHT = sa.causal("top_left"), sa.causal("bottom_right")

MASKS = (
    *(LEFT, RIGHT, ~LEFT, sa.window(w, "top_left"), sa.window(w, "top_left") & LEFT),
    *(sa.window(2, "bottom_right") | sa.prefix(3), sa.prefix(3), ~sa.prefix(3)),
    *(sa.padding(), sa.keep(), ~sa.keep(), sa.keep() & sa.padding(), sa.keep() | LEFT),
    *(~(sa.keep() & LEFT) | sa.padding(),),
)

each_mask = pytest.mark.parametrize("mask", MASKS, ids=str)


def verdict(left: Node, right: Node) -> str:
    return sa.prove(left, right).verdict


@each_mask
def test_the_layouts_are_transposes(mask: Mask) -> None:
    column = V @ sa.softmax(K.T @ Q / sa.sqrt(d_k), axis=0, mask=mask)
    proof = sa.prove(column.T, sa.softmax(Q.T @ K / sa.sqrt(d_k), axis=1, mask=mask) @ V.T)
    assert proof.verdict == "proved"
    assert "transpose of softmax" in [step.law for step in proof.steps]
    assert proof.check()
    assert sa.translate(column, to="row").proof


@each_mask
def test_columns_sum_to_one_where_a_key_is_allowed(mask: Mask) -> None:
    weights = sa.softmax(S, axis=0, mask=mask)
    some = sa.max(sa.indicator(mask, m, n, axis=0), axis=0)
    assert sa.prove(sa.ones(1, m) @ weights, some)
    assert sa.prove(sa.softmax(S, axis=1, mask=mask) @ sa.ones(n, 1), some_along_rows(mask))


def some_along_rows(mask: Mask) -> Node:
    return sa.max(sa.indicator(mask, m, n, axis=1), axis=1)


@each_mask
def test_a_shift_along_the_keys_changes_nothing(mask: Mask) -> None:
    weights = sa.softmax(S, axis=0, mask=mask)
    proof = sa.prove(sa.softmax(S + sa.ones(m, 1) @ y.T, axis=0, mask=mask), weights)
    assert [step.law for step in proof.steps] == ["shift invariance of softmax"]
    other = sa.softmax(S + sa.vector("x", m) @ sa.ones(1, n), axis=0, mask=mask)
    assert verdict(other, weights) == "refuted"


@each_mask
def test_a_mask_twice_is_the_mask(mask: Mask) -> None:
    weights = sa.softmax(S, axis=0, mask=mask)
    for same in (mask & mask, mask | mask, ~~mask, mask & (mask | sa.prefix(2))):
        assert sa.prove(sa.softmax(S, axis=0, mask=same), weights)
    assert sa.prove(sa.hadamard(weights, sa.indicator(mask, m, n, axis=0)), weights)
    none = sa.softmax(S, axis=0, mask=mask & ~mask)
    assert sa.prove(none, 0 * S)


@each_mask
def test_a_mask_after_the_softmax_is_another_formula(mask: Mask) -> None:
    after = sa.hadamard(sa.softmax(S, axis=0), sa.indicator(mask, m, n, axis=0))
    assert verdict(after, sa.softmax(S, axis=0, mask=mask)) == "refuted"


def test_masks_are_sets() -> None:
    keep, padding = sa.keep(), sa.padding()
    for left, right in [
        (keep & padding, padding & keep),
        (keep & (padding & LEFT), (keep & padding) & LEFT),
        (~(keep | padding), ~keep & ~padding),
        (~(keep & padding), ~keep | ~padding),
        (keep & (padding | LEFT), keep & padding | keep & LEFT),
        (LEFT & sa.window(w, "top_left"), sa.window(w, "top_left") & LEFT),
        (LEFT & (LEFT | keep), LEFT),
        (sa.prefix(2) & sa.prefix(5), sa.prefix(2)),
        (sa.window(2, "top_left") | sa.window(4, "top_left"), sa.window(4, "top_left")),
    ]:
        assert sa.prove(sa.softmax(S, axis=0, mask=left), sa.softmax(S, axis=0, mask=right))


@each_mask
def test_masks_over_keys_in_two_blocks(mask: Mask) -> None:
    keys = m + d_k
    scores = sa.concat(S, sa.matrix("T", d_k, n), axis=0)
    weights = sa.softmax(scores, axis=0, mask=mask)
    matrix = sa.indicator(mask, keys, n, axis=0)
    assert sa.prove(weights.T, sa.softmax(scores.T, axis=1, mask=mask))
    assert sa.prove(sa.hadamard(weights, matrix), weights)
    assert sa.prove(sa.ones(1, keys) @ weights, sa.max(matrix, axis=0))


def test_one_allowed_key_returns_its_value() -> None:
    values = sa.matrix("V", d_v, n)
    assert sa.prove(sa.indicator(sa.window(1), n, n, axis=0), sa.identity(n))
    assert sa.prove(values @ sa.softmax(A, axis=0, mask=sa.window(1)), values)
    assert sa.prove(sa.softmax(A, axis=0, mask=sa.causal() & (~sa.causal() | sa.window(1))), I)
    near = sa.softmax(A, axis=0, mask=sa.window(2))
    assert verdict(values @ near, values) == "refuted"


def test_alignments_agree_only_where_the_sizes_do() -> None:
    left, right = (sa.softmax(S, axis=0, mask=mask) for mask in (LEFT, RIGHT))
    proof = sa.prove(left, right)
    assert proof.verdict == "refuted"
    assert proof.sizes["n"] != proof.sizes["m"]
    assert sa.prove(*(sa.softmax(A, axis=0, mask=mask) for mask in (LEFT, RIGHT)))
    with sa.assuming("m = n"):
        assert sa.prove(left, right)
        assert sa.prove(left, sa.softmax(S, axis=0, mask=sa.causal()))


def test_the_anti_causal_mask_is_another() -> None:
    causal = sa.softmax(A, axis=0, mask=sa.causal())
    assert verdict(sa.softmax(A, axis=1, mask=sa.causal()), causal) == "refuted"
    anti = ~sa.causal() | sa.window(1)  # j ≥ i
    assert verdict(sa.softmax(A, axis=0, mask=anti), causal) == "refuted"


def test_a_mask_before_or_after_the_values_is_not_the_same() -> None:
    masked = V @ sa.softmax(K.T @ Q, axis=0, mask=LEFT)
    assert verdict(masked, V @ sa.softmax(K.T @ Q, axis=0)) == "refuted"


def test_scales_move_under_a_mask() -> None:
    scores = K.T @ Q
    before = sa.softmax(scores / sa.sqrt(d_k), axis=0, mask=sa.keep())
    assert sa.prove(sa.softmax((K / sa.sqrt(d_k)).T @ Q, axis=0, mask=sa.keep()), before)
    assert verdict(sa.softmax(scores, axis=0, mask=sa.keep()), before) == "refuted"


def test_a_counterexample_shows_the_booleans() -> None:
    keep = sa.softmax(S, axis=0, mask=sa.keep() & sa.padding())
    proof = sa.prove(keep, sa.softmax(S, axis=0, mask=sa.keep()))
    assert proof.verdict == "refuted"
    rows = proof.inputs["keep"]
    assert (len(rows), len(rows[0])) == (proof.sizes["n"], proof.sizes["m"])
    assert all(isinstance(value, bool) for row in rows for value in row)
    assert len(proof.inputs["padding"]) == proof.sizes["m"]
    assert "padding = [" in proof.text()
    assert proof.check()


# Witnesses: a place that is allowed for certain.

WITNESSED = {
    "the diagonal": sa.softmax(A, axis=0, mask=sa.causal()),
    "the diagonal of a window": sa.softmax(A, axis=0, mask=sa.window(w) & sa.causal()),
    "the first key": sa.softmax(S, axis=0, mask=LEFT),
    "the first key of a prefix": sa.softmax(S, axis=0, mask=sa.prefix(w) | sa.keep()),
    "the last key": sa.softmax(A, axis=0, mask=~sa.causal() | sa.window(1)),
}
NOT_WITNESSED = {
    "queries before the first key": sa.softmax(S, axis=0, mask=RIGHT),
    "queries beyond the window": sa.softmax(S, axis=0, mask=sa.window(w, "top_left")),
    "the last query": sa.softmax(A, axis=0, mask=~sa.causal()),
    "padding": sa.softmax(A, axis=0, mask=sa.causal() & sa.padding()),
    "a short axis": sa.softmax(S, axis=0, mask=~sa.prefix(2)),
}


@pytest.mark.parametrize("where", WITNESSED)
def test_a_witness_makes_the_weights_sum_to_one(where: str) -> None:
    weights = WITNESSED[where]
    total = sa.ones(1, weights.sizes[0]) @ weights
    assert sa.prove(total, sa.ones(1, n))
    for seed in range(12):
        assert all(abs(value - 1) < 1e-40 for value in numbers(total, seed))


@pytest.mark.parametrize("where", NOT_WITNESSED)
def test_without_a_witness_a_query_may_have_no_key(where: str) -> None:
    weights = NOT_WITNESSED[where]
    total = sa.ones(1, weights.sizes[0]) @ weights
    assert verdict(total, sa.ones(1, n)) == "refuted"


def numbers(node: Node, seed: int) -> list:
    rng = Random(seed)
    sizes = random_sizes(sizes_in([node]), node.given, rng, least=1)
    inputs = random_inputs([*node.inputs(), *node.booleans()], sizes, rng)
    return evaluate(node, sizes, inputs).ravel().tolist()


def test_a_sum_that_a_witness_shows_positive_divides_without_a_condition() -> None:
    weight = sa.hadamard(sa.exp(A), sa.indicator(sa.causal(), n, n, axis=0))
    sums = sa.ones(n, n) @ weight
    proof = sa.prove(sa.hadamard(weight, sa.reciprocal(sums)), WITNESSED["the diagonal"])
    assert proof.verdict == "proved"
    assert proof.conditions == ()


def test_a_reciprocal_is_not_zero_at_zero() -> None:
    """1/x is undefined where nothing is allowed, so it is no softmax there."""
    weight = sa.hadamard(sa.exp(S), sa.indicator(RIGHT, m, n, axis=0))
    sums = sa.ones(m, m) @ weight
    written = sa.hadamard(weight, sa.reciprocal(sums))
    assert verdict(written, sa.softmax(S, axis=0, mask=RIGHT)) != "proved"


# Any masks.


@given(masks((*POSITIONAL, *RUN_TIME)), masks((*POSITIONAL, *RUN_TIME)), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_proved_of_masks_is_so_in_numbers(one: Mask, other: Mask, seed: int) -> None:
    left, right = (sa.softmax(S, axis=0, mask=mask) for mask in (one, other))
    proved = bool(compared((left, right), Relations()).equal)
    found = find_difference(left, right, attempts=16, seed=seed)
    assert not (proved and isinstance(found, Difference)), found
    some = sa.max(sa.indicator(one, m, n, axis=0), axis=0)
    assert sa.prove(sa.ones(1, m) @ left, some).verdict != "refuted"
    always = bool(compared((some, sa.ones(1, n)), Relations()).equal)
    found = find_difference(some, sa.ones(1, n), attempts=16, seed=seed)
    assert not (always and isinstance(found, Difference)), found


@given(masks((*POSITIONAL, *RUN_TIME)), masks((*POSITIONAL, *RUN_TIME)), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_an_allowed_key_is_some_allowed_key(one: Mask, other: Mask, seed: int) -> None:
    here, there = (sa.indicator(mask, m, n, axis=0) for mask in (one, other))
    for some in (sa.ones(m, 1) @ sa.max(there, axis=0), sa.ones(m, m) @ (there * 1)):
        for left, right in [
            (sa.hadamard(here, some), here),
            (sa.hadamard(some, sa.ones(m, 1) @ sa.max(here, axis=0)), some),
        ]:
            if compared((left, right), Relations()).equal:
                found = find_difference(left, right, attempts=16, seed=seed)
                assert not isinstance(found, Difference), found
    weights = sa.hadamard(sa.exp(S), here)
    shared = sa.hadamard(sa.softmax(S, axis=0, mask=one), sa.ones(m, m) @ weights)
    assert sa.prove(shared, weights).verdict != "refuted"


# Conditions that are one product of comparisons and booleans, as all but ~ and | are.
PRODUCTS = (LEFT, RIGHT, ~LEFT, sa.window(w, "top_left"), sa.prefix(3), sa.padding(), sa.keep())


@pytest.mark.parametrize("mask", [*PRODUCTS, sa.keep() & sa.padding()], ids=str)
def test_masked_weights_times_their_sum(mask: Mask) -> None:
    allowed = sa.indicator(mask, m, n, axis=0)
    weights = sa.hadamard(sa.exp(S), allowed)
    sums, some = sa.ones(m, m) @ weights, sa.ones(m, 1) @ sa.max(allowed, axis=0)
    assert sa.prove(sa.hadamard(sa.softmax(S, axis=0, mask=mask), sums), weights)
    assert sa.prove(sa.hadamard(some, weights), weights)
    assert sa.prove(sa.hadamard(some, sums), sums)
    always = verdict(some, sa.ones(m, n))
    assert verdict(sa.hadamard(some, sa.exp(S)), sa.exp(S)) == always


@given(masks((*POSITIONAL, *RUN_TIME)), masks((*POSITIONAL, *RUN_TIME)))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_laws_of_sets_are_proved(one: Mask, other: Mask) -> None:
    for left, right in [
        (one & other, other & one),
        (one | other, other | one),
        (~(one & other), ~one | ~other),
        (one & (one | other), one),
        (one | ~one & other, one | other),
    ]:
        assert sa.prove(sa.softmax(S, axis=0, mask=left), sa.softmax(S, axis=0, mask=right))


# Comparisons of whole numbers.


def lowered(mask: Mask, queries: str, keys: str) -> tuple[Algebra, dict]:
    node = sa.indicator(mask, *sa.dims(f"{keys} {queries}"), axis=0)
    row, column = place(node.sizes[0]), place(node.sizes[1])
    algebra = Algebra()
    lowering = Lowering(algebra, Relations(), Axes(), {})
    at = {index: lowering.ways(index)[0] for index in (*row, *column)}
    return algebra, lowering.form(node.meaning(row, column), at)


@pytest.mark.parametrize(
    ("mask", "value"),
    [
        (sa.prefix(m), {}),
        (sa.prefix(m + 2), {}),
        (~sa.prefix(m), None),
        (sa.window(m + n, "top_left"), {}),
        (sa.prefix(2) & ~sa.prefix(3), None),
        (LEFT & ~LEFT, None),
        (LEFT | ~LEFT, {}),
    ],
    ids=str,
)
def test_comparisons_that_sizes_decide(mask: Mask, value: dict | None) -> None:
    algebra, found = lowered(mask, "n", "m")
    assert found == (algebra.number(1) if value is not None else {})
    matrix = sa.indicator(mask, m, n, axis=0)
    expected = sa.ones(m, n) if value is not None else 0 * S
    assert sa.prove(matrix, expected)


def test_a_maximum_of_truths_is_a_truth() -> None:
    some = sa.max(sa.indicator(RIGHT, m, n, axis=0), axis=0)
    assert sa.prove(sa.hadamard(some, some), some)
    assert verdict(some, sa.ones(1, n)) == "refuted"
    assert sa.prove(sa.max(sa.identity(n), axis=0), sa.ones(1, n))


def test_sizes_that_only_a_mask_holds_count() -> None:
    p = sa.dim("p")
    short = sa.indicator(sa.prefix(m / p), m, n, axis=0)
    result = sa.prove(short, short.T.T)
    assert result.verdict == "proved"
    assert result.conditions == ("p divides m",)
    assert sa.prove(short, sa.indicator(sa.prefix(m), m, n, axis=0)).verdict == "refuted"
    near = sa.softmax(S, axis=0, mask=~sa.window(m / p, align="top_left") | sa.prefix(m - 1))
    assert sa.prove(near, near.T.T).conditions == ("p divides m", "m-1 ≥ 1")
