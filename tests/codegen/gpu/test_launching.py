"""What the host computes of a launch: strides, merged axes, alignment, and what is compiled for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from symattn.codegen.gpu.launching import layout_of, merged
from symattn.codegen.gpu.parameters import padded

shapes = st.lists(st.integers(1, 3), max_size=5)


@given(shapes, st.data())
def test_merged_axes_lead_to_the_same_places(shape: list[int], data: Any) -> None:
    """Every matrix of every array, in the order of the leading axes."""
    batch = tuple(shape)
    arrays: list[np.ndarray] = []
    for _ in range(3):
        own = tuple(data.draw(st.sampled_from([1, size])) for size in batch)
        order = data.draw(st.permutations(range(len(batch))))
        made = np.arange(np.prod(own, dtype=int) * 6).reshape(*(own[k] for k in order), 2, 3)
        arrays.append(np.moveaxis(made, range(len(batch)), order))
    layouts = [layout_of(x.astype(np.float32), 0, batch) for x in arrays]
    sizes, strides = merged(batch, [layout.leading for layout in layouts])
    assert np.prod(sizes, dtype=int) == np.prod(batch, dtype=int)
    for x, steps in zip(arrays, strides, strict=True):
        single = x.astype(np.float32)
        flat = np.lib.stride_tricks.as_strided(
            single[(0,) * len(batch)][0, 0:1], (*sizes, 1), (*(4 * s for s in steps), 4)
        )
        expected = np.broadcast_to(single[..., 0, 0], batch)
        np.testing.assert_array_equal(flat.reshape(-1), expected.reshape(-1))


def test_axes_in_c_order_are_one() -> None:
    assert merged((2, 3, 4), [(96, 32, 8), (0, 0, 0)]) == ((24,), [(8,), (0,)])
    assert merged((2, 3), [(12, 4), (4, 0)]) == ((2, 3), [(12, 4), (4, 0)])
    assert merged((), [()]) == ((), [()])
    assert merged((1, 1), [(5, 7)]) == ((), [()])


@pytest.mark.parametrize(
    ("array", "unit"),
    [
        (np.zeros((4, 6)), "c"),
        (np.zeros((6, 4)).T, "r"),
        (np.zeros((4, 1)), "r"),
        (np.zeros((1, 4)), "c"),
        (np.zeros((1, 1)), "c"),
        (np.zeros((4, 12))[:, ::2], ""),
        (np.zeros((4, 12))[:, :1], "c"),
        (np.broadcast_to(np.zeros((4, 1)), (4, 6)), "r"),
        (np.zeros((4, 6))[:, ::-1], ""),
    ],
)
def test_what_lies_side_by_side(array: np.ndarray, unit: str) -> None:
    assert layout_of(array, 0, ()).unit == unit


def test_what_is_aligned() -> None:
    array = np.zeros((3, 16, 64), np.float16)
    assert layout_of(array, 32, (3,)).aligned
    assert not layout_of(array, 8, (3,)).aligned
    assert layout_of(array[..., :48], 0, (3,)).aligned
    assert not layout_of(np.zeros((16, 36), np.float16), 0, ()).aligned
    assert layout_of(np.zeros((16, 36), np.float32), 0, ()).aligned
    assert layout_of(np.zeros((1, 5), np.float16), 0, ()).aligned  # there is no step


def test_padded_sizes() -> None:
    assert [padded(size) for size in (1, 16, 17, 64, 65, 129, 256)] == [
        16,
        16,
        32,
        64,
        128,
        256,
        256,
    ]
