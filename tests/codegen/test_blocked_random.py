"""Random formulas of attention in blocks: against float64 by hand, and the direct plan.

A formula is drawn together with its value: scores of many kinds under masks, weights that are a
softmax or another function of scores, scaled, multiplied entry by entry, and added; projections
before and after, heads, batches, memory in any order.  Then blocks of a few scores compute it, in
some dtype, for some number of workers, and again with numbers that are not finite.
"""

import sys
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.errors import InputShapeError, NotSupportedError
from symattn.nodes import Mask, Node
from tests.codegen.blocks import in_small_blocks

Array = np.ndarray[Any, Any]
Drawn = tuple[Node, Array]
"""A formula in the layout that was drawn, and its value as rows."""

n, m, d, e, h, c = sa.dims("n m d e h c")

FUNCTIONS: list[tuple[Callable[[Any], Any], Callable[[Array], Array]]] = [
    (sa.tanh, np.tanh),
    (sa.silu, lambda x: x / (1 + np.exp(-x))),
    (lambda x: sa.square(x) / 4, lambda x: x * x / 4),
    (sa.relu, lambda x: np.maximum(x, 0)),
    (lambda x: sa.hadamard(x, x), lambda x: x * x),
    (lambda x: -(2 * x) / 3, lambda x: -2 * x / 3),
]
BIASES: list[Callable[[Any, Any], Any]] = [
    lambda i, j: 0.25 * (i - j),
    lambda i, j: 1 / (1 + (i - j) ** 2),
    lambda i, j: i / 10 - j / 5 + 1,
]


class Formulas:
    """Draws formulas, and the arrays that they are computed from."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.is_row = draw.random() < 0.5
        self.axis = 1 if self.is_row else 0  # along which a softmax sums
        queries, keys = draw.choice((0, 1, 2, 4, 5, 8, 9, 17)), draw.choice((0, 1, 3, 6, 7, 13))
        width = draw.choice((1, 2, 4))
        self.sizes: dict[Any, int] = {n: queries, m: keys, d: width, e: 3, h: 2, c: 1, 1: 1}
        self.has_batch, self.has_heads = draw.random() < 0.4, draw.random() < 0.3
        self.i = sa.index("i", h)
        self.inputs: dict[str, Any] = {}
        self.arrays: dict[str, Array] = {}
        self.masks: dict[str, Array] = {}

    def size(self, tag: Any) -> int:
        return self.sizes[tag]

    def pair(self, rows: Any, columns: Any) -> tuple[Any, Any]:
        return (rows, columns) if self.is_row else (columns, rows)

    def batch(self) -> tuple[int, ...]:
        return self.draw.choice(((), (2,), (1,), (3, 1), (1, 2))) if self.has_batch else ()

    def matrix(self, rows: Any, columns: Any) -> Drawn:
        """An input, one for every head or the same for all."""
        name, shape = f"X{len(self.inputs)}", (self.size(rows), self.size(columns))
        if self.has_heads and self.draw.random() < 0.4:
            family = sa.family(name, h, *self.pair(rows, columns))
            self.inputs[name] = family
            self.arrays[name] = array = self.numbers.normal(size=(*self.batch(), 2, *shape))
            return family[self.i], array
        self.inputs[name] = symbol = sa.matrix(name, *self.pair(rows, columns))
        self.arrays[name] = array = self.numbers.normal(size=(*self.batch(), *shape))
        return symbol, array[..., None, :, :] if self.has_heads else array

    def product(self, left: Drawn, right: Drawn) -> Drawn:
        formula = left[0] @ right[0] if self.is_row else right[0] @ left[0]
        return formula, left[1] @ right[1]

    def tokens(self, of: Any) -> Drawn:
        found = self.matrix(of, d)
        return found if self.draw.random() < 0.7 else self.product(found, self.matrix(d, d))

    def inner_products(self, keys: Any = m) -> Drawn:
        of_queries, (of_keys, array) = self.tokens(n), self.tokens(keys)
        formula, value = self.product(of_queries, (of_keys.T, array.swapaxes(-1, -2)))
        return formula / sa.sqrt(d), value / np.sqrt(self.sizes[d])

    def part(self, keys: Any = m) -> Drawn:
        """Scores that are computed by one operation."""
        ones = sa.ones(*self.pair(n, 1)), np.ones((self.sizes[n], 1))
        match self.draw.randrange(8):
            case 0:
                return self.matrix(n, keys)
            case 1:
                across = sa.ones(*self.pair(1, keys)), np.ones((1, self.size(keys)))
                return self.product(self.matrix(n, 1), across)
            case 2:
                return self.product(ones, self.matrix(1, keys))
            case 3:
                bias = self.draw.choice(BIASES)
                i, j = np.ogrid[: float(self.sizes[n]), : float(self.size(keys))]
                layout = "row" if self.is_row else "column"
                return sa.positional(bias, n, keys, layout=layout), bias(i, j) + np.zeros(1)
            case _:
                return self.inner_products(keys)

    def scores(self, depth: int = 2, keys: Any = m) -> Drawn:
        kind = self.draw.randrange(6) if depth else 0
        formula, value = self.part(keys) if kind < 3 else self.scores(depth - 1, keys)
        if kind < 3:
            return formula, value
        if kind == 3:
            on_formulas, on_values = self.draw.choice(FUNCTIONS)
            return on_formulas(formula), on_values(value)
        other, with_value = self.scores(depth - 1, keys)
        if kind == 4:
            return sa.hadamard(formula, other), value * with_value
        return (formula - other, value - with_value)

    def mask(self, depth: int = 1) -> tuple[Mask, Array]:
        i, j = np.ogrid[: self.sizes[n], : self.sizes[m]]
        first = self.draw.random() < 0.5
        align, later = ("top_left", 0) if first else ("bottom_right", self.sizes[m] - self.sizes[n])
        match self.draw.randrange(8 if depth else 5):
            case 0:
                return sa.causal(align), j <= i + later
            case 1:
                return sa.window(2, align), abs(i + later - j) < 2
            case 2:
                return sa.prefix(2), (j < 2) & (i >= 0)
            case 3:
                return sa.keep(), self.given("keep", (self.sizes[n], self.sizes[m]))
            case 4:
                return sa.padding(), self.given("padding", (1, self.sizes[m]))
            case 5:
                mask, seen = self.mask(0)
                return ~mask, ~seen
            case kind:
                (mask, seen), (other, also) = self.mask(0), self.mask(0)
                return (mask & other, seen & also) if kind == 6 else (mask | other, seen | also)

    def given(self, name: str, shape: tuple[int, ...]) -> Array:
        """The array of a mask, the same wherever it stands."""
        if name not in self.masks:
            drawn = self.numbers.random((*self.batch(), *shape)) < 0.6
            self.masks[name] = drawn[..., 0, :] if name == "padding" else drawn
        array = self.masks[name][..., None, :] if name == "padding" else self.masks[name]
        return array[..., None, :, :] if self.has_heads else array

    def weights(self) -> Drawn:
        formula, value = self.scores()
        mask, seen = self.mask() if self.draw.random() < 0.6 else (None, np.ones((1, 1), bool))
        scale = self.draw.choice((1, 1, 1, 40))
        shift = self.draw.choice((0, 0, 0, 60))
        kind, shape = self.draw.randrange(10), self.pair(n, m)
        if kind < 6:
            formula, value = scale * formula - shift * sa.ones(*shape), scale * value - shift
            return sa.softmax(formula, axis=self.axis, mask=mask), softmax(value, seen)
        if kind < 8:
            if mask is not None:
                formula += sa.additive_mask(mask, *shape, axis=self.axis)
            return sa.exp(formula), np.where(seen, np.exp(value), 0)
        formula, value = sa.sigmoid(formula), 1 / (1 + np.exp(-value))
        if mask is None:
            return formula, value
        return sa.hadamard(formula, sa.indicator(mask, *shape, axis=self.axis)), value * seen

    def changed_weights(self) -> Drawn:
        formula: Any
        formula, value = self.weights()
        for _ in range(self.draw.choice((0, 0, 1, 2))):
            kind = self.draw.randrange(4)
            if kind == 0:
                formula, value = -(2 * formula) / 3, -2 * value / 3
                continue
            other, with_value = self.weights() if kind == 1 else self.part()
            if kind == 2:
                formula, value = sa.hadamard(other, formula), value * with_value
            else:
                formula, value = formula - other, value - with_value
        return formula, value

    def values(self, of: Any = m) -> Drawn:
        if self.draw.random() < 0.6:
            return self.matrix(of, e)
        return self.product(self.matrix(of, d), self.matrix(d, e))

    def beside(self) -> Drawn:
        """Scores that stand beside others, with values of their own."""
        (one, first), (two, second) = self.scores(1), self.scores(1, c)
        (v, before), (w, after) = self.values(), self.values(c)
        weights = sa.softmax(sa.concat(one, two, axis=self.axis), axis=self.axis)
        values = sa.concat(v, w, axis=1 - self.axis)
        shares = softmax(together(first, second, axis=-1), np.ones((1, 1), bool))
        return self.product((weights, shares), (values, together(before, after, axis=-2)))

    def result(self) -> Drawn:
        beside = self.draw.random() < 0.15
        drawn = self.beside() if beside else self.product(self.changed_weights(), self.values())
        if self.draw.random() < 0.3:
            drawn = self.product(drawn, self.matrix(e, e))
        formula, value = drawn
        if not self.has_heads:
            return formula, value
        if self.i not in formula.indices:
            return formula, value[..., 0, :, :]
        wide = np.broadcast_shapes(value.shape, (2, 1, 1))
        return sa.sum_over(formula, self.i), np.broadcast_to(value, wide).sum(axis=-3)

    def in_memory(self, array: Array) -> Array:
        """The same numbers, in the layout of the formula and another order of memory."""
        array = array if self.is_row else array.swapaxes(-1, -2)
        match self.draw.randrange(4):
            case 0:
                return np.asfortranarray(array)
            case 1:
                return np.repeat(array, 2, axis=-1)[..., ::2]
            case 2:
                return array[..., ::-1, :].copy()[..., ::-1, :]
            case _:
                return array.copy()


def softmax(scores: Array, seen: Array) -> Array:
    """The weights of every row, 0 where none is seen."""
    scores = np.where(seen, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


def together(*arrays: Array, axis: int) -> Array:
    batch = np.broadcast_shapes(*(array.shape[:-2] for array in arrays))
    wide = [np.broadcast_to(array, batch + array.shape[-2:]) for array in arrays]
    return np.concatenate(wide, axis=axis)


def agree(found: Array, expected: Array, tolerance: float, size: float) -> None:
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * size)


def check(seed: int, patch: pytest.MonkeyPatch) -> bool:
    """Check one formula; return whether it was one for blocks."""
    drawn = Formulas(seed)
    draw = drawn.draw
    with np.errstate(all="ignore"):
        formula, value = drawn.result()
    labels = {getattr(item, "label", "") for item in formula.free_symbols}
    names = [name for name in drawn.inputs if name in labels]
    inputs = [drawn.inputs[name] for name in names]
    try:
        f = sa.lambdify(inputs, formula, plan="blocked")
    except NotSupportedError:
        return False
    direct = sa.lambdify(inputs, formula, plan="direct")
    in_small_blocks(patch, draw.choice((1, 3, 8, 24, 60, 400)), draw.choice((1, 2, 3, 4, 8)))
    given = [drawn.in_memory(drawn.arrays[name]) for name in names]
    parameters = f.__signature__.parameters
    sizes = {str(tag): size for tag, size in drawn.sizes.items()}
    open_sizes = {
        name: sizes[name]
        for name, parameter in parameters.items()
        if name in sizes and parameter.default is parameter.empty
    }
    named = open_sizes | {k: mask for k, mask in drawn.masks.items() if k in parameters}
    try:
        whole = direct(*given, **named)
    except InputShapeError:  # a mask with a batch where the others have the axis of heads
        return False
    with np.errstate(all="raise"):
        found = f(*given, **named)
    size = 1 + np.abs(value).max(initial=0)
    expected = value if drawn.is_row else value.swapaxes(-1, -2)
    if size < 1e8:
        agree(found, np.broadcast_to(expected, found.shape), 1e-8, size)
        agree(whole, np.broadcast_to(expected, found.shape), 1e-8, size)
    out = np.full_like(found, 7)
    f(*given, **named, workers=draw.choice((2, 3)), out=out)
    np.testing.assert_array_equal(out, found)
    if size < 1e3:
        for dtype, tolerance in (("float32", 1e-4), ("float16", 1e-2)):
            short = [array.astype(dtype) for array in given]
            exact = direct(*(array.astype(float) for array in short), **named)
            lost = np.abs(direct(*short, **named).astype(float) - exact).max(initial=0)
            if np.isfinite(lost):
                agree(f(*short, **named), exact, tolerance + lost, size)
    for number in (np.nan, draw.choice((np.inf, -np.inf))):
        array = draw.choice(given)
        if array.size:
            array[tuple(draw.randrange(length) for length in array.shape)] = number
        agree(f(*given, **named), direct(*given, **named), 1e-8, size)
    return True


@pytest.mark.parametrize("start", range(0, 100, 20))
def test_random_formulas(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [check(seed, monkeypatch) for seed in range(start, start + 20)]
    assert sum(found) > 10


if __name__ == "__main__":  # python -m tests.codegen.test_blocked_random FIRST LAST
    with pytest.MonkeyPatch.context() as patch:
        for number in range(*map(int, sys.argv[1:])):
            try:
                check(number, patch)
            except Exception as error:
                print(number, type(error).__name__, str(error)[:300].replace("\n", " | "))
