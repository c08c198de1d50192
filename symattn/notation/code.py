"""The Python that rebuilds an expression, and short descriptions of values for error messages."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from symattn.errors import (
    NameSyntaxError,
    NotAnOperandError,
    NotSupportedError,
    TextRefusedError,
)
from symattn.meaning.form import Form
from symattn.meaning.functions import FUNCTIONS
from symattn.notation.names import identifier
from symattn.notation.printer import Printer, Written
from symattn.notation.rows import Binding, Kind, Printable
from symattn.tags import Size

LAYOUT_OF_QUERIES = {0: "row", 1: "column", None: ""}
"""The layout in which queries stand along an axis of the scores."""


def python(expr: Printable | Form) -> str:
    """Return the Python expression that builds an expression again.

    >>> import symattn as sa
    >>> d_k, n, m = sa.dims("d_k n m")
    >>> Q, K = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m)
    >>> print(sa.softmax(K.T @ Q / sa.sqrt(d_k), axis=0))
    softmax(K.T @ Q / sqrt(d_k), axis=0)

    Names are spelt as identifiers; functions are those of symattn, and ``Rational`` is SymPy's.
    """
    check_printable("python", expr)
    return PythonPrinter().write(expr).text


class PythonPrinter(Printer):
    """The rules of Python, whose ``@``, ``*`` and ``/`` bind alike and read from the left."""

    # The words.

    def parentheses(self, written: Written) -> str:
        return f"({written.text})"

    def name(self, name: str) -> Written:
        try:
            return Written(identifier(name), Binding.ATOM)
        except NameSyntaxError:  # a tag may have a name that no matrix has, such as d__k
            return Written(name.replace("'", "_prime"), Binding.ATOM)

    def whole_quotient(self, numerator: Written, denominator: Written) -> Written:
        above, below = self.held(numerator, Binding.PRODUCT), self.held(denominator, Binding.POWER)
        return Written(f"({above.text} // {below.text})", Binding.ATOM)

    def rational(self, value: Fraction) -> Written:
        return Written(f"Rational({value.numerator}, {value.denominator})", Binding.ATOM)

    def product(self, factors: Sequence[Written]) -> Written:
        first, *rest = factors
        pieces = [self.held(first, Binding.PRODUCT if rest else Binding.SUM).text]
        pieces += [self.held(factor, Binding.APPLICATION).text for factor in rest]
        return Written("*".join(pieces), Binding.PRODUCT)

    def quotient(self, numerator: Written, denominator: Written) -> Written:
        above = self.held(numerator, Binding.PRODUCT)
        below = self.held(denominator, Binding.APPLICATION)
        return Written(f"{above.text}/{below.text}", Binding.PRODUCT)

    def power(self, base: Written, exponent: Fraction) -> Written:
        if exponent == Fraction(1, 2):
            return Written(f"sqrt({base.text})", Binding.ATOM)
        raised = self._raised(exponent)
        return Written(f"{self.held(base, Binding.ATOM).text}**{raised}", Binding.POWER)

    def _raised(self, exponent: Fraction) -> str:
        return str(exponent) if exponent.denominator == 1 else self.rational(exponent).text

    def call(self, function: str, argument: Written) -> Written:
        label = function if function in FUNCTIONS else f"function({function!r})"
        return Written(f"{label}({argument.text})", Binding.ATOM)

    def negative(self, written: Written) -> Written:
        # Unary minus binds tighter than @ and *, so -A @ B would negate A alone.
        return Written("-" + self.held(written, Binding.POWER).text, Binding.NEGATION)

    # The rules.

    def factors(self, node: Printable) -> Written:
        text = ""
        met_matrix = False
        for part in node.parts:
            is_matrix = not isinstance(part, Form)
            if not text:
                # Python reads from the left, so what stands first needs no parentheses unless it
                # is a product itself or a sum.
                nested = is_matrix and part.notation.kind is not Kind.FRACTION
                text = self.inside(part, Binding.APPLICATION if nested else Binding.NEGATION).text
            else:
                sign = " @ " if met_matrix and is_matrix else "*"
                text += sign + self.inside(part, Binding.APPLICATION).text
            met_matrix = met_matrix or is_matrix
        return Written(text, Binding.PRODUCT)

    def sum(self, node: Printable) -> Written:
        text = ""
        for part in node.parts:
            if text and not isinstance(part, Form) and part.notation.kind is Kind.NEGATION:
                text += " - " + self.inside(part.parts[0], Binding.HADAMARD).text
            else:
                text += (" + " if text else "") + self.inside(part, Binding.NEGATION).text
        return Written(text, Binding.SUM)

    def hadamard(self, node: Printable) -> Written:
        return self._called("hadamard", *(self.write(part).text for part in node.parts))

    def transpose(self, node: Printable) -> Written:
        # X.T.T reads from the left, so a transpose in a transpose needs no parentheses.
        part = node.parts[0]
        again = not isinstance(part, Form) and part.notation.kind is Kind.TRANSPOSE
        base = self.inside(part, Binding.POWER if again else Binding.ATOM)
        return Written(base.text + ".T", Binding.POWER)

    def fraction(self, node: Printable) -> Written:
        above = self.inside(node.parts[0], Binding.PRODUCT)
        below = self.inside(node.parts[1], Binding.APPLICATION)
        return Written(f"{above.text} / {below.text}", Binding.PRODUCT)

    def softmax(self, node: Printable) -> Written:
        return self._along_axis("softmax", node)

    def maximum(self, node: Printable) -> Written:
        return self._along_axis("max", node)

    def _along_axis(self, label: str, node: Printable) -> Written:
        arguments = () if node.axis is None else (f"axis={node.axis}",)
        if node.mask is not None:
            arguments += (f"mask={node.mask.python(self._size_text)}",)
        return self._called(label, self.write(node.parts[0]).text, *arguments)

    def indicator(self, node: Printable) -> Written:
        return self._mask_matrix("indicator", node)

    def additive_mask(self, node: Printable) -> Written:
        return self._mask_matrix("additive_mask", node)

    def _mask_matrix(self, label: str, node: Printable) -> Written:
        assert node.mask is not None
        sizes = map(self._size_text, node.sizes)
        mask = node.mask.python(self._size_text)
        return self._called(label, mask, *sizes, f"axis={node.axis}")

    def _size_text(self, size: Size) -> str:
        return self.size(size).text

    def concat(self, node: Printable) -> Written:
        parts = (self.write(part).text for part in node.parts)
        return self._called("concat", *parts, f"axis={node.axis}")

    def member(self, node: Printable) -> Written:
        indices = ", ".join(self.name(name).text for name, _ in node.running)
        return Written(f"{self.name(node.label).text}[{indices}]", Binding.ATOM)

    def heads(self, node: Printable) -> Written:
        return self._over_index("heads", node, f"axis={node.axis}")

    def sum_over(self, node: Printable) -> Written:
        return self._over_index("sum_over", node)

    def head(self, node: Printable) -> Written:
        return self._over_index("head", node, f"axis={node.axis}")

    def _over_index(self, label: str, node: Printable, *arguments: str) -> Written:
        index = self.name(node.running[0][0]).text
        return self._called(label, self.write(node.parts[0]).text, index, *arguments)

    def reshape(self, node: Printable) -> Written:
        sizes = map(self._size_text, node.sizes)
        return self._called("reshape", self.write(node.parts[0]).text, *sizes)

    def pairs(self, node: Printable) -> Written:
        score, q, k, *data = (self.write(part).text for part in node.parts)
        layout = f"layout={LAYOUT_OF_QUERIES[node.axis]!r}"
        return self._called("pairwise", f"lambda {q}, {k}: {score}", *data, layout)

    def positions(self, node: Printable) -> Written:
        names = ", ".join(self.name(name).text for name in node.label.split(","))
        sizes = [self.size(size).text for size in node.sizes]
        counts = sizes if node.axis == 0 else sizes[::-1]
        layout = f"layout={LAYOUT_OF_QUERIES[node.axis]!r}"
        bias = f"lambda {names}: {self.write(node.parts[0]).text}"
        return self._called("positional", bias, *counts, layout)

    def ones(self, node: Printable) -> Written:
        return self._called("ones", *(self.size(size).text for size in node.sizes))

    def identity(self, node: Printable) -> Written:
        return self._called("identity", self.size(node.sizes[0]).text)

    def _called(self, label: str, *arguments: str) -> Written:
        return Written(f"{label}({', '.join(arguments)})", Binding.ATOM)


def brief(value: object, limit: int = 60) -> str:
    """Return a value in few words, for an error message; never the entries of an array.

    >>> brief("abc"), brief(3), brief([1, 2])
    ("text 'abc'", '3', 'a list')
    """
    if isinstance(value, str):
        return f"text {_shortened(value, limit)!r}"
    if isinstance(value, (bool, int, float, complex, Fraction)) or value is None:
        return _shortened(str(value), limit)
    if hasattr(value, "notation") or isinstance(value, Form):
        try:
            return _shortened(python(value), limit)  # pyright: ignore[reportArgumentType]
        except (NotSupportedError, RecursionError):
            return f"a {type(value).__name__}"
    label, shape = getattr(value, "label", None), getattr(value, "shape", None)
    if isinstance(label, str) and label:  # a family: no matrix, but it has a name
        return _shortened(identifier(label), limit)
    if isinstance(shape, tuple) and hasattr(value, "__array__"):
        return f"array of shape {_shortened(str(shape), limit)}"
    if hasattr(value, "free_symbols"):  # a SymPy expression: its symbols, no data
        return _shortened(str(value), limit)
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def check_printable(call: str, value: object) -> None:
    """Raise unless a value is a matrix expression or an index form."""
    if isinstance(value, str):
        raise TextRefusedError(call, value)
    if not (hasattr(value, "notation") or isinstance(value, Form)):
        raise NotAnOperandError(brief(value), f"{call} prints the matrix expressions of symattn")


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = (limit - 1) // 2
    return f"{text[: limit - 1 - half]}…{text[len(text) - half :]}"
