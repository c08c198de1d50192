"""The straight line and the slow way: the same verdict, the same sizes, and nothing run in vain.

Each random call is judged three times: by the decorated function, by the slow way alone, and by an
oracle that tries all sizes.  A body that records shows that it does not run after a refusal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Annotated, Any

import numpy as np
from hypothesis import HealthCheck, given, settings, strategies as st

import symattn as sa
from symattn.runtime.current import owner_of, sizes_of
from symattn.runtime.judging.equations import shown
from tests.runtime.oracle import is_solution, judged
from tests.runtime.random_calls import Signature, corrupted, drawn_solution
from tests.runtime.random_types import Arr, Counted, Sizes, drawn_composite, drawn_type, tags_of

REFUSALS = (sa.ShapeCheckError, sa.TypeCheckError, sa.SpecError)

COUNTS: Counter[str] = Counter()
"""Which way the calls went: a test that only ever goes one way shows nothing."""


class Body:
    """It records the sizes that it sees, and gives back what it is told to."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.result: Any = None

    def __call__(self) -> Any:
        try:
            self.seen.append(dict(sa.bindings()))
        except sa.NoBindingsError:  # an unchecked constructor
            self.seen.append({})
        return self.result


def run(started: Any) -> Any:
    """What a coroutine or a generator gives back."""
    while True:
        try:
            started.send(None)
        except StopIteration as stop:
            return stop.value


FUNCTIONS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "plain": ("def f({}):\n    return BODY()\n", lambda got: got),
    "coroutine": ("async def f({}):\n    return BODY()\n", run),
    "generator": ("def f({}):\n    yield 1\n    return BODY()\n", run),
}

CLASS = """
class K({base}):
    def __init__({init}):
        self.attribute = {attribute}
        super().__init__()
        BODY()
    def m({method}):
        return BODY()
"""


def verdict(check: Callable[..., Any], *values: Any) -> tuple[bool, Any]:
    """Whether a check accepts, with what it gives back, or its error."""
    try:
        return True, check(*values)
    except REFUSALS as error:
        return False, error


def plain_sizes(sizes: Mapping[str, Any]) -> dict[str, int]:
    return {tag: size for tag, (size, _) in sizes.items() if not tag.startswith("*")}


@dataclass
class Compared:
    """A checked function: its signature, its result, its body, and its slow way."""

    signature: Signature
    result: Any
    body: Body
    slow_way: Any
    held: dict[str, int] = field(default_factory=dict[str, int])

    def compare(self, r: Random, call: Callable[..., Any], me: Any = None) -> None:
        """Draw a call, perhaps a wrong one, and compare all verdicts."""
        signature, body, result = self.signature, self.body, self.result
        values = signature.values(wrong=r.choice([0, 0, 1, 1, 1, 2]))
        given = (*([] if me is None else [me]), *values.values())
        body.seen.clear()
        body.result = None
        if result is not None:
            body.result = result.value(r, signature.truth, signature.batch)
            if r.random() < 0.4:
                body.result = corrupted(r, body.result)
        source = self.slow_way.source.text
        about = f"\n{signature.types}\n{source}\n{self.held} {values}\nresult: {body.result}"

        # The slow way and the oracle.
        accepts, sizes = verdict(self.slow_way.arguments, given)
        referred = signature.referred(values, me)
        known = {**self.held, **(referred or {})}
        every = signature.every
        alternatives = signature.alternatives(values, every) if referred is not None else []
        if judged(alternatives, known):
            assert accepts or "cannot be told" in str(sizes), f"refused, but right: {sizes}{about}"
        fits, error = accepts, sizes
        if accepts:
            assert is_solution(plain_sizes(sizes), alternatives), f"{sizes}{about}"
            fits, error = verdict(self.slow_way.result, body.result, given, sizes, {})
        if accepts and result is not None and (len(alternatives) == 1 or "batch" not in str(sizes)):
            found = {**known, **plain_sizes(sizes)}
            more = result.alternatives(body.result, every)
            both = [one + new for one in alternatives for new in more]
            batch: Any = shown(sizes)["batch"][0] if "*batch" in sizes else None
            if judged(both, found, batch):
                assert fits, f"its result refused, but right: {error}{about}"
            elif fits:
                assert both, f"its result taken, but of another type{about}"
                assert not is_settled(both, found), f"its result taken, but wrong{about}"

        # As it is called.
        slowly = counted(self.slow_way, "arguments"), counted(self.slow_way, "result")
        passes, got = verdict(signature.call, call, values)
        del self.slow_way.arguments, self.slow_way.result
        assert passes == fits, f"called: {passes} {got}; slowly: {fits} {error}{about}"
        assert len(body.seen) == accepts, f"run in vain{about}"
        if accepts:
            expected = {tag.lstrip("*"): size for tag, (size, _) in shown(sizes).items()}
            assert body.seen == [expected], f"{body.seen}, but slowly {expected}{about}"
        if passes:
            assert got is body.result
        else:
            assert type(got) is type(error)
        if not accepts:  # a result's message may name another place that a size comes from
            assert str(got) == str(error), f"{got}\n{error}{about}"
        COUNTS[f"arguments {accepts}, {'slow' if slowly[0] else 'fast'}"] += 1
        if accepts and result is not None:
            COUNTS[f"result {fits}, {'slow' if slowly[1] else 'fast'}"] += 1


def is_settled(alternatives: list[Any], known: Sizes) -> bool:
    """Whether every tag is known, or is an axis by itself: nothing may stay open then."""
    asked = [one for alternative in alternatives for one in alternative if one[0] == "size"]
    plain = {size for _, size, _ in asked if isinstance(size, str)}
    return all(tags_of(size) <= {*known, *plain} for _, size, _ in asked)


def counted(checked: Any, name: str) -> list[int]:
    """Count from now on how often a check goes the slow way."""
    calls: list[int] = []
    inner = getattr(checked, name)

    def counting(*given: Any) -> Any:
        calls.append(1)
        return inner(*given)

    setattr(checked, name, counting)
    return calls


def drawn_result(r: Random, truth: Sizes) -> Any:
    """The type of a result, or None: nothing is declared of it."""
    draw = r.choice([lambda *_: None, lambda *_: None, drawn_type, drawn_type, drawn_composite])
    return draw(r, truth)


def check_function(r: Random) -> None:
    signature = Signature(r, *drawn_solution(r))
    kind = r.choice(["plain", "plain", "plain", "coroutine", "generator"])
    result = drawn_result(r, signature.truth)
    body = Body()
    names: dict[str, Any] = {"BODY": body, "DEFAULTS": signature.defaults}
    source, finish = FUNCTIONS[kind]
    exec(source.format(signature.source()), names)
    annotations = signature.annotations()
    if result is not None:
        inner = result.annotation()
        annotations["return"] = Generator[Any, Any, inner] if kind == "generator" else inner
    spec = by_spec(r, signature, annotations)
    names["f"].__annotations__ = annotations
    is_checked, checked = verdict(sa.shapecheck(spec) if spec else sa.shapecheck, names["f"])
    if not is_checked:
        COUNTS["refused at once"] += 1
        return
    signature.every = signature.tags() | (result.tags() if result is not None else set())
    compared = Compared(signature, result, body, checked.__shapecheck__)
    for _ in range(4):
        compared.compare(r, lambda *args, **by_name: finish(checked(*args, **by_name)))


def by_spec(r: Random, signature: Signature, annotations: dict[str, Any]) -> str:
    """Sometimes, the shapes of some parameters in a spec, and not in their annotations."""
    if r.random() < 0.7:
        return ""
    parts: list[str] = []
    for name, declared in signature.types.items():
        if isinstance(declared, Arr) and declared.kind is None and declared.like is np.ndarray:
            annotations[name] = np.ndarray
            if r.random() < 0.5:
                del annotations[name]
                declared.like = object
            parts.append(f"{name}: {declared.text() or '()'}")
    return ", ".join(parts)


def base_class(tag: str, size: int) -> type:
    """A class whose constructor, which a subclass calls, binds one size."""
    W = np.zeros(size)

    class Base:
        @sa.shapecheck
        def __init__(self, W: Annotated[np.ndarray, tag] = W) -> None:
            pass

    return Base


def check_methods(r: Random) -> None:
    """A class whose constructor binds sizes that its method uses."""
    truth, batch = drawn_solution(r)
    one, two = Signature(r, truth, batch, "self"), Signature(r, truth, batch, "self")
    while any("self" in tag for tag in one.references):  # a constructor has no attributes yet
        one = Signature(r, truth, batch, "self")
    result = drawn_result(r, two.truth)
    attribute = two.references.get("{self.attribute}", 3)
    base: dict[str, int] = dict(r.sample(sorted(truth.items()), 1)) if r.random() < 0.3 else {}
    body = Body()
    names: dict[str, Any] = {
        "BODY": body,
        "DEFAULTS": dict.fromkeys([*one.defaults, *two.defaults]),
        "Base": base_class(*next(iter(base.items()))) if base else object,
    }
    source = CLASS.format(base="Base", init=one.source(), method=two.source(), attribute=attribute)
    exec(source, names)
    cls = K = names["K"]
    K.__init__.__annotations__ = one.annotations()
    K.m.__annotations__ = two.annotations()
    if result is not None:
        K.m.__annotations__["return"] = result.annotation()
    try:
        if r.random() < 0.6:
            sa.shapecheck(K)
        else:
            K.__init__ = sa.shapecheck(K.__init__) if r.random() < 0.7 else K.__init__
            K.m = sa.shapecheck(K.m)
    except sa.SpecError:
        COUNTS["refused at once"] += 1
        return
    if r.random() < 0.3:
        inner = K.__init__
        own = {"__init__": lambda me, *args, **by_name: inner(me, *args, **by_name)}
        cls = type("Sub", (K,), own if r.random() < 0.5 else {})
    one.every = one.tags()
    two.every = two.tags() | (result.tags() if result is not None else set())
    for _ in range(2):
        me = construct(r, one, cls, getattr(K.__init__, "__shapecheck__", None), body, base)
        slow_way = getattr(K.m, "__shapecheck__", None)
        if me is not None and slow_way is not None:
            held = plain_sizes(sizes_of(me, owner_of(K)) or {})
            for _ in range(3):
                me.attribute = r.choice([*[attribute] * 8, attribute + 1, -1, "1"])
                Compared(two, result, body, slow_way, held).compare(r, me.m, me)


def construct(
    r: Random, signature: Signature, cls: Any, slow_way: Any, body: Body, base: Sizes
) -> Any:
    """An instance, whose sizes are those of the slow way and of its base; None if it is refused."""
    values = signature.values(wrong=r.choice([0, 0, 0, 1]))
    about = f"{signature.annotations()}\n{values}"
    body.seen.clear()
    accepts, me = verdict(signature.call, cls, values)
    assert len(body.seen) == accepts, about
    if slow_way is None:
        return me if accepts else None
    referred = signature.referred(values)
    alternatives = signature.alternatives(values, signature.every) if referred is not None else []
    integers = {
        name: values[name]
        for name, declared in signature.types.items()
        if isinstance(declared, Counted) and declared.annotated is not None
    }
    integers = {name: size for name, size in integers.items() if type(size) is int and size >= 0}
    known = {**(referred or {}), **base}
    # Of several readings the first that fits is taken, before the base has a say.
    agree = all(integers.get(tag, size) == size for tag, size in base.items())
    if len(alternatives) == 1 and agree and judged(alternatives, known):
        assert accepts, f"{me}\n{about}"
    slowly, sizes = verdict(slow_way.arguments, (object.__new__(cls), *values.values()))
    assert slowly or not accepts, about
    if not accepts:
        assert not slowly or base, about
        COUNTS["not constructed"] += 1
        return None
    assert is_solution(plain_sizes(sizes), alternatives), about
    kept = {tag: size for tag, size in plain_sizes(sizes).items() if tag[0] != "{"}
    held = sizes_of(me, slow_way.declared.owner) or {}
    assert plain_sizes(held) == {**base, **integers, **kept}, about
    return me


drawing = settings(
    max_examples=250,
    deadline=None,
    print_blob=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.large_base_example,
        HealthCheck.data_too_large,
    ],
)


@drawing
@given(st.randoms(use_true_random=False))
def test_functions(r: Random) -> None:
    check_function(r)


@drawing
@given(st.randoms(use_true_random=False))
def test_methods(r: Random) -> None:
    check_methods(r)


def test_both_ways_are_taken() -> None:
    COUNTS.clear()
    for seed in range(150):
        check_function(Random(seed))
    ways = ["arguments True, fast", "arguments True, slow", "arguments False, slow"]
    results = ["result True, fast", "result True, slow", "result False, slow"]
    assert min(COUNTS[way] for way in ways) > 30
    assert min(COUNTS[way] for way in results) > 20
    assert not {"arguments False, fast", "result False, fast"} & COUNTS.keys()
