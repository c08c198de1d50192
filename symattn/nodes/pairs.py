"""Scores of pairs: a number for every query and every key, from an expression in two vectors.

A score such as ``vᵀ tanh(W q + U k)`` is written for one query q and one key k, both columns; the
matrix of all scores is that expression read at every pair.  The vectors are bound, as the i of Σ_i
is: they are no inputs, and what they are called does not matter.

Invariant: the body is 1×1, and its bound vectors have the feature sizes of Q and K.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import signature
from typing import Any, cast

import sympy

from symattn.errors import (
    NotAnOperandError,
    NotSupportedError,
    OperationRefusedError,
    ShapeError,
    TextRefusedError,
    UnknownNameError,
)
from symattn.meaning.form import Form, Place
from symattn.meaning.substitution import substitute
from symattn.nodes.arrays import ArrayContext, nested
from symattn.nodes.core import Agreement, Arguments, Node, as_matrix
from symattn.nodes.finite import with_selections
from symattn.nodes.fixes import facts
from symattn.nodes.inputs import InputVector
from symattn.notation.code import brief
from symattn.notation.rows import Binding, Kind, Notation, Printable
from symattn.tags import Size

QUERY_AXIS = {"column": 1, "row": 0}
"""Along which axis of the scores the queries stand, by layout; features stand along it in Q."""

_building: ContextVar[bool] = ContextVar("a score is being built", default=False)


class BoundVector(InputVector):
    """The query or the key inside a score: a column vector that stands for each in turn."""


class Pairwise(Node):
    """The scores of all pairs of a query and a key; build one with `pairwise`."""

    notation = Notation(Kind.PAIRS, Binding.ATOM)

    only_finite = "queries, keys and their score are finite; add the mask to all scores together"

    @classmethod
    def _accept(cls, body: Any, q: Any, k: Any, Q: Any, K: Any, axis: Any) -> Arguments:
        score, queries, keys = (as_matrix(part, "pairwise") for part in (body, Q, K))
        if any(node.mask_arrays for node in score.everything()):
            raise NotSupportedError("a mask that is given at run time, inside a score")
        taken = {node.label for node in score.inputs() if node not in (q, k)}
        fresh: dict[Any, Any] = {
            vector: _renamed(vector, taken) for vector in (q, k) if vector.label in taken
        }
        score = score.xreplace(fresh) if fresh else score
        vectors = tuple(fresh.get(each, each) for each in (q, k))
        return score, *vectors, queries, keys, sympy.Integer(int(axis))

    @classmethod
    def _check(cls, operands: Arguments, agreement: Agreement) -> tuple[Size, Size]:
        body, q, k, Q, K = cast(tuple[Node, ...], operands[:5])
        axis = int(cast(sympy.Integer, operands[5]))
        one = Size.of(1)
        if not (agreement(body.sizes[0], one) and agreement(body.sizes[1], one)):
            raise _not_a_number(body, q, k)
        for vector, data in ((q, Q), (k, K)):
            if not agreement(vector.sizes[0], data.sizes[1 - axis]):
                raise ShapeError(
                    f"the scores of {brief(Q)} and {brief(K)}",
                    facts((vector, data)),
                    f"{vector.label} has size {vector.sizes[0]}, but each column that it stands "
                    f"for has size {data.sizes[1 - axis]}",
                )
        queries, keys = Q.sizes[axis], K.sizes[axis]
        return (keys, queries) if axis == 1 else (queries, keys)

    @property
    def axis(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """1 if the columns of the scores are queries, 0 if the rows are."""
        return int(cast(sympy.Integer, self.args[5]))

    @property
    def body(self) -> Node:
        """The score of the bound query and the bound key."""
        return cast(Node, self.args[0])

    @property
    def vectors(self) -> tuple[BoundVector, BoundVector]:
        """The bound query and the bound key."""
        return cast(tuple[BoundVector, BoundVector], self.args[1:3])

    @property
    def data(self) -> tuple[Node, Node]:
        """All queries and all keys."""
        return cast(tuple[Node, Node], self.args[3:5])

    @property
    def bodies(self) -> tuple[Node, ...]:
        """The score of one pair."""
        return (self.body,)

    @property
    def values(self) -> Arguments:
        """The scalars in the score."""
        return tuple(value for node in self.body.everything() for value in node.values)

    @property
    def weights(self) -> tuple[Node, ...]:
        """The inputs of the score besides the pair."""
        return tuple(node for node in self.body.symbols() if node not in self.vectors)

    @property
    def matrices(self) -> tuple[Node, ...]:
        """Queries, keys, and the other inputs of the score."""
        return *self.data, *self.weights

    @property
    def operands(self) -> Arguments:
        """The matrices; what the score does with them is no operand."""
        return self.matrices

    @property
    def parts(self) -> tuple[Printable | Form, ...]:
        """The score of one pair, its vectors, and what they stand for."""
        return cast(tuple[Printable, ...], (self.body, *self.vectors, *self.data))

    def rebuilt(self, change: Callable[[Node], Node]) -> Node:
        """Return the same score of the changed matrices."""
        changed = {old: change(old) for old in self.matrices}
        if all(new is old for old, new in changed.items()):
            return self
        weights = {old: changed[old] for old in self.weights if changed[old] is not old}
        body = self.body.xreplace(weights) if weights else self.body
        data = (changed[each] for each in self.data)
        return type(self)(body, *self.vectors, *data, *self.args[5:])

    def selecting(self) -> Node:
        body = with_selections(self.body)
        return self if body is self.body else type(self)(body, *self.args[1:])

    def meaning(self, row: Place, column: Place) -> Form:
        """``s(q, k)`` with the entries of one query and one key in place of those of q and k."""
        query, key = (column, row) if self.axis == 1 else (row, column)

        def reading(data: Node, token: Place) -> Callable[[tuple[Place, ...]], Form]:
            if self.axis == 1:
                return lambda at: data.meaning(at[0], token)
            return lambda at: data.meaning(token, at[0])

        entries = {
            (vector.label, vector.sizes): reading(data, token)
            for vector, data, token in zip(self.vectors, self.data, (query, key), strict=True)
        }
        return substitute(self.body.meaning((), ()), entries)

    def array_code(self, operands: tuple[str, ...], context: ArrayContext) -> str:
        """Return the score with its pairs as batch axes."""
        vectors = self.vector_code(operands[:2])
        return self.pair_code(vectors, operands[2:], context)

    def vector_code(self, data: Sequence[str]) -> tuple[str, str]:
        """Return queries and keys as columns (d, 1), along batch axes for the two of a pair."""
        features_last = (f"{each}.swapaxes(-1, -2)" if self.axis == 1 else each for each in data)
        along = (":", "None") if self.axis == 0 else ("None", ":")
        query, key = (
            f"({each})[..., {', '.join(axes)}, :, None]"
            for each, axes in zip(features_last, (along, along[::-1]), strict=True)
        )
        return query, key

    def pair_code(
        self,
        vectors: Sequence[str],
        weights: Sequence[str],
        context: ArrayContext,
        known: Mapping[Node, str] | None = None,
    ) -> str:
        """Return the score of all pairs, from the source of the vectors and the weights.

        ``known`` holds the source of parts that are computed already, with all pairs as batch axes.
        """
        if any(part.binds or (part.reads and not part.is_input) for part in self.body.everything()):
            raise NotSupportedError("array code for heads that are put together inside a score")
        code = dict(zip(self.vectors, vectors, strict=True))
        code |= {node: each_pair(w) for node, w in zip(self.weights, weights, strict=True)}
        written = f"({nested(self.body, {**code, **(known or {})}, context)})[..., 0, 0]"
        # A vector that the score ignores still says how many there are, and in which batch.
        for vector, code in zip(self.vectors, vectors, strict=True):
            if vector not in self.body.inputs():
                zeros = f"{context.call('zeros')}(({code}).shape[:-2], dtype={context.dtype})"
                written = f"({written} + {zeros})"
        return written


def each_pair(code: str) -> str:
    """Return the source of a matrix that is the same for every pair.

    >>> each_pair("W")
    '(W)[..., None, None, :, :]'
    """
    return f"({code})[..., None, None, :, :]"


def pairwise(score: Any, Q: Any, K: Any, *, layout: str = "column") -> Pairwise:
    """Return the matrix of the scores of every query and key, from the score of one pair.

    >>> import symattn as sa
    >>> d, a, n, m = sa.dims("d a n m")
    >>> Q, K, W = sa.matrix("Q", d, n), sa.matrix("K", d, m), sa.matrix("W", a, d)
    >>> v = sa.vector("v", a)
    >>> pairwise(lambda q, k: v.T @ sa.tanh(W @ (q + k)), Q, K).shape
    (m, n)

    The score is given a query and a key as column vectors and returns a 1×1 expression.  In column
    layout tokens are columns and the scores are keys by queries; in row layout tokens are rows and
    the scores queries by keys.  Raises `ShapeError` for a score that is not 1×1, and
    `NotAnOperandError` for one that is no expression.
    """
    if layout not in QUERY_AXIS:
        raise UnknownNameError("layout", str(layout), tuple(QUERY_AXIS))
    axis = QUERY_AXIS[layout]
    query, key = as_matrix(Q, "pairwise"), as_matrix(K, "pairwise")
    sizes = query.sizes[1 - axis], key.sizes[1 - axis]
    q, k = (BoundVector(name, size) for name, size in zip("qk", sizes, strict=True))
    return Pairwise(scored(score, q, k), q, k, query, key, axis)


def _renamed(vector: BoundVector, taken: Collection[str]) -> BoundVector:
    """Return a bound vector with a name that no input of the score has."""
    label = vector.label
    while label in taken:
        label += "'"
    return BoundVector(label, vector.sizes[0])


def scored(score: Callable[[Node, Node], Any], q: Node, k: Node) -> Node:
    """Return what a score says of two column vectors, or raise for what is no score.

    >>> q, k = InputVector("q", "d"), InputVector("k", "d")
    >>> scored(lambda q, k: k.T @ q, q, k)
    k.T @ q
    """
    check_takes_two(score)
    with _one_at_a_time():
        body = score(q, k)
    if isinstance(body, str):
        raise TextRefusedError("a score", body)
    if not isinstance(body, Node):
        raise NotAnOperandError(
            brief(body), "a score returns a 1×1 expression of the columns q and k, as in k.T @ q"
        )
    if not (body.sizes[0].is_one and body.sizes[1].is_one):
        raise _not_a_number(body, q, k)
    return body


def check_takes_two(score: Callable[..., Any]) -> None:
    """Raise `OperationRefusedError` for a score that cannot be called with a query and a key.

    >>> check_takes_two(lambda q: q)
    Traceback (most recent call last):
        ...
    symattn.errors.OperationRefusedError: a score that does not take two arguments is not an ...
    """
    asked = "a score takes a query and a key, two column vectors: score=lambda q, k: k.T @ q"
    try:
        signature(score).bind(None, None)
    except TypeError:
        raise OperationRefusedError("a score that does not take two arguments", asked) from None
    except ValueError:  # a callable whose parameters cannot be read
        pass


def _not_a_number(body: Node, q: Node, k: Node) -> ShapeError:
    fits = q.sizes == k.sizes
    return ShapeError(
        f"the score {brief(body)}",
        facts((q, k)),
        f"it is {body.sizes[0]}×{body.sizes[1]}, but the score of one query and one key is a "
        "number, 1×1",
        f"{k.label}.T @ {q.label}" if fits else "",
    )


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Refuse a score within a score: their vectors would have one name."""
    if _building.get():
        raise NotSupportedError("a score inside a score")
    token = _building.set(True)
    try:
        yield
    finally:
        _building.reset(token)
