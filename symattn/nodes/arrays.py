"""Source for arrays: scalars, sizes, and whole expressions on one line.

Every node states the array expression that computes it (``array_code``); generated modules put
one on a line each, and this module nests them into the single expression that SymPy's own
``lambdify`` asks for.  Sizes are read off the shapes of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from symattn.errors import NotSupportedError
from symattn.meaning.form import (
    Add,
    Allowed,
    Apply,
    AtMost,
    Both,
    Condition,
    Extent,
    Form,
    Mul,
    Not,
    Number,
    Parameter,
    Place,
    Position,
    Power,
)
from symattn.notation.names import identifier
from symattn.tags import Quotient, Size

if TYPE_CHECKING:
    from symattn.nodes.core import Node
    from symattn.nodes.indices import AxisIndex

_EXACT_DENOMINATORS = (1, 2, 4)  # exponents that a float writes as they are: 0.5, not (1 / 2)


@dataclass(frozen=True, slots=True)
class ArrayContext:
    """What array source needs from around it.

    ``call`` spells a function of the array library, ``extent`` a tag's size, ``dtype`` the dtype in
    which constants are made, and ``scalar_call`` a function of Python numbers, where the source
    can name one that is not the array library's.  ``order`` is that in which the axes of indices
    stand in front of rows and columns, the same in all arrays.
    """

    call: Callable[[str], str]
    extent: Callable[[str], str]
    dtype: str
    scalar_call: Callable[[str], str] | None = None
    order: tuple[AxisIndex, ...] = ()

    def axes(self, indices: Collection[AxisIndex]) -> tuple[AxisIndex, ...]:
        """Return the indices whose axes an array has, in their order."""
        known = [index for index in self.order if index in indices]
        return (*known, *(index for index in indices if index not in known))


def size_code(size: Size, context: ArrayContext) -> str:
    """Return the source of a size, an integer.

    >>> from symattn.tags import parse_size
    >>> context = ArrayContext("numpy.{}".format, "{}_size".format, "float")
    >>> size_code(parse_size("2*n + 1"), context), size_code(parse_size("n - m"), context)
    ('(2 * n_size + 1)', '(n_size - m_size)')
    """
    code = ""
    for coefficient, powers in sorted(size.terms, key=lambda term: term[0] < 0):  # those first
        factors = [str(abs(coefficient))] if abs(coefficient) != 1 or not powers else []
        for atom, exponent in powers:
            if isinstance(atom, Quotient):
                base = f"({size_code(atom.num, context)} // {size_code(atom.den, context)})"
            else:
                base = context.extent(atom)
            factors.append(base if exponent == 1 else f"{base}**{exponent}")
        code += f" {'-' if coefficient < 0 else '+'} {' * '.join(factors)}"
    code = code.removeprefix(" + ") or "0"
    return f"({code.strip()})" if " - " in code or " + " in code else code


def scalar_code(form: Form, context: ArrayContext) -> str:
    """Return the source of a scalar, a Python number, which leaves the arrays' dtype alone.

    >>> from fractions import Fraction
    >>> context = ArrayContext("numpy.{}".format, "{}_size".format, "float")
    >>> scalar_code(Power(Extent(Size.tag("n")), Fraction(-1, 2)), context)
    '((n_size) ** -0.5)'
    """
    match form:
        case Number(value):
            return (
                str(value.numerator)
                if value.denominator == 1
                else f"({value.numerator} / {value.denominator})"
            )
        case Extent(size):
            return size_code(size, context)
        case Parameter(name):
            return identifier(name)
        case Add(terms):
            return "(" + " + ".join(scalar_code(term, context) for term in terms) + ")"
        case Mul(factors):
            return "(" + " * ".join(scalar_code(factor, context) for factor in factors) + ")"
        case Power(base, exponent):
            if exponent.denominator in _EXACT_DENOMINATORS:
                power = str(exponent if exponent.denominator == 1 else float(exponent))
            else:
                power = f"({exponent.numerator} / {exponent.denominator})"
            return f"(({scalar_code(base, context)}) ** {power})"
        case Apply(function, argument):
            inner = scalar_code(argument, context)
            if context.scalar_call is not None:
                return f"{context.scalar_call(function)}({inner})"
            return f"float({context.call(function)}({inner}))"
        case _:
            raise NotSupportedError(f"array code for the scalar {form}")


def condition_code(
    condition: Condition,
    position: Callable[[Place], str],
    given: Callable[[Allowed], str],
    context: ArrayContext,
) -> str:
    """Return the source of a condition on arrays of positions: an array of booleans.

    ``position`` spells a place as numbers, ``given`` a boolean input.

    >>> context = ArrayContext("numpy.{}".format, "{}_size".format, "float")
    >>> at_most = AtMost(Position(()), Extent(Size.tag("n")))
    >>> condition_code(at_most, lambda place: "j", lambda allowed: "keep", context)
    'j <= n_size'
    """

    def write(condition: Condition) -> str:
        match condition:
            case AtMost(left, right):
                return f"{number(left)} <= {number(right)}"
            case Not(AtMost(left, right)):
                return f"{number(right)} < {number(left)}"
            case Not(Both(Not(left), Not(right))):
                return f"({write(left)}) | ({write(right)})"
            case Not(inner):
                return f"~({write(inner)})"
            case Both(left, right):
                return f"({write(left)}) & ({write(right)})"
            case Allowed():
                return given(condition)
            case _:
                raise NotSupportedError(f"array code for the condition {condition}")

    def number(form: Form) -> str:
        match form:
            case Position(at):
                return position(at)
            case Add((first, *rest)):
                return number(first) + "".join(map(signed, rest))
            case _:
                return scalar_code(form, context)

    def signed(term: Form) -> str:
        match term:
            case Mul((Number(value), inner)) if value == -1:
                return f" - {number(inner)}"
            case _:
                return f" + {number(term)}"

    return write(condition)


def lifted(
    code: str,
    has: Collection[AxisIndex],
    wanted: Collection[AxisIndex],
    context: ArrayContext,
) -> str:
    """Return the source of an array with an axis of size one for each index that it has not.

    >>> from symattn.nodes.indices import AxisIndex
    >>> i, j = AxisIndex("i", "h"), AxisIndex("j", "g")
    >>> context = ArrayContext("numpy.{}".format, str, "float", order=(i, j))
    >>> lifted("W", [j], [i, j], context), lifted("W", [i], [i, j], context)
    ('W[..., None, :, :, :]', 'W[..., None, :, :]')
    """
    missing = [index for index in wanted if index not in has]
    if not missing:
        return code
    axes = context.axes((*has, *missing))
    first = axes.index(next(index for index in axes if index in missing))
    read = ", ".join(":" if index in has else "None" for index in axes[first:])
    return f"{code}[..., {read}, :, :]"


def arranged(
    code: str, has: Sequence[AxisIndex], indices: Collection[AxisIndex], context: ArrayContext
) -> str:
    """Return the source of an array whose axes of indices are put in their order.

    >>> from symattn.nodes.indices import AxisIndex
    >>> i, j = AxisIndex("i", "h"), AxisIndex("j", "g")
    >>> context = ArrayContext("numpy.{}".format, str, "float", order=(i, j))
    >>> arranged("W", (i, j), (i, j), context), arranged("W", (j, i), (i, j), context)
    ('W', 'numpy.moveaxis(W, (-4, -3), (-3, -4))')
    """
    axes = context.axes(indices)
    if axes == tuple(has):
        return code
    before = tuple(k - len(has) - 2 for k in range(len(has)))
    after = tuple(axes.index(index) - len(axes) - 2 for index in has)
    return f"{context.call('moveaxis')}({code}, {before}, {after})"


def let(code: str, write: Callable[[str], str]) -> str:
    """Return source that reads what other source computes, more than once.

    >>> let("a @ b", lambda x: f"{x} * {x}"), let("a", lambda x: f"{x} * {x}")
    ('(lambda _x: _x * _x)(a @ b)', 'a * a')

    No name of an input or a tag begins with an underscore.
    """
    return write(code) if code.isidentifier() else f"(lambda _x: {write('_x')})({code})"


def index_order(root: Node) -> tuple[AxisIndex, ...]:
    """Return the indices of a formula, free ones first, then those that are bound further out.

    >>> import symattn as sa
    >>> h, g, n = sa.dims("h g n")
    >>> W, i, j = sa.family("W", (g, h), n, n), sa.index("i", h), sa.index("j", g)
    >>> index_order(sa.sum_over(W[j, i], i)), index_order(sa.sum_over(sa.sum_over(W[j, i], j), i))
    ((j, i), (i, j))
    """
    bound = (index for node in reversed(tuple(root.walk())) for index in node.binds)
    return tuple(dict.fromkeys((*root.indices, *bound)))


def inline(root: Node, call: Callable[[str], str]) -> str:
    """Return one expression that computes a whole formula from arrays named like its inputs.

    >>> import symattn as sa
    >>> X = sa.matrix("X", *sa.dims("n m"))
    >>> inline(X @ X.T / sa.dim("m"), "numpy.{}".format)
    '((X @ X.swapaxes(-1, -2)) / X.shape[-1])'

    A tag that is an axis of an input is read off its shape; any other has to be an argument.
    """
    axes: dict[str, str] = {}
    for source in root.inputs():
        for axis, size in enumerate(source.sizes, start=-len(source.sizes)):
            if size.single_tag is not None:
                axes.setdefault(size.single_tag, f"{identifier(source.label)}.shape[{axis}]")
    first = root.inputs()[0].label if root.inputs() else ""
    context = ArrayContext(
        call=call,
        extent=lambda tag: axes.get(tag, identifier(tag)),
        dtype=f"{identifier(first)}.dtype" if first else "float",
        order=index_order(root),
    )
    return nested(root, {}, context)


def nested(root: Node, known: Mapping[Node, str], context: ArrayContext) -> str:
    """Return one expression that computes a formula, given the source of some of its nodes.

    >>> import symattn as sa
    >>> X = sa.matrix("X", *sa.dims("n m"))
    >>> context = ArrayContext("numpy.{}".format, "{}_size".format, "float")
    >>> nested(X.T, {X: "x[0]"}, context)
    'x[0].swapaxes(-1, -2)'
    """
    code = dict(known)
    for node in root.walk():
        if node in code:
            continue
        matrices = iter(node.matrices)

        def operand(matrix: Node, node: Node = node) -> str:
            # What is given has the axes of everything around it, and so has what is made of it.
            has = node.inner_indices if known else matrix.indices
            return lifted(code[matrix], has, node.inner_indices, context)

        if node.bodies:  # the parts of a score are its body's, its operands are matrices
            parts = tuple(operand(matrix) for matrix in matrices)
        else:
            parts = tuple(
                scalar_code(part, context) if isinstance(part, Form) else operand(next(matrices))
                for part in node.parts
            )
        code[node] = node.array_code(parts, context)
    return code[root]
