"""The elementwise functions, one row each: everything that the project knows about a function.

A function is either *defined* (``sigmoid`` means ``1/(1 + e^{-x})``: its row gives its index form,
and identities follow from that) or *opaque* (``tanh``: only what the row states, such as oddness,
is known).  To add one, add a row, and its name where `symattn.nodes.elementwise` and the top of the
package list what is public; the contract tests read the table and say what is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from symattn.meaning.form import MINUS_ONE, ONE, Add, Apply, Form, Mul, Power


@dataclass(frozen=True, slots=True)
class Function:
    """One elementwise function.

    ``summary`` says in words what it is.  ``latex`` and ``text`` are its printed names (``{x}`` in
    them stands for the argument where it is not written as a call).  ``numpy`` is a template over
    ``xp`` (NumPy, or a library with its interface) and ``x``; ``mpmath`` computes it from the
    mpmath module and a number.  ``domain`` tells where the function is defined, in words, if not
    everywhere, ``sympy`` and ``math`` what it is called there, if not by its name.
    """

    name: str
    summary: str
    latex: str
    text: str
    numpy: str
    mpmath: Callable[[Any, Any], Any]
    odd: bool = False
    even: bool = False
    positive: bool = False
    domain: str = ""
    sympy: str = ""
    math: str = ""
    definition: Callable[[Form], Form] | None = None

    def array_code(self, x: str, call: Callable[[str], str]) -> str:
        """Return the array expression for an argument; ``call`` spells a library function."""
        used = re.sub(r"xp\.(\w+)", lambda match: call(match[1]), self.numpy)
        return "(" + used.replace("{x}", x) + ")"


def _exp(x: Form) -> Form:
    return Apply("exp", x)


def _sigmoid(x: Form) -> Form:
    return Power(Add((ONE, _exp(Mul((MINUS_ONE, x))))), Fraction(-1))


_ROWS = (
    Function(
        "exp",
        "the exponential",
        r"\exp",
        "exp",
        "xp.exp({x})",
        lambda mp, x: mp.exp(x),
        positive=True,
    ),
    Function(
        "log",
        "the natural logarithm",
        r"\log",
        "log",
        "xp.log({x})",
        lambda mp, x: mp.log(x),
        domain="where its argument is > 0",
    ),
    Function(
        "tanh",
        "the hyperbolic tangent",
        r"\tanh",
        "tanh",
        "xp.tanh({x})",
        lambda mp, x: mp.tanh(x),
        odd=True,
    ),
    Function(
        "sin",
        "the sine",
        r"\sin",
        "sin",
        "xp.sin({x})",
        lambda mp, x: mp.sin(x),
        odd=True,
    ),
    Function(
        "cos",
        "the cosine",
        r"\cos",
        "cos",
        "xp.cos({x})",
        lambda mp, x: mp.cos(x),
        even=True,
    ),
    Function(
        "abs",
        "the absolute value",
        r"\left|{x}\right|",
        "|{x}|",
        "xp.abs({x})",
        lambda mp, x: abs(x),
        even=True,
        sympy="Abs",
        math="fabs",
    ),
    Function(
        "relu",
        "the positive part",
        r"\operatorname{ReLU}",
        "ReLU",
        "xp.maximum({x}, 0)",
        lambda mp, x: x if x > 0 else mp.mpf(0),
    ),
    Function(
        "sigmoid",
        "the logistic function 1/(1 + e^-x)",
        r"\sigma",
        "σ",
        # 1/(1 + e^-x) overflows for large negative x; the half-angle form does not.
        "(xp.tanh({x} / 2) + 1) / 2",
        lambda mp, x: 1 / (1 + mp.exp(-x)),
        definition=_sigmoid,
    ),
    Function(
        "silu",
        "the product of x and its logistic function",
        r"\operatorname{SiLU}",
        "SiLU",
        "{x} * ((xp.tanh({x} / 2) + 1) / 2)",
        lambda mp, x: x / (1 + mp.exp(-x)),
        definition=lambda x: Mul((x, _sigmoid(x))),
    ),
    Function(
        "softplus",
        "log(1 + e^x)",
        r"\operatorname{softplus}",
        "softplus",
        "xp.logaddexp({x}, 0)",
        lambda mp, x: mp.log(1 + mp.exp(x)),
        positive=True,
    ),
    Function(
        "sqrt",
        "the square root",
        r"\sqrt{{x}}",
        "√({x})",
        "xp.sqrt({x})",
        lambda mp, x: mp.sqrt(x),
        domain="where its argument is ≥ 0",
        definition=lambda x: Power(x, Fraction(1, 2)),
    ),
    Function(
        "square",
        "the square",
        r"{x}^{\circ 2}",
        "({x})²",
        "xp.square({x})",
        lambda mp, x: x * x,
        definition=lambda x: Power(x, Fraction(2)),
    ),
    Function(
        "reciprocal",
        "1/x",
        r"\operatorname{reciprocal}",
        "reciprocal",
        "1 / {x}",
        lambda mp, x: 1 / x,
        domain="where its argument is not 0",
        definition=lambda x: Power(x, Fraction(-1)),
    ),
)

FUNCTIONS: dict[str, Function] = {row.name: row for row in _ROWS}


def math_name(function: str) -> str:
    """Return what a function of numbers is called in Python's `math`.

    >>> math_name("tanh"), math_name("abs")
    ('tanh', 'fabs')
    """
    row = FUNCTIONS.get(function)
    return row.math if row is not None and row.math else function
