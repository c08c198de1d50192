"""The languages that a score is written in: CUDA C++, Triton, and torch for its flex attention.

A row says how a language writes numbers, positions as numbers, powers, conditions, and every
function of `symattn.meaning.functions`.  What needs its argument more than once is a helper, a
function in the language itself, so that no text is written twice.

Invariant: no function overflows to NaN where its value is finite, and NaN comes out where NaN goes
in.  In CUDA C++, ``real`` is the type that is computed in: a kernel defines it before the helpers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType

from symattn.errors import NotSupportedError


@dataclass(frozen=True, slots=True)
class Dialect:
    """One language.

    ``functions`` are templates over ``{x}``, or ``{held}``, which is in parentheses where it has to
    be; ``whole_power`` and ``power`` are such templates with an exponent ``{e}``, for whole
    positive ones and for any.  ``number`` takes a literal, ``of_position`` a whole number that
    becomes one of the type that is computed in.  ``helpers`` is
    the source of the functions that templates call, and ``helper_of_power`` writes that of
    ``power_3`` and its like.
    """

    name: str
    functions: Mapping[str, str]
    number: str
    of_position: str
    whole_power: str
    power: str
    both: str
    either: str
    negated: str
    helpers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    helper_of_power: Callable[[int], str] | None = None

    def apply(self, function: str, x: str) -> str:
        """Return a function of an argument; raises `NotSupportedError` for one without a row."""
        if function not in self.functions:
            raise NotSupportedError(f"running {function}: nothing is known of it but its name")
        return self.functions[function].format(x=x, held=_held(x))

    def literal(self, value: Fraction) -> str:
        """Return a number.

        >>> CUDA.literal(Fraction(1, 2)), TRITON.literal(Fraction(-3))
        ('real(0.5)', '-3.0')
        """
        return self.number.format(x=repr(float(value)))

    def raised(self, x: str, exponent: Fraction) -> str:
        """Return a power, by the function that it is where it is one.

        >>> CUDA.raised("x", Fraction(-1, 2)), TRITON.raised("x", Fraction(3))
        ('(real(1) / (sqrt(x)))', 'power_3(x)')
        """
        if exponent < 0:
            return self.apply("reciprocal", x if exponent == -1 else self.raised(x, -exponent))
        if exponent == Fraction(1, 2):
            return self.apply("sqrt", x)
        if exponent == 2:
            return self.apply("square", x)
        template = self.whole_power if exponent.denominator == 1 else self.power
        written = exponent.numerator if exponent.denominator == 1 else float(exponent)
        return template.format(x=x, held=_held(x), e=written)

    def helpers_in(self, *texts: str) -> str:
        """Return the source of the helpers that texts call, each once.

        >>> print(CUDA.helpers_in("square(s0)"), end="")
        __device__ __forceinline__ real square(real x) {
            return x * x;
        }
        """
        called = dict.fromkeys(re.findall(r"\b(\w+)\(", " ".join(texts)))
        found: list[str] = []
        for name in called:
            if name in self.helpers:
                found.append(self.helpers[name])
            elif self.helper_of_power is not None and name.startswith("power_"):
                found.append(self.helper_of_power(int(name.removeprefix("power_"))))
        return "\n".join(found)


def _held(x: str) -> str:
    return x if x.isidentifier() else f"({x})"


def _device(name: str, body: str) -> str:
    return f"__device__ __forceinline__ real {name}(real x) {{\n    return {body};\n}}\n"


def _jit(name: str, *lines: str) -> str:
    *before, last = lines
    return "\n".join(["@triton.jit", f"def {name}(x):", *before, f"    return {last}", ""])


def _jit_power(exponent: int) -> str:
    """Return the source of a whole power by squaring.

    >>> print(_jit_power(6), end="")
    @triton.jit
    def power_6(x):
        x2 = x * x
        x4 = x2 * x2
        return x2 * x4
    """
    lines, factors = [], ["x"] if exponent & 1 else []
    for bit in range(1, exponent.bit_length()):
        half = "x" if bit == 1 else f"x{1 << bit - 1}"
        lines.append(f"    x{1 << bit} = {half} * {half}")
        if exponent >> bit & 1:
            factors.append(f"x{1 << bit}")
    return _jit(f"power_{exponent}", *lines, " * ".join(factors))


def _alike(module: str, names: str) -> dict[str, str]:
    """Return the functions that a module has under their own names."""
    return {name: f"{module}{name}({{x}})" for name in names.split()}


CUDA = Dialect(
    name="cuda",
    functions=MappingProxyType(
        {
            **_alike("", "exp log tanh sin cos sqrt"),
            **_alike("", "relu silu softplus square"),
            "abs": "fabs({x})",
            "sigmoid": "(real(1) / (real(1) + exp(-{held})))",
            "reciprocal": "(real(1) / {held})",
        }
    ),
    number="real({x})",
    of_position="real({x})",
    whole_power="pow({x}, real({e}))",
    power="pow({x}, real({e}))",
    both="{a} && {b}",
    either="{a} || {b}",
    negated="!{x}",
    helpers=MappingProxyType(
        {
            "relu": _device("relu", "x < real(0) ? real(0) : x"),
            "silu": _device("silu", "x / (real(1) + exp(-x))"),
            "softplus": _device("softplus", "(x > 0 ? x : real(0)) + log1p(exp(-fabs(x)))"),
            "square": _device("square", "x * x"),
        }
    ),
)

TRITON = Dialect(
    name="triton",
    functions=MappingProxyType(
        {
            **_alike("tl.", "exp log sin cos abs sqrt"),
            **_alike("", "silu softplus square tanh"),
            "relu": "tl.maximum({x}, 0.0, propagate_nan=tl.PropagateNan.ALL)",
            "sigmoid": "(1.0 / (1.0 + tl.exp(-{held})))",
            "reciprocal": "(1.0 / {held})",
        }
    ),
    number="{x}",
    of_position="({x}).to(tl.float32)",
    whole_power="power_{e}({x})",
    power="tl.exp2({e} * tl.log2({x}))",
    both="{a} & {b}",
    either="{a} | {b}",
    negated="~{x}",
    helpers=MappingProxyType(
        {
            "silu": _jit("silu", "x / (1.0 + tl.exp(-x))"),
            # log(w) u/(w - 1), with w = 1 + u as it is rounded, is log(1 + u) to the last digits
            "softplus": _jit(
                "softplus",
                "    u = tl.exp(-tl.abs(x))",
                "    w = 1.0 + u",
                "    near = u / tl.where(w == 1.0, 1.0, w - 1.0)",
                "tl.where(x > 0.0, x, 0.0) + tl.where(w == 1.0, u, tl.log(w) * near)",
            ),
            "square": _jit("square", "x * x"),
            # 2 log2(e): there is no tanh; near 0, where 1 - 1 leaves few digits, it is its series
            "tanh": _jit(
                "tanh",
                "    far = 1.0 - 2.0 / (tl.exp2(x * 2.8853900817779268) + 1.0)",
                "    y = x * x",
                "    near = (0.021869488536155203 * y - 0.05396825396825397) * y",
                "    near = (near + 0.13333333333333333) * y - 0.3333333333333333",
                "tl.where(tl.abs(x) < 0.3, x + x * y * near, far)",
            ),
        }
    ),
    helper_of_power=_jit_power,
)

FLEX = Dialect(
    name="flex",
    functions=MappingProxyType(
        {
            **_alike("torch.", "exp log tanh sin cos abs relu sigmoid sqrt square reciprocal"),
            **_alike("torch.nn.functional.", "silu softplus"),
        }
    ),
    number="{x}",
    of_position="({x}).to(score.dtype)",
    whole_power="{held} ** {e}",
    power="{held} ** {e}",
    both="{a} & {b}",
    either="{a} | {b}",
    negated="~{x}",
)

DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {dialect.name: dialect for dialect in (FLEX, TRITON, CUDA)}
)
