"""The generated source: readable, deterministic, alone in the world, and what the plan says."""

import ast
import copy
import inspect
import linecache
import pickle
import threading
import traceback
import tracemalloc
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.codegen import GeneratedFunction

d_k, d_v, n, m, d, h = sa.dims("d_k d_v n m d h")
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
B, W = sa.matrix("B", m, n), sa.matrix("W", d_k, d_k)
c, tau = sa.scalar("c"), sa.scalar("tau", positive=True)
S = K.T @ Q / sa.sqrt(d_k)
A = V @ sa.softmax(S, axis=0)

GOLDEN = '''\
import numpy as np


def compute(Q, K, V):
    """Compute V Softmax(KᵀQ / √d_k).

    Q: (…, d_k, n)
    K: (…, d_k, m)
    V: (…, d_v, m)
    returns: (…, d_v, n)
    """
    d_k = Q.shape[-2]
    dtype = Q.dtype
    # sums in two bytes lose digits: they are computed in float32, and rounded once
    if dtype.itemsize == 2:
        Q = Q.astype(np.float32)
        K = K.astype(np.float32)
        V = V.astype(np.float32)
    S = K.swapaxes(-1, -2) @ Q  # (…, m, n)
    S /= d_k ** 0.5  # (…, m, n)
    # softmax of every column, in the memory of S
    S -= S.max(axis=-2, keepdims=True, initial=-np.inf)
    P = np.exp(S, out=S)  # (…, m, n)
    P /= P.sum(axis=-2, keepdims=True)
    O = V @ P  # (…, d_v, n)
    return O.astype(dtype, copy=False)
'''


def body(f: GeneratedFunction) -> list[str]:
    """The statements that compute, without comments, sizes and casts."""
    lines = ast.unparse(ast.parse(f.source)).splitlines()
    start = next(k for k, line in enumerate(lines) if "dtype.itemsize ==" in line) + 1
    return [line.strip() for line in lines[start:] if "astype(np.float32)" not in line]


def test_the_source_is_this() -> None:
    assert sa.lambdify([Q, K, V], A).source == GOLDEN


def test_the_source_is_the_same_every_time() -> None:
    again = sa.softmax(sa.matrix("K", d_k, m).T @ sa.matrix("Q", d_k, n) / sa.sqrt(d_k), over=m)
    assert sa.lambdify([Q, K, V], sa.matrix("V", d_v, m) @ again).source == GOLDEN


def test_the_source_runs_alone() -> None:
    f = sa.lambdify([Q, K, V], A)
    random = np.random.default_rng(1)
    arrays = random.normal(size=(4, 5)), random.normal(size=(4, 7)), random.normal(size=(2, 3, 7))
    namespace: dict[str, Any] = {}
    exec(f.source, namespace)
    np.testing.assert_array_equal(namespace["compute"](*arrays), f(*arrays))
    assert all(
        name.partition(".")[0] == "numpy"
        for node in ast.walk(ast.parse(f.source))
        if isinstance(node, ast.Import)
        for name in [alias.name for alias in node.names]
    )


def test_lines_of_a_program_name_the_variables() -> None:
    program = sa.Program(scores=S, weights=sa.softmax(S, axis=0), output=A)
    f = sa.lambdify([Q, K, V], program)
    assert body(f) == [
        "scores = K.swapaxes(-1, -2) @ Q",
        "scores /= d_k ** 0.5",
        "scores -= scores.max(axis=-2, keepdims=True, initial=-np.inf)",
        "weights = np.exp(scores, out=scores)",
        "weights /= weights.sum(axis=-2, keepdims=True)",
        "output = V @ weights",
        "return output.astype(dtype, copy=False)",
    ]
    assert "    scores = " in f.source.partition('"""')[2]


def test_a_line_keeps_its_name_while_its_memory_is_taken_over() -> None:
    program = sa.Program(D=K.T @ Q, E=(K.T @ Q) / c)
    assert body(sa.lambdify([Q, K, c], program)) == [
        "D = K.swapaxes(-1, -2) @ Q",
        "E = D",
        "E /= c",
        "return E.astype(dtype, copy=False)",
    ]


def test_what_the_result_does_not_need_is_left_out() -> None:
    program = sa.Program(unused=Q @ Q.T, O=K.T @ Q)
    assert "unused" not in "\n".join(body(sa.lambdify([Q, K], program)))


def test_what_occurs_twice_is_computed_once() -> None:
    f = sa.lambdify([Q, K], sa.softmax(S, axis=0) - sa.softmax(S, axis=1) + S)
    assert sum("@" in line for line in body(f)) == 1
    assert sum("d_k ** 0.5" in line for line in body(f)) == 1
    # S is read until the end, so neither softmax may be written over it.
    assert "P = S - S.max(axis=-2, keepdims=True, initial=-np.inf)" in body(f)


def test_a_chain_of_operations_stays_in_one_memory() -> None:
    f = sa.lambdify([Q, K, tau], -(tau * sa.tanh(S / tau)))
    assert body(f) == [
        "O = K.swapaxes(-1, -2) @ Q",
        "O /= d_k ** 0.5",
        "O /= tau",
        "np.tanh(O, out=O)",
        "O *= tau",
        "np.negative(O, out=O)",
        "return O.astype(dtype, copy=False)",
    ]


def test_functions_of_several_steps_stay_in_one_memory() -> None:
    assert body(sa.lambdify([Q, K], sa.sigmoid(K.T @ Q), plan="direct")) == [
        "O = K.swapaxes(-1, -2) @ Q",
        "O /= 2",
        "np.tanh(O, out=O)",
        "O += 1",
        "O /= 2",
        "return O.astype(dtype, copy=False)",
    ]
    assert "np.logaddexp(O, 0, out=O)" in body(sa.lambdify([Q, K], sa.softplus(K.T @ Q)))
    assert "np.maximum(O, 0, out=O)" in body(sa.lambdify([Q, K], sa.relu(K.T @ Q)))
    twice = body(sa.lambdify([Q, K], sa.silu(K.T @ Q)))
    assert twice[1:3] == ["factor = O / 2", "np.tanh(factor, out=factor)"]
    assert twice[-3:-1] == ["O *= factor", "del factor"]


@pytest.mark.parametrize(("function", "arrays"), [(sa.sigmoid, 1), (sa.softplus, 1), (sa.silu, 2)])
def test_functions_of_several_steps_take_no_more_memory(function: Any, arrays: int) -> None:
    """An input is never written to, and no more arrays are made than are needed at once."""
    f = sa.lambdify([Q, K], function(K.T @ Q), plan="direct")
    q, k = np.full((3, 200), 0.5), np.full((3, 300), -2.0)
    expected = sa.lambdify([B], function(B))(k.T @ q)
    tracemalloc.start()
    try:
        found = f(q, k)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (arrays + 0.5) * found.nbytes
    np.testing.assert_array_equal(found, expected)


def test_a_sum_is_not_written_where_a_batch_axis_may_be_missing() -> None:
    """B may have batch axes that Q and K lack: S + B can be larger than S."""
    f = sa.lambdify([Q, K, B], sa.softmax(S + B, axis=0))
    assert "S = Y + B" in body(f)
    small, large = np.ones((4, 5)), np.ones((6, 7, 5))
    assert f(small, np.ones((4, 7)), large).shape == (6, 7, 5)
    inside = sa.lambdify([Q, K], K.T @ Q + (K.T @ (2 * Q)) - sa.ones(m, n))
    assert any(line.startswith("O -= ") for line in body(inside))
    assert inside(small, np.ones((4, 7))).tolist() == [[11.0] * 5] * 7


def test_differences_and_negations() -> None:
    D = sa.matrix("D", m, n)
    assert "O = -B - D" in body(sa.lambdify([B, D], -B - D))
    assert "O = B + D - B" in body(sa.lambdify([B, D], B + D - B))
    b, e = np.arange(35.0).reshape(7, 5), np.full((7, 5), 2.0)
    np.testing.assert_array_equal(sa.lambdify([B, D], -B - (D - B) - -D)(b, e), 0 * b)


def test_parentheses_are_kept_where_they_matter() -> None:
    X, Y, Z = (sa.matrix(name, n, n) for name in "XYZ")
    assert "O = X @ Y @ Z" in body(sa.lambdify([X, Y, Z], X @ Y @ Z))
    nested = body(sa.lambdify([X, Y, Z], X @ (Y @ Z)))
    assert nested[:2] == ["Y_Z = Y @ Z", "O = X @ Y_Z"]
    assert "O = X / (1 + c)" in "\n".join(body(sa.lambdify([X, c], X / (c + 1)))).replace(
        "(c + 1)", "(1 + c)"
    )


def test_long_chains() -> None:
    X = sa.matrix("X", n, n)
    power = sa.lambdify([X], sum((X for _ in range(500)), X))
    assert power(np.ones((2, 2))).tolist() == [[501.0] * 2] * 2
    product = X
    for _ in range(199):
        product = product @ X
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    assert sa.lambdify([X], product)(turn).tolist() == [[1.0, 0.0], [0.0, 1.0]]  # 200 = 4 · 50
    wide = sa.lambdify([X], sa.hadamard(*[X] * 30))
    assert wide(np.full((2, 2), 2.0)).tolist() == [[2.0**30] * 2] * 2


def test_names_that_the_source_needs_for_itself() -> None:
    names = "np cp math dtype compute lambda float S P O Y print None"
    inputs = [sa.matrix(name, n, n) for name in names.split()]
    expr = sa.softmax(sum(inputs[1:], inputs[0]) * sa.exp(c), axis=0)
    f = sa.lambdify([*inputs, c], expr)
    arrays = [np.eye(3) * k for k in range(len(inputs))]
    scores = np.exp(np.eye(3) * sum(range(len(inputs))) / 50)
    found = f(*arrays, c=-np.log(50))
    np.testing.assert_allclose(found, scores / scores.sum(axis=0))
    called = (p for p in inspect.signature(f).parameters if p not in ("c", "out"))
    by_name = dict(zip(called, arrays, strict=True))
    np.testing.assert_array_equal(f(c=-np.log(50), **by_name), found)
    assert "lambda_" in by_name


def test_a_result_is_never_an_input() -> None:
    q = np.ones((4, 5))
    for expr in (Q, Q.T, Q.T.T):
        found = sa.lambdify([Q], expr)(q)
        assert not np.shares_memory(found, q)
        assert found.flags.writeable
    half = np.ones((4, 5), np.float16)
    assert not np.shares_memory(sa.lambdify([Q], Q)(half), half)


# The object.


def test_positions_and_names() -> None:
    f = sa.lambdify([Q, K, V, c], c * A)
    q, k, v = np.ones((4, 5)), np.ones((4, 7)), np.ones((3, 7))
    expected = f(q, k, v, 2.0)
    np.testing.assert_array_equal(f(q, k, c=2.0, V=v), expected)
    np.testing.assert_array_equal(f(V=v, c=2.0, K=k, Q=q), expected)
    np.testing.assert_array_equal(f(q, k, v, 2.0, n=5, d_k=4), expected)


def test_what_it_says_of_itself() -> None:
    f = sa.lambdify([Q, K, V], A)
    assert repr(f) == "<GeneratedFunction of (Q, K, V) for numpy: V Softmax(KᵀQ / √d_k)>"
    assert str(inspect.signature(f)) == "(Q, K, V, *, workers=None, out=None)"
    assert f.inputs == (Q, K, V)
    assert f.backend == "numpy"
    assert (f.__doc__ or "").startswith("Compute V Softmax(KᵀQ / √d_k).\n\nQ: (…, d_k, n)\n")
    packed = sa.lambdify([sa.matrix("X", h * d_k, n)], sa.matrix("X", h * d_k, n) / h)
    assert set(inspect.signature(packed).parameters) == {"X", "h", "d_k", "out"}
    assert inspect.signature(packed).parameters["h"].kind is inspect.Parameter.KEYWORD_ONLY


def test_sizes_that_follow_are_not_asked_for() -> None:
    packed, one = sa.matrix("X", h * d_k, n), sa.matrix("Y", d_k, n)
    f = sa.lambdify([packed, one], (packed @ one.T) / sa.sqrt(h))
    assert str(inspect.signature(f)) == "(X, Y, *, out=None)"
    found = f(np.ones((12, 5)), np.ones((4, 5)))
    np.testing.assert_allclose(found, 5 / 3**0.5)
    with sa.assuming("d = h*d_k"):
        widened = sa.matrix("W", d, n) + packed
    wide = sa.lambdify([sa.matrix("W", d, n), packed], widened)
    assert str(inspect.signature(wide)) == "(W, X, *, h, d_k, out=None)"


def test_pickles_and_copies() -> None:
    f = sa.lambdify([Q, K, V], sa.Program(S=S, P=sa.softmax(S, axis=0), O=A))
    arrays = np.ones((4, 5)), np.ones((4, 7)), np.ones((3, 7))
    for again in (pickle.loads(pickle.dumps(f)), copy.copy(f), copy.deepcopy(f)):
        assert again.source == f.source
        assert again.inputs == f.inputs
        np.testing.assert_array_equal(again(*arrays), f(*arrays))
    row = sa.lambdify(sa.formula("dot_product").inputs, sa.formula("dot_product"))
    assert pickle.loads(pickle.dumps(row)).source == row.source


def test_threads_share_a_function() -> None:
    f = sa.lambdify([Q, K, V], A)
    random = np.random.default_rng(2)
    cases = [
        (random.normal(size=(4, t + 1)), random.normal(size=(4, 7)), random.normal(size=(3, 7)))
        for t in range(8)
    ]
    expected = [sa.lambdify([Q, K, V], A)(*case) for case in cases]
    wrong: list[int] = []

    def work(at: int) -> None:
        for _ in range(20):
            if not np.array_equal(f(*cases[at]), expected[at]):
                wrong.append(at)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_tracebacks_show_the_source() -> None:
    f = sa.lambdify([Q], sa.log(Q))
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError) as raised:
        f(np.zeros((4, 5)))
    shown = "".join(traceback.format_exception(raised.value))
    assert "O = np.log(Q)  # (…, d_k, n)" in shown
    name = next(name for name in linecache.cache if name.startswith("<symattn generated"))
    linecache.checkcache(name)
    assert name in linecache.cache


def test_equal_parts_built_apart_are_one() -> None:
    """Structure, not identity, tells what occurs twice: an operand is not written over itself."""
    f = sa.lambdify([Q, K], sa.hadamard(K.T @ Q, (K.T @ Q)) - sa.ones(m, n))
    assert f(np.ones((4, 5)), np.ones((4, 7))).tolist() == [[15.0] * 5] * 7
    one = sa.lambdify([], sa.ones(1, 1) @ sa.identity(1) - sa.ones(1, 1))
    assert one().tolist() == [[0.0]]


def test_an_operand_that_is_read_again_is_not_written_over() -> None:
    """NumPy copies where an operation overlaps itself; CuPy does not."""
    gram = Q.T @ Q
    assert "O = Q_Q + Q_Q.swapaxes(-1, -2)" in body(sa.lambdify([Q], gram + gram.T))
    scores = K.T @ Q
    twice = sa.lambdify([Q, K], scores + sa.ones(m, n) + scores)
    assert twice(np.ones((4, 5)), np.ones((4, 7))).tolist() == [[9.0] * 5] * 7
