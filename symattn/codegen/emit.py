"""From a plan to Python source: one emitter for every array library.

The source is a module that stands alone: an import and a function whose parameters are the inputs.
Statements are built as syntax trees and unparsed, so that parentheses and quotes are Python's own
business; the shape of each result is added as a comment.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from symattn.codegen.lowerings import lowering_of
from symattn.codegen.plan import direct_plan
from symattn.codegen.signature import ArrayInput, Signature
from symattn.codegen.steps import Names, axes_text
from symattn.codegen.targets import Target
from symattn.meaning.form import Form
from symattn.nodes import Elementwise, Node, Program, Softmax, SumOver, Transposed
from symattn.nodes.arrays import ArrayContext, lifted, scalar_code
from symattn.nodes.indices import AxisIndex
from symattn.notation.names import identifier

_INDENT = "    "


@dataclass(frozen=True, slots=True)
class Source:
    """A generated module: its text, the name of its function, and the tags it has to be given."""

    text: str
    function: str
    sizes: tuple[str, ...]


def emit(signature: Signature, program: Program, target: Target) -> Source:
    """Return the source that computes a program by the direct plan."""
    return _Emitter(signature, program, target).source()


class _Emitter:
    """Writes one function; it is the writer that the lowerings are given."""

    def __init__(self, signature: Signature, program: Program, target: Target) -> None:
        self.target = target
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
        self.plan = direct_plan(program, self.names)
        self.extents: dict[str, str] = {}
        self.needs_math = False
        first = signature.arrays[0].name if signature.arrays else ""
        self.context = ArrayContext(
            call=lambda name: target.function(name, self.alias),
            extent=self.extent,
            dtype=f"{first}.dtype" if first else f"{self.alias}.float64",
            scalar_call=self.scalar_call,
            order=self.plan.order,
        )
        self.heads: tuple[AxisIndex, ...] = ()
        self.body: list[str] = []

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
        node = self.plan.standing.get(node, node)
        while node.is_view or isinstance(node, SumOver):  # zeros of every head stay zeros
            node = self.plan.standing.get(node.matrices[0], node.matrices[0])
        if isinstance(node, Elementwise):  # an exp
            return node.matrices[0].has_minus_infinity
        return isinstance(node, Softmax) and node.mask is not None

    def fresh(self, wanted: str) -> str:
        return self.names.fresh(wanted)

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
        return f"{self.math}.{function}"

    def source(self) -> Source:
        for step in self.plan.steps:
            self.heads = self.context.axes(step.node.inner_indices)
            lowering_of(step.node).write(step, self)
        self.heads = self.context.axes(self.plan.result.indices)
        self.returned()
        steps, self.body = self.body, []
        given = self.read_sizes()
        self.prepare_inputs()
        function = self.names.fresh(self.signature.function)
        imports = [f"import {self.math_import()}"] if self.needs_math else []
        imports.append(f"import {self.target.module} as {self.alias}")
        body = [f"{_INDENT}{line}" for line in (*self.body, *steps)]
        text = "\n".join([*imports, "", "", self.header(function, given), *body, ""])
        return Source(text, function, given)

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
            half, single = (self.context.call(name) for name in ("float16", "float32"))
            self.write(f"{self.dtype} = {arrays[0].name}.dtype")
            self.remark(
                "sums of float16 lose digits: they are computed in float32, and rounded once"
            )
            casts = "\n".join(f"{_INDENT}{a.name} = {a.name}.astype({single})" for a in arrays)
            self.write(f"if {self.dtype} == {half}:\n{casts}")
        for array in arrays:
            if array.is_vector:
                self.write(f"{array.name} = {array.name}[..., None]", axes_text(array.source.sizes))

    def returned(self) -> None:
        code = self.code(self.plan.result)
        if not self.signature.arrays:
            self.write(f"return {code}")
        elif self.plan.owned:
            self.write(f"return {code}.astype({self.dtype}, copy=False)")
        else:
            self.write(f"return {code}.astype({self.dtype})", "a copy: never an input itself")

    def header(self, function: str, given: Sequence[str]) -> str:
        """Return the first line of the function and its docstring."""
        names = [given_input.name for given_input in self.signature.inputs]
        masks = self.signature.masks
        keywords = [*(mask.name for mask in masks), *(identifier(tag) for tag in given)]
        keywords = ["*", *keywords] if keywords else []
        definition = ast.parse(f"def {function}({', '.join([*names, *keywords])}): pass").body[0]
        assert isinstance(definition, ast.FunctionDef)
        shapes = [
            f"{_INDENT}{item.name}: "
            + (item.axes_text if isinstance(item, ArrayInput) else "a number")
            for item in self.signature.inputs
        ]
        shapes += [
            f"{_INDENT}{mask.name}: {mask.axes_text} of booleans, True where it may attend"
            for mask in masks
        ]
        shapes += [f"{_INDENT}{identifier(tag)}: the size {tag}" for tag in given]
        formula = self.signature.formula.replace("\n", f"\n{_INDENT}")
        first = (
            f"Compute {formula}."
            if "\n" not in formula
            else f"Compute these lines, and return the last.\n\n{_INDENT}{formula}"
        )
        result = self.plan.result
        heads = (index.size for index in self.context.axes(result.indices))
        returns = f"{_INDENT}returns: {axes_text((*heads, *result.sizes))}"
        lines = [first, "", *shapes, returns, _INDENT]
        definition.body = [ast.Expr(ast.Constant("\n".join(lines)))]
        return ast.unparse(definition)
