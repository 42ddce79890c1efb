"""How tests run a command: its exit code, what it printed, what it said."""

import json
from typing import Any, NamedTuple

from click.testing import CliRunner

from pocketmq.cli.program import program


class Ran(NamedTuple):
    """The outcome of a command."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Standard output as one JSON document."""
        return json.loads(self.out)

    @property
    def rows(self) -> list[Any]:
        """Standard output as a JSON document a line."""
        return [json.loads(line) for line in self.out.splitlines()]


def run(*arguments: str, given: str | bytes | None = None, **environment: str | None) -> Ran:
    """Runs `pocketmq ARGUMENTS` in this process; None removes a variable."""
    done = CliRunner().invoke(
        program, arguments, input=given, env=environment, prog_name="pocketmq"
    )
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Ran(done.exit_code, done.stdout, done.stderr)
