"""Programs: named lines, each printed in terms of the names before it."""

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest

import symattn as sa
import symattn.nodes as nodes
from symattn.errors import (
    NameSyntaxError,
    NotAnOperandError,
    OperationRefusedError,
    SymattnError,
    SymbolClashError,
    UnknownNameError,
)

d_k, d_v, d, n, m = nodes.dims("d_k d_v d n m")
Q, K, V = nodes.matrix("Q", d_k, n), nodes.matrix("K", d_k, m), nodes.matrix("V", d_v, m)
S = K.T @ Q / nodes.sqrt(d_k)
P = nodes.softmax(S, axis=0)
PROGRAM = nodes.Program(S=S, P=P, O=V @ P)


def test_lines_in_order() -> None:
    assert list(PROGRAM) == ["S", "P", "O"] == list(PROGRAM.lines)
    assert len(PROGRAM) == 3
    assert PROGRAM.result == PROGRAM["O"] == V @ P
    assert str(PROGRAM["P"]) == str(P)
    with pytest.raises(TypeError):
        PROGRAM.lines["S"] = Q  # type: ignore[index]


def test_a_later_occurrence_is_the_line() -> None:
    assert {name: str(line) for name, line in PROGRAM.named_lines.items()} == {
        "S": "K.T @ Q / sqrt(d_k)",
        "P": "softmax(S, axis=0)",
        "O": "V @ P",
    }
    for name, line in PROGRAM.named_lines.items():
        assert line.sizes == PROGRAM[name].sizes
        # Put back in, the names are what they stand for.
        whole = line
        for known in reversed(list(PROGRAM)):
            whole = whole.xreplace({PROGRAM.line_symbols[known]: PROGRAM.named_lines[known]})
        assert whole == PROGRAM[name]


def test_a_line_that_begins_a_chain_is_found_there() -> None:
    X, W, U = nodes.matrix("X", n, d), nodes.matrix("W", d, d_k), nodes.matrix("U", d_k, n)
    Y = X @ W
    program = nodes.Program(Y=Y, Z=Y @ U, R=Y @ U @ X - X + X, T=(Y @ U).T + Y @ U)
    assert [str(line) for line in program.named_lines.values()] == [
        *("X @ W", "Y @ U", "Z @ X - X + X", "Z.T + Z"),
    ]
    with nodes.assuming("n = m"):
        total = X @ W + nodes.matrix("B", m, d_k)
        related = nodes.Program(A=total, B1=total + Y, C=total.T @ X)
    assert [str(line) for line in related.named_lines.values()] == [
        *("X @ W + B", "A + X @ W", "A.T @ X"),
    ]
    assert related.named_lines["B1"].given.text() == "n = m"


def test_a_part_in_the_middle_of_a_chain_is_another_formula() -> None:
    X = nodes.matrix("X", n, n)
    program = nodes.Program(Y=X @ X, Z=X @ (X @ X), R=nodes.tanh(X) @ X @ X)
    assert str(program.named_lines["Z"]) == "X @ Y"
    assert str(program.named_lines["R"]) == "tanh(X) @ X @ X"


def test_names_that_are_no_identifiers() -> None:
    program = nodes.Program({"W^{Q}": Q, "O'": Q.T})
    assert list(program) == ["W^Q", "O'"]
    assert program["W^{Q}"] == program["W^Q"] == Q
    assert sa.text(program) == "W^Q = Q\nO' = (W^Q)ᵀ"


def test_printing() -> None:
    assert sa.text(PROGRAM) == repr(PROGRAM) == "S = KᵀQ / √d_k\nP = Softmax(S)\nO = VP"
    written = sa.latex(PROGRAM)
    assert written == PROGRAM.latex()
    assert written.splitlines() == [
        r"\begin{aligned}",
        r"\mathbf{S} &= \frac{\mathbf{K}^{\mathsf{T}} \mathbf{Q}}{\sqrt{d_{k}}} \\",
        r"\mathbf{P} &= \operatorname{Softmax} (\mathbf{S}) \\",
        r"\mathbf{O} &= \mathbf{V} \mathbf{P}",
        r"\end{aligned}",
    ]
    plain = sa.latex(PROGRAM, preset="vaswani")
    assert plain == PROGRAM.latex("vaswani")
    assert r"S &= \frac{K^TQ}{\sqrt{d_k}} \\" in plain
    assert PROGRAM._repr_latex_().startswith(r"$\displaystyle \begin{aligned}")
    assert r"\operatorname" not in sa.latex(PROGRAM, dialect="github")
    assert "red" in sa.latex(PROGRAM, highlight=[V])


def test_copies_and_equality() -> None:
    for other in (
        *(pickle.loads(pickle.dumps(PROGRAM, protocol)) for protocol in range(2, 6)),
        *(copy.copy(PROGRAM), copy.deepcopy(PROGRAM), nodes.Program(dict(PROGRAM.lines))),
    ):
        assert other == PROGRAM
        assert hash(other) == hash(PROGRAM)
        assert list(other) == list(PROGRAM)
    assert nodes.Program(S=S, P=P) != nodes.Program(P=P, S=S)
    assert nodes.Program(S=S) != nodes.Program(T=S)
    assert nodes.Program(S=S) != S
    assert PROGRAM != 3


def test_a_line_in_which_an_index_is_free_is_one_of_a_family() -> None:
    h, g = nodes.dims("h g")
    W, i, j = nodes.family("W", (g, h), n, n), nodes.index("i", h), nodes.index("j", g)
    A = W[j, i] @ W[j, i].T
    B = nodes.sum_over(A, i)
    program = nodes.Program(A=A, B=B, C=nodes.heads(B @ nodes.sum_over(A, i), j, axis=0))
    assert [str(symbol) for symbol in program.line_symbols.values()] == ["A[j, i]", "B[j]", "C"]
    assert [str(line) for line in program.named_lines.values()] == [
        "W[j, i] @ W[j, i].T",
        "sum_over(A[j, i], i)",
        "heads(B[j] @ B[j], j, axis=0)",
    ]
    assert sa.text(program).splitlines() == [
        "A_{j,i} = W_{j,i} W_{j,i}ᵀ",
        "B_j = Σ_{i=1..h} A_{j,i}",
        "C = Concat_{j=1..g}(B_j B_j)",
    ]
    assert program.latex().splitlines()[1] == (
        r"\mathbf{A}_{j,i} &= \mathbf{W}_{j,i} \mathbf{W}_{j,i}^{\mathsf{T}} \\"
    )


def test_the_same_line_at_another_index_is_not_that_line() -> None:
    h = nodes.dim("h")
    W, i, j = nodes.family("W", h, n, n), nodes.index("i", h), nodes.index("j", h)
    program = nodes.Program(A=W[i] @ W[i], B=W[j] @ W[j])
    assert str(program.named_lines["B"]) == "W[j] @ W[j]"


BAD: list[tuple[Callable[[], Any], type[SymattnError]]] = [
    (lambda: nodes.Program(), OperationRefusedError),
    (lambda: nodes.Program({}), OperationRefusedError),
    (lambda: nodes.Program([("S", S)]), OperationRefusedError),  # type: ignore[arg-type]
    (lambda: nodes.Program(S), OperationRefusedError),  # type: ignore[arg-type]
    (lambda: nodes.Program(S=2), NotAnOperandError),
    (lambda: nodes.Program(S=[S]), NotAnOperandError),
    (lambda: nodes.Program({"S K": S}), NameSyntaxError),
    (lambda: nodes.Program({3: S}), NameSyntaxError),  # type: ignore[dict-item]
    (lambda: nodes.Program({"W^Q": Q, "W^{Q}": K}), SymbolClashError),
    (lambda: nodes.Program({"S": S}, S=P), SymbolClashError),
    (lambda: nodes.Program(K=Q, S=S), SymbolClashError),
    (
        lambda: nodes.Program(F=Q, S=nodes.family("F", m, n, n)[nodes.index("i", m)]),
        SymbolClashError,
    ),
    (lambda: nodes.Program(c=Q, O=nodes.scalar("c") * K), SymbolClashError),
    (lambda: PROGRAM["T"], UnknownNameError),
    (lambda: PROGRAM["Pp"], UnknownNameError),
]


@pytest.mark.parametrize(("call", "error"), BAD)
def test_bad_programs(call: Callable[[], Any], error: type[SymattnError]) -> None:
    with pytest.raises(error):
        call()


def test_a_line_may_give_an_input_its_own_name() -> None:
    assert nodes.Program(Q=Q, S=S).named_lines["S"] == S


@pytest.mark.parametrize("layout", ["column", "row"])
@pytest.mark.parametrize("name", sa.formulas())
def test_the_lines_of_the_catalogue_are_in_names(name: str, layout: str) -> None:
    formula = sa.formula(name, layout)
    written = {name: sa.text(line) for name, line in formula.lines.items()}
    if "head" in written:  # V_i P_i, or V^(i) P_i where it is a block
        assert re.fullmatch(r"V\S* P_\S+|P_\S+ V.*", written["head"])
        assert re.search(r"\[head_\S+; …; head_|Concat\(head_\S+, …, head_", written["O"])
        assert "X" not in written["S"]
    else:
        value = formula.operands[2].label or "V"
        assert written["O"] in (f"{value}P", f"P{value}")
        assert "X" not in written["S"] or "X" in (operand.label for operand in formula.operands)
    assert re.fullmatch(r"softmax(_\{[^}]*\})?\(s(_\{?[a-z,]*\}?)?\)", written["P"].lower())


def test_a_line_with_a_free_index_is_no_input_of_another() -> None:
    """Put in place of the input X, the line X would be captured by the sum."""
    h = nodes.dim("h")
    i = nodes.index("i", h)
    W, F, X = nodes.family("W", h, d, d), nodes.family("F", h, d, n), nodes.matrix("X", d, n)
    with pytest.raises(SymbolClashError, match="X is two different symbols"):
        nodes.Program(X=F[i], Y=nodes.sum_over(W[i] @ X, i))
    program = nodes.Program(X=F[i], Y=nodes.sum_over(W[i] @ F[i], i))
    symbol, line = program.line_symbols["X"], program.named_lines["Y"]
    assert str(line) == "sum_over(W[i] @ X[i], i)"
    assert line.xreplace({symbol: F[i]}) == program["Y"]
