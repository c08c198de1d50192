"""Points at which views are computed: sizes that all differ, random arrays, scalars."""

import itertools
from typing import Any

import numpy as np

import symattn as sa
from symattn.evaluate import evaluate
from symattn.meaning.functions import FUNCTIONS
from symattn.nodes.inputs import InputVector
from symattn.notation.names import identifier

SIZES = {"n": 5, "m": 7, "d_k": 4, "d_v": 3, "d": 6, "d_x": 8, "d_y": 9}
SIZES |= {"d_q": 2, "d_a": 10, "d_s": 11, "d_h": 12, "w": 2, "p": 3}
SIZES |= {"h": 2, "d_model": 8, "g": 2, "r": 3}  # d_model = h·d_k
SCALARS = {"c": 0.75, "tau": 0.4, "slope": -0.3}

CATALOGUE = tuple((name, layout) for name in sa.formulas() for layout in ("column", "row"))


def arrays_for(node: Any, seed: int = 1) -> dict[Any, Any]:
    """A matrix of numbers for every input of a formula, and booleans for its masks."""
    random = np.random.default_rng(seed)
    found: dict[Any, Any] = {
        symbol: random.normal(size=[size.value(SIZES) for size in symbol.sizes])
        for symbol in node.inputs()
    }
    for boolean in node.booleans():
        found[boolean] = random.random([size.value(SIZES) for size in boolean.sizes]) < 0.7
    return found


def keywords(node: Any, arrays: dict[Any, Any], *, vectors: bool = False) -> dict[str, Any]:
    """The arrays by the names that code calls them by; vectors may have one axis."""

    def shaped(symbol: Any, array: Any) -> Any:
        return array[:, 0] if vectors and isinstance(symbol, InputVector) else array

    found = {identifier(symbol.label): shaped(symbol, a) for symbol, a in arrays.items()}
    return found | {scalar.name: SCALARS[scalar.name] for scalar in node.scalars()}


def written(node: Any, arrays: dict[Any, Any], indices: Any = None) -> Any:
    """The matrix, computed as it is written, at values of the indices that are free in it."""
    scalars = {scalar.name: SCALARS[scalar.name] for scalar in node.scalars()}
    point: Any = (node, SIZES, arrays, scalars)
    return np.array(evaluate(*point, digits=25, indices=indices or {}), dtype=float)


def heads_of(node: Any) -> list[dict[Any, int]]:
    """Every value of the indices that are free in a formula; one point if none is."""
    counts = [range(index.size.value(SIZES)) for index in node.indices]
    return [dict(zip(node.indices, at, strict=True)) for at in itertools.product(*counts)]


def of_all_heads(node: Any, arrays: dict[Any, Any]) -> Any:
    """The matrices of all heads, an axis for each index in front of rows and columns."""
    each = np.stack([written(node, arrays, at) for at in heads_of(node)])
    counts = [index.size.value(SIZES) for index in node.indices]
    return each.reshape(*counts, *each.shape[1:])


d, d_k, d_v, n, m, p, w = sa.dims("d d_k d_v n m p w")
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
S, N, B = sa.matrix("S", m, n), sa.matrix("N", n, n), sa.matrix("B", m, n)
K_2, V_2 = sa.matrix("K_2", d_k, p), sa.matrix("V_2", d_v, p)
q, v = sa.vector("q", d_k), sa.vector("v", d_v)
slope = sa.scalar("slope")

h, d_x = sa.dims("h d_x")
a, b, i = sa.index("a", h), sa.index("b", 3), sa.index("i", h)
F, G = sa.family("F", h, m, n), sa.family("G", (3, h), d_k, n)
Y, W = sa.matrix("Y", h * d_k, n), sa.matrix("W", d_v, h * m)
every_head = sa.heads(F[i], i, axis=0)

OPERATIONS: dict[str, Any] = {
    "heads": every_head,
    "heads, side by side": sa.heads(F[i], i, axis=1),
    "heads in groups": sa.heads(sa.heads(G[b, a], a, axis=0), b, axis=0),
    "product of heads": W @ every_head,
    "sum over heads": sa.sum_over(F[i].T @ S, i) - N,
    "block of columns": sa.sum_over(sa.head(every_head.T, a, axis=1) @ S, a),
    "block, read by rows": sa.sum_over(sa.head(Y, i, axis=0).T @ Q, i),
    "softmax over heads": W @ sa.softmax(every_head, axis=0),
    "block of a softmax": sa.sum_over(sa.head(sa.softmax(every_head, axis=0), a, axis=0), a),
    "softmax of some heads": sa.softmax(
        sa.heads(sa.max(F[i], axis=0), i, axis=0), axis=0, mask=sa.window(w, "top_left")
    ),
    "largest of heads": sa.max(every_head, axis=0),
    "heads below a row": sa.concat(every_head, sa.ones(1, n), axis=0),
    "one head": sa.heads(sa.family("H", 1, m, n)[sa.index("i", 1)], sa.index("i", 1), axis=0),
    "product": V @ K.T @ Q,
    "sum": S - 2 * B + sa.ones(m, n),
    "hadamard": sa.hadamard(S, sa.exp(B), S),
    "quotient": S / (sa.sqrt(d_k) * slope),
    "transpose": (K.T @ Q).T,
    "identity": N + sa.identity(n),
    "trace": sa.ones(1, n) @ sa.hadamard(N, sa.identity(n)) @ sa.ones(n, 1),
    "max of columns": sa.max(S, axis=0),
    "max of rows": sa.max(S, axis=1) @ sa.ones(1, n),
    "softmax of rows": sa.softmax(S, axis=1) @ N,
    "softmax within softmax": sa.softmax(S @ sa.softmax(N, axis=0), axis=0),
    "causal": V @ sa.softmax(S, axis=0, mask=sa.causal("bottom_right")),
    "no key at all": sa.softmax(S.T, axis=0, mask=sa.causal("bottom_right")),
    "window": sa.softmax(S, axis=0, mask=sa.window(w, "top_left") | sa.prefix(p)),
    "not": sa.softmax(S, axis=0, mask=~(sa.padding() & sa.causal("top_left"))),
    "keep": sa.softmax(S.T, axis=1, mask=sa.keep() & ~sa.window(w, "top_left")),
    "indicator": sa.indicator(sa.causal("top_left") | ~sa.padding(), m, n, axis=0),
    "positions": S + sa.positional(lambda i, j: slope * i - j, n, m),
    "concat, read": sa.concat(K, V, axis=0),
    "concat of keys": sa.concat(V, V_2, axis=1)
    @ sa.softmax(sa.concat(K, K_2, axis=1).T @ Q, axis=0),
    "concat in scores alone": sa.ones(1, m + p)
    @ sa.softmax(sa.concat(K, K_2, axis=1).T @ Q, axis=0),
    "concat of a sink": sa.softmax(sa.concat(S, sa.ones(1, n), axis=0), axis=0),
    "concats that differ": sa.concat(K, V, axis=0).T @ sa.concat(sa.ones(d_v, n), Q, axis=0),
    "max over parts": sa.max(sa.concat(S, sa.ones(1, n), axis=0), axis=0),
    "pairwise": sa.pairwise(lambda q, k: sa.vector("u", d_k).T @ sa.tanh(q + k), Q, K),
    "vectors": q @ v.T,
    "a number": q.T @ q,
    "a square": sa.square(N @ sa.vector("x", n)),
    "no mask of one": sa.indicator(~sa.causal("top_left"), 1, 1, axis=0),
    "functions of constants": sa.relu(-sa.ones(m, n)) + sa.softplus(sa.ones(m, n)) + S,
    "a constant": sa.ones(1, 1).T,
    "a masked vector": N @ sa.softmax(sa.vector("x", n), axis=0, mask=sa.causal("top_left")),
    "a norm of all": sa.hadamard(S, sa.ones(m, 1) @ (q.T @ q) @ sa.ones(1, n)) - S,
    "a largest of all": S - sa.ones(m, 1) @ sa.max(sa.max(S, axis=0), axis=1) @ sa.ones(1, n),
    **{name: sa.function(name)(sa.square(S) + sa.ones(m, n)) for name in FUNCTIONS},
}
