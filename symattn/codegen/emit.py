"""From a plan to Python source: one emitter for every array library.

The source is a module that stands alone: an import and a function whose parameters are the inputs.
Statements are built as syntax trees and unparsed, so that parentheses and quotes are Python's own
business; the shape of each result is added as a comment.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from symattn.codegen.blocked import Attended, blocked_program
from symattn.codegen.distributed import Distributed
from symattn.codegen.kin import Summed
from symattn.codegen.lowerings import lowering_of
from symattn.codegen.masked import keeps_zeros
from symattn.codegen.opening import INDENT, opening_docstring, support_imports
from symattn.codegen.plan import direct_plan
from symattn.codegen.results import RESULTS, the_softmax
from symattn.codegen.signature import Signature
from symattn.codegen.steps import Names, Step, axes_text
from symattn.codegen.targets import Target
from symattn.errors import NotSupportedError
from symattn.meaning.form import Form
from symattn.meaning.functions import math_name
from symattn.nodes import Node, Program, Softmax, Transposed
from symattn.nodes.arrays import ArrayContext, lifted, scalar_code
from symattn.nodes.indices import AxisIndex
from symattn.notation.names import identifier


@dataclass(frozen=True, slots=True)
class Source:
    """A generated module: its text, its function, and the tags that this has to be given."""

    text: str
    function: str
    docstring: str
    returned: tuple[str, ...]
    """The lines of the docstring that say what is returned."""
    sizes: tuple[str, ...]
    workers: str = ""
    """The parameter that takes the number of threads, where there is one."""
    out: str = ""
    """The parameter that takes memory for the result, where there is one."""


def emit(
    signature: Signature, program: Program, target: Target, returns: Sequence[str] = ()
) -> Source:
    """Return the source that computes a program by the direct plan.

    ``returns`` are the results, in the order of the tuple that is returned; without any, the
    function returns the one result of the program by itself.
    """
    return _Emitter(signature, program, target, returns).source()


def emit_blocked(
    signature: Signature,
    program: Program,
    target: Target,
    returns: Sequence[str] = (),
    plan: str = "blocked",
) -> Source:
    """Return the source that computes a program by a plan without matrices of all scores.

    Raises `NotSupportedError`, with the reason, for a program without such a plan.
    """
    if "weights" in returns:
        raise NotSupportedError('returns="weights", which are one matrix')
    if not signature.arrays:
        raise NotSupportedError("blocks without an array, whose dtype they would have")
    the_softmax(program.result.walk(), returns)  # raises, if there are several
    blocks = blocked_program(program)
    nodes = tuple(blocks.result.walk())
    if not target.in_threads and any(isinstance(node, Summed | Distributed) for node in nodes):
        raise NotSupportedError("weights that are not those of one softmax, in a kernel")
    emitter = _Emitter(signature, blocks, target, returns, plan)
    if any(isinstance(node, Distributed) for node in nodes):
        emitter.may_start_again(_Emitter(signature, program, target, returns))
    return emitter.source()


class _Emitter:
    """Writes one function; it is the writer that the lowerings are given."""

    def __init__(
        self,
        signature: Signature,
        program: Program,
        target: Target,
        returns: Sequence[str],
        plan: str = "direct",
    ) -> None:
        self.target = target
        self.plan_name = plan
        in_blocks = plan != "direct"
        self.signature = signature
        self.names = Names(
            [
                *(given.name for given in (*signature.inputs, *signature.masks)),
                *(identifier(tag) for tag in signature.tags),
            ]
        )
        self.alias = self.names.fresh(target.alias)
        self.math = self.names.fresh("math")
        self.dtype = self.names.fresh("dtype")
        self.workers = self.names.fresh("workers") if in_blocks and target.in_threads else ""
        self.wide = self.names.fresh("wide") if in_blocks else self.dtype
        self.out = self.names.fresh("out") if in_blocks else ""
        self.narrow: set[str] = set()
        self.returns = returns
        self.lse = self.names.fresh("lse") if "lse" in returns else None
        self.plan = direct_plan(program, self.names, () if in_blocks else returns)
        self.softmax = self.plan.softmax or self.attended_weights()
        self.extents: dict[str, str] = {}
        self.needs_math = False
        self.supported: dict[str, str] = {}
        self.constants: dict[str, str] = {}
        first = signature.arrays[0].name if signature.arrays else ""
        self.context = ArrayContext(
            call=lambda name: target.function(name, self.alias),
            extent=self.extent,
            dtype=(self.wide if in_blocks else f"{first}.dtype")
            if first
            else f"{self.alias}.float64",
            scalar_call=self.scalar_call,
            order=self.plan.order,
        )
        self.heads: tuple[AxisIndex, ...] = ()
        self.body: list[str] = []
        self.whole = ""
        self.beginning: list[str] = []

    # What the lowerings ask for.

    def code(self, node: Node) -> str:
        """Return the source of an operand, with the axes of all heads of what is being written."""
        return lifted(self.own_code(node), node.indices, self.heads, self.context)

    def own_code(self, node: Node) -> str:
        """Return the source of a node by itself."""
        if node in self.plan.names:
            return self.plan.names[node]
        if node.is_input and node not in self.plan.in_place:
            return node.array_code((), self.context)
        source = self.own_code(self.plan.in_place[node])
        return f"{source}.swapaxes(-1, -2)" if isinstance(node, Transposed) else source

    def has_variable(self, node: Node) -> bool:
        return node in self.plan.names

    def scalar(self, form: Form) -> str:
        return scalar_code(form, self.context)

    def is_masked(self, node: Node) -> bool:
        return keeps_zeros(node, self.plan.standing)

    def fresh(self, wanted: str) -> str:
        return self.names.fresh(wanted)

    def sums_of(self, step: Step) -> str | None:
        of_softmax = step.node == self.softmax or isinstance(step.node, Attended)
        return self.lse if of_softmax else None

    def write(self, statement: str, comment: str = "") -> None:
        parsed = ast.parse(statement).body
        assert len(parsed) == 1, "one statement a line"
        written = ast.unparse(parsed[0])
        if "\n" in written and comment:
            self.remark(comment)
        elif comment:
            written = f"{written}  # {comment}"
        self.body += written.split("\n")

    def remark(self, comment: str) -> None:
        self.body.append(f"# {comment}")

    @contextmanager
    def indented(self, header: str) -> Iterator[None]:
        """Write the statements that are added meanwhile as the body of a function or a loop."""
        before, self.body = self.body, []
        yield
        inner, self.body = self.body, before
        self.body += [header, *(f"{INDENT}{line}" if line else "" for line in inner)]

    def gap(self) -> None:
        """Add an empty line."""
        self.body.append("")

    def support(self, name: str) -> str:
        """Return what a function of symattn is called in the source."""
        if name not in self.supported:
            self.supported[name] = self.names.fresh(name)
        return self.supported[name]

    def constant(self, wanted: str, value: str) -> str:
        """Return the name of a text of the module."""
        if value not in self.constants:
            self.constants[value] = self.names.fresh(wanted)
        return self.constants[value]

    def destination(self, step: Step) -> tuple[str, str]:
        return (self.dtype, self.out) if step.node == self.plan.result else (self.wide, "")

    def keep_narrow(
        self, node: Node, blockwise: Sequence[Node], wide: Sequence[Node]
    ) -> Sequence[Node]:
        elsewhere = [o for step in self.plan.steps if step.node != node for o in step.operands]
        widened = {self.in_memory(operand) for operand in (*elsewhere, *wide)}
        inputs: dict[Any, str] = {array.source: array.name for array in self.signature.arrays}
        kept: list[Node] = []
        for operand in blockwise:
            memory = self.in_memory(operand)
            if memory.is_input and memory not in widened:
                kept.append(operand)
                self.narrow.add(inputs[memory.source])
        return kept

    def in_memory(self, node: Node) -> Node:
        """Return the node that stands for one that is read in place."""
        node = self.plan.standing.get(node, node)
        while node in self.plan.in_place:
            node = self.plan.in_place[node]
        return node

    # The parts of the module.

    def extent(self, tag: str) -> str:
        """Return the variable that holds the size of a tag."""
        if tag not in self.extents:
            name = identifier(tag)
            signature = self.signature
            taken = any(given.name == name for given in (*signature.inputs, *signature.masks))
            self.extents[tag] = self.names.fresh(name) if taken else name
        return self.extents[tag]

    def scalar_call(self, function: str) -> str:
        self.needs_math = True
        return f"{self.math}.{math_name(function)}"

    def statements(self) -> tuple[list[str], tuple[str, ...]]:
        """Return the statements of the function, and the tags that it has to be given."""
        for step in self.plan.steps:
            self.heads = self.context.axes(step.node.inner_indices)
            lowering_of(step.node).write(step, self)
        self.heads = self.context.axes(self.plan.result.indices)
        self.returned()
        steps, self.body = self.body, []
        given = self.read_sizes()
        self.prepare_inputs()
        return [*self.beginning, *self.body, *steps], given

    def may_start_again(self, other: _Emitter) -> None:
        """Begin with a function inside that computes all as another emitter does.

        Its parameters have the inputs as their defaults, before anything else is done with these.
        """
        self.whole = self.names.fresh("whole")
        lines, given = other.statements()
        for tag in given:
            self.extent(tag)
        self.needs_math = other.needs_math
        inputs = (*self.signature.inputs, *self.signature.masks)
        parameters = ", ".join(f"{item.name}={item.name}" for item in inputs)
        with self.indented(f"def {self.whole}({parameters}):"):
            self.remark("whole matrices, for values that are not finite")
            self.body += lines
        self.gap()
        self.beginning, self.body = self.body, []

    def source(self) -> Source:
        lines, given = self.statements()
        function = self.names.fresh(self.signature.function)
        imports = [f"import {self.math_import()}"] if self.needs_math else []
        imports.append(f"import {self.target.module} as {self.alias}")
        if self.supported:
            imports += ["", *support_imports(self.supported, in_threads=self.target.in_threads)]
        for value, name in self.constants.items():
            imports += ["", f'{name} = r"""\n{value}"""']
        body = [f"{INDENT}{line}" if line else "" for line in lines]
        parameters = {self.workers: "the number of threads", self.out: "memory for the result"}
        docstring = opening_docstring(self.signature, given, parameters, self.returned_axes())
        header = self.header(function, given, docstring)
        text = "\n".join([*imports, "", "", header, *body, ""])
        returned = tuple(self.returned_axes())
        return Source(text, function, docstring, returned, given, self.workers, self.out)

    def math_import(self) -> str:
        return "math" if self.math == "math" else f"math as {self.math}"

    def read_sizes(self) -> tuple[str, ...]:
        """Read the sizes that the source uses off the shapes; return the tags that it cannot."""
        given: list[str] = []
        for tag, variable in self.extents.items():
            place = self.signature.place_of(tag)
            if place is None:
                given.append(tag)
            else:
                self.write(f"{variable} = {place[0]}.shape[{place[1]}]")
        return tuple(given)

    def prepare_inputs(self) -> None:
        arrays = self.signature.arrays
        if arrays:
            single = self.context.call("float32")
            self.write(f"{self.dtype} = {arrays[0].name}.dtype")
            self.remark(
                "sums in two bytes lose digits: they are computed in float32, and rounded once"
            )
            if self.wide != self.dtype:
                promoted = self.context.call("promote_types")
                self.write(f"{self.wide} = {promoted}({self.dtype}, {single})")
            widened = [array.name for array in arrays if array.name not in self.narrow]
            casts = "\n".join(f"{INDENT}{name} = {name}.astype({single})" for name in widened)
            if widened:
                self.write(f"if {self.dtype}.itemsize == 2:\n{casts}")
        for array in arrays:
            if array.is_vector:
                self.write(f"{array.name} = {array.name}[..., None]", axes_text(array.source.sizes))

    def returned(self) -> None:
        code = self.code(self.plan.result)
        if not self.signature.arrays:
            output, comment = code, ""
        elif isinstance(self.plan.result, Attended):
            output, comment = code, ""  # made in the dtype of the inputs
        elif self.plan.owned:
            output, comment = f"{code}.astype({self.dtype}, copy=False)", ""
        else:
            output, comment = f"{code}.astype({self.dtype})", "a copy: never an input itself"
        if not self.returns:
            self.write(f"return {output}", comment)
            return
        results = {"output": output, "lse": self.spread_sums()}
        if "weights" in self.returns and self.softmax is not None:
            copy = "" if self.plan.shared and "output" in self.returns else ", copy=False"
            weights = self.own_code(self.softmax)
            dtype = self.dtype if self.signature.arrays else f"{weights}.dtype"
            results["weights"] = f"{weights}.astype({dtype}{copy})"
        self.write(f"return ({', '.join(str(results[name]) for name in self.returns)},)")

    def header(self, function: str, given: Sequence[str], docstring: str) -> str:
        """Return the first line of the function, and its docstring."""
        names = [given_input.name for given_input in self.signature.inputs]
        masks = self.signature.masks
        keywords = [*(mask.name for mask in masks), *(identifier(tag) for tag in given)]
        keywords += [f"{name}=None" for name in (self.workers, self.out) if name]
        keywords = ["*", *keywords] if keywords else []
        definition = ast.parse(f"def {function}({', '.join([*names, *keywords])}): pass").body[0]
        assert isinstance(definition, ast.FunctionDef)
        definition.body = [ast.Expr(ast.Constant(docstring))]
        return ast.unparse(definition)

    def attended_weights(self) -> Softmax | None:
        """Return the softmax whose weighted sums are computed in blocks, if its sums are asked for.

        Raises `NotSupportedError` where each head of the values would compute the sums again.
        """
        found = [step.node for step in self.plan.steps if isinstance(step.node, Attended)]
        if self.lse is None or not found:
            return None
        weights = found[0].weights
        if set(weights.indices) != set(found[0].indices):
            raise NotSupportedError("lse of weights that several heads share, in blocks")
        return weights

    def spread_sums(self) -> str:
        """Write log Σ exp(scores) with the leading axes of all inputs, as the output has them."""
        arrays, lse, call = self.signature.shaped, self.lse, self.context.call
        if lse is None or self.softmax is None or not arrays:
            return lse or ""
        if isinstance(self.plan.result, Attended):
            return lse  # all inputs belong to the weighted sum, and its leading axes are all
        vectors = [item.name for item in self.signature.arrays if item.is_vector]  # (…, d, 1) here
        leading = (
            f"{item.name}.shape[:-{2 if item.name in vectors else len(item.axes)}]"
            for item in arrays
        )
        batch = self.names.fresh("batch")
        own = len(self.context.axes(self.softmax.indices)) + 1
        self.write(f"{batch} = {call('broadcast_shapes')}({', '.join(leading)})")
        self.write(f"{lse} = {call('broadcast_to')}({lse}, {batch} + {lse}.shape[-{own}:]).copy()")
        return lse

    def returned_axes(self) -> list[str]:
        """Return the lines of the docstring that say what is returned."""
        result, softmax = self.plan.result, self.softmax
        heads = (index.size for index in self.context.axes(result.indices))
        axes = {"output": axes_text((*heads, *result.sizes))}
        if not self.returns:
            return [f"returns: {axes['output']}"]
        if softmax is not None:
            heads = tuple(index.size for index in self.context.axes(softmax.indices))
            axes["lse"] = axes_text((*heads, softmax.sizes[1 - softmax.axis]))
            axes["weights"] = axes_text((*heads, *softmax.sizes))
        whats = [f"{RESULTS[name]}, {axes[name]}" for name in self.returns]
        return ["returns: a tuple of", *(f"{INDENT}{what}" for what in whats)]
