"""A score as the `score_mod` and `mask_mod` of torch's flex attention.

Flex attention computes inner products times a scale, and calls two functions for each of them: what
the score becomes, and whether it is seen.  They are made by a function of what they read: scalars,
sizes, and tensors that were computed beforehand.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from symattn.codegen.blocked import Attended
from symattn.codegen.gpu.dialects import FLEX
from symattn.codegen.gpu.leaves import (
    DotLeaf,
    EntryLeaf,
    KeepLeaf,
    KeyLeaf,
    Leaf,
    PairSumLeaf,
    QueryLeaf,
)
from symattn.codegen.gpu.score_text import ScoreText, score_text
from symattn.codegen.gpu.standing import TOKEN, tokens
from symattn.codegen.steps import Names, axes_text
from symattn.errors import NotSupportedError
from symattn.meaning.form import Condition, Extent, Form, Parameter, children
from symattn.nodes import Node
from symattn.nodes.along_axis import queries_and_keys
from symattn.nodes.arrays import ArrayContext, scalar_code
from symattn.nodes.inputs import Ones
from symattn.nodes.products import MatrixProduct
from symattn.notation import text
from symattn.notation.names import identifier
from symattn.tags import Size

_ARGUMENTS = ("score", "b", "h", "q_idx", "kv_idx")

_ENTRY = '''\
def {entry}(x, b, h, *at):
    """Return an entry of a tensor; where a leading axis has size one, all read the same."""
    return x[(b * (x.shape[0] > 1), h * (x.shape[1] > 1), *at)]


'''


def flex_module(attended: Attended) -> str:
    """Return a module whose function ``mods`` returns the scale, score_mod and mask_mod."""
    return _Module(attended, score_text(attended, FLEX)).source()


def _the_product(written: ScoreText) -> tuple[str, DotLeaf]:
    """Return the one inner product of a score, and its name."""
    if written.reweigh:
        raise NotSupportedError("weights that are changed after the softmax, in flex attention")
    kinds = [type(leaf) for leaf in written.leaves.values()]
    if PairSumLeaf in kinds or kinds.count(DotLeaf) != 1:
        found = "no inner product" if DotLeaf not in kinds else "more than one inner product"
        raise NotSupportedError(f"scores that are made from {found}, in flex attention")
    return next((name, leaf) for name, leaf in written.leaves.items() if isinstance(leaf, DotLeaf))


@dataclass
class _Module:
    """The source, and the names in it: a user's first, then ours, apart from them."""

    attended: Attended
    written: ScoreText
    names: dict[str, str] = field(default_factory=dict)

    def source(self) -> str:
        written = self.written
        product, dot = _the_product(written)
        forms = {**written.scalars, **written.sizes}
        given = dict.fromkeys(name for form in forms.values() for name in _inputs(form))
        self.fresh = Names([*given, *_ARGUMENTS])
        for name in ("torch", "math", "entry", "scale", "score_mod", "mask_mod", *forms):
            self.names[name] = self.fresh.fresh(name)
        self.names |= {product: "score", "i": "q_idx", "j": "kv_idx"}
        tensors = {
            name: self.fresh.fresh(self.wanted(name, leaf))
            for name, leaf in written.leaves.items()
            if name != product
        }
        self.names |= {name: self.entry(tensors[name], written.leaves[name]) for name in tensors}
        body = "".join(
            f"    {line}\n" if line else "\n" for line in self.body(product, dot, tensors)
        )
        parameters = ", ".join([*given, *tensors.values()])
        header = f"def mods({f'*, {parameters}' if parameters else ''}):\n"
        helper = _ENTRY.format(entry=self.names["entry"]) if tensors else ""
        return self.imports(body) + helper + header + body

    def imports(self, body: str) -> str:
        used = tokens(body)
        lines = [
            f"import {module}" + (f" as {name}" if name != module else "") + "\n"
            for module in ("math", "torch")
            if (name := self.names[module]) in used
        ]
        return "".join(lines) + "\n\n" * bool(lines)

    def body(self, product: str, dot: DotLeaf, tensors: Mapping[str, str]) -> Iterator[str]:
        """Yield the lines of the function."""
        written, names = self.written, self.names
        yield from self.docstring(dot, tensors)
        for name, tensor in tensors.items():
            axes = _axes(written.leaves[name])
            yield f"{tensor} = {tensor}[(None,) * ({axes} - {tensor}.ndim)]"
        used = tokens(written.score) | tokens(written.seen) | {dot.scale}
        for name, form in {**written.scalars, **written.sizes}.items():
            if name in used:
                yield f"{names[name]} = {self.number(form)}"
        yield f"{names['scale']} = {names[dot.scale] if dot.scale else '1.0'}"
        score = "" if written.score == product else written.score
        yield from [""] if score else []
        yield from self.function(names["score_mod"], ", ".join(_ARGUMENTS), score)
        yield from [""] if written.seen and not score else []
        yield from self.function(names["mask_mod"], ", ".join(_ARGUMENTS[1:]), written.seen)
        yield f"return {names['scale']}, {names['score_mod']}, {names['mask_mod']}"

    def function(self, name: str, arguments: str, code: str) -> Iterator[str]:
        if not code:
            yield f"{name} = None"
            return
        yield f"def {name}({arguments}):"
        yield f"    return {TOKEN.sub(lambda at: self.names.get(at[0], at[0]), code)}"
        yield ""

    def docstring(self, dot: DotLeaf, tensors: Mapping[str, str]) -> Iterator[str]:
        """Yield what is computed, and what flex attention and the function are given."""
        values, *operands = self.attended.matrices
        weights = self.attended.weights
        yield '"""Return scale, score_mod and mask_mod for torch.nn.attention.flex_attention.'
        yield ""
        yield f"With them it computes {text(self.attended.product())} of"
        yield ""
        yield f"    query: {_rows(operands[dot.query], dot.query_axis)}"
        yield f"    key: {_rows(operands[dot.key], dot.key_axis)}"
        yield f"    value: {_rows(values, self.attended.query_axis)}"
        if tensors:
            yield ""
            yield "Of tensors, … are the axes of batch and heads, or of heads alone, or none; those"
            yield "of size one are read by all:"
            yield ""
        for name, tensor in tensors.items():
            match self.written.leaves[name]:
                case KeepLeaf(_, ranks):
                    query, key = queries_and_keys(weights.sizes, weights.axis)
                    axes = axes_text((query, key)[-ranks:])
                    yield f"    {tensor}: {axes}, booleans: True where a query sees a key"
                case QueryLeaf(operand) | KeyLeaf(operand) | EntryLeaf(operand):
                    node = _repeated(operands[operand]) or operands[operand]
                    yield f"    {tensor}: {text(node)}, {_all_axes(node, node.sizes)}"
        yield '"""'

    def wanted(self, name: str, leaf: Leaf) -> str:
        """Return what a tensor is to be called: as the input that it is, if it is one."""
        match leaf:
            case KeepLeaf(label):
                return identifier(label)
            case QueryLeaf(operand) | KeyLeaf(operand) | EntryLeaf(operand):
                node = self.attended.matrices[1:][operand]
                number = _repeated(node)
                if number is not None and number.is_input:
                    return identifier(number.label)
                return identifier(node.label) if node.is_input and not node.indices else name
        return name

    def entry(self, tensor: str, leaf: Leaf) -> str:
        """Return the source of an entry of a tensor."""
        match leaf:
            case QueryLeaf(operand) | KeyLeaf(operand) if self.is_repeated(operand):
                at = ("0", "0")
            case KeepLeaf(_, ranks):
                at = ("q_idx", "kv_idx")[-ranks:]
            case QueryLeaf(_, axis):
                at = ("q_idx", "0") if axis == 0 else ("0", "q_idx")
            case KeyLeaf(_, axis):
                at = ("kv_idx", "0") if axis == 0 else ("0", "kv_idx")
            case EntryLeaf(_, query_axis):
                at = ("q_idx", "kv_idx") if query_axis == 0 else ("kv_idx", "q_idx")
            case _:
                raise AssertionError(leaf)
        return f"{self.names['entry']}({tensor}, b, h, {', '.join(at)})"

    def is_repeated(self, operand: int) -> bool:
        return _repeated(self.attended.matrices[1:][operand]) is not None

    def number(self, form: Form) -> str:
        """Return the source of a scalar."""
        call = f"{self.names['math']}.{{}}".format
        code = scalar_code(form, ArrayContext(call, identifier, "", call))
        return ast.unparse(ast.parse(code, mode="eval"))  # without needless parentheses


def _repeated(node: Node) -> Node | None:
    """Return the one number, of each head, that a vector repeats: ``x`` of ``ones(n, 1) @ x``."""
    if isinstance(node, MatrixProduct) and len(node.args) == 2:
        for ones, number in (node.args, node.args[::-1]):
            if isinstance(ones, Ones) and all(size.is_one for size in cast(Node, number).sizes):
                return cast(Node, number)
    return None


def _axes(leaf: Leaf) -> int:
    """Return how many axes a tensor has, those of batch and heads among them."""
    return 2 + (leaf.ranks if isinstance(leaf, KeepLeaf) else 2)


def _rows(node: Node, axis: int) -> str:
    """Return what is given for an operand, so that its tokens are rows."""
    rows, columns = node.sizes if axis == 0 else node.sizes[::-1]
    turned = "" if axis == 0 else "the transpose of "
    return f"{turned}{text(node)}, {_all_axes(node, (rows, columns))}"


def _all_axes(node: Node, sizes: tuple[Size, Size]) -> str:
    """Return the axes of an operand as text, those of its indices in front."""
    return axes_text((*(index.size for index in node.indices), *sizes))


def _inputs(form: Form | Condition) -> Iterator[str]:
    """Yield the identifiers of the scalars and tags in a form."""
    match form:
        case Parameter(name):
            yield identifier(name)
        case Extent(size):
            yield from map(identifier, size.tags)
        case _:
            for child in children(form):
                yield from _inputs(child)
