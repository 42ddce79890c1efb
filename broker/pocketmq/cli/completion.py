"""`pocketmq completion`: the script by which a shell completes commands and options."""

import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

import click
from click.shell_completion import ShellComplete, get_completion_class

from pocketmq.cli.options import examples

PROGRAM: Final = "pocketmq"
VARIABLE: Final = "_POCKETMQ_COMPLETE"


SHELLS: Final = {
    "bash": ("~/.bashrc", 'eval "$(pocketmq completion bash)"'),
    "zsh": ("~/.zshrc, after compinit", 'eval "$(pocketmq completion zsh)"'),
    "fish": ("~/.config/fish/config.fish", "pocketmq completion fish | source"),
}
"""Startup file of a shell, and the line to add to it."""
CALLS: Final = {
    "bash": "=bash_complete $1",
    "zsh": "=zsh_complete pocketmq",
    "fish": "(commandline -t) pocketmq",
}
"""Text of a shell's script that ends with the program that it calls."""
ZSH_GUARD: Final = "    (( ! $+commands[pocketmq] )) && return 1\n"
"""Line of zsh's script that ends it where the PATH does not have the program."""


@click.command(
    epilog=examples(
        'eval "$(pocketmq completion bash)"',
        "pocketmq completion zsh --install",
    )
)
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.option(
    "--install",
    is_flag=True,
    help="Print the line to add to the shell's startup file; change nothing.",
)
def completion(shell: str, install: bool) -> None:
    """Print the script that completes pocketmq's commands and options.

    Where the PATH does not have this program, script and line name it by its path.
    """
    program = own_name()
    if install:
        place, line = SHELLS[shell]
        click.echo(f"# Add this line to {place}:\n{line.replace(PROGRAM, program, 1)}")
        return
    click.echo(script(shell, program))


def own_name() -> str:
    """Returns this program as a shell calls it: by name from the PATH, else by its quoted path."""
    called = Path(sys.argv[0])
    if called.name != PROGRAM or not called.exists():
        return PROGRAM  # Run by `python -m`, or within another program.
    found = shutil.which(PROGRAM)
    if found is not None and Path(found).samefile(called):
        return PROGRAM
    return shlex.quote(str(called.absolute()))


def script(shell: str, program: str = PROGRAM) -> str:
    """Returns the script for a shell; it completes PROGRAM, also an alias, and calls `program`."""
    kind = get_completion_class(shell)
    assert kind is not None
    maker = kind(click.Command(PROGRAM), {}, PROGRAM, VARIABLE)
    # The method of bash's own class would run bash to ask for its version.
    text = re.sub(r"\n{3,}", "\n\n", ShellComplete.source(maker).strip())
    if program == PROGRAM:
        return text
    call = CALLS[shell]
    assert call in text
    # An alias exists only in the shell: what the script runs by `env` would not find it.
    return text.replace(call, call.rpartition(" ")[0] + " " + program).replace(ZSH_GUARD, "")
