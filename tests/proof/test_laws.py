"""Each law on numbers, on compound instances, by the normal form, and against its mistake."""

import random

import numpy as np
import pytest
import sympy

import symattn as sa
from symattn.meaning.form import place
from symattn.nodes.algebra import MatrixProduct
from symattn.nodes.core import Node
from symattn.nodes.sizes import Dim
from symattn.proof.laws import LAWS
from symattn.proof.laws.law import Law
from symattn.proof.laws.transposes import TRANSPOSES
from symattn.proof.normal import compare
from symattn.tags import Size

SIZES = {"p": 3, "q": 4, "r": 5, "s": 2, "h": 6}
i, k = sa.index("i", "h"), sa.index("k", "h")

each_law = pytest.mark.parametrize("law", LAWS.values(), ids=list(LAWS))


def taken_up(expr: Node) -> Node:
    """The expression itself, or an exp of one that ends with an additive mask: that has no value.

    Of a thousandth, for an exp of what a random expression may be would be beyond floats.
    """
    return sa.exp(expr / 1000) if expr.has_minus_infinity else expr


def numbers(*exprs: Node, seed: int = 0) -> list[np.ndarray]:
    """The expressions on the same random arrays, through SymPy's own lambdify.

    Where an index is free they are one matrix for each value of it, along the first axis.
    """
    exprs = tuple(map(taken_up, exprs))
    rng = np.random.default_rng(seed)
    inputs = list(dict.fromkeys(node for expr in exprs for node in expr.inputs()))
    scalars = list(dict.fromkeys(symbol for expr in exprs for symbol in expr.scalars()))
    values = [
        *(rng.normal(size=[size.value(SIZES) for size in node.sizes]) for node in inputs),
        *rng.uniform(0.5, 2, len(scalars)),
        *SIZES.values(),
    ]
    names = [*inputs, *scalars, *map(Dim, SIZES)]
    return [np.asarray(sympy.lambdify(names, expr, "numpy")(*values)) for expr in exprs]


def are_equal(left: Node, right: Node, seed: int = 0) -> bool:
    one, other = numbers(left, right, seed=seed)
    assert one.shape[-2:] == other.shape[-2:]
    if set(left.indices) == set(right.indices):  # one may be the same for all heads
        assert one.shape == other.shape
    return np.allclose(one, other, rtol=1e-11, atol=1e-11)


def same_meaning(left: Node, right: Node) -> bool | None:
    row, column = (place(size) for size in left.sizes)
    at = (*row, *column, *(one for index in left.indices for one in index.place))
    return compare([taken_up(side).meaning(row, column) for side in (left, right)], at).equal


H = Size.tag("h")


def random_matrix(
    rows: Size,
    columns: Size,
    depth: int,
    rng: random.Random,
    *,
    of_heads: bool = False,
    sums: bool = True,
) -> Node:
    """An expression of the given shape with every kind of operation in it.

    One of the heads may be another matrix for each value of the index i; without ``sums`` none runs
    over heads.
    """
    if depth == 0:
        label = f"{rng.choice('XYZ')}_{rows}{columns}".replace("*", "")
        if of_heads and rng.random() < 0.5:
            return sa.family(f"{label}'", H, rows, columns)[i]
        return sa.matrix(label, rows, columns)

    def inner(rows: Size = rows, columns: Size = columns) -> Node:
        return random_matrix(rows, columns, depth - 1, rng, of_heads=of_heads, sums=sums)

    between = Size.tag(rng.choice("pqrs"))
    over_heads = [
        lambda: sa.sum_over(inner(), rng.choice((i, k))),
        lambda: sa.sum_over(sa.head(inner(H * rows), k, axis=0), k),
        lambda: sa.sum_over(sa.head(sa.heads(inner(), k, axis=1), k, axis=1), k),
    ]
    return rng.choice(
        [
            lambda: inner(rows, between) @ inner(between, columns),
            lambda: inner(columns, rows).T,
            lambda: inner() - inner(),
            lambda: inner() / sa.scalar("c", positive=True),
            lambda: -inner(),
            lambda: sa.hadamard(inner(), inner()),
            lambda: sa.tanh(inner()),
            lambda: sa.softmax(inner(), axis=rng.choice((0, 1))),
            *(over_heads if sums else ()),
        ]
    )()


@each_law
def test_the_rewriting_leads_from_the_left_side_to_the_right(law: Law) -> None:
    assert law.rewrite(law.left) == law.right
    assert law.rewrite(law.right) is None


@each_law
def test_the_sides_are_equal_on_numbers(law: Law) -> None:
    assert are_equal(law.left, law.right)


@each_law
def test_the_mistake_is_not_equal_on_numbers(law: Law) -> None:
    assert not are_equal(*law.mistake)


@each_law
def test_the_mistake_is_not_what_the_law_does(law: Law) -> None:
    left, wrong = law.mistake
    assert law.rewrite(left) != wrong


@each_law
def test_the_normal_form_tells_the_law_from_its_mistake(law: Law) -> None:
    assert same_meaning(law.left, law.right)
    assert not same_meaning(*law.mistake)


@each_law
@pytest.mark.parametrize("seed", range(4))
def test_compound_instances_are_equal_on_numbers(law: Law, seed: int) -> None:
    rng = random.Random(f"{law.name} {seed}")
    # A score that runs over heads itself has no generated code yet.
    sums = not any(node.bodies for node in law.left.walk())
    parts = {
        node: random_matrix(*node.sizes, 2, rng, of_heads=bool(node.indices), sums=sums)
        for node in law.left.symbols()
    }
    instance = law.left.xreplace(parts)
    changed = law.rewrite(instance)
    if changed is None:
        assert law.name.startswith("order of")  # it may be sorted already
        return
    assert changed != instance
    assert changed.sizes == instance.sizes
    assert are_equal(instance, changed, seed)


@each_law
def test_a_law_says_why_and_why_it_ends(law: Law) -> None:
    assert LAWS[law.name] is law
    for words in (law.name, law.reason, law.sound, law.ends):
        assert words == words.strip()
        assert words
        assert not words.endswith(".")


def test_names_are_used_once() -> None:
    assert len({law.rewrite for law in LAWS.values()}) == len(LAWS)


def test_every_transpose_of_an_operation_has_a_law() -> None:
    """But for named matrices, which keep theirs."""
    rng = random.Random(7)
    p, q = Size.tag("p"), Size.tag("q")
    for _ in range(50):
        node = random_matrix(q, p, 1, rng)
        assert any(law.rewrite(node.T) for law in TRANSPOSES.values()), node
    F = sa.family("F", "h", p, q)[i]
    for node in (
        sa.heads(F, k, axis=0),
        sa.heads(F, i, axis=1),
        sa.head(sa.matrix("U", "h*p", q), i, axis=0),
    ):
        assert any(law.rewrite(node.T) for law in TRANSPOSES.values()), node
    X = sa.matrix("X", p, q)
    assert not any(law.rewrite(F.T) for law in TRANSPOSES.values())
    assert not any(law.rewrite(X.T) for law in TRANSPOSES.values())


A, B, C = sa.matrix("A", "p", "q"), sa.matrix("B", "q", "r"), sa.matrix("C", "r", "s")
S, y = sa.matrix("S", "p", "q"), sa.vector("y", "q")
c = sa.scalar("c", positive=True)


@pytest.mark.parametrize(
    ("law", "before", "after"),
    [
        ("transpose of a product", (A @ B @ C).T, C.T @ B.T @ A.T),
        ("transpose of a product", MatrixProduct(A, c, B).T, MatrixProduct(B.T, c, A.T)),
        ("transpose of a product", (A @ B @ (C @ C.T)).T, (C @ C.T).T @ (A @ B).T),
        ("transpose of a product", (A @ B @ (S @ B).T).T, (S @ B).T.T @ (A @ B).T),
        (
            "shift invariance of softmax",
            sa.softmax(S - sa.ones("p", "q"), axis=0),
            sa.softmax(S, axis=0),
        ),
        (
            "shift invariance of softmax",
            sa.softmax(S - sa.ones("p", 1) * c @ y.T / 2, axis=0),
            sa.softmax(S, axis=0),
        ),
        ("shift invariance of softmax", sa.softmax(S + sa.ones("p", 1) @ y.T, axis=1), None),
        ("shift invariance of softmax", sa.softmax(sa.ones("p", "q"), axis=0), None),
        ("scalars in front", A @ (c * B), c * A @ B),
        ("scalars in front", c * A @ (B / c), None),
        ("scalars in front", (1 / c) * A * c @ B, A @ B),
        ("odd function of a negation", sa.exp(-A), None),
        ("odd function of a negation", sa.function("phi")(-A), None),
        ("odd function of a negation", sa.sin(-A), -sa.sin(A)),
        ("columns of softmax sum to one", sa.ones(1, "p") @ sa.softmax(S, axis=1), None),
        (
            "columns of softmax sum to one",
            A.T @ sa.ones("p", "p") @ sa.softmax(S, axis=0) @ B,
            A.T @ sa.ones("p", "q") @ B,
        ),
        (
            "softmax written out",
            sa.hadamard(sa.reciprocal(sa.exp(S) @ sa.ones("q", "q")), sa.exp(S)),
            sa.softmax(S, axis=1),
        ),
        (
            "softmax written out",
            sa.hadamard(sa.reciprocal(sa.exp(S) @ sa.ones("q", "q")), sa.exp(A)),
            None,
        ),
    ],
)
def test_single_rewritings(law: str, before: Node, after: Node | None) -> None:
    assert LAWS[law].rewrite(before) == after
