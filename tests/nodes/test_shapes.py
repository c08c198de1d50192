"""Shapes: what does not fit is refused when it is built, and what is suggested fits."""

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import symattn.nodes as nodes
from symattn.errors import AxisError, RelationError, ShapeError
from symattn.nodes.core import Node

d_k, d_v, d_model, n, m, h = nodes.dims("d_k d_v d_model n m h")
c = nodes.scalar("c")
Q, R, K = nodes.matrix("Q", d_k, n), nodes.matrix("R", d_k, n), nodes.matrix("K", d_k, m)
V, W, P = nodes.matrix("V", d_v, m), nodes.matrix("W", d_v, d_k), nodes.matrix("P", n, n)
b, row = nodes.vector("b", d_k), nodes.matrix("r", 1, n)
U = nodes.matrix("U", d_model, n)
one = nodes.matrix("s", 1, 1)


def refusal(build: Callable[[], Any]) -> ShapeError:
    with pytest.raises(ShapeError) as caught:
        build()
    return caught.value


MESSAGES: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: K @ Q,
        "K @ Q does not fit: the columns of K are m, but the rows of Q are d_k\n"
        "  K ∈ M^{d_k×m}\n  Q ∈ M^{d_k×n}\n  this fits: K.T @ Q",
    ),
    (
        lambda: K + Q,
        "K + Q does not fit: the columns of K are m, but those of Q are n\n"
        "  K ∈ M^{d_k×m}\n  Q ∈ M^{d_k×n}\n  this fits: K + Q, with sa.assuming('m = n')",
    ),
    (
        lambda: nodes.hadamard(K, Q),
        "hadamard(K, Q) does not fit: the columns of K are m, but those of Q are n\n"
        "  K ∈ M^{d_k×m}\n  Q ∈ M^{d_k×n}\n  this fits: hadamard(K, Q), with sa.assuming('m = n')",
    ),
    (
        lambda: Q @ Q,
        "Q @ Q does not fit: the columns of Q are n, but the rows of Q are d_k\n"
        "  Q ∈ M^{d_k×n}\n  this fits: Q.T @ Q",
    ),
    (
        lambda: Q + b,
        "Q + b does not fit: the columns of Q are n, but those of b are 1\n"
        "  Q ∈ M^{d_k×n}\n  b ∈ M^{d_k×1}\n  this fits: Q + b @ ones(1, n)",
    ),
    (
        lambda: nodes.softmax(Q),
        "softmax(Q) does not fit: the axis is missing\n  Q ∈ M^{d_k×n}\n"
        "  this fits: softmax(Q, axis=0) along every column, over d_k "
        "or softmax(Q, axis=1) along every row, over n",
    ),
    (
        lambda: nodes.softmax(P, over=n),
        "softmax(P, over=n) does not fit: over=n names both axes\n  P ∈ M^{n×n}\n"
        "  this fits: softmax(P, axis=0) along every column, over n "
        "or softmax(P, axis=1) along every row, over n",
    ),
    (
        lambda: (K.T @ Q).xreplace({Q: Q.T}),
        "K.T @ Q.T does not fit: the columns of K.T are d_k, but the rows of Q.T are n\n"
        "  K.T ∈ M^{m×d_k}\n  Q.T ∈ M^{n×d_k}\n  this fits: K.T @ Q",
    ),
]


@pytest.mark.parametrize(("build", "message"), MESSAGES)
def test_messages(build: Callable[[], Any], message: str) -> None:
    assert str(refusal(build)) == message


FIXES: list[tuple[Callable[[], Any], str]] = [
    (lambda: Q - b, "Q - b @ ones(1, n)"),
    (lambda: b + Q, "b @ ones(1, n) + Q"),
    (lambda: Q + row, "Q + ones(d_k, 1) @ r"),
    (lambda: Q + b.T, "Q + b @ ones(1, n)"),
    (lambda: Q + one, "Q + ones(d_k, 1) @ s @ ones(1, n)"),
    (lambda: nodes.hadamard(Q, b), "hadamard(Q, b @ ones(1, n))"),
    (lambda: Q + R + b, "Q + R + b @ ones(1, n)"),
    (lambda: Q + R.T, "Q + R"),
    (lambda: Q.T - R, "Q.T - R.T"),
    (lambda: Q @ W, "W @ Q"),
    (lambda: Q.T @ K @ V, "Q.T @ K @ V.T"),
    (lambda: 2 * K @ Q, "2*K.T @ Q"),
    (lambda: K * c @ Q, "K.T*c @ Q"),
    (lambda: (Q + R) @ K, "(Q + R).T @ K"),
    (lambda: U @ Q.T @ V, "U @ Q.T @ V, with sa.assuming('d_k = d_v')"),
    (
        lambda: nodes.matrix("W", "h*d_k", m).T @ U,
        "W.T @ U, with sa.assuming('d_model = h*d_k')",
    ),
    (
        lambda: nodes.matrix("E", d_k, n) + nodes.matrix("F", d_v, m),
        "E + F, with sa.assuming('d_k = d_v, n = m')",
    ),
    (
        lambda: V @ nodes.softmax(K.T @ Q, axis=0) @ nodes.matrix("W_O", d_model, d_v),
        "W_O @ (V @ softmax(K.T @ Q, axis=0))",
    ),
    (lambda: K.T @ Q @ V, "V @ (K.T @ Q)"),
    (lambda: nodes.matrix("E", 3, n).T @ nodes.matrix("F", 4, m), ""),
    (lambda: nodes.matrix("E", d_k, 3) @ nodes.matrix("F", n, m), ""),
    (lambda: nodes.matrix("E", n, d_v) @ nodes.matrix("W_O", "h*d_v", m), ""),  # not d_v = h*d_v
]


@pytest.mark.parametrize(("build", "fix"), FIXES)
def test_the_smallest_fix(build: Callable[[], Any], fix: str) -> None:
    error = refusal(build)
    assert error.fix == fix
    assert (error.fixed is None) == (not fix)


def test_long_formulas_show_what_changes() -> None:
    long = nodes.matrix("X", n, n)
    product: Node = long
    for _ in range(60):
        product = product @ long
    assert refusal(lambda: product @ Q).fix == "X @ Q.T in place of X @ Q"
    total = Q
    for _ in range(60):
        total = total + Q
    error = refusal(lambda: total + b)
    assert error.fix == "b @ ones(1, n) in place of b"
    assert error.operation == "Q + Q + Q + Q + Q + Q + …"
    assert isinstance(error.fixed, Node)
    assert error.fixed.operands[-1] == b @ nodes.ones(1, n)


@pytest.mark.parametrize("axis", [2, -1, True, 0.0, "0", [0], None])
@pytest.mark.parametrize("call", [nodes.softmax, nodes.max])
def test_axes_that_are_none(call: Callable[..., Any], axis: Any) -> None:
    with pytest.raises(
        AxisError, match=rf"{call.__name__}\(Q, axis=0\) along every column, over d_k"
    ):
        call(Q, axis=axis)


def test_axes_by_tag() -> None:
    assert nodes.softmax(Q, over=n) == nodes.softmax(Q, axis=1) == nodes.softmax(Q, over="n")
    assert nodes.max(Q, over=d_k) == nodes.max(Q, axis=0)
    for call in (
        lambda: nodes.softmax(Q, over=m),
        lambda: nodes.softmax(P, over=n),
        lambda: nodes.softmax(Q, axis=0, over=d_k),
        lambda: nodes.softmax(Q),
    ):
        with pytest.raises(AxisError):
            call()
    with nodes.assuming("m = n"):
        assert nodes.softmax(Q, over=m).axis == 1


def test_the_error_carries_its_facts_and_can_be_pickled() -> None:
    error = refusal(lambda: K @ Q)
    assert error.operands == (("K", "d_k", "m"), ("Q", "d_k", "n"))
    assert (error.operation, error.fix, error.fixed) == ("K @ Q", "K.T @ Q", K.T @ Q)
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert str(other) == str(error)
        assert other.fixed == error.fixed


# Whatever is suggested fits.

AXES = [n, m, d_k, h * d_k, d_model, 1, 3]
shapes = st.tuples(st.sampled_from(AXES), st.sampled_from(AXES))
SCALARS = [2, c, nodes.sqrt(d_k)]


@st.composite
def operands(draw: st.DrawFn) -> Node:
    rows, columns = draw(shapes)
    # One name, one shape: pasted text has to mean the same symbol.
    name = f"{draw(st.sampled_from('AB'))}_{AXES.index(rows)}{AXES.index(columns)}"
    node: Node = nodes.matrix(name, rows, columns)
    change = draw(st.integers(0, 5))
    if change == 1:
        return node.T
    if change == 2:
        return -node
    if change == 3:
        return draw(st.sampled_from(SCALARS)) * node
    if change == 4:
        return node / 2
    return nodes.tanh(node) if change == 5 else node


def combined(sign: str, values: list[Node]) -> Node:
    first, *rest = values
    for value in rest:
        first = {
            "@": lambda x, y: x @ y,
            "@()": lambda x, y: y @ x,
            "+": lambda x, y: x + y,
            "-": lambda x, y: x - y,
            "∘": nodes.hadamard,
        }[sign](first, value)
    return first


def evaluated(fix: str, node: Node) -> Any:
    """What a person who pastes the fix gets."""
    code, _, relation = fix.partition(", with sa.assuming(")
    names = {name: getattr(nodes, name) for name in nodes.__all__ if name.islower()}
    names |= {symbol.name: symbol for symbol in (*node.dims, *node.scalars())}
    names |= {str(symbol): symbol for symbol in node.inputs()}
    with nodes.assuming(*([relation[1:-2]] if relation else [])):
        return eval(code, names)


def misfit(sign: str, values: list[Node]) -> ShapeError | None:
    try:
        combined(sign, values)
    except ShapeError as error:
        return error
    return None


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["@", "@()", "+", "-", "∘"]), st.lists(operands(), min_size=2, max_size=3))
def test_every_suggestion_can_be_written_and_built(sign: str, values: list[Node]) -> None:
    error = misfit(sign, values)
    if error is None:
        return
    fixed = error.fixed
    if fixed is None:
        assert not error.fix
        assert "this fits" not in str(error)
        return
    assert isinstance(fixed, Node)
    assert error.fix in str(error)
    if " in place of " not in error.fix:
        assert evaluated(error.fix, fixed) == fixed
    # Built again outside, it has the shape that it says, and nothing new is in it.
    again = fixed.func(*fixed.args)
    assert again == fixed
    assert again.sizes == fixed.sizes
    assert set(fixed.inputs()) <= {symbol for value in values for symbol in value.inputs()}
    if sign in "+-∘" and not fixed.given:
        assert fixed.sizes in [s for value in values for s in (value.sizes, value.sizes[::-1])]


# Relations.


def test_relations_are_carried_by_what_needed_them() -> None:
    with nodes.assuming("m = n"):
        S = Q.T @ K + P
        product = K @ Q.T
        plain = Q.T @ Q
        weights = nodes.softmax(K, over=n)
    assert S.given.text() == product.given.text() == "m = n"
    assert not plain.given
    assert weights.axis == 1
    for node in (S, product):
        parents = [node.T, -node, node @ node.T, node + node, nodes.tanh(node), node / 2, 3 * node]
        for parent in (*parents, nodes.softmax(node, axis=0), nodes.hadamard(node, node)):
            assert parent.given == node.given
            assert pickle.loads(pickle.dumps(parent)) == parent
            assert parent.func(*parent.args).given == node.given
            assert parent.xreplace({Q: R}).given == node.given


def test_relations_of_a_chain_that_was_opened_up_are_kept() -> None:
    with nodes.assuming("m = n"):
        start = K @ Q.T
        total = Q + K
    longer = start @ Q
    assert longer.operands == (K, Q.T, Q)
    assert longer.given.text() == "m = n"
    assert pickle.loads(pickle.dumps(longer)) == longer
    assert (total - Q).given.text() == "m = n"
    assert (total - Q).operands == (Q, K, -Q)
    # What a node carries, its parents may use; nobody else may.
    assert (longer @ K.T).shape == (d_k, d_k)
    refusal(lambda: Q @ K.T)


def test_relations_hold_for_the_with_alone() -> None:
    with pytest.raises(ShapeError), nodes.assuming("m = n"):
        nodes.hadamard(K, Q, V)
    refusal(lambda: K + Q)
    with nodes.assuming("m = n"), nodes.assuming("d_v = d_k"):
        assert (K + Q).given.text() == "m = n"
        assert (V + Q).given.text() == "d_v = d_k, m = n"
    with nodes.assuming("m = n"):
        with pytest.raises(RelationError), nodes.assuming("n = m + 1"):
            raise AssertionError
        assert K + Q


def test_relations_do_not_leak_into_threads() -> None:
    found: list[Any] = []

    def build() -> None:
        refusal(lambda: K + Q)
        with nodes.assuming("n = m"):
            found.append(K + Q)

    with nodes.assuming("m = n"):
        threads = [threading.Thread(target=build) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert K + Q
    assert len(found) == 8
    refusal(lambda: K + Q)


def test_substituting_a_related_tag_keeps_or_breaks_the_relation() -> None:
    with nodes.assuming("d_model = h*d_k"):
        node = nodes.matrix("W", "h*d_k", n).T @ U
    assert node.xreplace({h: 8, d_model: 8 * d_k}).shape == (n, n)
    assert node.xreplace({h: m}).given.text() == "d_model = m*d_k"
    with pytest.raises(RelationError):
        node.xreplace({h: 8, d_k: 64, d_model: 500})
