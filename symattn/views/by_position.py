r"""Attention seen from one position: ``score_ij``, ``a_ij``, ``output_i``, and the outputs stacked.

For the query at position i and the key at position j, counted from 1,

    score_ij = Q_i K_jᵀ / √d_k        the score of the pair
    a_ij = exp(score_ij) / Σ_t exp(score_it)        its weight, under a mask 0 for other keys
    output_i = Σ_j a_ij V_j        the weighted sum of the values

and the outputs, one above the other or side by side, are the result.  With several heads each has
scores, weights and an output of its own, told by the index of the head above, ``score_tj^(i)``, and
one output is what the heads at its position are put together to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from symattn.errors import NotSupportedError
from symattn.meaning.form import Apply, Entry, Form, Index, Mul, Place, Power, Sum, Truth, place
from symattn.nodes import MatrixProduct, Node, Program, Softmax
from symattn.nodes.depth import shallow_enough
from symattn.notation.code import brief
from symattn.notation.conditions import names_in
from symattn.notation.displays import latex_aligned
from symattn.notation.presets import Preset, chosen_preset
from symattn.notation.readings import ReadingRules, latex_printer, lowered, text_printer
from symattn.notation.rewritten import Part, Reading
from symattn.notation.rows import Binding, Kind, Notation, Printable
from symattn.notation.terminal import text_sizes
from symattn.notation.tex import latex_sizes
from symattn.tags import Size
from symattn.views.operands import as_steps, heads_in
from symattn.views.vectors import Vectors
from symattn.views.view import View
from symattn.views.written_out import far_of, indices_shown

_SYMBOL = Notation(Kind.SYMBOL, Binding.ATOM)
_ONE = Size.of(1)
_QUERY_LETTERS = "itslp"
_KEY_LETTERS = "jtsuv"
_NO_KEY = "0 where no key is allowed"


@dataclass(frozen=True, slots=True)
class _Attention:
    """The steps of attention: what is made before, scores, weights, what they weigh, what follows.

    ``result`` is the symbol of the weighted sum.
    """

    made: Mapping[str, Node]
    scores: Node
    softmax: Softmax
    values: Node
    result: Node
    after: Mapping[str, Node]


@dataclass(frozen=True, slots=True)
class _Row:
    """A line that is printed: what it defines, what that is, its shape, and a remark.

    In a remark, what stands between ``$`` is in the printer's words.
    """

    left: str
    right: str
    shape: tuple[Size, Size] | None = None
    remark: str = ""


class PerPosition(View):
    """Attention seen from one position; `per_position` returns it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        steps = self._steps = _attention_in(program)
        axis = steps.softmax.axis
        sizes = steps.scores.sizes
        self._queries, self._keys = sizes[1 - axis], sizes[axis]
        self._query, self._key = place(self._queries), place(self._keys)
        at = (self._key, self._query) if axis == 0 else (self._query, self._key)
        self._heads = heads_in(program)
        self._each = tuple(at for index in steps.softmax.indices for at in index.place)
        vectors = Vectors(program.result, (steps.result.label, *steps.after))
        self._score = vectors.entry(steps.scores, *at)
        value = vectors.line(steps.values, 1 - axis, self._key)
        if value is None:
            raise NotSupportedError(f"the values {brief(steps.values)}, one at a time")
        self._value = value
        self._made = list(_made_at(steps.made, 1 - axis, (self._score, value), vectors))
        self._after = [(name, self._follows(vectors, line)) for name, line in steps.after.items()]
        lines = program.lines.values()
        forms = (line.meaning(place(line.sizes[0]), place(line.sizes[1])) for line in lines)
        self._taken = {name for form in forms for name in names_in(form)}
        self._taken |= {*program, *program.result.tags, *self._heads.values(), "a"}

    def text(self, preset: Preset | str | None = None) -> str:
        """Return the steps as lines of text."""
        chosen = chosen_preset(preset, self.program.result)
        rows = self._rows(text_printer(chosen), "; ", ("⋯", "⋯"), "[{}]")
        width = max(len(row.left) for row in rows)
        return "\n".join(
            f"{row.left.ljust(width)} = {row.right}"
            + (f"  ({text_sizes(row.shape).replace('×', ' × ')})" if row.shape else "")
            + (f"  ({row.remark.replace('$', '')})" if row.remark else "")
            for row in rows
        )

    def latex(self, preset: Preset | str | None = None, *, dialect: str = "latex") -> str:
        r"""Return the steps as an ``aligned`` block of LaTeX."""
        chosen = chosen_preset(preset, self.program.result)
        printer = latex_printer(chosen, dialect)
        dots = (r"\vdots", r"\cdots")
        rows = self._rows(printer, r" \\ ", dots, r"\begin{{bmatrix}} {} \end{{bmatrix}}")
        lines: list[tuple[str, str, str]] = []
        for row in rows:
            shape = rf" \qquad ({latex_sizes(row.shape, chosen)})" if row.shape else ""
            lines.append((row.left, row.right + shape, row.remark))
        return printer.dialect_of(latex_aligned(lines))

    # The lines.

    @shallow_enough("the per-position form")
    def _rows(
        self, printer: ReadingRules, below: str, dots: tuple[str, str], brackets: str
    ) -> list[_Row]:
        i = next(letter for letter in _QUERY_LETTERS if letter not in self._taken)
        j = next(letter for letter in _KEY_LETTERS if letter not in {*self._taken, i})
        names = dict.fromkeys(self._query, i) | dict.fromkeys(self._key, j)
        printer.name_indices(names, self._taken | {i, j}, heads=self._heads)
        letters = ",".join(printer.letter(self._heads[at]) for at in self._each)
        each = f"for each head ${letters}$" if letters else ""
        rows: list[_Row] = []
        for vector, made in self._made:  # said where an index of the heads is met first
            said, each = (each, "") if self._is_each_heads(vector) else ("", each)
            rows.append(
                _Row(printer.write(vector).text, printer.write(made).text, made.sizes, said)
            )
        rows.append(_Row(self._pair(printer, "score"), printer.write(self._score).text, None, each))
        remark = "" if self._steps.softmax.mask is None else _NO_KEY
        rows.append(_Row(self._pair(printer, "a"), self._weight(printer, j), remark=remark))
        last = not self._after
        output = self._output(self._query) if last else self._line(self._steps.result)
        weighted = printer.product([printer.scalar(self._read("a")), printer.write(self._value)])
        sigma = printer.sigma(printer.letter(j), self._keys) + " " if self._key else ""
        shown = printer.write(output).text
        rows.append(_Row(shown, sigma + weighted.text, output.sizes))
        for k, (name, value) in enumerate(self._after, start=1):
            whole = self.program.line_symbols[name]
            output = self._line(whole) if k < len(self._after) else self._output(self._query)
            rows.append(_Row(printer.write(output).text, printer.write(value).text, output.sizes))
        if self._query:
            stacked = self._stacked(printer, below, dots)
            whole = printer.write(self._output(())).text
            rows.append(_Row(whole, brackets.format(stacked), self.program.result.sizes))
        return rows

    def _is_each_heads(self, line: Reading) -> bool:
        """Tell whether each head has a row or a column of its own."""
        return bool(line.running) or any(index in self._each for index in line.at)

    def _read(self, name: str, key: Place | None = None) -> Entry:
        """Return a number of the pair, called by a name; each head has its own."""
        at = self._query, self._key if key is None else key
        heads = tuple((index,) for index in self._each)
        counts = tuple(index.size for index in self._each)
        return Entry(name, (*counts, self._queries, self._keys), (*heads, *at))

    def _pair(self, printer: ReadingRules, name: str) -> str:
        return printer.scalar(self._read(name)).text

    def _weight(self, printer: ReadingRules, j: str) -> str:
        """Write a weight: as softmax over the keys, and as exponentials over their sum."""
        free = (letter for letter in _KEY_LETTERS if letter not in printer.reserved)
        other = tuple(Index(index.size, next(free, "t")) for index in self._key)
        part, whole = self._exponential(self._key), self._exponential(other)
        for index in reversed(other):
            whole = Sum(index, whole)
        lowered_form = printer.scalar(Mul((part, Power(whole, Fraction(-1))))).text
        if not self._key:
            return lowered_form
        mask = self._steps.softmax.mask
        counts = self._queries, self._keys
        where = (
            ""
            if mask is None
            else printer.condition(mask.condition(self._query, self._key, counts))
        )
        label = printer.big("softmax", printer.letter(j), where)
        score = printer.scalar(self._read("score"))
        return f"{printer.applied(label, score, '').text} = {lowered_form}"

    def _exponential(self, key: Place) -> Form:
        exponential = Apply("exp", self._read("score", key))
        mask = self._steps.softmax.mask
        if mask is None:
            return exponential
        allowed = mask.condition(self._query, key, (self._queries, self._keys))
        return Mul((Truth(allowed), exponential))

    def _output(self, at: Place) -> Reading:
        sizes = self.program.result.sizes
        axis = self._steps.softmax.axis
        line = (sizes[0], _ONE) if axis == 0 else (_ONE, sizes[1])
        return Reading(_SYMBOL, line if at else sizes, label="output", at=at)

    def _line(self, symbol: Node) -> Reading:
        """Return the row or the column of a line at the position of the query."""
        axis = self._steps.softmax.axis
        sizes = (symbol.sizes[0], _ONE) if axis == 0 else (_ONE, symbol.sizes[1])
        label = lowered(symbol.label) if axis == 0 else symbol.label
        own = symbol.notation, sizes
        return Reading(*own, label=label, at=self._query, running=symbol.running)

    def _follows(self, vectors: Vectors, line: Node) -> Printable:
        """Return what a later line is at the position of the query."""
        found = vectors.line(line, 1 - self._steps.softmax.axis, self._query)
        if found is None:
            raise NotSupportedError(f"the per-position form of {brief(line)}")
        return found

    def _stacked(self, printer: ReadingRules, below: str, dots: tuple[str, str]) -> str:
        axis = self._steps.softmax.axis
        written: list[str] = []
        output = self._output(self._query)
        for at in indices_shown(self._queries):
            if at is None:
                written.append(dots[1 - axis])
                continue
            names = {self._query[0]: str(at)}
            printer.name_indices(names, self._taken, far_of(at), self._heads)
            written.append(printer.write(output).text)
        return (printer.beside if axis == 0 else below).join(written)


def _attention_in(program: Program) -> _Attention:
    """Find the three steps in a program, or raise `NotSupportedError`."""
    named = program.named_lines
    for name in reversed(list(named)):
        found = _attention_of(program, name)
        if found is not None:
            return found
    raise NotSupportedError(
        f"the per-position form of {brief(program.result)}: it is that of values times a softmax, "
        "V @ softmax(S, axis=0) or softmax(S, axis=1) @ V"
    )


def _attention_of(program: Program, last: str) -> _Attention | None:
    """Find the three steps in one line of a program and those before it."""
    named = program.named_lines

    def meant(node: Node) -> tuple[Node, str]:
        line = named.get(node.label) if node.is_input else None
        return (node, "") if line is None or line.sizes != node.sizes else (line, node.label)

    names = list(named)
    before, after = names[: names.index(last)], names[names.index(last) + 1 :]

    result = named[last]
    factors = list(result.operands) if isinstance(result, MatrixProduct) else []
    matrices = [k for k, factor in enumerate(factors) if isinstance(factor, Node)]
    for k, axis in zip(matrices[-1:] + matrices[:1], (0, 1), strict=False):
        weights, called = meant(cast(Node, factors[k]))
        if len(matrices) > 1 and isinstance(weights, Softmax) and weights.axis == axis:
            rest = factors[:k] + factors[k + 1 :]
            values = cast(Node, rest[0]) if len(rest) == 1 else MatrixProduct(*rest)
            scores, scores_called = meant(weights.matrices[0])
            if scores.has_minus_infinity:  # an additive mask is a condition on the keys
                open_to_masks = weights.rebuilt({weights.matrices[0]: scores}.__getitem__)
                weights = cast(Softmax, open_to_masks.selecting())
                scores = weights.matrices[0]
            made = {n: named[n] for n in before if n not in (called, scores_called)}
            follows = {n: named[n] for n in after}
            symbol = program.line_symbols[last]
            return _Attention(made, scores, weights, values, symbol, follows)
    return None


def _made_at(
    made: Mapping[str, Node], axis: int, used: tuple[Part, ...], vectors: Vectors
) -> Iterator[tuple[Reading, Printable]]:
    """Yield each vector that the steps use and that is made in a line, with what it is."""
    found: dict[str, Reading] = {}
    pending = list(reversed(used))
    while pending:
        part = pending.pop()
        if isinstance(part, Form):
            continue
        if isinstance(part, Reading) and part.at:
            found.setdefault(part.label, part)
        pending.extend(reversed(part.parts))
    for name, line in made.items():
        vector = found.get(lowered(name) if axis == 1 else name)
        value = None if vector is None else vectors.line(line, axis, vector.at)
        if vector is not None and value is not None:
            yield vector, value


@shallow_enough("the per-position form")
def per_position(f: Any) -> PerPosition:
    r"""Return attention as it is at one position: a score, a weight, an output, and all outputs.

    >>> import symattn as sa
    >>> sa.per_position(sa.formula("scaled_dot_product", layout="row"))
    score[i,j] = Q_i K_jᵀ / √d_k
    a[i,j]     = softmax_j(score[i,j]) = exp(score[i,j]) / (Σ_{t=1}^m exp(score[i,t]))
    output_i   = Σ_{j=1}^m a[i,j] V_j  (1 × d_v)
    output     = [output_1; output_2; ⋯; output_n]  (n × d_v)

    i is the position of the query and j that of the key, counted from 1.  ``f`` is an entry of the
    catalogue, a program or a formula whose last step is values times a softmax.  It prints as text
    and as LaTeX, by preset and dialect.  With several heads, i is the head and t the query:
    ``head_t^{(i)}`` is what head i makes at position t.  Under a mask a weight has the factor
    ``[j ≤ i]``, 1 where the key is allowed and 0 elsewhere, and is 0 where none is.

    Raises `NotSupportedError` for a formula of another form.
    """
    return PerPosition(as_steps(f, "per_position"))
