"""One entry of a formula as a SymPy expression: its value, its words, what it refuses.

Values are compared with the evaluator that computes matrices as they are written, which knows
nothing of entries, at sizes that all differ.
"""

import pickle
from itertools import product
from typing import Any

import numpy as np
import pytest
import sympy

import symattn as sa
from symattn.meaning.functions import FUNCTIONS
from symattn.views.sums import FUNCTIONS_IN_SYMPY
from symattn.views.terms import BlockOf, Bracket, InputEntries, Largest, Share
from tests.views.points import (
    CATALOGUE,
    OPERATIONS,
    SIZES,
    arrays_for,
    keywords,
    of_all_heads,
    written,
)

d, d_k, d_v, n, m, p, w = sa.dims("d d_k d_v n m p w")
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
S, N, B = sa.matrix("S", m, n), sa.matrix("N", n, n), sa.matrix("B", m, n)
K_2, V_2 = sa.matrix("K_2", d_k, p), sa.matrix("V_2", d_v, p)
q, v = sa.vector("q", d_k), sa.vector("v", d_v)
slope = sa.scalar("slope")
i, j = sa.index("i", n), sa.index("j", m)


def by_entries(node: Any, arrays: dict[Any, Any], base: int = 0) -> Any:
    """The matrix, entry by entry, from one SymPy expression; axes of size one are not read.

    Indices of heads are symbols of the expression: of each head there is one such matrix.
    """
    rows, columns = (size.value(SIZES) for size in node.sizes)
    at = [sa.index(name, size) for name, size in zip(("row", "column"), node.shape, strict=True)]
    formula = sa.entry(
        node, *(base if size == 1 else i for i, size in zip(at, node.shape, strict=True)), base=base
    )
    given = {
        name: np.pad(np.squeeze(a), [(base, 0)] * np.ndim(np.squeeze(a))) if np.ndim(a) else a
        for name, a in keywords(node, arrays).items()
    }
    sizes = {name: size for name, size in SIZES.items() if name not in given}
    names = [*at, *node.indices, *map(sympy.Symbol, (*sizes, *given))]
    free = {
        symbol.name: symbol for symbol in formula.free_symbols if isinstance(symbol, sympy.Symbol)
    }
    f = sympy.lambdify([free.get(name.name, name) for name in names], formula)
    counts = [range(base, base + index.size.value(SIZES)) for index in node.indices]
    axes = range(base, base + rows), range(base, base + columns), *counts
    values = [float(f(*place, *sizes.values(), *given.values())) for place in product(*axes)]
    return np.moveaxis(np.reshape(values, [len(axis) for axis in axes]), (0, 1), (-2, -1))


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("base", [0, 1])
def test_operations(name: str, base: int) -> None:
    node = OPERATIONS[name]
    arrays = arrays_for(node)
    np.testing.assert_allclose(by_entries(node, arrays, base), written(node, arrays), atol=1e-12)


@pytest.mark.parametrize(("name", "layout"), CATALOGUE)
def test_catalogue(name: str, layout: str) -> None:
    node = sa.formula(name, layout=layout).expr
    arrays = arrays_for(node)
    np.testing.assert_allclose(by_entries(node, arrays), written(node, arrays), atol=1e-12)


def test_every_function_is_written_in_sympy() -> None:
    opaque = {name for name, row in FUNCTIONS.items() if row.definition is None}
    assert opaque <= set(FUNCTIONS_IN_SYMPY)


@pytest.mark.parametrize("name", ["packed_multi_head", "grouped_query"])
def test_scores_of_each_head(name: str) -> None:
    scores = sa.formula(name).scores
    arrays = arrays_for(scores)
    found = by_entries(scores, arrays, base=1)
    np.testing.assert_allclose(found, of_all_heads(scores, arrays), atol=1e-12)


h, heads = sa.dim("h"), sa.index("i", "h")
F, W = sa.family("F", h, d, n), sa.matrix("W", d_v, h * d)
stacked = sa.heads(F[heads], heads, axis=0)

WORDS: list[tuple[Any, str]] = [
    (sa.entry(F[heads], 0, 1), "F[i, 0, 1]"),
    (sa.entry(F[heads], 1, 1, base=1), "F[i, 1, 1]"),
    (sa.entry(stacked, sa.index("p", h * d), 0), "F[p//d, Mod(p, d), 0]"),
    (
        sa.entry(W @ stacked, 0, 1),
        "Sum(F[i, c, 1]*W[0, c + i*d], (c, 0, d - 1), (i, 0, h - 1))",
    ),
    (
        sa.entry(W @ stacked, 1, 1, base=1),
        "Sum(F[i, c, 1]*W[1, c + d*(i - 1)], (c, 1, d), (i, 1, h))",
    ),
    (
        sa.entry(W @ stacked, 0, i),  # the head gives way to an index that is given
        "Sum(F[c, t, i]*W[0, c*d + t], (t, 0, d - 1), (c, 0, h - 1))",
    ),
    (sa.entry(sa.sum_over(F[heads], heads), 0, 1), "Sum(F[i, 0, 1], (i, 0, h - 1))"),
    (
        sa.entry(sa.softmax(stacked, axis=0), 0, 1),
        "exp(F[0, 0, 1])/Sum(exp(F[i, t, 1]), (t, 0, d - 1), (i, 0, h - 1))",
    ),
    (sa.entry(K.T @ Q, j, i), "Sum(K[c, j]*Q[c, i], (c, 0, d_k - 1))"),
    (sa.entry(K.T @ Q, j, i, base=1), "Sum(K[c, j]*Q[c, i], (c, 1, d_k))"),
    (
        sa.entry(V @ sa.softmax(S, axis=0), 0, i),
        "Sum(exp(S[j, i])*V[0, j]/Sum(exp(S[t, i]), (t, 0, m - 1)), (j, 0, m - 1))",
    ),
    (sa.entry(K.T @ Q, 0, 2), "Sum(K[c, 0]*Q[c, 2], (c, 0, d_k - 1))"),
    (
        sa.entry(sa.matrix("W^Q", d_k, d) @ sa.matrix("X", d, n), 0, i),
        "Sum(W_Q[0, c]*X[c, i], (c, 0, d - 1))",
    ),
    (sa.entry(sa.softmax(S, axis=0), j, i), "exp(S[j, i])/Sum(exp(S[t, i]), (t, 0, m - 1))"),
    (
        sa.entry(sa.softmax(S, axis=0, mask=sa.causal("top_left")), j, i),
        "(exp(S[j, i])*[j <= i])/(Sum(exp(S[t, i])*[t <= i], (t, 0, m - 1)))",
    ),
    (
        sa.entry(sa.softmax(S, axis=0, mask=sa.causal("top_left")), j, i, base=1),
        "(exp(S[j, i])*[j <= i])/(Sum(exp(S[t, i])*[t <= i], (t, 1, m)))",
    ),
    (sa.entry(sa.max(S, axis=0), 0, i), "Largest(S[t, i], (t, 0, m - 1))"),
    (sa.entry(sa.positional(lambda i, j: -slope * (i - j), n, m), j, i, base=1), "-slope*(i - j)"),
    (sa.entry(q, 1, 0), "q[1]"),
    (
        sa.entry(sa.concat(K, V, axis=0).T @ sa.concat(K, V, axis=0), 0, 1),
        "Sum(K[c, 0]*K[c, 1], (c, 0, d_k - 1)) + Sum(V[c, 0]*V[c, 1], (c, 0, d_v - 1))",
    ),
]


@pytest.mark.parametrize(("found", "expected"), WORDS)
def test_words(found: Any, expected: str) -> None:
    assert str(found) == expected


def test_latex() -> None:
    causal = sa.entry(sa.softmax(S, axis=0, mask=sa.causal("top_left")), j, i)
    assert sympy.latex(causal) == (
        r"\frac{e^{{S}_{j,i}} \left[j \leq i\right]}"
        r"{\sum_{t=0}^{m - 1} e^{{S}_{t,i}} \left[t \leq i\right]}"
    )
    largest = sa.entry(sa.max(sa.matrix("W^Q", m, n), axis=0), 0, i)
    assert sympy.latex(largest) == r"\max_{0 \leq t \leq m - 1} \left({W^Q}_{t,i}\right)"
    padded = sa.entry(sa.indicator(sa.padding(), m, n, axis=0), j, i)
    assert sympy.latex(padded) == r"\left[{\mathrm{padding}}_{j}\right]"


def test_letters_are_free() -> None:
    """No sum is over a letter that is a scalar, a tag, an input or an index around it."""
    c, t = sa.scalar("c"), sa.dim("t")
    X = sa.matrix("s", t, t)
    found = sa.entry(c * X @ sa.softmax(X @ X, axis=0), sa.index("u", t), sa.index("r", t))
    bound = {symbol.name for part in found.atoms(sympy.Sum) for symbol in part.bound_symbols}
    assert bound.isdisjoint({"c", "t", "s", "u", "r"})


def test_it_is_sympy() -> None:
    found: Any = sa.entry(sa.softmax(K.T @ Q, axis=0), j, i)
    assert found.free_symbols >= {d_k, m, i, j}
    assert found.atoms(sympy.IndexedBase) == {
        InputEntries("Q", (d_k, n)),
        InputEntries("K", (d_k, m)),
    }
    at_sizes = found.subs({d_k: 1, m: 2, j: 0, i: 0}).doit()
    q0 = InputEntries("Q", (1, n))[0, 0]
    assert at_sizes.xreplace({q0: sympy.S.Zero}) == sympy.Rational(1, 2)
    assert pickle.loads(pickle.dumps(found)) == found


def test_it_computes_by_substitution_alone() -> None:
    attention = V @ sa.softmax(K.T @ Q / sa.sqrt(d_k), axis=0, mask=sa.causal("bottom_right"))
    sizes: Any = {n: 3, m: 2, d_k: 2, d_v: 1}
    random = np.random.default_rng(7)
    arrays = {
        name: random.integers(-3, 4, size=shape)
        for name, shape in {"Q": (2, 3), "K": (2, 2), "V": (1, 2)}.items()
    }
    for query, kept in enumerate(([], [0], [0, 1])):  # the last sees both keys
        found: Any = sa.entry(attention, 0, query).subs(sizes).doit()
        read = {
            atom: sympy.Integer(int(arrays[atom.base.name][tuple(map(int, atom.indices))]))
            for atom in found.atoms(sympy.Indexed)
        }
        scores = [arrays["K"][:, j] @ arrays["Q"][:, query] / np.sqrt(2) for j in kept]
        weights = np.exp(scores) / np.exp(scores).sum() if kept else np.zeros(0)
        assert float(found.xreplace(read)) == pytest.approx(float(arrays["V"][0, kept] @ weights))


def test_a_query_without_keys_has_weights_of_zero() -> None:
    masked: Any = sa.entry(sa.softmax(S, axis=0, mask=sa.causal("bottom_right")), 0, 0)
    assert masked.subs({m: 2, n: 3}).doit() == 0
    assert masked.subs({m: 3, n: 3}).doit() == 1
    assert masked.subs({m: 5, n: 3}).doit() != 1
    assert isinstance(masked, Share)


def test_terms_evaluate_when_they_can() -> None:
    a, b = sympy.symbols("a b", integer=True)
    x: Any = sympy.IndexedBase("x", real=True)
    assert Bracket(sympy.true) == 1
    assert Bracket(a < b).subs(a, b) == 0
    assert Largest(x[a], (a, b, b + 1)).doit() == Largest(x[a], (a, b, b + 1))
    assert Largest(x[a], (a, 0, b)).subs(b, 1).doit() == sympy.Max(x[0], x[1])
    share: Any = Share(a, b)
    assert share.subs({a: 1, b: 2}) == sympy.Rational(1, 2)
    assert share.subs({a: 0, b: 0}) == 0
    block: Any = BlockOf(a, b)
    assert str(BlockOf(a + 1, b)) == "(a + 1)//b"
    assert sympy.latex(block) == r"\left\lfloor{\frac{a}{b}}\right\rfloor"
    assert block.subs({a: 0}) == 0
    assert block.subs({a: 7}).subs({b: 3}) == 2


def test_a_program_and_a_formula() -> None:
    f = sa.formula("dot_product")
    scores = sa.Program(S=f.scores)
    assert sa.entry(scores, j, i) == sa.entry(f.scores, j, i)
    r = sa.index("r", d_v)
    assert sa.entry(f, r, i) == sa.entry(f.expr, r, i)


# What is refused.

REFUSED: list[tuple[Any, Any, str]] = [
    (i, 0, "i, an index over n, is no row; there are m rows"),
    (0, j, "j, an index over m, is no column; there are n columns"),
    (-1, 0, "-1 is no row; the rows are counted from 0 to m - 1"),
    (1.0, 0, r'1.0 is no row; give an integer, or an index over the rows: sa.index\("i", m\)'),
    (True, 0, "True is no row"),
    ("i", 0, "text 'i' is no row"),
    (n, 0, "n is no row"),
    (None, 0, "None is no row"),
    (j + 1, 0, r"j \+ 1 is no row"),
]


@pytest.mark.parametrize(("row", "column", "message"), REFUSED)
def test_what_is_no_entry(row: Any, column: Any, message: str) -> None:
    with pytest.raises(sa.EntryError, match=message):
        sa.entry(S, row, column)


def test_beyond_a_size_that_is_a_number() -> None:
    X = sa.matrix("X", 3, n)
    assert str(sa.entry(X, 2, 0)) == "X[2, 0]"
    assert str(sa.entry(X, 3, 1, base=1)) == "X[3, 1]"
    with pytest.raises(sa.EntryError, match="3 is no row; the rows are counted from 0 to 2"):
        sa.entry(X, 3, 0)
    with pytest.raises(sa.EntryError, match="0 is no row; the rows are counted from 1 to 3"):
        sa.entry(X, 0, 1, base=1)
    with pytest.raises(sa.EntryError, match="7 is no base"):
        sa.entry(X, 1, 1, base=7)


def test_an_index_over_a_size_that_is_declared_equal() -> None:
    with sa.assuming("m = n"):
        assert str(sa.entry(S, i, 0)) == "S[i, 0]"
    with pytest.raises(sa.EntryError):
        sa.entry(S, i, 0)


def test_names_that_clash() -> None:
    with pytest.raises(sa.SymbolClashError, match="S is two different symbols"):
        sa.entry(S, sa.index("S", m), 0)
    with pytest.raises(sa.SymbolClashError, match="an index over m and an index over n"):
        sa.entry(S, sa.index("i", m), i)


def test_an_index_with_the_name_of_a_head() -> None:
    with pytest.raises(sa.SymbolClashError, match="i is two different symbols"):
        sa.entry(F[heads], 0, i)


def test_what_is_no_formula() -> None:
    with pytest.raises(sa.TextRefusedError):
        sa.entry("S", 0, 0)
    with pytest.raises(sa.NotAnOperandError):
        sa.entry(np.ones((2, 3)), 0, 0)


@pytest.mark.parametrize("term", [Bracket, Share, BlockOf])
def test_terms_never_evaluate_text(term: Any) -> None:
    for count in (1, 2):
        with pytest.raises(sa.TextRefusedError):
            term(*["__import__('os').getcwd()"] * count)
