"""The table of functions: each row has all of it, and what it says agrees with itself.

A function that is added as a row, and as a public name, is tested here without another line.
"""

import inspect
import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy

import symattn
import symattn.nodes as nodes
from symattn.errors import NotSupportedError
from symattn.evaluate import FLOATS, entry_value
from symattn.evaluate.arithmetic import apply_function
from symattn.meaning.form import Apply, Form, Number
from symattn.meaning.functions import FUNCTIONS
from symattn.nodes import elementwise
from symattn.nodes.scalars import NAMES_OF_FUNCTIONS, OF_SCALARS

X = nodes.matrix("X", "m", "n")
c = nodes.scalar("c", positive=True)
POINTS = (Fraction(1, 7), Fraction(3, 4), Fraction(5, 2))  # in the domain of every function

each_row = pytest.mark.parametrize("name", FUNCTIONS)


def value(name: str, x: Fraction) -> float:
    """The number by the row's own definition for mpmath."""
    return float(FUNCTIONS[name].mpmath(mpmath, mpmath.mpf(x.numerator) / x.denominator))


def public(name: str) -> Callable[[Any], Any]:
    return getattr(symattn, name)


def test_every_row_is_public_and_nothing_else_is() -> None:
    made = {
        name
        for name, function in vars(elementwise).items()
        if inspect.isfunction(function) and function.__qualname__ == name and name in FUNCTIONS
    }
    assert made == set(FUNCTIONS)
    assert set(FUNCTIONS) <= set(symattn.__all__) & set(nodes.__all__)


@each_row
def test_a_public_function_is_documented_by_its_row(name: str) -> None:
    function, row = public(name), FUNCTIONS[name]
    assert row.name == function.__name__ == function.__qualname__ == name
    assert function.__module__ == elementwise.__name__
    assert pickle.loads(pickle.dumps(function)) is function
    assert str(inspect.signature(function)) == "(x: 'Any') -> 'Any'"
    doc = inspect.getdoc(function) or ""
    assert doc.startswith(f"Return {row.summary} of every entry")
    assert row.summary
    assert not row.summary.endswith((".", ","))
    assert row.domain in doc
    assert f">>> sa.{name}(" in doc
    assert max(map(len, doc.splitlines())) <= 90


@each_row
def test_a_row_is_printed(name: str) -> None:
    expr = public(name)(X)
    assert expr == nodes.function(name)(X)
    row = FUNCTIONS[name]
    for written, template in ((symattn.text(expr), row.text), (symattn.latex(expr), row.latex)):
        assert "X" in written
        assert template.split("{x}")[0].rstrip("({") in written


@each_row
def test_numpy_and_mpmath_compute_one_function(name: str) -> None:
    code = FUNCTIONS[name].array_code("x", "np.{}".format)
    for point in POINTS:
        found = eval(code, {"np": np, "x": np.array([[float(point)]])})  # the row's own source
        np.testing.assert_allclose(found, [[value(name, point)]], rtol=1e-13, atol=1e-13)
    run = symattn.lambdify([X], public(name)(X))(np.array([[float(x) for x in POINTS]]))
    np.testing.assert_allclose(run, [[value(name, x) for x in POINTS]], rtol=1e-13, atol=1e-13)


@each_row
def test_floats_and_the_definition_compute_it_too(name: str) -> None:
    definition: Callable[[Form], Form] = FUNCTIONS[name].definition or (lambda x: Apply(name, x))
    for point in POINTS:
        expected = value(name, point)
        assert math.isclose(apply_function(name, float(point), FLOATS), expected, rel_tol=1e-13)
        meant = entry_value(definition(Number(point)), {}, {}, {})
        assert math.isclose(meant, expected, rel_tol=1e-13)


@each_row
def test_what_a_row_says_of_signs_holds(name: str) -> None:
    row = FUNCTIONS[name]
    for point in POINTS:
        here = value(name, point)
        assert not row.positive or here > 0
        if not row.domain:
            there = value(name, -point)
            is_odd = math.isclose(there, -here, rel_tol=1e-13)
            is_even = math.isclose(there, here, rel_tol=1e-13)
            assert is_odd or not row.odd
            assert is_even or not row.even
            # What is defined need not say so; of what is opaque nothing else is known.
            assert row.definition or (is_odd, is_even) == (row.odd, row.even)
            assert not row.positive or there > 0


@each_row
def test_of_a_scalar_it_is_a_scalar_or_is_refused(name: str) -> None:
    doc = inspect.getdoc(public(name)) or ""
    if name not in OF_SCALARS:
        assert "Of a scalar it raises `NotSupportedError`." in doc
        with pytest.raises(NotSupportedError, match=f"{name} of a scalar"):
            public(name)(c)
        return
    assert "Of a scalar it is a scalar." in doc
    scalar = public(name)(c)
    assert isinstance(scalar, sympy.Expr)
    assert scalar.free_symbols == {c}
    f = symattn.lambdify([X, c], scalar * X)
    for point in POINTS:
        exact = scalar.subs(c, sympy.Rational(point.numerator, point.denominator))
        assert math.isclose(float(exact), value(name, point), rel_tol=1e-13)
        assert math.isclose(f(np.ones((1, 1)), float(point))[0, 0], float(exact), rel_tol=1e-13)


def test_a_function_in_a_scalar_is_one_of_python_and_of_numpy() -> None:
    """Generated source calls it in `math`, and the source of plain SymPy in NumPy."""
    assert NAMES_OF_FUNCTIONS
    for function, name in NAMES_OF_FUNCTIONS.items():
        assert function is getattr(sympy, FUNCTIONS[name].sympy or name)
        assert hasattr(math, FUNCTIONS[name].math or name)
        assert hasattr(np, name)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: nodes.sigmoid(c), lambda: 1 / (1 + sympy.exp(-c))),
        (lambda: nodes.silu(c), lambda: c / (1 + sympy.exp(-c))),
        (lambda: nodes.sigmoid(0), lambda: sympy.Rational(1, 2)),
        (lambda: nodes.square(3), lambda: 9),
        (lambda: nodes.sqrt(sympy.Symbol("d_k")), lambda: sympy.sqrt(sympy.Symbol("d_k"))),
        (lambda: nodes.reciprocal(nodes.dim("n")), lambda: 1 / nodes.dim("n")),
    ],
)
def test_a_defined_function_of_a_scalar_is_its_definition(
    call: Callable[[], Any], expected: Callable[[], Any]
) -> None:
    assert call() == expected()
