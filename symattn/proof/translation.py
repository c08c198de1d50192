"""From one layout to the other: tokens as columns, or tokens as rows.

The idea is one transpose.  A column formula A and its row twin are transposes of each other, once
every symbol with a token axis is written as the transpose of its twin; pushing the transpose of A
inwards leaves transposes on named matrices only, and there the twins take them up:

    (V Softmax(KᵀQ))ᵀ = softmax(QᵀK) Vᵀ,   with Q, K, V of the rows for Qᵀ, Kᵀ, Vᵀ:  softmax(QKᵀ) V

Invariant: ``t.expr.xreplace(t.inputs)`` is equal to the transpose of what was translated; ``proof``
proves exactly that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from symattn.errors import InternalError, UnknownNameError
from symattn.nodes.algebra import Negated, Transposed
from symattn.nodes.along_axis import Softmax
from symattn.nodes.core import Node, as_matrix
from symattn.nodes.depth import shallow_enough
from symattn.nodes.families import Family, Member
from symattn.nodes.finite import as_finite
from symattn.nodes.inputs import InputMatrix, InputVector
from symattn.notation.code import brief
from symattn.notation.displays import latex_aligned
from symattn.notation.layouts import LAYOUTS, layout_of, other_layout
from symattn.notation.presets import Preset, chosen_preset, default_preset
from symattn.notation.rows import Titled
from symattn.notation.terminal import text, text_shape
from symattn.notation.tex import latex
from symattn.proof.decide import prove
from symattn.proof.laws.law import Law
from symattn.proof.laws.transposes import TRANSPOSES
from symattn.proof.results import Proof
from symattn.proof.steps import Step, places_of, rewritten, under
from symattn.tags import Size, named, nearest


@dataclass(frozen=True)
class Translation:
    """A formula in the other layout, and how it comes about.

    ``expr`` is the twin of ``source`` and ``inputs`` says what each of its new symbols stands for;
    ``steps`` lead from the transpose of the source, in its own symbols, to the twin.  Nothing was
    to be done where ``source`` is in the layout ``to`` already: then ``expr`` is ``source``.
    """

    source: Node
    expr: Node
    to: str
    inputs: dict[Node, Node] = field(hash=False)
    steps: tuple[Step, ...] = field(repr=False)

    @property
    def layout(self) -> str:
        """The layout of the result."""
        return self.to

    @property
    def twins(self) -> dict[Node, Node]:
        """What the symbols of the row layout stand for, as a proof asks for it."""
        if self.to == "row":
            return self.inputs
        return {form.matrices[0]: symbol.T for symbol, form in self.inputs.items()}

    @property
    def _start(self) -> Node:
        return self.source if self.expr is self.source else self.source.T

    @cached_property
    def proof(self) -> Proof:
        """The proof that the transpose of the source is the twin, its symbols replaced."""
        return prove(self._start, self.expr.xreplace(self.inputs))

    def text(self, preset: Preset | str | None = None) -> str:
        """Return the derivation as text, one line a step, the twin on the last."""
        if self.expr is self.source:
            return text(self.expr, preset)
        lines = self._lines(text, preset, text)
        width = max(len(right) for _, right, _ in lines)
        rows = [f"  = {right:<{width}}    {reason}".rstrip() for _, right, reason in lines]
        return "\n".join([lines[0][0], *rows])

    def latex(self, preset: Preset | str | None = None, *, dialect: str = "latex") -> str:
        """Return the derivation as an ``aligned`` block with the law of each step."""

        def write(expr: Node, chosen: Preset) -> str:
            return latex(expr, chosen, dialect=dialect)

        def inline(symbol: Node) -> str:
            return f"${write(symbol, chosen_preset(preset, self.source))}$"

        if self.expr is self.source:
            return write(self.expr, chosen_preset(preset, self.expr))
        return latex_aligned(self._lines(write, preset, inline))

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex(dialect='jupyter')}$"

    def __repr__(self) -> str:
        return self.text()

    def _lines(
        self,
        write: Callable[[Node, Preset], str],
        preset: Preset | str | None,
        inline: Callable[[Node], str],
    ) -> list[tuple[str, str, str]]:
        """Return each line's left side, right side and reason; only the first has a left side."""
        # The twin is printed as its own layout is, the lines that lead to it as the source is.
        chosen = chosen_preset(preset, self.source)
        last = write(self.expr, chosen_preset(preset, self.expr))
        names = ", ".join(inline(symbol) for symbol in self.inputs)
        forms = ", ".join(inline(form) for form in self.inputs.values())
        reason = f"writing {names} for {forms}" if names else ""
        lines = [(write(step.after, chosen), step.law) for step in self.steps]
        if names or not lines:
            lines.append((last, reason))
        left = write(self._start, chosen)
        return [("" if k else left, *line) for k, line in enumerate(lines)]


@shallow_enough("translating")
def translate(expr: Any, to: str, *, twin: Iterable[Any] = ()) -> Translation:
    """Return a formula in the other layout: tokens as rows rather than columns, or back.

    >>> import symattn as sa
    >>> d_k, d_v, n, m = sa.dims("d_k d_v n m")
    >>> Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
    >>> t = translate(V @ sa.softmax(K.T @ Q / sa.sqrt(d_k), axis=0), to="row")
    >>> t.expr
    softmax(Q @ K.T / sqrt(d_k), axis=1) @ V
    >>> [step.law for step in t.steps][:3]
    ['transpose of a product', 'transpose of softmax', 'transpose of a quotient']

    The layout of a formula is that of its first softmax: ``column`` if it runs down each column,
    ``row`` if along each row.  Without a softmax it is taken to be the one that ``to`` is not, and
    both axes of scores (``K.T @ Q``) count as axes of tokens.
    Translating to the layout that a formula has gives the formula itself.  A formula of the
    catalogue may be given too: it knows its layout, and which of its symbols have twins.

    A symbol with a token axis (the result's, and both axes of what a softmax is taken of) gets a
    twin: the same name, with rows and columns swapped.  Weights stay as they are and are printed
    transposed, and so do vectors, which are columns in both layouts, unless ``twin=[W, …]`` names
    them.  The twin of a square matrix has its name *and* its sizes; ``inputs`` still says that it
    stands for the transpose.

    Raises `UnknownNameError` for a layout that there is not, and for a ``twin`` that is no input.
    """
    named("layout", to, LAYOUTS)
    source = as_finite(as_matrix(getattr(expr, "expr", expr), "translate"), "translate")
    layout = layout_of(expr if isinstance(expr, Titled) else source) or other_layout(to)
    asked = _named(source, twin)
    if layout == to:
        return Translation(source, source, to, {}, ())
    told = getattr(expr, "twins", None)
    tied = _with_tokens(source, layout) if told is None else _tied(source, told)
    twins = _twins(source, tied | asked)
    with under(source.given):
        pushing = _Pushing(source.T)
        pushed = pushing.inwards(source.T, lambda part: part)
        result = _renamed(pushed, twins)
    originals = {twin: node for node, twin in twins.items()}
    inputs = {node: originals[node].T for node in result.symbols() if node in originals}
    return Translation(source, result, to, inputs, tuple(pushing.steps))


def _named(source: Node, twin: Iterable[Any]) -> set[Node]:
    """Return the inputs that ``twin=`` names, by symbol or by name."""
    inputs = source.symbols()
    named: set[Node] = set()
    for item in (twin,) if isinstance(twin, Node | Family | str) else twin:
        found = [node for node in inputs if item in (node, node.source, node.label)]
        if not found:
            # A symbol is its name and its sizes, so both are said where both were given.
            symbol = isinstance(item, InputMatrix)
            names = [_shape(node) if symbol else node.label for node in inputs]
            name = _shape(item) if symbol else item if isinstance(item, str) else brief(item)
            raise UnknownNameError("input", name, nearest(name, names))
        named.update(found)
    return named


def _shape(symbol: Node) -> str:
    return text_shape(symbol.label, symbol.sizes, default_preset(symbol))


def _tied(source: Node, told: Mapping[Node, Node]) -> set[Node]:
    """Return the inputs of which the catalogue says that they have a twin."""
    tied = {*told, *(symbol for column in told.values() for symbol in column.symbols())}
    return {node for node in source.symbols() if node in tied}


def _with_tokens(source: Node, layout: str) -> set[Node]:
    """Return the inputs with an axis that tokens run along."""
    along = 1 - LAYOUTS[layout]
    tokens = {source.sizes[along]}
    weights = [node for node in source.walk() if isinstance(node, Softmax)]
    for node in weights:
        tokens.update(node.sizes)
    # Scores have tokens along both axes: the keys are one where they are never a feature.
    other = source.sizes[1 - along]
    if (
        not weights
        and other in {node.sizes[along] for node in source.symbols()}
        and other not in {node.sizes[1 - along] for node in source.symbols()}
    ):
        tokens.add(other)
    # An axis of one says nothing: a single query is a vector, and so is a vector of weights.
    tokens = {size for size in tokens if not size.is_one}

    def is_token(size: Size) -> bool:
        return any(source.given.needed(size, token) is not None for token in tokens)

    return {
        node
        for node in source.symbols()
        if not isinstance(node, InputVector) and any(map(is_token, node.sizes))
    }


def _twins(source: Node, chosen: set[Node]) -> dict[Node, Node]:
    """Return the twin of each chosen input: the same name, with rows and columns swapped."""
    twins: dict[Node, Node] = {}
    while chosen:
        twins |= {node: _turned(node) for node in chosen}
        # An input that is itself the twin of another may not keep its meaning beside it.
        chosen = {n for n in source.symbols() if n in twins.values() and n not in twins}
    return twins


def _turned(symbol: Node) -> Node:
    """Return the symbol of that name with rows and columns swapped."""
    if isinstance(symbol, Member):
        source = symbol.source
        return Family(source.name, (*source.counts, *symbol.sizes[::-1]))[symbol.reads]
    return InputMatrix(symbol.label, *symbol.sizes[::-1])


class _Pushing:
    """Pushes one transpose inwards and writes down each step.

    Unlike a search for the next place, it knows which transposes are done: in ``(W X)ᵀᵀ`` it is
    the inner one that moves, to ``(Xᵀ Wᵀ)ᵀ``, for ``W X`` is the twin of ``X W``.
    """

    def __init__(self, start: Node) -> None:
        self.steps: list[Step] = []
        self._line = start

    def inwards(self, part: Node, around: Callable[[Node], Node]) -> Node:
        """Return a part with its transpose pushed inwards; ``around`` puts it into the line."""
        inner = part.matrices[0]
        if isinstance(inner, Transposed) and inner.matrices[0].matrices:
            return self.inwards(inner, lambda pushed: around(pushed.T)).T
        changed = self._apply(part, around)
        if changed is None or isinstance(inner, Transposed):
            return part if changed is None else changed
        operands = list(changed.matrices)
        for k, operand in enumerate(operands):

            def beside(pushed: Node, k: int = k) -> Node:
                return around(_with_operands(changed, [*operands[:k], pushed, *operands[k + 1 :]]))

            operands[k] = self._onwards(operand, beside)
        return _with_operands(changed, operands)

    def _onwards(self, operand: Node, around: Callable[[Node], Node]) -> Node:
        """Return an operand that a law has made, with the transpose that it put there pushed on."""
        if isinstance(operand, Negated):
            inner = operand.matrices[0]
            return Negated(self._onwards(inner, lambda pushed: around(Negated(pushed))))
        return self.inwards(operand, around) if isinstance(operand, Transposed) else operand

    def _apply(self, part: Node, around: Callable[[Node], Node]) -> Node | None:
        """Apply the law of transposes that fits a part, if there is one."""
        for law in TRANSPOSES.values():
            changed = law.rewrite(part)
            if changed is not None:
                after = around(changed)
                self.steps.append(self._step(law, part, after))
                self._line = after
                return changed
        return None

    def _step(self, law: Law, part: Node, after: Node) -> Step:
        for place in places_of(self._line, part):
            step = rewritten(self._line, place, law)
            if step is not None and step.after == after:
                return step
        raise InternalError(f"{law.name} does not lead from {self._line} to {after}")


def _with_operands(node: Node, operands: Sequence[Node]) -> Node:
    new = iter(operands)
    return node.rebuilt(lambda _old: next(new))


def _renamed(node: Node, twins: Mapping[Node, Node]) -> Node:
    """Return a formula in the twins: a transposed symbol is its twin, a symbol its transpose."""
    if isinstance(node, Transposed) and node.matrices[0] in twins:
        return twins[node.matrices[0]]
    if node in twins:
        return twins[node].T
    return node.rebuilt(lambda operand: _renamed(operand, twins))
