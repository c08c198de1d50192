"""The score of one query and one key as text, and what a kernel has to bring for it.

The scores of a weighted sum are a tile (`symattn.codegen.tiles`); here a tile becomes an expression
over names: *leaves*, which a kernel loads or computes for each pair, *scalars* and *sizes*, which
the host computes once for a call, and the positions ``i`` of the query and ``j`` of the key.
A text that reads neither a query nor a key is one number: what is broadcast is the kernel's affair.

Invariant: every name in a text is one of these; none is a user's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType

from symattn.codegen.blocked import Attended
from symattn.codegen.gpu.dialects import Dialect
from symattn.codegen.gpu.leaves import (
    DotLeaf,
    EntryLeaf,
    FixedLeaf,
    KeepLeaf,
    KeyLeaf,
    Leaf,
    PairSumLeaf,
    QueryLeaf,
)
from symattn.codegen.gpu.positions import KEY, QUERY, has_positions, line_of
from symattn.codegen.tiles import (
    Applied,
    Dot,
    Entries,
    Mixed,
    OfKeys,
    OfNeither,
    OfQueries,
    One,
    Positions,
    Product,
    Scale,
    Scaled,
    Stacked,
    Sum,
    Tile,
    Weights,
)
from symattn.errors import NotSupportedError
from symattn.meaning.form import (
    MINUS_ONE,
    Add,
    Allowed,
    Apply,
    AtMost,
    Both,
    Condition,
    Form,
    Mul,
    Not,
    Number,
    Position,
    Power,
    reciprocal,
    times,
    total,
)
from symattn.nodes import Elementwise
from symattn.nodes.along_axis import queries_and_keys
from symattn.notation import text
from symattn.tags import Size

LARGEST = 2**24  # whole numbers up to here are written as they are: every type holds them


@dataclass(frozen=True, slots=True)
class ScoreText:
    """A score in one language.

    ``score`` and ``seen`` are expressions of the names; ``seen`` is "" where there is no mask.
    ``reweigh`` is what a weight, called ``p``, becomes before values are summed ("": itself).
    Operands are numbered as those of `Attended.matrices` after the values.  ``scalars`` are passed
    as numbers of the type that is computed in, ``sizes`` as whole numbers, which may be negative or
    larger than any position.  ``helpers`` is source that stands before the texts.
    """

    score: str
    seen: str
    reweigh: str
    leaves: Mapping[str, Leaf]
    scalars: Mapping[str, Form]
    sizes: Mapping[str, Form]
    helpers: str


def score_text(attended: Attended, dialect: Dialect) -> ScoreText:
    """Return the score of a weighted sum; raises `NotSupportedError` where the language has none.

    >>> import symattn as sa
    >>> from symattn.codegen.blocked import blocked_program
    >>> from symattn.codegen.gpu.dialects import CUDA
    >>> formula = sa.formula("softcap", layout="row")
    >>> written = score_text(blocked_program(formula.program).result, CUDA)
    >>> written.score, written.leaves["s0"].scale, list(written.scalars)
    ('tanh(s0) * c1', 'c0', ['c0', 'c1'])
    """
    tile, change, _ = attended.scores()
    axes = queries_and_keys(attended.weights.sizes, attended.weights.axis)
    writer = _Writer(dialect, frozenset(axes))
    score = writer.write(tile).code
    reweigh = "" if change == Weights() else writer.write(change).code
    seen = writer.mask(attended)
    bodies = [leaf.body for leaf in writer.leaves.values() if isinstance(leaf, PairSumLeaf)]
    return ScoreText(
        score=score,
        seen=seen,
        reweigh=reweigh,
        leaves=writer.leaves,
        scalars=writer.scalars,
        sizes=writer.sizes,
        helpers=dialect.helpers_in(score, reweigh, *bodies),
    )


_NO_FUNCTION = "scores that are no function of one query and one key, in one kernel"
_REFUSED: Mapping[type, str] = MappingProxyType(
    {
        Mixed: "a product of a matrix with a vector of each pair, as a score of one number",
        Stacked: "a vector of the query on top of one of the key, in one kernel",
    }
)

_SUM, _PRODUCT, _ATOM = range(3)


@dataclass(frozen=True, slots=True)
class _Text:
    """Source, and how tightly it binds."""

    code: str
    binding: int = _ATOM

    def held(self, binding: int) -> str:
        """Return the source, in parentheses unless it binds at least so tightly."""
        return self.code if self.binding >= binding else f"({self.code})"


def _summed(terms: Sequence[tuple[str, _Text]]) -> _Text:
    (sign, first), *rest = terms
    if not rest and sign == "+":
        return first
    start = first.held(_SUM) if sign == "+" else f"-{first.held(_PRODUCT)}"
    code = start + "".join(f" {sign} {term.held(_PRODUCT)}" for sign, term in rest)
    return _Text(code, _SUM)


def _multiplied(factors: Sequence[_Text]) -> _Text:
    if len(factors) == 1:
        return factors[0]
    return _Text(" * ".join(factor.held(_PRODUCT) for factor in factors), _PRODUCT)


@dataclass
class _Writer:
    """Writes tiles, and collects the names that they need."""

    dialect: Dialect
    counted: frozenset[Size]
    """The numbers of queries and of keys: what other sizes are has no bounds."""
    leaves: dict[str, Leaf] = field(default_factory=dict)
    scalars: dict[str, Form] = field(default_factory=dict)
    sizes: dict[str, Form] = field(default_factory=dict)

    def named(self, prefix: str, leaf: Leaf) -> _Text:
        """Return the name of a leaf, the same for the same."""
        for name, known in self.leaves.items():
            if known == leaf:
                return _Text(name)
        count = sum(name.startswith(prefix) for name in self.leaves)
        self.leaves[f"{prefix}{count}"] = leaf
        return _Text(f"{prefix}{count}")

    def write(self, tile: Tile) -> _Text:
        """Return a tile as the text of one pair."""
        match tile:
            case Dot(query, query_axis, key, key_axis, scale):
                factor = self.factor(scale)
                name = "" if factor is None else self.scalar(factor)
                return self.named("s", DotLeaf(query, query_axis, key, key_axis, name))
            case OfQueries(operand, axis, False):
                return self.named("q", QueryLeaf(operand, axis))
            case OfKeys(operand, axis, False):
                return self.named("k", KeyLeaf(operand, axis))
            case Entries(operand, query_axis):
                return self.named("e", EntryLeaf(operand, query_axis))
            case Mixed(weight, inner, True):
                return self.pair_sum(weight, inner)
            case Positions():
                return self.positions(tile)
            case One():
                return _Text(self.dialect.literal(Fraction(1)))
            case Weights():
                return _Text("p")
            case _:
                return self.entrywise(tile, self.write)

    def entrywise(self, tile: Tile, part: Callable[[Tile], _Text]) -> _Text:
        """Return an operation on every entry."""
        match tile:
            case Sum(terms):
                return _summed([(sign, part(term)) for sign, term in terms])
            case Product(factors):
                return _multiplied([part(factor) for factor in factors])
            case Scaled(inner, scale):
                factor = self.factor(scale)
                return _multiplied([part(inner), *([self.number(factor)] if factor else [])])
            case Applied(Elementwise(function="reciprocal"), Product(factors)):
                # 1/(x y) as 1/x · 1/y: what is of queries or of keys alone is divided once for each
                return _multiplied([self.applied("reciprocal", part(one)) for one in factors])
            case Applied(node, inner):
                return self.applied(node.function, part(inner))
            case _:
                raise NotSupportedError(_REFUSED.get(type(tile), _NO_FUNCTION))

    def applied(self, function: str, inner: _Text) -> _Text:
        return _Text(self.dialect.apply(function, inner.code))

    def pair_sum(self, weight: int, inner: Tile) -> _Text:
        """Return the name of a sum over the entries of a vector of each pair."""
        vectors: dict[str, QueryLeaf | KeyLeaf | FixedLeaf] = {}

        def named(prefix: str, leaf: QueryLeaf | KeyLeaf | FixedLeaf) -> _Text:
            name = next((known for known, other in vectors.items() if other == leaf), "")
            name = name or f"{prefix}{sum(known.startswith(prefix) for known in vectors)}"
            vectors[name] = leaf
            return _Text(name)

        def part(tile: Tile) -> _Text:
            match tile:
                case OfQueries(operand, axis, True):
                    return named("x", QueryLeaf(operand, axis))
                case OfKeys(operand, axis, True):
                    return named("y", KeyLeaf(operand, axis))
                case OfNeither(operand):
                    return named("z", FixedLeaf(operand))
                case _:
                    return self.entrywise(tile, part)

        body = part(inner).code
        return self.named("t", PairSumLeaf(weight, vectors, body))

    # Scalars: what the host computes once.

    def factor(self, scale: Scale) -> Form | None:
        """Return the one scalar that a scale multiplies by, or None if it has none."""
        parts = [form if operation == "*" else reciprocal(form) for operation, form in scale]
        return times(parts) if parts else None

    def scalar(self, form: Form) -> str:
        """Return the name of a scalar, the same for the same."""
        return _name_of(form, self.scalars, "c")

    def number(self, form: Form) -> _Text:
        """Return a scalar: a literal where it is a small whole number, or a name."""
        if isinstance(form, Number) and form.value.denominator == 1 and 0 <= form.value <= LARGEST:
            return _Text(self.dialect.literal(form.value))
        return _Text(self.scalar(form))

    def whole(self, form: Form) -> str:
        """Return a whole number: a literal or the name of a size."""
        if isinstance(form, Number) and abs(form.value) <= LARGEST:
            return str(form.value.numerator)
        return _name_of(form, self.sizes, "n")

    # Biases by position.

    def positions(self, tile: Positions) -> _Text:
        """Return a bias: scalars are gathered, differences of positions are whole numbers."""
        pair = (Position(QUERY), Position(KEY))
        pair = pair if tile.query == 0 else pair[::-1]
        return self.bias(tile.node.read(pair))

    def bias(self, form: Form) -> _Text:
        if not has_positions(form):
            return self.number(form)
        line = line_of(form)
        if line is not None:
            near, far = line.split(self.counted, LARGEST)
            parts = [("+", _Text(self.dialect.of_position.format(x=near.text(self.whole))))]
            return _summed(parts + ([("+", self.number(far))] if far is not None else []))
        match form:
            case Add(terms):
                free = [term for term in terms if not has_positions(term)]
                rest = [term for term in terms if has_positions(term)]
                parts = [("+", self.bias(term)) for term in rest]
                return _summed(parts + ([("+", self.number(total(free)))] if free else []))
            case Mul(factors):
                free = [factor for factor in factors if not has_positions(factor)]
                rest = [factor for factor in factors if has_positions(factor)]
                parts = [self.bias(factor) for factor in rest]
                return _multiplied(([self.number(times(free))] if free else []) + parts)
            case Power(base, exponent):
                return _Text(self.dialect.raised(self.bias(base).code, exponent))
            case Apply(function, argument):
                return self.applied(function, self.bias(argument))
            case _:
                raise NotSupportedError(f"the bias {text(form)} in one kernel")

    # The mask.

    def mask(self, attended: Attended) -> str:
        """Return the condition of the mask of a weighted sum, "" where there is none."""
        mask, weights = attended.attends_under, attended.weights
        if mask is None:
            return ""
        sizes = queries_and_keys(weights.sizes, weights.axis)
        return self.condition(mask.condition(QUERY, KEY, sizes), holds=True).code

    def condition(self, condition: Condition, *, holds: bool) -> _Text:
        """Return a condition, or that it does not hold; only truth values are ever negated."""
        match condition:
            case Not(inner):
                return self.condition(inner, holds=not holds)
            case Both(left, right):
                parts = {
                    side: self.condition(part, holds=holds).held(_ATOM)
                    for side, part in (("a", left), ("b", right))
                }
                template = self.dialect.both if holds else self.dialect.either
                return _Text(template.format(**parts), _SUM)
            case AtMost(left, right):
                return _Text(self.comparison(left, right, holds=holds), _SUM)
            case Allowed(label, _, places):
                name = self.named("keep", KeepLeaf(label, len(places)))
                return name if holds else _Text(self.dialect.negated.format(x=name.code))
            case _:
                raise NotSupportedError(f"the condition {condition} in one kernel")

    def comparison(self, left: Form, right: Form, *, holds: bool) -> str:
        """Return ``left <= right`` or its opposite, with one position alone on the left."""
        line = line_of(Add((left, Mul((MINUS_ONE, right)))))
        if line is None:
            raise NotSupportedError(f"comparing {text(left)} with {text(right)} in one kernel")
        name, sign = ("j", line.of_key) if line.of_key else ("i", line.of_query)
        relation = {(1, True): "<=", (1, False): ">", (-1, True): ">=", (-1, False): "<"}
        other = line.without(name) if sign < 0 else line.without(name).opposite()
        return f"{name} {relation[sign, holds]} {other.text(self.whole)}"


def _name_of(form: Form, known: dict[str, Form], prefix: str) -> str:
    """Return the name of a form, a new one if it has none."""
    for name, other in known.items():
        if other == form:
            return name
    known[name := f"{prefix}{len(known)}"] = form
    return name
