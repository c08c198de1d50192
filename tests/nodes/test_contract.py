"""What SymPy gives to every matrix expression: each attribute works, or says what to write."""

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import sympy
from sympy import MatrixExpr
from sympy.printing.lambdarepr import NumExprPrinter, lambdarepr
from sympy.printing.numpy import JaxPrinter
from sympy.printing.pytorch import TorchPrinter
from sympy.printing.tensorflow import TensorflowPrinter

import symattn.nodes as nodes
from symattn.errors import (
    AttributeRefusedError,
    NotSupportedError,
    OperationRefusedError,
    SymattnError,
)
from symattn.nodes.core import Node
from symattn.nodes.refused import ADVICE, PROPERTY_ADVICE

d_k, d_v, n, m = nodes.dims("d_k d_v n m")
c = nodes.scalar("c")
Q, K, V = nodes.matrix("Q", d_k, n), nodes.matrix("K", d_k, m), nodes.matrix("V", d_v, m)
S = K.T @ Q / nodes.sqrt(d_k)
A = V @ nodes.softmax(c * S, axis=0)

EVERY_KIND = [
    *(Q, nodes.vector("b", d_k), nodes.ones(n, 1), nodes.identity(n), Q.T, -Q, K.T @ Q, Q + Q, S),
    *(nodes.hadamard(Q, Q), nodes.tanh(Q), nodes.function("phi")(Q)),
    *(nodes.softmax(Q, axis=0), nodes.max(Q, axis=1), A),
    *(nodes.concat(Q, Q, axis=0), nodes.pairwise(lambda q, k: k.T @ q, Q, K)),
    nodes.positional(lambda i, j: i - j, n, m),
    Q + nodes.additive_mask(nodes.padding(), d_k, n, axis=1),
]

# What each allowed attribute gives, told independently of the code.
WORKS: dict[str, Callable[[], bool]] = {
    "T": lambda: A.T.shape == (n, d_v) and A.T.T != A,
    "args": lambda: A.args == (V, nodes.softmax(c * S, axis=0)),
    "as_coeff_Add": lambda: A.as_coeff_Add() == (0, A),
    "as_coeff_Mul": lambda: A.as_coeff_Mul() == (1, A),
    "as_coeff_mul": lambda: A.as_coeff_mul() == (1, (A,)),
    "as_numer_denom": lambda: A.as_numer_denom() == (A, 1),
    "assumptions0": lambda: A.assumptions0 == {},
    "atoms": lambda: A.atoms(nodes.InputMatrix) == {Q, K, V} and {n, c} <= A.atoms(sympy.Symbol),
    "canonical_variables": lambda: A.canonical_variables == {},
    "class_key": lambda: A.class_key()[2] == "MatrixProduct",
    "cols": lambda: A.cols == n,
    "compare": lambda: A.compare(A) == 0 and A.compare(Q) == -Q.compare(A) != 0,
    "copy": lambda: A.copy() == A,
    "could_extract_minus_sign": lambda: not (-Q).could_extract_minus_sign(),
    "count_ops": lambda: A.count_ops() >= 1,
    "default_assumptions": lambda: A.default_assumptions["commutative"] is False,
    "doit": lambda: (Q - Q).doit() == Q - Q,
    "free_symbols": lambda: A.free_symbols == {Q, K, V, c, d_k},
    "func": lambda: A.func(*A.args) == A,
    "has": lambda: A.has(Q) and A.has(c) and not A.has(nodes.scalar("e")),
    "has_free": lambda: A.has_free(Q) and not A.has_free(nodes.scalar("e")),
    "has_xfree": lambda: A.has_xfree({Q}) and not A.has_xfree({nodes.scalar("e")}),
    "kind": lambda: A.kind is Q.kind,
    "replace": lambda: A.replace(sympy.Piecewise, lambda *x: x) is A,
    "rows": lambda: A.rows == d_v,
    "shape": lambda: A.shape == (d_v, n),
    "simplify": lambda: (Q - Q).simplify() == Q - Q,
    "sort_key": lambda: sorted([A, Q], key=sympy.default_sort_key)[1] in (A, Q),
    "subs": lambda: A.subs(n, 5).shape == (d_v, 5),
    "transpose": lambda: A.transpose() == A.T,
    "xreplace": lambda: A.xreplace({n: 5}).shape == (d_v, 5),
}

# SymPy reads these to decide what something is; every node answers alike.
FLAGS = {"is_Matrix": True, "is_MatrixExpr": True, "is_commutative": False, "is_number": False}


def public(cls: type) -> list[str]:
    return [name for name in dir(cls) if not name.startswith("_")]


@pytest.mark.parametrize("name", public(MatrixExpr))
def test_every_attribute_of_a_matrix_expression_works_or_is_refused(name: str) -> None:
    """A new attribute of SymPy fails here, with its name, until somebody decides about it."""
    if name in PROPERTY_ADVICE:
        for node in EVERY_KIND:
            with pytest.raises(AttributeRefusedError, match=rf"^\.{name} is not an operation"):
                getattr(node, name)
            assert not hasattr(node, name)
    elif name in ADVICE:
        for node in EVERY_KIND:
            with pytest.raises(
                OperationRefusedError, match=rf"^\.{name} is not an .*: \w"
            ) as caught:
                getattr(node, name)()
            assert caught.value.advice == ADVICE[name]
            with pytest.raises(OperationRefusedError):
                getattr(node, name)(Q, 1, some=2)
    elif name.startswith("is_"):
        for node in EVERY_KIND:
            assert getattr(node, name) in (True, False, None)
            assert name not in FLAGS or getattr(node, name) is FLAGS[name]
    else:
        assert WORKS[name]()


def test_the_lists_name_only_what_sympy_has() -> None:
    listed = {*WORKS, *ADVICE, *PROPERTY_ADVICE}
    assert listed <= set(public(MatrixExpr)), listed - set(public(MatrixExpr))
    assert not set(WORKS) & {*ADVICE, *PROPERTY_ADVICE}


@pytest.mark.parametrize("node", EVERY_KIND, ids=str)
def test_looking_at_every_attribute_does_not_explode(node: Node) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert inspect.getmembers(node)


DUNDERS: list[Callable[[], Any]] = [
    *(lambda: Q**2, lambda: 2**Q, lambda: Q**Q, lambda: c**Q, lambda: 1 / Q, lambda: c / Q),
    *(lambda: Q / Q, lambda: Q // 2, lambda: 2 // Q, lambda: Q % 2, lambda: 2 % Q),
    *(lambda: divmod(Q, 2), lambda: abs(Q), lambda: Q < Q, lambda: Q <= 2, lambda: Q > 2),
    *(lambda: Q > Q, lambda: Q[0, 0], lambda: Q[0], lambda: Q[:], lambda: list(Q)),
    *(lambda: float(Q), lambda: int(Q), lambda: complex(Q), lambda: round(Q), lambda: round(Q, 2)),
    *(lambda: Q + 2, lambda: 2 + Q, lambda: Q - c, lambda: c - Q, lambda: Q + 0.0),
]


@pytest.mark.parametrize("call", DUNDERS)
def test_operators_of_numbers_are_refused_with_a_pointer(call: Callable[[], Any]) -> None:
    with pytest.raises(OperationRefusedError, match=r" is not an operation of formulas: \w"):
        call()


def test_pointers_name_the_operation_to_write() -> None:
    for call, pointer in [
        (lambda: Q**2, "sa.hadamard(Q, Q)"),
        (lambda: 1 / Q, "sa.reciprocal(Q)"),
        (lambda: Q / K, "sa.hadamard(Q, sa.reciprocal(K))"),
        (lambda: 2 + Q, "2 * sa.ones(rows, columns)"),
        (lambda: 2**Q, "sa.exp(Q)"),
    ]:
        with pytest.raises(OperationRefusedError) as caught:
            call()
        assert pointer in str(caught.value)


def test_a_formula_has_no_length_and_is_true_as_in_sympy() -> None:
    with pytest.raises(TypeError, match="has no len"):
        len(Q)  # type: ignore[arg-type]
    assert bool(Q)
    assert bool(Q - Q)


# SymPy's own constructors and functions.

STOPPED: list[Callable[[], Any]] = [
    *(lambda: sympy.Add(Q, Q), lambda: sympy.Add(Q, 2), lambda: sympy.Mul(2, Q)),
    *(lambda: sympy.Mul(Q, Q), lambda: sympy.tanh(Q), lambda: str(sympy.MatMul(K, Q))),
    *(lambda: sympy.expand(A), lambda: sympy.factor(A), lambda: sympy.N(A)),
    *(lambda: sympy.diff(A, c), lambda: sympy.Abs(Q), lambda: sympy.re(Q)),
]


@pytest.mark.parametrize("call", STOPPED)
def test_sympy_functions_that_can_be_stopped_are(call: Callable[[], Any]) -> None:
    with pytest.raises(SymattnError):
        call()


FOREIGN: list[Any] = [
    *(sympy.MatMul(Q.T, K, evaluate=False), sympy.MatAdd(Q, Q), sympy.HadamardProduct(Q, K)),
    *(sympy.exp(Q), sympy.Pow(nodes.identity(n), 2), sympy.Transpose(Q), sympy.Trace(Q @ Q.T)),
    *(sympy.MatrixSymbol("Z", n, d_k), sympy.Matrix([[1, 2], [3, 4]]), sympy.BlockMatrix([[Q]])),
    *(sympy.nan, sympy.I, sympy.oo, sympy.zoo, sympy.S.true, sympy.Tuple(Q), sympy.FiniteSet(1)),
]


@pytest.mark.parametrize("value", FOREIGN, ids=lambda value: type(value).__name__)
def test_what_sympy_made_is_refused_as_an_operand(value: Any) -> None:
    for call in (
        lambda: Q @ value,
        lambda: Q * value,
        lambda: Q + value,
        lambda: Q - value,
        lambda: Q / value,
        lambda: nodes.hadamard(Q, value),
        lambda: nodes.softmax(value, axis=0),
        lambda: nodes.tanh(value),
        lambda: Q.xreplace({Q: value}),
        lambda: nodes.Program(S=value),
    ):
        with pytest.raises(SymattnError):
            call()


@pytest.mark.parametrize(
    "value", [*FOREIGN[:9], sympy.I, sympy.oo], ids=lambda value: type(value).__name__
)
def test_what_sympy_made_is_refused_on_the_left(value: Any) -> None:
    for call in (lambda: value * Q, lambda: value + Q, lambda: value - Q):
        with pytest.raises(SymattnError):
            call()


def test_sympy_functions_that_leave_a_formula_alone() -> None:
    assert sympy.simplify(A) == A
    assert sympy.sympify(A) is A
    assert sympy.count_ops(A) >= 1
    assert set(sympy.postorder_traversal(A)) >= {Q, K, V, S}


def test_equations_between_formulas() -> None:
    P = nodes.matrix("P", n, n)
    assert sympy.Eq(P, P) is sympy.true
    assert isinstance(sympy.Eq(P, P.T), sympy.Eq)
    assert isinstance(sympy.Ne(P, P.T), sympy.Ne)
    assert sympy.latex(sympy.Eq(P, P.T)).count("=") == 1
    assert sympy.Eq(Q, K) is sympy.false


def test_sympy_prints_formulas_as_symattn_does() -> None:
    assert sympy.sstr(A) == str(A) == repr(A) == "V @ softmax(c*(K.T @ Q / sqrt(d_k)), axis=0)"
    assert sympy.latex(S) == r"\frac{\mathbf{K}^{\mathsf{T}} \mathbf{Q}}{\sqrt{d_{k}}}"
    assert sympy.pretty(S) == "KᵀQ / √d_k"
    assert S._repr_latex_() == rf"$\displaystyle {sympy.latex(S)}$"


OTHER_CODE: list[Callable[[], Any]] = [
    *(lambda: sympy.pycode(A), lambda: lambdarepr(A), lambda: sympy.lambdify([Q, K, V], A, "math")),
    *(lambda: sympy.lambdify([Q, K, V], A, "mpmath"), lambda: JaxPrinter().doprint(A)),
    *(lambda: sympy.lambdify([Q, K, V], A, "sympy"), lambda: TorchPrinter().doprint(A)),
    *(lambda: TensorflowPrinter().doprint(A), lambda: NumExprPrinter().doprint(A)),
]


@pytest.mark.parametrize("call", OTHER_CODE)
def test_python_code_of_other_libraries_is_refused_with_a_pointer(call: Callable[[], Any]) -> None:
    with pytest.raises(NotSupportedError, match=r"with sympy\.lambdify use modules='numpy'"):
        call()
