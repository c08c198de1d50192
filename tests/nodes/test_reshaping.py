"""The same entries in another shape, row by row."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.evaluate import evaluate

h, d, n, m, d_model = sa.dims("h d n m d_model")
X, A = sa.matrix("X", n, h * d), sa.matrix("A", n, m)
i = sa.index("i", h)


def test_shapes() -> None:
    assert sa.reshape(X, h * n, d).shape == (h * n, d)
    assert sa.reshape(X, "n*h", "d").shape == (h * n, d)
    assert sa.reshape(A, 1, n * m).shape == (1, n * m)
    assert sa.reshape(sa.matrix("N", 6, 4), 3, 8).shape == (3, 8)
    assert sa.reshape(sa.family("F", h, n, m)[i], m, n).indices == (i,)


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        (h, d, "reshape(X, h, d) does not fit: X has d*h*n entries, but h×d are d*h"),
        (n, 2 * h * d, "reshape(X, n, 2*d*h) does not fit: X has d*h*n entries, but n×2*d*h are "
                       "2*d*h*n"),
        (n * h, m, "reshape(X, h*n, m) does not fit: X has d*h*n entries, but h*n×m are h*m*n"),
    ],
)  # fmt: skip
def test_as_many_entries_are_asked_for(rows: Any, columns: Any, message: str) -> None:
    with pytest.raises(sa.ShapeError) as refused:
        sa.reshape(X, rows, columns)
    lines = str(refused.value).splitlines()
    assert lines == [message, "  X ∈ M^{n×d*h}"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((X, -1, d), sa.SizeError),
        ((X, 0, d), sa.SizeError),
        ((X, 2.0, d), sa.SizeError),
        ((X, "n n", d), sa.SizeSyntaxError),
        (("X", n, d), sa.TextRefusedError),
        ((3, n, d), sa.NotAnOperandError),
        ((np.ones((2, 3)), 3, 2), sa.NotAnOperandError),
    ],
)
def test_what_is_refused(arguments: tuple[Any, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        sa.reshape(*arguments)


def test_a_relation_is_carried() -> None:
    D = sa.matrix("D", n, d_model)
    with pytest.raises(sa.ShapeError):
        sa.reshape(D, h * n, d)
    with sa.assuming("d_model = h*d"):
        shaped = sa.reshape(D, h * n, d)
    assert shaped.given.text() == "d_model = d*h"
    assert shaped.func(*shaped.args) == shaped
    assert shaped.xreplace({D: sa.matrix("E", n, d_model)}).shape == (h * n, d)
    assert shaped.subs(h, 3).shape == (3 * n, d)


def test_copies_and_python() -> None:
    shaped = sa.reshape(X @ X.T, n * n, 1)
    for other in (
        pickle.loads(pickle.dumps(shaped)),
        copy.deepcopy(shaped),
        eval(str(shaped), {"__builtins__": {}}, {"reshape": sa.reshape, "X": X, "n": n}),
    ):
        assert other == shaped
        assert hash(other) == hash(shaped)
    assert shaped.symbols() == (X,)
    assert set(shaped.dims) == {n, h, d}


def test_entries_are_moved_as_numpy_moves_them() -> None:
    x = np.arange(2.0 * 3 * 5).reshape(2, 15)
    sizes = {"n": 2, "h": 3, "d": 5}
    values = np.array(evaluate(sa.reshape(X, h * n, d), sizes, {X: x}), dtype=float)
    np.testing.assert_array_equal(values, x.reshape(6, 5))
    # This tears tokens apart: a head of all tokens is another thing.
    heads = np.array(evaluate(sa.head(X, i, axis=1), sizes, {X: x}, indices={i: 1}), dtype=float)
    assert heads.shape == (2, 5)
    assert not np.array_equal(values[2:4], heads)


def test_it_is_refuted_and_never_proved_to_be_a_block() -> None:
    split = sa.heads(sa.head(X, i, axis=1), i, axis=0)
    proof = sa.prove(sa.reshape(X, h * n, d), split)
    assert proof.verdict == "refuted"
    assert sa.prove(sa.reshape(X, h * n, d), sa.reshape(X, h * n, d)).verdict == "proved"
    there_and_back = sa.reshape(sa.reshape(X, h * n, d), n, h * d)
    assert sa.prove(there_and_back, X).verdict == "proved"


def test_a_column_of_rows() -> None:
    """One row after another is what a block of rows is; here the two agree."""
    U = sa.matrix("U", h * n, m)
    flat = sa.reshape(sa.head(U, i, axis=0), 1, n * m)
    other = sa.head(sa.reshape(U, 1, h * n * m), i, axis=1)
    assert sa.prove(flat, other).verdict == "proved"
