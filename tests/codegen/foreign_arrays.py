"""Stand-ins for CuPy, PyTorch and others on a device: NumPy's arrays under their names.

They keep a record of what is entered, handed over and written, so that tests can ask for it.
"""

from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


class CUDARuntimeError(RuntimeError):
    """CuPy's, with CUDA's number."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"cudaErrorNumber{status}")


class CUDADriverError(CUDARuntimeError):
    """CuPy's, for the loading and the launch of a kernel."""


class Located(np.ndarray):
    """An array of NumPy that says on which device it is, as CuPy's do."""

    number = 0

    @property
    def device(self) -> Any:
        return SimpleNamespace(id=self.number)


class Cupy(ModuleType):
    """NumPy in CuPy's place; ``record`` holds the devices and streams that were entered."""

    def __init__(self, devices: int = 2) -> None:
        super().__init__("cupy")
        self.record: list[Any] = []
        self.ndarray = Located
        self.cuda = SimpleNamespace(
            Device=lambda number=0: self.entering(("device", number)),
            Stream=SimpleNamespace(
                from_external=lambda stream: self.entering(("stream", *stream.__cuda_stream__()))
            ),
            get_current_stream=lambda: SimpleNamespace(
                synchronize=lambda: self.record.append(("waited",))
            ),
            runtime=SimpleNamespace(
                getDeviceCount=lambda: devices,
                getDeviceProperties=lambda number: {"name": b"a", "major": 9, "minor": 0},
                memGetInfo=lambda: (1, 2),
            ),
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @contextmanager
    def entering(self, what: Any) -> Any:
        self.record.append(what)
        try:
            yield
        finally:
            self.record.append(("left", *what))

    def from_dlpack(self, array: Any) -> Any:
        assert array.__dlpack_device__()[0] in (2, 13)
        return array.handed_over()

    def asarray(self, array: Any, *more: Any, **options: Any) -> Any:
        if hasattr(array, "__cuda_array_interface__"):
            return array.handed_over()
        return np.asarray(array, *more, **options)


class OnDevice:
    """What the arrays of all the libraries below have in common."""

    def __init__(self, numbers: Any, device: int = 0) -> None:
        self.numbers, self.number = numbers, device

    def handed_over(self) -> Any:
        return self.numbers.view(Located)


class DLPackArray(OnDevice):
    """Has DLPack, and no way back."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.number

    def __dlpack__(self, **_: Any) -> None:
        raise AssertionError("the stand-ins hand over themselves")


class StandardArray(DLPackArray):
    """Has the array API standard, whose namespace takes results."""

    def __array_namespace__(self) -> Any:
        return SimpleNamespace(from_dlpack=StandardArray)


class InterfaceArray(OnDevice):
    """Has the CUDA array interface alone."""

    read_only = False

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"data": (1, self.read_only)}


class DeviceNDArray(InterfaceArray):
    """Numba's."""


DeviceNDArray.__module__ = "numba.cuda.cudadrv.devicearray"


class ArrayImpl(DLPackArray):
    """JAX's."""

    places = 1
    platform = 2

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.platform, self.number

    def devices(self) -> set[int]:
        return set(range(self.places))


ArrayImpl.__module__ = "jaxlib._jax"


class Tracer:
    """What JAX gives a function that it traces: no numbers."""


class DynamicJaxprTracer(Tracer):
    """One of its subclasses."""

    @property
    def __dlpack_device__(self) -> None:
        raise AttributeError("a tracer has none")


DynamicJaxprTracer.__module__ = "jax._src.interpreters.partial_eval"


class Tensor(DLPackArray):
    """PyTorch's, on a device unless it says otherwise."""

    requires_grad = False
    negated = False
    sparse = False
    inference = False
    place = "cuda"

    def __init__(self, numbers: Any, device: int = 0) -> None:
        super().__init__(numbers, device)
        self.dtype = f"torch.{numbers.dtype}"
        self.versions = 0

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2 if self.place == "cuda" else 1), self.number

    @property
    def device(self) -> Any:
        return SimpleNamespace(type=self.place, index=self.number)

    @property
    def layout(self) -> str:
        return "torch.sparse_coo" if self.sparse else "torch.strided"

    def is_neg(self) -> bool:
        return self.negated

    def is_inference(self) -> bool:
        return self.inference

    def view(self, dtype: str) -> "Tensor":
        kept = {"torch.bfloat16": BFLOAT16, "torch.int16": np.int16}[dtype]
        return Tensor(self.numbers.view(kept), self.number)

    def handed_over(self) -> Any:
        assert self.dtype != "torch.bfloat16", "its bits are handed over as integers"
        return super().handed_over()


Tensor.__module__ = "torch"


class Parameter(Tensor):
    """Of a layer."""


Parameter.__module__ = "torch.nn.parameter"


class FakeTensor(Tensor):
    """A tensor without numbers."""


FakeTensor.__module__ = "torch._subclasses.fake_tensor"


def torch_like(record: list[Any]) -> Any:
    """A module with what is asked of PyTorch."""
    torch: Any = ModuleType("torch")

    def from_dlpack(array: Any) -> Tensor:
        assert all(step >= 0 for step in array.strides), "PyTorch would end Python here"
        return Tensor(array)

    def increment_version(tensor: Tensor) -> None:
        tensor.versions += 1

    @contextmanager
    def device(number: int) -> Any:
        record.append(("torch device", number))
        yield

    torch.from_dlpack = from_dlpack
    torch.bfloat16, torch.int16 = "torch.bfloat16", "torch.int16"
    torch.cuda = SimpleNamespace(
        device=device,
        current_stream=lambda number: SimpleNamespace(cuda_stream=1000 + number),
    )
    torch.autograd = SimpleNamespace(graph=SimpleNamespace(increment_version=increment_version))
    return torch


def other_modules() -> dict[str, Any]:
    """What is asked of JAX and Numba."""

    def from_dlpack(array: Any) -> ArrayImpl:
        assert array.flags.c_contiguous
        return ArrayImpl(array)

    jax: Any = ModuleType("jax.numpy")
    jax.from_dlpack = from_dlpack
    numba: Any = ModuleType("numba.cuda")
    numba.as_cuda_array = DeviceNDArray
    return {
        "jax": ModuleType("jax"),
        "jax.numpy": jax,
        "numba": ModuleType("numba"),
        "numba.cuda": numba,
    }
