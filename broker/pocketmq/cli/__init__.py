"""The command line: `pocketmq`."""

from pocketmq.cli.collecting import collect_rarely

__all__ = ["main"]


def main() -> None:
    """Runs the command line of this process."""
    collect_rarely()
    from pocketmq.cli.program import main as run  # Imports are what the above is for.

    run()
