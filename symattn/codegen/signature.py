"""The inputs of a generated function: names, axes in tags, and whether they suit the formula.

A formula is generated for inputs in a calling order that the caller chooses.  They have to be
exactly the formula's: a missing or extra one, or two that would be spelt alike, is refused here,
before anything is generated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy

from symattn.codegen.steps import axes_text
from symattn.errors import SignatureError, TextRefusedError
from symattn.nodes import Dim, Family, InputMatrix, InputVector, Member, Node, Scalar
from symattn.nodes.core import NamedInput, as_operand
from symattn.notation import brief
from symattn.notation.names import identifier
from symattn.tags import Relations, Size

Symbol = NamedInput | sympy.Symbol
"""What an input stands for in a formula: a matrix, a family, or a scalar."""


@dataclass(frozen=True, slots=True)
class ArrayInput:
    """A matrix, vector or family: ``name`` is the parameter, ``axes`` the last of its array."""

    name: str
    source: InputMatrix | Family

    @property
    def is_vector(self) -> bool:
        """Whether the array has one axis besides the batch: (…, d), not (…, d, 1)."""
        return isinstance(self.source, InputVector)

    @property
    def axes(self) -> tuple[Size, ...]:
        """The sizes of the last axes, in tags."""
        return self.source.sizes[:1] if self.is_vector else self.source.sizes

    @property
    def axes_text(self) -> str:
        """The axes as text: ``(…, d_k, n)``."""
        return axes_text(self.axes)

    @property
    def places(self) -> tuple[str, ...]:
        """The axes in words, for errors."""
        heads = ("heads",) * (len(self.axes) - 2)
        parts = ("entries",) if self.is_vector else (*heads, "rows", "columns")
        return tuple(f"{self.name}'s {part}" for part in parts)


@dataclass(frozen=True, slots=True)
class NumberInput:
    """A scalar; ``by_name`` if it is given by keyword only, since no calling order has it."""

    name: str
    symbol: Scalar
    by_name: bool = False

    @property
    def is_positive(self) -> bool:
        """Whether the scalar was declared positive."""
        return bool(self.symbol.is_positive)


@dataclass(frozen=True, slots=True)
class MaskInput:
    """A boolean array of a mask, given by keyword; its axes are queries and keys, in this order."""

    name: str
    axes: tuple[Size, ...]

    @property
    def axes_text(self) -> str:
        """The axes as text: ``(…, n, m)``."""
        return axes_text(self.axes)

    @property
    def places(self) -> tuple[str, ...]:
        """The axes in words, for errors."""
        parts = ("keys",) if len(self.axes) == 1 else ("queries", "keys")
        return tuple(f"{self.name}'s {part}" for part in parts)


Input = ArrayInput | NumberInput


@dataclass(frozen=True, slots=True)
class Signature:
    """Everything that a caller of the generated function has to know.

    ``formula`` is its text, ``function`` its name in the source, ``layout`` how tokens lie
    (``"column"``, ``"row"``, or ``""`` where the formula does not tell), ``tags`` every tag of the
    formula, ``relations`` those that the formula's shapes rest on, and ``masks`` the boolean arrays
    of its masks.
    """

    formula: str
    function: str
    inputs: tuple[Input, ...]
    tags: tuple[str, ...]
    relations: Relations
    layout: str
    masks: tuple[MaskInput, ...] = ()

    @property
    def shaped(self) -> tuple[ArrayInput | MaskInput, ...]:
        """Everything that has a shape: the matrices and vectors, then the arrays of masks."""
        return (*self.arrays, *self.masks)

    @property
    def arrays(self) -> tuple[ArrayInput, ...]:
        """The inputs that are arrays."""
        return tuple(item for item in self.inputs if isinstance(item, ArrayInput))

    @property
    def numbers(self) -> tuple[NumberInput, ...]:
        """The inputs that are scalars."""
        return tuple(item for item in self.inputs if isinstance(item, NumberInput))

    @property
    def positional(self) -> tuple[str, ...]:
        """The names of the inputs that may be given by position."""
        named = {item.name for item in self.numbers if item.by_name}
        return tuple(item.name for item in self.inputs if item.name not in named)

    @property
    def summary(self) -> str:
        """A sentence that says what is computed."""
        if "\n" not in self.formula:
            return f"Compute {self.formula}."
        return f"Compute these lines, and return the last.\n\n{self.formula}"

    @property
    def described(self) -> list[str]:
        """A line for each input, with its axes."""
        lines = [
            f"{item.name}: {item.axes_text if isinstance(item, ArrayInput) else 'a number'}"
            for item in self.inputs
        ]
        return lines + [
            f"{mask.name}: {mask.axes_text} of booleans, True where it may attend"
            for mask in self.masks
        ]

    def place_of(self, tag: str) -> tuple[str, int] | None:
        """Return an input and an axis of it, counted from the end, whose size is just this tag."""
        wanted = Size.tag(tag)
        for array in self.arrays:
            for axis, size in enumerate(array.axes):
                if size == wanted:
                    return array.name, axis - len(array.axes)
        return None


def mask_inputs(result: Node, formula: str) -> tuple[MaskInput, ...]:
    """Return the boolean arrays that the masks of a formula are given.

    Raises `SignatureError` if one name stands for two of them, or for a matrix or scalar.
    """
    found = [MaskInput(identifier(array.label), array.sizes) for array in result.booleans()]
    taken = {identifier(_label(symbol)): symbol for symbol in (*result.inputs(), *result.scalars())}
    problems = [
        f"{_described(taken[mask.name])} and the array of a mask would both be called "
        f"{mask.name}; rename the first"
        for mask in found
        if mask.name in taken
    ]
    problems += [
        f"the masks {mask.name}() are of {mask.axes_text} and of {other.axes_text}, but they are "
        "one array"
        for k, mask in enumerate(found)
        for other in found[:k]
        if mask.name == other.name
    ]
    if problems:
        raise SignatureError(formula, problems)
    return tuple(found)


def has_masked_heads(result: Node) -> bool:
    """Tell whether heads of a formula share the array of a mask, which has no axis of heads."""
    return any(node.indices for node in result.walk() if node.mask_arrays)


def sizes_of_masks(result: Node, shaped: Sequence[ArrayInput | MaskInput]) -> tuple[Size, ...]:
    """Return the sizes that masks are made with and that no shape tells: they have to be positive.

    A width that is read off an array without tokens hides nothing that is there.
    """
    masks = (node.mask for node in result.walk() if node.mask is not None)
    told = {tag for item in shaped for size in item.axes for tag in size.tags}
    sizes = (size for mask in masks for size in mask.extents if not told.issuperset(size.tags))
    return tuple(dict.fromkeys(sizes))


def bind_inputs(inputs: Sequence[Any], result: Node, formula: str) -> tuple[Input, ...]:
    """Return the inputs in calling order, checked against those of the formula.

    Scalars may be left out of the order: they come last, and are given by keyword.

    Raises `SignatureError`, with every problem found.
    """
    given = [_as_input(value, result, formula) for value in inputs]
    needed: list[Symbol] = [*result.inputs(), *result.scalars()]
    problems: list[str] = []
    unlisted = [symbol for symbol in result.scalars() if symbol not in given]
    for symbol in result.inputs():
        if symbol not in given:
            problems.append(f"{_described(symbol)} is in the formula, but not among the inputs")
    for position, symbol in enumerate(given):
        if symbol in given[:position]:
            problems.append(f"{_described(symbol)} is given twice")
        elif symbol not in needed:
            problems.append(f"{_described(symbol)} is among the inputs, but not in the formula")
    taken: dict[str, Symbol] = {}
    for symbol in dict.fromkeys([*needed, *given]):
        name = identifier(_label(symbol))
        if name in taken and (symbol in needed) == (taken[name] in needed):
            problems.append(
                f"{_described(taken[name])} and {_described(symbol)} would both be "
                f"called {name}; rename one"
            )
        taken.setdefault(name, symbol)
    if problems:
        raise SignatureError(formula, problems)
    return tuple(
        ArrayInput(identifier(symbol.label), symbol)
        if isinstance(symbol, InputMatrix | Family)
        else NumberInput(identifier(_label(symbol)), symbol)  # pyright: ignore[reportArgumentType]
        for symbol in given
    ) + tuple(NumberInput(identifier(symbol.name), symbol, True) for symbol in unlisted)


def _as_input(value: Any, result: Node, formula: str) -> InputMatrix | Family | Scalar:
    if isinstance(value, str):
        raise TextRefusedError("lambdify", value)
    if isinstance(value, Family):
        return value
    symbol = as_operand(value, frozenset(result.tags))
    if isinstance(symbol, InputMatrix | Scalar):
        return symbol
    if isinstance(symbol, Dim):
        problem = f"{symbol} is a size: it is read off the arrays, or given by name in the call"
    else:
        problem = f"{brief(symbol)} is not an input; give matrices, vectors, families and scalars"
        if isinstance(symbol, Member):
            problem = f"{brief(symbol)} is one of a family; give the family, {symbol.label}"
    raise SignatureError(formula, (problem,))


def _label(symbol: Symbol) -> str:
    return str(symbol.name) if isinstance(symbol, sympy.Symbol) else symbol.label


def _described(symbol: Symbol) -> str:
    if isinstance(symbol, sympy.Symbol):
        return symbol.name
    return f"{symbol.label} ∈ M^{{{'×'.join(map(str, symbol.sizes))}}}"
