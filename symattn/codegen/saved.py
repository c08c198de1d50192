"""Saving a generated function as a module that runs without symattn.

The module holds the function to call, the generated source, and what that needs of symattn
(`symattn.codegen.saved_parts`).  The function checks the kinds, dtypes and sizes of its arguments
first, since source without checks would broadcast, or cut, what does not fit.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import chain

from symattn.codegen import checks
from symattn.codegen.destination import Destination
from symattn.codegen.emit import Source
from symattn.codegen.plans import Plans
from symattn.codegen.saved_parts import (
    Import,
    import_statements,
    joined,
    names_in,
    private,
    private_names,
    renamed,
    section,
    section_of,
    used_pieces,
    with_needed,
)
from symattn.codegen.scalars import Scalars
from symattn.codegen.signature import ArrayInput, MaskInput, has_masked_heads, sizes_of_masks
from symattn.codegen.steps import Names
from symattn.errors import NotSupportedError
from symattn.meaning.functions import math_name
from symattn.nodes import MaxAlong
from symattn.nodes.arrays import ArrayContext, scalar_code, size_code
from symattn.notation import text
from symattn.notation.names import identifier
from symattn.tags import Size

_INDENT = "    "

_HOW = {"direct": "with whole matrices", "blocked": "in blocks"}

_ARGUMENTS = """\
Arrays are those of {library}, in one dtype: float16, bfloat16, float32 or float64. The leading
axes, …, are any that broadcast. What does not fit raises TypeError or ValueError before anything
is computed.
"""

_NEEDS = """\
{library} is all that is needed.
"""

_THREADS = """\
{library} is all that is needed, but have threadpoolctl installed, or OPENBLAS_NUM_THREADS=1 in the
environment: the products of blocks are small, and slower where BLAS shares each among threads of
its own. Without threadpoolctl there is one worker, whatever {workers} says.
"""


def saved_module(plans: Plans, open_sizes: Sequence[str], workers: int | None) -> str:
    """Return the module that holds the sources of plans, and a function that checks and chooses.

    ``open_sizes`` are the tags that shapes do not tell, and ``workers`` is the number of threads
    that is taken where a call does not say it.  Raises `NotSupportedError` for a function that has
    a fused kernel alone, which symattn compiles and keeps.
    """
    kept = [plan for plan in plans.by_name if plan in _HOW]
    if not kept:
        raise NotSupportedError('a fused kernel in a saved module, as plan="fused" asks for')
    inner = {
        plan: plans.emitted(plan, private(f"{plans.signature.function}_{plan}")) for plan in kept
    }
    generated = [section(_said_in_short(source, _HOW[plan])) for plan, source in inner.items()]
    modules = with_needed(module for part in generated for module in part.needs)
    modules += [plans.choice, checks]
    sections = [section_of(module) for module in modules]
    taken = chain.from_iterable(part.imports for part in (*generated, *sections))
    wrapper = _Wrapper(
        plans, Names(taken).fresh(plans.signature.function), inner, open_sizes, workers
    )
    written = wrapper.text()
    borrowed = [name for part in generated for name in part.borrowed.values()]
    used = used_pieces(sections, [*borrowed, *wrapper.borrowed])
    names = private_names(chain.from_iterable(part.pieces for part in used))
    computing = [
        renamed(
            joined(part.pieces), {alias: private(name) for alias, name in part.borrowed.items()}
        )
        for part in generated
    ]
    shared = [
        f"# {part.title}.\n\n\n{renamed(joined(part.pieces), names)}"
        for part in used
        if part.pieces
    ]
    imports = chain(wrapper.imports, *(part.imported for part in (*generated, *used)))
    top = [
        ast.unparse(ast.Module([ast.Expr(ast.Constant(wrapper.module_docstring()))], [])),
        "\n# ruff: noqa\n# fmt: off\n",
        "from __future__ import annotations\n",
        *import_statements(imports),
        f"\n__all__ = [{_quoted(wrapper.function)}]",
    ]
    return "\n\n\n".join(["\n".join(top), written, *computing, *shared]) + "\n"


def _said_in_short(source: Source, how: str) -> str:
    """Return generated source, with one line for a docstring."""
    (function,) = (
        node for node in ast.parse(source.text).body if isinstance(node, ast.FunctionDef)
    )
    docstring, lines = function.body[0], source.text.splitlines()
    said = f'{_INDENT}"""Compute it {how}, from arguments that have been checked."""'
    lines[docstring.lineno - 1 : docstring.end_lineno] = [said]
    return "\n".join(lines)


class _Wrapper:
    """The function that a user of the module calls: it checks, chooses, computes, and copies."""

    def __init__(
        self,
        plans: Plans,
        function: str,
        inner: Mapping[str, Source],
        open_sizes: Sequence[str],
        workers: int | None,
    ) -> None:
        self.plans = plans
        self.signature = plans.signature
        self.function = function
        self.inner = inner
        self.workers = workers
        self.inputs = [item.name for item in self.signature.inputs]
        masks = [mask.name for mask in self.signature.masks]
        self.given = {tag: identifier(tag) for tag in open_sizes}
        axes = (size for item in self.signature.shaped for size in item.axes)
        told = {tag for size in axes for tag in size.tags}
        told |= {t for tag, size in self.signature.relations for t in (tag, *size.tags)}
        self.optional = [tag for tag in open_sizes if tag in told]
        self.keywords = [
            *(name for name in self.inputs if name not in self.signature.positional),
            *masks,
            *(f"{name}=None" if tag in self.optional else name for tag, name in self.given.items()),
        ]
        self.names = Names([*self.inputs, *masks, *self.given.values()])
        in_threads = any(source.workers for source in inner.values())
        self.in_threads = self.names.fresh("workers") if in_threads else ""
        has_output = not plans.returns or "output" in plans.returns
        self.takes_out = has_output and self.names.fresh("out") == "out"
        self.sizes, self.batch, self.stacks = map(self.names.fresh, ("sizes", "batch", "stacks"))
        self.library = self.names.fresh(plans.target.alias)
        self.math = ""
        self.imports: list[Import] = [("", _as(plans.target.module, self.library))]
        self.borrowed: dict[str, str] = {}

    def own(self, name: str) -> str:
        """Return what a function of `checks` or `choice` is called in the module."""
        return self.borrowed.setdefault(name, private(name))

    def text(self) -> str:
        found = self.names.fresh("found")
        lines = [
            *self.mask_checks(),
            *self.maximum_checks(),
            *self.scalar_checks(),
            *self.out_checks(),
            *self.computed(found),
        ]
        if not self.takes_out:
            lines.append(f"return {found}")
        else:
            returns = self.plans.returns
            position = returns.index("output") if returns else None
            result = found if position is None else f"{found}[{position}]"
            lines += [
                "if out is None:",
                f"{_INDENT}return {found}",
                f"if {result} is not out:",
                f"{_INDENT}{self.library}.copyto(out, {result})",
            ]
            every = [
                "out" if name == "output" else f"{found}[{k}]" for k, name in enumerate(returns)
            ]
            lines.append(f"return ({', '.join(every)},)" if returns else "return out")
        return f"\n{_INDENT}".join([self.definition(), *self.checks(lines), *lines])

    @property
    def parameters(self) -> str:
        """The parameters of the function."""
        keywords = list(self.keywords)
        if self.in_threads:
            keywords.append(f"{self.in_threads}={self.workers}")
        if self.takes_out:
            keywords.append("out=None")
        star = ["*"] if keywords else []
        return ", ".join([*self.signature.positional, *star, *keywords])

    @property
    def described(self) -> list[str]:
        """A line for each parameter, and those that say what is returned."""
        lines = list(self.signature.described)
        lines += [
            f"{name}: the size {tag}" + ", unless the shapes tell it" * (tag in self.optional)
            for tag, name in self.given.items()
        ]
        if self.in_threads:
            lines.append(f"{self.in_threads}: the number of threads, or None for as many as pay")
        if self.takes_out:
            lines.append("out: an array that the result is written to, and that is returned")
        return [*lines, *self.plans.shown.returned]

    def module_docstring(self) -> str:
        """Return what a reader has to know who has nothing but the module."""
        version = import_module("symattn").__version__  # by name: the top lies above all floors
        below = " and ".join(source.function for source in self.inner.values())
        needs = _THREADS if self.in_threads else _NEEDS
        words = {"library": self.plans.target.module, "workers": self.in_threads}
        first, *lines = self.signature.summary.splitlines()
        lines += ["", f"{self.function}({self.parameters})", "", *self.described]
        return "\n".join(
            [
                first,
                *(f"{_INDENT}{line}" if line else "" for line in lines),
                "",
                _ARGUMENTS.format(**words),
                needs.format(**words),
                f"The formula is computed in {below}; what that needs stands below.",
                "",
                f"Written by symattn {version}.",
                "",
            ]
        )

    def definition(self) -> str:
        """Return the first line of the function and its docstring."""
        first, *lines = [*self.signature.summary.splitlines(), "", *self.described]
        docstring = [first, *(f"{_INDENT}{line}" if line else "" for line in lines), _INDENT]
        function = ast.parse(f"def {self.function}({self.parameters}): pass").body[0]
        assert isinstance(function, ast.FunctionDef)
        function.body = [ast.Expr(ast.Constant("\n".join(docstring)))]
        return ast.unparse(function)

    def computed(self, found: str) -> list[str]:
        """Return the statements that compute the result, or results, into a variable."""
        if len(self.inner) > 1:
            lines = [
                f"if {self.choice()}:",
                f"{_INDENT}{found} = {self.call(self.inner['blocked'])}",
                "else:",
                *(f"{_INDENT}{line}" for line in self.whole(found)),
            ]
        else:
            lines = [f"{found} = {self.call(source)}" for source in self.inner.values()]
        if self.plans.target.module != "numpy":
            return lines
        # What is masked out may overflow: it is computed, and not used.
        header = f'with {self.library}.errstate(over="ignore", under="ignore", invalid="ignore"):'
        return [header, *(f"{_INDENT}{line}" for line in lines)]

    def checks(self, following: Sequence[str]) -> list[str]:
        """Return the statements that check the arguments, before those that use what they find."""
        sizes = ", ".join(f"{_quoted(tag)}: {name}" for tag, name in self.given.items())
        lines = [f"{self.own('check_workers')}({self.in_threads})"] if self.in_threads else []
        for item in self.signature.numbers:
            arguments = f"{_quoted(item.name)}, {item.name}" + ", True" * item.is_positive
            lines.append(f"{item.name} = {self.own('check_number')}({arguments})")
        used = names_in(ast.parse("\n".join(following)))
        results = ", ".join(
            name if name in used else "_" for name in (self.sizes, self.batch, self.stacks)
        )
        lines += [f"{results} = {self.own('check_inputs')}(", f"    {self.library},"]
        lines += self.table("arrays", self.signature.arrays)
        lines += self.table("masks", self.signature.masks)
        lines.append(f"    sizes={{{sizes}}},")
        equations = self.equations()
        if equations:
            lines += ["    equations=(", *(f"        {line}," for line in equations), "    ),"]
        lines += ["    has_heads=True,"] if has_masked_heads(self.plans.program.result) else []
        return [*lines, ")"]

    @property
    def dtype(self) -> str:
        """The source of the dtype of the arrays."""
        arrays = self.signature.arrays
        return f"{arrays[0].name}.dtype" if arrays else f"{self.library}.dtype('float64')"

    def size(self, size: Size) -> str:
        """Return the source of a size, after the check of the arguments."""
        known = {str(axis) for item in self.signature.shaped for axis in item.axes}
        if str(size) in known:
            return f"{self.sizes}[{_quoted(str(size))}]"
        return size_code(size, self.context(str))

    def context(self, call: Callable[[str], str]) -> ArrayContext:
        """Return the context of scalars, with sizes as they are known after the check."""
        return ArrayContext(str, lambda tag: f"{self.sizes}[{_quoted(tag)}]", "", call)

    def maximum_checks(self) -> list[str]:
        """Return the statement that refuses maxima of nothing, if there are any maxima."""
        nodes = self.plans.program.result.walk()
        maxima = {text(node): node.over for node in nodes if isinstance(node, MaxAlong)}
        rows = ", ".join(f"{_quoted(name)}: {self.size(n)}" for name, n in maxima.items())
        return [f"{self.own('check_maxima')}({{{rows}}})"] if maxima else []

    def mask_checks(self) -> list[str]:
        """Return the statement that checks the sizes that masks are made with, if there are any."""
        sizes = sizes_of_masks(self.plans.program.result, self.signature.shaped)
        given = ", ".join(f"{_quoted(str(size))}: {self.size(size)}" for size in sizes)
        return [f"{self.own('check_positive')}({{{given}}})"] if sizes else []

    def scalar_checks(self) -> list[str]:
        """Return the statement that checks the scalars of the formula, if there are any."""

        def call(name: str) -> str:
            if not self.math:
                self.math = self.names.fresh("math")
                self.imports.append(("", _as("math", self.math)))
            return f"{self.math}.{math_name(name)}"

        forms = Scalars(self.plans.program.result).forms
        codes = {text(form): scalar_code(form, self.context(call)) for form in forms}
        lines = [f"    {_quoted(name)}: lambda: {code}," for name, code in codes.items()]
        if not lines:
            return []
        return [f"{self.own('check_scalars')}({self.dtype}, {{", *lines, "})"]

    def out_checks(self) -> list[str]:
        """Return the statements that check where the result is written to."""
        if not self.takes_out:
            return []
        given = ", ".join(f"{_quoted(x.name)}: {x.name}" for x in self.signature.shaped)
        axes = Destination(self.plans.program.result, self.signature.shaped).axes
        shape = "".join(f", {self.size(size)}" for size in axes)
        return [
            "if out is not None:",
            f"{_INDENT}{self.own('check_out')}(",
            f"{_INDENT * 2}{self.library}, out, {{{given}}}, (*{self.batch}{shape}), {self.dtype}",
            f"{_INDENT})",
        ]

    def table(self, kind: str, items: Sequence[ArrayInput | MaskInput]) -> list[str]:
        """Return the lines that give arrays of one kind, each with its axes."""
        rows = []
        for item in items:
            axes = "".join(f", {_quoted(str(size))}" for size in item.axes)
            rows.append(f"        {_quoted(item.name)}: ({item.name}{axes}),")
        return [f"    {kind}={{", *rows, "    },"] if rows else [f"    {kind}={{}},"]

    def equations(self) -> list[str]:
        """Return the sizes that follow from others, and those that are declared to."""
        sizes = {str(size): size for item in self.signature.shaped for size in item.axes}
        computed = [(name, size) for name, size in sizes.items() if size != _tag(name, size)]
        size = self.names.fresh("size")
        context = ArrayContext(str, lambda tag: f"{size}[{_quoted(tag)}]", "")
        return [
            f"({_quoted(name)}, [{', '.join(map(_quoted, value.tags))}], "
            f"lambda {size}: {size_code(value, context)})"
            for name, value in (*computed, *self.signature.relations)
        ]

    def choice(self) -> str:
        """Return the condition under which blocks are the faster plan."""
        suits, conditions = self.own("suits_blocks"), []
        for queries, keys, indices in self.plans.attended:
            heads = f"{self.stacks}{self.heads(indices)}"
            given = (self.size(queries), self.size(keys), heads, f"{self.dtype}.itemsize")
            conditions.append(f"{suits}({', '.join(given)})")
        return " or ".join(conditions)

    def whole(self, found: str) -> list[str]:
        """Return the statement that computes the result with whole matrices."""
        if self.plans.target.in_threads:
            return self.sliced(found)
        return [f"{found} = {self.call(self.inner['direct'])}"]

    def sliced(self, found: str) -> list[str]:
        """Return the statement that computes the result from a few matrices at a time."""
        at_once = self.own("at_once")
        most = [
            f"{at_once}({self.size(queries)} * {self.size(keys)}{self.heads(indices)}, "
            f"{self.dtype}.itemsize)"
            for queries, keys, indices in self.plans.attended
        ]
        least = most[0] if len(most) == 1 else f"{self.own('min')}({', '.join(most)})"
        source = self.inner["direct"]
        given = ", ".join(f"{_quoted(name)}: {code}" for name, code in self.arguments(source))
        ranks = ", ".join(
            f"{_quoted(item.name)}: {len(item.axes)}" for item in self.signature.shaped
        )
        return [
            f"{found} = {self.own('in_slices')}(",
            f"{_INDENT}{self.own(source.function)},",
            f"{_INDENT}{{{given}}},",
            f"{_INDENT}{{{ranks}}},",
            f"{_INDENT}{least},",
            f"{_INDENT}({', '.join(['None'] * max(1, len(self.plans.returns)))},),",
            ")",
        ]

    def heads(self, indices: Sequence[Size]) -> str:
        return "".join(f" * {self.size(h)}" for h in indices)

    def call(self, source: Source) -> str:
        """Return the call of a generated function."""
        by_position = len(self.inputs)
        arguments = [
            code if k < by_position else f"{name}={code}"
            for k, (name, code) in enumerate(self.arguments(source))
        ]
        return f"{self.own(source.function)}({', '.join(arguments)})"

    def arguments(self, source: Source) -> list[tuple[str, str]]:
        """Return the parameters of a generated function, each with what it is given."""
        arguments = [(name, name) for name in self.inputs]
        arguments += [(mask.name, mask.name) for mask in self.signature.masks]
        arguments += [(identifier(tag), f"{self.sizes}[{_quoted(tag)}]") for tag in source.sizes]
        if source.workers:
            arguments.append((source.workers, self.in_threads))
        if source.out and self.takes_out:
            arguments.append((source.out, "out"))
        return arguments


def _as(module: str, name: str) -> str:
    return module if module == name else f"{module} as {name}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _tag(name: str, size: Size) -> Size | None:
    """Return the size that is the tag of this name, or None for a size of several or none."""
    return Size.tag(name) if size.tags == (name,) else None
