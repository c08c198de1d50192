"""The command line: `symattn formulas | show | translate | prove | theorem | run | doctor | …`.

Data goes to standard output, chatter to standard error.  The exit status is 0 if all is well, 1 if
something is refuted, undecided or differs, 2 if the call was wrong, and 3 if symattn itself is at
fault.

Only the shape of the commands stands here, so that `--help` answers at once: what a command does is
imported when it is called, because that loads SymPy.
"""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import Any, NoReturn

import click

from symattn import __version__
from symattn.cli.refusals import AtFault, Refused
from symattn.errors import InternalError, SymattnError
from symattn.tags import nearest


class Commands(click.Group):
    """The commands; every error of symattn becomes a message and an exit status."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        for stream in (sys.stdout, sys.stderr):
            # A terminal that lacks √ or ᵀ shows a question mark rather than failing.
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="replace")
        try:
            return super().invoke(ctx)
        except InternalError as error:
            raise AtFault(str(error)) from error
        except SymattnError as error:
            raise Refused(str(error)) from error
        except MemoryError as error:
            raise Refused("there is not enough memory for arrays of these sizes") from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or say which are spelt nearly so."""
        name = args[0]
        if name in self.commands or name.startswith("-"):
            return super().resolve_command(ctx, args)
        self._unknown(ctx, name)

    def _unknown(self, ctx: click.Context, name: str) -> NoReturn:
        near = " or ".join(repr(known) for known in nearest(name, self.commands))
        ctx.fail(f"there is no command {name!r}" + (f"; did you mean {near}?" if near else ""))


language = click.option(
    "--format",
    "language",
    type=click.Choice(["text", "latex"]),
    default="text",
    show_default=True,
    help="Text for a terminal, or LaTeX.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
preset = click.option(
    "--preset",
    metavar="NAME",
    help="The glyphs: freshrimp (column layout) or vaswani (row layout). Default: the layout's.",
)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="symattn")
def main() -> None:
    """Write an attention formula once; check, print, translate, prove and run it.

    A formula is NAME, NAME:column or NAME:row; without a layout it is the one of the --preset, or
    else the column one.

    The exit status is 0 if all is well, 1 if something is refuted, undecided or differs, 2 if the
    call was wrong.
    """


@main.command()
@as_json
def formulas(as_json: bool) -> None:
    """List the formulas of the catalogue."""
    from symattn.cli.listing import list_formulas

    list_formulas(as_json=as_json)


@main.command()
@click.argument("formula")
@preset
@language
@click.option("--entries", is_flag=True, help="Only the scores, written out as a matrix.")
@click.option("--steps", is_flag=True, help="Only the lines, with the shapes at each.")
@click.option("--per-position", is_flag=True, help="Only what happens at one position.")
@click.option("--einsum", is_flag=True, help="Only the lines, as einsum (text).")
@as_json
def show(formula: str, preset: str | None, language: str, as_json: bool, **views: bool) -> None:
    """Show a formula: its source, shapes, lines, types, and the other layout with the proof.

    Options such as --entries show one view of it instead; several may be given.
    """
    asked = [name for name, wanted in views.items() if wanted]
    if asked:
        from symattn.cli.viewing import show_views

        show_views(formula, asked, preset=preset, language=language, as_json=as_json)
    else:
        from symattn.cli.listing import show_formula

        show_formula(formula, preset=preset, language=language, as_json=as_json)


@main.command()
@click.argument("formula")
@click.option("--to", "layout", metavar="LAYOUT", required=True, help="row or column.")
@preset
@language
@as_json
def translate(formula: str, layout: str, preset: str | None, language: str, as_json: bool) -> None:
    """Translate a formula into a layout, step by step.

    Without a layout of its own it is taken in the other one.
    """
    from symattn.cli.proving import translate_formula

    translate_formula(formula, layout, preset=preset, language=language, as_json=as_json)


@main.command()
@click.argument("left")
@click.argument("right")
@as_json
@click.pass_context
def prove(ctx: click.Context, left: str, right: str, as_json: bool) -> None:
    """Prove that two formulas are equal, or show numbers where they differ."""
    from symattn.cli.proving import prove_formulas

    ctx.exit(0 if prove_formulas(left, right, as_json=as_json) else 1)


@main.command()
@as_json
@click.pass_context
def theorems(ctx: click.Context, as_json: bool) -> None:
    """Prove every named theorem, and refute every false claim.

    The exit status is 1 if one does not come out as it should.
    """
    from symattn.cli.claiming import list_theorems

    ctx.exit(0 if list_theorems(as_json=as_json) else 1)


@main.command()
@click.argument("name")
@preset
@language
@as_json
@click.pass_context
def theorem(
    ctx: click.Context, name: str, preset: str | None, language: str, as_json: bool
) -> None:
    """Prove one theorem, or refute one false claim, equation by equation.

    The exit status is 1 if it is refuted or undecided, as every false claim is.
    """
    from symattn.cli.claiming import show_theorem

    proved = show_theorem(name, preset=preset, language=language, as_json=as_json)
    ctx.exit(0 if proved else 1)


@main.command()
@as_json
@click.pass_context
def derivations(ctx: click.Context, as_json: bool) -> None:
    """List the derivations, arguments that no proof covers, and check each on numbers."""
    from symattn.cli.deriving import list_derivations

    ctx.exit(0 if list_derivations(as_json=as_json) else 1)


@main.command()
@click.argument("name")
@language
@as_json
@click.pass_context
def derivation(ctx: click.Context, name: str, language: str, as_json: bool) -> None:
    """Show a derivation: assumptions, named steps, the result, and what its check found."""
    from symattn.cli.deriving import show_derivation

    ctx.exit(0 if show_derivation(name, language=language, as_json=as_json) else 1)


@main.command()
@click.argument("formula")
@click.option("--size", "sizes", multiple=True, metavar="TAG=N", help="A size, such as n=5.")
@click.option(
    "--scalar", "scalars", multiple=True, metavar="NAME=NUMBER", help="A scalar, such as c=1.5."
)
@click.option("--input", "path", metavar="FILE.npz", help="Arrays, by the names of the inputs.")
@click.option(
    "--arrays",
    type=click.Choice(["column", "row"]),
    help="The layout of the file's arrays. Default: the formula's, or the one that fits.",
)
@click.option("--token", "tokens", multiple=True, help="Show only the weights of this query token.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--dtype",
    type=click.Choice(["float64", "float32"]),
    help="Default: the file's, or float64.",
)
@as_json
@click.pass_context
def run(ctx: click.Context, **options: Any) -> None:
    """Run a formula on arrays and compare it with plain float64 loops.

    The arrays are random, of the sizes given by --size and small different ones for other tags, or
    come from an .npz file, by the names of the inputs (`W^Q` is `W_Q`). Arrays named scores,
    weights, context or output in the file are compared with what the formula computes, and
    `tokens` are the labels of the weights.
    """
    from symattn.cli.running import run_formula

    ctx.exit(0 if run_formula(**options) else 1)


@main.command()
@as_json
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Tell what is here to run formulas with, on a GPU too, and what to install or do.

    Nothing is installed or changed. What is not there is named, and is no fault; the exit status is
    1 if something that is there does not work.
    """
    from symattn.cli.doctoring import examine

    ctx.exit(0 if examine(as_json=as_json) else 1)
