"""The source for CuPy: every function and keyword in it exists there, and its arithmetic is right.

No device is needed: names and signatures are read off the installed CuPy, and the arithmetic is
checked by running the same source with NumPy in CuPy's place.
"""

import ast
import inspect
import re
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
from sympy.printing.numpy import CuPyPrinter

import symattn as sa
from symattn.errors import BackendError, InputError
from symattn.meaning.functions import FUNCTIONS
from symattn.nodes import Node
from symattn.tags import Size
from tests import loops

needs_cupy = pytest.mark.skipif(
    find_spec("cupy") is None, reason="CuPy is not installed: pip install 'symattn[cuda12]'"
)

d_k, d_v, n, m, h = sa.dims("d_k d_v n m h")
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
B, b, W = sa.matrix("B", m, n), sa.vector("b", d_k), sa.matrix("W", d_k, d_k)
c = sa.scalar("c", positive=True)
S = K.T @ Q / sa.sqrt(d_k)
ADDED = sa.additive_mask(sa.causal("bottom_right"), m, n, axis=0)
i, j = sa.index("i", h), sa.index("j", "g")
W_Q, F = sa.family("W_Q", h, d_k, d_k), sa.family("F", ("g", h), n, n)
G, H = sa.family("G", (h, "g"), n, n), sa.matrix("H", h * d_k, d_k)
HEAD = V @ sa.softmax(K.T @ W_Q[i] @ Q, axis=0, mask=sa.causal("top_left"))

# Between them, everything that the emitter writes.
EXPRESSIONS: dict[str, Node] = {
    "attention": V @ sa.softmax(S, axis=0),
    "over rows": sa.softmax(S.T, axis=1) @ V.T,
    "not in place": sa.softmax(S, axis=0) - S + B,
    "of an input": sa.softmax(B, axis=1),
    "of a view": sa.softmax(B.T, axis=0),
    "general": V @ sa.softmax(K.T @ W @ Q, axis=0),
    "softcap": c * sa.tanh(S / c) * sa.exp(c),
    "bias": Q + b @ sa.ones(1, n),
    "constants": sa.ones(d_k, n) @ sa.identity(n) - Q,
    "negated": -(K.T @ Q),
    "maximum": sa.max(B, axis=0) @ sa.ones(n, d_k),
    "hadamard": sa.hadamard(B, B, K.T @ Q),
    "size": Q / h,
    "masked": V @ sa.softmax(S, axis=0, mask=sa.causal("bottom_right")),
    "masked over rows": sa.softmax(B.T, axis=1, mask=~sa.window(2, "top_left")) @ V.T,
    "indicator": sa.indicator(sa.prefix(3), d_k, n, axis=0) - Q,
    "additive mask": sa.softmax((S + ADDED) / c, axis=0),
    "exp of an additive mask": V @ sa.exp(S + ADDED.T.T),
    "transposed": Q.T,
    "heads": sa.heads(HEAD, i, axis=0),
    "open heads": HEAD,
    "sum over heads": sa.sum_over(HEAD / 2, i),
    "families read in two orders": sa.heads(sa.sum_over(F[j, i] @ G[i, j], j), i, axis=1),
    "blocks": sa.sum_over(sa.head(H, i, axis=0).T @ sa.head(H, i, axis=0), i),
    "blocks of columns": sa.tanh(sa.head(H.T, i, axis=1)),
    "diagonal blocks": sa.head(sa.heads(F[j, i], j, axis=0) @ F[j, i], j, axis=0),
    "the same for all heads": sa.heads(Q, i, axis=1) + sa.sum_over(sa.heads(Q, i, axis=1), i),
    "reshaped": sa.reshape(H @ H.T, h * d_k * d_k, h) / 2,
    **{
        f"{name}, {where}": sa.function(name)(operand)
        for name in FUNCTIONS
        for where, operand in (("of an input", Q), ("in place", sa.square(Q) + sa.square(Q)))
    },
}


def generated(expr: Node) -> Any:
    return sa.lambdify([*expr.inputs(), *expr.scalars()], expr, backend="cupy")


# Names and keywords.


def parameters(function: Any, name: str) -> list[str]:
    """The names of a function's parameters, without the array whose method it is.

    Compiled functions say them in the first line of their documentation.
    """
    if not isinstance(function, type) and not hasattr(function, "nin"):
        try:
            return list(inspect.signature(function).parameters)
        except ValueError:
            pass
    first = (function.__doc__ or "").strip().partition("\n")[0]
    own = getattr(function, "name", name).removeprefix("cupy_")  # abs is called absolute
    written = re.fullmatch(rf".*?\b(?:{name}|{own})\((.*)\)(?: -> .*)?", first)
    assert written, f"{name} does not say its parameters: {first!r}"
    names = [part.partition("=")[0].split()[-1] for part in written[1].split(",") if part.strip()]
    plain = [part for part in names if part.isidentifier()]
    return plain[1:] if plain[:1] == ["self"] else plain


def problems(source: str, library: Any) -> list[str]:
    """Each function, method or keyword of the source that the library does not have."""
    tree = ast.parse(source)
    (alias,) = [
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for name in node.names
        if name.name == "cupy"
    ]
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            ours = isinstance(node.value, ast.Name) and node.value.id == alias
            owner = library if ours else library.ndarray
            if isinstance(node.value, ast.Name) and node.value.id == "math":
                continue
            if not hasattr(owner, node.attr):
                found.append(f"{node.attr} does not exist")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if isinstance(node.func.value, ast.Name) and node.func.value.id == "math":
                continue
            ours = isinstance(node.func.value, ast.Name) and node.func.value.id == alias
            function = getattr(library if ours else library.ndarray, node.func.attr, None)
            if function is None:
                continue
            names = parameters(function, node.func.attr)
            found += [
                f"{node.func.attr} has no {keyword.arg}="
                for keyword in node.keywords
                if keyword.arg not in names
            ]
            if len(node.args) > len(names) and names[:1] != ["args"]:  # any number
                found.append(f"{node.func.attr} takes {len(names)} arguments")
    return found


@needs_cupy
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_name_and_keyword_exists_in_cupy(name: str) -> None:
    cupy = pytest.importorskip("cupy")
    source = generated(EXPRESSIONS[name]).source
    assert "numpy" not in source
    assert problems(source, cupy) == []


@needs_cupy
@pytest.mark.parametrize("layout", ["column", "row"])
@pytest.mark.parametrize("name", sa.formulas())
def test_every_name_in_the_catalogue_exists_in_cupy(name: str, layout: str) -> None:
    cupy = pytest.importorskip("cupy")
    formula = sa.formula(name, layout=layout)
    f = sa.lambdify(formula.inputs, formula, backend="cupy")
    assert problems(f.source, cupy) == []


@needs_cupy
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_plain_sympy_source_exists_in_cupy(name: str) -> None:
    cupy = pytest.importorskip("cupy")
    printer = CuPyPrinter({"fully_qualified_modules": True})
    source = f"import cupy\nresult = {printer.doprint(EXPRESSIONS[name])}"
    assert problems(source, cupy) == []


@needs_cupy
def test_what_cupy_lacks_is_found() -> None:
    """So the tests above could fail."""
    cupy = pytest.importorskip("cupy")
    source = "import cupy as cp\nS.max(axis=0, initial=0)\ncp.exp(S, where=S)\ncp.nothing(S)"
    assert sorted(problems(source, cupy)) == [
        "exp has no where=",
        "max has no initial=",
        "nothing does not exist",
    ]


def test_plain_sympy_lambdify_takes_cupy() -> None:
    """`sympy.lambdify(…, 'cupy')` imports CuPy itself, so only its source is asked for here."""
    if find_spec("cupy") is None:
        pytest.skip("CuPy is not installed: pip install 'symattn[cuda12]'")
    source = inspect.getsource(sympy.lambdify([Q, K, V], EXPRESSIONS["attention"], "cupy"))
    assert "exp(" in source
    assert ".swapaxes(-1, -2)" in source


# Arithmetic.


def in_numpy(f: Any) -> Callable[..., Any]:
    """The function of CuPy source, with NumPy in CuPy's place."""
    namespace: dict[str, Any] = {}
    exec(f.source.replace("import cupy as", "import numpy as"), namespace)
    return namespace[f.__name__]


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_the_arithmetic_is_that_of_the_numpy_source(name: str) -> None:
    expr = EXPRESSIONS[name]
    sizes = {"d_k": 4, "d_v": 3, "n": 5, "m": 7, "h": 6, "g": 2}
    random = np.random.default_rng(0)
    arrays = [
        random.uniform(0.5, 2, size=(2, *(s.value(sizes) for s in axes)))
        for symbol in expr.inputs()
        for axes in (symbol.sizes[:1] if symbol == b else symbol.sizes,)
    ]
    arguments = [*arrays, *(0.5 for _ in expr.scalars())]
    known = {"maximum": {"d_k": 4}}.get(name, {})
    if "h" in expr.tags and not any(Size.tag("h") in symbol.sizes for symbol in expr.inputs()):
        known = {"h": 6}
    expected = sa.lambdify([*expr.inputs(), *expr.scalars()], expr)(*arguments, **known)
    found = in_numpy(generated(expr))(*arguments, **known)
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-13)


def test_an_empty_axis() -> None:
    run = in_numpy(sa.lambdify([Q, K, V], EXPRESSIONS["attention"], backend="cupy"))
    assert run(np.ones((4, 2)), np.ones((4, 0)), np.ones((3, 0))).tolist() == [[0.0, 0.0]] * 3
    random = np.random.default_rng(1)
    arrays = [random.normal(size=shape) for shape in ((4, 5), (4, 7), (3, 7))]
    expected = loops.scaled_dot_product(*arrays)
    np.testing.assert_allclose(run(*arrays), expected, rtol=1e-12, atol=1e-13)
    view = in_numpy(generated(EXPRESSIONS["of a view"]))
    assert view(np.ones((7, 0))).shape == (0, 7)


RETURNS = ("output", "lse", "weights")


@pytest.mark.parametrize("keys", [7, 0])
@pytest.mark.parametrize("name", ["attention", "masked", "masked over rows", "heads"])
def test_further_results(name: str, keys: int) -> None:
    expr = EXPRESSIONS[name]
    sizes = {"d_k": 4, "d_v": 3, "n": 5, "m": keys, "h": 6}
    random = np.random.default_rng(2)
    arrays = [
        random.normal(size=[s.value(sizes) for s in symbol.sizes]) for symbol in expr.inputs()
    ]
    f = sa.lambdify(expr.inputs(), expr, backend="cupy", returns=RETURNS)
    expected = sa.lambdify(expr.inputs(), expr, returns=RETURNS)(*arrays)
    for one, other in zip(in_numpy(f)(*arrays), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14, atol=1e-13)


@needs_cupy
@pytest.mark.parametrize("name", ["attention", "masked"])
def test_names_of_further_results_exist_in_cupy(name: str) -> None:
    cupy = pytest.importorskip("cupy")
    expr = EXPRESSIONS[name]
    f = sa.lambdify(expr.inputs(), expr, backend="cupy", returns=RETURNS)
    assert problems(f.source, cupy) == []


def test_it_is_saved_without_the_library(tmp_path: Path) -> None:
    expr = EXPRESSIONS["masked"]
    f = sa.lambdify(expr.inputs(), expr, backend="cupy", plan="direct")
    text = f.save(tmp_path / "masked.py").read_text("utf-8")
    assert "import cupy as cp\n" in text
    assert "check_inputs(\n        cp,\n" in text
    assert "strips" not in text
    namespace: dict[str, Any] = {}
    exec(text.replace("import cupy as", "import numpy as"), namespace)
    arrays = [np.full(shape, 0.5) for shape in ((4, 5), (4, 7), (3, 7))]
    expected = sa.lambdify([Q, K, V], expr)(**dict(zip("QKV", arrays, strict=True)))
    np.testing.assert_allclose(
        namespace["compute"](**dict(zip("QKV", arrays, strict=True))), expected
    )


# The door.


@needs_cupy
def test_arrays_of_numpy_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symattn.codegen.gpu.foreign.check_device", lambda _: None)
    with pytest.raises(InputError, match=r"an array of numpy; give a cupy .*cp.asarray\(K\)"):
        generated(EXPRESSIONS["negated"])(np.ones((4, 7)), np.ones((4, 5)))


def test_the_source_is_there_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    f = generated(EXPRESSIONS["attention"])
    assert f.source.startswith("import cupy as cp\n")
    with pytest.raises(BackendError, match=r"CuPy is not installed\n.*symattn\[cuda12\]"):
        f(1, 2, 3)
