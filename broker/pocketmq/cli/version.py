"""`pocketmq version`: the installed version and commit, and which of its modules run compiled."""

import platform
from collections.abc import Sequence

import click

from pocketmq import __version__, native
from pocketmq.cli.options import examples, form_option
from pocketmq.cli.output import Output
from pocketmq.native.commit import commit


@click.command(epilog=examples("pocketmq version", "pocketmq version -o json"))
@form_option
def version(out: Output) -> None:
    """Show the installed version and commit, and which of its modules run compiled.

    The commit is `unknown` if neither the package nor a git checkout around it contains one.

    Either all modules run compiled or none. Interpreted modules behave the same but need several
    times the CPU. `pocketmq status` shows version, commit and form of a broker.
    """
    compiled = native.running()
    out.show(
        {
            "version": __version__,
            "commit": commit(),
            "python": platform.python_version(),
            "modules": native.form(),
            "compiled": _counted(compiled) if out.form == "table" else list(compiled),
        }
    )


def _counted(compiled: Sequence[str]) -> str:
    return f"{len(compiled)} modules; -o wide lists them" if compiled else ""
