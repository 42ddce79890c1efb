"""The command line: `pocketmq`."""

from pocketmq.cli.collecting import collect_rarely, end_without_collection

__all__ = ["main"]


def main() -> None:
    """Runs the command line of this process."""
    collect_rarely()
    from pocketmq.cli.program import main as run  # Its imports are collected rarely, too.

    try:
        run()
    finally:
        end_without_collection()
