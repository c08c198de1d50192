"""The array libraries whose arrays are taken on a CUDA device, one row each.

A row says how the arrays of a library are told, which of them are refused and what to write
instead, how one becomes a CuPy array of the same memory, how a result goes back, and on which
stream the work has to be.  A library is one more row; all that follow the protocols are the last.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

from symattn.codegen.arrays import BFLOAT16
from symattn.errors import InputError

_ON_CUDA = frozenset({2, 13})
"""DLPack's numbers for memory of a CUDA device, and for memory that it shares with the CPU."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A property of arrays that are not taken; ``fix`` has the argument's name for ``{name}``."""

    applies: Callable[[Any], bool]
    found: str
    fix: str
    wanted: str = "an array on a CUDA device"


@dataclass(frozen=True, slots=True)
class Kind:
    """The arrays of one library.

    ``packages`` are where their classes come from, and ``classes`` the names of those that are
    taken (none: every one that says where on a device its memory is).  ``enter`` gives the CuPy
    array of the same memory, ``leave`` the array of this kind for a result, beside an argument.
    ``work`` enters what the work has to be done under, on the device of this number.  ``written``
    is called after a result was written to one, or None where they cannot be written to.
    ``conversion`` makes one of any other array; ``spelling`` rewrites advice that is for CuPy.
    """

    name: str
    packages: tuple[str, ...]
    classes: tuple[str, ...]
    refusals: tuple[Refusal, ...]
    enter: Callable[[Any, Any], Any]
    leave: Callable[[Any, Any, Any], Any]
    work: Callable[[ExitStack, Any, int], None]
    written: Callable[[Any], None] | None
    conversion: str
    spelling: tuple[tuple[str, str], ...] = ()
    contiguous: bool = False

    def problem(self, value: Any) -> Refusal | None:
        """Return why an array is not taken, or None."""
        if self.classes and type(value).__name__ not in self.classes:
            of = f"{_a(type(value).__name__)} of {self.name}"
            plain = " or ".join(self.classes)
            return Refusal(lambda _: True, of, "", f"a plain {plain} on a CUDA device")
        return next((refusal for refusal in self.refusals if refusal.applies(value)), None)

    def respelled(self, error: InputError) -> InputError:
        """Return an error of a call in the words of this library."""
        fix = error.fix
        for pattern, replacement in self.spelling:
            fix = re.sub(pattern, replacement, fix)
        return InputError(error.name, error.found, fix, error.wanted)


# PyTorch.


class _Borrowed:
    """A stream of another library, as the CUDA stream protocol wants it."""

    def __init__(self, stream: Any, pointer: int) -> None:
        self.stream, self.pointer = stream, pointer

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.pointer


def _under_torch(stack: ExitStack, cupy: Any, device: int) -> None:
    """Work on the stream that is PyTorch's current one."""
    torch = import_module("torch")
    stack.enter_context(cupy.cuda.Device(device))
    stack.enter_context(torch.cuda.device(device))
    stream = torch.cuda.current_stream(device)
    borrowed = _Borrowed(stream, int(stream.cuda_stream))
    stack.enter_context(cupy.cuda.Stream.from_external(borrowed))


def _from_torch(cupy: Any, tensor: Any) -> Any:
    """The bits of bfloat16 go over as integers, whatever DLPack knows of that dtype."""
    torch = import_module("torch")
    if tensor.dtype != torch.bfloat16:
        return cupy.from_dlpack(tensor)
    return cupy.from_dlpack(tensor.view(torch.int16)).view(import_module("ml_dtypes").bfloat16)


def _to_torch(cupy: Any, array: Any, _: Any) -> Any:
    torch = import_module("torch")
    if array.dtype.name != BFLOAT16:
        return torch.from_dlpack(array)
    return torch.from_dlpack(array.view(cupy.int16)).view(torch.bfloat16)


def _torch_written(tensor: Any) -> None:
    """Gradients through the old numbers are refused from here on, as after `copy_`."""
    if not tensor.is_inference():
        import_module("torch").autograd.graph.increment_version(tensor)


def _lacks_bfloat16(tensor: Any) -> bool:
    if str(tensor.dtype) != f"torch.{BFLOAT16}":
        return False
    try:
        import_module("ml_dtypes")
    except ImportError:
        return True
    return False


_TORCH = Kind(
    name="torch",
    packages=("torch",),
    classes=("Tensor", "Parameter"),
    refusals=(
        Refusal(
            lambda t: t.device.type != "cuda", "a tensor that is not on a GPU", "{name}.cuda()"
        ),
        Refusal(
            lambda t: t.requires_grad,
            "a tensor that requires gradients",
            "{name}.detach()",
            "one without, as no gradients are computed",
        ),
        Refusal(lambda t: str(t.layout) != "torch.strided", "a sparse tensor", "{name}.to_dense()"),
        Refusal(lambda t: t.is_neg(), "a tensor that is negated when read", "{name}.resolve_neg()"),
        Refusal(
            _lacks_bfloat16,
            "a tensor of bfloat16, which CuPy has with the package ml_dtypes alone",
            "{name}.float(), or python -m pip install ml_dtypes",
            "float16, float32 or float64",
        ),
    ),
    enter=_from_torch,
    leave=_to_torch,
    work=_under_torch,
    written=_torch_written,
    conversion="torch.as_tensor({name}, device='cuda')",
    spelling=(
        (r"\.astype\(cp\.(\w+)\)", r".to(torch.\1)"),
        (r"\.astype\((\w+\.dtype)\)", r".to(\1)"),
        (r"cp\.empty\((\w+)\.shape, cp\.(\w+)\)", r"torch.empty_like(\1, dtype=torch.\2)"),
        (r"cp\.empty_like", "torch.empty_like"),
        (r"\.copy\(\)", ".clone()"),
        (r"sa\.keep_from_additive\((\w+)\)", r"\1 == 0"),
    ),
)


# JAX, Numba, and all others.


def _under_cupy(stack: ExitStack, cupy: Any, device: int) -> None:
    """Work on CuPy's current stream, which the protocols order with the library's own."""
    stack.enter_context(cupy.cuda.Device(device))


def _before_jax(stack: ExitStack, cupy: Any, device: int) -> None:
    """Work on CuPy's current stream, and end with it: JAX may use the memory of an array that is
    no longer referred to at once, whatever other streams still read there."""
    _under_cupy(stack, cupy, device)
    stack.callback(cupy.cuda.get_current_stream().synchronize)


def _is_traced(value: Any) -> bool:
    return any(base.__name__ == "Tracer" for base in type(value).__mro__)


_JAX = Kind(
    name="jax",
    packages=("jax", "jaxlib"),
    classes=(),
    refusals=(
        Refusal(
            _is_traced,
            "traced by JAX, and has no numbers yet",
            "call the function outside of jax.jit, jax.grad and jax.vmap",
        ),
        Refusal(
            lambda x: len(x.devices()) > 1,
            "an array on several devices",
            "jax.device_put({name}, jax.devices('gpu')[0])",
            "one on one device",
        ),
        Refusal(
            lambda x: not on_cuda(x),
            "an array of jax that is not on a GPU",
            "jax.device_put({name}, jax.devices('gpu')[0])",
        ),
    ),
    enter=lambda cupy, x: cupy.from_dlpack(x),
    leave=lambda _cupy, array, _like: import_module("jax.numpy").from_dlpack(array),
    work=_before_jax,
    written=None,
    conversion="jnp.from_dlpack(cp.asarray({name}))",
    spelling=(("cp\\.", "jnp."),),
    contiguous=True,
)

_NUMBA = Kind(
    name="numba",
    packages=("numba", "numba_cuda"),
    classes=(),
    refusals=(),
    enter=lambda cupy, x: cupy.asarray(x),
    leave=lambda _cupy, array, _like: import_module("numba.cuda").as_cuda_array(array),
    work=_under_cupy,
    written=lambda _: None,
    conversion="numba.cuda.as_cuda_array(cp.asarray({name}))",
    spelling=((r"^(\w+)\.(astype|copy)", r"cp.asarray(\1).\2"),),
)


def _from_any(cupy: Any, value: Any) -> Any:
    if hasattr(value, "__cuda_array_interface__"):
        return cupy.asarray(value)
    return cupy.from_dlpack(value)


def _to_any(_: Any, array: Any, like: Any) -> Any:
    """Back through the array API standard where the kind has it, else as the CuPy array it is."""
    namespace = getattr(like, "__array_namespace__", None)
    return array if namespace is None else namespace().from_dlpack(array)


ANY = Kind(
    name="other",
    packages=(),
    classes=(),
    refusals=(),
    enter=_from_any,
    leave=_to_any,
    work=_under_cupy,
    written=lambda _: None,
    conversion="cp.asarray({name})",
    spelling=_NUMBA.spelling,
)

KINDS: Mapping[str, Kind] = MappingProxyType(
    {package: kind for kind in (_TORCH, _JAX, _NUMBA) for package in kind.packages}
)
"""By the package that a class comes from."""


def on_cuda(value: Any) -> bool:
    """Tell whether an array says that its memory is on a CUDA device."""
    try:
        if hasattr(value, "__dlpack_device__"):
            return int(value.__dlpack_device__()[0]) in _ON_CUDA
        return hasattr(value, "__cuda_array_interface__")
    except Exception:  # a library's own reason why there is no such memory
        return False


def kind_of(value: Any, cupy: Any) -> Kind | None:
    """Return the row of an array, or None for CuPy's own and for what is on no device."""
    if isinstance(value, cupy.ndarray):
        return None
    cls = type(value)
    kind = KINDS.get(cls.__module__.partition(".")[0])
    if kind is not None and (hasattr(cls, "__dlpack__") or on_cuda(value) or _is_traced(value)):
        return kind
    return ANY if on_cuda(value) else None


def described(value: Any) -> str:
    """Return what a value is, for messages."""
    cls = type(value)
    package = cls.__module__.partition(".")[0]
    name = "array" if cls.__name__ in ("ndarray", "ArrayImpl") else cls.__name__
    return _a(name) + (f" of {package}" if package != "builtins" else "")


def _a(word: str) -> str:
    return f"{'an' if word[0].lower() in 'aeiou' else 'a'} {word}"
