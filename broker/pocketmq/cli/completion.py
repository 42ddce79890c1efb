"""`pocketmq completion`: the script by which a shell completes commands and options."""

import re
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
    """Print the script that completes pocketmq's commands and options."""
    if install:
        place, line = SHELLS[shell]
        click.echo(f"# Add this line to {place}:\n{line}")
        return
    click.echo(script(shell))


def script(shell: str) -> str:
    """Returns the script for a shell."""
    kind = get_completion_class(shell)
    assert kind is not None
    maker = kind(click.Command(PROGRAM), {}, PROGRAM, VARIABLE)
    # The method of bash's own class would run bash to ask for its version.
    text = ShellComplete.source(maker)
    return re.sub(r"\n{3,}", "\n\n", text.strip())
