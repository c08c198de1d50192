"""Arrays of other libraries for CuPy: in without a copy, back as their kind, refused with advice.

Stand-ins take the libraries' places, so no device is needed; PyTorch itself is asked what it
refuses where it is installed.
"""

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import symattn as sa
from symattn.codegen.gpu import foreign, fused_choice, kinds
from symattn.codegen.gpu.foreign import run
from symattn.codegen.gpu.kinds import on_cuda
from symattn.errors import BackendError, CallError, InputError, InputShapeError
from tests.codegen.foreign_arrays import (
    BFLOAT16,
    ArrayImpl,
    CUDADriverError,
    CUDARuntimeError,
    Cupy,
    DeviceNDArray,
    DLPackArray,
    DynamicJaxprTracer,
    FakeTensor,
    InterfaceArray,
    Located,
    Parameter,
    StandardArray,
    Tensor,
    other_modules,
    torch_like,
)

d, n, m = sa.dims("d n m")
Q, K, V = sa.matrix("Q", d, n), sa.matrix("K", d, m), sa.matrix("V", d, m)
c = sa.scalar("c")
ATTENTION = V @ sa.softmax(K.T @ Q, axis=0, mask=sa.keep())
PLAIN = sa.lambdify([Q, K, V], ATTENTION)
ATTEND = sa.lambdify([Q, K, V], ATTENTION, backend="cupy", plan="direct")
TURN = sa.lambdify([Q], Q.T, backend="cupy")
SCALE = sa.lambdify([Q, c], c * Q, backend="cupy")

KINDS = [Tensor, ArrayImpl, DeviceNDArray, InterfaceArray, DLPackArray, StandardArray]
WAY_BACK = [Tensor, ArrayImpl, DeviceNDArray, StandardArray]

each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Cupy:
    """The stand-ins take the places of the libraries."""
    module = Cupy()
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setitem(sys.modules, "torch", torch_like(module.record))
    for name, other in other_modules().items():
        monkeypatch.setitem(sys.modules, name, other)
    return module


def numbers(dtype: Any = "float64") -> dict[str, Any]:
    random = np.random.default_rng(0)
    arrays = {
        name: random.normal(size=shape).astype(dtype)
        for name, shape in {"Q": (4, 5), "K": (4, 7), "V": (4, 7)}.items()
    }
    return {**arrays, "keep": random.random((5, 7)) < 0.7}


def refusal(f: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(InputError) as raised:
        f(*args, **kwargs)
    return str(raised.value)


# In and out.


@each_kind
def test_the_result_is_of_the_callers_kind(kind: Any, cupy: Cupy) -> None:
    given = numbers()
    found = ATTEND(**{name: kind(array) for name, array in given.items()})
    expected = PLAIN(**given)
    if kind in WAY_BACK:
        assert type(found) is kind
        found = found.numbers
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    by_position = ATTEND(*(kind(given[name]) for name in "QKV"), keep=kind(given["keep"]))
    np.testing.assert_array_equal(getattr(by_position, "numbers", by_position), found)


def test_arrays_of_numba_from_either_of_its_packages(cupy: Cupy) -> None:
    class FromItsOwnPackage(DeviceNDArray):
        __module__ = "numba_cuda.numba.cuda.cudadrv.devicearray"

    assert type(TURN(FromItsOwnPackage(np.ones((4, 5))))) is DeviceNDArray


def test_several_results_are_all_of_the_callers_kind(cupy: Cupy) -> None:
    f = sa.lambdify([Q, K, V], ATTENTION, backend="cupy", returns=("output", "lse", "weights"))
    given = numbers()
    found = f(**{name: Tensor(array) for name, array in given.items()})
    assert [type(each) for each in found] == [Tensor] * 3
    expected = sa.lambdify([Q, K, V], ATTENTION, returns=("output", "lse", "weights"))(**given)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numbers, other, rtol=1e-13)


def test_memory_is_shared_in_strides_that_pytorch_takes(cupy: Cupy) -> None:
    q = np.arange(20.0).reshape(4, 5)

    def given_back(view: Any) -> Any:
        arguments: Any = (["Q"], ["Q"], [Tensor(q)], {})
        return run(lambda args, _: view(args[0]), cupy, *arguments, takes_out=True).numbers

    assert np.shares_memory(given_back(lambda x: x.T), q)
    upside_down = given_back(lambda x: x[::-1, ::-1])
    assert min(upside_down.strides) > 0
    np.testing.assert_array_equal(upside_down, q[::-1, ::-1])
    records = np.zeros(3, [("x", "f4"), ("y", "f8")])
    np.testing.assert_array_equal(given_back(lambda _: records["y"]), records["y"])


def test_jax_gets_whole_arrays(cupy: Cupy) -> None:
    q = np.arange(20.0).reshape(4, 5)
    found = TURN(ArrayImpl(q)).numbers
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, q.T)


def test_arrays_of_cupy_go_straight_through(cupy: Cupy) -> None:
    given = numbers()
    arrays = {name: array.view(Located) for name, array in given.items()}
    np.testing.assert_allclose(ATTEND(**arrays), PLAIN(**given), rtol=1e-13)
    assert cupy.record == [("device", 0), ("left", "device", 0)]
    for array in arrays.values():
        array.number = 1
    ATTEND(**arrays)
    assert cupy.record[2:] == [("device", 1), ("left", "device", 1)]
    arrays["V"].number = 0
    assert refusal(ATTEND, **arrays) == (
        "V is on device 0; give all arrays on one, and Q is on device 1"
    )


def test_arrays_that_say_nothing_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", np)
    given = numbers()
    f = sa.lambdify([Q, K, V], ATTENTION, backend="cupy")
    np.testing.assert_allclose(f(**given), PLAIN(**given), rtol=1e-13)


def test_scalars_stay_what_they_are(cupy: Cupy) -> None:
    q = numbers()["Q"]
    np.testing.assert_allclose(SCALE(Tensor(q), 0.5).numbers, q / 2)
    np.testing.assert_allclose(SCALE(Q=Tensor(q), c=0.5).numbers, q / 2)


def test_bfloat16_goes_over_bit_by_bit(cupy: Cupy) -> None:
    given = numbers(BFLOAT16)
    tensors = {name: Tensor(given[name]) for name in "QKV"}
    found = ATTEND(**tensors, keep=Tensor(given["keep"]))
    assert found.dtype == "torch.bfloat16"
    np.testing.assert_array_equal(found.numbers.view(BFLOAT16), PLAIN(**given))


def test_bfloat16_without_the_package(cupy: Cupy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    tensor = Tensor(np.ones((4, 5), BFLOAT16))
    assert "with the package ml_dtypes alone; " in refusal(TURN, tensor)
    assert "Q.float(), or python -m pip install ml_dtypes" in refusal(TURN, tensor)


# Devices and streams.


def test_work_is_on_the_streams_of_pytorch(cupy: Cupy) -> None:
    TURN(Tensor(np.ones((4, 5)), device=1))
    assert cupy.record == [
        ("device", 1),
        ("torch device", 1),
        ("stream", 0, 1001),
        ("left", "stream", 0, 1001),
        ("left", "device", 1),
    ]


@pytest.mark.parametrize("kind", KINDS[1:])
def test_work_is_on_the_device_of_the_arrays(kind: Any, cupy: Cupy) -> None:
    number = 0 if issubclass(kind, InterfaceArray) else 1
    TURN(kind(np.ones((4, 5)), device=number))
    waited = [("waited",)] * (kind is ArrayImpl)  # JAX uses dropped memory again at once
    assert cupy.record == [("device", number), *waited, ("left", "device", number)]


@each_kind
def test_the_device_is_left_when_a_call_fails(kind: Any, cupy: Cupy) -> None:
    with pytest.raises(InputShapeError, match="d = 4 from Q's rows"):
        ATTEND(*(kind(np.ones((k, 5))) for k in (4, 3, 3)), keep=kind(np.ones((5, 5), bool)))
    assert cupy.record[-1][:2] == ("left", "device")


def test_arrays_on_two_devices(cupy: Cupy) -> None:
    tensors = [Tensor(np.ones((4, 5)), device=k // 2) for k in range(3)]
    message = refusal(ATTEND, *tensors, keep=Tensor(np.ones((5, 5), bool)))
    assert message == "V is on device 1; give all arrays on one, and Q is on device 0"


def test_a_plan_is_chosen_for_each_device(cupy: Cupy, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def suits(*given: Any) -> bool:
        asked.append(given)
        return len(asked) == 1  # as if the first device alone were new enough

    monkeypatch.setattr(fused_choice, "suits_fused", suits)
    plans = sa.lambdify([Q, K, V], ATTENTION, backend="cupy")._plans
    arrays = numbers("float32")
    sizes, keep = {"d": 4, "n": 5, "m": 7}, {"keep": arrays.pop("keep")}
    found: list[Any] = []
    for number in (0, 1, 0, 1):
        given = [array.view(Located) for array in arrays.values()]
        for array in given:
            array.number = number
        found.append(plans.chosen(sizes, given, keep).source)
    assert found == [plans.by_name[name] for name in ("fused", "direct", "fused", "direct")]
    assert len(asked) == 2


@pytest.mark.parametrize("error", [CUDARuntimeError, CUDADriverError])
def test_errors_of_cuda_say_what_to_do(
    error: Any, cupy: Cupy, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(InterfaceArray):
        def handed_over(self) -> Any:
            raise error(719)

    with pytest.raises(BackendError, match=r"earlier work .*\n  start Python anew"):
        TURN(Broken(np.ones((4, 5))))

    f = sa.lambdify([Q, K, V], ATTENTION, backend="cupy")  # its source imports this stand-in

    def lost(*_: Any, **__: Any) -> None:
        raise error(700)

    monkeypatch.setattr(cupy, "exp", lost, raising=False)
    with pytest.raises(BackendError, match="earlier work") as raised:
        f(**{name: array.view(Located) for name, array in numbers().items()})
    assert type(raised.value.__cause__) is error


# A destination.


@pytest.mark.parametrize("kind", [Tensor, DeviceNDArray, InterfaceArray, DLPackArray])
def test_the_destination_is_of_the_callers_kind(kind: Any, cupy: Cupy) -> None:
    given = numbers()
    out = kind(np.full((4, 5), np.nan))
    arrays = {name: kind(array) for name, array in given.items()}
    assert ATTEND(**arrays, out=out) is out
    np.testing.assert_allclose(out.numbers, PLAIN(**given), rtol=1e-13)
    f = sa.lambdify([Q, K, V], ATTENTION, backend="cupy", returns=("lse", "output"))
    lse, output = f(**arrays, out=out)
    assert output is out
    assert lse is not out
    assert ATTEND(**arrays, out=None) is not out


def test_gradients_through_a_destination_are_noticed(cupy: Cupy) -> None:
    out, other = Tensor(np.ones((5, 4))), Tensor(np.ones((5, 4)))
    other.inference = True
    TURN(Tensor(np.ones((4, 5))), out=out)
    TURN(Tensor(np.ones((4, 5))), out=other)  # such a tensor has no versions
    assert (out.versions, other.versions) == (1, 0)


def test_destinations_that_are_refused(cupy: Cupy) -> None:
    q = np.ones((4, 5))
    read_only = InterfaceArray(np.ones((5, 4)))
    read_only.read_only = True
    assert "out is a read-only array" in refusal(TURN, InterfaceArray(q), out=read_only)
    assert "never written to" in refusal(TURN, ArrayImpl(q), out=ArrayImpl(q.T))
    assert refusal(TURN, Tensor(q), out=Tensor(np.ones((5, 4), "float32"))).endswith(
        "give one of float64: torch.empty_like(out, dtype=torch.float64)"
    )
    assert refusal(TURN, Tensor(q), out=Tensor(q.T)).endswith(
        "out is in the memory of Q; give memory of its own: torch.empty_like(out)"
    )
    assert "arrays of one kind, and Q is a Tensor of torch" in refusal(
        TURN, Tensor(q), out=np.ones((5, 4))
    )


def test_an_input_of_this_name_is_an_input(cupy: Cupy) -> None:
    symbol = sa.matrix("out", d, n)
    f = sa.lambdify([symbol], 2 * symbol, backend="cupy")
    given = ArrayImpl(np.ones((4, 5)))
    np.testing.assert_array_equal(f(given).numbers, 2 * np.ones((4, 5)))
    np.testing.assert_array_equal(f(out=given).numbers, 2 * np.ones((4, 5)))


# Refusals.


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("place", "cpu", "Q is a tensor that is not on a GPU; give .* device: Q.cuda()"),
        ("requires_grad", True, "requires gradients; .* no gradients .*: Q.detach()"),
        ("sparse", True, r"a sparse tensor; .*: Q.to_dense\(\)"),
        ("negated", True, r"negated when read; .*: Q.resolve_neg\(\)"),
    ],
)
def test_tensors_that_are_refused(attribute: str, value: Any, message: str, cupy: Cupy) -> None:
    tensor = Tensor(np.ones((4, 5)))
    setattr(tensor, attribute, value)
    with pytest.raises(InputError, match=message):
        TURN(tensor)
    assert ("torch device", 0) not in cupy.record


def test_classes_of_pytorch(cupy: Cupy) -> None:
    assert type(TURN(Parameter(np.ones((4, 5))))) is Tensor
    assert "a FakeTensor of torch; give a plain Tensor" in refusal(
        TURN, FakeTensor(np.ones((4, 5)))
    )


def test_arrays_of_jax_that_are_refused(cupy: Cupy) -> None:
    assert "outside of jax.jit" in refusal(TURN, DynamicJaxprTracer())
    spread, on_host = ArrayImpl(np.ones((4, 5))), ArrayImpl(np.ones((4, 5)))
    spread.places, on_host.platform = 2, 1
    assert "on several devices" in refusal(TURN, spread)
    assert "jax.device_put(Q, jax.devices('gpu')[0])" in refusal(TURN, on_host)


def test_kinds_are_not_mixed(cupy: Cupy) -> None:
    q = np.ones((4, 5))
    keep = np.ones((5, 5), bool)
    assert refusal(ATTEND, Tensor(q), q, Tensor(q), keep=Tensor(keep)) == (
        "K is an array of numpy; give arrays of one kind, and Q is a Tensor of torch: "
        "torch.as_tensor(K, device='cuda')"
    )
    assert "V is an array of jaxlib" in refusal(
        ATTEND, Tensor(q), Tensor(q), ArrayImpl(q), keep=Tensor(keep)
    )
    assert "K is a list" in refusal(ATTEND, Tensor(q), [[1.0]], Tensor(q), keep=Tensor(keep))
    assert "of one kind" in refusal(
        ATTEND, InterfaceArray(q), DLPackArray(q), InterfaceArray(q), keep=InterfaceArray(keep)
    )


@pytest.mark.parametrize(
    ("kind", "fix"),
    [
        (Tensor, "K.to(torch.float64)"),
        (ArrayImpl, "K.astype(jnp.float64)"),
        (DeviceNDArray, "cp.asarray(K).astype(cp.float64)"),
        (InterfaceArray, "cp.asarray(K).astype(cp.float64)"),
    ],
)
def test_advice_is_in_the_words_of_the_library(kind: Any, fix: str, cupy: Cupy) -> None:
    q, keep = np.ones((4, 5)), np.ones((5, 5), bool)
    for k in (q.astype("float32"), q.astype("int64")):  # and another dtype than Q's
        message = refusal(ATTEND, kind(q), kind(k), kind(q), keep=kind(keep))
        assert message.endswith(fix)
    message = refusal(ATTEND, kind(q), kind(q), kind(q), keep=kind(0 * q))
    assert ("keep == 0" if kind is Tensor else "sa.keep_from_additive(keep)") in message


def test_bfloat16_beside_another_dtype(cupy: Cupy) -> None:
    q, keep = np.ones((4, 5), BFLOAT16), Tensor(np.ones((5, 5), bool))
    tensor = Tensor(q)
    other = Tensor(np.ones((4, 5)))
    assert refusal(ATTEND, tensor, other, other, keep=keep).endswith("K.to(Q.dtype)")
    assert refusal(ATTEND, other, tensor, other, keep=keep).endswith("K.to(torch.float64)")


def test_what_cannot_be_handed_over_is_told(cupy: Cupy) -> None:
    class Odd(DLPackArray):
        def handed_over(self) -> Any:
            raise BufferError("no such dtype")

    assert refusal(TURN, Odd(np.ones((4, 5)))).startswith(
        "Q is an Odd of tests that cannot be handed over (BufferError: no such dtype)"
    )


def test_wrong_calls_are_told_as_ever(cupy: Cupy) -> None:
    tensor = Tensor(np.ones((4, 5)))
    with pytest.raises(CallError, match="takes 1 inputs by position"):
        TURN(tensor, tensor)
    with pytest.raises(CallError, match="Q is missing"):
        TURN()
    with pytest.raises(CallError, match="there is no input named R"):
        TURN(tensor, R=tensor)


def test_without_a_device_nothing_is_to_be_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = Cupy(devices=0)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    on_host = Tensor(np.ones((4, 5)))
    on_host.place = "cpu"
    for given in (1, [[1.0]], on_host):
        with pytest.raises(BackendError, match="there is no CUDA device"):
            TURN(given)


def test_what_says_nothing_is_on_no_device() -> None:
    class Lost:
        def __dlpack_device__(self) -> tuple[int, int]:
            raise RuntimeError("this array was deleted")

    assert not on_cuda(Lost())
    assert not on_cuda(np.ones(2))
    assert not on_cuda(1)


# The libraries themselves.


def test_pytorch_on_the_cpu() -> None:
    """What its tensors are asked is there, and answers."""
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    tensor = torch.ones(2, 3)
    assert not on_cuda(tensor)
    asked = [refusal.applies(tensor) for refusal in kinds.KINDS["torch"].refusals]
    assert asked == [True, False, False, False, False]
    leaf = torch.nn.Parameter(torch.ones(2))
    assert kinds.KINDS["torch"].refusals[1].applies(leaf)
    assert type(leaf).__name__ in kinds.KINDS["torch"].classes
    assert kinds.KINDS["torch"].refusals[2].applies(tensor.to_sparse())
    assert kinds.KINDS["torch"].refusals[3].applies((1j * tensor).conj().imag)
    assert torch.equal(tensor.bfloat16().T.view(torch.int16).view(torch.bfloat16), tensor.T)
    assert callable(torch.cuda.current_stream)
    before = tensor._version
    kinds.KINDS["torch"].written(tensor)  # pyright: ignore[reportOptionalCall]
    assert tensor._version == before + 1


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_pytorch_itself_where_numpy_stands_for_cupy(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tensors are on the CPU, so the device and the stream are left out."""
    cupy = Cupy()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    row = kinds.KINDS["torch"]
    row = replace(row, refusals=row.refusals[1:], work=lambda *_: None)
    monkeypatch.setattr(kinds, "KINDS", {"torch": row})
    monkeypatch.setattr("symattn.codegen.gpu.foreign.check_device", lambda _: None)
    monkeypatch.setattr(
        cupy, "from_dlpack", lambda t: np.from_dlpack(t).view(Located), raising=False
    )
    kept = getattr(torch, dtype)
    given = numbers()
    tensors = {name: torch.tensor(given[name]).to(kept) for name in "QKV"}
    tensors["K"] = tensors["K"].T.contiguous().T
    tensors["keep"] = torch.tensor(given["keep"])
    found = ATTEND(**tensors)
    assert (type(found), found.dtype) == (torch.Tensor, kept)
    tolerance = 5e-2 if dtype == "bfloat16" else 1e-2
    np.testing.assert_allclose(found.double().numpy(), PLAIN(**given), atol=tolerance)
    out = torch.empty(4, 5, dtype=kept)
    assert ATTEND(**tensors, out=out) is out
    assert torch.equal(out, found)
    arguments: Any = (["Q"], ["Q"], [tensors["Q"]], {})
    turned = run(lambda args, _: args[0][::-1], cupy, *arguments, takes_out=False)
    assert torch.equal(turned, tensors["Q"].flip(0))
    with pytest.raises(InputError, match=r"requires gradients.*: Q\.detach\(\)"):
        TURN(torch.ones(4, 5, requires_grad=True))
    with pytest.raises(InputError, match=r"Q\.resolve_neg\(\)"):
        TURN((1j * torch.ones(4, 5)).conj().imag)


def test_names_exist_in_cupy() -> None:
    cupy: Any = pytest.importorskip("cupy", reason="pip install 'symattn[cuda12]'")
    stream = cupy.cuda.Stream.from_external(kinds._Borrowed(None, 12345))
    assert stream.ptr == 12345
    assert callable(cupy.from_dlpack)
    assert callable(cupy.cuda.get_current_stream)
    errors = cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError
    assert tuple(error.__name__ for error in errors) == foreign._OF_CUDA
    assert BFLOAT16.char in {types[0] for types in cupy._core.core.elementwise_copy.types}
