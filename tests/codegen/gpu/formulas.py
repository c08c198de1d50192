"""Formulas whose scores are written as text: the catalogue in both layouts, and some beyond it."""

from __future__ import annotations

from typing import Any

import sympy

import symattn as sa

n, m, d, e = sa.dims("n m d e")
Q, K, V = sa.matrix("Q", n, d), sa.matrix("K", m, d), sa.matrix("V", m, e)
B, a = sa.matrix("B", n, m), sa.vector("a", d)
s = sa.scalar("s", positive=True)
causal = sa.causal(align="bottom_right")


def attention(**options: Any) -> Any:
    return sa.attention(Q, K, V, layout="row", **options)


def biased(bias: Any, **options: Any) -> Any:
    return attention(bias=bias, **options)


MADE = {
    "a bias of the distance": biased(lambda i, j: -s * (i - j) ** 2 / 10),
    "a bias of the key": biased(lambda i, j: sa.log(1 + j) + s),
    "a bias of the query": biased(lambda i, j: s / (1 + i) ** 3),
    "a bias of both": biased(lambda i, j: sa.tanh(s * i * j) - j + 3),
    "roots": biased(lambda i, j: (j + 1) ** sympy.Rational(-3, 2) + sa.sqrt(i + m - n + 5)),
    "no position": biased(lambda i, j: s**2 + sympy.Rational(1, 3)),
    "powers": biased(lambda i, j: (i - j) ** 5 / 5**5),
    "bottom right": attention(mask=causal),
    "a window": attention(mask=sa.window(2, align="top_left")),
    "a wide window": attention(mask=sa.window("w", align="bottom_right")),
    "a prefix or causal": attention(mask=sa.prefix("p") | causal),
    "not": attention(mask=~(sa.window(3, align="top_left") & ~sa.padding())),
    "given": attention(mask=(sa.keep() | causal) & sa.padding()),
    "columns": sa.attention(Q.T, K.T, V.T, mask=sa.keep() & causal, bias=lambda i, j: i - 2 * j),
    "a bias turned round": sa.softmax(
        Q @ K.T + sa.positional(lambda i, j: s * i - 2 * j, m, n, layout="row").T, axis=1
    )
    @ V,
    "numbers of queries and of keys": sa.softmax(
        Q @ K.T
        + Q @ a @ sa.ones(1, m)
        + (sa.ones(m, 1) @ (sa.square(a).T @ Q.T)).T
        + sa.ones(n, 1) @ (K @ a).T
        + sa.ones(n, 1) @ (sa.square(a).T @ K.T),
        axis=1,
    )
    @ V,
    "sigmoid and sines": sa.softmax(
        sa.sigmoid(Q @ K.T) + sa.sin(B) - sa.cos(B) + sa.softplus(B) * 2 - sa.silu(B), axis=1
    )
    @ V,
    "products": sa.softmax(sa.hadamard(Q @ K.T / 3, sa.relu(B), sa.exp(-B)), axis=1) @ V,
    "a sum over entries": sa.softmax(
        sa.pairwise(
            lambda q, k: sa.matrix("u", 1, d) @ sa.relu(q / 2 - k + sa.vector("b", d)),
            Q,
            K,
            layout="row",
        ),
        axis=1,
    )
    @ V,
}
"""Formulas beyond the catalogue, in n queries and m keys."""

CATALOGUE = {
    f"{name} {layout}": sa.formula(name, layout=layout)
    for name in sa.formulas()
    for layout in ("column", "row")
}
REFUSED = {"luong_concat"}
FORMULAS = {
    name: formula
    for name, formula in {**CATALOGUE, **MADE}.items()
    if name.split()[0] not in REFUSED
}
