"""Matrices written out: as the texts print them, and with the value of every entry."""

from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.meaning.form import Form, Index, place
from symattn.notation.rows import Kind
from symattn.views.vectors import _ENTRIES, _LINES, Vectors
from tests.views.points import CATALOGUE, OPERATIONS, arrays_for, heads_of, written
from tests.views.readings import Numbers

d, d_k, h, n, m = sa.dims("d d_k h n m")
Q, K, X = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("X", d, n)
W = sa.matrix("W", d_k, d_k)
S = sa.matrix("S", m, n)


def compare(node: Any) -> None:
    """Compare an entry as it is read, at every place, with the matrix as it is written."""
    arrays = arrays_for(node)
    row, column = place(node.sizes[0]), place(node.sizes[1])
    read = Vectors(node).entry(node, row, column)
    for heads in heads_of(node):
        head = {index: k for each, k in heads.items() for index in each.place}
        for (i, j), value in np.ndenumerate(written(node, arrays, heads)):
            at: dict[Index, Any] = dict.fromkeys(row, i) | dict.fromkeys(column, j)
            found = Numbers(arrays, head | at)(read)
            np.testing.assert_allclose(np.squeeze(found), value, atol=1e-12)


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str) -> None:
    compare(OPERATIONS[name])


@pytest.mark.parametrize(("name", "layout"), CATALOGUE)
def test_scores_of_the_catalogue(name: str, layout: str) -> None:
    compare(sa.formula(name, layout=layout).scores)


@pytest.mark.parametrize(("name", "layout"), CATALOGUE)
def test_no_score_of_the_catalogue_needs_entries(name: str, layout: str) -> None:
    scores = sa.formula(name, layout=layout).scores
    read = Vectors(scores).entry(scores, place(scores.sizes[0]), place(scores.sizes[1]))
    assert not isinstance(read, Form)
    assert "Σ" not in sa.entries(scores).text()


def test_every_rule_is_used() -> None:
    """A kind whose rule no operation comes to would not be compared with anything."""
    kinds = {part.notation.kind for node in OPERATIONS.values() for part in node.walk()}
    kinds |= {part.notation.kind for node in OPERATIONS.values() for part in node.everything()}
    assert kinds >= set(_LINES) | set(_ENTRIES)


# As the texts on Luong's attention print them, letter by letter.

DOT = (
    r"\begin{bmatrix} "
    r"\mathbf{k}_{1} \cdot \mathbf{q}_{1} & \mathbf{k}_{1} \cdot \mathbf{q}_{2} & \cdots & "
    r"\mathbf{k}_{1} \cdot \mathbf{q}_{n} \\ "
    r"\mathbf{k}_{2} \cdot \mathbf{q}_{1} & \mathbf{k}_{2} \cdot \mathbf{q}_{2} & \cdots & "
    r"\mathbf{k}_{2} \cdot \mathbf{q}_{n} \\ "
    r"\vdots & \vdots & \ddots & \vdots \\ "
    r"\mathbf{k}_{m} \cdot \mathbf{q}_{1} & \mathbf{k}_{m} \cdot \mathbf{q}_{2} & \cdots & "
    r"\mathbf{k}_{m} \cdot \mathbf{q}_{n} "
    r"\end{bmatrix}"
)
GENERAL = DOT.replace(r" \cdot ", r"^{\mathsf{T}} \mathbf{W} ")
ROW = r"\begin{bmatrix} Q_1K_1^T & Q_1K_2^T & \cdots & Q_1K_m^T \\ "


def test_latex_is_that_of_the_texts() -> None:
    assert sa.entries(sa.formula("dot_product").scores).latex() == DOT
    assert sa.entries(sa.formula("luong_general").scores).latex() == GENERAL
    row = sa.entries(sa.formula("dot_product", layout="row").scores)
    assert row.latex("vaswani").startswith(ROW)


TEXTS: list[tuple[Any, str]] = [
    (
        K.T @ Q,
        "[ k_1·q_1  k_1·q_2  ⋯  k_1·q_n ]\n"
        "[ k_2·q_1  k_2·q_2  ⋯  k_2·q_n ]\n"
        "[ ⋮        ⋮        ⋱  ⋮       ]\n"
        "[ k_m·q_1  k_m·q_2  ⋯  k_m·q_n ]",
    ),
    (sa.matrix("A", 2, 3), "[ A[1,1]  A[1,2]  A[1,3] ]\n[ A[2,1]  A[2,2]  A[2,3] ]"),
    (sa.matrix("A", 1, 9), "[ A[1]  A[2]  ⋯  A[9] ]"),
    (sa.matrix("A", 1, h * d), "[ A[1]  A[2]  ⋯  A[d·h] ]"),
    (sa.ones(1, 2) - 2 * sa.matrix("A", 1, 2), "[ 1 - 2 A[1]  1 - 2 A[2] ]"),
    (sa.identity(2), "[ [1 = 1]  [1 = 2] ]\n[ [2 = 1]  [2 = 2] ]"),
    (
        sa.positional(lambda i, j: i * sa.scalar("a") + j, 2, 2, layout="row"),
        "[ 0a + 1 - 1  0a + 2 - 1 ]\n[ 1a + 1 - 1  1a + 2 - 1 ]",
    ),
    # A row of a matrix keeps its capital; one without capitals has no name for its rows.
    (
        sa.matrix("x", 2, d) @ sa.matrix("Y", d, 1),
        "[ Σ_{c=1}^d x[1,c] Y[c] ]\n[ Σ_{c=1}^d x[2,c] Y[c] ]",
    ),
    (sa.matrix("X", d, 2).T @ sa.vector("x", d), "[ x_1·x ]\n[ x_2·x ]"),
    # x_1 would be a column of either.
    (
        sa.matrix("X", d, 2).T @ sa.matrix("x", d, 2),
        "[ Σ_{c=1}^d X[c,1] x[c,1]  Σ_{c=1}^d X[c,1] x[c,2] ]\n"
        "[ Σ_{c=1}^d X[c,2] x[c,1]  Σ_{c=1}^d X[c,2] x[c,2] ]",
    ),
]


@pytest.mark.parametrize(("node", "expected"), TEXTS)
def test_text(node: Any, expected: str) -> None:
    shown = sa.entries(node)
    assert shown.text() == str(shown) == expected


def test_heads_are_told_above() -> None:
    A, i = sa.family("A", h, 2, 2), sa.index("i", h)
    assert str(sa.entries(A[i])) == "[ A^{(i)}[1,1]  A^{(i)}[1,2] ]\n[ A^{(i)}[2,1]  A^{(i)}[2,2] ]"
    assert (
        sa.entries(A[i]).latex("vaswani").startswith(r"\begin{bmatrix} A_{11}^{(i)} & A_{12}^{(i)}")
    )
    named = sa.family("A^B", h, 1, 1)[i]
    assert str(sa.entries(named)) == "[ (A^B)^{(i)} ]"
    assert sa.entries(named).latex("vaswani") == (r"\begin{bmatrix} (A^B)^{(i)} \end{bmatrix}")
    of_head = sa.formula("multi_head_attention").lines["S"]
    assert str(sa.entries(of_head)).startswith("[ k_1^{(i)}·q_1^{(i)} / √d_k  k_1^{(i)}·q_2^{(i)}")
    block = sa.formula("packed_multi_head", layout="row").lines["S"]
    assert str(sa.entries(block)).startswith("[ Q_1^{(i)} (K_1^{(i)})ᵀ / √d_k  Q_1^{(i)} (K_2")


def test_sums_take_letters_that_are_free() -> None:
    c = sa.dim("c")
    assert "Σ_{t=1}^c x[1,t]" in sa.entries(sa.matrix("x", 2, c) @ sa.matrix("Y", c, 1)).text()


def test_it_is_shown_in_a_notebook() -> None:
    assert sa.entries(K.T @ Q)._repr_latex_() == rf"$\displaystyle {DOT}$"


def test_what_is_no_formula() -> None:
    with pytest.raises(sa.TextRefusedError):
        sa.entries("K.T @ Q")
    with pytest.raises(sa.UnknownNameError):
        sa.entries(K.T @ Q).latex("vaswan")
    with pytest.raises(sa.UnknownNameError):
        sa.entries(K.T @ Q).latex(dialect="word")


def test_operations_inside_one_another_without_end() -> None:
    deep: Any = S
    for _ in range(3000):
        deep = sa.tanh(deep)
    for view in (sa.entries, sa.einsum, lambda A: sa.entry(A, 0, 0)):
        with pytest.raises(sa.NotSupportedError, match="inside one another"):
            str(view(deep))
    wide: Any = sa.softmax(S, axis=0)
    for _ in range(3000):
        wide = wide + S
    assert sa.entry(wide, 0, 0).has(3000)
    assert len(sa.einsum(sa.Program(O=wide))) == 1


# A kind of writing that is new has to be looked at: has it rows and columns?

READ_BY_ENTRIES = {Kind.SYMBOL, Kind.SOFTMAX, Kind.MAXIMUM, Kind.CONCAT, Kind.POSITIONS}
READ_BY_ENTRIES |= {Kind.INDICATOR, Kind.IDENTITY, Kind.MEMBER, Kind.HEADS, Kind.RESHAPE}
WITHOUT_LINES = {Kind.MAXIMUM, Kind.PAIRS, Kind.POSITIONS, Kind.INDICATOR, Kind.IDENTITY}
WITHOUT_LINES |= {Kind.RESHAPE}
WITHOUT_ENTRIES = {Kind.ADDITIVE_MASK}
"""Their entries are no numbers: a softmax takes them up."""


def test_every_kind_of_writing_has_a_rule_or_is_read_by_its_entries() -> None:
    assert set(_ENTRIES) == set(Kind) - READ_BY_ENTRIES - WITHOUT_ENTRIES
    assert set(_LINES) == set(Kind) - WITHOUT_LINES - WITHOUT_ENTRIES
