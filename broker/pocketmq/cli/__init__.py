"""The command line: `pocketmq`."""

from pocketmq.cli.program import main

__all__ = ["main"]
