"""Spellings that type checkers accept."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import numpy.typing as npt

import symattn as sa
from symattn import shapecheck


@shapecheck
def attend(
    Q: Annotated[np.ndarray, "... d_k n"],
    K: Annotated[npt.NDArray[np.float64], "... d_k m"],
    V: Annotated[np.ndarray, "... d_v m"],
    *,
    mask: Annotated[np.ndarray, "n m"] | None = None,
) -> Annotated[np.ndarray, "... d_v n"]:
    """Attention."""
    sizes = sa.bindings()
    assert sizes["n"] == Q.shape[-1]
    S: np.ndarray = sa.expect(np.swapaxes(K, -1, -2) @ Q, "... m n")
    return np.asarray(V @ S)


@sa.shapecheck("x: n d -> n")
def norms(x: np.ndarray) -> np.ndarray:
    """Norms of rows."""
    return np.asarray(np.sqrt((x * x).sum(axis=1)))


@shapecheck
class Layer:
    """A layer."""

    def __init__(self, W: Annotated[np.ndarray, "d_out d_in"]) -> None:
        self.W = W

    def __call__(self, x: Annotated[np.ndarray, "n d_in"]) -> Annotated[np.ndarray, "n d_out"]:
        return np.asarray(x @ self.W.T)


with sa.config(shapecheck=False):  # for this block
    out: np.ndarray = Layer(np.ones((2, 3)))(np.ones((4, 3)))
