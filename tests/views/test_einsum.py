"""Formulas as einsum lines: run with NumPy, they compute the matrix; read, they say how."""

import re
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.meaning.functions import FUNCTIONS
from symattn.notation.names import identifier
from tests import loops
from tests.variants import points
from tests.views.points import (
    CATALOGUE,
    OPERATIONS,
    SIZES,
    arrays_for,
    keywords,
    written,
)

d, d_k, n, m = sa.dims("d d_k n m")
Q, K = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m)
S = sa.matrix("S", m, n)


def run(program: Any, given: dict[str, Any]) -> Any:
    """What the function of a program's module returns."""
    namespace: dict[str, Any] = {}
    exec(program.source, namespace)
    compute = namespace["compute"]
    code = compute.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return compute(**{name: given[name] for name in names})


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str) -> None:
    node = OPERATIONS[name]
    arrays = arrays_for(node)
    given = SIZES | keywords(node, arrays, vectors=True)
    np.testing.assert_allclose(run(sa.einsum(node), given), written(node, arrays), atol=1e-12)


def compare_in_batches(node: Any, program: Any) -> None:
    batches = [arrays_for(node, seed) for seed in (1, 2)]
    given = [SIZES | keywords(node, arrays, vectors=True) for arrays in batches]
    arrays = {key: np.stack([g[key] for g in given]) for key in given[0] if np.ndim(given[0][key])}
    result = run(program, given[0] | arrays)
    if not arrays or result.ndim == 2:  # nothing in it has leading axes
        result = [result] * 2
    for one, values in zip(result, batches, strict=True):
        np.testing.assert_allclose(one, written(node, values), atol=1e-12)


@pytest.mark.parametrize(("name", "layout"), CATALOGUE)
def test_catalogue_in_batches(name: str, layout: str) -> None:
    formula = sa.formula(name, layout=layout)
    compare_in_batches(formula.expr, sa.einsum(formula, batch=True))


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_in_batches(name: str) -> None:
    node = OPERATIONS[name]
    if name in ("concat of a sink", "concats that differ", "max over parts", "heads below a row"):
        with pytest.raises(sa.NotSupportedError, match="only some of which have leading axes"):
            sa.einsum(node, batch=True)
    else:
        compare_in_batches(node, sa.einsum(node, batch=True))


@pytest.mark.parametrize("name", sa.formulas())
def test_catalogue_as_the_loops(name: str) -> None:
    formula = sa.formula(name)
    arrays = points.random_column_arrays(formula, seed=4)
    known = points.run_time(name)
    given = {identifier(label): array for label, array in arrays.items()}
    result = run(sa.einsum(formula), given | known)
    expected = loops.CATALOGUE[name](*arrays.values(), **known)
    np.testing.assert_allclose(result, expected, atol=1e-12)


WORDS: list[tuple[Any, str]] = [
    (K.T @ Q / sa.sqrt(d_k), 'O = einsum("km,kn->mn", K, Q) / sqrt(d_k)'),
    (K.T, 'O = einsum("km->mk", K)'),
    (-2 * S, "O = -2 * S"),
    (S @ S.T @ S, 'O = einsum("mN,MN,Mn->mn", S, S, S)'),
    (sa.ones(m, n), "O = 1 + zeros((m, n))"),
    (sa.max(S, axis=0), "O = S.max(axis=-2)[..., None, :]"),
    (sa.tanh(S) + S, "O = tanh(S) + S"),
    (
        sa.indicator(sa.causal("top_left"), m, n, axis=0),
        "O = 1 * (arange(m)[..., :, None] <= arange(n))",
    ),
    (
        sa.softmax(S, axis=0, mask=sa.keep()),
        'P = softmax(S, axis=-2, where=einsum("nm->mn", keep))',
    ),
    (
        sa.Program(S=K.T @ Q, **{"W^Q": K.T @ Q + K.T @ Q}),
        'S = einsum("km,kn->mn", K, Q)\nW_Q = S + S',
    ),
]


@pytest.mark.parametrize(("formula", "expected"), WORDS)
def test_words(formula: Any, expected: str) -> None:
    program = sa.einsum(formula)
    assert program.text() == str(program) == repr(program) == expected


def test_lines_have_names_code_and_sizes() -> None:
    program = sa.einsum(sa.formula("scaled_dot_product"), batch=True)
    assert [line.name for line in program] == ["S", "P", "O"]
    assert program.lines[0].code == 'einsum("...km,...kn->...mn", K, Q) / sqrt(d_k)'
    assert [tuple(map(str, line.sizes)) for line in program] == [
        ("m", "n"),
        ("m", "n"),
        ("d_v", "n"),
    ]
    assert len(program) == 3


def test_a_function_that_only_has_a_name_is_read_but_not_imported() -> None:
    program = sa.einsum(sa.function("phi")(S))
    assert str(program) == "O = phi(S)"
    assert "import phi" not in program.source
    assert "import" not in sa.einsum(sa.function("phi")(sa.ones(1, 1))).source.replace(
        "import numpy as np\nfrom numpy import full\n", ""
    )


@pytest.mark.parametrize("name", ["tanh", "einsum", "np", "n"])
def test_a_name_that_would_hide_another(name: str) -> None:
    X = sa.matrix(name, m, n)
    with pytest.raises(sa.SymbolClashError, match=f"{name} is two different symbols"):
        sa.einsum(sa.tanh(X) @ X.T)


@pytest.mark.parametrize("tag", ["d__k", "d_model'", "λ", "lambda", "n2"])
def test_sizes_by_odd_names(tag: str) -> None:
    X = sa.matrix("X", tag, n)
    program = sa.einsum(sa.softmax(X.T @ X / sa.sqrt(sa.dim(tag)), axis=0))
    array = np.random.default_rng(5).normal(size=(2, 3))
    scores = array.T @ array / np.sqrt(2)
    expected = np.exp(scores) / np.exp(scores).sum(axis=0)
    np.testing.assert_allclose(run(program, {"X": array}), expected, atol=1e-12)


def test_array_code_of_functions_takes_any_argument() -> None:
    """In `maximum(x, 0)` a sum may stand for x, in `x / 2` it could not."""
    opaque = [row for row in FUNCTIONS.values() if row.definition is None]
    assert all(re.fullmatch(r"xp\.\w+\(\{x\}(, 0)?\)", row.numpy) for row in opaque)


def test_names_of_parts_are_free() -> None:
    X = sa.matrix("T_1", m, n)
    assert [line.name for line in sa.einsum(sa.tanh(X) @ X.T)] == ["T_2", "O"]


def test_what_is_no_formula() -> None:
    with pytest.raises(sa.TextRefusedError):
        sa.einsum("S")
    with pytest.raises(sa.NotAnOperandError):
        sa.einsum(np.ones((2, 3)))
