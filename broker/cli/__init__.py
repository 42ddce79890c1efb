"""The command line: `pocketmq`."""

from broker.cli.program import main

__all__ = ["main"]
