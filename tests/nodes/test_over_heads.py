"""Heads, sums over heads and blocks of a merged axis: shapes, indices, refusals, meanings."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.evaluate import evaluate
from symattn.nodes.core import Node
from symattn.nodes.over_heads import Head, Heads, SumOver

h, g, d_k, d, n, m, d_model = sa.dims("h g d_k d n m d_model")
i, j, k = sa.index("i", h), sa.index("j", g), sa.index("k", h)
W, F, S = sa.family("W", h, d_k, d), sa.family("F", (g, h), n, m), sa.family("S", h, n, n)
X, A, U = sa.matrix("X", d, n), sa.matrix("A", n, m), sa.matrix("U", h * d_k, d)
D = sa.matrix("D", d_model, n)
SIZES = {"h": 3, "g": 2, "d_k": 4, "d": 5, "n": 6, "m": 7}


def numbers(node: Node, **indices: int) -> np.ndarray:
    """The exact values of a formula in which no index but i, j and k is free, as floats."""
    arrays = {
        source: np.random.default_rng(7).integers(
            -4, 5, [size.value(SIZES) for size in source.sizes]
        )
        for source in node.inputs()
    }
    at = {index: indices[index.name] for index in node.indices}
    return np.array(evaluate(node, SIZES, arrays, indices=at), dtype=float)


def array(source: Any) -> np.ndarray:
    return np.random.default_rng(7).integers(-4, 5, [size.value(SIZES) for size in source.sizes])


# Shapes and indices.


def test_shapes() -> None:
    assert sa.heads(W[i] @ X, i, axis=0).shape == (h * d_k, n)
    assert sa.heads(W[i] @ X, i, axis=1).shape == (d_k, h * n)
    assert sa.heads(sa.heads(F[j, i], i, axis=0), j, axis=1).shape == (h * n, g * m)
    assert sa.sum_over(W[i] @ X, i).shape == (d_k, n)
    assert sa.head(U, i, axis=0).shape == (d_k, d)
    assert sa.head(U.T, i, axis=1).shape == (d, d_k)
    assert sa.heads(A, i, axis=0).shape == (h * n, m)  # h times the same
    assert sa.heads(A, sa.index("i", 1), axis=0).shape == (n, m)
    assert sa.heads(A, sa.index("i", 3), axis=1).shape == (n, 3 * m)


def test_what_is_bound_is_not_free_and_what_says_which_block_is() -> None:
    assert sa.heads(W[i] @ X, i, axis=0).indices == ()
    assert sa.sum_over(W[i] @ X, i).indices == ()
    assert sa.heads(F[j, i], i, axis=0).indices == (j,)
    assert sa.sum_over(F[j, i], j).indices == (i,)
    assert sa.head(U, i, axis=0).indices == (i,)
    assert sa.head(sa.heads(W[i] @ X, i, axis=0), i, axis=0).indices == (i,)
    assert sa.head(sa.heads(W[i] @ X, i, axis=0), k, axis=0).indices == (k,)
    assert (W[i] + sa.sum_over(W[i], i)).indices == (i,)
    assert sa.sum_over(A, i).indices == ()
    assert sa.sum_over(W[k], i).indices == (k,)


def test_one_letter_is_one_index() -> None:
    """Otherwise ``subs`` that makes the sizes equal would let one capture the other."""
    message = "i is two different symbols here: an index over h and an index over g"
    with pytest.raises(sa.SymbolClashError, match=message):
        sa.sum_over(W[i], sa.index("i", g))
    with pytest.raises(sa.SymbolClashError, match="an index over"):
        sa.prove(W[i], W[i] + sa.family("F'", g, *W[i].shape)[sa.index("i", g)] - W[i])


def test_every_tag_is_counted() -> None:
    assert sa.heads(W[i] @ X, i, axis=0).dims == (h, d_k, d, n)
    assert sa.sum_over(A, i).dims == (n, m, h)
    assert sa.head(D, sa.index("i", 1), axis=0).dims == (d_model, n)


def test_symbols_and_values() -> None:
    for node in (sa.heads(W[i] @ X, i, axis=0), sa.sum_over(W[i] @ X, i)):
        assert node.symbols() == (W[i], X)
        assert node.inputs() == (W, X)
        assert node.free_symbols == {W[i], X}


# Relations.


def test_a_block_needs_a_count_that_divides() -> None:
    with pytest.raises(sa.HeadsError) as refused:
        sa.head(D, i, axis=0)
    assert str(refused.value).splitlines() == [
        "head(D, i) does not fit: the rows of D are d_model, which h does not divide for all sizes",
        '  declare what a head has: with sa.assuming("d_model = h*d_k")',
    ]
    with sa.assuming("d_model = h*d_k"):  # as the error says
        block = sa.head(D, i, axis=0)
    assert block.shape == (d_k, n)
    assert block.given.text() == "d_model = h*d_k"
    assert (block.T @ block).given.text() == "d_model = h*d_k"
    for other in (block.func(*block.args), pickle.loads(pickle.dumps(block))):
        assert other == block
        assert other.given == block.given


@pytest.mark.parametrize(
    ("whole", "index", "axis", "message"),
    [
        (U @ X, i, 1, "head(U @ X, i) does not fit: the columns of U @ X are n, which h does not "
                      "divide for all sizes"),
        (sa.matrix("N", 10, 4), sa.index("i", 4), 0, "head(N, i) does not fit: the rows of N are "
                                                     "10, which 4 does not divide"),
        (sa.matrix("N", 10, 4), sa.index("i", 3), 1, "head(N, i) does not fit: the columns of N "
                                                     "are 4, which 3 does not divide"),
        (sa.matrix("N", 10, 4), i, 0, "head(N, i) does not fit: the rows of N are 10, which h does "
                                      "not divide for all sizes"),
        (sa.matrix("N", d_k, 4), i, 0, "head(N, i) does not fit: the rows of N are d_k, which h "
                                       "does not divide for all sizes"),
        (sa.matrix("N", h + n, 4), i, 0, "head(N, i) does not fit: the rows of N are h+n, which "
                                         "h does not divide for all sizes"),
    ],
)  # fmt: skip
def test_a_count_that_does_not_divide(whole: Node, index: Any, axis: int, message: str) -> None:
    with pytest.raises(sa.HeadsError) as refused:
        sa.head(whole, index, axis=axis)
    assert str(refused.value).splitlines()[0] == message
    assert isinstance(refused.value, ValueError)
    error = pickle.loads(pickle.dumps(refused.value))
    assert (error.index, error.side) == (index.name, ("rows", "columns")[axis])


def test_the_size_of_a_head_that_is_suggested_is_another_tag() -> None:
    with pytest.raises(sa.HeadsError, match=r'assuming\("d_k = h\*d_h"\)'):
        sa.head(sa.matrix("N", d_k, 4), i, axis=0)
    with pytest.raises(sa.HeadsError) as refused:
        sa.head(sa.matrix("N", h + n, 4), i, axis=0)
    assert "declare" not in str(refused.value)


def test_numbers_that_divide() -> None:
    assert sa.head(sa.matrix("N", 12, 4), sa.index("i", 3), axis=0).shape == (4, 4)
    assert sa.head(sa.matrix("N", 6 * n, 4), sa.index("i", 3), axis=0).shape == (2 * n, 4)
    assert sa.head(sa.matrix("N", h * g * n, 4), i, axis=0).shape == (g * n, 4)
    assert sa.head(A, sa.index("i", 1), axis=0).shape == (n, m)
    assert sa.head(A, sa.index("i", n), axis=0).shape == (1, m)


def test_a_relation_between_counts() -> None:
    with sa.assuming("g = h"):
        assert sa.head(U, j, axis=0).shape == (d_k, d)
        assert sa.head(U, j, axis=0).given.text() == "g = h"
    with sa.assuming("h = 2*g"):
        assert sa.head(U, j, axis=0).shape == (2 * d_k, d)


# Refusals.


@pytest.mark.parametrize("axis", [2, -1, None, True, "0", 0.0])
@pytest.mark.parametrize(
    ("call", "whole"),
    [
        (sa.heads, W[i]),
        (sa.head, U),
    ],
)
def test_an_axis_is_0_or_1(call: Callable[..., Node], whole: Node, axis: Any) -> None:
    with pytest.raises(sa.AxisError) as refused:
        call(whole, i, axis=axis)
    first = str(refused.value).splitlines()[0]
    assert first.startswith(f"{call.__name__}({whole}, i, axis=")
    assert first.endswith(
        "does not fit: an axis is 0 (along the rows, one on top of the other) or 1 (side by side)"
    )


def test_an_axis_of_numpy_is_one() -> None:
    one: Any = np.int64(1)
    assert sa.heads(W[i], i, axis=one) == sa.heads(W[i], i, axis=1)


OVER_INDEX: list[Callable[..., Node]] = [
    lambda body, index: sa.heads(body, index, axis=0),
    lambda body, index: sa.head(body, index, axis=0),
    sa.sum_over,
]


@pytest.mark.parametrize("call", OVER_INDEX)
@pytest.mark.parametrize(
    ("index", "written"), [(h, "h"), (3, "3"), ("i", "text 'i'"), (None, "None"), (A, "A")]
)
def test_what_is_no_index(call: Callable[..., Node], index: Any, written: str) -> None:
    with pytest.raises(sa.NotAnOperandError) as refused:
        call(U, index)
    first = str(refused.value)
    assert first.startswith(f"{written} cannot stand in a formula: ")
    assert first.endswith('(U, …) takes an index, made with sa.index("i", h)')


@pytest.mark.parametrize("call", OVER_INDEX)
@pytest.mark.parametrize("body", [2, np.ones((2, 2)), None, h])
def test_what_is_no_matrix(call: Callable[..., Node], body: Any) -> None:
    with pytest.raises(sa.NotAnOperandError):
        call(body, i)


@pytest.mark.parametrize("call", OVER_INDEX)
def test_text_is_refused(call: Callable[..., Node]) -> None:
    with pytest.raises(sa.TextRefusedError):
        call("U", i)


# What they mean.


def test_heads_stand_one_after_another() -> None:
    f = array(W)
    stacked = numbers(sa.heads(W[i], i, axis=0))
    for head in range(3):
        np.testing.assert_array_equal(stacked[head * 4 : head * 4 + 4], f[head])
    beside = numbers(sa.heads(W[i], i, axis=1))
    for head in range(3):
        np.testing.assert_array_equal(beside[:, head * 5 : head * 5 + 5], f[head])


def test_the_inner_of_two_indices_runs_fastest() -> None:
    f = array(F)
    nested = numbers(sa.heads(sa.heads(F[j, i], i, axis=0), j, axis=0))
    other = numbers(sa.heads(sa.heads(F[j, i], j, axis=0), i, axis=0))
    np.testing.assert_array_equal(nested, np.vstack([f[b, a] for b in range(2) for a in range(3)]))
    np.testing.assert_array_equal(other, np.vstack([f[b, a] for a in range(3) for b in range(2)]))
    assert not np.array_equal(nested, other)


def test_a_block_is_the_way_back() -> None:
    for axis in (0, 1):
        for head in range(3):
            there = sa.heads(W[i] @ X, i, axis=axis)
            np.testing.assert_array_equal(
                numbers(sa.head(there, i, axis=axis), i=head), numbers(W[i] @ X, i=head)
            )
            back = sa.heads(sa.head(U, i, axis=0), i, axis=0)
            np.testing.assert_array_equal(numbers(back), numbers(U))


def test_an_index_bound_within_is_not_the_one_outside() -> None:
    s = array(S)
    total = s.sum(axis=0)
    captured = sa.sum_over(S[i] @ sa.sum_over(S[i], i), i)
    np.testing.assert_array_equal(numbers(captured), total @ total)
    twice = sa.sum_over(
        sa.hadamard(S[i], sa.heads(sa.sum_over(S[i], i), sa.index("i", 1), axis=0)), i
    )
    np.testing.assert_array_equal(numbers(twice), total**2)
    # Heads of h copies of all heads.
    copies = sa.heads(sa.heads(S[i], i, axis=0), i, axis=0)
    np.testing.assert_array_equal(numbers(copies), np.vstack([*s] * 3))
    # Bound within, and free around it.
    for head in range(3):
        both = S[i] @ sa.sum_over(S[i], i) - sa.sum_over(S[i] @ S[i], i)
        expected = s[head] @ total - sum(one @ one for one in s)
        np.testing.assert_array_equal(numbers(both, i=head), expected)


def test_a_block_of_what_is_another_matrix_at_each_index() -> None:
    """The diagonal: block i of the matrix of head i."""
    T = sa.family("T", h, h * n, m)
    t = array(T)
    diagonal = sa.heads(sa.head(T[i], i, axis=0), i, axis=0)
    np.testing.assert_array_equal(
        numbers(diagonal), np.vstack([t[head, head * 6 : head * 6 + 6] for head in range(3)])
    )


# They are SymPy expressions.


EVERY = (
    sa.heads(W[i] @ X, i, axis=0),
    sa.heads(W[i] @ X, i, axis=1),
    sa.sum_over(W[i] @ X, i),
    sa.head(U @ X, i, axis=0),
    sa.head(sa.heads(W[i], i, axis=1), k, axis=1),
)
each = pytest.mark.parametrize("node", EVERY, ids=str)


@each
def test_copies(node: Node) -> None:
    for protocol in range(2, 6):
        for other in (
            pickle.loads(pickle.dumps(node, protocol)),
            copy.copy(node),
            copy.deepcopy(node),
            node.func(*node.args),
        ):
            assert other == node
            assert hash(other) == hash(node)
            assert (other.indices, other.sizes) == (node.indices, node.sizes)


@each
def test_its_python_builds_it_again(node: Node) -> None:
    names: dict[str, Any] = {"W": W, "X": X, "U": U, "i": i, "k": k}
    names |= {name: getattr(sa, name) for name in ("heads", "head", "sum_over")}
    assert eval(str(node), {"__builtins__": {}}, names) == node


def test_they_differ_by_index_axis_and_body() -> None:
    alike = [*EVERY, sa.heads(W[k] @ X, k, axis=0), sa.sum_over(W[k] @ X, i), sa.head(U, i, axis=0)]
    assert len(set(alike)) == len(alike)


def test_tags_are_replaced_together_with_their_indices() -> None:
    stacked = sa.heads(W[i] @ X, i, axis=0)
    four = stacked.subs(h, 4)
    assert four.shape == (4 * d_k, n)
    assert isinstance(four, Heads)
    assert four.index == sa.index("i", 4)
    assert four.inputs()[0] == sa.family("W", 4, d_k, d)
    assert four == sa.heads(
        sa.family("W", 4, d_k, d)[sa.index("i", 4)] @ X, sa.index("i", 4), axis=0
    )
    assert stacked.subs(h, 2 * g).subs(g, 3).shape == (6 * d_k, n)
    assert stacked.xreplace({h: 1}).shape == (d_k, n)
    assert stacked.subs(d, 2 * m).shape == (h * d_k, n)
    total = sa.sum_over(W[i] @ X, i).subs(h, g)
    assert isinstance(total, SumOver)
    assert total.index.size == j.size
    block = sa.head(U, i, axis=0).subs({h: 3, d_k: 5}, simultaneous=True)
    assert isinstance(block, Head)
    assert block.shape == (5, d)
    assert block.indices == (sa.index("i", 3),)


def test_tags_of_a_relation_are_replaced_in_it() -> None:
    with sa.assuming("d_model = h*d_k"):
        block = sa.head(D, i, axis=0)
    five = block.subs(h, 5)
    assert five.given.text() == "d_model = 5*d_k"
    assert five.indices == (sa.index("i", 5),)
    plain = block.subs({d_model: 12, h: 3, d_k: 4}, simultaneous=True)
    assert plain.shape == (4, n)
    assert not plain.given
    with pytest.raises(sa.RelationError, match="12 is not a multiple of 5"):
        block.subs({d_model: 12, h: 5}, simultaneous=True)


def test_matrices_are_replaced_inside() -> None:
    stacked = sa.heads(W[i] @ X, i, axis=0)
    assert stacked.xreplace({X: sa.matrix("Y", d, m)}).shape == (h * d_k, m)
    V = sa.family("V", h, m, d)
    assert stacked.xreplace({W[i]: V[i]}) == sa.heads(V[i] @ X, i, axis=0)
    assert stacked.xreplace({W[k]: V[k]}) == stacked
    assert stacked.xreplace({W[i]: sa.matrix("M", m, d)}) == sa.heads(
        sa.matrix("M", m, d) @ X, i, axis=0
    )
    with sa.assuming("d_model = h*d_k"):
        block = sa.head(D, i, axis=0)
    swapped = block.xreplace({D: sa.matrix("E", d_model, m)})
    assert swapped.shape == (d_k, m)
    with pytest.raises(sa.HeadsError):
        block.xreplace({D: A})
