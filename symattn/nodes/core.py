"""The base of every matrix expression: tags are checked when it is made, and nothing is simplified.

A node is a SymPy `MatrixExpr`, so printing, substitution, pickling and hashing work as SymPy's
users expect, but its operators are ours.  SymPy's own accept ``K*Q`` for any symbolic sizes, expand
transposes and move scalars; ours check the tags and keep what was written.

Invariant: a node that exists is well-shaped.  ``__new__`` takes exactly ``args`` and checks them
again, which makes ``xreplace``, ``copy``, ``pickle`` and ``func(*args)`` safe.

A subclass states how it is written (``notation``), which operands it takes (``_accept``), its sizes
(``_check``) and what its ``(i, j)`` entry means (``meaning``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

import sympy
from sympy.printing.pretty.stringpict import prettyForm

from symattn.errors import NotAnOperandError, OperationRefusedError, TextRefusedError
from symattn.meaning.form import Form, Place
from symattn.nodes.arrays import ArrayContext, inline
from symattn.nodes.given import Given, in_force
from symattn.nodes.refused import Refusals
from symattn.nodes.scalars import as_scalar, scalar_form
from symattn.nodes.sizes import Dim, expression_of, refuse_text
from symattn.notation.code import brief, python
from symattn.notation.latex import latex
from symattn.notation.rows import Notation, Printable
from symattn.notation.text import text
from symattn.tags import Relations, Size

Arguments = tuple[sympy.Basic, ...]

# What each operator builds; the classes register themselves, since they stand on this module.
_OPERATIONS: dict[str, Callable[..., Node]] = {}

_Builder = TypeVar("_Builder", bound=Callable[..., "Node"])


def operation(name: str) -> Callable[[_Builder], _Builder]:
    """Register a class or function as what the operator of that name builds."""

    def register(builder: _Builder) -> _Builder:
        _OPERATIONS[name] = builder
        return builder

    return register


class Agreement:
    """Decides whether two sizes are equal, and remembers the relations that this needed."""

    def __init__(self, carried: Relations, available: Relations) -> None:
        self.needed = carried
        self._available = available

    def __call__(self, left: Size, right: Size) -> bool:
        """Tell whether the sizes are equal under the available relations."""
        if left == right:
            return True
        needed = self._available.needed(left, right)
        if needed is None:
            return False
        self.needed = self.needed.merge(needed)
        return True


def _build(operation: str, *operands: Any) -> Node:
    return _OPERATIONS[operation](*operands)


def _is_zero(value: Any) -> bool:
    """Tell whether a value is the 0 from which ``sum([A, B])`` starts."""
    return isinstance(value, int) and not isinstance(value, bool) and value == 0


def _operand(value: Any) -> Any:
    return value if isinstance(value, sympy.Basic) else as_operand(value)


def as_operand(value: Any, tags: frozenset[str] = frozenset()) -> sympy.Basic:
    """Return a value as an operand: a node, or a scalar in our symbols.

    Raises `NotAnOperandError` for anything else: text, arrays, booleans, and SymPy's own matrix
    expressions, whose tags nobody has checked.
    """
    if isinstance(value, Node):
        return value
    if isinstance(value, str):
        raise TextRefusedError("a formula", value)
    scalar = as_scalar(value, tags)
    if scalar is not None:
        return scalar
    if getattr(value, "is_Matrix", False):
        reason = "it is SymPy's own matrix, whose tags are not checked; start from sa.matrix"
    elif hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        reason = "arrays are given when the generated function is called; write sa.matrix here"
    else:
        reason = "operands are matrices of symattn, real numbers, scalars and tags"
    raise NotAnOperandError(brief(value), reason)


def as_matrix(value: Any, call: str) -> Node:
    """Return a value that has to be a matrix of ours; ``call`` is what takes it."""
    if isinstance(value, str):
        raise TextRefusedError(call, value)
    operand = as_operand(value)
    if isinstance(operand, Node):
        return operand
    raise NotAnOperandError(brief(value), f"{call} takes matrices of symattn, and this is a scalar")


class Node(Refusals, sympy.MatrixExpr):
    """A matrix expression with tagged sizes; build one with the operators and functions."""

    notation: Notation
    label: str = ""
    axis: int | None = None
    sizes: tuple[Size, Size]
    given: Relations

    # SymPy asks the operand of higher priority first; NumPy leaves every operation to us.
    _op_priority = 1000.0
    __array_ufunc__ = None
    is_commutative = False
    is_number = False

    def __new__(cls, *args: Any) -> Node:
        given = Relations()
        for argument in args:
            if isinstance(argument, Given):
                given = given.merge(argument.relations)
            elif isinstance(argument, Node):
                given = given.merge(argument.given)
        operands = cls._accept(*(argument for argument in args if not isinstance(argument, Given)))
        agreement = Agreement(given, given.merge(in_force()))
        sizes = cls._check(operands, agreement)
        extra = (Given.of(agreement.needed),) if agreement.needed else ()
        node = super().__new__(cls, *operands, *extra)
        node.sizes = sizes
        node.given = agreement.needed
        return node

    # What a subclass states.

    @classmethod
    @abstractmethod
    def _accept(cls, *operands: Any) -> Arguments:
        """Return the operands as SymPy arguments, flattened; raise for what is not an operand."""

    @classmethod
    @abstractmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        """Return the sizes (rows, columns) that fit the operands, or raise `ShapeError`."""

    @abstractmethod
    def meaning(self, row: Place, column: Place) -> Form:
        """Return the index form of the entry at a row and a column."""

    @abstractmethod
    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return the Python expression that computes it on arrays, given the operands' source."""

    # What follows from it.

    @property
    def operands(self) -> Arguments:
        """The arguments without the relations that are carried along."""
        return tuple(argument for argument in self.args if not isinstance(argument, Given))

    @property
    def parts(self) -> tuple[Printable | Form, ...]:
        """The operands as a printer sees them: matrices, and index forms for scalars."""
        if self.is_sized:
            return ()
        return tuple(
            operand if isinstance(operand, Node) else scalar_form(operand)  # pyright: ignore
            for operand in self.operands
        )

    @property
    def matrices(self) -> tuple[Node, ...]:
        """The matrix operands, in order."""
        return tuple(operand for operand in self.operands if isinstance(operand, Node))

    @property
    def shape(self) -> tuple[sympy.Expr, sympy.Expr]:
        """The numbers of rows and columns, as SymPy expressions in tags."""
        return expression_of(self.sizes[0]), expression_of(self.sizes[1])

    @property
    def dims(self) -> tuple[Dim, ...]:
        """Every tag in the expression, in order of appearance."""
        return tuple(Dim(tag) for tag in self.tags)

    @property
    def tags(self) -> tuple[str, ...]:
        """The names of the tags in the expression, in order of appearance."""
        seen: dict[str, None] = {}
        for node in self.walk():
            for size in node.sizes if not node.matrices else ():
                seen.update(dict.fromkeys(size.tags))
            for operand in node.operands:
                if not isinstance(operand, Node):
                    names = sorted(s.name for s in operand.free_symbols if isinstance(s, Dim))
                    seen.update(dict.fromkeys(names))
        return tuple(seen)

    @property
    def free_symbols(self) -> set[sympy.Basic]:
        """The matrices, scalars and tags used as values; sizes are in ``dims``."""
        return {
            symbol
            for node in self.walk()
            for symbol in (
                (node,)
                if node.is_input
                else [s for o in node.operands if not isinstance(o, Node) for s in o.free_symbols]
                if not node.is_sized
                else ()
            )
        }

    is_input: ClassVar[bool] = False
    """Whether the node is an input: a named matrix."""
    is_sized: ClassVar[bool] = False
    """Whether the arguments of the node are sizes (ones, an identity) rather than operands."""

    def walk(self) -> Iterator[Node]:
        """Yield every node of the expression once, operands before what uses them, in order."""
        seen: set[Node] = set()
        pending: list[tuple[Node, bool]] = [(self, False)]
        while pending:
            node, expanded = pending.pop()
            if expanded:
                yield node
            elif node not in seen:
                seen.add(node)
                pending.append((node, True))
                pending.extend((operand, False) for operand in reversed(node.matrices))

    def inputs(self) -> tuple[Node, ...]:
        """The named matrices of the expression, in order of appearance."""
        return tuple(node for node in self.walk() if node.is_input)

    def scalars(self) -> tuple[sympy.Symbol, ...]:
        """The scalar inputs of the expression, by name."""
        found = {
            s for s in self.free_symbols if isinstance(s, sympy.Symbol) and not isinstance(s, Dim)
        }
        return tuple(sorted(found, key=lambda symbol: symbol.name))

    def rebuilt(self, change: Callable[[Node], Node]) -> Node:
        """Return the node with each matrix operand changed, checked again."""
        operands = [change(o) if isinstance(o, Node) else o for o in self.operands]
        if all(new is old for new, old in zip(operands, self.operands, strict=True)):
            return self
        return type(self)(*operands, *(a for a in self.args if isinstance(a, Given)))

    # Operators: each builds the operation of that name, as written.

    def __matmul__(self, other: Any) -> Node:
        return _build("product", self, other)

    __mul__ = __matmul__

    def __rmatmul__(self, other: Any) -> Node:
        return _build("product", other, self)

    __rmul__ = __rmatmul__

    def __add__(self, other: Any) -> Node:
        return self if _is_zero(other) else _build("sum", self, other)

    def __radd__(self, other: Any) -> Node:
        return self if _is_zero(other) else _build("sum", other, self)

    def __sub__(self, other: Any) -> Node:
        return self if _is_zero(other) else _build("difference", self, other)

    def __rsub__(self, other: Any) -> Node:
        return -self if _is_zero(other) else _build("difference", other, self)

    def __neg__(self) -> Node:
        return _build("negation", self)

    def __pos__(self) -> Node:
        return self

    def __truediv__(self, other: Any) -> Node:
        return _build("quotient", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        raise OperationRefusedError(
            f"{brief(other)} / {brief(self)}",
            f"for the reciprocal of every entry write sa.reciprocal({brief(self)})",
        )

    def __pow__(self, other: Any) -> Any:
        raise OperationRefusedError(
            f"{brief(self)}**{brief(other)}",
            f"for powers of every entry write sa.hadamard({brief(self)}, {brief(self)}), "
            f"for the matrix power {brief(self)} @ {brief(self)}",
        )

    def __rpow__(self, other: Any) -> Any:
        raise OperationRefusedError(
            f"{brief(other)}**{brief(self)}", "for exponentials of every entry write sa.exp(X)"
        )

    def _no_integer_division(self, *_others: Any) -> Any:
        raise OperationRefusedError(f"// and % on {brief(self)}", "divide by a scalar with /")

    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = (
        _no_integer_division
    )

    def __abs__(self) -> Any:
        raise OperationRefusedError(f"abs({brief(self)})", "there is no such function of matrices")

    def _no_order(self, _other: Any) -> Any:
        raise OperationRefusedError("<, <=, > and >= between matrices", "matrices have no order")

    __lt__ = __le__ = __gt__ = __ge__ = _no_order

    def __getitem__(self, _key: Any) -> Any:
        raise OperationRefusedError(
            f"{brief(self)}[…]", "a formula is about whole matrices; sa.latex and sa.text print it"
        )

    def __iter__(self) -> Any:
        raise OperationRefusedError(f"iterating over {brief(self)}", "its sizes are symbols")

    def __array__(self, *_args: Any, **_kwargs: Any) -> Any:
        raise OperationRefusedError(
            f"turning {brief(self)} into an array",
            "generate a function with sa.lambdify and call that with arrays",
        )

    @property
    def T(self) -> Node:
        """The transpose, as written: ``X.T.T`` stays so."""
        return _build("transpose", self)

    def transpose(self) -> Node:
        """Return the transpose."""
        return self.T

    # What SymPy asks of an expression.

    def doit(self, **_hints: Any) -> Node:
        """Return the expression itself: nothing is evaluated."""
        return self

    def _eval_simplify(self, **_options: Any) -> Node:
        return self

    def simplify(self, **_options: Any) -> Node:
        """Return the expression itself: a formula stays as it was written."""
        return self

    def copy(self) -> Node:
        """Return the same expression, built again."""
        return type(self)(*self.args)

    def has(self, *patterns: Any) -> bool:
        """Tell whether one of the patterns occurs in the expression."""
        refuse_text("has", *patterns)
        return bool(super().has(*patterns))

    def xreplace(self, rule: dict[Any, Any]) -> Any:
        """Replace parts of the expression; the result is checked, and misaligned tags raise.

        >>> import symattn as sa
        >>> d, n, m = sa.dims("d n m")
        >>> Q, K = sa.matrix("Q", d, n), sa.matrix("K", d, m)
        >>> (K.T @ Q).xreplace({Q: K}).shape
        (m, m)
        """
        refuse_text("xreplace", rule)
        return super().xreplace({key: _operand(value) for key, value in rule.items()})

    def subs(self, *rules: Any, **_options: Any) -> Any:
        """Replace parts of the expression, given as ``subs(old, new)``, pairs or a dict."""
        refuse_text("subs", *rules)
        if len(rules) == 2:
            return self.xreplace({rules[0]: rules[1]})
        result: Any = self
        for rule in rules:
            pairs = rule.items() if isinstance(rule, dict) else rule
            for old, new in pairs:
                result = result.xreplace({old: new})
        return result

    def replace(self, query: Any, *_values: Any, **_options: Any) -> Node:
        """Return the expression itself where SymPy looks for a class that no formula holds."""
        if isinstance(query, type) and not self.atoms(query):
            return self
        raise OperationRefusedError(
            ".replace", "to change a part write .xreplace({old: new}), which checks the result"
        )

    def sort_key(self, order: Any = None) -> Any:
        """Return a key for SymPy's orderings."""
        return self.class_key(), (1, (str(self),)), sympy.S.One.sort_key(), sympy.S.One

    def _latex(self, _printer: Any) -> str:
        return latex(self)

    def _sympystr(self, _printer: Any) -> str:
        return python(self)

    def _pretty(self, _printer: Any) -> Any:
        return prettyForm(text(self))

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {latex(self)}$"

    def _numpycode(self, printer: Any) -> str:
        return inline(self, lambda name: printer._module_format(f"{printer._module}.{name}"))

    _cupycode = _numpycode
    _pythoncode = _lambdacode = _numpycode


def _refuse_constructor(result: Any) -> Any:
    raise OperationRefusedError(
        f"sympy.{type(result).__name__}(…) of matrices",
        "write it with + - @ *, which check the tags",
    )


# SymPy's own constructors ask here before they return a sum or product that holds a node.
sympy.Basic._constructor_postprocessor_mapping[Node] = {  # pyright: ignore
    "Add": [_refuse_constructor],
    "Mul": [_refuse_constructor],
}
