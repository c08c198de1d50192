"""Every formula of the corpus is answered for, in the way that its verdict asks."""

import importlib
import re
from pathlib import Path

import pytest

from tests.corpus.entries import ANSWERS, CORPUS, LATER

for path in Path(__file__).parent.glob("test_*.py"):
    importlib.import_module(f"tests.corpus.{path.stem}")


@pytest.mark.parametrize("id", CORPUS)
def test_an_entry_is_answered_for(id: str) -> None:
    entry = CORPUS[id]
    (verdict,) = [known for known in ANSWERS if entry.verdict.startswith(known)]
    assert ANSWERS[verdict].get(id), f"{id} is {entry.verdict}, and no test says so"
    assert verdict == "OK" or id not in ANSWERS["OK"]


@pytest.mark.parametrize("verdict", ["BAD", "AMB"])
def test_what_the_notes_say_is_answered_for_too(verdict: str) -> None:
    said = {id for id, entry in CORPUS.items() if verdict in f"{entry.verdict} {entry.notes}"}
    assert said == set(ANSWERS[verdict])


def test_only_what_is_in_the_file_is_answered_for() -> None:
    assert len(CORPUS) == 29
    for answers in ANSWERS.values():
        for id, tests in answers.items():
            assert id in CORPUS
            assert len(set(tests)) == len(tests)
            assert all(name.startswith(f"test_{id.lower()}_") for name in tests)


@pytest.mark.parametrize("part", LATER)
def test_what_waits_is_a_part_of_an_entry_and_says_why(part: str) -> None:
    id, what = re.fullmatch(r"(\w+): (.+)", part).groups()  # pyright: ignore[reportOptionalMemberAccess]
    assert id in CORPUS
    assert what
    assert LATER[part]
