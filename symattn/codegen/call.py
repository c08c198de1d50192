"""The door of a generated function: everything that is checked before any work is done.

The generated source has no checks in it, so that it reads as the formula.  They all stand here, in
the order in which a caller understands them: which arguments, of what kind, how many axes, one
dtype, batches that broadcast, sizes that fit the tags, scalars that can be computed.  Errors name
inputs, tags and sizes, never the values in an array.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

from symattn.codegen.arrays import (
    BFLOAT16,
    LARGEST,
    as_array,
    as_number,
    check_booleans,
    check_dtype,
)
from symattn.codegen.checks import SIZE_LIMIT
from symattn.codegen.destination import Destination
from symattn.codegen.scalars import Scalars
from symattn.codegen.signature import (
    ArrayInput,
    MaskInput,
    Signature,
    has_masked_heads,
    sizes_of_masks,
)
from symattn.codegen.targets import Target
from symattn.errors import CallError, InputError, InputShapeError, SizeError
from symattn.nodes import MaxAlong, Node
from symattn.notation import text
from symattn.notation.names import identifier
from symattn.tags import Equation, Size, check_size, followed, nearest, sufficient

Shape = tuple[int, ...]
Known = tuple[tuple[str, int], ...]
"""The sizes that are given by name."""

_MOST_TRANSPOSED = 8  # inputs among which a transposed one is looked for, to explain an error
_REMEMBERED = 256  # shapes of earlier calls, which need no checking
_WORDS = ("none", "one", "two", "three", "four", "five", "six")


_SAME_FOR_ALL = "for the same keys for every query, write sa.padding() in the formula"


def _counted(axes: int) -> str:
    """Return a number of axes in words, as long as it is small."""
    return _WORDS[axes] if axes < len(_WORDS) else str(axes)


def _turned(shape: Shape) -> Shape:
    """Return the shape of transposed matrices."""
    return (*shape[:-2], *shape[:-3:-1])


def _heads_apart(item: ArrayInput, shape: Shape) -> str:
    """Return the words for one array that holds the weights of all heads side by side."""
    if len(shape) < 2 or len(item.axes) < 3:
        return ""
    *counts, rows, columns = map(str, item.axes)
    heads = ", ".join(counts)
    side_by_side = f"{item.name}.reshape({rows}, {heads}, {columns})"
    moved = (
        f"moveaxis({side_by_side}, 0, -2)" if len(counts) > 1 else f"{side_by_side}.swapaxes(0, 1)"
    )
    return (
        f"{item.name} has one matrix for each head; of one array, with the heads on top of each "
        f"other it is {item.name}.reshape({heads}, {rows}, {columns}), side by side {moved}"
    )


class Door:
    """Checks the arguments of one generated function; threads may share what it remembers."""

    def __init__(self, signature: Signature, result: Node, target: Target, call: str) -> None:
        self.signature = signature
        self.target = target
        self.destination = Destination(result, signature.shaped)
        self.positive = sizes_of_masks(result, signature.shaped)
        self.call = call
        self.scalars = Scalars(result)
        self.maxima = tuple(node for node in result.walk() if isinstance(node, MaxAlong))
        self.has_heads = has_masked_heads(result)
        self.arrays = signature.arrays
        self.numbers = signature.numbers
        self.masks = signature.masks
        self.shaped = signature.shaped
        self.ranks = tuple(len(item.axes) for item in self.shaped)
        self.positional = signature.positional
        self.ordered = tuple(item.name for item in signature.inputs)
        self.parameters = (*self.ordered, *(item.name for item in self.masks))
        self.tags = {
            name: tag for tag in signature.tags if (name := identifier(tag)) not in self.parameters
        }
        self.takes_out = self.is_free("out")
        self.relations = tuple(
            Equation(Size.tag(tag) - size, 0, f"the relation {tag} = {size}")
            for tag, size in signature.relations
        )
        # Calls repeat with the same shapes: what follows from those is remembered.
        self.sizes = lru_cache(maxsize=_REMEMBERED)(self.checked_sizes)
        self.array: type | None = None  # what all arguments are, where shapes alone are checked
        self.let_in: dict[tuple[tuple[Shape, Any], ...], Mapping[str, int]] = {}

    def __call__(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any = None
    ) -> tuple[list[Any], dict[str, Any], Mapping[str, int]]:
        """Return the arguments in calling order, those of masks, and all sizes, or raise.

        ``out`` is the array that the result is to be written to, if there is one.
        """
        # For one query these checks take as long as a tenth of the work, which drives what they
        # read out of the cache: arrays like those of an earlier call go straight through.
        kind = self.array if out is None and not kwargs else None
        alike = None
        if kind is not None and all(type(x) is kind for x in args):
            alike = tuple([(x.shape, x.dtype) for x in args])
            sizes = self.let_in.get(alike)
            if sizes is not None:
                return list(args), {}, sizes
        library = self.target.load()
        if not (self.masks or self.numbers):
            self.array = library.ndarray
        given, known = self.bound(args, kwargs)
        for item in self.arrays:
            given[item.name] = as_array(item.name, given[item.name], self.target, library)
        for item in self.masks:
            value = as_array(item.name, given[item.name], self.target, library, booleans=True)
            check_booleans(item.name, value, self.target)
            given[item.name] = value
        shapes = tuple(given[item.name].shape for item in self.shaped)
        self.check_ranks(shapes)
        dtype = self.check_dtypes({item.name: given[item.name] for item in self.arrays})
        for item in self.numbers:
            given[item.name] = as_number(item, given[item.name])
        numbers = tuple(given[item.name] for item in self.numbers)
        sizes = self.sizes(shapes, known, numbers, LARGEST[dtype])
        masks = {item.name: given[item.name] for item in self.masks}
        if out is not None:
            self.destination.check(out, given, sizes, dtype, self.target)
        if alike is not None:
            if len(self.let_in) >= _REMEMBERED:
                self.let_in.clear()
            self.let_in[alike] = sizes
        return [given[name] for name in self.ordered], masks, sizes

    def checked_sizes(
        self,
        shapes: tuple[Shape, ...],
        known: Known,
        numbers: tuple[float, ...],
        largest: float,
    ) -> Mapping[str, int]:
        """Return the size of every tag, or raise for shapes and scalars that do not fit."""
        self.check_batches(shapes)
        axes = tuple(
            shape[len(shape) - rank :] for shape, rank in zip(shapes, self.ranks, strict=True)
        )
        try:
            sizes = self.sizes_of(axes, known)
        except SizeError as error:
            raise self.explained(str(error), shapes, axes, known) from None
        for tag, size in sizes.items():
            if size >= SIZE_LIMIT:
                raise SizeError("beyond", tag=tag, value=size)
        for size in self.positive:
            if size.value(sizes) < 1:
                raise SizeError("positive", tag=str(size), value=size.value(sizes))
        self.check_maxima(sizes)
        names = (item.symbol.name for item in self.numbers)
        self.scalars.check(sizes, dict(zip(names, numbers, strict=True)), largest)
        return sizes

    def is_free(self, name: str) -> bool:
        """Tell whether a keyword is neither an input nor a size, and can say something else."""
        return name not in self.parameters and name not in self.tags

    # Arguments.

    def bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], Known]:
        """Return the argument for each parameter, and the sizes that are given by name."""
        if len(args) > len(self.positional):
            takes = f"takes {len(self.positional)} inputs by position"
            raise CallError(self.call, f"{takes}, but {len(args)} are given")
        given = dict(zip(self.positional, args, strict=False))
        known: dict[str, int] = {}
        for name, value in kwargs.items():
            if name in given:
                raise CallError(self.call, f"{name} is given twice")
            if name in self.parameters:
                given[name] = value
            elif name in self.tags:
                shown = repr(value) if isinstance(value, str) else value
                least = 1 if Size.tag(self.tags[name]) in self.positive else 0
                known[self.tags[name]] = check_size(name, shown, least)
            else:
                near = nearest(name, [*self.parameters, *self.tags])
                meant = f"; did you mean {' or '.join(near)}?" if near else ""
                raise CallError(self.call, f"there is no input named {name}{meant}")
        missing = [name for name in self.parameters if name not in given]
        if missing:
            are = "is" if len(missing) == 1 else "are"
            raise CallError(self.call, f"{' and '.join(missing)} {are} missing")
        return given, tuple(sorted(known.items()))

    # Arrays, each by itself and together.

    def check_ranks(self, shapes: Sequence[Shape]) -> None:
        """Raise unless every array has the axes of its input."""
        for item, rank, shape in zip(self.shaped, self.ranks, shapes, strict=True):
            if len(shape) < rank:
                least = f"{_counted(rank)} {'axis' if rank == 1 else 'axes'}"
                problem = f"{item.name} needs at least {least}, but has {_counted(len(shape))}"
                hint = (
                    _heads_apart(item, shape)
                    if isinstance(item, ArrayInput)
                    else _SAME_FOR_ALL * (len(shape) == 1)
                )
                raise InputShapeError(problem, ((item.name, item.axes_text, shape),), hint)

    def check_dtypes(self, values: Mapping[str, Any]) -> str:
        """Return the one dtype that all arrays have, or raise."""
        dtypes = {name: check_dtype(name, value, self.target) for name, value in values.items()}
        first = next(iter(dtypes), "")
        for name, dtype in dtypes.items():
            if dtype != dtypes[first]:
                own = f"{self.target.alias}.{dtypes[first]}"
                cast = f"{name}.astype({f'{first}.dtype' if dtypes[first] == BFLOAT16 else own})"
                found = f"{dtype}, but {first} is {dtypes[first]}"
                raise InputError(name, found, cast, "all inputs in one dtype")
        return dtypes.get(first, "float64")

    def check_batches(self, shapes: Sequence[Shape]) -> None:
        """Raise unless the leading axes of all inputs broadcast."""
        self.check_masks_of_heads(shapes)
        batches = [
            (item, shape[: len(shape) - rank])
            for item, rank, shape in zip(self.shaped, self.ranks, shapes, strict=True)
        ]
        sized: dict[int, tuple[ArrayInput | MaskInput, Shape, int]] = {}
        for item, batch in batches:
            for back, size in enumerate(reversed(batch)):
                if size == 1:
                    continue
                other, other_batch, other_size = sized.setdefault(back, (item, batch, size))
                if other_size != size:
                    raise InputShapeError(
                        f"the leading axes {other_batch} of {other.name} and {batch} of "
                        f"{item.name} do not broadcast",
                        self.described(shapes),
                    )

    def check_masks_of_heads(self, shapes: Sequence[Shape]) -> None:
        """Raise for a mask with an axis of heads, as other libraries want: (batch, 1, n, m)."""
        count = len(self.arrays)
        leading = [len(s) - rank for s, rank in zip(shapes, self.ranks, strict=True)]
        most = max(leading[:count], default=0)
        for item, shape, axes in zip(self.masks, shapes[count:], leading[count:], strict=True):
            if self.has_heads and axes > most > 0 and shape[axes - 1] == 1:
                problem = f"{item.name} is the same for every head, and has no axis of heads"
                raise InputShapeError(problem, self.described(shapes))

    def described(self, shapes: Sequence[Shape]) -> tuple[tuple[str, str, Shape], ...]:
        """Return every array's name, axes and shape, for errors."""
        return tuple(
            (item.name, item.axes_text, shape)
            for item, shape in zip(self.shaped, shapes, strict=True)
        )

    # Sizes.

    def sizes_of(
        self, axes: Sequence[Shape], known: Known, without: int | None = None
    ) -> Mapping[str, int]:
        """Return the size of every tag, from the last axes of the arrays and sizes by name.

        ``without`` is the number of an array that is left out.
        """
        equations = [
            Equation(size, value, place)
            for k, (item, shape) in enumerate(zip(self.shaped, axes, strict=True))
            if k != without
            for size, value, place in zip(item.axes, shape, item.places, strict=True)
        ]
        equations += self.relations
        found = followed(equations, dict(known))
        sizes = dict(known) | {tag: size for tag, (size, _) in found.items()}
        unknown = [tag for tag in self.signature.tags if tag not in sizes]
        if unknown:
            enough = sufficient((equation.size for equation in equations), sizes, unknown)
            raise SizeError("underdetermined", tags=unknown, enough=enough)
        return sizes

    def explained(
        self,
        problem: str,
        shapes: Sequence[Shape],
        axes: tuple[Shape, ...],
        known: Known,
    ) -> InputShapeError:
        """Return the error for sizes that do not fit, with the transposes that would."""
        hint = ""
        for turned in self.transposes(axes):
            try:
                self.sizes_of(
                    tuple(_turned(s) if k in turned else s for k, s in enumerate(axes)), known
                )
            except SizeError:
                continue
            hint = self.turned_hint(turned, shapes)
            break
        hint = hint or self.repeated_hint(shapes, axes, known)
        relations = "; ".join(equation.where for equation in self.relations)
        if relations and relations not in problem:
            problem = f"{problem} ({relations})"
        return InputShapeError(problem, self.described(shapes), hint)

    def transposes(self, axes: Sequence[Shape]) -> Iterator[tuple[int, ...]]:
        """Yield the sets of matrices that may have been given transposed, small ones first."""
        matrices = [k for k, shape in enumerate(axes) if len(shape) > 1 and shape[-2] != shape[-1]]
        if len(matrices) <= _MOST_TRANSPOSED:
            for count in range(1, len(matrices) + 1):
                yield from combinations(matrices, count)

    def turned_hint(self, turned: Sequence[int], shapes: Sequence[Shape]) -> str:
        """Return the words for matrices that fit when they are transposed."""
        arrays = [self.shaped[k] for k in turned]
        fits = [
            f"{item.name} has shape {shapes[k]}, which fits {item.name}ᵀ"
            for k, item in zip(turned, arrays, strict=True)
        ]
        layout = self.signature.layout
        where = (
            f"this formula is in the {layout} layout" if layout else "see the axes of each input"
        )
        return f"{', '.join(fits)}; {where}"

    def repeated_hint(self, shapes: Sequence[Shape], axes: Sequence[Shape], known: Known) -> str:
        """Return the words for the array of a mask that fits when it is repeated."""
        for k, item in enumerate(self.shaped):
            if not isinstance(item, MaskInput) or 1 not in axes[k]:
                continue
            try:
                sizes = self.sizes_of(axes, known, without=k)
            except SizeError:
                continue
            wanted = tuple(size.value(sizes) for size in item.axes)
            if all(given in (1, size) for given, size in zip(axes[k], wanted, strict=True)):
                whole = (*shapes[k][: -len(wanted)], *wanted)
                hint = f"give {self.target.alias}.broadcast_to({item.name}, {whole})"
                same_for_all = len(wanted) == 2 and axes[k][0] == 1
                return f"{hint}; {_SAME_FOR_ALL}" if same_for_all else hint
        return ""

    def check_maxima(self, sizes: Mapping[str, int]) -> None:
        """Raise for a maximum along an axis without entries."""
        for node in self.maxima:
            if node.over.value(sizes) == 0:
                raise SizeError(
                    "inconsistent",
                    size=str(node.over),
                    value=0,
                    where="the shapes",
                    detail=f"{text(node)} is a maximum of nothing",
                )
