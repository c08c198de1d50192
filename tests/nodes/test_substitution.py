"""Replacing parts: checked again, simultaneous or in order, and never with text."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy

import symattn.nodes as nodes
from symattn.errors import (
    NotAnOperandError,
    OperationRefusedError,
    ShapeError,
    SizeError,
    SymbolClashError,
    TextRefusedError,
)

d_k, d_v, n, m, h = nodes.dims("d_k d_v n m h")
c, e = nodes.scalar("c"), nodes.scalar("e")
tau = nodes.scalar("tau", positive=True)
Q, R, K = nodes.matrix("Q", d_k, n), nodes.matrix("R", d_k, n), nodes.matrix("K", d_k, m)
V = nodes.matrix("V", d_v, m)
S = K.T @ Q / nodes.sqrt(d_k)
A = V @ nodes.softmax(S, axis=0)


def test_matrices_are_swapped_at_once() -> None:
    assert (Q - R).xreplace({Q: R, R: Q}) == R - Q
    assert (Q - R).subs({Q: R, R: Q}, simultaneous=True) == R - Q
    assert (Q - R).subs([(Q, R), (R, Q)]) == Q - Q
    assert (Q - R).subs([(R, Q), (Q, R)]) == R - R


def test_subs_means_what_it_means_in_sympy() -> None:
    """The same rules on scalars, by SymPy itself, and on the scalar of a formula."""
    a, b, x = c, e, tau
    every: tuple[Any, ...] = (
        [(a, b), (b, x)],
        [(b, x), (a, b)],
        {a: b, b: x},
        {a + b: x, a: b},
        ((a, 2), (b, 3)),
    )
    for rules in every:
        scalar: Any = (a + b) * a
        for options in ({}, {"simultaneous": True}):
            expected = scalar.subs(rules, **options)
            assert (scalar * Q).subs(rules, **options) == expected * Q


def test_larger_parts_first() -> None:
    both = {Q: R, S: nodes.tanh(S)}
    assert A.subs(both) == A.subs(S, nodes.tanh(S)).subs(Q, R) != A.subs(Q, R)
    assert A.subs(dict(reversed(both.items()))) == A.subs(both)


def test_every_way_of_giving_pairs() -> None:
    for rules in (
        *((n, 5), ([(n, 5)],), (((n, 5),),), ({n: 5},), (iter([(n, 5)]),)),
        *(({(n, 5)},), ({n: 5}.items(),), ([sympy.Tuple(n, 5)],), (sympy.Dict({n: 5}),)),
    ):
        assert A.subs(*rules).shape == (d_v, 5)


def test_a_replacement_that_does_not_fit_is_a_shape_error() -> None:
    for call in (
        lambda: A.xreplace({Q: Q.T}),
        lambda: A.subs(Q, Q.T),
        lambda: (Q + R).subs(R, K),
        lambda: nodes.hadamard(Q, R).xreplace({R: K}),
        lambda: (Q + R).xreplace({Q: Q @ Q.T}),
    ):
        with pytest.raises(ShapeError):
            call()


def test_tags_are_replaced_in_sizes_and_values() -> None:
    assert A.xreplace({n: m}).shape == (d_v, m)
    assert A.xreplace({n: 5}).sizes[1].constant == 5
    replaced = A.xreplace({d_k: 2 * h})
    assert replaced == V @ nodes.softmax(
        nodes.matrix("K", 2 * h, m).T @ nodes.matrix("Q", 2 * h, n) / nodes.sqrt(2 * h), axis=0
    )
    assert A.xreplace({n: m, m: n}).shape == (d_v, m)
    assert A.xreplace({n: sympy.Symbol("k")}).dims[-1] == nodes.dim("k")
    assert A.xreplace({sympy.Symbol("n"): 5}).shape == (d_v, 5)
    assert nodes.ones(n, m).subs(n, h).shape == (h, m)
    assert nodes.vector("v", n).subs(n, 3).shape == (3, 1)


@pytest.mark.parametrize("size", [0, -1, True, 1.5, 2.0, sympy.Rational(1, 2), c, n - n, None])
def test_sizes_that_are_none_are_refused(size: Any) -> None:
    with pytest.raises(SizeError):
        A.xreplace({n: size})


def test_scalars_are_replaced_by_numbers_and_scalars() -> None:
    assert (c * Q).xreplace({c: 2}) == 2 * Q
    assert (c * Q).subs(c, 0.1) == sympy.Rational(1, 10) * Q
    assert (c * Q / tau).subs({c: tau, tau: 3}, simultaneous=True) == tau * Q / 3
    assert (tau * Q).subs(sympy.Symbol("tau"), 2) == 2 * Q
    assert (c * Q).subs(c, nodes.sqrt(sympy.Symbol("d_k"))) == nodes.sqrt(d_k) * Q


PAIRS: Any = [(Q, R)]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: (Q / c).subs(c, 0), NotAnOperandError),
        (lambda: (c * Q).subs(c, sympy.oo), NotAnOperandError),
        (lambda: (c * Q).subs(c, Q), NotAnOperandError),
        (lambda: A.subs(Q, 2), NotAnOperandError),
        (lambda: A.subs(Q, c), NotAnOperandError),
        (lambda: A.xreplace({Q: sympy.MatrixSymbol("Q", d_k, n)}), NotAnOperandError),
        (lambda: A.xreplace({sympy.MatrixSymbol("Q", d_k, n): Q}), NotAnOperandError),
        (lambda: A.xreplace({sympy.Integer(0): 1}), NotAnOperandError),
        (lambda: A.xreplace({2: 3}), NotAnOperandError),
        (lambda: A.xreplace(PAIRS), OperationRefusedError),
        (lambda: A.subs(), OperationRefusedError),
        (lambda: A.subs(n), OperationRefusedError),
        (lambda: A.subs(n, m, h), OperationRefusedError),
        (lambda: A.subs([n, m]), OperationRefusedError),
        (lambda: A.subs([(n, m, h)]), OperationRefusedError),
        (lambda: A.subs(n, m, hack=True), OperationRefusedError),
        (lambda: A.replace(Q, R), OperationRefusedError),
        (lambda: A.subs(np.eye(2), Q), OperationRefusedError),
        (lambda: A.subs([1], Q), OperationRefusedError),
        (lambda: A.subs([(np.eye(2), Q)]), OperationRefusedError),
        (lambda: A.subs(np.array(1.0), Q), OperationRefusedError),
        (lambda: A.xreplace({Q: np.array(1.0)}), NotAnOperandError),
        (lambda: A.xreplace({Q: np.eye(2)}), NotAnOperandError),
        (lambda: TOTAL.xreplace({i: j}), NotAnOperandError),
        (lambda: TOTAL.subs(i, j), NotAnOperandError),
    ],
)
def test_what_cannot_be_replaced(call: Callable[[], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


CODE = "__import__('os').mkdir('ran')"

TEXTS: list[Callable[[Any], Any]] = [
    *(lambda x: x.subs(n, CODE), lambda x: x.subs(CODE, n), lambda x: x.subs({n: CODE})),
    *(lambda x: x.subs({CODE: n}), lambda x: x.subs([(n, CODE)]), lambda x: x.subs([[CODE, n]])),
    *(lambda x: x.subs(((n, CODE),)), lambda x: x.subs({(n, CODE)})),
    *(lambda x: x.subs(iter([(n, CODE)])), lambda x: x.subs(p for p in [(CODE, n)])),
    *(lambda x: x.subs(n, [CODE]), lambda x: x.subs(n, {m: CODE}), lambda x: x.subs(n, {CODE})),
    *(lambda x: x.subs({n: CODE}, simultaneous=True), lambda x: x.subs({n: m}.items() and CODE)),
    *(lambda x: x.subs({n: CODE}.items()),),
]


@pytest.mark.parametrize("call", TEXTS)
@pytest.mark.parametrize("expression", [A, n, c, tau], ids=str)
def test_text_is_never_evaluated(
    expression: Any,
    call: Callable[[Any], Any],
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TextRefusedError, match="subs does not take text"):
        call(expression)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("rule", [{n: CODE}, {CODE: n}, {Q: CODE}, {n: [CODE]}])
def test_xreplace_takes_no_text(rule: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TextRefusedError):
        A.xreplace(rule)
    with pytest.raises(TextRefusedError):
        A.subs(n, m, hidden=CODE)
    assert not list(tmp_path.iterdir())


# Indices: what comes in is for the index that it was written with, and no other.

i, j = nodes.index("i", h), nodes.index("j", h)
W, F = nodes.family("W", h, d_k, d_k), nodes.family("F", h, d_k, n)
TOTAL = nodes.sum_over(W[i] @ Q, i)


@pytest.mark.parametrize(
    "call",
    [
        lambda: TOTAL.xreplace({Q: F[i]}),
        lambda: TOTAL.xreplace({Q: R, W[i]: W[i] @ nodes.sum_over(W[i], i), R: F[i]}),
        lambda: TOTAL.subs(Q, F[i]),
        lambda: TOTAL.subs([(Q, R), (R, F[i])]),
        lambda: TOTAL.subs({Q: F[i]}, simultaneous=True),
        lambda: nodes.heads(W[i] @ Q, i, axis=0).subs(Q, F[i]),
        lambda: nodes.pairwise(lambda q, k: k.T @ TOTAL @ Q.T @ k, Q, K).subs(Q, F[i]),
    ],
)
def test_a_free_index_is_not_captured(call: Callable[[], Any]) -> None:
    with pytest.raises(SymbolClashError, match="i is two different symbols") as caught:
        call()
    assert "another letter" in str(caught.value)


def test_an_index_is_captured_where_that_is_meant() -> None:
    """A member is replaced for every index, and another letter stays free."""
    replaced = nodes.sum_over(W[i].T @ F[i], i)
    assert nodes.sum_over(W[i] @ F[i], i).xreplace({W[i]: W[i].T}) == replaced
    assert TOTAL.subs(Q, F[j]) == nodes.sum_over(W[i] @ F[j], i)
    assert TOTAL.subs(Q, F[j]).indices == (j,)
    assert (W[i] @ Q).subs(Q, F[i]) == W[i] @ F[i]
