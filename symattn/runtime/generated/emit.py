"""The source of a checked function: the straight line, the call, the line for the result.

One shape of source for every kind of function, with four small differences in how the body is
reached (a call, `await`, `yield from`, or handing each value on).  The checked function has the
parameters of the unchecked one, by the same names, so a wrong call fails as it always did.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from symattn.runtime.current import begin, end, outlives_the_call
from symattn.runtime.declared.hints import Hint, cannot_tell
from symattn.runtime.generated.blocks import Block, Names, indented, listed
from symattn.runtime.generated.straight import StraightLine, tags_of
from symattn.runtime.switch import STATE
from symattn.tags import check_size

MARK = "__shapecheck__"
"""The attribute of a checked function, and the global of its source, that holds its `Checked`."""

Kind = str
"""How a function runs: "plain", "coroutine", "generator" or "asynchronous generator"."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What is known of a function when its source is written.

    ``hints`` are those of its parameters, ``result`` and ``yields`` of what it gives back;
    ``counts`` are the parameters that are the size of a tag, with whether they may be None;
    ``references`` are the tags that stand for attributes, each with its path; ``instance`` is the
    parameter that holds sizes (`self`), if any, and ``constructs`` says that these are bound here;
    ``integers`` are the parameters that are declared so; ``tags`` are all that occur, ``open_tags``
    those that its own equations do not determine: the instance has to.  Of a ``deferred`` function
    nothing is known before its first call.
    """

    name: str
    kind: Kind
    parameters: tuple[inspect.Parameter, ...]
    hints: Mapping[str, Hint]
    result: Hint | None
    yields: Hint | None
    counts: Mapping[str, bool]
    references: Mapping[str, tuple[str, ...]]
    instance: str | None
    constructs: bool
    owner: str = ""
    integers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    open_tags: tuple[str, ...] = ()
    deferred: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a checked function, and what a reader of its frame has to know.

    ``objects`` are the globals; ``variables`` hold the tags, ``origins`` say where each is from;
    ``sizes`` and ``own`` are the variables for sizes found the slow way and in the body.
    """

    text: str
    function: str
    objects: dict[str, object]
    variables: Mapping[str, str]
    origins: Mapping[str, str]
    sizes: str
    own: str


def emit(declared: Declared, unchecked: object, checked: object) -> Source:
    """The source of a checked function: its globals hold the unchecked one and the slow way."""
    return _Emitter(declared, unchecked, checked).source()


class _Emitter:
    """Writes the source of one function; each name in it is chosen here, once."""

    def __init__(self, declared: Declared, unchecked: object, checked: object) -> None:
        self.declared = declared
        names = Names(parameter.name for parameter in declared.parameters)
        self.line = StraightLine(names, {}, declared.tags)
        self.function = names.fresh(declared.name)
        self.module = getattr(unchecked, "__module__", None) or __name__
        self.unchecked = self.line.thing("unchecked", unchecked)
        # What the source names is pickled with it, and who reads its frame finds it by this name.
        self.checked = MARK if MARK not in names.parameters else names.fresh("checked")
        self.line.objects[self.checked] = checked
        self.state = self.line.thing("STATE", STATE)
        self.sizes = names.fresh("sizes")
        self.own = names.fresh("own")
        self.fits = names.fresh("fits")
        self.result = names.fresh("result")
        self.error = names.fresh("error")
        self.held = names.fresh("held")
        self.handed, self.sent, self.thrown = (names.fresh(w) for w in ("values", "sent", "thrown"))
        self.slow = False  # whether the straight line accepts nothing at all

    def source(self) -> Source:
        arguments = self.arguments()
        variables = {**self.line.maybe, **self.line.known}
        if self.slow:
            self.seen = self.sizes
        elif variables:
            self.seen = f"{self.sizes} if {self.sizes} is not None else {_display(variables)}"
        else:
            self.seen = f"{self.sizes} or {{}}"
        absent = [] if self.slow else [self.sizes, *self.line.maybe.values()]
        body = [
            f"if {self.state}.unusual and not {self.state}.is_on():",
            *indented(self.let_through()),
            *[f"{name} = None" for name in absent],
            *arguments,
            f"{self.own} = {{}}",
            *(self.keep() if self.declared.constructs else []),
            *_CALLS[self.declared.kind](self),
        ]
        word = "async def" if self.declared.kind in _ASYNCHRONOUS else "def"
        head = f"{word} {self.function}({self.parameters()}):"
        text = "\n".join([head, *indented(body), ""])
        self.line.objects["__name__"] = self.module  # callees may ask from where they are called
        return Source(
            text,
            self.function,
            self.line.objects,
            variables,
            self.line.origins,
            self.sizes,
            self.own,
        )

    def thing(self, builtin: type) -> str:
        """The name under which the source finds a builtin."""
        return self.line.thing(builtin.__name__, builtin)

    # -- the arguments

    def arguments(self) -> list[str]:
        """Check the arguments: the straight line, and the slow way where it does not accept."""
        line, block = self.line, Block()
        if self.declared.deferred:
            block.tests.append("False")
        for tag, path in self.declared.references.items():
            self.count(tag, ".".join(path), tag.strip("{}"), block)
        for name, may_be_none in self.declared.counts.items():
            if not may_be_none:
                self.count(name, name, name, block)
            else:
                block.inner.append(inner := Block(f"{name} is not None"))
                number = line.names.fresh(f"{name}_size")
                inner.statements += self.counted(number, name, name)
                inner.tests.append(f"{number} >= 0")
                line.later.append(partial(line.same, name, number, name, inner, False))
        for name, hint in self.declared.hints.items():
            line.take(hint, name, name, block, True)
        self.hold(block)
        line.finish(block)
        self.agree(block, {**line.known, **line.maybe})
        if line.pending and not self.waits():
            block.tests.append("False")
        if not (block.statements or block.tests or block.inner):
            return []
        self.slow = "False" in block.tests
        return self.attempt(block, f"{self.sizes} = {self.checked}.arguments({self.values})")

    def attempt(self, block: Block, slowly: str) -> list[str]:
        """Run a block; where it does not accept, whatever went wrong, the slow way decides."""
        if "False" in block.tests:
            return [slowly]
        return [
            "try:",
            *indented(block.lines(self.fits)),
            f"except {self.thing(Exception)} as {self.error}:",
            f"    if not {self.line.thing('cannot_tell', cannot_tell)}({self.error}):",
            "        raise",
            f"    {self.fits} = False",
            f"if not {self.fits}:",
            f"    {slowly}",
        ]

    def count(self, tag: str, value: str, place: str, block: Block) -> None:
        """Bind a tag to an integer that is given: a parameter, or an attribute."""
        if tag in self.line.known:
            return
        number = self.line.bind(tag, place)
        block.statements += self.counted(number, value, place)
        block.tests.append(f"{number} >= 0")

    def counted(self, number: str, value: str, place: str) -> list[str]:
        check_count = self.line.thing("check_size", check_size)
        return [
            f"{number} = {value}",
            f"if {self.thing(type)}({number}) is not {self.thing(int)}:",
            f"    {number} = {check_count}({place!r}, {number}, least=0)",
        ]

    def hold(self, block: Block) -> None:
        """Take the sizes of the instance that do not follow from the arguments."""
        instance = self.declared.instance
        if instance is None or not self.declared.tags:
            return
        line = self.line
        block.statements.append(f"{self.held} = {self.checked}.held({instance})")
        line.solve(block)
        waiting = [size.tags for size, _, _ in line.pending]
        for tags in (self.declared.open_tags, *waiting):
            for tag in tags:
                if tag not in line.known:
                    name = line.bind(tag, instance)
                    block.statements.append(f"{name} = {self.held}[{tag!r}][0]")
            line.solve(block)

    def agree(self, block: Block, variables: Mapping[str, str]) -> None:
        """Test, last of all, that the sizes of the instance, if it has any, are these."""
        kept = {tag: name for tag, name in variables.items() if outlives_the_call(tag)}
        if self.declared.instance is not None and kept:
            test = f"{self.checked}.agrees({self.held}, {_display(kept)})"
            block.inner.append(Block(f"{self.held} is not None", tests=[test]))

    def waits(self) -> bool:
        """Whether the one equation that is left can wait for the result, which may decide it.

        It can where none of its tags is known and nothing is divided, so that it is no
        contradiction yet, nor says anything by itself (as `d//h = 0` does of d).
        """
        line = self.line
        if self.declared.result is None or len(line.pending) > 1:
            return False
        ((size, _, _),) = line.pending
        tags, bound = size.tags, {*line.known, *line.maybe}
        return len(tags) > 1 and not size.assumptions and bound.isdisjoint(tags)

    def keep(self) -> list[str]:
        return [f"{self.checked}.keep({self.declared.instance}, {self.values}, {self.seen})"]

    # -- the call, and what it gives back

    @property
    def call(self) -> str:
        """The call of the unchecked function."""
        passed = (_PASSED[p.kind].format(p.name) for p in self.declared.parameters)
        return f"{self.unchecked}({', '.join(passed)})"

    @property
    def values(self) -> str:
        """All arguments, in a tuple."""
        return f"({listed(p.name for p in self.declared.parameters)})"

    def let_through(self) -> list[str]:
        """The call as it is without checks."""
        if self.declared.kind == "asynchronous generator":
            return [*self.handed_on([]), "return"]
        return [f"return {_REACHED[self.declared.kind].format(self.call)}"]

    def called(self) -> list[str]:
        """Call a function, await a coroutine, or run a generator."""
        call = self.call
        if self.declared.yields is not None:
            call = f"{self.checked}.each({call}, {self.values}, {self.seen}, {self.own})"
        returned = self.returned()
        target = f"{self.result} =" if returned else "return"
        return [
            *self.noted([f"{target} {_REACHED[self.declared.kind].format(call)}"]),
            *returned,
        ]

    def called_in_context(self) -> list[str]:
        """Await a coroutine; tasks and threads that it starts in its context find the sizes too."""
        running = self.line.names.fresh("running")
        begins, ends = self.line.thing("begin", begin), self.line.thing("end", end)
        return [
            f"{running} = {begins}({self.checked}, {self.values}, {self.seen}, {self.own})",
            "try:",
            *indented(self.called()),
            "finally:",
            f"    {ends}({running})",
        ]

    def generated(self) -> list[str]:
        """Run an asynchronous generator."""
        given = f"{self.values}, {self.seen}, {self.own}"
        checks = [
            "try:",
            f"    {self.checked}.yielded({self.result}, {given})",
            f"except {self.thing(BaseException)}:",
            f"    await {self.handed}.aclose()",
            "    raise",
        ]
        return self.noted(self.handed_on(checks if self.declared.yields is not None else []))

    def noted(self, lines: list[str]) -> list[str]:
        """Lines whose exceptions leave with the sizes of this call as a note."""
        return [
            "try:",
            *indented(lines),
            f"except {self.thing(Exception)} as {self.error}:",
            f"    {self.checked}.note({self.error}, {self.values}, {self.seen}, {self.own})",
            "    raise",
        ]

    def returned(self) -> list[str]:
        """Check the result and return it; nothing if nothing is declared of it."""
        hint = self.declared.result
        if hint is None:
            return []
        line, block = self.line, Block()
        before = {**line.maybe, **line.known}
        # The slow way is to see the sizes of the arguments, not those that the result would add.
        for tag in sorted(tags_of(hint) & line.maybe.keys()):
            name = line.names.fresh(line.maybe[tag])
            block.statements.append(f"{name} = {line.maybe[tag]}")
            line.maybe[tag] = name
        line.take(hint, self.result, "the result", block, True)
        line.finish(block)
        block.tests[:0] = [f"{self.sizes} is None", f"not {self.own}"]
        if line.pending or self.slow:
            block.tests.append("False")
        after = {**line.maybe, **line.known}
        self.agree(block, {tag: name for tag, name in after.items() if before.get(tag) != name})
        absent = [name for tag, name in line.maybe.items() if tag not in before]
        block.statements[:0] = [f"{name} = None" for name in absent]
        given = f"{self.result}, {self.values}, {self.seen}, {self.own}"
        slowly = f"{self.checked}.result({given})"
        return [*self.attempt(block, slowly), f"return {self.result}"]

    def handed_on(self, checks: Iterable[str]) -> list[str]:
        """Hand on all that an asynchronous generator yields, and what is sent or thrown into it.

        What `yield from` does for generators, as PEP 380 spells it out.
        """
        values, sent, thrown, item = self.handed, self.sent, self.thrown, self.result
        return [
            f"{values} = {self.call}",
            "try:",
            f"    {item} = await {values}.__anext__()",
            "    while True:",
            *indented(checks, by=2),
            "        try:",
            f"            {sent} = yield {item}",
            f"        except {self.thing(GeneratorExit)}:",
            f"            await {values}.aclose()",
            "            raise",
            f"        except {self.thing(BaseException)} as {thrown}:",
            f"            {item} = await {values}.athrow({thrown})",
            "        else:",
            f"            {item} = await {values}.asend({sent})",
            f"except {self.thing(StopAsyncIteration)}:",
            "    pass",
        ]

    # -- parameters

    def parameters(self) -> str:
        """The parameters as they stand in a definition; defaults are set afterwards."""
        bare = [
            parameter.replace(
                annotation=inspect.Parameter.empty,
                default=inspect.Parameter.empty
                if parameter.default is inspect.Parameter.empty
                else _Default(),
            )
            for parameter in self.declared.parameters
        ]
        return str(inspect.Signature(bare))[1:-1]


class _Default:
    """Stands in a definition for a default, which is no text."""

    def __repr__(self) -> str:
        return "None"


_PASSED = {
    inspect.Parameter.POSITIONAL_ONLY: "{0}",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "{0}",
    inspect.Parameter.VAR_POSITIONAL: "*{0}",
    inspect.Parameter.KEYWORD_ONLY: "{0}={0}",
    inspect.Parameter.VAR_KEYWORD: "**{0}",
}

_REACHED = {"plain": "{}", "coroutine": "await {}", "generator": "(yield from {})"}
_ASYNCHRONOUS = {"coroutine", "asynchronous generator"}

_CALLS = {
    "plain": _Emitter.called,
    "coroutine": _Emitter.called_in_context,
    "generator": _Emitter.called,
    "asynchronous generator": _Emitter.generated,
}


def _display(variables: Mapping[str, str]) -> str:
    """A mapping from tags to their variables, as source."""
    return "{" + ", ".join(f"{tag!r}: {name}" for tag, name in variables.items()) + "}"
