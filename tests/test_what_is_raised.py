"""What every public function raises stands in its docstring, by the names of the classes."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import symattn as sa

d, n, m, h = sa.dims("d n m h")
X, S, Q, K = sa.matrix("X", n, d), sa.matrix("S", m, n), sa.matrix("Q", d, n), sa.matrix("K", d, m)
OPEN = sa.matrix("M", n, n) + sa.additive_mask(sa.causal(), n, n, axis=1)
OTHER = sa.matrix("Q", n, d)
W, i = sa.family("W", h, n, n), sa.index("i", h)
any_: Any = None  # what the signatures forbid, and people give all the same
ARRAY = np.ones((2, 2))
NO_BIAS: Any = type  # which takes one argument, or three


def identity_of(x: Any) -> Any:
    return x


SIZES: Any = sa.shapecheck("x: n n")(lambda x: sa.bindings())(ARRAY)

Call = Callable[[], Any]

BAD_CALLS: dict[str, tuple[Call, ...]] = {
    "dim": (lambda: sa.dim("2 n"),),
    "dims": (lambda: sa.dims("n!"),),
    "matrix": (lambda: sa.matrix("1 A", n, m), lambda: sa.matrix("A", 0, m)),
    "vector": (lambda: sa.vector("1 v", n), lambda: sa.vector("v", 1.5)),
    "scalar": (lambda: sa.scalar("1 c"),),
    "ones": (lambda: sa.ones(0, n), lambda: sa.ones(n, 1.5)),
    "identity": (lambda: sa.identity(0), lambda: sa.identity(None)),
    "softmax": (
        lambda: sa.softmax(S),
        lambda: sa.softmax(S, axis=2),
        lambda: sa.softmax(S, axis=0, mask=1),
        lambda: sa.softmax(S, axis=0, mask=sa.causal()),
    ),
    "hadamard": (lambda: sa.hadamard(S, X),),
    "max": (lambda: sa.max(S), lambda: sa.max(S, over=d), lambda: sa.max(OPEN, axis=0)),
    "causal": (lambda: sa.causal("right"), lambda: sa.softmax(S, axis=0, mask=sa.causal())),
    "window": (lambda: sa.window(0), lambda: sa.window(ARRAY), lambda: sa.window(2, "right")),
    "prefix": (lambda: sa.prefix(0), lambda: sa.prefix(ARRAY), lambda: sa.prefix(sa.keep())),
    "indicator": (
        lambda: sa.indicator(1, n, m, axis=1),
        lambda: sa.indicator(sa.causal(), n, m, axis=1),
        lambda: sa.indicator(sa.keep(), n, m, axis=2),
    ),
    "additive_mask": (
        lambda: sa.additive_mask(1, n, m, axis=1),
        lambda: sa.additive_mask(sa.causal(), n, m, axis=1),
        lambda: sa.additive_mask(sa.keep(), n, m, axis=2),
        lambda: OPEN @ OPEN,
    ),
    "concat": (lambda: sa.concat(S, X, axis=1), lambda: sa.concat(S, S, axis=2)),
    "pairwise": (lambda: sa.pairwise(lambda q, k: q @ k.T, Q, K),),
    "positional": (lambda: sa.positional(lambda i, j: S, n, m),),
    "index": (lambda: sa.index("1 i", h), lambda: sa.index("i", 0)),
    "family": (
        lambda: sa.family("1 W", h, n, n),
        lambda: sa.family("W", 0, n, n),
        lambda: W[any_],
    ),
    "heads": (lambda: sa.heads(W[i], i, axis=2), lambda: sa.heads(W, i, axis=0)),
    "head": (lambda: sa.head(X, i, axis=0),),
    "sum_over": (lambda: sa.sum_over(W, i),),
    "reshape": (lambda: sa.reshape(S, 2, 3),),
    **{
        name: (
            partial(getattr(sa, name), ARRAY),
            partial(getattr(sa, name), float("inf")),
            *((partial(getattr(sa, name), OPEN),) if name != "exp" else ()),
            *((partial(getattr(sa, name), 2),) if name in ("relu", "softplus") else ()),
        )
        for name in (
            *("exp", "log", "tanh", "sin", "cos", "relu", "sigmoid", "silu", "softplus"),
            *("abs", "sqrt", "square", "reciprocal"),
        )
    },
    "function": (lambda: sa.lambdify([S], sa.function("phi")(S)),),
    "attention": (
        lambda: sa.attention(Q, K, S),
        lambda: sa.attention(Q, K, K, score="dott"),
        lambda: sa.attention(Q, K, K, W=X),
        lambda: sa.attention(Q, K, K, bias=NO_BIAS),
    ),
    "formula": (lambda: sa.formula("dott"), lambda: sa.formula("dot_product", layout="rows")),
    "latex": (
        lambda: sa.latex(S, "nobody"),
        lambda: sa.latex("S"),  # pyright: ignore[reportArgumentType]
        lambda: sa.latex(any_),
    ),
    "text": (
        lambda: sa.text(S, "nobody"),
        lambda: sa.text("S"),  # pyright: ignore[reportArgumentType]
        lambda: sa.text(any_),
    ),
    "entry": (lambda: sa.entry(sa.ones(2, 2), 2, 0), lambda: sa.entry(S, sa.dim("m"), 0)),
    "entries": (lambda: sa.entries(2), lambda: sa.entries("S")),
    "per_position": (lambda: sa.per_position(S),),
    "shapes": (lambda: sa.shapes(2), lambda: sa.shapes("S")),
    "einsum": (lambda: sa.einsum(sa.reshape(sa.matrix("Z", n * m, d), n, m * d)),),
    "translate": (lambda: sa.translate(S, to="rows"),),
    "prove": (
        lambda: sa.prove(S, S.T),
        lambda: sa.prove(Q, OTHER.T),
        lambda: sa.prove(sa.sum_over(W[i] @ X, i), X, given={X: sa.family("x", h, n, d)[i]}),
        lambda: sa.prove(OPEN, OPEN),
    ),
    "derivation": (lambda: sa.derivation("nothing"),),
    "theorem": (lambda: sa.theorem("nothing"),),
    "lambdify": (
        lambda: sa.lambdify([Q], S),
        lambda: sa.lambdify([OPEN], OPEN),
        lambda: sa.lambdify([S], S)(),
        lambda: sa.lambdify([S], S)([[1.0]]),
        lambda: sa.lambdify([S], S)(np.ones(3)),
        lambda: sa.lambdify([S, sa.scalar("c")], S / sa.scalar("c"))(ARRAY, 0.0),
    ),
    "score_code": (
        lambda: sa.score_code(sa.formula("dot_product"), "metal"),
        lambda: sa.score_code("softmax(S)"),
        lambda: sa.score_code(ARRAY),
        lambda: sa.score_code(OPEN),
        lambda: sa.score_code(S),
        lambda: sa.score_code(sa.formula("additive")),
    ),
    "keep_from_excluded": (lambda: sa.keep_from_excluded(ARRAY),),
    "keep_from_additive": (lambda: sa.keep_from_additive(ARRAY),),
    "additive_from_keep": (
        lambda: sa.additive_from_keep(ARRAY, float),
        lambda: sa.additive_from_keep(ARRAY > 0, int),
    ),
    "shapecheck": (
        lambda: sa.shapecheck("x: 2n")(identity_of),
        lambda: sa.shapecheck(identity_of),
        lambda: sa.shapecheck("y: n")(identity_of),
        lambda: sa.shapecheck("x: h*d_k")(identity_of),
        lambda: sa.shapecheck(any_),
        lambda: sa.shapecheck("x: n n")(identity_of)(np.ones((2, 3))),
        lambda: sa.shapecheck("x: n -> n")(identity_of)([1.0]),
        lambda: sa.shapecheck("x: n -> n n")(identity_of)(np.ones(3)),
    ),
    "expect": (
        lambda: sa.expect(ARRAY, "n n"),
        lambda: sa.expect(np.ones(3), "n", within=SIZES),
        lambda: sa.expect(any_, "n", within=SIZES),
        lambda: sa.expect(ARRAY, "2n", within=SIZES),
        lambda: sa.expect(ARRAY, "h*d_k n", within=SIZES),
        lambda: sa.expect(ARRAY, any_, within=SIZES),
    ),
    "bindings": (lambda: sa.bindings(),),
    "shapecheck_imports": (
        lambda: sa.shapecheck_imports(),
        lambda: sa.shapecheck_imports("symattn"),
        lambda: sa.shapecheck_imports("no_such_package_of_anyone"),
        lambda: sa.shapecheck_imports("my lib"),
        lambda: sa.shapecheck_imports(any_),
    ),
    # No functions, but called or indexed like some
    "M": (lambda: sa.M[1.5], lambda: sa.M[any_, n], lambda: sa.M(n)),
    "config": (
        lambda: sa.config(),
        lambda: sa.config(shapecheck=any_),
        lambda: sa.config(shapechek=False),  # pyright: ignore[reportCallIssue]
        lambda: setattr(sa.config, "shapecheck", "off"),
        lambda: setattr(sa.config, "shapechek", False),
    ),
}

TAKE_NOTHING = {"padding", "keep", "formulas", "derivations", "theorems", "false_claims"}
TAKE_A_BLOCK = {"assuming"}
ARE_NO_FUNCTIONS = {"M", "config"}


def test_every_public_function_is_here() -> None:
    functions = {name for name in sa.__all__ if inspect.isfunction(getattr(sa, name))}
    assert BAD_CALLS.keys() - ARE_NO_FUNCTIONS | TAKE_NOTHING | TAKE_A_BLOCK == functions
    for name in TAKE_NOTHING:
        assert not inspect.signature(getattr(sa, name)).parameters


@pytest.mark.parametrize(
    ("name", "call"),
    [(name, call) for name, calls in BAD_CALLS.items() for call in calls],
    ids=[f"{name}-{at}" for name, calls in BAD_CALLS.items() for at in range(len(calls))],
)
def test_what_a_bad_call_raises_is_documented(name: str, call: Call) -> None:
    with pytest.raises(sa.SymattnError) as caught:
        call()
    doc = inspect.getdoc(getattr(sa, name)) or ""
    assert "aise" in doc
    named = {each.__name__ for each in type(caught.value).__mro__} - {"SymattnError"}
    assert any(f"`{each}`" in doc for each in named), caught.value


def test_a_relation_that_is_none_is_documented() -> None:
    with pytest.raises(sa.RelationError), sa.assuming("n = 2*n"):
        pass
    assert "`RelationError`" in (inspect.getdoc(sa.assuming) or "")
