"""From arrays that do not fit to an error that says who is to blame, why, and what would fit.

The culprits are the fewest arguments without which all the rest fits (`culprits`); where there are
several such sets, the message says that the sizes cannot tell.  Inside a list or a record the same
question is asked again of its elements.  Then changes are tried (`remedies`), and one that makes
the whole call fit may also say what happened: a transposition, a swap.

An error that explains must not hide the error that it explains: `explain` never raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from symattn.errors import ShapeCheckError, SymattnError, TypeCheckError
from symattn.errors.checks import shape_text
from symattn.runtime.declared.hints import ArrayHint, Count, Item, Met, Misfit
from symattn.runtime.judging.culprits import MOST_NAMES, Blame, blame, by_argument, by_place
from symattn.runtime.judging.equations import Bound, settle
from symattn.runtime.judging.remedies import (
    GIVEN_BACK,
    Call,
    Remedy,
    all_transposed,
    remedy_at,
    swaps,
)
from symattn.runtime.judging.rows import MOST_ROWS, Row, rows_of, sizes_of
from symattn.runtime.judging.wording import (
    Break,
    array_hint,
    breaks,
    expected,
    listed,
    misfit_line,
    name_text,
)

_MOST_NAMES = 4
_MOST_SETS = 6
_MOST_LINES = 6
_MOST_TOLD = 12

_UNKNOWN = "the shapes of its arrays do not fit what is declared"


def explain(
    function: str,
    items: Sequence[Item],
    known: Mapping[str, Bound],
    suspects: Sequence[str],
) -> SymattnError:
    """The error to raise for arrays that do not fit; suspects are the arguments to ask about."""
    try:
        call = Call.of(items, dict(known))
        return _Case(name_text(function), call, tuple(suspects)).error()
    except Exception:  # a fault of an explanation; the call is wrong all the same
        return ShapeCheckError(name_text(function), _UNKNOWN, _plain_rows(items))


def _plain_rows(items: Sequence[Item]) -> list[Row]:
    arrays = [item for item in items if isinstance(item, Met)]
    return [(name_text(a.place.text), a.hint.spec.text, a.shape) for a in arrays[:MOST_ROWS]]


@dataclass(frozen=True)
class _Case:
    """One call that does not fit, and what is found out about it."""

    function: str
    call: Call
    suspects: tuple[str, ...]

    def error(self) -> SymattnError:
        """The error, composed."""
        told = self.told
        problem, *also = told if told is not None else list(self.problems())
        fixes = [", ".join(remedy.texts) for remedy in self.remedies]
        misfit = self.first_misfit
        if misfit is not None and misfit.kind != "rank" and told is None:
            also = [line for line in (problem, *also) if line != misfit_line(misfit)]
            place = name_text(misfit.place.text)
            return TypeCheckError(
                self.function, place, misfit.wanted, misfit.got, fixes, kind=misfit.kind, also=also
            )
        return ShapeCheckError(
            self.function,
            problem,
            self.rows,
            self.culprits,
            self.bindings,
            fixes,
            also=also,
            note=self.note,
            marked=[name_text(place) for place in self.marked],
            culprit_sets=self.blame.whole_sets,
        )

    # -- who

    @cached_property
    def blame(self) -> Blame:
        """The arguments to blame."""
        return blame(self.call.items, self.call.known, self.suspects)

    @property
    def culprits(self) -> tuple[str, ...]:
        """Everyone who may be to blame, those too whom the told story is about."""
        told = () if self.story is None else self.story.places
        told = told if self.blame.names else self.marked
        arguments = {by_place(item): by_argument(item) for item in self.call.items}
        return tuple(dict.fromkeys((*self.blame.names, *(arguments[place] for place in told))))

    @cached_property
    def alternatives(self) -> tuple[tuple[str, ...], ...]:
        """The sets of arguments, as sets of places: in a list, only the elements that are wrong.

        There are none where a search was cut short.
        """
        found: dict[tuple[str, ...], None] = {}
        for names in self.blame.whole_sets[:_MOST_SETS]:
            places = dict.fromkeys(
                by_place(item) for item in self.call.items if by_argument(item) in names
            )
            if len(places) == len(names):
                found[tuple(places)] = None
                continue
            if len(places) > MOST_NAMES:
                return ()
            inner = blame(self.call.items, self.call.known, places, by_place, self.call.weights)
            if not inner.complete:
                return ()
            found |= dict.fromkeys(inner.whole_sets[:_MOST_SETS])
        return tuple(found) if self.blame.complete else ()

    @cached_property
    def places(self) -> tuple[str, ...]:
        """Every place that may be wrong."""
        return tuple(dict.fromkeys(place for places in self.alternatives for place in places))

    @cached_property
    def certain(self) -> tuple[str, ...]:
        """The places that are wrong in every alternative."""
        return tuple(
            place for place in self.places if all(place in others for others in self.alternatives)
        )

    @property
    def marked(self) -> tuple[str, ...]:
        """The places that are pointed at."""
        if not self.alternatives and self.a_break is not None:
            return (self.a_break.place.text,)
        return self.places if self.story is None else self.story.places

    @cached_property
    def a_break(self) -> Break | None:
        """The first contradiction that one meets, where there are too many to tell who it is."""
        arrays = [item for item in self.call.items if isinstance(item, Met)]
        return next(breaks(arrays, self.call.known), None)

    # -- what would fit

    @cached_property
    def remedies(self) -> tuple[Remedy, ...]:
        """The changes to offer: one, or one for each alternative; a swap where it is simpler."""
        if len(self.call.items) > MOST_NAMES:
            return ()
        single = [remedy_at(self.call, places) for places in self.alternatives]
        found = [remedy for remedy in single if remedy is not None]
        fewest = min((len(places) for places in self.alternatives), default=0)
        if not found or fewest > 1:
            found = swaps(self.call, self.blame.names, self.suspects) or found
        counts = {by_place(item) for item in self.call.items if isinstance(item, Count)}
        if not found and counts.isdisjoint(self.places):
            turned = all_transposed(self.call, self.suspects)
            found = [turned] if turned is not None else []
        return tuple(found)

    @cached_property
    def story(self) -> Remedy | None:
        """The one change that says what happened, if there is one."""
        if len(self.remedies) != 1 or self.remedies[0].kind not in _STORIES:
            return None
        story = self.remedies[0]
        counts = {by_place(item) for item in self.call.items if isinstance(item, Count)}
        if not counts.isdisjoint(self.places):  # the integer may as well be wrong
            return None
        return None if any(_is_given_back(place) for place in story.places) else story

    @cached_property
    def told(self) -> list[str] | None:
        """What happened, where a change says it."""
        if self.story is None:
            return None
        arrays = [self.array(place) for place in self.story.places]
        found = [array for array in arrays if array is not None]
        sizes = settle([i for i in self.story.items if not isinstance(i, Misfit)], self.call.known)
        if len(found) < len(arrays) or sizes is None:
            return None
        names = listed([name_text(place) for place in self.story.places], "and")
        wanted = [f"{hint.spec.text} is {expected(hint.spec, sizes)}" for _, hint in found]
        said = listed(wanted, "and")
        if len(found) == 1:
            said = f"its shape is {shape_text(found[0][0].shape or ())}, but {said}"
        one, several = _STORIES[self.story.kind]
        return [f"{names} {one if len(found) == 1 else several}: {said}"]

    # -- what is wrong

    def problems(self) -> Iterator[str]:
        """What is wrong, a line for each place, and one where the sizes cannot tell."""
        if not self.places:
            misfit = self.first_misfit
            broken = "" if self.a_break is None else self.a_break.text
            yield misfit_line(misfit) if misfit is not None else broken or _UNKNOWN
            return
        # A value of another type is what the error is about.
        first = self.first_misfit
        about = "" if first is None or first.kind == "rank" else first.place.text
        places = sorted(self.certain, key=lambda place: place != about)
        for place in places[:_MOST_LINES]:
            yield self.problem_at(place, self.alternatives[0])[0]
            alike = self.call.weights[place] - 1
            if alike:
                yield f"{alike} more in {self.argument(place)} are like {name_text(place)}"
        more = self.call.weights.total(places[_MOST_LINES:])
        if more:
            yield f"{more} more {'is' if more == 1 else 'are'} wrong"
        if len(self.alternatives) > 1:
            yield self.either()

    @property
    def note(self) -> str:
        if not self.alternatives or self.call.unseen:
            return "others may be wrong: not all combinations were tried"
        if self.story is not None or len(self.alternatives) < 2:
            return ""
        if any(len(places) > 1 for places in self.doubtful):
            return "the sizes cannot tell which"
        either = "either" if len(self.alternatives) == 2 else "each"
        return f"{either} could be wrong: the sizes cannot tell"

    @cached_property
    def doubtful(self) -> tuple[tuple[str, ...], ...]:
        """The alternatives, without those who are wrong in all."""
        return tuple(
            tuple(place for place in places if place not in self.certain)
            for places in self.alternatives
        )

    def either(self) -> str:
        """What is wrong where one of several is to blame."""
        sizes = {len(places) for places in self.doubtful}
        if len(sizes) == 1:
            everyone = dict.fromkeys(place for places in self.doubtful for place in places)
            fewest, names = sizes.pop(), self.names(list(everyone))
            who = listed(names, "or") if fewest == 1 else f"{fewest} of {listed(names, 'and')}"
        else:  # one that stands for many, or some of which each stands for few
            fewest = max(sizes)
            sets = [listed(self.names(places), "and") for places in self.doubtful]
            who = ", or ".join(sets[:_MOST_NAMES])
        verb = "is" if fewest == 1 else "are"
        # The last one that an axis can be named for.
        told = (
            (place, *self.problem_at(place, places))
            for places, names in reversed(list(zip(self.alternatives, self.doubtful, strict=True)))
            for place in reversed(names)
        )
        first, *others = islice(told, _MOST_TOLD)
        place, text, broken = next((one for one in (first, *others) if one[2] is not None), first)
        if broken is not None and broken.tag is not None and broken.bound is not None:
            (size, where), tag = broken.bound, broken.tag
            if where != place:
                by = f" by {name_text(where)}" if where != tag else ""
                text = f"{tag} = {size}{by}, but {broken.got} by {name_text(place)}"
        return f"{who} {verb} wrong: {text}"

    def names(self, places: Sequence[str]) -> list[str]:
        """What places are called in a row, of many the first."""
        alike = [self.call.weights[place] - 1 for place in places]
        names = [
            name_text(place) + (f" (and {more} like it)" if more else "")
            for place, more in zip(places, alike, strict=True)
        ]
        return names[:_MOST_NAMES] + (["others"] if len(names) > _MOST_NAMES else [])

    def argument(self, place: str) -> str:
        """The argument in which a place is."""
        return name_text(by_argument(self.call.items[self.call.at([place])[0]]))

    def problem_at(self, place: str, left_out: Sequence[str]) -> tuple[str, Break | None]:
        """What is wrong at a place, by all that is not left out."""
        items = [self.call.items[at] for at in self.call.at([place])]
        misfits = [item for item in items if isinstance(item, Misfit)]
        if misfits:
            return misfit_line(misfits[0]), None
        others = self.call.without(left_out) or {}
        first = items[0]
        if isinstance(first, Count):
            return self.count_problem(first, others), None
        arrays = [item for item in items if isinstance(item, Met)]
        found = list(breaks(arrays, others))
        name, shape = name_text(place), shape_text(arrays[0].shape)
        spec, want = arrays[0].hint.spec, expected(arrays[0].hint.spec, others)
        if len(found) == 1 and (
            not _is_given_back(place) or spec.rest is not None or found[0].tag is None
        ):
            return found[0].text, found[0]
        if not found:
            return f"{name} has shape {shape}, but no sizes fit {spec.text} and the others", None
        return f"{name} has shape {shape}, but {spec.text} is {want}", found[0]

    def count_problem(self, count: Count, others: Mapping[str, Bound]) -> str:
        """What is wrong with an integer."""
        name = name_text(count.place.text)
        if count.tag in others:
            size, where = others[count.tag]
            named = "" if name == count.tag else f"{count.tag} = "
            return f"{name} = {count.value}, but {named}{size} by {name_text(where)}"
        if count.value < 0:
            return f"{name} = {count.value} is no size"
        sizes = {**others, count.tag: (count.value, count.place.text)}
        arrays = [item for item in self.call.items if isinstance(item, Met)]
        found = next(breaks(arrays, sizes), None)
        return found.text if found else f"{name} = {count.value} does not fit the others"

    # -- what is shown

    @property
    def first_misfit(self) -> Misfit | None:
        """A value of another type, if there is any, before one of another number of axes."""
        misfits = [item for item in self.call.items if isinstance(item, Misfit)]
        return next(iter(sorted(misfits, key=lambda item: item.kind == "rank")), None)

    def array(self, place: str) -> tuple[Met | Misfit, ArrayHint] | None:
        """The array at a place, with what is declared for it."""
        for at in self.call.at([place]):
            item = self.call.items[at]
            hint = None if isinstance(item, Count) else array_hint(item.hint)
            if hint is not None and not isinstance(item, Count):
                return item, hint
        return None

    @property
    def bindings(self) -> dict[str, tuple[object, str]]:
        """The sizes that are shown, with the names of where they come from."""
        return {tag: (size, name_text(where)) for tag, (size, where) in self.bound.items()}

    @cached_property
    def bound(self) -> dict[str, tuple[object, str]]:
        """The sizes that follow without the culprits; if they are many, those that concern them."""
        arrays = [self.array(place) for place in self.marked]
        own = [array[1] for array in arrays if array is not None]
        return sizes_of(self.call, self.marked, own)

    @property
    def rows(self) -> list[Row]:
        """Every array with its declared and its own shape; of many, those that say something."""
        bound = {where for _, where in self.bound.values()}
        if not self.alternatives and self.a_break is not None and self.a_break.bound is not None:
            bound.add(self.a_break.bound[1])
        return rows_of(self.call, set(self.marked), bound)


_STORIES = {
    "transposed": ("looks transposed", "look transposed"),
    "reordered": ("has its axes in another order", "have their axes in another order"),
    "swapped": ("", "look swapped"),
}
"""The changes that say what happened, for one array and for several."""


def _is_given_back(place: str) -> bool:
    """Whether this is (in) what the function made, and no argument."""
    return place.startswith(tuple(GIVEN_BACK))
