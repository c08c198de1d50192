"""The plan of a generated function: what is computed, in which order, in whose memory.

Before a line of source is written, the formula is laid out as steps, one for each distinct node, so
that what occurs twice is computed once.  Some nodes are no steps but are read in place: inputs,
transposes (they are views), the minus sign of a difference, and a vector that is repeated to be
added (``b @ ones(1, n)``: arrays repeat it by themselves).

A step may take over the memory of an operand, and then writes its result there.  Invariant: that
memory was made by an earlier step (never an input, nor a view of one), nothing reads it
afterwards, and the result is as large, which needs every batch axis of the others to be there too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from symattn.codegen.lowerings import lowering_of
from symattn.codegen.masked import selects
from symattn.codegen.results import the_softmax
from symattn.codegen.steps import Names, Plan, Step
from symattn.nodes import (
    AdditiveMask,
    BooleanInput,
    Hadamard,
    Head,
    Heads,
    MatrixProduct,
    MatrixSum,
    Negated,
    Node,
    Ones,
    Program,
    Softmax,
    Transposed,
)
from symattn.nodes.arrays import index_order
from symattn.notation.names import identifier


def direct_plan(program: Program, names: Names, returns: Sequence[str] = ()) -> Plan:
    """Lay out a program line by line, each node once.

    Lines that the result does not need are left out.  Where ``returns`` asks for the weights of
    the softmax or for its sums, its memory is left alone; without the output, it is the result.
    """
    return _Layout(program, names, returns).plan()


class _Layout:
    """A formula laid out: its nodes in order, who reads them, and which of them are steps.

    Each line is written in the names of the lines before it; ``standing`` leads from such a name
    back to the node that the line computes.
    """

    def __init__(self, program: Program, names: Names, returns: Sequence[str]) -> None:
        self.standing: dict[Node, Node] = {}
        written: dict[str, Node] = {}
        symbols = program.line_symbols
        self.order = index_order(program.result)
        *earlier, last = program
        for name, line in program.named_lines.items():
            written[name] = self.standing.get(line, line)
            if name in earlier and not written[name].is_input:
                self.standing[symbols[name]] = written[name]
        self.result = written[last]
        self.softmax = the_softmax(self.walk(self.result), returns)
        if self.softmax is not None and "output" not in returns:
            self.result = self.softmax
        needed = set(self.walk(self.result))
        self.named: dict[Node, str] = {}
        order: dict[Node, None] = {}
        for name, line in written.items():
            if line in needed:
                order.update(dict.fromkeys(self.walk(line)))
                if not line.is_input and line not in self.named:
                    self.named[line] = names.fresh(identifier(name))
        order.update(dict.fromkeys(self.walk(self.result)))  # a softmax may stand inside a line
        self.nodes = tuple(order)
        self.names = names
        self.consumers: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for node in self.nodes:
            for operand in self.operands(node):
                self.consumers[operand].append(node)
        # Nodes that are read in place, and the node that each is written from.
        self.in_place: dict[Node, Node] = {}
        for node in self.nodes:
            source = self.source_of(node)
            if source is not None:
                self.in_place[node] = source
        self.steps = [node for node in self.nodes if self.is_step(node)]
        self.inputs: dict[Node, frozenset[Node | BooleanInput]] = {}
        for node in self.nodes:
            own: frozenset[Node | BooleanInput] = frozenset((node,) if node.is_input else ())
            # The array of a mask may have batch axes of its own.
            own |= frozenset(node.mask_arrays)
            self.inputs[node] = own.union(*(self.inputs[o] for o in self.operands(node)))

    def operands(self, node: Node) -> tuple[Node, ...]:
        """Return the matrix operands of a node, the names of lines looked through."""
        return tuple(self.standing.get(operand, operand) for operand in node.matrices)

    def walk(self, line: Node) -> Iterator[Node]:
        """Yield every node that a line needs once, operands before what uses them."""
        for node in line.walk():
            if node in self.standing:
                yield from self.walk(self.standing[node])
            else:
                yield node

    def source_of(self, node: Node) -> Node | None:
        """Return the node that stands for this one where it is used, if it is read in place."""
        users = self.consumers[node]
        if node in self.named:
            return None
        if isinstance(node, Transposed):
            # A softmax reads its operand twice: a name is more readable.
            softmax = any(isinstance(user, Softmax) for user in users)
            return None if softmax else self.operands(node)[0]
        if isinstance(node, Negated):
            signs = users and all(isinstance(user, MatrixSum) for user in users)
            return self.operands(node)[0] if signs else None
        repeated = _repeated(node)
        if repeated is None or not users:
            return None
        fits = all(
            isinstance(user, MatrixSum | Hadamard)
            and any(
                _repeated(other) is None and not isinstance(other, AdditiveMask)
                for other in user.matrices
            )
            for user in users
        )
        return self.standing.get(repeated, repeated) if fits else None

    def is_step(self, node: Node) -> bool:
        if node.is_input or node in self.in_place:
            return False
        users = self.consumers[node]
        if isinstance(node, AdditiveMask) and users and all(map(selects, users)):
            return False
        unread = isinstance(node, Ones) and users and node not in self.named
        return not (unread and all(self.in_place.get(user, node) != node for user in users))

    def memory(self, node: Node) -> Node:
        """Return the node that made the memory in which a node lies: a step, or an input."""
        while node.is_view or node in self.in_place:
            node = self.in_place[node] if node in self.in_place else self.operands(node)[0]
        return node

    def overwritten(self) -> dict[Node, int]:
        """Return, for every step that takes over an operand's memory, which one."""
        last_reader: dict[Node, Node] = {}
        for step in self.steps:
            for operand in self.operands(step):
                last_reader[self.memory(operand)] = step
        if self.softmax is not None:
            last_reader.pop(self.softmax, None)  # it is read once more, at the end
        found: dict[Node, int] = {}
        for step in self.steps:
            for position in lowering_of(step).reuses(step):
                operands = self.operands(step)
                operand = operands[position]
                others = [other for k, other in enumerate(operands) if k != position]
                if (
                    not operand.is_input
                    and self.memory(operand) == operand
                    and last_reader.get(operand) == step
                    and set(operand.indices) == set(step.indices)
                    and all(self.memory(other) != operand for other in others)
                    and all(self.inputs[other] <= self.inputs[operand] for other in others)
                ):
                    found[step] = position
                    break
        return found

    def plan(self) -> Plan:
        overwritten = self.overwritten()
        leaders = self.leaders(overwritten)
        scores = {self.operands(node)[0] for node in self.steps if isinstance(node, Softmax)}
        variables: dict[Node, str] = {}
        steps: list[Step] = []
        for node in self.steps:
            leader = leaders[node]
            if leader not in variables:
                variables[leader] = self.named.get(leader) or self.names.fresh(
                    self.role(leader, scores)
                )
            variables[node] = variables[leader]
            heads = tuple(index for index in self.order if index in node.indices)
            steps.append(Step(variables[node], node, overwritten.get(node), heads))
        for name, node in self.standing.items():
            if node in variables:
                variables[name] = variables[node]
            else:
                self.in_place[name] = node
        owned = not self.memory(self.result).is_input
        return Plan(
            tuple(steps),
            self.result,
            variables,
            self.in_place,
            owned,
            self.standing,
            self.order,
            self.softmax,
            self.softmax is not None and self.memory(self.result) == self.softmax,
        )

    def leaders(self, overwritten: Mapping[Node, int]) -> dict[Node, Node]:
        """Return, for every step, the step whose variable it shares.

        A variable is reused along steps in one memory; it changes at a named line, and from scores
        to weights.
        """
        after = {self.operands(step)[at]: step for step, at in overwritten.items()}
        leaders: dict[Node, Node] = {}
        for node in reversed(self.steps):
            successor = after.get(node)
            alone = successor is None or node in self.named or isinstance(node, Softmax)
            shared = not alone and not isinstance(successor, Softmax)
            leaders[node] = leaders[successor] if successor is not None and shared else node
        return leaders

    def role(self, node: Node, scores: Collection[Node]) -> str:
        """Return a short name for what a step computes."""
        if isinstance(node, Softmax):
            return "P"
        if node in scores:
            return "S"
        if isinstance(node, Head):
            whole = self.operands(node)[0]
            name = self.named.get(whole) or (identifier(whole.label) if whole.is_input else "")
            return f"{name}_heads" if name else "heads"
        if isinstance(node, Heads) and node != self.result:
            return "concat"
        return "O" if node == self.result else _plain_name(node)


def _repeated(node: Node) -> Node | None:
    """Return the column or row that a product with ones repeats: b in ``b @ ones(1, n)``."""
    if isinstance(node, MatrixProduct) and len(node.operands) == len(node.matrices) == 2:
        left, right = node.matrices
        if isinstance(right, Ones) and right.sizes[0].is_one:
            return left
        if isinstance(left, Ones) and left.sizes[1].is_one:
            return right
    return None


def _plain_name(node: Node) -> str:
    """Return ``W_Q_X`` for the product of two inputs W^Q and X, and ``Y`` for anything else."""
    factors = [f.matrices[0] if isinstance(f, Transposed) else f for f in node.operands]
    if (
        isinstance(node, MatrixProduct)
        and len(factors) == 2
        and all(isinstance(factor, Node) and factor.is_input for factor in factors)
    ):
        return "_".join(identifier(factor.label) for factor in factors if isinstance(factor, Node))
    return "Y"
