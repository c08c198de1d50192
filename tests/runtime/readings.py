"""What the tests of annotations read, and how they look at it."""

from typing import Any

import pytest

from symattn.errors.checks import SpecError
from symattn.runtime.declared.hints import (
    ArrayHint,
    Count,
    Either,
    Hint,
    Met,
    Misfit,
    Place,
    everything_in,
)
from symattn.runtime.declared.reading import hint_of
from symattn.tags.spec import parse_shape

D_N = parse_shape("d n")


def read(annotation: Any, spec: Any = None, parameter: str = "K") -> Hint:
    return hint_of(annotation, spec, "attend", parameter)


def texts(hint: Hint) -> list[str]:
    """The shapes that are declared anywhere in a hint."""
    return [one.spec.text for one in everything_in(hint) if isinstance(one, ArrayHint)]


def places(hint: Hint, value: Any) -> dict[str, Any]:
    """Each array, size and misfit in the only reading of a value."""
    (reading,) = hint.met(value, Place.of("K"))
    facts = {Met: "shape", Count: "value", Misfit: "kind"}
    items = [item for item in reading if not isinstance(item, Either)]
    assert len(items) == len(reading)
    return {item.place.text: getattr(item, facts[type(item)]) for item in items}


def fits(hint: Hint, value: Any) -> bool:
    readings = list(hint.met(value, Place.of("K")))
    assert readings
    return any(not any(isinstance(item, Misfit) for item in reading) for reading in readings)


def refusal(annotation: Any, spec: Any = None, parameter: str = "K") -> SpecError:
    with pytest.raises(SpecError) as caught:
        read(annotation, spec, parameter)
    assert caught.value.function == "attend"
    return caught.value


class Other:
    """An array of another library."""

    def __init__(self, *shape: int) -> None:
        self._shape = shape

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape
