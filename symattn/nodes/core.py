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
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, ClassVar, Protocol, Self

import sympy

from symattn.errors import (
    NotAnOperandError,
    OperationRefusedError,
    SymbolClashError,
    TextRefusedError,
)
from symattn.meaning.form import Form, Place
from symattn.nodes.arrays import ArrayContext
from symattn.nodes.depth import shallow_enough
from symattn.nodes.finite import require_finite
from symattn.nodes.given import Agreement, Given, in_force
from symattn.nodes.guarded import refuse_text
from symattn.nodes.hooks import WrittenExpr
from symattn.nodes.indices import AxisIndex
from symattn.nodes.masks import BooleanInput, Mask
from symattn.nodes.operators import Operators
from symattn.nodes.scalars import PositionSymbol, Scalar, as_scalar, scalar_form
from symattn.nodes.sizes import Dim, expression_of, size_of
from symattn.nodes.substitution import pairs_of
from symattn.notation.code import brief
from symattn.notation.rows import Notation, Printable
from symattn.tags import Relations, Size

Arguments = tuple[sympy.Basic, ...]


def as_operand(value: Any, tags: frozenset[str] = frozenset()) -> sympy.Basic:
    """Return a value as an operand: a node, or a scalar in our symbols.

    >>> as_operand(0.5), as_operand(sympy.Symbol("n"), frozenset({"n"})) == Dim("n")
    (1/2, True)

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
    written = brief(value)
    if getattr(value, "is_Matrix", False):
        written = f"sympy.{type(value).__name__}(…)"
        reason = "it is SymPy's own matrix, whose tags are not checked; start from sa.matrix"
    elif hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        reason = "arrays are given when the generated function is called; write sa.matrix here"
    else:
        known = "operands are matrices of symattn, real numbers, scalars and tags"
        reason = getattr(value, "not_an_operand", known)
    raise NotAnOperandError(written, reason)


def as_matrix(value: Any, call: str) -> Node:
    """Return a value that has to be a matrix of ours; ``call`` is what takes it.

    >>> as_matrix(2, "a transpose")
    Traceback (most recent call last):
        ...
    symattn.errors.NotAnOperandError: 2 cannot stand in a formula: ...
    """
    if isinstance(value, str):
        raise TextRefusedError(call, value)
    operand = as_operand(value)
    if isinstance(operand, Node):
        return operand
    raise NotAnOperandError(brief(value), f"{call} takes matrices of symattn, and this is a scalar")


def tags_of(values: Iterable[Any]) -> frozenset[str]:
    """Return the tags of the matrices among some values: a symbol beside them may name one.

    >>> import symattn as sa
    >>> sorted(tags_of([2, sa.ones("n", "m")]))
    ['m', 'n']
    """
    return frozenset(tag for value in values if isinstance(value, Node) for tag in value.tags)


def _one_meaning_a_name(operands: Arguments) -> tuple[tuple[str, ...], frozenset[Scalar]]:
    """Return the tags and the scalars of operands; raise if one name is two of them."""
    tags: dict[str, None] = {}
    scalars: set[Scalar] = set()
    letters: dict[str, None] = {}
    single = (
        operand.args if isinstance(operand, sympy.Tuple) else (operand,) for operand in operands
    )
    for operand in chain.from_iterable(single):
        if isinstance(operand, Node):
            tags.update(dict.fromkeys(operand.tags))
            scalars |= operand._scalars
            letters.update((index.name, None) for index in operand.indices)
        elif isinstance(operand, AxisIndex):
            tags.update(dict.fromkeys(operand.size.tags))
            letters[operand.name] = None
        else:
            symbols = sorted(operand.free_symbols, key=str)
            tags.update((symbol.name, None) for symbol in symbols if isinstance(symbol, Dim))
            scalars.update(symbol for symbol in symbols if isinstance(symbol, Scalar))
    meanings: dict[str, str] = dict.fromkeys(tags, "a tag")
    found = [(s.name, "a positive scalar" if s.is_positive else "a scalar") for s in scalars]
    for name, meaning in (*found, *((letter, "an index") for letter in letters)):
        other = meanings.setdefault(name, meaning)
        if other != meaning:
            raise SymbolClashError(name, sorted((other, meaning)), "rename one, or declare it once")
    return tuple(tags), frozenset(scalars)


def _one_size_a_letter(indices: Iterable[AxisIndex]) -> None:
    """Raise if one letter is two indices: with sizes made equal, one would capture the other."""
    sizes: dict[str, Size] = {}
    for index in indices:
        size = sizes.setdefault(index.name, index.size)
        if size != index.size:
            meanings = [f"an index over {each}" for each in (size, index.size)]
            raise SymbolClashError(index.name, meanings, "give each its own letter")


class NamedInput(Protocol):
    """An input: a named matrix or a family of them, by its name and the sizes of its axes."""

    @property
    def label(self) -> str: ...
    @property
    def sizes(self) -> tuple[Size, ...]: ...
    @property
    def tags(self) -> tuple[str, ...]: ...
    @property
    def dims(self) -> tuple[Dim, ...]: ...
    def __hash__(self) -> int: ...


class Node(Operators, WrittenExpr):
    """A matrix expression with tagged sizes; build one with the operators and functions."""

    notation: Notation
    label: str = ""
    axis: int | None = None
    mask: Mask | None = None
    sizes: tuple[Size, Size]
    given: Relations
    tags: tuple[str, ...]
    """The names of the tags in the expression, in order of appearance."""
    indices: tuple[AxisIndex, ...]
    """The indices that are free in the expression: it is one matrix for each value of them."""
    reads: tuple[AxisIndex, ...] = ()
    """The indices that this node itself is read at."""
    binds: tuple[AxisIndex, ...] = ()
    """The indices that this node runs over; they are not free in it."""
    has_minus_infinity: bool
    """Whether it holds an additive mask that no softmax and no exp has taken up."""
    _scalars: frozenset[Scalar]
    _matrices: tuple[Node, ...]

    def __new__(cls, *args: Any) -> Self:
        given = Relations()
        for argument in args:
            if isinstance(argument, Given):
                given = given.merge(argument.relations)
            elif isinstance(argument, Node):
                given = given.merge(argument.given)
        operands = cls._accept(*(argument for argument in args if not isinstance(argument, Given)))
        tags, scalars = _one_meaning_a_name(operands)
        agreement = Agreement(given, given.merge(in_force()))
        is_open = cls._leaves_open(operands)
        sizes = cls._check(operands, agreement)
        if cls.is_sized:
            tags = tuple(dict.fromkeys(tag for size in sizes for tag in size.tags))
        extra = (Given.of(agreement.needed),) if agreement.needed else ()
        node = super().__new__(cls, *cls._flat(operands), *extra)
        node.sizes = sizes
        node._matrices = tuple(argument for argument in node.args if isinstance(argument, Node))
        # Taken while the operands' own hashes are known: later it would recurse through them.
        hash(node)
        node.given = agreement.needed
        node.tags = tags
        node.has_minus_infinity = is_open
        node._scalars = scalars
        inside = (i for part in args if isinstance(part, Node) for i in part.indices)
        met = dict.fromkeys((*inside, *node.reads))
        _one_size_a_letter((*met, *node.binds))
        node.indices = tuple(index for index in met if index not in node.binds)
        return node

    # What a subclass states.

    _accept: ClassVar[Callable[..., Arguments]]
    """Return the operands as SymPy arguments; raise for what is not an operand."""

    @classmethod
    @abstractmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        """Return the sizes (rows, columns) that fit the operands, or raise `ShapeError`."""

    @classmethod
    def _flat(cls, operands: Arguments) -> Arguments:
        """Return the operands as they are kept, after the check: chains are opened up."""
        return operands

    only_finite: ClassVar[str] = "this operation takes finite numbers"
    """Why the operands may not have entries of −∞, and what to write in their place."""

    @classmethod
    def _leaves_open(cls, operands: Arguments) -> bool:
        """Tell whether the node has entries of −∞; raise where its operands may not have them.

        Sums, transposes and positive scalars pass an additive mask on; a softmax and an exp take
        it up; every other operation refuses it.
        """
        require_finite(operands, cls.only_finite)
        return False

    def finite_and_masks(self) -> tuple[Node | None, tuple[Node, ...]]:
        """Return what is finite in a node, None if nothing is, and the additive masks in it.

        >>> import symattn as sa
        >>> S, M = sa.matrix("S", 3, 3), sa.additive_mask(sa.causal(), 3, 3, axis=0)
        >>> ((S + M) / 2).finite_and_masks()
        (S / 2, (additive_mask(causal(), 3, 3, axis=0),))
        """
        return self, ()

    def selecting(self) -> Node:
        """Return the node with the additive masks that it takes up as conditions."""
        return self

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
            operand if isinstance(operand, Node) else scalar_form(operand)
            for operand in self.operands
        )

    @property
    def matrices(self) -> tuple[Node, ...]:
        """The matrix operands, in order."""
        return self._matrices

    @property
    def shape(self) -> tuple[sympy.Expr, sympy.Expr]:
        """The numbers of rows and columns, as SymPy expressions in tags."""
        return expression_of(self.sizes[0]), expression_of(self.sizes[1])

    @property
    def dims(self) -> tuple[Dim, ...]:
        """Every tag in the expression, in order of appearance."""
        return tuple(Dim(tag) for tag in self.tags)

    @property
    def free_symbols(self) -> set[sympy.Basic]:
        """The matrices, scalars and tags used as values; sizes are in ``dims``."""
        found: set[sympy.Basic] = set()
        for node in self.walk():
            if node.is_input:
                found.add(node)
            if node.mask is not None:
                found |= node.mask.free_symbols
            found.update(*(value.free_symbols for value in node.values))
        return {symbol for symbol in found if not isinstance(symbol, PositionSymbol)}

    is_input: ClassVar[bool] = False
    """Whether the node is an input: a named matrix."""
    is_view: ClassVar[bool] = False
    """Whether its array may lie in the memory of its operand's."""
    is_sized: ClassVar[bool] = False
    """Whether the arguments of the node are sizes (ones, an identity) rather than operands."""

    @property
    def values(self) -> Arguments:
        """The scalars in the node itself; sizes are none."""
        if self.is_sized:
            return ()
        return tuple(operand for operand in self.operands if not isinstance(operand, Node))

    @property
    def bodies(self) -> tuple[Node, ...]:
        """Expressions that are read at vectors bound by the node; `walk` does not enter them."""
        return ()

    @property
    def inner_indices(self) -> tuple[AxisIndex, ...]:
        """The indices that are free in any of the matrices that this node is made from."""
        return tuple(dict.fromkeys(i for matrix in self.matrices for i in matrix.indices))

    @property
    def running(self) -> tuple[tuple[str, Size], ...]:
        """The indices that this node reads or runs over, by name, each with its count."""
        return tuple((index.name, index.size) for index in (*self.reads, *self.binds))

    def everything(self) -> Iterator[Node]:
        """Yield every node of the expression, and those of the bodies in it."""
        for node in self.walk():
            for body in node.bodies:
                yield from body.everything()
            yield node

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

    def symbols(self) -> tuple[Node, ...]:
        """The named matrices of the expression and members of families, in order of appearance."""
        return tuple(node for node in self.walk() if node.is_input)

    @property
    def source(self) -> NamedInput:
        """The input that a symbol is read from: itself, or the family that it is a member of."""
        return self

    def inputs(self) -> tuple[NamedInput, ...]:
        """The named matrices and families of the expression, in order of appearance."""
        return tuple(dict.fromkeys(symbol.source for symbol in self.symbols()))

    def booleans(self) -> tuple[BooleanInput, ...]:
        """The boolean arrays that the masks of the expression are given at run time."""
        found = (array for node in self.walk() for array in node.mask_arrays)
        return tuple(dict.fromkeys(found))

    @property
    def extents(self) -> tuple[Size, ...]:
        """Every size that this node alone is made with: its own, and those of its mask."""
        return self.sizes if self.mask is None else self.sizes + self.mask.extents

    @property
    def mask_arrays(self) -> tuple[BooleanInput, ...]:
        """The boolean arrays that the mask of this node alone is given."""
        if self.mask is None:
            return ()
        keys = 0 if self.axis == 0 else 1
        return self.mask.arrays((self.sizes[1 - keys], self.sizes[keys]))

    def scalars(self) -> tuple[Scalar, ...]:
        """The scalar inputs of the expression, by name."""
        return tuple(sorted(self._scalars, key=lambda symbol: symbol.name))

    def rebuilt(self, change: Callable[[Node], Node]) -> Node:
        """Return the node with each matrix operand changed, checked again."""
        changed = [change(a) if isinstance(a, Node) else a for a in self.args]
        if all(new is old for new, old in zip(changed, self.args, strict=True)):
            return self
        return type(self)(*changed)

    # Replacing parts.

    def xreplace(self, rule: dict[Any, Any]) -> Any:
        """Replace parts of the expression; the result is checked, and misaligned tags raise.

        >>> import symattn as sa
        >>> d, n, m = sa.dims("d n m")
        >>> Q, K = sa.matrix("Q", d, n), sa.matrix("K", d, m)
        >>> (K.T @ Q).xreplace({Q: K}).shape
        (m, m)

        Raises `ShapeError` for what does not fit, `NotAnOperandError` for what can be no part or
        stand for none, and `SymbolClashError` if an index that is free in what comes in has the
        letter of one that is bound here.
        """
        refuse_text("xreplace", rule)
        if not isinstance(rule, Mapping):
            raise OperationRefusedError(f".xreplace({brief(rule)})", "give a dict {old: new}")
        pairs = dict(self._replacement(*pair) for pair in rule.items())
        self._refuse_capture(pairs)
        pairs |= self._resized(pairs)
        with shallow_enough("replacing parts"):
            return super().xreplace(pairs)

    def _refuse_capture(self, pairs: Mapping[Any, Any]) -> None:
        """Raise if an index that is free in what comes in has the letter of one that is bound here.

        A pair such as ``{W[i]: F[i].T}`` is meant for every i, wherever it is bound.
        """
        coming = {
            index
            for old, new in pairs.items()
            if isinstance(new, Node)
            for index in new.indices
            if index not in getattr(old, "indices", ())
        }
        bound = {i for node in self.everything() for i in node.binds} if coming else set()
        for index in bound & coming:
            meanings = (
                "an index that is bound in the formula",
                "a free one in what replaces a part",
            )
            raise SymbolClashError(index.name, meanings, "give one of them another letter")

    def _resized(self, pairs: Mapping[Any, Any]) -> dict[AxisIndex, AxisIndex]:
        """Return the indices over axes whose sizes change, with those that take their place."""
        sizes = {old.name: size_of(new) for old, new in pairs.items() if isinstance(old, Dim)}
        if not sizes:
            return {}
        met = (index for node in self.everything() for index in (*node.reads, *node.binds))
        resized = {index: AxisIndex(index.name, index.size.substitute(sizes)) for index in met}
        return {old: new for old, new in resized.items() if new != old}

    def _replacement(self, old: Any, new: Any) -> tuple[sympy.Basic, sympy.Basic]:
        """Return a pair in our symbols: a matrix for a matrix, a size for a tag, and so on."""
        if isinstance(old, AxisIndex):
            raise NotAnOperandError(brief(old), "an index stays the letter that it is")
        if isinstance(old, Node):
            return old, as_matrix(new, f"a replacement for {brief(old)}")
        part = as_scalar(old, frozenset(self.tags))
        if part is None or not part.free_symbols:
            raise NotAnOperandError(brief(old), "only matrices, scalars and tags can be replaced")
        own = {symbol.name: symbol for symbol in self._scalars}
        part = part.xreplace({s: own.get(str(s), s) for s in part.free_symbols})
        if isinstance(part, Dim):
            return part, expression_of(size_of(new))
        value = as_operand(new, frozenset(self.tags))
        if isinstance(value, Node):
            raise NotAnOperandError(brief(new), f"{part} is a scalar, and this is a matrix")
        return part, value

    def subs(self, *rules: Any, simultaneous: bool = False, **options: Any) -> Any:
        """Replace parts of the expression, given as ``subs(old, new)``, pairs or a dict.

        >>> import symattn as sa
        >>> d, n, m = sa.dims("d n m")
        >>> sa.matrix("Q", d, n).subs({n: 2 * m}).shape
        (d, 2*m)

        Pairs are replaced one after another, or at once with ``simultaneous=True``.  Raises what
        `xreplace` raises, and `OperationRefusedError` for other arguments.
        """
        if options:
            refuse_text("subs", list(options.values()))
            raise OperationRefusedError(
                f".subs(…, {next(iter(options))}=…)", "there is no such option"
            )
        pairs = pairs_of(*rules)
        if simultaneous:
            return self.xreplace(dict(pairs))
        result: Any = self
        for old, new in pairs:
            result = result.xreplace({old: new})
        return result


def _refuse_constructor(result: Any) -> Any:
    raise OperationRefusedError(
        f"sympy.{type(result).__name__}(…) of matrices",
        "write it with + - @ *, which check the tags",
    )


# SymPy's own constructors ask here before they return a sum or product that holds a node.
sympy.Basic._constructor_postprocessor_mapping[Node] = {  # pyright: ignore[reportAttributeAccessIssue]
    "Add": [_refuse_constructor],
    "Mul": [_refuse_constructor],
}
