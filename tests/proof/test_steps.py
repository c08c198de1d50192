"""Derivations: which laws, in which order, equal on numbers line by line; none where unequal."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
import sympy

import symattn as sa
from symattn.nodes.algebra import MatrixProduct
from symattn.nodes.core import Node
from symattn.nodes.sizes import Dim
from symattn.proof.laws import LAWS
from symattn.proof.results import SAME_INDEX_FORM
from symattn.proof.steps import Step, derive, places_of, rewritten

SIZES = {"d_k": 3, "d_v": 2, "n": 4, "m": 5, "d": 6}
d_k, d_v, n, m, d = sa.dims("d_k d_v n m d")
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
P, R, r = sa.matrix("P", m, n), sa.matrix("R", m, n), sa.matrix("r", 1, n)
W_K, W_Q, W = sa.matrix("W_K", d, d_k), sa.matrix("W_Q", d, d_k), sa.matrix("W", d_k, d_k)
S = K.T @ Q
SHIFTED = S - sa.ones(m, 1) @ r
A = V @ sa.softmax(S / sa.sqrt(d_k), axis=0)


def values(*exprs: Node) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    inputs = list(dict.fromkeys(node for expr in exprs for node in expr.inputs()))
    arrays = [rng.normal(size=[size.value(SIZES) for size in node.sizes]) for node in inputs]
    names = [*inputs, *map(Dim, SIZES)]
    return [
        np.asarray(sympy.lambdify(names, expr, "numpy")(*arrays, *SIZES.values())) for expr in exprs
    ]


def written_out(scores: Node) -> Node:
    total = sa.ones(m, 1) @ (sa.ones(1, m) @ sa.exp(scores))
    return sa.hadamard(sa.exp(scores), sa.reciprocal(total))


EQUAL = {
    "both layouts": (A.T, sa.softmax(Q.T @ K / sa.sqrt(d_k), axis=1) @ V.T),
    "a difference of weights": (V @ (P - R), V @ P - V @ R),
    "a shift by a row": (V @ sa.softmax(S + sa.ones(m, 1) @ r, axis=0), V @ sa.softmax(S, axis=0)),
    "merged weights": ((W_K @ K).T @ (W_Q @ Q), K.T @ (W_K.T @ W_Q) @ Q),
    "odd tanh": (sa.tanh(-P), -sa.tanh(P)),
    "two places of the scale": (
        sa.softmax((K / sa.sqrt(d_k)).T @ Q, axis=0),
        sa.softmax(S / sa.sqrt(d_k), axis=0),
    ),
    "softmax written out": (sa.softmax(S, axis=0), written_out(S)),
    "softmax written out with a shift": (sa.softmax(S, axis=0), written_out(SHIFTED)),
    "columns of softmax sum to one": (sa.ones(1, m) @ sa.softmax(S, axis=0), sa.ones(1, n)),
    "terms in another order": (V @ (P + R), V @ R + V @ P),
}

UNEQUAL = {
    "no scale": (A, V @ sa.softmax(S, axis=0)),
    "the other axis": (A, V @ sa.softmax(S / sa.sqrt(d_k), axis=1)),
    "softmax of a sum": (
        sa.softmax(S + P, axis=0),
        sa.softmax(S, axis=0) + sa.softmax(P, axis=0),
    ),
    "a transposed weight": (K.T @ W @ Q, K.T @ W.T @ Q),
    "twice as much": (S, S + S),
    "a shift that differs along the axis": (
        sa.softmax(S + P @ sa.ones(n, n), axis=0),
        sa.softmax(S, axis=0),
    ),
    "another sign": (V @ (P - R), V @ P + V @ R),
    "an even function": (sa.cos(-P), -sa.cos(P)),
}


def derived(left: Node, right: Node) -> list[Step]:
    steps = derive(left, right)
    assert steps is not None
    return [*steps]


@pytest.mark.parametrize("pair", EQUAL.values(), ids=list(EQUAL))
def test_a_derivation_leads_from_left_to_right(pair: tuple[Node, Node]) -> None:
    left, right = pair
    steps = derived(left, right)
    assert (steps[0].before, steps[-1].after) == (left, right)
    for step, following in itertools.pairwise(steps):
        assert step.after == following.before
    for step in steps:
        assert step.law in LAWS
        assert step.reason == LAWS[step.law].reason
        assert step.replays()
    lines = values(left, *(step.after for step in steps))
    for line in lines[1:]:
        np.testing.assert_allclose(line, lines[0], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("pair", EQUAL.values(), ids=list(EQUAL))
def test_a_derivation_backwards_uses_the_same_laws(pair: tuple[Node, Node]) -> None:
    left, right = pair
    there, back = derived(left, right), derived(right, left)
    assert [step.law for step in back] == [step.law for step in reversed(there)]


@pytest.mark.parametrize("pair", UNEQUAL.values(), ids=list(UNEQUAL))
def test_unequal_sides_are_not_derived(pair: tuple[Node, Node]) -> None:
    one, other = values(*pair)
    assert not np.allclose(one, other)
    assert derive(*pair) is None


def test_equal_sides_need_no_step() -> None:
    assert derive(A, V @ sa.softmax(S / sa.sqrt(d_k), axis=0)) == ()


def test_scaled_dot_product_from_columns_to_rows_takes_five_steps() -> None:
    steps = derived(*EQUAL["both layouts"])
    assert [step.law for step in steps] == [
        "transpose of a product",
        "transpose of softmax",
        "transpose of a quotient",
        "transpose of a product",
        "transpose of a transpose",
    ]
    scaled = S / sa.sqrt(d_k)
    assert [step.part_before for step in steps] == [
        A.T,
        sa.softmax(scaled, axis=0).T,
        scaled.T,
        S.T,
        K.T.T,
    ]
    assert not any(step.backwards for step in steps)


def test_what_agrees_on_both_sides_is_left_alone() -> None:
    """The product inside would be multiplied out if the whole were rewritten."""
    inside = V @ (P + R)
    steps = derived(inside @ (P - P).T.T.T, inside @ (P - P).T)
    assert [step.law for step in steps] == ["transpose of a transpose"]


def test_short_derivations_do_not_distribute() -> None:
    steps = derived((V @ (P + R)).T, (P + R).T @ V.T)
    assert [step.law for step in steps] == ["transpose of a product"]


def test_a_step_of_a_part_is_a_step_of_the_whole() -> None:
    [step] = derived(V @ sa.tanh(-P), V @ (-sa.tanh(P)))
    assert (step.before, step.after) == (V @ sa.tanh(-P), V @ (-sa.tanh(P)))
    assert (step.part_before, step.part_after) == (sa.tanh(-P), -sa.tanh(P))
    assert step.place == (1,)


def test_a_part_that_dissolves_into_its_product_is_rewritten_in_the_whole() -> None:
    steps = derived((P @ R.T).T @ V.T, R @ (V @ P).T)
    assert all(step.replays() for step in steps)


@pytest.mark.parametrize(
    "change",
    [
        {"law": "transpose of softmax"},
        {"place": (1,)},
        {"after": A},
        {"before": A},
        {"backwards": True},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_step_that_was_tampered_with_does_not_replay(change: dict[str, object]) -> None:
    step = derived(*EQUAL["both layouts"])[0]
    assert step.replays()
    assert not replace(step, **change).replays()  # type: ignore[arg-type]


def test_a_law_read_backwards_replays() -> None:
    steps = derived(sa.softmax(S, axis=0), written_out(SHIFTED))
    assert [(step.law, step.backwards) for step in steps] == [
        ("shift invariance of softmax", True),
        ("softmax written out", True),
    ]
    assert steps[0].reversed().reversed() == steps[0]


def test_relations_are_carried_through_a_derivation() -> None:
    B, C = sa.matrix("B", m, d), sa.matrix("C", n, d_k)
    with sa.assuming("m = n"):
        left, right = (B.T @ C).T, C.T @ B
    steps = derived(left, right)
    assert [step.law for step in steps] == ["transpose of a product", "transpose of a transpose"]
    assert all(step.after.given == left.given for step in steps)
    assert all(step.replays() for step in steps)


def test_one_of_two_equal_parts_is_rewritten_at_its_own_place() -> None:
    whole = sa.hadamard(P.T.T, P.T.T)
    assert list(places_of(whole, P.T.T)) == [(0,), (1,)]
    law = LAWS["transpose of a transpose"]
    steps = [rewritten(whole, place, law) for place in places_of(whole, P.T.T)]
    assert [step and step.after for step in steps] == [
        sa.hadamard(P, P.T.T),
        sa.hadamard(P.T.T, P),
    ]
    assert rewritten(whole, (0, 0), law) is None


def random_square(depth: int, rng: random.Random) -> Node:
    if depth == 0:
        return rng.choice([sa.matrix(name, d, d) for name in "XYZ"] + [sa.identity(d)])

    def inner() -> Node:
        return random_square(depth - 1, rng)

    return rng.choice(
        [
            lambda: inner() @ inner(),
            lambda: inner() + inner(),
            lambda: inner() - inner(),
            lambda: -inner(),
            lambda: inner().T,
            lambda: inner() / 3,
            lambda: MatrixProduct(2, inner(), inner()),
            lambda: sa.hadamard(inner(), inner()),
            lambda: sa.tanh(inner()),
            lambda: sa.softmax(inner() - sa.ones(d, d), axis=rng.choice((0, 1))),
        ]
    )()


@pytest.mark.parametrize("seed", range(25))
def test_rewriting_ends_and_changes_no_number(seed: int) -> None:
    rng = random.Random(seed)
    start = line = random_square(3, rng)
    count = 0
    while True:
        step = next(
            (
                step
                for part in line.walk()
                for law in LAWS.values()
                if law.rewrite(part) is not None
                for step in [rewritten(line, next(places_of(line, part)), law)]
                if step
            ),
            None,
        )
        if step is None:
            break
        line = step.after
        count += 1
        assert count < 400, f"seed {seed}: no end"
    one, other = values(start, line)
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(25))
def test_what_is_derived_is_equal_on_numbers(seed: int) -> None:
    """Pairs that differ in one operand somewhere; most of them are unequal."""
    rng = random.Random(1000 + seed)
    left = random_square(3, rng)
    X, Y = sa.matrix("X", d, d), sa.matrix("Y", d, d)
    for right in (left.xreplace({X: Y}), left.xreplace({X: X.T}), left.T, -left, left.T.T):
        if derive(left, right) is not None:
            one, other = values(left, right)
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9, err_msg=f"seed {seed}")


def test_the_search_is_bounded() -> None:
    product, reordered = sa.matrix("X", d, d), sa.matrix("X", d, d)
    for k in range(14):
        X, Y = sa.matrix(f"X_{k}", d, d), sa.matrix(f"Y_{k}", d, d)
        product, reordered = product @ (X + Y), reordered @ (Y + X)
    assert derive(product, reordered + reordered) is None


# A proof of two steps, and what somebody may have written into it.

SUM = sa.prove((P + R).T, R.T + P.T)


@pytest.mark.parametrize(
    "change",
    [
        {"law": "no such law"},
        {"law": "transpose of a product"},
        {"place": (1,)},
        {"place": (5, 5)},
        {"part_before": P.T, "part_after": P.T},
        {"part_before": R.T},
        {"backwards": True},
        {"reason": "because"},
    ],
    ids=str,
)
def test_a_proof_with_a_forged_step_is_no_proof(change: dict[str, object]) -> None:
    assert [step.law for step in SUM.steps] == ["transpose of a sum", "order of terms"]
    assert SUM.check()
    first, second = SUM.steps
    assert not replace(SUM, steps=(replace(first, **change), second)).check()  # type: ignore[arg-type]
    assert not replace(SUM, steps=(first,)).check()
    assert not replace(SUM, steps=()).check()


@pytest.mark.parametrize("law", [SAME_INDEX_FORM, "order of terms", "sleight of hand"])
@pytest.mark.parametrize("parts", [(P, R), (P, P)], ids=["unequal parts", "equal parts"])
def test_no_step_leads_from_one_matrix_to_another(law: str, parts: tuple[Node, Node]) -> None:
    step = Step(law, P, R, "", (), *parts)
    assert not replace(SUM, lhs=P, rhs=R, steps=(step,)).check()
    there_and_back = (Step(law, P.T, R.T, "", (0,), *parts), Step(law, R.T, P.T, "", (0,), *parts))
    assert not replace(SUM, lhs=P.T, rhs=P.T, steps=there_and_back).check()
