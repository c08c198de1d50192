"""Text is never run: neither by a method that SymPy gives our symbols, nor by an operator."""

import builtins
import collections
import inspect
import operator
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import sympy

import symattn.nodes as nodes
from symattn.errors import TextRefusedError
from symattn.nodes.guarded import without_text

n: Any = nodes.dim("n")
c: Any = nodes.scalar("c")
Q = nodes.matrix("Q", "d", n)
SYMBOLS: list[Any] = [n, c, nodes.index("i", n)]

CODE = "__import__('builtins').leave_a_mark()"


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """What `CODE` leaves when it is run."""
    found: list[int] = []
    monkeypatch.setattr(builtins, "leave_a_mark", lambda: found.append(1) or 1, raising=False)
    yield found
    assert not found


def test_sympy_alone_runs_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the tests below could fail."""
    found: list[int] = []
    monkeypatch.setattr(builtins, "leave_a_mark", lambda: found.append(1) or 1, raising=False)
    plain: Any = sympy.Symbol("n")
    plain.subs(plain, CODE)
    assert found


# Where text may hide.
HIDDEN: list[Callable[[], Any]] = [
    *(lambda: CODE, lambda: [CODE], lambda: (n, CODE), lambda: {n: CODE}, lambda: {CODE: n}),
    *(lambda: iter([CODE]), lambda: [iter([(n, CODE)])], lambda: {n: [CODE]}, lambda: {CODE}),
    *(lambda: np.array([CODE]), lambda: {n: 1, c: CODE}.items(), lambda: np.str_(CODE)),
    *(lambda: pathlib.PurePath(CODE), lambda: collections.UserString(CODE), CODE.encode),
]


def public(cls: type) -> list[str]:
    return [name for name in dir(cls) if not name.startswith("_")]


METHODS = [
    name
    for name in public(sympy.Symbol)
    if inspect.isfunction(inspect.getattr_static(sympy.Symbol, name))
]
# What is no method of an instance; a new kind of attribute fails here until somebody looks at it.
NO_METHODS = {"name", "class_key", "fromiter", "default_assumptions", "args", "func", "kind"}


def test_every_public_attribute_of_a_symbol_is_guarded_or_takes_no_argument() -> None:
    for name in set(public(sympy.Symbol)) - set(METHODS):
        static = inspect.getattr_static(sympy.Symbol, name)
        is_fact = name.startswith("is_") and isinstance(static, (bool, property))
        assert name in NO_METHODS or is_fact or isinstance(static, property), name


@pytest.mark.parametrize("symbol", SYMBOLS, ids=str)
@pytest.mark.parametrize("name", METHODS)
def test_every_method_of_a_symbol_refuses_text(name: str, symbol: Any, marks: list[int]) -> None:
    method = getattr(symbol, name)
    for hidden in HIDDEN:
        for args, keywords in (((hidden(),), {}), ((n, hidden()), {}), ((), {"x": hidden()})):
            with pytest.raises(TextRefusedError, match=f"^{name} does not take text"):
                method(*args, **keywords)


OPERATORS = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv),
    *(operator.mod, operator.pow, operator.and_, operator.or_, operator.xor, operator.lshift),
    *(operator.rshift, operator.lt, operator.le, operator.gt, operator.ge, divmod),
]


@pytest.mark.parametrize("symbol", SYMBOLS, ids=str)
@pytest.mark.parametrize("operation", OPERATORS, ids=lambda operation: operation.__name__)
def test_every_operator_of_a_symbol_refuses_text(
    operation: Any, symbol: Any, marks: list[int]
) -> None:
    for hidden in ((CODE,), [CODE], {n: CODE}, {CODE: n}):
        for sides in ((symbol, hidden), (hidden, symbol)):
            with pytest.raises(TypeError):
                operation(*sides)


@pytest.mark.parametrize("node", [Q, Q.T @ Q, nodes.softmax(Q, axis=0)], ids=str)
def test_no_method_of_a_formula_runs_text(node: Any, marks: list[int]) -> None:
    for name in public(type(node)):
        method = inspect.getattr_static(type(node), name)
        if not inspect.isfunction(method):
            continue
        for hidden in HIDDEN:
            for args in ((hidden(),), (n, hidden())):
                try:
                    getattr(node, name)(*args)
                except Exception:  # refused, one way or another: nothing is run
                    continue


def test_comparing_with_text_runs_nothing(marks: list[int]) -> None:
    for value in (CODE, (CODE,), [CODE], {n: CODE}):
        assert n != value
        assert c != value
        assert value != Q


def test_the_words_of_options_are_taken() -> None:
    assert c.limit(c, 0, "-") == c.limit(c, 0, dir="+") == 0
    assert c.series(c, 0, 3, dir="-") == c
    assert c.sort_key("lex") == c.sort_key(order="lex")
    assert c.as_ordered_terms(order="rev-lex") == [c]
    with pytest.raises(TextRefusedError):
        c.subs("lex", 1)
    with pytest.raises(TextRefusedError):
        c.limit(c, 0, "lex")


x: Any = sympy.Symbol("x", positive=True)

# What SymPy asks of symbols inside its own functions; each is the same for a symbol of SymPy's.
INSIDE: list[Callable[[Any], Any]] = [
    *(lambda s: sympy.limit(sympy.sin(s) / s, s, 0), lambda s: sympy.series(sympy.exp(s), s, 0, 4)),
    *(lambda s: sympy.integrate(s * sympy.exp(s), s), lambda s: sympy.diff(sympy.tanh(s), s)),
    *(lambda s: sympy.solve(s**2 - 2, s), lambda s: sympy.factor(s**2 - 1), lambda s: s.fps()),
    *(lambda s: sympy.Poly((s + 1) ** 3), lambda s: sympy.apart(1 / (s * (s + 1)), s)),
    *(lambda s: sympy.summation(s, (s, 1, 5)), lambda s: sympy.nsimplify(s / 3), lambda s: s.n()),
    *(lambda s: sympy.simplify(s / s**2), lambda s: sympy.latex(s + 1, order="rev-lex")),
    *(lambda s: sympy.lambdify(s, s**2, "math")(3), lambda s: sympy.pycode(sympy.sqrt(s))),
    *(lambda s: (s + 1).match(sympy.Wild("w") + 1), lambda s: s.subs({s: 2}), lambda s: s.has(s)),
    *(lambda s: s.subs(iter([(s, 2)])), lambda s: s.collect(s), lambda s: s.is_polynomial(s)),
]


@pytest.mark.parametrize("call", INSIDE)
def test_sympy_works_with_our_symbols_as_with_its_own(call: Callable[[Any], Any]) -> None:
    ours = nodes.scalar("x", positive=True)
    assert str(call(ours)) == str(call(x))


def test_what_holds_no_text_is_handed_on_as_it_is() -> None:
    values = ([1, n], {n: 2}, (n, c), {n, c}, sympy.Tuple(n), np.ones(2), None, sympy.sin)
    for before, after in zip(values, without_text("a call", *values), strict=True):
        assert before is after
    assert without_text("a call", (iter([1]), 2)) == (([1], 2),)
    assert without_text("a call", {1: iter([2])}) == ({1: [2]},)
