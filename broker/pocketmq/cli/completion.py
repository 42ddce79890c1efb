"""`pocketmq completion`: the script that lets a shell complete commands and options."""

import re
from typing import Final

import click
from click.shell_completion import ShellComplete, get_completion_class

from pocketmq.cli.options import examples

PROGRAM: Final = "pocketmq"
VARIABLE: Final = "_POCKETMQ_COMPLETE"


SHELLS: Final = {
    "bash": ("~/.bashrc", 'eval "$(pocketmq completion bash)"'),
    "zsh": ("~/.zshrc, behind compinit", 'eval "$(pocketmq completion zsh)"'),
    "fish": ("~/.config/fish/config.fish", "pocketmq completion fish | source"),
}
"""Where a shell looks for such scripts, and the line to add there."""


@click.command(
    epilog=examples(
        'eval "$(pocketmq completion bash)"',
        "pocketmq completion zsh --install",
    )
)
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.option(
    "--install", is_flag=True, help="Print how to install it for every shell; change nothing."
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
    # Not kind's own: for bash it would run the shell to ask for its version.
    text = ShellComplete.source(maker)
    return re.sub(r"\n{3,}", "\n\n", text.strip())
