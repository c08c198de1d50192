"""Saving a generated function as a module that runs without symattn.

The module holds the generated source, the modules of symattn that it imports (they need NumPy
alone, and are copied as they are), and the function to call: it checks the kinds, dtypes and sizes
of its arguments first, since source without checks would broadcast, or cut, what does not fit.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import ModuleType

from symattn.codegen import checks, choice
from symattn.codegen.emit import Source, emit, emit_blocked
from symattn.codegen.plans import Plans
from symattn.codegen.signature import ArrayInput, MaskInput
from symattn.codegen.steps import Names
from symattn.errors import FileTakenError
from symattn.nodes.arrays import ArrayContext, size_code
from symattn.notation.names import identifier
from symattn.tags import Size

_FUTURE = ("__future__", "annotations")
_INDENT = "    "


def save(path: str | os.PathLike[str], text: str) -> Path:
    """Write a module to a new file and return its path; raises `FileTakenError` for an old one."""
    place = Path(path)
    try:
        with place.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise FileTakenError(str(place)) from None
    return place


def saved_module(plans: Plans, open_sizes: Sequence[str], workers: int | None) -> str:
    """Return the module that holds the sources of plans, and a function that checks and chooses.

    ``open_sizes`` are the tags that shapes do not tell, and ``workers`` is the number of threads
    that is taken where a call does not say it.
    """
    signature = plans.signature
    emitters = {"direct": emit, "blocked": emit_blocked}
    inner = {
        plan: emitters[plan](
            replace(signature, function=f"{signature.function}_{plan}"),
            plans.program,
            plans.target,
            plans.returns,
        )
        for plan in plans.by_name
    }
    modules: dict[ModuleType, None] = {}
    main = [_generated(source, modules) for source in inner.values()]
    if len(inner) > 1:
        modules[choice] = None
    parts = [*map(_copied, modules), _copied(checks), *main]
    function = Names(chain.from_iterable(part.defined for part in parts)).fresh(signature.function)
    wrapper = _Wrapper(plans, function, inner, open_sizes, workers)
    written = wrapper.text()
    imports = frozenset(wrapper.imports).union(*(part.imports for part in parts)) - {_FUTURE}
    version = import_module("symattn").__version__  # by name: the top lies above all floors
    header = [
        f"# Written by symattn {version}, for {plans.target.module} alone. It computes",
        *(f"#     {line}" for line in signature.formula.splitlines()),
    ]
    future = "from __future__ import annotations"
    top = "\n".join([*header, "", future, "", *_sorted_imports(imports)])
    aliases = "\n".join(wrapper.aliases)
    texts = (top, *(part.text for part in parts), aliases, written)
    return "\n\n\n".join(text for text in texts if text) + "\n"


_Import = tuple[str, str]
"""A module that names are imported from, and one of these; ``""`` for a module by itself."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of the module: what it imports, its statements, and the names that they define."""

    imports: frozenset[_Import]
    text: str
    defined: frozenset[str]


def _generated(source: Source, modules: dict[ModuleType, None]) -> _Part:
    """Return generated source without the modules of symattn that it imports, which are added."""
    tree = ast.parse(source.text)
    renamed: list[str] = []
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and _is_ours(statement):
            modules[import_module(str(statement.module))] = None
            renamed += [f"{a.asname} = {a.name}" for a in statement.names if a.asname]
    lines = source.text.splitlines()
    docstring = _function(source).body[0]
    how = "in blocks" if source.workers else "with whole matrices"
    said = f'{_INDENT}"""Compute it {how}, from arguments that have been checked."""'
    lines[docstring.lineno - 1 : docstring.end_lineno] = [said]
    part = _part("\n".join(lines), tree)
    return replace(part, text="\n".join((*renamed, part.text)))


def _copied(module: ModuleType) -> _Part:
    """Return a module of symattn as it stands, without its docstring and imports."""
    source = inspect.getsource(module)
    return _part(source, ast.parse(source))


def _part(source: str, tree: ast.Module) -> _Part:
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    after = imports[-1].end_lineno if imports else 0
    kept = frozenset(
        (node.module or "" if isinstance(node, ast.ImportFrom) else "", ast.unparse(alias))
        for node in imports
        if not _is_ours(node)
        for alias in node.names
    )
    text = "\n".join(source.splitlines()[after:]).strip("\n")
    defined = [
        node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) else node.id
        for statement in tree.body
        for node in (
            statement,
            *getattr(statement, "targets", ()),
            getattr(statement, "target", None),
        )
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Name)
    ]
    return _Part(kept, text, frozenset(defined))


def _sorted_imports(imports: Iterable[_Import]) -> list[str]:
    """Return import statements in order: the standard library, an empty line, everything else."""
    names: dict[str, list[str]] = {}
    groups: tuple[list[str], list[str]] = ([], [])
    for module, name in sorted(imports):
        names.setdefault(module, []).append(name)
    plain = names.pop("", [])
    lines = [*(f"import {name}" for name in plain)]
    lines += [f"from {module} import {', '.join(names[module])}" for module in names]
    for line in lines:
        groups[line.split()[1].partition(".")[0] not in sys.stdlib_module_names].append(line)
    standard, others = groups
    return [*standard, "", *others]


def _is_ours(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and str(statement.module).startswith("symattn.")


def _function(source: Source) -> ast.FunctionDef:
    """Return the function that generated source defines."""
    (found,) = (
        node
        for node in ast.parse(source.text).body
        if isinstance(node, ast.FunctionDef) and node.name == source.function
    )
    return found


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
        self.keywords = [*masks, *(f"{name}=None" for name in self.given.values())]
        self.names = Names([*self.inputs, *masks, *self.given.values()])
        in_threads = any(source.workers for source in inner.values())
        self.in_threads = self.names.fresh("workers") if in_threads else ""
        has_output = not plans.returns or "output" in plans.returns
        self.takes_out = has_output and self.names.fresh("out") == "out"
        self.sizes, self.stacks = self.names.fresh("sizes"), self.names.fresh("stacks")
        self.as_float = ""
        self.aliases: list[str] = []
        self.library = self.names.fresh(plans.target.alias)
        self.imports = [("", f"{plans.target.module} as {self.library}")]

    def own(self, name: str) -> str:
        """Return a name for what the module calls ``name``, and a parameter may be called too."""
        alias = self.names.fresh(name)
        if alias != name:
            self.aliases.append(f"{alias} = {name}")
        return alias

    def text(self) -> str:
        found = self.names.fresh("found")
        lines = [*self.checks(), *self.computed(found)]
        if not self.takes_out:
            lines.append(f"return {found}")
        else:
            returns = self.plans.returns
            position = returns.index("output") if returns else None
            result = found if position is None else f"{found}[{position}]"
            lines += [
                "if out is None:",
                f"{_INDENT}return {found}",
                f"{self.own('check_out')}(out, {result})",
                f"{self.library}.copyto(out, {result})",
            ]
            every = [
                "out" if name == "output" else f"{found}[{k}]" for k, name in enumerate(returns)
            ]
            lines.append(f"return ({', '.join(every)},)" if returns else "return out")
        return f"\n{_INDENT}".join([self.definition(), *lines])

    def definition(self) -> str:
        """Return the first line of the function and its docstring."""
        written = _function(self.plans.shown)
        docstring = ast.get_docstring(written, clean=False) or ""
        keywords = list(self.keywords)
        more = [
            f"{name}: the size {tag}, where it does not follow" for tag, name in self.given.items()
        ]
        if self.in_threads:
            keywords.append(f"{self.in_threads}={self.workers}")
            more.append(f"{self.in_threads}: the number of threads, or None")
        if self.takes_out:
            keywords.append("out=None")
            more.append("out: an array that the result is written to, and that is returned")
        before, returns, after = docstring.rpartition(f"\n{_INDENT}returns: ")
        inner = (self.plans.shown.workers, self.plans.shown.out, *map(identifier, self.plans.sizes))
        replaced = tuple(f"{_INDENT}{name}: " for name in inner if name)
        lines = [line for line in before.splitlines() if not line.startswith(replaced)]
        docstring = "\n".join([*lines, *(f"{_INDENT}{line}" for line in more)]) + returns + after
        star = ["*"] if keywords else []
        parameters = ", ".join([*self.inputs, *star, *keywords])
        function = ast.parse(f"def {self.function}({parameters}): pass").body[0]
        assert isinstance(function, ast.FunctionDef)
        function.body = [ast.Expr(ast.Constant(docstring))]
        return ast.unparse(ast.fix_missing_locations(function))

    def computed(self, found: str) -> list[str]:
        """Return the statements that compute the result, or results, into a variable."""
        calls = {plan: f"{found} = {self.call(source)}" for plan, source in self.inner.items()}
        if len(calls) > 1:
            lines = [
                f"if {self.choice()}:",
                f"{_INDENT}{calls['blocked']}",
                "else:",
                f"{_INDENT}{calls['direct']}",
            ]
        else:
            lines = list(calls.values())
        if self.plans.target.module != "numpy":
            return lines
        # What is masked out may overflow: it is computed, and not used.
        header = f'with {self.library}.errstate(over="ignore", invalid="ignore"):'
        return [header, *(f"{_INDENT}{line}" for line in lines)]

    def checks(self) -> list[str]:
        """Return the statement that checks the arguments."""
        sizes = ", ".join(f"{_quoted(tag)}: {name}" for tag, name in self.given.items())
        start = f"{self.own('check_inputs')}("
        if len(self.inner) > 1 or self.plans.sizes:
            start = f"{self.sizes}, {self.stacks} = {start}"
        lines = [start, f"    {self.library},"]
        lines += self.table("arrays", self.signature.arrays)
        lines += self.table("masks", self.signature.masks)
        lines.append(f"    sizes={{{sizes}}},")
        equations = self.equations()
        if equations:
            lines += ["    equations=(", *(f"        {line}," for line in equations), "    ),"]
        return [*lines, ")"]

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
        known = {str(size) for item in self.signature.shaped for size in item.axes}
        itemsize = f"{self.signature.arrays[0].name}.dtype.itemsize"
        suits, conditions = self.own("suits_blocks"), []
        for queries, keys, indices in self.plans.attended:
            if not {str(queries), str(keys)} <= known:
                return "True"  # sizes that no input has: they are read off products
            n, m = (f"{self.sizes}[{_quoted(str(size))}]" for size in (queries, keys))
            heads = "".join(f" * {self.sizes}.get({_quoted(str(h))}, 1)" for h in indices)
            conditions.append(f"{suits}({n}, {m}, {self.stacks}{heads}, {itemsize})")
        return " or ".join(conditions)

    def call(self, source: Source) -> str:
        """Return the call of a generated function."""
        numbers = [item.name for item in self.signature.numbers]
        if numbers and not self.as_float:
            self.as_float = self.own("float")
        arguments = [f"{self.as_float}({x})" if x in numbers else x for x in self.inputs]
        masks = (mask.name for mask in self.signature.masks)
        arguments += [f"{name}={name}" for name in masks]
        arguments += [f"{identifier(tag)}={self.sizes}[{_quoted(tag)}]" for tag in source.sizes]
        if source.workers:
            arguments.append(f"{source.workers}={self.in_threads}")
        return f"{self.own(source.function)}({', '.join(arguments)})"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _tag(name: str, size: Size) -> Size | None:
    """Return the size that is the tag of this name, or None for a size of several or none."""
    return Size.tag(name) if size.tags == (name,) else None
