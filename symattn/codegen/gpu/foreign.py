"""Arrays of other libraries on a CUDA device: in without a copy, and the result back as their kind.

Between the two, everything is CuPy: the checks of a call, its plans and its errors know no other
kind.  What differs between libraries is a row of `kinds`.

The memory is shared both ways, so its layout is looked at before it is handed over: PyTorch ends
Python on a stride below zero, and JAX takes whole arrays alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from types import ModuleType
from typing import Any, Protocol

from symattn.codegen.gpu.devices import check_device, device_error
from symattn.codegen.gpu.kinds import ANY, Kind, described, kind_of, on_cuda
from symattn.errors import InputError

_LONGEST = 200
"""So much of a foreign message is repeated."""


class Call(Protocol):
    """A function of CuPy arrays, given positional arguments and keywords."""

    def __call__(self, args: Sequence[Any], kwargs: dict[str, Any], /) -> Any: ...


def run(
    call: Call,
    cupy: ModuleType,
    positional: Sequence[str],
    arrays: Sequence[str],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    takes_out: bool,
) -> Any:
    """Return what a function of CuPy arrays gives for arrays of any kind, as that kind.

    ``positional`` are the names of its parameters, ``arrays`` those of its inputs that are arrays;
    ``takes_out`` says that ``out`` is the array to write the result to.  Raises `InputError` for
    arrays of several kinds or devices, and for what its row refuses; `BackendError` where the
    device does not respond.
    """
    given = dict(zip(positional, args, strict=False)) | dict(kwargs)
    names = (*arrays, "out") if takes_out else arrays
    values = {name: given[name] for name in names if given.get(name) is not None}
    if all(type(value) is cupy.ndarray for value in values.values()):
        with _Explained(cupy), _device_of(values, cupy):
            return call(args, kwargs)
    kinds = {name: kind_of(value, cupy) for name, value in values.items()}
    first = next((name for name, kind in kinds.items() if kind is not None), "")
    kind = kinds.get(first)
    if not all(on_cuda(value) for value in values.values()):
        check_device(cupy)  # without one, the advice to convert would lead nowhere
    if kind is None:
        with _Explained(cupy):
            return call(args, kwargs)
    for name, value in values.items():
        _check(kind, name, value, kinds[name], first, values[first])
    if kind.written is None and takes_out and "out" in values:
        raise InputError("out", f"an array of {kind.name}, which is never written to", "", "none")
    with _Explained(cupy), ExitStack() as stack:
        kind.work(stack, cupy, _one_device(values, cupy))
        entered = {name: _entered(kind, name, value, cupy) for name, value in values.items()}
        moved = [entered.get(name, x) for name, x in zip(positional, args, strict=False)]
        moved += args[len(moved) :]
        try:
            found = call(moved, {name: entered.get(name, x) for name, x in kwargs.items()})
        except InputError as error:
            raise kind.respelled(error) from None
        out = entered.get("out") if takes_out else None
        results = [
            values["out"] if out is not None and each is out else _left(kind, each, values, cupy)
            for each in (found if isinstance(found, tuple) else (found,))
        ]
        if out is not None and kind.written is not None:
            kind.written(values["out"])
    return tuple(results) if isinstance(found, tuple) else results[0]


def _check(kind: Kind, name: str, value: Any, own: Kind | None, first: str, example: Any) -> None:
    """Raise `InputError` for an array that is not taken, or of another kind than the first one."""
    if own is None or own is not kind or (kind is ANY and type(value) is not type(example)):
        wanted = f"arrays of one kind, and {first} is {described(example)}"
        raise InputError(name, described(value), kind.conversion.format(name=name), wanted)
    refusal = kind.problem(value)
    if refusal is not None:
        raise InputError(name, refusal.found, refusal.fix.format(name=name), refusal.wanted)
    interface = getattr(value, "__cuda_array_interface__", None) if name == "out" else None
    if interface is not None and interface["data"][1]:
        raise InputError("out", "a read-only array", "", "one that can be written to")


def _device_of(values: Mapping[str, Any], cupy: Any) -> AbstractContextManager[Any]:
    """Return the device of CuPy's own arrays, to be entered: a kernel runs where Python is."""
    places: dict[str, Any] = {name: getattr(x, "device", None) for name, x in values.items()}
    numbers = {name: place.id for name, place in places.items() if hasattr(place, "id")}
    return cupy.cuda.Device(_agreed(numbers)) if numbers else nullcontext()


def _one_device(values: Mapping[str, Any], cupy: Any) -> int:
    """Return the number of the device that all arrays are on, or raise `InputError`."""
    return _agreed({name: _device(value, cupy) for name, value in values.items()})


def _agreed(numbers: Mapping[str, int]) -> int:
    """Return the one number of a device, or raise `InputError`."""
    first, number = next(iter(numbers.items()))
    for name, other in numbers.items():
        if other != number:
            wanted = f"all arrays on one, and {first} is on device {number}"
            raise InputError(name, f"on device {other}", "", wanted)
    return number


def _device(value: Any, cupy: Any) -> int:
    if hasattr(value, "__dlpack_device__"):
        return int(value.__dlpack_device__()[1])
    return int(cupy.asarray(value).device.id)


def _entered(kind: Kind, name: str, value: Any, cupy: Any) -> Any:
    """Return the CuPy array of the same memory."""
    try:
        return kind.enter(cupy, value)
    except Exception as error:
        if _is_cuda(error):
            raise
        told = f"{type(error).__name__}: {error}"[:_LONGEST]
        found = f"{described(value)} that cannot be handed over ({told})"
        raise InputError(name, found, "", "float16, float32 or float64 on a CUDA device") from error


def _left(kind: Kind, array: Any, values: Mapping[str, Any], cupy: Any) -> Any:
    """Return a result as the caller's kind, in memory that it can take."""
    steps = array.strides
    odd = any(step < 0 or step % array.itemsize for step in steps)
    if odd or (kind.contiguous and not array.flags.c_contiguous):
        array = array.copy(order="C")
    return kind.leave(cupy, array, next(iter(values.values())))


class _Explained:
    """A block whose errors of CUDA are raised as `BackendError`, with what to do about them."""

    def __init__(self, cupy: ModuleType) -> None:
        self.cupy = cupy

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None and _is_cuda(error):
            raise device_error(self.cupy, error) from error


_OF_CUDA = ("CUDARuntimeError", "CUDADriverError")
"""The errors that bring CUDA's number: kernels are loaded and launched by the driver."""


def _is_cuda(error: BaseException) -> bool:
    """Tell an error of CUDA, whichever of CuPy's modules its class is in."""
    return type(error).__name__ in _OF_CUDA
