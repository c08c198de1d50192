"""What statements are written to: the part of the emitter that lowerings and plans see."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from symattn.codegen.steps import Step
from symattn.codegen.targets import Target
from symattn.meaning.form import Form
from symattn.nodes import Node
from symattn.nodes.arrays import ArrayContext


class Writer(Protocol):
    """What a row writes to."""

    @property
    def target(self) -> Target: ...
    @property
    def plan_name(self) -> str:
        """The plan: how weighted sums are computed."""
        ...

    @property
    def context(self) -> ArrayContext: ...
    def code(self, node: Node) -> str:
        """Return the source of a node that is computed already, or is read in place.

        A negated term that is read in place is written without its sign.
        """
        ...

    def has_variable(self, node: Node) -> bool:
        """Tell whether a node is a variable, rather than read in place."""
        ...

    def scalar(self, form: Form) -> str:
        """Return the source of a scalar."""
        ...

    def fresh(self, wanted: str) -> str:
        """Return a name that nothing else has."""
        ...

    def is_masked(self, node: Node) -> bool:
        """Tell whether a node is 0 where a mask hides: weights, and what they multiply."""
        ...

    def sums_of(self, step: Step) -> str | None:
        """Return the name of log Σ exp(scores) of a softmax, if it is asked for."""
        ...

    def write(self, statement: str, comment: str = "") -> None:
        """Add a statement."""
        ...

    def remark(self, comment: str) -> None:
        """Add a line of comment."""
        ...

    def gap(self) -> None:
        """Add an empty line."""
        ...

    def indented(self, header: str) -> AbstractContextManager[None]:
        """Write the statements that are added meanwhile as the body of a function or a loop."""
        ...

    def support(self, name: str) -> str:
        """Return what a function that source imports is called in it."""
        ...

    def constant(self, wanted: str, value: str) -> str:
        """Return the name of a text of the module."""
        ...

    @property
    def dtype(self) -> str:
        """The dtype of the inputs."""
        ...

    @property
    def wide(self) -> str:
        """The dtype that is computed in: float32 for inputs of two bytes."""
        ...

    def destination(self, step: Step) -> tuple[str, str]:
        """Return the dtype of a step's result, and the parameter for its memory if it has one."""
        ...

    def keep_narrow(
        self, node: Node, blockwise: Sequence[Node], wide: Sequence[Node]
    ) -> Sequence[Node]:
        """Return which operands of a node stay of two bytes: inputs that are read by it alone."""
        ...

    @property
    def workers(self) -> str:
        """The parameter that takes the number of threads."""
        ...

    @property
    def whole(self) -> str:
        """What the function is called that computes everything with whole matrices."""
        ...
