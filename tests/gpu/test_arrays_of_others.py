"""Arrays of PyTorch, JAX and Numba on a CUDA device: numbers, memory and streams."""

import json
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import symattn as sa
from symattn.cli import main
from symattn.codegen.gpu.foreign import run
from symattn.codegen.gpu.kinds import KINDS
from tests.gpu.test_device import MISSING

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(MISSING), reason=MISSING or "-")]

d_k, d_v, n, m = sa.dims("d_k d_v n m")
Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
ATTENTION = V @ sa.softmax(K.T @ Q / sa.sqrt(d_k), axis=0, mask=sa.keep())
ATTEND = sa.lambdify([Q, K, V], ATTENTION, backend="cupy")
DOUBLE = sa.lambdify([Q], 2 * Q, backend="cupy")

TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}


@pytest.fixture
def torch() -> Any:
    """PyTorch with a device."""
    module: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not module.cuda.is_available():
        pytest.skip("this PyTorch was built without CUDA, or finds no device")
    return module


@pytest.fixture
def cupy() -> Any:
    """CuPy, which is there."""
    return pytest.importorskip("cupy")


def numbers(batch: tuple[int, ...] = (2, 3)) -> dict[str, Any]:
    random = np.random.default_rng(0)
    shapes = {"Q": (8, 5), "K": (8, 7), "V": (6, 7)}
    arrays = {name: random.normal(size=(*batch, *shape)) for name, shape in shapes.items()}
    return {**arrays, "keep": random.random((5, 7)) < 0.7}


def expected(given: dict[str, Any]) -> Any:
    return sa.lambdify([Q, K, V], ATTENTION)(**given)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_tensors_of_every_dtype(dtype: str, torch: Any) -> None:
    given = numbers()
    tensors = {
        name: torch.as_tensor(array, device="cuda").to(getattr(torch, dtype))
        for name, array in given.items()
        if name != "keep"
    }
    keep = torch.as_tensor(given["keep"], device="cuda")
    found = ATTEND(**tensors, keep=keep)
    assert type(found) is torch.Tensor
    assert (found.dtype, found.device.type) == (getattr(torch, dtype), "cuda")
    tolerance = TOLERANCES[dtype]
    np.testing.assert_allclose(
        found.double().cpu().numpy(), expected(given), rtol=tolerance, atol=tolerance
    )
    f = sa.lambdify([Q, K, V], ATTENTION, backend="cupy", returns=("lse",))
    (lse,) = f(**tensors, keep=keep)
    assert lse.dtype == (torch.float32 if tensors["Q"].element_size() == 2 else tensors["Q"].dtype)


def test_no_copy_is_made(torch: Any, cupy: Any) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.bool):
        tensor = torch.ones(4, 6, device="cuda").to(dtype)[:, ::2].T
        array = KINDS["torch"].enter(cupy, tensor)
        assert array.data.ptr == tensor.data_ptr()
        assert array.shape == tensor.shape
        back = KINDS["torch"].leave(cupy, array, tensor)
        assert back.data_ptr() == tensor.data_ptr()
        assert (back.dtype, back.stride()) == (tensor.dtype, tensor.stride())


def test_tensors_of_other_strides(torch: Any) -> None:
    given = numbers()
    tensors = {name: torch.as_tensor(array, device="cuda") for name, array in given.items()}
    views = {
        "Q": tensors["Q"].mT.contiguous().mT,
        "K": tensors["K"][:1].expand(2, 3, 8, 7),
        "V": tensors["V"].repeat_interleave(2, dim=-1)[..., ::2],
        "keep": tensors["keep"].T.contiguous().T,
    }
    given["K"] = np.broadcast_to(given["K"][:1], (2, 3, 8, 7))
    np.testing.assert_allclose(ATTEND(**views).cpu().numpy(), expected(given), rtol=1e-12)


def test_a_result_of_negative_strides(torch: Any, cupy: Any) -> None:
    tensor = torch.arange(6.0, device="cuda").reshape(2, 3)
    arguments: Any = (["Q"], ["Q"], [tensor], {})
    found = run(lambda args, _: args[0][::-1, ::-1], cupy, *arguments, takes_out=False)
    assert torch.equal(found, tensor.flip(0, 1))


def test_tensors_without_entries(torch: Any) -> None:
    shapes = {"Q": (8, 5), "K": (8, 0), "V": (6, 0)}
    tensors = {name: torch.ones(shape, device="cuda") for name, shape in shapes.items()}
    keep = torch.ones(5, 0, dtype=torch.bool, device="cuda")
    assert torch.equal(ATTEND(**tensors, keep=keep), torch.zeros(6, 5, device="cuda"))
    none = torch.ones(4, 0, device="cuda")
    assert DOUBLE(none).shape == (4, 0)
    assert DOUBLE(none.bfloat16()).dtype == torch.bfloat16


def test_the_work_is_on_pytorchs_current_stream(torch: Any, cupy: Any) -> None:
    tensor = torch.zeros(8, 5, device="cuda")
    before = cupy.cuda.get_current_stream()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):  # kernels are compiled and loaded, and memory is taken
        found = DOUBLE(tensor.fill_(0))
        DOUBLE(found, out=torch.empty_like(tensor))
        torch.cuda._sleep(1)
        del found
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)  # what waits for nothing reads zeros
        tensor.fill_(1)
        found = DOUBLE(tensor)
        out = torch.empty_like(tensor)
        assert not stream.query(), "the call waited for the device"
        DOUBLE(found, out=out)
        total = out.sum()
    stream.synchronize()
    assert float(total) == 4 * 8 * 5
    assert cupy.cuda.get_current_stream() == before


def test_a_tensor_as_the_destination(torch: Any) -> None:
    given = numbers()
    tensors = {name: torch.as_tensor(array, device="cuda") for name, array in given.items()}
    out = torch.full((2, 3, 6, 5), torch.nan, dtype=torch.float64, device="cuda")
    pointer, version = out.data_ptr(), out._version
    assert ATTEND(**tensors, out=out) is out
    assert out.data_ptr() == pointer
    assert out._version > version
    np.testing.assert_allclose(out.cpu().numpy(), expected(given), rtol=1e-12)
    with pytest.raises(sa.InputError, match=r"in the memory of Q; .*torch\.empty_like\(out\)"):
        DOUBLE(tensors["Q"], out=tensors["Q"])


def test_tensors_that_are_refused(torch: Any, cupy: Any) -> None:
    tensor = torch.ones(4, 5, device="cuda")
    refused = {
        "Q.cuda()": tensor.cpu(),
        "Q.detach()": tensor.clone().requires_grad_(),
        "Q.to_dense()": tensor.to_sparse(),
        "Q.to(torch.float64)": tensor.int(),
        "Q.resolve_neg()": torch.complex(tensor, tensor).conj().imag,
    }
    for fix, given in refused.items():
        with pytest.raises(sa.InputError) as raised:
            DOUBLE(given)
        assert raised.value.fix == fix
    with pytest.raises(sa.InputError, match=r"cp\.asarray\(Q\)"):
        DOUBLE(np.ones((4, 5)))
    product = sa.lambdify([Q, K], K.T @ Q, backend="cupy")
    with pytest.raises(sa.InputError, match="K is an array of cupy; give arrays of one kind"):
        product(tensor, cupy.ones((4, 5), cupy.float32))


def test_two_devices(torch: Any, cupy: Any) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one device alone")
    product = sa.lambdify([Q, K], K.T @ Q, backend="cupy")
    first, second = (torch.ones(4, 5, device=f"cuda:{k}") for k in range(2))
    assert product(second, second).device == second.device
    with pytest.raises(sa.InputError, match="K is on device 1"):
        product(first, second)
    with cupy.cuda.Device(1):
        other = cupy.ones((4, 5))
    assert product(other, other).device.id == 1
    with pytest.raises(sa.InputError, match="K is on device 1"):
        product(cupy.ones((4, 5)), other)


def test_bfloat16_in_cupy(cupy: Any) -> None:
    bfloat16 = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed").bfloat16
    given = numbers()
    arrays = {name: cupy.asarray(given[name]).astype(bfloat16) for name in "QKV"}
    found = ATTEND(**arrays, keep=cupy.asarray(given["keep"]))
    assert found.dtype == bfloat16
    np.testing.assert_allclose(
        found.astype(cupy.float64).get(), expected(given), rtol=3e-2, atol=3e-2
    )


def test_arrays_of_jax() -> None:
    jax: Any = pytest.importorskip("jax", reason="JAX is not installed")
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX finds no device")
    given = {k: a.astype("float32") if a.dtype != bool else a for k, a in numbers().items()}
    found = ATTEND(**{name: jax.numpy.asarray(array) for name, array in given.items()})
    assert isinstance(found, jax.Array)
    np.testing.assert_allclose(np.asarray(found), expected(given), rtol=1e-5, atol=1e-5)
    low = DOUBLE(jax.numpy.ones((4, 5), "bfloat16"))
    assert low.dtype == jax.numpy.bfloat16
    with pytest.raises(sa.InputError, match=r"outside of jax\.jit"):
        jax.jit(DOUBLE)(jax.numpy.ones((4, 5)))


def test_arrays_of_numba() -> None:
    cuda: Any = pytest.importorskip("numba.cuda", reason="Numba is not installed")
    if not cuda.is_available():
        pytest.skip("this Numba finds no device")
    given = numbers()
    found = ATTEND(**{name: cuda.to_device(array) for name, array in given.items()})
    assert type(found) is type(cuda.to_device(given["Q"]))
    np.testing.assert_allclose(found.copy_to_host(), expected(given), rtol=1e-12)


def test_the_doctor_finds_the_device() -> None:
    result = CliRunner().invoke(main, ["doctor", "--json"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["ready"]["cupy"]
    found = {finding["subject"]: finding for finding in data["findings"]}
    assert "compute capability" in found["CUDA device 0"]["found"]
    assert found["CUDA driver"]["state"] == "fine"
