"""PyTorch: its tensors are checked, and `torch.compile` traces a checked function in one graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest
from jaxtyping import Float, Int

import symattn as sa

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
dynamo = pytest.importorskip("torch._dynamo")
Tensor = torch.Tensor

n, m, d_k, d_v, h = 5, 7, 4, 3, 2
pytestmark = pytest.mark.filterwarnings("ignore")  # of PyTorch, about itself


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:
    dynamo.reset()
    yield
    dynamo.reset()


def tensor(*shape: int) -> Any:
    return torch.zeros(shape)


def traced(function: Any, dynamic: bool | None = None) -> Callable[..., Any]:
    """The compiled function, which is an error if it does not become one graph."""
    return torch.compile(function, fullgraph=True, backend="eager", dynamic=dynamic)


def breaks(function: Any, *given: Any) -> int:
    return dynamo.explain(function)(*given).graph_break_count


@sa.shapecheck
def attend(
    Q: Annotated[Tensor, "... d_k n"],
    K: Annotated[Tensor, "... d_k m"],
    V: Annotated[Tensor, "... d_v m"],
    mask: Annotated[Tensor, "m n"] | None = None,
    h: int = 1,
) -> Annotated[Tensor, "... d_v n"]:
    scores = K.mT @ Q
    if mask is not None:
        scores = scores + mask
    return V @ torch.softmax(scores, dim=-2)


@sa.shapecheck
def split(x: Annotated[Tensor, "n h*d_k"], h: int) -> Annotated[Tensor, "h n d_k"]:
    return x.reshape(x.shape[0], h, -1).transpose(0, 1)


@sa.shapecheck
class Linear(torch.nn.Module):
    """A layer: its integers are sizes of its methods."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.W = torch.nn.Parameter(tensor(d_out, d_in))
        self.d_in = d_in

    def forward(self, x: Annotated[Tensor, "... n d_in"]) -> Annotated[Tensor, "... n d_out"]:
        return x @ self.W.T

    def referring(self, x: Annotated[Tensor, "n {self.d_in}"]) -> Annotated[Tensor, "n d_out"]:
        return x @ self.W.T


Words = Int[Tensor, "n"]
Rows = Float[Tensor, "n d"]


class Embedding(torch.nn.Module):
    """A layer whose sizes are those of its weights."""

    @sa.shapecheck
    def __init__(self, W: Annotated[Tensor, "words d"]) -> None:
        super().__init__()
        self.W = torch.nn.Parameter(W)

    @sa.shapecheck
    def forward(self, words: Words, add: Annotated[Tensor, "n d"] | None = None) -> Rows:
        found = self.W[words]
        return found if add is None else found + add


Q, K, V = tensor(d_k, n), tensor(d_k, m), tensor(d_v, m)
CALLS: dict[str, tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = {
    "plain": (attend, (Q, K, V), (Q, K.mT, V)),
    "with an optional mask": (attend, (Q, K, V, tensor(m, n)), (Q, K, V, tensor(n, m))),
    "with leading axes": (
        attend,
        tuple(tensor(6, *x.shape) for x in (Q, K, V)),
        (tensor(6, d_k, n), tensor(6, d_v, m), tensor(6, d_v, m)),
    ),
    "with an integer": (split, (tensor(n, h * d_k), h), (tensor(n, h * d_k + 1), h)),
    "a module": (Linear(d_k, d_v), (tensor(n, d_k),), (tensor(n, d_v),)),
    "a method": (Linear(d_k, d_v).referring, (tensor(n, d_k),), (tensor(n, d_v),)),
    "dtypes": (
        Embedding(tensor(9, d_k)),
        (torch.zeros(n, dtype=torch.int64), tensor(n, d_k)),
        (torch.zeros(n, dtype=torch.int64), tensor(n, d_v)),
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_right_call_is_traced_in_one_graph(call: str) -> None:
    function, right, _ = CALLS[call]
    assert traced(function)(*right).shape == function(*right).shape
    assert breaks(function, *right) == 0


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_call_is_refused_as_without_compiling(call: str) -> None:
    function, _, wrong = CALLS[call]
    with pytest.raises(sa.ShapeCheckError) as raised:
        function(*wrong)
    compiled = torch.compile(function, backend="eager")
    with pytest.raises(sa.ShapeCheckError) as compiled_raised:
        compiled(*wrong)
    assert str(compiled_raised.value) == str(raised.value)


def test_a_wrong_dtype_is_refused() -> None:
    module: Any = Embedding(tensor(9, d_k))
    with pytest.raises(sa.TypeCheckError, match="float32"):
        torch.compile(module, backend="eager")(tensor(n))


def test_sizes_are_solved_while_they_vary() -> None:
    compiled = traced(split, dynamic=True)
    for rows, width in ((5, 4), (6, 7), (9, 8)):
        assert compiled(tensor(rows, h * width), h).shape == (h, rows, width)
    with pytest.raises(sa.ShapeCheckError, match="leaves 1"):
        torch.compile(split, backend="eager", dynamic=True)(tensor(5, 7), h)


def test_a_wrong_result_is_refused() -> None:
    @sa.shapecheck
    def f(x: Annotated[Tensor, "n m"]) -> Annotated[Tensor, "n m"]:
        return x.T

    with pytest.raises(sa.ShapeCheckError, match="the result"):
        torch.compile(f, backend="eager")(tensor(n, m))
    assert traced(f)(tensor(n, n)).shape == (n, n)


def test_modules_stay_what_they_are(tmp_path: Any) -> None:
    module = Linear(d_k, d_v)
    assert set(module.state_dict()) == {"W"}
    torch.save(module.state_dict(), tmp_path / "weights.pt")
    module.load_state_dict(torch.load(tmp_path / "weights.pt"))
    assert next(module.parameters()).shape == (d_v, d_k)


def test_vmap_and_grad_see_through() -> None:
    batch = (tensor(6, *x.shape) for x in (Q, K, V))
    assert torch.vmap(attend)(*batch).shape == (6, d_v, n)
    loss = torch.func.grad(lambda x: split(x, h).sum())
    assert loss(tensor(n, h * d_k)).shape == (n, h * d_k)
