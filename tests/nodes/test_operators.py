"""Operators: order and parentheses are kept, nothing is simplified, arrays and text stay out."""

import copy
import pickle
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from sympy.core.symbol import Str

import symattn.nodes as nodes
from symattn.errors import NotAnOperandError, OperationRefusedError, ShapeError, TextRefusedError
from symattn.nodes.core import Node
from symattn.nodes.given import Given
from symattn.notation import latex, text

d_k, d_v, n, m = nodes.dims("d_k d_v n m")
c = nodes.scalar("c")
Q, R, K = nodes.matrix("Q", d_k, n), nodes.matrix("R", d_k, n), nodes.matrix("K", d_k, m)
V, W = nodes.matrix("V", d_v, m), nodes.matrix("W", d_k, d_k)
S = K.T @ Q / nodes.sqrt(d_k)
A = V @ nodes.softmax(S, axis=0)
with nodes.assuming("m = n"):
    RELATED = K @ Q.T

EVERY_KIND = [
    *(Q, nodes.vector("b", d_k), nodes.ones(n, 1), nodes.identity(n), Q.T, -Q, K.T @ Q, Q + R, S),
    *(nodes.hadamard(Q, R), nodes.tanh(Q), nodes.function("phi")(Q), RELATED, A, c * Q),
    *(nodes.softmax(Q, axis=0), nodes.max(Q, axis=1), 0.1 * Q, Q - R - R, RELATED.T @ W @ RELATED),
    *(nodes.scalar("tau", positive=True) * Q, nodes.matrix("W^{Q}_1'", 2 * n, 3)),
]
each_kind = pytest.mark.parametrize("node", EVERY_KIND, ids=str)


# What is written is kept.


def test_left_chains_are_flat_and_parentheses_are_kept() -> None:
    flat = K.T @ W @ Q
    assert flat.operands == (K.T, W, Q)
    assert flat == (K.T @ W) @ Q
    nested = K.T @ (W @ Q)
    assert nested.operands == (K.T, W @ Q)
    assert nested != flat
    assert str(nested) == "K.T @ (W @ Q)"
    assert (Q + R - Q).operands == (Q, R, -Q)
    assert (Q + (R - Q)).operands == (Q, R - Q)
    assert str(Q - (R - Q)) == "Q - (R - Q)"


def test_star_and_at_are_one_product() -> None:
    assert K.T * W * Q == K.T @ W @ Q
    assert 2 @ Q == 2 * Q
    assert str(2 * Q * c) == "2*Q*c"


def test_nothing_is_simplified() -> None:
    minus = -Q
    for node, written in [
        (Q * 0, "Q*0"),
        (0 * Q, "0*Q"),
        (1 * Q, "1*Q"),
        (Q - Q, "Q - Q"),
        (-minus, "-(-Q)"),
        (Q.T.T, "Q.T.T"),
        ((W @ Q).T, "(W @ Q).T"),
        (Q / 1, "Q / 1"),
        (Q / 2 / 3, "Q / 2 / 3"),
        (nodes.identity(d_k) @ Q, "identity(d_k) @ Q"),
    ]:
        assert str(node) == written


def test_sums_start_from_zero() -> None:
    assert sum([Q, R]) == Q + R
    assert sum([Q]) == 0 + Q == Q + 0 == Q - 0 == +Q == Q
    assert 0 - Q == -Q


# Numbers.

NUMBERS: list[tuple[Any, sympy.Expr]] = [
    *((3, sympy.Integer(3)), (np.int64(3), sympy.Integer(3)), (np.uint8(3), sympy.Integer(3))),
    *((Fraction(1, 3), sympy.Rational(1, 3)), (sympy.Rational(1, 3), sympy.Rational(1, 3))),
    *((0.1, sympy.Rational(1, 10)), (np.float64(0.1), sympy.Rational(1, 10))),
    *((np.float32(0.1), sympy.Rational(1, 10)), (np.float16(0.1), sympy.Rational(1, 10))),
    *((1e-3, sympy.Rational(1, 1000)), (sympy.Float("0.1"), sympy.Rational(1, 10))),
    *((1e22, sympy.Integer(10**22)), (-2.5, sympy.Rational(-5, 2))),
]


@pytest.mark.parametrize(("number", "exact"), NUMBERS)
def test_numbers_are_exact_decimals_on_either_side(number: Any, exact: sympy.Expr) -> None:
    assert (number * Q).operands == (exact, Q)
    assert (Q * number).operands == (Q, exact)
    assert (Q / number).operands == (Q, exact)


def test_floats_inside_scalars_are_exact_too() -> None:
    assert (0.5 * c) * Q == (c / 2) * Q
    assert nodes.sqrt(0.25) * Q == sympy.Rational(1, 2) * Q


REFUSED_NUMBERS: list[Any] = [
    *(True, np.bool_(True), 1 + 2j, np.complex64(1), float("inf"), float("nan"), np.float64("nan")),
    *(-np.inf, None, [1], (1, 2), {1: 2}, object(), sympy.I, sympy.oo, sympy.nan, 2 + sympy.I),
    *(sympy.log(-1), sympy.sqrt(-2), sympy.Dummy("x"), sympy.Symbol("x", imaginary=True)),
    *(sympy.Symbol("x", commutative=False), sympy.Function("f")(c), sympy.Wild("x")),
    *(np.array(3.0), np.ones(3), np.ones((2, 2)), sympy.Matrix([1])),
]


@pytest.mark.parametrize("value", REFUSED_NUMBERS, ids=lambda value: type(value).__name__)
def test_what_is_no_finite_real_number_is_refused(value: Any) -> None:
    for call in (lambda: Q * value, lambda: Q @ value, lambda: Q / value):
        with pytest.raises((NotAnOperandError, NotImplementedError)):
            call()
    with pytest.raises((NotAnOperandError, OperationRefusedError, NotImplementedError)):
        nodes.hadamard(Q, value)


ARRAY_CALLS: list[Callable[[Any], Any]] = [
    *(lambda a: a @ Q, lambda a: Q @ a, lambda a: a * Q, lambda a: Q * a, lambda a: a + Q),
    *(lambda a: Q + a, lambda a: a - Q, lambda a: Q - a, lambda a: a / Q, lambda a: Q / a),
    *(lambda a: np.asarray(Q), lambda a: np.array([Q, Q]), lambda a: np.sum([Q, R])),
    *(lambda a: nodes.tanh(a), lambda a: nodes.softmax(a, axis=0), lambda a: a**Q),
]


@pytest.mark.parametrize("call", ARRAY_CALLS)
@pytest.mark.parametrize("array", [np.ones((2, 2)), np.ones(()), np.ones((2, 2), object)])
def test_arrays_stay_out_and_their_entries_are_not_told(call: Any, array: Any) -> None:
    with pytest.raises((NotAnOperandError, OperationRefusedError)) as caught:
        call(array)
    assert "1." not in str(caught.value)


def test_ufuncs_refuse_formulas() -> None:
    with pytest.raises(NotAnOperandError):
        np.multiply(np.ones(2), Q)  # type: ignore[call-overload]
    for function, there in ((np.exp, "sa.exp(Q)"), (np.absolute, "sa.abs(Q)"), (np.tan, "arrays")):
        with pytest.raises(OperationRefusedError, match=re.escape(there)):
            function(Q)  # type: ignore[call-overload]
    with pytest.raises(OperationRefusedError):
        np.add(Q, Q, out=np.ones(2))  # type: ignore[call-overload]
    with pytest.raises(OperationRefusedError):
        np.add.reduce(Q)  # type: ignore[call-overload]


def test_numbers_of_numpy_on_the_left_are_numbers() -> None:
    assert np.float64(2) * Q == 2 * Q
    assert (np.float64(2) == Q, np.float64(2) != Q) == (False, True)
    with pytest.raises(OperationRefusedError):
        np.float64(2) < Q  # type: ignore[operator]  # noqa: B015


CODE = "__import__('os').mkdir('ran')"


@pytest.mark.parametrize(
    "call",
    [
        *(lambda: Q * CODE, lambda: CODE * Q, lambda: Q + CODE, lambda: CODE + Q, lambda: Q - CODE),
        *(lambda: CODE - Q, lambda: Q / CODE, lambda: Q @ CODE, lambda: nodes.tanh(CODE)),
        *(lambda: nodes.sqrt(CODE), lambda: nodes.function("phi")(CODE), lambda: A.has(CODE)),
        *(lambda: nodes.softmax(CODE, axis=0), lambda: nodes.hadamard(Q, CODE)),
        *(lambda: nodes.Program(S=CODE), lambda: nodes.max(CODE, axis=0)),
    ],
)
def test_text_is_never_evaluated(
    call: Callable[[], Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TextRefusedError, match="text is never evaluated"):
        call()
    assert not list(tmp_path.iterdir())


# Copies.


@each_kind
def test_every_copy_is_equal(node: Node) -> None:
    copies = [
        *(pickle.loads(pickle.dumps(node, protocol)) for protocol in range(2, 6)),
        *(copy.copy(node), copy.deepcopy(node), node.copy(), node.func(*node.args)),
        *(node.xreplace({}), node.rebuilt(lambda part: part.copy())),
    ]
    for other in copies:
        assert type(other) is type(node)
        assert other == node
        assert hash(other) == hash(node)
        assert other.sizes == node.sizes
        assert other.tags == node.tags
        assert other.given == node.given
        assert other.free_symbols == node.free_symbols
        assert str(other) == str(node)


NAMES = {name: getattr(nodes, name) for name in nodes.__all__} | {
    "Str": Str,
    "Given": Given,
    **{
        name: getattr(sympy, name) for name in ("Integer", "Rational", "Mul", "Pow", "Add", "Tuple")
    },
}


@each_kind
def test_srepr_reads_back(node: Node) -> None:
    assert eval(sympy.srepr(node), dict(NAMES)) == node


def _names(node: Node) -> dict[str, Any]:
    """The names under which a person has what a formula is made of."""
    from_sympy = {"Rational": sympy.Rational}
    own = {name: getattr(nodes, name) for name in nodes.__all__ if name.islower()}
    matrices = {str(symbol): symbol for symbol in node.inputs()}
    return (
        own
        | from_sympy
        | {d.name: d for d in node.dims}
        | {s.name: s for s in node.scalars()}
        | matrices
    )


@each_kind
def test_str_is_python_that_builds_it_again(node: Node) -> None:
    with nodes.assuming(*filter(None, [node.given.text()])):
        assert eval(str(node), _names(node)) == node


def test_equality_is_structural() -> None:
    assert nodes.matrix("Q", d_k, n) == Q != nodes.matrix("Q", n, d_k)
    assert nodes.vector("b", n) != nodes.matrix("b", n, 1)
    assert Q != R
    assert Q != 2
    assert Q != "Q"
    assert Q != Q.T.T
    assert len({Q, nodes.matrix("Q", d_k, n), Q.T}) == 2


# Long and deep.

SQUARE = nodes.matrix("X", n, n)
LONG = 3000


@pytest.mark.parametrize(
    ("step", "count"),
    [
        (lambda x: x @ SQUARE, LONG),
        (lambda x: x + SQUARE, LONG),
        (lambda x: x - SQUARE, LONG),
        (lambda x: x * 2, LONG),
        (lambda x: SQUARE @ (x), 200),
        (lambda x: SQUARE + (x), 200),
        (lambda x: nodes.tanh(x), 200),
        (lambda x: nodes.softmax(x, axis=0), 90),
        (lambda x: SQUARE @ (x + SQUARE), 100),
    ],
)
def test_long_chains_and_deep_parentheses_do_not_recurse_too_deeply(
    step: Callable[[Node], Node], count: int
) -> None:
    node: Node = SQUARE
    for _ in range(count):
        node = step(node)
    assert node.shape == (n, n)
    assert len(str(node)) > count
    assert latex(node)
    assert text(node)
    assert node.free_symbols == {SQUARE}
    assert node.meaning((), ())
    assert pickle.loads(pickle.dumps(node)) == node
    assert node.xreplace({SQUARE: SQUARE.T}).inputs() == (SQUARE,)
    assert hash(node) == hash(node.copy())


def test_a_product_of_matrices_of_one_shape_names_the_product_by_entry() -> None:
    P, D = nodes.matrix("P", "n", "m"), nodes.matrix("D", "n", "m")
    for product in (lambda: P * D, lambda: P @ D):
        with pytest.raises(ShapeError, match=r"by entry it is sa\.hadamard\(P, D\)"):
            product()
