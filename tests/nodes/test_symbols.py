"""Tags, scalars and names: what is taken in by name, and what is refused at the door."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

import symattn as sa
import symattn.nodes as nodes
from symattn.errors import (
    NameSyntaxError,
    NotAnOperandError,
    NotSupportedError,
    SizeError,
    SizeSyntaxError,
    SymbolClashError,
    TextRefusedError,
)
from symattn.meaning.form import Extent, Parameter
from symattn.nodes.scalars import scalar_form
from symattn.tags import parse_size

h, d_k, d_v, n, m = nodes.dims("h d_k d_v n m")
Q, K = nodes.matrix("Q", d_k, n), nodes.matrix("K", d_k, m)
c = nodes.scalar("c")


# Tags.


def test_tags() -> None:
    assert nodes.dims("n") == (n,)
    assert nodes.dims("n, m") == nodes.dims("n m") == nodes.dims(" n,m ") == (n, m)
    assert nodes.dim("d_{k}") == d_k
    assert n.is_positive
    assert n.is_integer


@pytest.mark.parametrize("names", ["", "  ", ",", "n*m", "2", "n m!", "n.real", 3, None, ["n"], n])
def test_what_is_no_tag(names: Any) -> None:
    with pytest.raises(SizeSyntaxError):
        nodes.dims(names)
    with pytest.raises(SizeSyntaxError):
        nodes.dim(names)


# Sizes.

SIZES: list[tuple[Any, str]] = [
    *((n, "n"), (3, "3"), (np.int64(3), "3"), (sympy.Integer(3), "3"), ("n", "n")),
    *(("h*d_k", "h*d_k"), (h * d_k, "h*d_k"), (h * (d_k + d_v), "h*d_k + h*d_v"), (2 * n, "2*n")),
    *((sympy.Symbol("n"), "n"), (sympy.Symbol("n", positive=True), "n"), (n**2, "n^2")),
    *((sympy.Symbol("d_model") / h, "d_model//h"), (n // 2, "n//2"), (parse_size("n+1"), "n+1")),
    *((n * (n + 1) / 2, "(n^2+n)//2"),),
]


@pytest.mark.parametrize(("size", "meaning"), SIZES)
def test_sizes(size: Any, meaning: str) -> None:
    for built in (nodes.matrix("X", size, m), nodes.ones(size, m), nodes.vector("X", size)):
        assert built.sizes[0] == parse_size(meaning)
    assert nodes.identity(size).sizes == (parse_size(meaning),) * 2


NO_SIZES: list[tuple[Any, type[Exception]]] = [
    *((size, SizeError) for size in (0, -1, True, False, np.True_, 2.0, 2.5, np.float64(3), 1j)),
    *((size, SizeError) for size in (None, [n], (n,), object(), np.ones(2), sympy.Rational(1, 2))),
    *((size, SizeError) for size in (sympy.Float(2), sympy.oo, sympy.nan, sympy.S.true, sympy.I)),
    *((size, SizeError) for size in (n - n, nodes.sqrt(n), 2**n, sympy.exp(n), c, n + c, Q)),
    *((size, SizeError) for size in (sympy.Dummy("n"), n * 0.5, 10**30, 10**5000, n**40)),
    *(((n + m + h + d_k + d_v + 1) ** 12, SizeError),),
    *((code, SizeSyntaxError) for code in ("__import__('os')", "", "n;m", "n m", "n.real", "0x1")),
    *((code, SizeSyntaxError) for code in ("(" * 500 + "n", "9" * 5000, "n**99", "n" * 999)),
]


@pytest.mark.parametrize(("size", "error"), NO_SIZES, ids=lambda value: type(value).__name__)
def test_what_is_no_size(size: Any, error: type[Exception]) -> None:
    for build in (
        lambda: nodes.matrix("X", size, m),
        lambda: nodes.matrix("X", m, size),
        lambda: nodes.vector("x", size),
        lambda: nodes.ones(m, size),
        lambda: nodes.identity(size),
    ):
        with pytest.raises(error) as caught:
            build()
        assert len(str(caught.value)) < 400


# Names.


@pytest.mark.parametrize(
    "name", ["Q", "W^Q", "W_Q^{(1)}", "Q'", "d_{model}", "λ", "lambda", "Ω", "X1", "W^Q_i''"]
)
def test_names(name: str) -> None:
    X = nodes.matrix(name, n, m)
    assert str(X).isidentifier()
    assert nodes.matrix(X.name, n, m) == X
    assert nodes.scalar(name).name == X.name


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            " ",
            "Q K",
            "Q*K",
            "1Q",
            "_Q",
            "Q_",
            "Q^",
            "Q\n",
            "Q;",
            "Q.T",
            "$Q$",
            "Q^{",
            "é",
            "К",
        ),
        *("Q" * 65, "\\mathbf{Q}", "<b>", None, 3, Q, sympy.Symbol("Q"), b"Q"),
    ],
    ids=repr,
)
def test_what_is_no_name(name: Any) -> None:
    for build in (
        lambda: nodes.matrix(name, n, m),
        lambda: nodes.vector(name, n),
        lambda: nodes.scalar(name),
        lambda: nodes.function(name),
    ):
        with pytest.raises(NameSyntaxError):
            build()


def test_names_that_look_alike_are_one_symbol() -> None:
    assert nodes.matrix("\u212a", n, m) == nodes.matrix("K", n, m)  # the sign for kelvin
    assert nodes.matrix("\u2126", n, m) == nodes.matrix("Ω", n, m)  # the sign for ohm
    assert nodes.matrix("W^{Q}", n, m) == nodes.matrix("W^Q", n, m)


# Scalars.


def symbols(name: str, **assumptions: bool) -> Any:
    """A symbol of SymPy's own, whose types do not know what it may be multiplied with."""
    return sympy.Symbol(name, **assumptions)


def test_a_symbol_beside_a_matrix_is_its_tag_by_name() -> None:
    plain: Any = sympy.Symbol("d_k")
    assert K.T @ Q / nodes.sqrt(plain) == K.T @ Q / nodes.sqrt(d_k)
    assert plain * Q == d_k * Q == sympy.Symbol("d_k", positive=True) * Q
    assert (plain * Q).free_symbols == {Q, d_k}
    assert scalar_form((plain * Q).operands[0]) == Extent(parse_size("d_k"))
    assert Q / (sympy.Symbol("n") + sympy.Symbol("t")) == Q / (n + nodes.scalar("t"))


def test_any_other_symbol_is_a_real_scalar() -> None:
    plain, positive_plain = symbols("t"), symbols("t", positive=True)
    product = plain * Q
    assert product == nodes.scalar("t") * Q
    assert product.scalars() == (nodes.scalar("t"),)
    positive = positive_plain * Q
    assert positive == nodes.scalar("t", positive=True) * Q != product
    assert scalar_form(positive.scalars()[0]) == Parameter("t", True)


def test_one_name_is_one_thing() -> None:
    t = nodes.scalar("t", positive=True)
    for build in (
        lambda: nodes.scalar("n") * Q,
        lambda: Q / nodes.scalar("d_k"),
        lambda: (nodes.scalar("d_k") * nodes.sqrt(d_k)) * Q,
        lambda: (Q @ nodes.scalar("m")).T @ K,
        lambda: t * Q + nodes.scalar("t") * Q,
        lambda: t * nodes.scalar("t") * Q,
        lambda: t * (nodes.scalar("t") * Q),
    ):
        with pytest.raises(SymbolClashError, match="is two different symbols here"):
            build()


def test_scalar_arithmetic() -> None:
    assert str(nodes.sqrt(2) * Q) == "sqrt(2)*Q"
    assert str(c ** sympy.Rational(2, 3) * Q) == "c**Rational(2, 3)*Q"
    assert str(Q / (c + 1)) == "Q / (c + 1)"
    assert str(nodes.exp(c) * Q) == "exp(c)*Q"
    assert nodes.sqrt(4) * Q == 2 * Q
    assert nodes.square(c) == c**2
    assert nodes.reciprocal(c) == 1 / c
    assert nodes.log(1) == 0
    assert nodes.tanh(0.5) == sympy.tanh(sympy.Rational(1, 2))
    assert sympy.E * Q


UNKNOWN: list[Callable[[], Any]] = [
    *(lambda: sympy.sign(c) * Q, lambda: sympy.gamma(c) * Q, lambda: sympy.pi * Q),
    *(lambda: c**c * Q, lambda: 2**c * Q, lambda: sympy.Max(c, 1) * Q, lambda: Q / sympy.sinh(c)),
    *(lambda: sympy.Function("f")(c) * Q, lambda: nodes.relu(c), lambda: nodes.softplus(2)),
    *(lambda: nodes.function("phi")(c),),
]


@pytest.mark.parametrize("call", UNKNOWN)
def test_scalar_functions_that_are_not_known_are_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(NotSupportedError, match="not supported yet"):
        call()


@pytest.mark.parametrize(
    "call",
    [
        *(lambda: nodes.sqrt(-2), lambda: nodes.log(0), lambda: nodes.reciprocal(0)),
        *(lambda: nodes.log(-1), lambda: nodes.exp(sympy.I), lambda: nodes.tanh(True)),
        *(lambda: Q / 0, lambda: Q / 0.0, lambda: Q / (c - c), lambda: nodes.tanh(np.ones(2))),
    ],
)
def test_scalars_without_a_real_value_are_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(NotAnOperandError):
        call()


def test_scalars_take_no_text() -> None:
    for call in (nodes.sqrt, nodes.exp, nodes.tanh, nodes.relu, nodes.function("phi")):
        with pytest.raises(TextRefusedError):
            call("__import__('os')")


# What is public is explained.


@pytest.mark.parametrize(
    "module", [module.name for module in pkgutil.iter_modules(nodes.__path__, "symattn.nodes.")]
)
def test_every_public_function_shows_an_example(module: str) -> None:
    here = importlib.import_module(module)
    for name, value in vars(here).items():
        own = getattr(value, "__module__", "") == module and not name.startswith("_")
        if own and (inspect.isfunction(value) or inspect.isclass(value)):
            assert inspect.getdoc(value), name
        if own and inspect.isfunction(value):
            assert ">>> " in (inspect.getdoc(value) or ""), name


# What an expression is made of.


def test_symbols_of_an_expression() -> None:
    A = nodes.matrix("V", d_v, m) @ nodes.softmax(c * K.T @ Q / nodes.sqrt(h), axis=0)
    assert A.free_symbols == {Q, K, nodes.matrix("V", d_v, m), c, h}
    assert A.dims == (d_v, m, d_k, n, h)
    assert A.inputs() == (nodes.matrix("V", d_v, m), K, Q)
    assert A.scalars() == (c,)
    assert A.shape == (d_v, n)
    B = nodes.ones(n, 1) @ nodes.ones(1, m) + nodes.function("phi")(nodes.matrix("X", n, m))
    assert B.free_symbols == {nodes.matrix("X", n, m)}
    assert B.dims == (n, m)
    assert nodes.identity(h).free_symbols == set()
    assert nodes.identity(h).dims == (h,)


def nested(depth: int) -> Any:
    X = nodes.matrix("S", m, n)
    for _ in range(depth):
        X = nodes.tanh(X)
    return X


@pytest.mark.parametrize(
    "call",
    [
        lambda X: sa.prove(X, X.T.T),
        lambda X: sa.translate(X, to="row"),
        lambda X: sa.lambdify(X.inputs(), X),
        lambda X: X.xreplace({X.inputs()[0]: 2 * X.inputs()[0]}),
    ],
)
def test_what_is_nested_too_deeply_is_said_to_be(call: Callable[[Any], Any]) -> None:
    try:
        call(nested(3000))
    except sa.NotSupportedError as error:
        assert "so many operations inside one another" in str(error)  # noqa: PT017
    call(nested(100))


@pytest.mark.parametrize(
    "huge",
    [
        lambda: 10**5000,
        lambda: Fraction(1, 10**5000),
        lambda: sympy.Symbol("c") ** 10**9,
        lambda: sympy.Pow(2, 10**8, evaluate=False),
    ],
)
def test_numbers_that_nobody_writes_are_refused_at_once(huge: Callable[[], Any]) -> None:
    with pytest.raises(sa.NotAnOperandError, match="over"):
        nodes.MatrixProduct(Q, huge())
