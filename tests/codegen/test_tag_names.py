"""A tag may have the name of anything that generated code might bind on the way."""

from typing import Any

import numpy as np
import pytest
import sympy

import symattn as sa
from symattn.evaluate import evaluate
from symattn.nodes import Node

SIZES = {"p": 2, "n": 3, "m": 5}
n, m = sa.dims("n m")


def formulas(tag: Any) -> dict[str, Node]:
    """Formulas whose code reads an array more than once, and a size of that name meanwhile."""
    i = sa.index("i", tag)
    T, Z = sa.family("T", tag, n, m), sa.matrix("Z", tag * n, m)
    scores = sa.matrix("S", n, m)
    return {
        "heads": sa.heads(sa.tanh(T[i]) * tag, i, axis=0),
        "a head": sa.sum_over(sa.square(sa.head(sa.tanh(Z) * tag, i, axis=0)), i),
        "a sum over what does not read the index": sa.sum_over(sa.tanh(scores), i),
        "reshape": sa.reshape(sa.tanh(Z), n, tag * m),
        "softmax": sa.softmax(scores * tag, axis=1) * tag,
        "a masked softmax": sa.softmax(sa.tanh(scores) * tag, axis=1, mask=sa.prefix(tag)),
        "pairs": sa.pairwise(lambda q, k: sa.tanh(q.T @ k) * tag, scores, scores),
    }


@pytest.mark.parametrize("tag", ["x", "e", "z", "s", "q", "k", "a"])
@pytest.mark.parametrize("name", formulas(sa.dim("p")))
def test_a_tag_shadows_nothing_and_is_not_shadowed(name: str, tag: str) -> None:
    node = formulas(sa.dim(tag))[name]
    sizes = {**SIZES, tag: SIZES["p"]}
    random = np.random.default_rng(1)
    inputs = node.inputs()
    arrays = [random.normal(size=[size.value(sizes) for size in each.sizes]) for each in inputs]
    values: Any = evaluate(node, sizes, dict(zip(inputs, arrays, strict=True)))
    expected = values.astype(float)
    tags = [sa.dim(each) for each in node.tags]
    whole = sympy.lambdify([*inputs, *tags], node, "numpy")
    found = whole(*arrays, *(sizes[each] for each in node.tags))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    f = sa.lambdify(inputs, node)
    given = {each: sizes[each] for each in (tag, "n") if each in f.__signature__.parameters}
    np.testing.assert_allclose(f(*arrays, **given), expected, rtol=0, atol=1e-12)
