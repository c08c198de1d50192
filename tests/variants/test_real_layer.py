"""One layer of a real sentence encoder: the packed formula computes what the model computed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.variants import Formula

FILE = Path(__file__).parents[1] / "data" / "minilm_layer5.npz"
HEADS = 12
NAMES = ("X", "W_Q", "b_Q", "W_K", "b_K", "W_V", "b_V", "W_O", "b_O")

Arrays = dict[str, np.ndarray[Any, Any]]


@pytest.fixture(scope="module")
def layer() -> Arrays:
    with np.load(FILE, allow_pickle=False) as file:
        return {name: file[name] for name in file}


def given(arrays: Arrays, layout: str, *names: str) -> list[np.ndarray[Any, Any]]:
    """The arrays as a layout takes them; PyTorch's y = x Wᵀ + b is W X + b of columns."""
    found = [arrays[name] for name in names]
    if layout == "column":
        return [x.T if name == "X" else x for name, x in zip(names, found, strict=True)]
    return [x.T if name[0] == "W" else x for name, x in zip(names, found, strict=True)]


def close(found: Any, expected: Any) -> None:
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 1e-5


def inputs_of(formula: Formula, *names: str) -> list[Any]:
    by_name = {x.name.replace("^", "_"): x for x in formula.inputs}
    return [by_name[name] for name in names]


@pytest.mark.parametrize("layout", ["column", "row"])
def test_the_output_of_the_layer(layer: Arrays, layout: str) -> None:
    formula = sa.formula("packed_multi_head", layout)
    assert tuple(x.name.replace("^", "_") for x in formula.inputs) == NAMES
    found = sa.lambdify(formula.inputs, formula)(*given(layer, layout, *NAMES), h=HEADS)
    close(found.T if layout == "column" else found, layer["output"])


@pytest.mark.parametrize("layout", ["column", "row"])
def test_the_weights_of_every_head(layer: Arrays, layout: str) -> None:
    formula = sa.formula("packed_multi_head", layout)
    names = NAMES[:5]
    arrays = given(layer, layout, *names)
    inputs = inputs_of(formula, *names)
    program = sa.Program({name: formula.program[name] for name in "QKSP"})
    for lines in (formula.weights, program):
        found = sa.lambdify(inputs, lines)(*arrays, h=HEADS)
        close(found.swapaxes(-1, -2) if layout == "column" else found, layer["weights"])


@pytest.mark.parametrize("layout", ["column", "row"])
def test_the_heads_side_by_side(layer: Arrays, layout: str) -> None:
    formula = sa.formula("packed_multi_head", layout)
    head = formula.program["head"]
    (index,) = head.indices
    names = NAMES[:7]
    inputs, arrays = inputs_of(formula, *names), given(layer, layout, *names)
    context = sa.heads(head, index, axis=0 if layout == "column" else 1)
    found = sa.lambdify(inputs, context)(*arrays, h=HEADS)
    close(found.T if layout == "column" else found, layer["context"])
    # Head by head, as one stack of matrices.
    stack = sa.lambdify(inputs, head)(*arrays, h=HEADS)
    stack = stack.swapaxes(-1, -2) if layout == "column" else stack
    close(np.concatenate(list(stack), axis=1), layer["context"])


def test_a_batch_of_sentences(layer: Arrays) -> None:
    formula = sa.formula("packed_multi_head", "row")
    x, *learned = given(layer, "row", *NAMES)
    batch = np.stack([x, x[::-1]])[:, None]
    found = sa.lambdify(formula.inputs, formula)(batch, *learned, h=HEADS)
    assert found.shape == (2, 1, 10, 384)
    close(found[0, 0], layer["output"])
    close(found[1, 0, ::-1], layer["output"])


@pytest.mark.parametrize("heads", [1, 6, 24])
def test_another_number_of_heads_is_another_layer(layer: Arrays, heads: int) -> None:
    """So the tests above could fail: every count that divides 384 runs, and one is right."""
    formula = sa.formula("packed_multi_head", "row")
    found = sa.lambdify(formula.inputs, formula)(*given(layer, "row", *NAMES), h=heads)
    assert np.abs(found - layer["output"]).max() > 1e-2


def test_a_count_that_does_not_divide_is_refused(layer: Arrays) -> None:
    formula = sa.formula("packed_multi_head", "row")
    with pytest.raises(sa.InputShapeError) as refused:
        sa.lambdify(formula.inputs, formula)(*given(layer, "row", *NAMES), h=10)
    first = str(refused.value).splitlines()[0]
    assert first == (
        "the relation d_model = h*d_k leaves a remainder: 384 divided by 10 "
        "leaves 4, with d_model = 384 (X's columns), h = 10 (the sizes given)"
    )
