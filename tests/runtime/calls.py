"""Calls for tests of judging: items as a checked function meets them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from symattn.runtime.declared.hints import (
    ArrayHint,
    Count,
    Either,
    Item,
    Kind,
    Met,
    Misfit,
    Place,
    Shape,
)
from symattn.tags.spec import parse_shape


def place_of(text: str) -> Place:
    """The place `layers[2].W` in `layers`; the result's argument is `the result`."""
    return Place(text.partition("[")[0].partition(".")[0], text)


def given(place: str, spec: str, value: Any, dtype: str = "") -> Item:
    """What is met where a value is given for an array of a spec, and of a dtype."""
    kind = Kind(dtype, lambda name: name == dtype) if dtype else None
    ((item,),) = ArrayHint(parse_shape(spec), (), kind).met(value, place_of(place))
    assert not isinstance(item, Either)
    return item


def array(place: str, spec: str, shape: Shape) -> Met:
    """An array of the declared number of axes."""
    item = given(place, spec, of_shape(shape))
    assert isinstance(item, Met)
    return item


def wrong_rank(place: str, spec: str, shape: Shape) -> Misfit:
    """An array of another number of axes."""
    item = given(place, spec, of_shape(shape))
    assert isinstance(item, Misfit)
    return item


def count(name: str, value: int, tag: str = "") -> Count:
    """An integer parameter."""
    return Count(place_of(name), tag or name, value)


def call(specs: Mapping[str, str], shapes: Mapping[str, Shape]) -> list[Item]:
    """The items of a call with arrays of these shapes."""
    return [given(name, spec, of_shape(shapes[name])) for name, spec in specs.items()]


def of_shape(shape: Shape) -> Any:
    """An array of this shape that takes no memory."""
    return np.broadcast_to(np.float64(0), shape)
