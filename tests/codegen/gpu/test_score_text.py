"""The text of a score in every language, at random numbers, against NumPy's scores."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies

import symattn as sa
from symattn.codegen.gpu.dialects import CUDA, DIALECTS, FLEX, TRITON, Dialect
from symattn.codegen.gpu.leaves import KeepLeaf, PairSumLeaf
from symattn.codegen.gpu.standing import TOKEN
from tests.codegen.gpu import interpreted
from tests.codegen.gpu.formulas import FORMULAS, B, K, Q, V, attention, d, m, n, s
from tests.codegen.gpu.native import compiled
from tests.codegen.gpu.pairs import Numbers, Pairs, attended_in


def pairs_of(name: str, dialect: Dialect) -> Pairs:
    (attended,) = attended_in(FORMULAS[name])
    return Pairs(attended, dialect, Numbers())


def with_sums(pairs: Pairs, body_at: Any) -> dict[str, np.ndarray]:
    """Every leaf; sums over entries by what evaluates a body at vectors (n, m, d)."""
    return {
        name: (body_at(leaf.body, pairs.vectors(leaf)) @ pairs.operands[leaf.weight][0])
        if isinstance(leaf, PairSumLeaf)
        else pairs.leaf(leaf)
        for name, leaf in pairs.text.leaves.items()
    }


@pytest.mark.parametrize("name", FORMULAS)
def test_torch(name: str) -> None:
    in_torch(pairs_of(name, FLEX))


def in_torch(pairs: Pairs) -> None:
    """Compare what torch computes of a text with what NumPy does of the formula."""
    torch = pytest.importorskip("torch")
    named: dict[str, Any] = {"torch": torch, "score": torch.zeros(1, dtype=torch.float64)}

    def body_at(body: str, vectors: dict[str, np.ndarray]) -> np.ndarray:
        of_vectors = {name: torch.from_numpy(value) for name, value in vectors.items()}
        return eval(body, {**named, **of_vectors}).numpy()

    named |= {name: torch.from_numpy(x) for name, x in with_sums(pairs, body_at).items()}
    named |= pairs.constants()
    named["i"], named["j"] = torch.arange(pairs.n)[:, None], torch.arange(pairs.m)[None, :]
    scores = pairs.scores()
    found = torch.broadcast_to(torch.as_tensor(eval(pairs.text.score, named)), scores.shape)
    largest = max(1.0, float(np.abs(scores).max()))
    np.testing.assert_allclose(found.numpy(), scores, rtol=1e-12, atol=1e-12 * largest)
    if pairs.text.seen:
        seen = np.broadcast_to(pairs.seen(), (pairs.n, pairs.m))
        found = torch.broadcast_to(eval(pairs.text.seen, named), seen.shape)
        np.testing.assert_array_equal(found.numpy(), seen)
    else:
        assert pairs.attended.attends_under is None


def columns_of(pairs: Pairs, leaves: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every leaf and the positions for each pair of the first head, one after another."""
    i, j = np.indices((pairs.n, pairs.m))
    grids = {**leaves, "i": i, "j": j}
    return {
        name: np.broadcast_to(grid, (*grid.shape[:-2], pairs.n, pairs.m))
        .reshape(-1, pairs.n * pairs.m)[0]
        .copy()
        for name, grid in grids.items()
    }


def first_scores(pairs: Pairs) -> np.ndarray:
    return pairs.scores().reshape(-1, pairs.n * pairs.m)[0]


FUNCTIONS = (sa.tanh, sa.sin, sa.cos, sa.relu, sa.sigmoid, sa.silu, sa.softplus, sa.square)


def bounded(x: Any) -> Any:
    return sa.reciprocal(sa.square(x) + sa.ones(n, m))


EXPRESSIONS = strategies.recursive(
    strategies.sampled_from(
        [
            Q @ K.T / sa.sqrt(d),
            -(Q @ K.T) / s / 3,
            B,
            -B,
            sa.positional(lambda i, j: s * (i - j) / 5, n, m, layout="row"),
            sa.positional(lambda i, j: -i / 4 - s, n, m, layout="row"),
            Q @ sa.vector("a", d) @ sa.ones(1, m),
            sa.ones(n, 1) @ sa.vector("c", m).T,
        ]
    ),
    lambda inner: strategies.one_of(
        strategies.tuples(inner, inner).map(lambda xy: xy[0] + xy[1]),
        strategies.tuples(inner, inner).map(lambda xy: xy[0] - xy[1]),
        strategies.tuples(inner, inner).map(lambda xy: sa.hadamard(*xy)),
        inner.map(lambda x: -x * s),
        inner.map(lambda x: x / s / sa.sqrt(2)),
        inner.map(bounded),
        strategies.tuples(strategies.sampled_from(FUNCTIONS), inner).map(lambda fx: fx[0](fx[1])),
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(scores=EXPRESSIONS)
def test_torch_of_any_expression(scores: Any) -> None:
    (attended,) = attended_in(sa.softmax(scores, axis=1) @ V)
    in_torch(Pairs(attended, FLEX, Numbers()))


MASKS = strategies.recursive(
    strategies.sampled_from(
        [
            *(sa.causal(align=align) for align in ("top_left", "bottom_right")),
            *(sa.window(w, align="bottom_right") for w in (1, 3, "w")),
            *(sa.prefix(p) for p in (1, 4, "p", 9)),
            *(sa.keep(), sa.padding()),
        ]
    ),
    lambda inner: strategies.one_of(
        inner.map(lambda mask: ~mask),
        strategies.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
        strategies.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
    ),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None)
@given(mask=MASKS, seed=strategies.integers(0, 9))
def test_conditions_of_any_mask(mask: Any, seed: int) -> None:
    (attended,) = attended_in(attention(mask=mask))
    pairs = Pairs(attended, FLEX, Numbers(seed))
    i, j = np.ogrid[: pairs.n, : pairs.m]
    leaves = {name: pairs.leaf(leaf) for name, leaf in pairs.text.leaves.items()}
    found = eval(pairs.text.seen, {**leaves, **pairs.constants(), "i": i, "j": j})
    shape = (pairs.n, pairs.m)
    seen = np.broadcast_to(pairs.seen(), shape)
    np.testing.assert_array_equal(np.broadcast_to(found, shape), seen)


# CUDA C++ through g++: a function of one pair for each formula, all in one library.


def parameters(pairs: Pairs) -> list[tuple[str, str]]:
    """The type and the name of everything that a text reads."""
    leaves = [
        ("bool" if isinstance(leaf, KeepLeaf) else "real", name)
        for name, leaf in pairs.text.leaves.items()
    ]
    scalars = [("real", name) for name in pairs.text.scalars]
    sizes = [("long long", name) for name in pairs.text.sizes]
    return [*leaves, *scalars, *sizes, ("int", "i"), ("int", "j")]


def cpp_functions(number: int, pairs: Pairs) -> str:
    text, given = pairs.text, parameters(pairs)
    arrays = ", ".join(f"const {kind}* {name}_at" for kind, name in given)
    reads = " ".join(f"{kind} {name} = {name}_at[t];" for kind, name in given)
    used = " ".join(f"(void){name};" for _, name in given)
    functions = [
        f'extern "C" void {what}_{number}(long count, {arrays}, {kind}* y) {{\n'
        f"  for (long t = 0; t < count; ++t) {{ {reads} {used}\n    y[t] = {code}; }}\n}}"
        for what, kind, code in (("score", "real", text.score), ("seen", "bool", text.seen))
        if code
    ]
    sums = [leaf for leaf in text.leaves.values() if isinstance(leaf, PairSumLeaf)]
    for leaf in sums:
        arrays = ", ".join(f"const real* {name}_at" for name in leaf.vectors)
        reads = " ".join(f"real {name} = {name}_at[t];" for name in leaf.vectors)
        functions.append(
            f'extern "C" void body_{number}(long count, {arrays}, real* y) {{\n'
            f"  for (long t = 0; t < count; ++t) {{ {reads} y[t] = {leaf.body}; }}\n}}"
        )
    return "\n".join(functions)


@pytest.fixture(scope="module")
def of_cpp(tmp_path_factory: Any) -> ctypes.CDLL:
    all_pairs = [pairs_of(name, CUDA) for name in FORMULAS]
    helpers = dict.fromkeys(
        line for pairs in all_pairs for line in pairs.text.helpers.split("\n\n")
    )
    functions = [cpp_functions(number, pairs) for number, pairs in enumerate(all_pairs)]
    return compiled("\n".join([*helpers, *functions]), tmp_path_factory.mktemp("cpp"))


def called(function: Any, arrays: list[np.ndarray], y: np.ndarray) -> np.ndarray:
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*arrays, y)]
    function(ctypes.c_long(y.size), *pointers)
    return y


@pytest.mark.parametrize("name", FORMULAS)
def test_cuda(name: str, of_cpp: ctypes.CDLL) -> None:
    pairs, number = pairs_of(name, CUDA), list(FORMULAS).index(name)

    def body_at(_body: str, vectors: dict[str, np.ndarray]) -> np.ndarray:
        shape = np.broadcast_shapes(*(x.shape for x in vectors.values()))
        arrays = [np.broadcast_to(x, shape).copy() for x in vectors.values()]
        return called(getattr(of_cpp, f"body_{number}"), arrays, np.zeros(shape))

    columns = columns_of(pairs, with_sums(pairs, body_at))
    columns |= {c: np.full(pairs.n * pairs.m, value) for c, value in pairs.constants().items()}
    dtypes = {"bool": np.bool_, "real": np.float64, "int": np.int32, "long long": np.int64}
    given = [np.ascontiguousarray(columns[c], dtypes[kind]) for kind, c in parameters(pairs)]
    found = called(getattr(of_cpp, f"score_{number}"), given, np.zeros(pairs.n * pairs.m))
    np.testing.assert_allclose(found, first_scores(pairs), rtol=1e-13, atol=1e-13)
    if pairs.text.seen:
        seen = np.zeros(pairs.n * pairs.m, np.bool_)
        called(getattr(of_cpp, f"seen_{number}"), given, seen)
        expected = np.broadcast_to(pairs.seen(), (pairs.n, pairs.m)).reshape(-1)
        np.testing.assert_array_equal(seen, expected)


# Triton through its interpreter, a few.

SOME = ["softcap row", "alibi column", "cosine row", "a bias of both", "roots", "powers", "given"]
SOME += ["a wide window", "a prefix or causal", "not", "sigmoid and sines", "products"]


@pytest.fixture(scope="module")
def of_triton(tmp_path_factory: Any) -> dict[str, np.ndarray]:
    folder: Path = tmp_path_factory.mktemp("triton")
    texts: dict[str, str] = {}
    columns: dict[str, np.ndarray] = {}
    helpers: dict[str, None] = {}
    for k, name in enumerate(SOME):  # all in one process: names get the number of their formula
        pairs = pairs_of(name, TRITON)
        own = columns_of(pairs, with_sums(pairs, None))
        own |= {c: np.full(pairs.n * pairs.m, value) for c, value in pairs.constants().items()}
        for text, what in ((pairs.text.score, "score"), (pairs.text.seen, "seen")):
            if text:
                texts[f"{what}_{k}"] = numbered(text, own, f"_{k}")
        columns |= {f"{c}_{k}": padded(column) for c, column in own.items()}
        helpers |= dict.fromkeys(pairs.text.helpers.split("\n\n"))
    columns["i"] = np.zeros(64, np.int32)
    return interpreted.run(texts, "\n\n".join(helpers), columns, folder)


def numbered(text: str, names: Collection[str], suffix: str) -> str:
    """A text with the number of its formula after each of its names."""
    return re.sub(r"\b[a-z]+\d*\b", lambda at: at[0] + suffix * (at[0] in names), text)


def padded(column: np.ndarray) -> np.ndarray:
    dtype = {"f": np.float32, "i": np.int32, "b": np.bool_}[column.dtype.kind]
    return np.concatenate([column, np.ones(64 - len(column))]).astype(dtype)


@pytest.mark.parametrize("name", SOME)
def test_triton(name: str, of_triton: dict[str, np.ndarray]) -> None:
    pairs, k = pairs_of(name, TRITON), SOME.index(name)
    count = pairs.n * pairs.m
    found = of_triton[f"score_{k}"][:count]
    np.testing.assert_allclose(found, first_scores(pairs), rtol=2e-5, atol=2e-6)
    if pairs.text.seen:
        expected = np.broadcast_to(pairs.seen(), (pairs.n, pairs.m)).reshape(-1)
        np.testing.assert_array_equal(of_triton[f"seen_{k}"][:count], expected)


def test_triton_compiles_every_score(tmp_path: Path) -> None:
    texts: list[str] = []
    helpers: dict[str, None] = {}
    for name in FORMULAS:
        text = pairs_of(name, TRITON).text
        kinds = dict.fromkeys(("i", "j"), "at") | dict.fromkeys(text.sizes, "n")
        kinds |= {one: "(v > 0)" for one, leaf in text.leaves.items() if isinstance(leaf, KeepLeaf)}
        sums = [leaf for leaf in text.leaves.values() if isinstance(leaf, PairSumLeaf)]
        for code in (text.score, text.seen, *(leaf.body for leaf in sums)):
            if code:
                read = TOKEN.sub(lambda at, kinds=kinds: kinds.get(at[0], as_number(at[0])), code)
                texts.append(read)
        helpers |= dict.fromkeys(text.helpers.split("\n\n"))
    assert interpreted.ptx_of(texts, "\n\n".join(helpers), tmp_path)


def as_number(token: str) -> str:
    """What a name is read as: all numbers are v."""
    return "v" if re.fullmatch(r"[a-z]+\d+", token) else token


# What is refused, and what weights become.


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
def test_what_is_refused(dialect: Dialect) -> None:
    (attended,) = attended_in(sa.formula("luong_concat", layout="row"))
    with pytest.raises(sa.NotSupportedError, match="a matrix with a vector of each pair"):
        Pairs(attended, dialect, Numbers())
    beside = sa.pairwise(
        lambda q, k: sa.vector("v", d + d).T @ sa.tanh(sa.concat(q, k, axis=0)), Q, K, layout="row"
    )
    (attended,) = attended_in(sa.softmax(beside, axis=1) @ V)
    with pytest.raises(sa.NotSupportedError, match="the query on top of one of the key"):
        Pairs(attended, dialect, Numbers())
    (attended,) = attended_in(sa.softmax(sa.function("phi")(Q @ K.T), axis=1) @ V)
    with pytest.raises(sa.NotSupportedError, match="nothing is known of it but its name"):
        Pairs(attended, dialect, Numbers())


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
def test_weights_that_are_changed(dialect: Dialect) -> None:
    (attended,) = attended_in(sa.hadamard(sa.softmax(Q @ K.T, axis=1), B) / s @ V)
    text = Pairs(attended, dialect, Numbers()).text
    assert text.score == "s0"
    assert text.reweigh == "p * e0 * c0"


def test_names_are_never_a_users() -> None:
    q, k = sa.matrix("Q'", n, d), sa.matrix("class", m, d)
    tau = sa.scalar("lambda")
    scores = q @ k.T / tau + sa.positional(lambda i, j: tau * i, n, m, layout="row")
    (attended,) = attended_in(sa.softmax(scores, axis=1, mask=sa.window("w'", "top_left")) @ V)
    text = Pairs(attended, CUDA, Numbers()).text
    assert text.score == "s0 + c1 * real(i)"
    assert text.seen == "(j > i + n0) && (j < i + n1)"


@pytest.mark.parametrize(
    ("mask", "seen"),
    [
        (sa.causal(align="top_left"), "j <= i"),
        (sa.causal(align="bottom_right"), "j <= i + n0"),
        (sa.prefix("p"), "j < n0"),
        (~sa.prefix(3), "j >= 3"),
        (sa.window(2, align="top_left"), "(j > i - 2) && (j < i + 2)"),
        (~(sa.padding() | ~sa.keep()), "!keep0 && keep1"),
    ],
    ids=str,
)
def test_conditions(mask: Any, seen: str) -> None:
    (attended,) = attended_in(attention(mask=mask))
    assert Pairs(attended, CUDA, Numbers()).text.seen == seen
