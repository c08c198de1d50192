"""Statements of a kernel against the functions of `spans`, which the CPU uses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import symattn as sa
from symattn.codegen import spans
from symattn.codegen.gpu.key_text import key_text
from symattn.codegen.key_ranges import KeyRanges
from symattn.evaluate import BOUNDED_FLOATS, entry_value
from symattn.meaning.form import place
from symattn.nodes.along_axis import queries_and_keys
from symattn.nodes.arrays import ArrayContext
from symattn.notation.names import identifier
from tests.codegen.gpu.pairs import attended_in

n, m, w, p, d = sa.dims("n m w p d")
Q, K, V = sa.matrix("Q", n, d), sa.matrix("K", m, d), sa.matrix("V", m, d)

MASKS = [
    sa.causal("top_left"),
    sa.causal("bottom_right"),
    sa.window(3, "top_left"),
    sa.window(w, "bottom_right"),
    sa.window(w, "top_left") & sa.causal("top_left"),
    sa.prefix(p),
    sa.prefix(p) | sa.causal("top_left"),
    sa.prefix(2) | sa.window(w, "bottom_right"),
    ~sa.causal("top_left"),
    ~sa.prefix(p) & sa.causal("bottom_right"),
    ~sa.prefix(p) & sa.window(w, "top_left"),
    ~(sa.prefix(3) | sa.causal("bottom_right")),
    sa.keep(),
    sa.keep() & sa.causal("top_left"),
    sa.padding() | sa.window(2, "top_left"),
    sa.padding() & ~sa.prefix(p) | sa.causal("bottom_right"),
]

LANGUAGE = SimpleNamespace(
    minimum=min, maximum=max, where=lambda condition, one, other: one if condition else other
)


@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("queries", [7, 12])
@pytest.mark.parametrize("keys", [5, 12])
def test_they_are_the_same_keys(mask: Any, queries: int, keys: int) -> None:
    (attended,) = attended_in(sa.softmax(Q @ K.T, axis=1, mask=mask) @ V)
    written = key_text(attended, {})
    axes = queries_and_keys(attended.weights.sizes, attended.weights.axis)
    query, key = (place(size) for size in axes)
    ranges = KeyRanges(ArrayContext(str, identifier, ""), str, query, key)
    expected_code = ranges.code(mask.condition(query, key, axes))
    for width in (1, 4, 9):
        sizes = {"n": queries, "m": keys, "w": width, "p": width - 1, "d": 2}
        numbers = {
            name: int(entry_value(form, {}, sizes, {}, {}, BOUNDED_FLOATS))
            for name, form in written.sizes.items()
        }
        expected: Any = eval(expected_code, {**vars(spans), **sizes})
        for i0 in range(0, queries, 3):
            i1 = min(queries, i0 + 3)
            names = {"tl": LANGUAGE, "i0": i0, "i1": i1, "m": keys, **numbers}
            exec("\n".join(written.lines), names)
            found = tuple(names[name] for name in ("first", "full", "stop", "last"))
            seen = expected(i0, i1, keys)
            if seen[0] < seen[3] or found[0] < found[3]:
                assert (found[0], found[3]) == (seen[0], seen[3])
            if seen[1] < seen[2] or found[1] < found[2]:
                assert found[1:3] == seen[1:3]
            assert not written.from_start or found[0] == found[1] == 0
            assert written.has_full or found[1] >= found[2]


def test_without_a_mask_every_key_is_seen() -> None:
    (attended,) = attended_in(sa.softmax(Q @ K.T, axis=1) @ V)
    written = key_text(attended, {})
    names = {"m": 9}
    exec("\n".join(written.lines), names)
    assert [names[name] for name in ("first", "full", "stop", "last")] == [0, 0, 9, 9]


def test_sizes_that_have_a_name_keep_it() -> None:
    (attended,) = attended_in(sa.softmax(Q @ K.T, axis=1, mask=sa.prefix(p)) @ V)
    first = key_text(attended, {}).sizes
    known = {"n0": next(iter(first.values()))}
    assert key_text(attended, known).sizes == known
