"""Merged axes: where something is read by the factors of an axis, what runs along it does so too.

The product ``W^O Concat(head_1, …, head_h)`` sums over an axis of h·d_v, on which the heads are
read by their number and the feature in it.  Its sum is one over both, ``Σ_i Σ_c W[r, (i, c)]
head_i[c]``, and nothing is divided.
"""

from __future__ import annotations

from collections.abc import Iterator

from symattn.meaning.form import Component, Condition, Form, Index, Maximum, Place, Sum, places
from symattn.meaning.substitution import substitute
from symattn.tags import Size


def factors_of(index: Index, *forms: Form | Condition | None) -> tuple[Size, ...] | None:
    """Return the sizes of the factors by which forms read the axis of an index, if they do.

    >>> from symattn.meaning.form import Entry, components
    >>> h, d = Size.tag("h"), Size.tag("d")
    >>> p = Index(h * d)
    >>> factors_of(p, Entry("W", (h, d), components((p,), (h, d))))
    (Size('h'), Size('d'))
    >>> factors_of(p, Entry("x", (h * d,), ((p,),)))
    """
    for form in forms:
        for _, at in places(form) if form is not None else ():
            for one in _components(at):
                if one.of == (index,):
                    return one.sizes
    return None


def _components(at: Place) -> Iterator[Component]:
    for one in at:
        if isinstance(one, Component):
            yield one
            yield from _components(one.of)


def split(index: Index, form: Form) -> tuple[tuple[Index, ...], Form]:
    """Return an index for each factor by which a form reads an axis, and the form in them.

    What reads the axis as one has one index, as it had.
    """
    sizes = factors_of(index, form)
    if sizes is None:
        return (index,), form
    factors = tuple(Index(size) for size in sizes)
    form = substitute(form, {}, indices={index: factors})
    parts: list[Index] = []
    for factor in factors:  # heads in groups: an axis of r·d_v within one of g·r·d_v
        inner, form = split(factor, form)
        parts += inner
    return tuple(parts), form


def by_factors(form: Sum | Maximum) -> Sum | Maximum:
    """Return a sum or a maximum with one for each factor by which its axis is read.

    >>> from symattn.meaning.form import Entry, components
    >>> h, d = Size.tag("h"), Size.tag("d")
    >>> p = Index(h * d)
    >>> found = by_factors(Sum(p, Entry("W", (h, d), components((p,), (h, d)))))
    >>> found.index.size, found.body.index.size
    (Size('h'), Size('d'))
    """
    parts, body = split(form.index, form.body)
    for part in reversed(parts):
        body = type(form)(part, body)
    assert isinstance(body, Sum | Maximum)
    return body
