"""What the documents say is run: Python blocks, console sessions, examples.

A page is read from top to bottom with one namespace, as a reader would type it in:

* a ```` ```python ```` block with `>>>` is a doctest, without it a script;
* a table with the header `| … | symattn | shows |` has a call in each row, and what it shows; where
  the first column is headed `Printed`, the formula there is what `sa.latex` prints, up to fonts;
* a ```` ```console ```` block is a session: `$ symattn …` is run from the root of the repository,
  and its output is compared with what the block shows, if it shows any (`...` is any text).
  A call that is to fail says so: `$ symattn prove A B  # exit status 1`. Other commands are not
  run.
"""

import doctest
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import symattn as sa

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

FENCED = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)[^\n]*\n(?P<body>.*?)^(?P=indent)```\s*$",
    re.MULTILINE | re.DOTALL,
)
EXIT_STATUS = re.compile(r"#\s*exit status (\d+)\s*$")
TABLE = re.compile(
    r"^\| (?P<first>[^|]+) \| symattn \| shows \|\n\|[-|]+\|\n(?P<rows>(?:\|.*\n)+)", re.MULTILINE
)
FONTS = re.compile(
    r"\\(?:left|right|mathbf|mathrm|mathsf|operatorname|text)(?![a-z])|\\,|[\s{}]", re.IGNORECASE
)
AS_COMMAND = "import sys; sys.argv[0] = 'symattn'; from symattn.cli import main; sys.exit(main())"


@dataclass(frozen=True)
class Block:
    """The inside of a fence; `line` is the first line's number in the page."""

    language: str
    text: str
    line: int


@dataclass(frozen=True)
class TableRow:
    """What a text says, the call that says it, and what that shows."""

    said: str
    call: str
    shows: str
    printed: bool
    line: int


@dataclass(frozen=True)
class Call:
    """One command of a console session, and the output that the page shows under it."""

    arguments: tuple[str, ...]
    status: int
    output: str


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page that name a language, with the fence's indentation taken off."""
    return [
        Block(
            language=found["language"],
            text=re.sub(rf"^{found['indent']}", "", found["body"], flags=re.MULTILINE),
            line=page.count("\n", 0, found.start("body")) + 1,
        )
        for found in FENCED.finditer(page)
    ]


def table_rows(page: str) -> list[TableRow]:
    """The rows of the tables of a page that show what a call shows."""
    found: list[TableRow] = []
    for table in TABLE.finditer(page):
        first = page.count("\n", 0, table.start("rows")) + 1
        for line, row in enumerate(table["rows"].splitlines(), first):
            said, call, shows = (cell.strip(" `") for cell in row.strip("|").split(" | "))
            found.append(TableRow(said, call, shows, table["first"] == "Printed", line))
    return found


def plain(formula: str) -> str:
    r"""A formula in LaTeX without fonts, spaces and sizes: what `\text{softmax}\left(x\right)` and
    `\operatorname{Softmax} (x)` have in common.
    """
    bare = FONTS.sub("", formula).casefold()
    return bare.replace(r"\dfrac", r"\frac").replace(r"\dots", r"\ldots")


def calls(session: str) -> list[Call]:
    """The `$ symattn …` commands of a console session; a line that ends in `\\` goes on."""
    found: list[Call] = []
    for part in re.split(r"^\$ ", session.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        status = EXIT_STATUS.search(command)
        program, *arguments = shlex.split(command, comments=True)
        if program == "symattn":
            found.append(Call(tuple(arguments), int(status[1]) if status else 0, output.rstrip()))
    return found


def run_block(block: Block, page: Path, namespace: dict[str, object]) -> None:
    """Run a Python block where the page's earlier blocks left off."""
    if ">>>" in block.text:
        examples = doctest.DocTestParser().get_doctest(
            block.text, namespace, page.name, str(page), block.line - 1
        )
        examples.globs = namespace  # the parser copies it; names have to reach the next block
        report: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        failed, _ = runner.run(examples, out=report.append, clear_globs=False)
        assert not failed, "".join(report)
    else:
        source = "\n" * (block.line - 1) + block.text  # so that a traceback names the page's line
        exec(compile(source, str(page), "exec"), namespace)


def run_call(call: Call) -> str:
    """What the command shows on a terminal, both streams in order."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", AS_COMMAND, *call.arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONUTF8": "1", "COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == call.status, done.stdout
    return done.stdout


def shown(want: str, got: str) -> bool:
    """Whether the output is what the page shows, but for blanks at the end of a line."""
    want, got = (
        re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).strip("\n") for text in (want, got)
    )
    return doctest.OutputChecker().check_output(want + "\n", got + "\n", doctest.ELLIPSIS)


def test_there_are_pages_and_examples() -> None:
    assert len(PAGES) > 1
    assert EXAMPLES
    assert any(block.language == "python" for block in blocks(PAGES[0].read_text("utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_python_of_a_page_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page.read_text("utf-8")):
        if block.language == "python":
            run_block(block, page, namespace)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if table_rows(page.read_text("utf-8"))],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_tables_of_a_page_show_what_calls_show(page: Path) -> None:
    namespace: dict[str, object] = {"__name__": "__main__"}
    text = page.read_text("utf-8")
    parts: list[Block | TableRow] = [*blocks(text), *table_rows(text)]
    for part in sorted(parts, key=lambda part: part.line):
        if isinstance(part, Block):
            if part.language == "python":
                run_block(part, page, namespace)
            continue
        value = eval(part.call, namespace)
        shown_text = sa.text(value) if hasattr(value, "shape") else str(value)
        assert shown_text == part.shows, f"{page.name}, line {part.line}"
        if part.printed:
            printed = part.said.split("$")[1].rpartition("=")[2]
            assert plain(sa.latex(value)) == plain(printed), f"{page.name}, line {part.line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_console_of_a_page_runs(page: Path) -> None:
    for block in blocks(page.read_text("utf-8")):
        if block.language == "console":
            for call in calls(block.text):
                got = run_call(call)
                assert not call.output or shown(call.output, got), (
                    f"{page.name}, line {block.line}: symattn {shlex.join(call.arguments)}\n"
                    f"shows:\n{call.output}\nbut prints:\n{got}"
                )


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONUTF8": "1", "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout, "an example shows something"


PAGE = """
```python
a = 1
```

* In a list:

  ```python
  >>> a + 1
  2
  ```

```console
$ python -m pip install .
$ symattn show x \\
    --json
{"name": ...}
$ symattn prove 'a b' c  # exit status 1
```

| Printed | symattn | shows |
|---|---|---|
| $A = \\text{x}$ | `f(a, "b")` | `f (x)` |
"""


def test_a_page_is_read_as_written() -> None:
    script, doctests, session = blocks(PAGE)
    assert (script.language, script.text, script.line) == ("python", "a = 1\n", 3)
    assert doctests.text == ">>> a + 1\n2\n"
    assert calls(session.text) == [
        Call(("show", "x", "--json"), 0, '{"name": ...}'),
        Call(("prove", "a b", "c"), 1, ""),
    ]


def test_a_table_is_read_as_written() -> None:
    (row,) = table_rows(PAGE)
    assert row == TableRow(r"$A = \text{x}$", 'f(a, "b")', "f (x)", printed=True, line=23)
    assert plain(r"\text{softmax}\left(\dfrac{a}{b_k}\right)") == plain(
        r"\operatorname{Softmax} ( \frac{a}{b_{k}} )"
    )
    assert plain("K^TQ") != plain("KQ^T")


def test_names_reach_the_next_block() -> None:
    namespace: dict[str, object] = {}
    for text in ("a = 1\n", ">>> b = a + 1\n", "assert b == 2\n"):
        run_block(Block("python", text, 1), Path("page.md"), namespace)


def test_a_wrong_block_fails() -> None:
    with pytest.raises(AssertionError, match=r'File ".*page.md", line 7'):
        run_block(Block("python", ">>> 1 + 1\n3\n", 7), Path("page.md"), {})
    with pytest.raises(NameError):
        run_block(Block("python", "missing\n", 7), Path("page.md"), {})


def test_output_is_compared() -> None:
    assert shown('{"name": ...}', '{"name": 1,\n "more": 2}\n')
    assert shown("a\n\nb", "a  \n\nb\n")
    assert not shown("a\nb", "a\nb\nc")
