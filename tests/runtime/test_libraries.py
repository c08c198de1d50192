"""Arrays of any library, by what they have in common: a `shape`, and a `dtype` with a name."""

from typing import Annotated, Any

import numpy as np
import pytest

import symattn as sa


def array_class(module: str, name: str) -> Any:
    """A class such as a library has, with dtypes of NumPy, as CuPy's and JAX's are."""

    class Array:
        def __init__(self, *shape: int, dtype: str = "float32") -> None:
            self.shape = shape
            self.dtype = np.dtype(dtype)

    Array.__module__, Array.__name__, Array.__qualname__ = module, name, name
    return Array


@pytest.mark.parametrize(
    ("module", "name", "cast"),
    [
        ("cupy", "ndarray", 'K.astype("float64")'),
        ("jaxlib._jax", "ArrayImpl", 'K.astype("float32")'),
        ("somebody.arrays", "Array", ""),
    ],
)
def test_arrays_that_are_not_numpys(module: str, name: str, cast: str) -> None:
    jaxtyping = pytest.importorskip("jaxtyping")
    array = array_class(module, name)

    def scores(Q: Any, K: Any, *more: Any) -> Any:
        return array(K.shape[1], Q.shape[1])

    scores.__annotations__ = {
        "Q": jaxtyping.Float[array, "d n"],
        "K": jaxtyping.Float[array, "d m"],
        "more": sa.M["..., d, _"],
        "return": Annotated[array, "m n"],
    }
    checked = sa.shapecheck(scores)
    for _ in range(2):
        assert checked(array(4, 5), array(4, 7), np.ones((2, 4, 3))).shape == (7, 5)
        with pytest.raises(sa.ShapeCheckError, match="K looks transposed"):
            checked(array(4, 5), array(7, 4))
        with pytest.raises(sa.TypeCheckError, match="int64") as raised:
            checked(array(4, 5), array(4, 7, dtype="int64"))
        assert cast in str(raised.value)
        with pytest.raises(sa.TypeCheckError, match=r"np\.ndarray|numpy\.ndarray"):
            checked(np.ones((4, 5)), array(4, 7))
