"""The straight line: from hints to comparisons that accept a right call, and no wrong one.

The sizes of a call are found in the order in which they follow from each other, once, when the
function is decorated: an axis declared as a plain tag binds it or is compared with it; `h*d_k = 12`
with h known is a division; what is in between stands in no loop over equations, only in a row of
statements.  Where a size cannot be found so (a square, two equations to be solved together), the
line says "does not fit", and the slow way decides.

The invariant: the line is sufficient.  Whatever it accepts, the slow way accepts, with equal sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import singledispatchmethod

from symattn.runtime.declared.containers import EachHint, MappingHint, RecordHint, TupleHint
from symattn.runtime.declared.defaults import DefaultHint
from symattn.runtime.declared.hints import (
    AnyHint,
    ArrayHint,
    Hint,
    PlainHint,
    UnionHint,
    everything_in,
    is_shaped,
)
from symattn.runtime.generated.accepted import accepted_dtypes, loaded_arrays
from symattn.runtime.generated.blocks import Block, Names, listed
from symattn.tags import Size
from symattn.tags.size import fraction
from symattn.tags.spec import Axis, ShapeSpec

_SIZE_HERE = "the size of this axis"
"""A name for the number that an axis has, which no tag can bear."""


class StraightLine:
    """What is known while the line is written: the tags that have a variable, and which.

    ``known`` are bound on every way through the line; ``maybe`` are bound where an optional
    argument, or an element of a list, is there, and None elsewhere; ``origins`` says of each tag
    where its size comes from; ``objects`` are the globals of the source.  What may be absent is
    written last (``later``), when all that is surely there is known.
    """

    # Without `__weakref__`, which `singledispatchmethod` would use to keep every line alive.
    __slots__ = (
        *("names", "objects", "tags", "known", "maybe", "origins"),
        *("pending", "later", "records"),
    )

    def __init__(self, names: Names, objects: dict[str, object], tags: Iterable[str]) -> None:
        self.names = names
        self.objects = objects
        self.tags = frozenset(tags)
        self.known: dict[str, str] = {}
        self.maybe: dict[str, str] = {}
        self.origins: dict[str, str] = {}
        self.pending: list[tuple[Size, str, str]] = []
        self.later: list[Callable[[], None]] = []
        self.records: list[type] = []

    def thing(self, wish: str, value: object) -> str:
        """The name by which the source finds an object; a builtin has its own, unless hidden."""
        if self.names.is_builtin(wish, value):
            return wish
        for name, known in self.objects.items():
            if known is value:
                return name
        name = self.names.fresh(wish)
        self.objects[name] = value
        return name

    def bind(self, tag: str, origin: str, *, surely: bool = True) -> str:
        """A variable for a tag that has none yet."""
        name = self.names.fresh(tag)
        (self.known if surely else self.maybe)[tag] = name
        self.origins.setdefault(tag, origin)
        return name

    def finish(self, block: Block) -> None:
        """Write what follows from all that was taken, then what may be absent."""
        self.solve(block)
        later, self.later = self.later, []
        for write in later:
            write()

    # -- hints

    @singledispatchmethod
    def take(self, hint: Hint, value: str, place: str, block: Block, surely: bool) -> None:
        """Write what this hint asks of a value; ``surely`` if the block is always entered."""
        del hint, value, place, surely
        block.tests.append("False")

    @take.register
    def _(self, hint: AnyHint, value: str, place: str, block: Block, surely: bool) -> None:
        pass

    @take.register
    def _(self, hint: PlainHint, value: str, place: str, block: Block, surely: bool) -> None:
        del place, surely
        if hint.classes:
            block.tests.append(self.is_one_of(value, hint.classes))
        else:
            block.tests.append(f"{self.thing('declared', hint)}.holds({value})")

    @take.register
    def _(self, hint: DefaultHint, value: str, place: str, block: Block, surely: bool) -> None:
        default = "None" if hint.default is None else self.thing("default", hint.default)
        self.take_within(f"{value} is not {default}", hint.hint, value, place, block, surely)

    @take.register
    def _(self, hint: UnionHint, value: str, place: str, block: Block, surely: bool) -> None:
        parts = [part for part in hint.parts if not _is_none(part)]
        if len(parts) > 1:
            block.tests.append("False")
        else:
            self.take_within(f"{value} is not None", parts[0], value, place, block, surely)

    @take.register
    def _(self, hint: TupleHint, value: str, place: str, block: Block, surely: bool) -> None:
        items = [self.names.fresh(f"{value}_{k}") for k in range(len(hint.parts))]
        # Nothing else is unpacked: an iterator would be used up.
        is_tuple = self.is_one_of(value, (tuple,))
        block.statements.append(f"{listed(items) or '()'} = {value} if {is_tuple} else None")
        for k, (item, name) in enumerate(zip(hint.parts, items, strict=True)):
            self.take(item, name, f"{place}[{k}]", block, surely)

    @take.register
    def _(self, hint: RecordHint, value: str, place: str, block: Block, surely: bool) -> None:
        if hint.is_mapping or self.records.count(hint.record) > 1:  # a record that holds itself
            block.tests.append("False")
            return
        block.tests.append(self.is_one_of(value, (hint.record,)))
        self.records.append(hint.record)
        for one in hint.fields:
            if not isinstance(one.hint, AnyHint):
                held = self.names.fresh(f"{value}_{one.name}")
                block.statements.append(f"{held} = {value}.{one.name}")
                self.take(one.hint, held, f"{place}.{one.name}", block, surely)
                if one.name in self.tags and one.is_count:
                    block.tests += [self.is_integer(held), f"{held} >= 0"]
                    self.same(one.name, held, f"{place}.{one.name}", block, surely)
        self.records.pop()

    @take.register
    def _(self, hint: EachHint, value: str, place: str, block: Block, surely: bool) -> None:
        block.tests.append(self.is_one_of(value, (hint.container,)))
        item = self.names.fresh(f"{value}_item")
        self.take_within(
            f"for {item} in {value}:", hint.element, item, f"{place}[0]", block, surely
        )

    @take.register
    def _(self, hint: MappingHint, value: str, place: str, block: Block, surely: bool) -> None:
        block.tests.append(self.is_one_of(value, (hint.container,)))
        for part, view, wish in ((hint.key, "", "key"), (hint.element, ".values()", "item")):
            if not isinstance(part, AnyHint):
                item = self.names.fresh(f"{value}_{wish}")
                header = f"for {item} in {value}{view}:"
                self.take_within(header, part, item, f"an element of {place}", block, surely)

    @take.register
    def _(self, hint: ArrayHint, value: str, place: str, block: Block, surely: bool) -> None:
        spec = hint.spec
        if hint.classes:
            block.tests.append(self.is_one_of(value, hint.classes))
        if hint.kind is not None:
            dtypes = self.thing(f"{hint.kind.label}_dtypes", accepted_dtypes(hint.kind))
            block.tests.append(f"{value}.dtype in {dtypes}")
        equations: list[tuple[Axis, str]] = []
        targets: list[str] = []
        for k, axis in enumerate([*spec.before, *spec.after]):
            tag = None if axis.size is None or axis.broadcasts else axis.size.single_tag
            if tag is not None and surely and tag not in self.known and tag not in self.maybe:
                targets.append(self.bind(tag, place))
            else:
                targets.append(self.names.fresh(f"{value}_{k}"))
                equations.append((axis, targets[-1]))
        shape = f"{value}.shape"
        if not (hint.classes and all(map(_has_shape, hint.classes))):
            # Other things than arrays may have an attribute of this name.
            block.statements.append(f"{(kept := self.names.fresh(f'{value}_shape'))} = {shape}")
            block.tests.append(self.is_shaped(value, kept))
            shape = kept
        self.unpack(spec, value, shape, targets, place, block, surely)
        for axis, number in equations:
            if axis.size is not None:
                self.equate(axis.size, number, axis.broadcasts, place, block, surely)

    def take_within(
        self, header: str, hint: Hint, value: str, place: str, block: Block, surely: bool
    ) -> None:
        """Write what a hint asks of a value that may be absent, under a condition or a loop."""
        block.inner.append(inner := Block(header))

        def write() -> None:
            self.take(hint, value, place, inner, False)

        if surely:
            self.later.append(write)
        else:
            write()

    def unpack(
        self,
        spec: ShapeSpec,
        value: str,
        shape: str,
        targets: list[str],
        place: str,
        block: Block,
        surely: bool,
    ) -> None:
        """Write how the sizes of an array's axes come into variables."""
        rest = spec.rest
        if rest is None:
            block.statements.append(f"{listed(targets) or '()'} = {shape}")
            return
        before, after = len(spec.before), len(spec.after)
        if before or rest.name is not None:
            if "." in shape:  # it is used twice
                block.statements.append(f"{(kept := self.names.fresh(f'{value}_shape'))} = {shape}")
                shape = kept
            length = self.thing("len", len)
            block.tests.append(f"{length}({shape}) >= {before + after}")
        if before:
            block.statements.append(f"{listed(targets[:before]) or '()'} = {shape}[:{before}]")
        if after:
            block.statements.append(f"{listed(targets[before:]) or '()'} = {shape}[-{after}:]")
        if rest.broadcasts:
            block.tests.append("False")
        elif rest.name is not None:
            part = f"[{before or ''}:{-after or ''}]"
            as_tuple = self.thing("tuple", tuple)
            self.same(f"*{rest.name}", f"{as_tuple}({shape}{part})", place, block, surely)

    def is_one_of(self, value: str, classes: tuple[type, ...]) -> str:
        """The test whether a value is an instance."""
        names = [self.thing(cls.__name__, cls) for cls in classes]
        listed = names[0] if len(names) == 1 else f"({', '.join(names)})"
        return f"{self.thing('isinstance', isinstance)}({value}, {listed})"

    def is_integer(self, value: str) -> str:
        """The test whether a value is an integer, and no subclass of one."""
        return f"{self.thing('type', type)}({value}) is {self.thing('int', int)}"

    def is_shaped(self, value: str, shape: str) -> str:
        """The test whether a value that may be anything has a shape, as arrays of libraries do."""
        test = f"{self.thing('is_shaped', is_shaped)}({value}, {shape})"
        trusted = loaded_arrays()
        return f"({self.is_one_of(value, trusted)} or {test})" if trusted else test

    # -- equations

    def equate(
        self, size: Size, number: str, broadcasts: bool, place: str, block: Block, surely: bool
    ) -> None:
        """Write that a size is this number, or keep it until its tags are known."""
        tag = size.single_tag
        if broadcasts and surely:
            self.later.append(lambda: self.broadcast(tag, number, block))
        elif broadcasts:
            self.broadcast(tag, number, block)
        elif tag is not None and (tag in self.maybe or not surely):
            self.same(tag, number, place, block, surely)
        elif surely:
            self.pending.append((size, number, place))
        elif all(tag in self.known or tag in self.maybe for tag in size.tags):
            unsure = [self.maybe[tag] for tag in size.tags if tag not in self.known]
            block.tests += [f"{name} is not None" for name in unsure]
            block.tests += self.equality(size, number)
        else:
            block.tests.append("False")

    def broadcast(self, tag: str | None, number: str, block: Block) -> None:
        """Write that an axis has the size of a tag, or 1."""
        known = self.known.get(tag or "")
        block.tests.append(f"({number} == 1 or {number} == {known})" if known else "False")

    def same(self, tag: str, value: str, place: str, block: Block, surely: bool) -> None:
        """Write that a tag is this value: compared where it is bound, and bound where it is not."""
        if tag in self.known:
            block.tests.append(f"{value} == {self.known[tag]}")
        elif surely and tag not in self.maybe:
            block.statements.append(f"{self.bind(tag, place)} = {value}")
        else:
            name = self.maybe.get(tag) or self.bind(tag, place, surely=False)
            block.statements += [f"if {name} is None:", f"    {name} = {value}"]
            block.tests.append(f"{value} == {name}")
            if surely:
                self.known[tag] = name

    def solve(self, block: Block) -> None:
        """Write all that follows from the equations kept; what does not stays ``pending``."""
        while True:
            for equation in self.pending:
                size, number, place = equation
                unknown = [tag for tag in size.tags if tag not in self.known]
                if not unknown:
                    block.tests += self.equality(size, number)
                elif len(unknown) > 1 or not self.solved(size, number, unknown[0], place, block):
                    continue
                self.pending.remove(equation)
                break
            else:
                return

    def solved(self, size: Size, number: str, tag: str, place: str, block: Block) -> bool:
        """Write how the one unknown tag of an equation follows, if it is linear in it."""
        if tag in self.maybe:  # which may be known after all
            return False
        num, den = fraction(size)
        slope = rest = Size.of(0)
        for coefficient, monomial in (num - den * Size.tag(_SIZE_HERE)).terms:
            power = dict(monomial).get(tag, 0)
            part = Size(((coefficient, tuple(p for p in monomial if p[0] != tag)),))
            if power > 1:
                return False
            slope, rest = (slope + part, rest) if power else (slope, rest + part)
        if slope.constant is not None and slope.constant < 0:
            slope, rest = -slope, -rest
        here = {**self.known, _SIZE_HERE: number}
        found = self.bind(tag, place)
        if slope.constant == 1:
            block.statements.append(f"{found} = {written(-rest, here)}")
        else:
            product, factor = written(-rest, here), _operand(written(slope, here))
            block.statements.append(f"{found} = {_operand(product)} // {factor}")
            block.tests.append(f"{found}*{factor} == {product}")
        block.tests.append(f"{found} >= 0")
        block.tests += self.assumed(size)
        return True

    def equality(self, size: Size, number: str) -> list[str]:
        """The tests that a size, all of whose tags have a variable, is this number."""
        num, den = fraction(size)
        here = {**self.maybe, **self.known}
        right = number if den.constant == 1 else f"{number}*{_operand(written(den, here))}"
        return [f"{right} == {written(num, here)}", *self.assumed(size)]

    def assumed(self, size: Size) -> list[str]:
        """The tests that the divisions in a size leave no remainder."""
        here = {**self.maybe, **self.known}
        return [
            f"{_operand(written(num, here))} % {_operand(written(den, here))} == 0"
            for den, num in size.assumptions
        ]


def written(size: Size, names: dict[str, str]) -> str:
    """A polynomial as Python, each tag by its variable.

    >>> h, d_k = Size.tag("h"), Size.tag("d_k")
    >>> written(2 * h * d_k - h * h + 1, {"h": "h", "d_k": "d"})
    '2*h*d + 1 - h**2'
    """
    text = ""
    for coefficient, monomial in size.terms:
        factors = [] if abs(coefficient) == 1 and monomial else [str(abs(coefficient))]
        for tag, exponent in monomial:
            name = names[str(tag)]
            factors.append(name if exponent == 1 else f"{name}**{exponent}")
        sign = "-" if coefficient < 0 else "+"
        text += (
            f" {sign} {'*'.join(factors)}" if text else ("-" * (sign == "-")) + "*".join(factors)
        )
    return text or "0"


def tags_of(hint: Hint) -> set[str]:
    """All that a hint may bind: the tags of its arrays, their rests, and fields that are sizes."""
    found: set[str] = set()
    for one in everything_in(hint):
        if isinstance(one, ArrayHint):
            found.update(one.spec.tags)
            if one.spec.rest is not None:
                found.add(f"*{one.spec.rest.name}")
        if isinstance(one, RecordHint):
            found.update(field.name for field in one.fields if field.is_count)
    return found


def _operand(text: str) -> str:
    """An expression as a factor, in parentheses unless it is a name or a number."""
    return text if text.isalnum() or text.isidentifier() else f"({text})"


def _has_shape(kind: type) -> bool:
    """Whether the instances of a class have a shape because of their class."""
    return hasattr(kind, "shape") and not getattr(kind, "_is_protocol", False)


def _is_none(hint: Hint) -> bool:
    return isinstance(hint, PlainHint) and hint.classes == (type(None),)
