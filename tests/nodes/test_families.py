"""Families of matrices: their members, which indices fit, and what is refused."""

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy

import symattn as sa
from symattn.nodes import Family
from symattn.nodes.families import Member
from symattn.tags import Size

h, g, d, n, m = sa.dims("h g d n m")
i, j, k = sa.index("i", h), sa.index("j", g), sa.index("k", h)
W, F = sa.family("W^Q", h, m, d), sa.family("F", (g, h), n, m)
X = sa.matrix("X", d, n)


def test_a_family_is_its_name_and_its_sizes() -> None:
    assert sa.family("W^{Q}", "h", "m", "d") == W
    assert hash(sa.family("W^{Q}", "h", "m", "d")) == hash(W)
    assert sa.family("W^Q", g, m, d) != W != sa.family("W^K", h, m, d)
    assert sa.family("F", [g, h], n, m) == F != sa.family("F", (h, g), n, m)
    assert (W.name, W.label, repr(W)) == ("W^Q", "W^Q", "W_Q")
    assert W.shape == (h, m, d)
    assert (W.dims, W.tags) == ((h, m, d), ("h", "m", "d"))
    assert F.counts == (Size.tag("g"), Size.tag("h"))
    assert sa.family("W", 3, 2 * n, 1).shape == (3, 2 * n, 1)


def test_a_member_is_a_matrix_in_which_its_indices_are_free() -> None:
    assert isinstance(W[i], Member)
    assert W[i].shape == (m, d)
    assert W[i] == W[i] != W[k] != F[j, i]
    assert (W[i].label, W[i].source, str(W[i])) == ("W^Q", W, "W_Q[i]")
    assert (W[i] @ X).indices == (i,)
    assert F[j, i].indices == (j, i)
    assert (F[j, k] @ W[i]).indices == (j, k, i)
    assert (W[i] @ X + W[i] @ X).indices == (i,)
    assert W[i].dims == W.dims == (h, m, d)
    assert W[i].free_symbols == {W[i]}


def test_inputs_are_families_and_symbols_are_members() -> None:
    both = W[i].T @ W[k] @ X
    assert both.symbols() == (W[i], W[k], X)
    assert both.inputs() == (W, X)
    assert sa.heads(both, i, axis=0).inputs() == (W, X)


def test_a_family_of_one_has_a_member_too() -> None:
    one = sa.index("i", 1)
    alone = sa.family("W", 1, m, d)[one]
    assert alone.shape == (m, d)
    assert alone.indices == (one,)
    np.testing.assert_array_equal(
        sa.lambdify([alone.source], sa.heads(alone, one, axis=0))(np.arange(6.0).reshape(1, 2, 3)),
        np.arange(6.0).reshape(2, 3),
    )


NO_MEMBERS: list[tuple[Callable[[], Any], str]] = [
    (lambda: W[0], 'W^Q[0] is no member of the family W^Q: it takes 1 index, made with '
                   'sa.index("i", h)'),
    (lambda: W["i"], "W^Q[text 'i'] is no member of the family W^Q: it takes 1 index, made with "
                     'sa.index("i", h)'),
    (lambda: W[sympy.Symbol("i")], "W^Q[i] is no member of the family W^Q: it takes 1 index, made "
                                   'with sa.index("i", h)'),
    (lambda: W[:], "W^Q[a slice] is no member of the family W^Q: it takes 1 index, made with "
                   'sa.index("i", h)'),
    (lambda: W[()], "W^Q[] is no member of the family W^Q: it takes 1 index, made with "
                    'sa.index("i", h)'),
    (lambda: W[i, k], "W^Q[i, k] is no member of the family W^Q: it takes 1 index, made with "
                      'sa.index("i", h)'),
    (lambda: W[j], "W^Q[j] is no member of the family W^Q: j runs over g, but the family has h "
                   "members"),
    (lambda: W[sa.index("i", 3)], "W^Q[i] is no member of the family W^Q: i runs over 3, but the "
                                  "family has h members"),
    (lambda: F[j], "F[j] is no member of the family F: it takes 2 different indices, made with "
                   'sa.index("i", g), sa.index("j", h)'),
    (lambda: F[i, j], "F[i, j] is no member of the family F: i runs over h, but the family has g "
                      "members"),
    (lambda: sa.family("W", (h, h), n, m)[i, i], "W[i, i] is no member of the family W: it takes 2 "
                                                 'different indices, made with sa.index("i", h), '
                                                 'sa.index("j", h)'),
    (lambda: sa.family("W", (), n, m), "W[] is no member of the family W: a family has one count "
                                       "or more, such as sa.family(name, h, rows, columns)"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), NO_MEMBERS)
def test_what_is_no_member(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(sa.FamilyIndexError) as refused:
        call()
    assert str(refused.value) == message
    assert isinstance(refused.value, LookupError)


def test_the_error_holds_the_facts() -> None:
    with pytest.raises(sa.FamilyIndexError) as refused:
        W[j]
    error = pickle.loads(pickle.dumps(refused.value))
    assert (error.name, error.counts, error.indices) == ("W^Q", ("h",), ("j",))
    assert error.runs == ("j", "g", "h")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("a b", h, n, m), sa.NameSyntaxError),
        (("W", 0, n, m), sa.SizeError),
        (("W", 1.5, n, m), sa.SizeError),
        (("W", h, n, -1), sa.SizeError),
        (("W", h, "n*", m), sa.SizeSyntaxError),
    ],
)
def test_what_is_no_family(arguments: tuple[Any, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        sa.family(*arguments)


def test_a_relation_in_force_makes_an_index_fit_and_is_carried() -> None:
    with pytest.raises(sa.FamilyIndexError):
        W[j]
    with sa.assuming("g = h"):
        product = W[j] @ X
    assert product.given.text() == "g = h"
    assert product.indices == (j,)
    assert product.func(*product.args) == product  # outside as well
    assert pickle.loads(pickle.dumps(product)) == product


def test_a_family_is_not_iterated_over() -> None:
    with pytest.raises(sa.OperationRefusedError) as refused:
        list(W)  # type: ignore[call-overload]
    assert str(refused.value) == (
        "iterating over W^Q is not an operation of formulas: its size is a tag; write W^Q[i] with "
        "sa.index"
    )


@pytest.mark.parametrize(
    "use",
    [
        lambda: W @ X, lambda: X.T @ W, lambda: X + W, lambda: W - X, lambda: W + W,
        lambda: 2 * W, lambda: W * 2, lambda: W / 2, lambda: -W, lambda: W**2,
        lambda: np.ones(2) * W, lambda: sa.softmax(W, axis=0), lambda: sa.heads(W, i, axis=0),
        lambda: sa.sum_over(W, i), lambda: sa.head(W, i, axis=0), lambda: sa.reshape(W, d, m),
        lambda: sa.hadamard(W, W), lambda: sa.concat(W, W, axis=0), lambda: sa.tanh(W),
    ],
)  # fmt: skip
def test_a_family_is_no_operand(use: Callable[[], Any]) -> None:
    with pytest.raises(sa.NotAnOperandError) as refused:
        use()
    assert str(refused.value) == (
        "W_Q cannot stand in a formula: it is a family of matrices; write one of them, such as "
        "W_Q[i]"
    )


def test_every_operator_is_refused() -> None:
    for name in ("add", "sub", "mul", "matmul", "truediv", "pow"):
        for pair in ((W, 2), (2, W)):
            with pytest.raises((sa.NotAnOperandError, TypeError)):
                getattr(operator, name)(*pair)


def test_it_is_written_with_its_indices() -> None:
    assert sa.text(F[j, i]) == "F_{j,i}"
    assert sa.latex(F[j, i], preset="freshrimp") == r"\mathbf{F}_{j,i}"
    assert sa.latex(F[j, i], preset="vaswani") == "F_{j,i}"
    assert sa.text(W[i]) == "W^Q_i"
    assert sa.text(sa.family("W_Q", h, n, m)[i]) == "W^{(i)}_Q"
    assert sa.text(sa.family("W_Q^{a}", h, n, m)[i]) == "W^a_{Q,i}"
    assert sa.text(sa.family("λ'", h, n, m)[sa.index("alpha", h)]) == "λ_α'"


@pytest.mark.parametrize("protocol", range(2, 6))
def test_copies(protocol: int) -> None:
    for original in (W, F, W[i], F[j, i], W[i] @ X, i):
        for other in (
            pickle.loads(pickle.dumps(original, protocol)),
            copy.copy(original),
            copy.deepcopy(original),
        ):
            assert other == original
            assert hash(other) == hash(original)
            assert type(other) is type(original)


def test_tags_are_replaced_in_the_family_and_in_its_indices() -> None:
    for changed, count in ((W[i].subs(h, 4), 4), (W[i].xreplace({h: g * n}), g * n)):
        assert isinstance(changed, Member)
        assert changed.source == sa.family("W^Q", count, m, d)
        assert changed.indices == (sa.index("i", count),)
        assert changed == sa.family("W^Q", count, m, d)[sa.index("i", count)]
    assert W[i].subs(m, 2 * n).shape == (2 * n, d)
    assert F[j, i].subs({g: h}).indices == (sa.index("j", h), i)
    swapped = F[j, i].subs({g: h, h: g}, simultaneous=True)
    assert swapped == sa.family("F", (h, g), n, m)[sa.index("j", h), sa.index("i", g)]


def test_a_member_is_replaced_by_any_matrix() -> None:
    assert (W[i] @ X).xreplace({W[i]: W[k]}) == W[k] @ X
    assert (W[i] @ X).xreplace({W[i]: F[j, i].T @ sa.ones(n, d)}).indices == (j, i)
    assert (W[i] @ X).xreplace({W[k]: X.T}) == W[i] @ X
    with pytest.raises(sa.ShapeError):
        (W[i] @ X).xreplace({W[i]: F[j, i]})


def test_families_are_told_apart_by_type() -> None:
    assert isinstance(W, Family)
    assert sa.matrix("W^Q", m, d) not in (W[i], W)
