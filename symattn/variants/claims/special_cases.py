"""Claims that one attention is another in a special case: one query, one key, one source."""

from __future__ import annotations

from collections.abc import Iterator

from symattn.nodes import causal, exp, hadamard, prefix, reciprocal, window
from symattn.variants.catalogue import formula, formulas
from symattn.variants.claims.claim import Claim, Equation
from symattn.variants.claims.written import Sides, Written, d, d_k, d_v, in_both, n
from symattn.variants.layouts import BUILDERS
from symattn.variants.sources import BAHDANAU

_STEPS = f"{BAHDANAU}, section 3.1, equations 5 and 6"


def _in_both_layouts(name: str) -> Claim:
    """Return the theorem that the two layouts of a formula of the catalogue are one formula."""

    def write() -> Iterator[Equation]:
        yield Equation("layouts", formula(name), formula(name, layout="row"))

    return Claim(
        name=f"{name}_in_both_layouts",
        title=f"Column and row layout of {name} are one formula",
        statement=(
            f"The row layout of {name} is the transpose of the column layout, with each matrix "
            "of tokens transposed."
        ),
        explanation=(
            "(A B)ᵀ is Bᵀ Aᵀ, and the transpose of a softmax along columns is one along rows."
        ),
        write=write,
    )


def _three_steps(at: Written) -> Iterator[Sides]:
    q, X = at.matrix("q", d, 1), at.matrix("X", d, n)
    asked = at.attention(q, X, X, "dot")
    weights = exp(at.dots(q, X))
    total = at.spread(at.total(weights), d)
    yield "", asked, formula("single_query", at.layout.name).expr
    yield "written out", hadamard(at.product(X, weights), reciprocal(total)), asked


def _one_source() -> Iterator[Equation]:
    for layout in BUILDERS.values():
        cross = formula("cross_attention", layout.name).expr
        alone = formula("self_attention", layout.name).expr
        ours = {symbol.label: symbol for symbol in alone.symbols()}
        given = {each: ours["X" if each.label == "Y" else each.label] for each in cross.symbols()}
        told = {symbol: form for symbol, form in given.items() if symbol.label in "XY"}
        relations = ("d_x = d", "d_y = d", "m = n")
        yield Equation(layout.name, cross, alone, told, relations)


def _one_key(at: Written) -> Iterator[Sides]:
    Q, k, v = at.matrix("Q", d_k, n), at.matrix("k", d_k, 1), at.matrix("v", d_v, 1)
    yield "one key", at.attention(Q, k, v), at.product(v, at.ones(1, n))
    _, K, V = at.operands()
    keys, values = at.beside(k, K), at.beside(v, V)
    first = at.attention(Q, keys, values, mask=prefix(1))
    yield "the first of many", first, at.product(v, at.ones(1, n))
    Q, K, V = at.operands(keys=n)
    yield "its own of many", at.attention(Q, K, V, mask=window(1)), V


def _decoding(at: Written) -> Iterator[Sides]:
    _, K, V = at.operands()
    q = at.matrix("q", d_k, 1)
    yield "", at.attention(q, K, V, mask=causal("bottom_right")), at.attention(q, K, V)


CLAIMS = (
    *map(_in_both_layouts, formulas()),
    Claim(
        name="three_steps_are_attention_with_one_query",
        title="Three steps for one query are attention with K = V = X",
        statement=(
            "Inner products of a query with n candidates, a softmax, and the weighted sum of the "
            "candidates are attention with one query whose keys and values are the candidates."
        ),
        explanation="With many queries each is answered so: see each_query_takes_three_steps.",
        source=f"{_STEPS}, with the inner product as the score",
        write=in_both(_three_steps),
    ),
    Claim(
        name="self_attention_is_cross_attention_with_one_source",
        title="Self-attention is cross-attention with one source",
        statement="Cross-attention whose two sources are the same data is self-attention.",
        explanation="Put X for Y, which makes m = n and d_y = d_x.",
        write=_one_source,
    ),
    Claim(
        name="one_allowed_key_returns_its_value",
        title="One allowed key returns its value",
        statement="A query that may attend to one key only gets the value of that key.",
        explanation="A softmax of one score is 1, whatever the score.",
        write=in_both(_one_key),
    ),
    Claim(
        name="the_last_query_needs_no_causal_mask",
        title="While decoding one token no causal mask is needed",
        statement=(
            "A single query at the end of its keys sees all of them, so that the causal mask "
            "(bottom right) may be left out."
        ),
        explanation="With n = 1 the mask says j ≤ m − 1, which holds for every key of a cache.",
        write=in_both(_decoding),
    ),
)
