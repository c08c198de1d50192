"""The array libraries that source is generated for, one row each.

The emitter writes NumPy's names.  A row says how the library is imported, and where it differs:
what a function is called there, and whether a maximum over nothing may be asked for.  A library
with NumPy's interface is one more row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType, ModuleType

from symattn.codegen.gpu.devices import import_error
from symattn.tags import named


@dataclass(frozen=True, slots=True)
class Target:
    """One array library.

    ``renames`` maps NumPy's function names to the library's own, ``max_takes_initial`` tells
    whether ``max`` takes NumPy's ``initial=`` (without it, the maximum over an empty axis raises),
    ``plans`` are the plans that there are for it, ``in_threads`` tells whether blocks are computed
    in threads of the CPU,
    ``installation`` is the command that installs it, and ``conversions`` say, for an array of
    another library, how it becomes one of this (``""``: of any other kind).  ``takes_others`` says
    that arrays of other libraries are handed over, where they are in the memory of a device.
    """

    name: str
    module: str
    alias: str
    max_takes_initial: bool
    installation: str
    conversions: Mapping[str, str]
    plans: tuple[str, ...]
    in_threads: bool = False
    renames: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    takes_others: bool = False

    def function(self, name: str, alias: str) -> str:
        """Return the source of one of NumPy's functions, where the module is called ``alias``."""
        return f"{alias}.{self.renames.get(name, name)}"

    def load(self) -> ModuleType:
        """Return the library; raises `BackendError` where it cannot be imported."""
        try:
            return import_module(self.module)
        except Exception as error:  # a broken installation raises anything
            raise import_error(self.name, self.module, error, self.installation) from error


TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        target.name: target
        for target in (
            Target(
                name="numpy",
                module="numpy",
                alias="np",
                max_takes_initial=True,
                plans=("direct", "blocked"),
                in_threads=True,
                installation="python -m pip install numpy",
                conversions={
                    "cupy": "cupy.asnumpy({name})",
                    "torch": "{name}.detach().cpu().numpy()",
                    "": "np.asarray({name}, dtype=np.float64)",
                },
            ),
            Target(
                name="cupy",
                module="cupy",
                alias="cp",
                plans=("direct", "blocked", "fused"),
                max_takes_initial=False,
                installation="python -m pip install 'symattn[cuda12]' (or cuda13)",
                conversions={
                    "numpy": "cp.asarray({name})",
                    "torch": "{name}.detach().cuda()",
                    "": "cp.asarray({name}, dtype=cp.float32)",
                },
                takes_others=True,
            ),
        )
    }
)


def target_named(name: object) -> Target:
    """Return the row of a backend; raises `UnknownNameError` for any other name."""
    return named("backend", name, TARGETS)
