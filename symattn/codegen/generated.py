"""`lambdify`: from a formula to a function of arrays, through source that can be read.

The source is text, compiled once (here, and nowhere else in the package) and shown in tracebacks.
What surrounds it is the door, which checks every call before the source runs.
"""

from __future__ import annotations

import hashlib
import inspect
import linecache
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from symattn.codegen.arrays import as_workers
from symattn.codegen.call import Door
from symattn.codegen.choice import in_slices
from symattn.codegen.emit import Source
from symattn.codegen.gpu.foreign import run
from symattn.codegen.plans import PLANS, Plans
from symattn.codegen.results import names_of_results
from symattn.codegen.saved import saved_module
from symattn.codegen.saved_file import save
from symattn.codegen.shown import Sources, documentation
from symattn.codegen.signature import ArrayInput, Signature, bind_inputs, mask_inputs
from symattn.codegen.targets import Target, target_named
from symattn.errors import (
    CallError,
    InputError,
    NotAnOperandError,
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
        plan: str = "auto",
        workers: int | None = None,
        returns: tuple[str, ...] = (),
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
        self._recipe = (tuple(inputs), program, target.name, name, layout, plan, workers, returns)
        self._target = target
        if workers is not None and not target.in_threads:
            raise InputError("workers", repr(workers), "", "none: a device has threads of its own")
        self._workers = as_workers(workers)
        self._returns = returns
        self._plans = Plans(signature, selecting(program), target, plan, returns)
        self._parameters = parameters
        self._open_sizes = open_sizes = _open_tags(signature)
        _refuse_clashes(signature, {*open_sizes, *self._plans.sizes})
        call = f"{signature.function}({', '.join(item.name for item in parameters)})"
        self._door = Door(signature, result, target, call)
        self._formula = formula
        self.__name__ = self.__qualname__ = signature.function
        is_taken = {
            "workers": self._plans.in_threads,
            "out": not returns or "output" in returns,
        }
        options = [name for name in is_taken if is_taken[name] and self._door.is_free(name)]
        self.__doc__ = inspect.cleandoc(documentation(self._plans.shown, options))
        self.__signature__ = self._call_signature(signature, options)

    def _call_signature(self, signature: Signature, options: Iterable[str]) -> inspect.Signature:
        """Return what `inspect` shows: inputs, then by keyword alone masks, sizes and options."""
        by_name = [item.name for item in signature.inputs if item.name not in signature.positional]
        by_name += [mask.name for mask in signature.masks]
        by_name += [identifier(tag) for tag in self._open_sizes]
        kinds = inspect.Parameter
        return inspect.Signature(
            [
                *(kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in signature.positional),
                *(kinds(name, kinds.KEYWORD_ONLY) for name in by_name),
                *(kinds(name, kinds.KEYWORD_ONLY, default=None) for name in options),
            ]
        )

    @property
    def source(self) -> str:
        """The generated Python; where both plans are there, that of the direct one."""
        return self._plans.shown.text

    @property
    def sources(self) -> Sources:
        """The generated Python of each plan that the function has; it prints as that.

        >>> import symattn as sa
        >>> F = sa.formula("scaled_dot_product")
        >>> sorted(sa.lambdify(F.inputs, F).sources)
        ['blocked', 'direct']

        Raises `UnknownNameError` for a plan that it does not have, with those that it has.
        """
        return Sources({plan: source.text for plan, source in self._plans.by_name.items()})

    @property
    def plan(self) -> str:
        """The plan: ``"auto"`` where both are there, and the sizes of a call choose."""
        return self._plans.name

    @property
    def plan_reason(self) -> str:
        """Why there is no blocked plan, or which plan is taken when.

        >>> import symattn as sa
        >>> X = sa.matrix("X", *sa.dims("n m"))
        >>> sa.lambdify([X], X.T @ X).plan_reason
        'no blocks: there is no softmax in it, nor values times a function of scores'
        """
        return self._plans.reason

    @property
    def workers(self) -> int | None:
        """The number of threads where a call says none; None is by the size of the work."""
        return self._workers

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a module that computes the same without symattn, and return its path.

        >>> import pathlib, tempfile, symattn as sa
        >>> X = sa.matrix("X", *sa.dims("n m"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = sa.lambdify([X], 2 * X).save(pathlib.Path(folder, "double.py"))
        ...     print(path.read_text(encoding="utf-8").splitlines()[0])
        \"""Compute 2X.

        The module needs the array library alone.  Its function is called as this one is, and checks
        everything before it computes; it raises TypeError and ValueError.

        Raises `SavePathError` for a path that is no place for a module that can be imported, and
        `FileTakenError` if there is a file of this name: none is overwritten.
        """
        return save(path, saved_module(self._plans, self._open_sizes, self._workers))

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
        if not self._target.takes_others:
            return self._run(args, kwargs)
        door = self._door
        names = door.positional, tuple(item.name for item in door.shaped)
        library = self._target.load()
        return run(self._run, library, *names, args, kwargs, takes_out=door.takes_out)

    def _run(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Return the result for arrays of the target's own library."""
        workers = self._workers
        takes_workers = self._target.in_threads and self._door.is_free("workers")
        if "workers" in kwargs and takes_workers:
            workers = as_workers(kwargs.pop("workers"))
        out = kwargs.pop("out", None) if self._door.takes_out else None
        if out is not None and self._returns and "output" not in self._returns:
            raise CallError(self._door.call, "returns= asks for no output that out= could take")
        values, masks, sizes = self._door(args, kwargs, out)
        source, at_once = self._plans.chosen(sizes, values, masks)
        given: dict[str, Any] = {identifier(tag): sizes[tag] for tag in source.sizes}
        if source.workers:
            given[source.workers] = workers
        if source.out:
            given[source.out] = out
        names = self._returns or ("output",)
        # A difference of finite scores may overflow to −inf, or its exponential underflow, and 0 is
        # right; an infinity among the inputs ends as NaN where it belongs, and what is masked out
        # may be anything: it is computed, and not used.  None of this deserves a warning each time.
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            if at_once is None:
                found = self._compiled[source](*values, **masks, **given)
            else:
                arguments = dict(zip(self._door.ordered, values, strict=True)) | masks | given
                ranks = self._door.destination.ranks
                outs = [out if name == "output" else None for name in names]
                found = in_slices(self._compiled[source], arguments, ranks, at_once, outs)
        if out is None:
            return found
        results = dict(zip(names, found if self._returns else (found,), strict=True))
        if results["output"] is not out:
            self._target.load().copyto(out, results["output"])
        results["output"] = out
        return tuple(results.values()) if self._returns else out

    @cached_property
    def _compiled(self) -> Mapping[Source, Callable[..., Any]]:
        return _Compiled()

    def __repr__(self) -> str:
        names = ", ".join(item.name for item in self._parameters)
        formula = self._formula.replace("\n", "; ")
        return f"<GeneratedFunction of ({names}) for {self.backend}: {formula}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _regenerate, self._recipe


class _Compiled(dict[Source, Callable[..., Any]]):
    """The function of each source, compiled when it is first called."""

    def __missing__(self, source: Source) -> Callable[..., Any]:
        self[source] = run_source(source)
        return self[source]


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
    inputs: Sequence[Any],
    expr: Any,
    *,
    backend: str = "numpy",
    plan: str = "auto",
    workers: int | None = None,
    returns: str | Iterable[str] | None = None,
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
    The dtype is that of the inputs, and they are never written to: float32, float64, float16 or
    bfloat16 of the package ml_dtypes; those of two bytes are computed in float32 and rounded once.
    ``out=`` in a call is an array that the result is written to, which is returned: of its shape
    and dtype, and in no input's memory.  (A formula that has an input of this name has no other.)

    ``returns`` names what a call returns as a tuple, in this order: ``"output"``, ``"lse"``, which
    is log Σ exp(scores) over the keys of every query (−∞ without keys), and ``"weights"``, which
    are the softmax as it stands in the formula, with the leading axes of the scores.  One name
    gives a tuple of one, and ``lse`` of inputs of two bytes is float32.

    >>> f = sa.lambdify([Q, K], sa.softmax(K.T @ Q, axis=0), returns=("output", "lse"))
    >>> f(np.zeros((8, 5)), np.zeros((8, 2)))[1].round(6).tolist()
    [0.693147, 0.693147, 0.693147, 0.693147, 0.693147]

    ``backend`` is ``"numpy"`` or ``"cupy"``.  ``plan`` is ``"direct"``, whole matrices, results
    written in the memory of what is no longer needed; ``"blocked"``, softmax-weighted sums in
    strips of queries and blocks of keys, whose scores are never one matrix, in as many threads as
    ``workers`` says (None: by the size of the work; a call may say it too); ``"fused"``, for
    ``"cupy"``, one kernel that Triton compiles; or ``"auto"``, the one that suits the sizes of the
    call.  The bits of the result do not depend on the threads.

    With ``"cupy"`` there are no threads, and the arrays may be those of PyTorch, JAX, Numba or
    another library as well, if they are on a CUDA device and all of one kind: none is copied,
    PyTorch's current stream does the work, and the results, and ``out=``, are of that kind.

    Blocks of keys merge for any finite shift of the scores: ``theorem("blocks_of_keys_merge")`` has
    the proof, and its source.

    Raises `SignatureError` if the inputs are not those of the formula, `MinusInfinityError` if it
    ends with an additive mask, and `NotSupportedError` for ``"lse"`` or ``"weights"`` of a formula
    that has not just one softmax.  A call raises, before any work is done, `CallError` for the
    arguments themselves, `InputError` for one of the wrong kind, `InputShapeError` or `SizeError`
    for sizes that do not fit, `ScalarError` for a scalar that cannot be computed, and
    `BackendError` where the array library or the device is missing or does not work.
    """
    named("plan", plan, PLANS)
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
    program, name, layout = taken_apart(expr)
    results = names_of_results(returns, brief(expr))
    return GeneratedFunction(tuple(inputs), program, target, name, layout, plan, workers, results)


def taken_apart(expr: Any, call: str = "lambdify") -> tuple[Program, str, str]:
    """Return a formula as a program, with the name and the layout of an entry of the catalogue."""
    if isinstance(expr, str):
        raise TextRefusedError(call, expr)
    if isinstance(expr, Program):
        return expr, "", ""
    if isinstance(expr, Node):
        return Program({"O": expr}), "", ""
    formula = getattr(expr, "program", None)
    if formula is None:
        formula = getattr(expr, "expr", None)
    if isinstance(formula, Program | Node):
        program, _, _ = taken_apart(formula, call)
        return program, str(getattr(expr, "name", "")), str(getattr(expr, "layout", ""))
    raise NotAnOperandError(
        brief(expr), f"{call} takes a formula, a program or an entry of the catalogue"
    )


def selecting(program: Program) -> Program:
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
    inputs: Sequence[Any], program: Program, backend: str, *options: Any
) -> GeneratedFunction:
    return GeneratedFunction(inputs, program, target_named(backend), *options)


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
