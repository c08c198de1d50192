"""Numbers of what a view prints: vectors are taken from the arrays, and joined as it is written.

This knows the kinds of writing and nothing of meanings, which a view is derived from.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from symattn.evaluate import entry_value
from symattn.evaluate.arithmetic import FLOATS, apply_function
from symattn.meaning.form import Form, Index
from symattn.nodes import Node
from symattn.nodes.indices import AxisIndex
from symattn.notation.rows import Kind
from tests.views.points import SCALARS, SIZES, written


class Numbers:
    """Computes readings where the free indices have values, counted from 0."""

    def __init__(self, arrays: dict[Any, Any], at: Mapping[Index, int]) -> None:
        self.arrays = arrays
        self.at = at

    def __call__(self, part: Any) -> Any:
        if isinstance(part, Form):
            entries = {(s.label, s.sizes): array for s, array in self.arrays.items()}
            return np.array([[entry_value(part, self.at, SIZES, entries, SCALARS)]])
        if isinstance(part, Node):  # read nowhere: all of it
            return written(part, self.arrays, {one: self.value(one) for one in part.indices})
        return self.rules[part.notation.kind](part)

    def value(self, index: AxisIndex) -> int:
        """The number of a head; a head alone is number 0."""
        return self.at[index.place[0]] if index.place else 0

    def symbol(self, part: Any) -> Any:
        """A row of the matrix of that name, or a column of the one whose name has a capital."""
        named = {symbol.label: array for symbol, array in self.arrays.items()}
        heads = tuple(self.value(AxisIndex(*one)) for one in part.running)
        (index,) = part.at
        k = self.at[index]
        capital = part.label[0].upper() + part.label[1:]
        if part.sizes[1].is_one and part.label[0].islower() and capital in named:
            return named[capital][heads][:, k : k + 1]
        array = named[part.label][heads]
        # One entry is a row of a single column, or a column of a single row.
        is_column = part.sizes[1].is_one and (not part.sizes[0].is_one or len(array) == 1)
        return array[:, k : k + 1] if is_column else array[k : k + 1, :]

    def of_each(self, part: Any) -> list[Any]:
        """What is written for one head, of every head."""
        ((name, size),) = part.running
        index = AxisIndex(name, size).place
        counts = range(size.value(SIZES))
        return [
            Numbers(self.arrays, {**self.at, **dict.fromkeys(index, k)})(part.parts[0])
            for k in counts
        ]

    def head(self, part: Any) -> Any:
        ((name, size),) = part.running
        blocks = np.split(self(part.parts[0]), size.value(SIZES), axis=part.axis)
        return blocks[self.value(AxisIndex(name, size))]

    def product(self, part: Any) -> Any:
        values = [self(inner) for inner in part.parts]
        result = values[0]
        for value in values[1:]:
            result = result * value if 1 in (result.size, value.size) else result @ value
        return result

    def sum(self, part: Any) -> Any:
        return sum(self(inner) for inner in part.parts)

    def softmax(self, part: Any) -> Any:
        exponentials = np.exp(self(part.parts[0]))
        return exponentials / exponentials.sum(axis=part.axis, keepdims=True)

    def function(self, part: Any) -> Any:
        apply = np.vectorize(lambda x: apply_function(part.label, float(x), FLOATS))
        return apply(self(part.parts[0]))

    @property
    def rules(self) -> Mapping[Kind, Callable[[Any], Any]]:
        return {
            Kind.SYMBOL: self.symbol,
            Kind.PRODUCT: self.product,
            Kind.SUM: self.sum,
            Kind.SOFTMAX: self.softmax,
            Kind.FUNCTION: self.function,
            Kind.TRANSPOSE: lambda part: self(part.parts[0]).T,
            Kind.NEGATION: lambda part: -self(part.parts[0]),
            Kind.FRACTION: lambda part: self(part.parts[0]) / self(part.parts[1]),
            Kind.HADAMARD: lambda part: np.prod([self(inner) for inner in part.parts], axis=0),
            Kind.CONCAT: lambda part: np.concatenate([self(p) for p in part.parts], part.axis),
            Kind.MEMBER: self.symbol,
            Kind.HEADS: lambda part: np.concatenate(self.of_each(part), part.axis),
            Kind.SUM_OVER: lambda part: sum(self.of_each(part)),
            Kind.HEAD: self.head,
            Kind.ONES: lambda part: np.ones([size.value(SIZES) for size in part.sizes]),
        }
