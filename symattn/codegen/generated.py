"""`lambdify`: from a formula to a function of arrays, through source that can be read.

The source is text, compiled once (here, and nowhere else in the package) and shown in tracebacks.
What surrounds it is the door, which checks every call before the source runs.
"""

from __future__ import annotations

import hashlib
import inspect
import linecache
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from symattn.codegen.call import Door
from symattn.codegen.emit import Source, emit
from symattn.codegen.signature import ArrayInput, Signature, bind_inputs, mask_inputs
from symattn.codegen.targets import Target, target_named
from symattn.errors import (
    NotAnOperandError,
    NotSupportedError,
    SignatureError,
    SizeError,
    TextRefusedError,
)
from symattn.nodes import Family, Node, Program, Scalar
from symattn.nodes.core import NamedInput
from symattn.nodes.depth import shallow_enough
from symattn.nodes.finite import as_finite, with_selections
from symattn.notation import brief, text
from symattn.notation.layouts import layout_of
from symattn.notation.names import identifier
from symattn.tags import Equation, Size, named, solve

_PLANS = {"auto": "direct", "direct": "direct", "blocked": "blocked"}
"""Each plan that may be asked for, with the one that is taken."""


class GeneratedFunction:
    """A function of arrays that `lambdify` made from a formula; call it with arrays.

    >>> import numpy as np, symattn as sa
    >>> d, n, m = sa.dims("d n m")
    >>> Q, K = sa.matrix("Q", d, n), sa.matrix("K", d, m)
    >>> f = sa.lambdify([Q, K], K.T @ Q)
    >>> f
    <GeneratedFunction of (Q, K) for numpy: KᵀQ>
    >>> f(np.ones((4, 5)), K=np.ones((4, 7))).shape
    (7, 5)

    Immutable: threads may share it, and it can be copied and pickled (it is generated again).
    """

    def __init__(
        self,
        inputs: Sequence[Any],
        program: Program,
        target: Target,
        name: str,
        layout: str,
    ) -> None:
        result = as_finite(program.result, "lambdify")
        formula = text(result if len(program) == 1 else program)
        parameters = bind_inputs(inputs, result, formula)
        signature = Signature(
            formula=formula,
            function=identifier(name) if name else "compute",
            inputs=parameters,
            tags=result.tags,
            relations=result.given,
            layout=layout or layout_of(result) or "",
            masks=mask_inputs(result, formula),
        )
        self._recipe = (tuple(inputs), program, target.name, name, layout)
        self._target = target
        self._generated: Source = emit(signature, _selecting(program), target)
        self._parameters = parameters
        open_sizes = _open_tags(signature)
        _refuse_clashes(signature, {*open_sizes, *self._generated.sizes})
        call = f"{signature.function}({', '.join(item.name for item in parameters)})"
        self._door = Door(signature, result, target, call)
        self._formula = formula
        self.__name__ = self.__qualname__ = signature.function
        self.__doc__ = inspect.cleandoc(self._docstring())
        self.__signature__ = inspect.Signature(
            [
                inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                for name in signature.positional
            ]
            + [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
                for name in (
                    *(item.name for item in parameters if item.name not in signature.positional),
                    *(mask.name for mask in signature.masks),
                    *(identifier(tag) for tag in open_sizes),
                )
            ]
        )

    @property
    def source(self) -> str:
        """The generated Python: a module that runs by itself."""
        return self._generated.text

    @property
    def inputs(self) -> tuple[NamedInput | Scalar, ...]:
        """The inputs in calling order, as symbols of the formula."""
        return tuple(
            item.source if isinstance(item, ArrayInput) else item.symbol
            for item in self._parameters
        )

    @property
    def backend(self) -> str:
        """The array library: ``"numpy"`` or ``"cupy"``."""
        return self._target.name

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        values, masks, sizes = self._door(args, kwargs)
        given = {identifier(tag): sizes[tag] for tag in self._generated.sizes}
        # A difference of finite scores may overflow to −inf, whose exponential is the right 0; an
        # infinity among the inputs ends as NaN where it belongs, and what is masked out may be
        # anything: it is computed, and not used.  None of this deserves a warning each time.
        with np.errstate(over="ignore", invalid="ignore"):
            return self._compiled(*values, **masks, **given)

    @cached_property
    def _compiled(self) -> Callable[..., Any]:
        return run_source(self._generated)

    def _docstring(self) -> str:
        start = self.source.index('"""') + 3
        return self.source[start : self.source.index('"""', start)]

    def __repr__(self) -> str:
        names = ", ".join(item.name for item in self._parameters)
        formula = self._formula.replace("\n", "; ")
        return f"<GeneratedFunction of ({names}) for {self.backend}: {formula}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _regenerate, self._recipe


def run_source(generated: Source) -> Callable[..., Any]:
    """Run generated source as a module of its own, and return its function."""
    digest = hashlib.sha256(generated.text.encode()).hexdigest()[:12]
    filename = f"<symattn generated {digest}>"
    lines = generated.text.splitlines(keepends=True)
    linecache.cache[filename] = (len(generated.text), None, lines, filename)
    namespace: dict[str, Any] = {"__name__": "symattn.generated"}
    exec(compile(generated.text, filename, "exec"), namespace)
    return namespace[generated.function]


@shallow_enough("generating code")
def lambdify(
    inputs: Sequence[Any], expr: Any, *, backend: str = "numpy", plan: str = "auto"
) -> GeneratedFunction:
    """Return a function of arrays that computes a formula, through generated source.

    >>> import numpy as np, symattn as sa
    >>> d_k, d_v, n, m = sa.dims("d_k d_v n m")
    >>> Q, K, V = sa.matrix("Q", d_k, n), sa.matrix("K", d_k, m), sa.matrix("V", d_v, m)
    >>> f = sa.lambdify([Q, K, V], V @ sa.softmax(K.T @ Q / sa.sqrt(d_k), axis=0))
    >>> f(np.zeros((8, 4, 5)), np.zeros((4, 7)), V=np.ones((3, 7))).shape
    (8, 3, 5)

    ``inputs`` are the matrices, vectors and scalars in calling order, ``expr`` a formula, a
    `Program` or an entry of the catalogue.  Arrays have any leading batch axes, which broadcast; a
    matrix is (…, rows, columns), a vector (…, size).  The boolean arrays of masks are given by
    keyword, ``keep=`` of shape (…, n, m) and ``padding=`` of shape (…, m), True where a query may
    attend.  Sizes are read off the arrays; those that do not follow are given by name (``h=12``).
    The dtype is that of the inputs, and they are never written to.

    ``backend`` is ``"numpy"`` or ``"cupy"``; ``plan`` is ``"direct"`` (also ``"auto"``): whole
    matrices, results written in the memory of what is no longer needed.

    Raises `SignatureError` if the inputs are not those of the formula, and `MinusInfinityError` if
    it ends with an additive mask.  A call raises, before any work is done, `CallError` for the
    arguments themselves, `InputError` for one of the wrong kind, `InputShapeError` or `SizeError`
    for sizes that do not fit, `ScalarError` for a scalar that cannot be computed, and
    `BackendError` where the array library is missing.
    """
    if named("plan", plan, _PLANS) == "blocked":
        raise NotSupportedError('plan="blocked"; plan="direct" computes the same')
    target = target_named(backend)
    if isinstance(expr, list | tuple):
        problem = "the inputs come first: sa.lambdify([Q, K, V], formula)"
        raise SignatureError(brief(expr), (problem,))
    if isinstance(inputs, Node | Family | Scalar):
        problem = f"{brief(inputs)} stands alone; give a list of inputs, [{brief(inputs)}]"
        raise SignatureError(brief(expr), (problem,))
    if not isinstance(inputs, Iterable) or hasattr(inputs, "__array__"):
        problem = f"{brief(inputs)} is no list of inputs"
        raise SignatureError(brief(expr), (problem,))
    program, name, layout = _taken_apart(expr)
    return GeneratedFunction(tuple(inputs), program, target, name, layout)


def _taken_apart(expr: Any) -> tuple[Program, str, str]:
    """Return a formula as a program, with the name and the layout of an entry of the catalogue."""
    if isinstance(expr, str):
        raise TextRefusedError("lambdify", expr)
    if isinstance(expr, Program):
        return expr, "", ""
    if isinstance(expr, Node):
        return Program({"O": expr}), "", ""
    formula = getattr(expr, "program", None)
    if formula is None:
        formula = getattr(expr, "expr", None)
    if isinstance(formula, Program | Node):
        program, _, _ = _taken_apart(formula)
        return program, str(getattr(expr, "name", "")), str(getattr(expr, "layout", ""))
    raise NotAnOperandError(
        brief(expr), "lambdify takes a formula, a program or an entry of the catalogue"
    )


def _selecting(program: Program) -> Program:
    """Return a program whose additive masks select: of scores with such a mask the finite part.

    What is masked out may be anything, NaN included, and NaN plus −∞ is NaN.
    """
    lines: dict[str, Node] = {}
    for name, line in program.lines.items():
        finite, _ = with_selections(line).finite_and_masks()
        if finite is not None:
            lines[name] = finite
    return Program(lines)


def _regenerate(
    inputs: Sequence[Any], program: Program, backend: str, name: str, layout: str
) -> GeneratedFunction:
    return GeneratedFunction(inputs, program, target_named(backend), name, layout)


def _open_tags(signature: Signature) -> tuple[str, ...]:
    """Return the tags that the shapes of the inputs do not determine.

    The solver itself tells, at made-up sizes: which tags follow does not depend on them.
    """
    relations = dict(signature.relations)
    sizes = dict.fromkeys(signature.tags, 5040)  # divisible by every small number
    equations = [
        Equation(Size.tag(t) - size, 0, f"{t} = {size}") for t, size in signature.relations
    ]
    try:
        for _ in relations:  # as often as the longest chain of relations is
            sizes.update({tag: size.value(sizes) for tag, size in relations.items()})
        equations += [
            Equation(size, size.value(sizes), place)
            for array in signature.shaped
            for size, place in zip(array.axes, array.places, strict=True)
        ]
        solved = solve(equations)
    except SizeError as error:
        if error.problem != "underdetermined":
            return ()  # the made-up sizes do not suit; each call tells
        met = {tag for equation in equations for tag in equation.size.tags}
        return tuple(t for t in signature.tags if t in error.tags or t not in met)
    return tuple(tag for tag in signature.tags if tag not in solved)


def _refuse_clashes(signature: Signature, tags: set[str]) -> None:
    """Raise if a size that is given by name is spelt like an input."""
    names = {item.name for item in (*signature.inputs, *signature.masks)}
    clashes = sorted(tag for tag in tags if identifier(tag) in names)
    if clashes:
        raise SignatureError(
            signature.formula,
            [f"the size {t} and an input are both given as {identifier(t)}" for t in clashes],
        )
