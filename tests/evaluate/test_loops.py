"""Loops over index forms: what no formula holds yet (masks, heads, any place) is tested here."""

from fractions import Fraction

import numpy as np
import pytest

import symattn.nodes as sa
from symattn.evaluate import UndefinedPointError, entry_value, exact, table
from symattn.evaluate.loops import free_indices
from symattn.meaning.form import (
    ONE,
    Add,
    Allowed,
    Apply,
    AtMost,
    Both,
    Condition,
    Entry,
    Extent,
    Form,
    Index,
    Maximum,
    Mul,
    Not,
    Number,
    Parameter,
    Position,
    Power,
    Same,
    Softmax,
    Sum,
    Truth,
    either,
)
from symattn.nodes.core import Node
from symattn.tags import Size

H, D, M, N = (Size.tag(tag) for tag in ("h", "d", "m", "n"))
SIZES = {"h": 2, "d": 3, "m": 5, "n": 4}
rng = np.random.default_rng(11)
s = rng.normal(size=(4, 5))
S = {("S", (N, M)): s.tolist()}


def score(i: Index, t: Index) -> Form:
    return Entry("S", (N, M), ((i,), (t,)))


def grid(form: Form, *at: Index, **more: object) -> np.ndarray:
    """The numbers of a form for every value of two free indices."""
    rows, columns = (index.size.value(SIZES) for index in at)
    return np.array(
        [
            [entry_value(form, {at[0]: i, at[1]: j}, SIZES, S, **more) for j in range(columns)]  # pyright: ignore
            for i in range(rows)
        ]
    )


def weights(keep: np.ndarray) -> np.ndarray:
    e = np.where(keep, np.exp(s), 0)
    total = e.sum(axis=1, keepdims=True)
    return np.divide(e, total, out=np.zeros_like(e), where=total > 0)


def test_softmax_is_read_where_it_says() -> None:
    i, t, j = Index(N), Index(M), Index(M)
    np.testing.assert_allclose(
        grid(Softmax(t, score(i, t), (j,)), i, j), weights(np.ones((4, 5), bool)), rtol=1e-14
    )


def test_the_diagonal_of_a_softmax() -> None:
    square = rng.normal(size=(4, 4))
    i, t = Index(N), Index(N)
    form = Softmax(t, Entry("A", (N, N), ((i,), (t,))), (i,))
    e = np.exp(square)
    for k in range(4):
        value = entry_value(form, {i: k}, SIZES, {("A", (N, N)): square.tolist()})
        assert value == pytest.approx((e / e.sum(axis=1, keepdims=True))[k, k], rel=1e-14)


i, j, t = Index(N), Index(M), Index(M)
rows, columns = np.arange(4)[:, None], np.arange(5)[None, :]
keep = rng.random((4, 5)) < 0.5
keep[2] = False


def at_most(k: Index, shift: int = 0) -> AtMost:
    """The key's position is at most the query's, shifted."""
    return AtMost(Position((k,)), Add((Position((i,)), Number(Fraction(shift)))))


CONDITIONS: list[tuple[str, Condition, Condition, np.ndarray]] = [
    ("causal", at_most(t), at_most(j), columns <= rows),
    ("strictly causal", at_most(t, -1), at_most(j, -1), columns <= rows - 1),
    ("future", Not(at_most(t)), Not(at_most(j)), columns > rows),
    (
        "band",
        Both(at_most(t), Not(at_most(t, -2))),
        Both(at_most(j), Not(at_most(j, -2))),
        (columns <= rows) & (columns > rows - 2),
    ),
    ("same", Same((i,), (t,)), Same((i,), (j,)), columns == rows),
    (
        "either",
        either(Same((i,), (t,)), at_most(t, -2)),
        either(Same((i,), (j,)), at_most(j, -2)),
        (columns == rows) | (columns <= rows - 2),
    ),
    (
        "given at run time",
        Allowed("keep", (N, M), ((i,), (t,))),
        Allowed("keep", (N, M), ((i,), (j,))),
        keep,
    ),
    (
        "against a size",
        AtMost(Add((Position((t,)), ONE)), Extent(H)),
        AtMost(Add((Position((j,)), ONE)), Extent(H)),
        np.broadcast_to(columns + 1 <= 2, (4, 5)),
    ),
]


@pytest.mark.parametrize(
    ("inside", "outside", "expected"),
    [case[1:] for case in CONDITIONS],
    ids=[case[0] for case in CONDITIONS],
)
def test_a_mask_is_a_condition(inside: Condition, outside: Condition, expected: np.ndarray) -> None:
    entries = {**S, ("keep", (N, M)): keep.tolist()}
    softmax = Softmax(t, score(i, t), (j,), inside)
    for form, numbers in ((softmax, weights(expected)), (Truth(outside), expected)):
        got = [
            [entry_value(form, {i: k, j: l}, SIZES, entries) for l in range(5)] for k in range(4)
        ]
        np.testing.assert_allclose(got, numbers.astype(float), rtol=1e-14, atol=1e-13)


def test_a_query_with_no_key_gets_a_zero_row() -> None:
    nowhere = AtMost(ONE, Number(Fraction(0)))
    assert not grid(Softmax(t, score(i, t), (j,), nowhere), i, j).any()


def test_a_merged_axis_is_head_major() -> None:
    packed = rng.normal(size=(2 * 3, 4))
    head, feature, k = Index(H), Index(D), Index(N)
    entries = {("X", (H * D, N)): packed.tolist()}
    form = Entry("X", (H * D, N), ((head, feature), (k,)))
    position = Position((head, feature))
    for p, f in np.ndindex(2, 3):
        at = {head: p, feature: f, k: 1}
        assert entry_value(form, at, SIZES, entries) == packed.reshape(2, 3, 4)[p, f, 1]
        assert entry_value(position, at, SIZES, {}) == 3 * p + f


def test_a_softmax_read_at_a_merged_place() -> None:
    logits = rng.normal(size=6)
    head, feature, all_features = Index(H), Index(D), Index(H * D)
    body = Entry("x", (H * D, Size.of(1)), ((all_features,), ()))
    form = Softmax(all_features, body, (head, feature))
    value = entry_value(
        form, {head: 1, feature: 2}, SIZES, {("x", (H * D, Size.of(1))): logits[:, None].tolist()}
    )
    assert value == pytest.approx(np.exp(logits[5]) / np.exp(logits).sum(), rel=1e-14)


def test_sums_maxima_powers_functions_and_scalars() -> None:
    c = Parameter("c", positive=True)
    root = Power(Mul((c, Extent(M))), Fraction(-3, 2))
    form = Mul((root, Sum(t, Power(score(i, t), Fraction(2))), Maximum(j, score(i, j))))
    form = Apply("tanh", form)
    expected = np.tanh((2.5 * 5) ** -1.5 * (s**2).sum(axis=1) * s.max(axis=1))
    for k in range(4):
        value = entry_value(form, {i: k}, SIZES, S, {"c": Fraction(5, 2)})
        assert value == pytest.approx(expected[k], rel=1e-13)


def test_floats_do_not_overflow_where_the_value_is_moderate() -> None:
    x = sa.matrix("x", sa.dim("m"), 1)
    values = np.linspace(-4000, 4000, 5)[:, None]
    soft = table(sa.softmax(x, axis=0), {"m": 5}, {x: values})
    assert [row[0] for row in soft] == [0, 0, 0, 0, 1]
    assert [row[0] for row in table(sa.sigmoid(x), {"m": 5}, {x: values})] == [0, 0, 0.5, 1, 1]


def test_a_denominator_is_computed_once_for_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0
    number = exact(20)
    original = number.exp

    def counted(x: object) -> object:
        nonlocal count
        count += 1
        return original(x)

    monkeypatch.setattr(number, "exp", counted)
    m, n, d_v = sa.dims("m n d_v")
    scores, V = sa.matrix("S", m, n), sa.matrix("V", d_v, m)
    inputs: dict[Node, np.ndarray] = {scores: rng.normal(size=(5, 4)), V: rng.normal(size=(3, 5))}
    got = table(V @ sa.softmax(scores, axis=0), {"m": 5, "n": 4, "d_v": 3}, inputs, {}, number)
    assert count == 5 * 4
    e = np.exp(inputs[scores])
    np.testing.assert_allclose(
        np.array(got, float), inputs[V] @ (e / e.sum(axis=0)), rtol=1e-13, atol=1e-13
    )


def test_free_indices_are_those_that_are_read_and_not_bound() -> None:
    form = Softmax(t, Sum(i, score(i, t)), (j,), at_most(t))
    assert free_indices(form) == (j, i)  # the mask reads an i of its own
    assert free_indices(Sum(t, score(i, t))) == (i,)


@pytest.mark.parametrize(
    "form",
    [
        Power(Number(Fraction(0)), Fraction(-1)),
        Power(Number(Fraction(-2)), Fraction(1, 2)),
        Power(Number(Fraction(-2)), Fraction(1, 3)),
        Apply("log", Number(Fraction(0))),
        Apply("log", Number(Fraction(-1))),
    ],
    ids=str,
)
@pytest.mark.parametrize("digits", [0, 50])
def test_what_has_no_value_is_undefined(form: Form, digits: int) -> None:
    more = {"arithmetic": exact(digits)} if digits else {}
    with pytest.raises(UndefinedPointError):
        entry_value(form, {}, {}, {}, **more)  # pyright: ignore


def test_a_table_has_the_formula_s_rows_and_columns() -> None:
    m, n = sa.dims("m n")
    X: Node = sa.matrix("X", m, n)
    x = rng.normal(size=(5, 4)).astype(np.float32)
    got = table(X.T @ sa.scalar("c"), {"m": 5, "n": 4}, {X: x}, {"c": 2})
    assert np.array_equal(np.array(got), 2 * x.T.astype(float))
