"""Masks as parts of formulas: what they mean, how they print, and what is refused."""

import copy
import pickle
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
import sympy
from sympy.core.symbol import Str

import symattn as sa
import symattn.nodes as nodes
from symattn.errors import SymattnError
from symattn.evaluate import evaluate, exact, random_inputs, random_sizes, sizes_in, table
from symattn.nodes import Mask
from symattn.nodes.given import Given
from symattn.notation.code import python

m, n, w, p = sa.dims("m n w p")
S, A = sa.matrix("S", m, n), sa.matrix("A", n, n)

Allowed = Callable[[int, int, int, int], bool]
"""Whether query i of n may attend to key j of m."""

# What each mask means, written from its sentence; w is 2, p is 3.
MEANINGS: dict[Mask, Allowed] = {
    sa.causal("top_left"): lambda i, j, n, m: j <= i,
    sa.causal("bottom_right"): lambda i, j, n, m: m - j >= n - i,
    sa.window(w, "top_left"): lambda i, j, n, m: abs(i - j) < 2,
    sa.window(2, "bottom_right"): lambda i, j, n, m: abs((n - i) - (m - j)) < 2,
    sa.window(1, "top_left"): lambda i, j, n, m: i == j,
    sa.prefix(p): lambda i, j, n, m: j in (0, 1, 2),
    sa.prefix(1): lambda i, j, n, m: j == 0,
    ~sa.causal("top_left"): lambda i, j, n, m: j > i,
    ~sa.prefix(p): lambda i, j, n, m: j > 2,
    sa.window(w, "top_left") & sa.causal("top_left"): lambda i, j, n, m: j in (i - 1, i),
    sa.prefix(p) | sa.causal("bottom_right"): lambda i, j, n, m: j < 3 or j - m <= i - n,
    ~(sa.prefix(1) | ~sa.causal("top_left")): lambda i, j, n, m: 0 < j <= i,
}
GIVEN = (
    sa.padding(),
    sa.keep(),
    ~sa.keep(),
    sa.keep() & sa.padding() & sa.causal("top_left"),
    ~(sa.keep() | sa.padding()) | sa.prefix(2),
)
ALL = (*MEANINGS, *GIVEN)

each_mask = pytest.mark.parametrize("mask", ALL, ids=str)
each_axis = pytest.mark.parametrize("axis", [0, 1])


@pytest.mark.parametrize("sizes", [(4, 7), (6, 5), (5, 5), (1, 4), (4, 1), (1, 1)], ids=str)
@pytest.mark.parametrize("mask", MEANINGS, ids=str)
@each_axis
def test_a_mask_means_its_sentence(mask: Mask, sizes: tuple[int, int], axis: int) -> None:
    queries, keys = sizes
    shape = (m, n) if axis == 0 else (n, m)
    known = {"n": queries, "m": keys, "w": 2, "p": 3}
    expected = np.array(
        [[MEANINGS[mask](i, j, queries, keys) for j in range(keys)] for i in range(queries)]
    )
    node = sa.indicator(mask, *shape, axis=axis)
    for values in (table(node, known, {}), evaluate(node, known, {})):
        found = np.array(values, dtype=float)
        assert np.array_equal(found.T if axis == 0 else found, expected)


@each_mask
@each_axis
def test_the_two_evaluators_agree(mask: Mask, axis: int) -> None:
    for seed in range(6):
        rng = Random(seed)
        node = sa.softmax(S, axis=axis, mask=mask)
        sizes = random_sizes(sizes_in([node]), node.given, rng, least=1)
        inputs = random_inputs([*node.inputs(), *node.booleans()], sizes, rng)
        written = evaluate(node, sizes, inputs)
        meant = np.array(table(node, sizes, inputs, None, exact(50)), dtype=object)
        assert (abs(written - meant) < 1e-40).all()


def test_a_query_without_keys_has_no_weights() -> None:
    node = sa.softmax(S, axis=0, mask=sa.causal("bottom_right"))
    values = evaluate(node, {"m": 2, "n": 5}, {S: [[1] * 5] * 2}).astype(float)
    assert values.tolist() == [[0, 0, 0, 1, 0.5], [0, 0, 0, 0, 0.5]]


# Expressions.


@each_mask
@each_axis
def test_a_masked_softmax_is_an_expression(mask: Mask, axis: int) -> None:
    node = sa.softmax(S, axis=axis, mask=mask)
    assert isinstance(mask, sympy.Basic)
    assert all(isinstance(argument, sympy.Basic) for argument in node.args)
    for again in (
        node.func(*node.args),
        copy.deepcopy(node),
        pickle.loads(pickle.dumps(node)),
        eval(python(node), {**vars(nodes), "S": S, "w": w, "p": p}),
        eval(sympy.srepr(node), {**vars(sympy), **vars(nodes), "Str": Str, "Given": Given}),
    ):
        assert again == node
        assert hash(again) == hash(node)
    assert node != sa.softmax(S, axis=axis)
    assert mask.func(*mask.args) == mask
    assert eval(str(mask), {**vars(sa), **vars(nodes), "w": w, "p": p}) == mask


def test_parts_are_replaced_inside_masks() -> None:
    node = sa.softmax(S, axis=0, mask=sa.window(w, "top_left"))
    assert node.xreplace({w: 3}).args[2] == sa.window(3, "top_left")
    assert node.xreplace({S: sa.matrix("T", m, n)}).args[2] == sa.window(w, "top_left")
    assert node.free_symbols == {S, w}
    assert node.dims == (m, n, w)
    assert sa.softmax(A, axis=0, mask=sa.causal()).xreplace({n: m}).shape == (m, m)


def test_a_relation_that_a_mask_needs_is_carried() -> None:
    with sa.assuming("m = n"):
        node = sa.softmax(S, axis=0, mask=sa.causal())
    assert node.given.text() == "m = n"
    assert pickle.loads(pickle.dumps(node.T)) == node.T
    assert node.xreplace({S: sa.matrix("T", m, n)}).given == node.given
    assert (node @ S.T).given == node.given


def test_what_a_mask_is_given_at_run_time() -> None:
    node = sa.softmax(S, axis=0, mask=sa.padding() & sa.keep() | sa.padding())
    arrays = [(a.label, [str(size) for size in a.sizes]) for a in (node.T @ node).booleans()]
    assert arrays == [("padding", ["m"]), ("keep", ["n", "m"])]
    row = sa.softmax(S.T, axis=1, mask=sa.keep())
    assert [str(size) for size in row.booleans()[0].sizes] == ["n", "m"]


# Refusals.


@pytest.mark.parametrize("mask", [sa.causal(), sa.window(3), sa.prefix(3) | ~sa.causal()], ids=str)
@each_axis
def test_an_alignment_has_to_be_said(mask: Mask, axis: int) -> None:
    with pytest.raises(sa.AlignmentError) as caught:
        sa.softmax(S, axis=axis, mask=mask)
    queries = ("n", "m")[axis]
    assert caught.value.queries == queries
    for words in ("top_left", "bottom_right", f'{caught.value.keys} = {queries}"'):
        assert words in str(caught.value)
    assert sa.softmax(A, axis=axis, mask=mask).mask == mask
    with sa.assuming("m = n"):
        assert sa.indicator(mask, m, n, axis=axis).shape == (m, n)


causal: Any = sa.causal

REFUSED: list[Callable[[], Any]] = [
    *(lambda: sa.softmax(S, axis=0, mask=1), lambda: sa.softmax(S, axis=0, mask=True)),
    *(lambda: sa.softmax(S, axis=0, mask="causal"), lambda: sa.softmax(S, axis=0, mask=S)),
    *(lambda: sa.softmax(S, axis=0, mask=np.ones((5, 7), bool)), lambda: sa.causal("left")),
    *(lambda: sa.softmax(S, axis=0, mask=[[1, 0]]), lambda: sa.causal() & 1),
    *(lambda: 1 | sa.causal(), lambda: bool(sa.causal()), lambda: bool(~causal())),
    *(lambda: causal() and causal(), lambda: sa.keep() & np.ones(3), lambda: causal(0)),
    *(lambda: np.ones(3) & sa.keep(), lambda: sa.softmax(S, axis=0, mask=sa.causal)),
    *(lambda: sa.window(sa.causal()), lambda: sa.window(np.array([1])), lambda: causal(True)),
    lambda: sa.indicator(0, m, n, axis=0),
]


@pytest.mark.parametrize("call", REFUSED)
def test_what_is_no_mask_is_refused_by_name(call: Callable[[], Any]) -> None:
    with pytest.raises(sa.MaskError, match=r"is not a mask here: \w"):
        call()


@pytest.mark.parametrize(
    "call",
    [
        *(
            lambda: sa.window(0),
            lambda: sa.window(-1),
            lambda: sa.prefix(1.5),
            lambda: sa.prefix(0),
        ),
        *(lambda: sa.window("w w"), lambda: sa.indicator(sa.keep(), m, n, axis=2)),
        lambda: sa.indicator(sa.keep(), m, n, axis=True),
    ],
)
def test_other_mistakes(call: Callable[[], Any]) -> None:
    with pytest.raises(SymattnError):
        call()


# Printing.

WRITTEN = [
    (sa.causal("top_left"), "j ≤ i", r"j \le i"),
    (sa.causal("bottom_right"), "j ≤ i + m - n", r"j \le i + m - n"),
    (sa.window(w, "top_left"), "i - w < j < i + w", "i - w < j < i + w"),
    (sa.prefix(p), "j < p", "j < p"),
    (~sa.prefix(p), "p ≤ j", r"p \le j"),
    (~sa.causal("top_left"), "j > i", "j > i"),
    (sa.padding(), "padding[j]", r"\mathrm{padding}_{j}"),
    (sa.keep(), "keep[i,j]", r"\mathrm{keep}_{ij}"),
    (
        sa.padding() & sa.keep() & ~sa.keep(),
        "padding[j] and keep[i,j] and not keep[i,j]",
        r"\mathrm{padding}_{j} \land \mathrm{keep}_{ij} \land \lnot \mathrm{keep}_{ij}",
    ),
    (
        sa.padding() & (sa.prefix(2) | sa.causal("top_left")),
        "padding[j] and (j < 2 or j ≤ i)",
        r"\mathrm{padding}_{j} \land (j < 2 \lor j \le i)",
    ),
]


@pytest.mark.parametrize(("mask", "as_text", "as_latex"), WRITTEN, ids=lambda part: str(part))
def test_a_mask_is_a_condition_below_the_softmax(mask: Mask, as_text: str, as_latex: str) -> None:
    """The same in both layouts: i is a query, j a key."""
    column, row = sa.softmax(S, axis=0, mask=mask), sa.softmax(S.T, axis=1, mask=mask)
    assert sa.text(column) == f"Softmax_{{{as_text}}}(S)"
    assert sa.text(row) == f"softmax_{{{as_text}}}(Sᵀ)"
    bold = rf"\operatorname{{Softmax}}_{{{as_latex}}} (\mathbf{{S}})"
    assert sa.latex(column) == bold
    assert sa.latex(row, "freshrimp").startswith(
        rf"\operatorname{{Softmax}}_{{\text{{rows}}, {as_latex}}}"
    )
    assert sa.text(sa.indicator(mask, m, n, axis=0)) == f"[{as_text}]_{{m×n}}"


def test_letters_that_are_tags_are_not_taken_again() -> None:
    i, j = sa.dims("i j")
    node = sa.softmax(sa.matrix("S", j, n), axis=0, mask=sa.causal("bottom_right") & sa.prefix(i))
    assert sa.text(node) == "Softmax_{t ≤ k + j - n and t < i}(S)"


def test_letters_of_positions_are_not_those_of_heads() -> None:
    i, s = sa.index("i", "h"), sa.index("s", "h")
    S, whole = sa.family("S", "h", n, n), sa.matrix("A", n, n)
    causal = sa.causal()
    masked = sa.softmax(S[i], axis=1, mask=causal)
    assert sa.text(masked) == "softmax_{t ≤ s}(S_i)"
    assert sa.latex(masked) == r"\mathrm{softmax}_{t \le s}(S_i)"
    # Heads that do not depend on i stand where it runs as well.
    summed = sa.sum_over(sa.softmax(whole, axis=1, mask=causal) @ S[i], i)
    assert sa.text(summed) == "Σ_{i=1..h} softmax_{t ≤ s}(A) S_i"
    biased = S[i] + sa.positional(lambda i, j: i - j, n, n, layout="row")
    assert sa.text(biased) == "S_i + [s - t]_{s,t}"
    assert sa.latex(biased, "vaswani") == "S_i + [s - t]_{s,t}"
    assert sa.text(biased.T, "freshrimp") == "(S_i + [s - t]_{s,t})ᵀ"
    assert sa.text(S[i] + sa.additive_mask(causal, n, n, axis=1)) == "S_i + M_{t ≤ s}"
    # Any other index leaves the letters as they are, and is no letter of theirs.
    assert sa.text(sa.softmax(S[s], axis=1, mask=causal)) == "softmax_{j ≤ i}(S_s)"
    # A program's lines are written one by one: those of all heads alone have other letters.
    program = sa.Program(P=sa.softmax(whole, axis=1, mask=causal), head=masked)
    assert str(program) == "P = softmax_{j ≤ i}(A)\nhead_i = softmax_{t ≤ s}(S_i)"
