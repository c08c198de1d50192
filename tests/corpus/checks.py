"""What is asked of the formulas of the corpus: proofs that replay, LaTeX, and the right numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.nodes.inputs import InputVector
from symattn.notation.presets import PRESETS
from symattn.proof import Proof


def equal(left: Any, right: Any, **given: Any) -> Proof:
    """Check that both formulas are proved to say the same, and that the proof replays."""
    proof = sa.prove(left, right, **given)
    assert proof.verdict == "proved", proof.text()
    assert proof.check()
    return proof


def different(left: Any, right: Any, **given: Any) -> Proof:
    """Check that numbers are found where the formulas differ, and that they replay."""
    proof = sa.prove(left, right, **given)
    assert proof.verdict == "refuted", proof.text()
    assert proof.check()
    return proof


def refusal(build: Callable[[], Any], error: type[sa.SymattnError] = sa.ShapeError) -> Any:
    """Check that a formula is refused when it is written, by an error of this very class."""
    with pytest.raises(error) as caught:
        build()
    assert type(caught.value) is error
    return caught.value


def printed(expr: Any) -> str:
    """Check that a formula is printed in every preset, its delimiters balanced; return its text."""
    for preset in PRESETS:
        latex = sa.latex(expr, preset=preset)
        assert latex.count("{") == latex.count("}")
        assert latex.count(r"\left") == latex.count(r"\right")
        for symbol in expr.symbols():
            assert symbol.label[0] in latex
    return sa.text(expr)


def computes(
    inputs: Sequence[Any],
    expr: Any,
    by_hand: Callable[..., Any],
    sizes: Mapping[str, int],
    **given: Any,
) -> None:
    """Check that generated code computes what is written by hand, on random numbers.

    ``given`` are scalars and booleans by name, which both are called with.
    """
    assert len(set(sizes.values())) == len(sizes), "equal sizes hide what is transposed"
    random = np.random.default_rng(17)
    shapes = [
        [
            size.value(dict(sizes))
            for size in (s.sizes[:1] if isinstance(s, InputVector) else s.sizes)
        ]
        for s in inputs
    ]
    arrays = [random.normal(size=shape) for shape in shapes]
    found = sa.lambdify(inputs, expr)(*arrays, **given)
    expected = np.asarray(by_hand(*arrays, **given))
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
