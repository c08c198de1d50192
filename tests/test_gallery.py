"""The gallery: the committed pages are what the registries say now, and nothing is left out."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import symattn as sa
from docs.make_gallery import (
    DIALECT,
    FOLDER,
    MASKS,
    NOT_SUPPORTED,
    VIEWS,
    math,
    pages,
    paragraph,
    plain,
)
from symattn.nodes.masks import Mask

FORMULAS = tuple(sa.formulas())
DISPLAY = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"\$`(.*?)`\$")
FENCED = re.compile(r"^```\w+\n.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")


@cache
def made() -> dict[str, str]:
    return pages()


@cache
def committed() -> dict[str, str]:
    return {page.name: page.read_text("utf-8") for page in sorted(FOLDER.iterdir())}


def latex_of_the_gallery() -> Iterator[tuple[str, str]]:
    """Every piece of LaTeX on the committed pages, with the page that it stands on."""
    for name, page in committed().items():
        for latex in DISPLAY.findall(page) + INLINE.findall(page):
            yield f"the gallery, {name}", latex.rstrip("\n")


def test_the_pages_are_made_of_the_registries_as_they_are() -> None:
    again = "run: python docs/make_gallery.py"
    assert committed().keys() == made().keys(), again
    assert [name for name, page in made().items() if committed()[name] != page] == [], again


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_has_its_page(name: str) -> None:
    page = committed()[f"{name}.md"]
    column, row = sa.formula(name), sa.formula(name, layout="row")
    assert page.startswith(f"# {column.title}\n")
    assert column.source.split(",")[0] in page
    assert f"]({name}.md)" in committed()["README.md"]
    layouts = re.split(r"^## (?:Column|Row) layout$|^## Both layouts", page, flags=re.MULTILINE)
    assert len(layouts) == 4
    for formula, part in zip((column, row), layouts[1:3], strict=True):
        assert math(sa.latex(formula.expr, dialect=DIALECT)) in part
        assert all(part.count(view.title) == 1 for view in VIEWS)
        assert f"def {name}(" in part
    assert "proved in" in layouts[3]
    assert "replayed" in " ".join(layouts[3].split())


def test_every_view_covers_every_formula() -> None:
    assert [name for name in FORMULAS if NOT_SUPPORTED in committed()[f"{name}.md"]] == []


@pytest.mark.parametrize(
    ("page", "names", "verdict"),
    [
        ("theorems.md", sa.theorems(), "Proved"),
        ("false_claims.md", sa.false_claims(), "Refuted"),
        ("derivations.md", sa.derivations(), "Checked"),
    ],
)
def test_every_claim_is_there_with_its_verdict(
    page: str, names: tuple[str, ...], verdict: str
) -> None:
    found = re.findall(r'^<a id="(\w+)"></a>$', committed()[page], re.MULTILINE)
    assert found == list(names)
    assert len(re.findall(rf"^\W*{verdict}\b", committed()[page], re.MULTILINE)) == len(names)
    assert "does not agree" not in committed()[page]


def test_every_kind_of_mask_is_shown() -> None:
    def kinds(kind: type[Mask]) -> Iterator[type[Mask]]:
        narrower = kind.__subclasses__()
        for one in narrower:
            yield from kinds(one)
        if not narrower and kind.__module__.startswith("symattn."):
            yield kind

    assert {type(mask) for mask in MASKS} == set(kinds(Mask))
    pictures = re.findall(r"^```text\n([■· \n]+)```$", committed()["masks.md"], re.MULTILINE)
    assert len(set(pictures)) == len(MASKS)
    assert pictures[1] == "■ ■ ■ · · ·\n■ ■ ■ ■ · ·\n■ ■ ■ ■ ■ ·\n■ ■ ■ ■ ■ ■\n"


@pytest.mark.parametrize("name", committed())
def test_a_page_is_sound_markdown(name: str) -> None:
    page = committed()[name]
    words = INLINE.sub("", FENCED.sub("", page))
    assert "```" not in words
    assert not re.search(r"\\[a-z]|\$", words), "LaTeX in the text"
    assert words.count("<details>") == words.count("</details>") == words.count("<summary>")
    for target, anchor in LINK.findall(words):
        there = (FOLDER / target).resolve() if target else FOLDER / name
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), anchor
    for rows in re.findall(r"(?:^\|.*\|\n)+", words, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows.splitlines()}) == 1


def anchors(page: Path) -> set[str]:
    """What a link can lead to: marked places, and headings as GitHub names them."""
    text = page.read_text("utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a id="(\w+)">', text))


def test_text_keeps_clear_of_markup() -> None:
    assert plain("c_i = Σ_j α_ij, [W_1 W_2] & | a*b") == r"c_i = Σ_j α_ij, \[W_1 W_2\] & \| a\*b"
    assert plain("(x)_i and _y") == r"(x)\_i and \_y"
    lines = paragraph("W " * 49 + "+ b and then - c, $`a b`$ " + "d " * 40 + "1. e").splitlines()
    assert len(lines) > 1
    assert not [line for line in lines if re.match(r"[-+*=#]|\d+\.", line)]


def test_latex_is_broken_only_where_it_means_nothing() -> None:
    rows = [r"A &= " + "B " * 60 + r"&& \text{(a reason of many words)} \\", "&= C"]
    block = math("\n".join(rows))
    assert max(map(len, block.splitlines())) <= 100
    assert r"\text{(a reason of many words)}" in block
    assert not re.search(r"^\s*\\\\", block, re.MULTILINE)
    assert block.split() == ["```math", *" ".join(rows).split(), "```"]
