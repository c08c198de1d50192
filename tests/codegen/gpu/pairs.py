"""Formulas at random numbers: what each leaf of their score is, and what the scores have to be.

The scores, and what each query and key brings, are computed by the direct plan of NumPy; a leaf is
then an array of a number for every query and key, and a text is read at all of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

import symattn as sa
from symattn.codegen.blocked import Attended, blocked_program
from symattn.codegen.gpu.dialects import Dialect
from symattn.codegen.gpu.leaves import (
    DotLeaf,
    EntryLeaf,
    FixedLeaf,
    KeepLeaf,
    KeyLeaf,
    PairSumLeaf,
    QueryLeaf,
)
from symattn.codegen.gpu.score_text import ScoreText, score_text
from symattn.evaluate import BOUNDED_FLOATS, entry_value
from symattn.nodes import InputVector, Node
from symattn.nodes.along_axis import queries_and_keys
from symattn.nodes.arrays import index_order
from symattn.nodes.over_heads import Head
from symattn.notation.names import identifier

SIZES = {"n": 5, "m": 7, "d_k": 4, "d_v": 3, "d_a": 6, "d": 8, "h": 2, "w": 2, "p": 3, "e": 9}
LEFT = 2  # of tags that have no size above


@dataclass
class Numbers:
    """Random numbers for every input of a formula."""

    seed: int = 0
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    scalars: dict[str, float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=lambda: dict(SIZES))

    def prepare(self, node: Node) -> None:
        """Make numbers for what a formula reads."""
        random = np.random.default_rng(self.seed + len(self.arrays))
        for tag in node.tags:
            self.sizes.setdefault(tag, LEFT)
        for tag, size in node.given:
            self.sizes[tag] = size.value(self.sizes)
        for source in node.inputs():
            axes = source.sizes[:1] if isinstance(source, InputVector) else source.sizes
            shape = [size.value(self.sizes) for size in axes]
            self.arrays.setdefault(source.label, random.normal(size=shape))
        for scalar in node.scalars():
            self.scalars.setdefault(scalar.name, float(random.uniform(0.5, 1.5)))
        for boolean in node.booleans():
            shape = [size.value(self.sizes) for size in boolean.sizes]
            self.arrays.setdefault(boolean.label, random.random(shape) < 0.6)

    def value(self, node: Node) -> np.ndarray:
        """What NumPy computes of a formula."""
        self.prepare(node)
        if isinstance(node, Head):  # the number of heads follows from no array of its own
            joined, count = self.value(node.matrices[0]), self.sizes["h"]
            return np.stack(np.split(joined, count, axis=cast(int, node.axis) - 2), axis=-3)
        f = sa.lambdify([*node.inputs()], node, plan="direct")
        arrays = [self.arrays[source.label] for source in node.inputs()]
        given: dict[str, Any] = {
            identifier(scalar.name): self.scalars[scalar.name] for scalar in node.scalars()
        }
        given |= {one.label: self.arrays[one.label] for one in node.booleans()}
        open_sizes = inspect.signature(f).parameters
        given |= {tag: self.sizes[tag] for tag in open_sizes if tag in node.tags}
        return f(*arrays, **given)


def attended_in(formula: Any) -> list[Attended]:
    """The weighted sums of a formula."""
    program = formula.program if hasattr(formula, "program") else sa.Program({"O": formula})
    return [node for node in blocked_program(program).result.walk() if isinstance(node, Attended)]


@dataclass
class Pairs:
    """A weighted sum at random numbers: its text, and every leaf, (…, n, m)."""

    attended: Attended
    dialect: Dialect
    numbers: Numbers

    def __post_init__(self) -> None:
        self.text: ScoreText = score_text(self.attended, self.dialect)
        self.numbers.prepare(self.attended.product())
        _, *operands = self.attended.matrices
        self.operands = [self.spread(operand) for operand in operands]
        weights = self.attended.weights
        self.turned = weights.axis == 0  # keys × queries
        self.n, self.m = (
            size.value(self.numbers.sizes) for size in queries_and_keys(weights.sizes, weights.axis)
        )

    def spread(self, operand: Node) -> np.ndarray:
        """An operand with an axis for every index of all of them."""
        indices = index_order(self.attended)
        missing = [k for k, index in enumerate(indices) if index not in operand.indices]
        return np.expand_dims(self.numbers.value(operand), tuple(missing))

    def scores(self) -> np.ndarray:
        """The scores that NumPy computes, queries × keys."""
        scores = self.numbers.value(self.attended.weights.matrices[0])
        return scores.swapaxes(-1, -2) if self.turned else scores

    def seen(self) -> np.ndarray:
        """What NumPy computes of the mask."""
        weights = self.attended.weights
        assert weights.mask is not None
        pairs = sa.indicator(weights.mask, *weights.sizes, axis=weights.axis)
        seen = self.numbers.value(pairs) != 0
        return seen.swapaxes(-1, -2) if self.turned else seen

    def output(self) -> np.ndarray:
        """The weighted sum that NumPy computes, a row for each query."""
        product = self.attended.product()
        rows = self.attended.query_axis == 0
        if not any(isinstance(node, Head) for node in product.walk()):
            output = self.numbers.value(product)
            return output if rows else output.swapaxes(-1, -2)
        values = self.spread(self.attended.matrices[0])
        weights = np.exp(self.scores())
        return (
            weights / weights.sum(-1, keepdims=True) @ (values if rows else values.swapaxes(-1, -2))
        )

    def along(self, operand: int, axis: int) -> np.ndarray:
        """An operand with its tokens as rows."""
        array = self.operands[operand]
        return array if axis == 0 else array.swapaxes(-1, -2)

    def leaf(self, leaf: Any) -> np.ndarray:
        """What a leaf is for every query and key."""
        match leaf:
            case DotLeaf(query, query_axis, key, key_axis, scale):
                q, k = self.along(query, query_axis), self.along(key, key_axis)
                return q @ k.swapaxes(-1, -2) * (self.scalar(scale) if scale else 1)
            case QueryLeaf(operand, axis):
                return self.along(operand, axis)
            case KeyLeaf(operand, axis):
                return self.along(operand, axis).swapaxes(-1, -2)
            case EntryLeaf(operand, query_axis):
                return self.along(operand, query_axis)
            case KeepLeaf(label, ranks):
                kept = self.numbers.arrays[label]
                assert kept.ndim == ranks
                return kept if ranks == 2 else kept[None, :]
            case PairSumLeaf():
                raise AssertionError("its sum is taken in the language of its body")
            case _:
                raise AssertionError(leaf)

    def vectors(self, leaf: PairSumLeaf) -> dict[str, np.ndarray]:
        """The vectors of a sum, (n, m, d)."""
        found = {}
        for name, vector in leaf.vectors.items():
            match vector:
                case QueryLeaf(operand, axis):
                    found[name] = self.along(operand, axis)[:, None, :]
                case KeyLeaf(operand, axis):
                    found[name] = self.along(operand, axis)[None, :, :]
                case FixedLeaf(operand):
                    found[name] = self.operands[operand][None, None, :, 0]
        return found

    def scalar(self, name: str) -> float:
        """A scalar or a size, as the host computes it."""
        form = {**self.text.scalars, **self.text.sizes}[name]
        value = entry_value(form, {}, self.numbers.sizes, {}, self.numbers.scalars, BOUNDED_FLOATS)
        return int(value) if name in self.text.sizes else value

    def constants(self) -> Mapping[str, float]:
        return {name: self.scalar(name) for name in (*self.text.scalars, *self.text.sizes)}
