"""Command groups that import a command when it is called, and suggest a name for an unknown one.

`pocketmq --help` prints names and summaries from a table. Only the called command is imported;
gRPC, numpy and the broker are imported only if that command needs them.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

import click


class CommandModule(NamedTuple):
    """Module of a command, and its line in lists of commands; a hidden one is in no list."""

    module: str
    about: str
    is_hidden: bool = False


WORDS: Final[Mapping[str, str]] = {
    "list": "ls",
    "delete": "rm",
    "remove": "rm",
    "del": "rm",
    "describe": "info",
    "show": "info",
    "update": "edit",
    "change": "edit",
    "alter": "edit",
    "add": "create",
    "new": "create",
    "count": "stats",
    "key": "by-key",
    "id": "get",
    "topics": "topic ls",
    "groups": "group ls",
    "messages": "msg",
    "message": "msg",
    "send": "produce",
    "publish": "produce",
    "pull": "consume --pull",
    "receive": "consume --pop",
    "follow": "tail",
    "start": "serve",
    "run": "serve",
    "subscribe": "consume",
    "broker": "serve",
    "cluster": "status",
    "queue": "topic info",
    "queues": "topic info",
    "settings": "config",
    "set": "init",
    "lag": "group lag",
    "offsets": "lag",
    "users": "user ls",
    "grants": "acl ls",
    "verify": "store verify",
    "repair": "store repair",
    "backup": "store backup",
    "restore": "store restore",
    "dump": "store dump",
    "rebuild": "store rebuild",
    "dead-letters": "dlq ls",
    "trace": "msg trace",
    # mqadmin
    "topiclist": "topic ls",
    "topicstatus": "topic stats",
    "updatetopic": "topic create",
    "deletetopic": "topic rm",
    "updatesubgroup": "group create",
    "deletesubgroup": "group rm",
    "consumerprogress": "group lag",
    "resetoffsetbytime": "group reset",
    "clonegroupoffset": "group clone",
    "consumerconnection": "group members",
    "consumerstatus": "client stack",
    "skipaccumulatedmessage": "group skip",
    "sendmessage": "produce",
    "consumemessage": "consume --pull",
    "printmsg": "consume --pull",
    "querymsgbykey": "msg by-key",
    "querymsgbyid": "msg get",
    "querymsgbyuniquekey": "msg get",
    "querymsgbyoffset": "msg get",
    "brokerstatus": "status",
    "clusterlist": "status",
    "getbrokerconfig": "status --settings",
}
"""Command for a name that other tools use, in lower case."""
_STOP: Final = "a broker ends at SIGTERM: kill PID (it prints it at its start), or systemctl stop"
_LOG: Final = "a broker writes its log to standard error: journalctl -u pocketmq, or docker logs"
ADVICE: Final[Mapping[str, str]] = {
    "stop": _STOP,
    "shutdown": _STOP,
    "restart": f"{_STOP}; then pocketmq serve",
    "reload": "a broker reads its settings again at SIGHUP: kill -HUP PID, or systemctl reload",
    "log": _LOG,
    "logs": _LOG,
}
"""What no command does -> how it is done."""
NEARNESS: Final = 0.6


class NamingGroup(click.Group):
    """A group that suggests the right command for an unknown name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Returns the named command.

        Errors   click.UsageError: unknown name; suggests another
        """
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            if ctx.parent is None and name.lower() in ADVICE:
                text = f"there is no command {name!r}; {ADVICE[name.lower()]}"
                raise click.UsageError(text, ctx)
            if name.lower() == "help" and len(args) > 1 and self.get_command(ctx, args[1]):
                text = f"there is no command {name!r}; see: {ctx.command_path} {args[1]} --help"
                raise click.UsageError(text, ctx)
            right = self._right_name(ctx, name)
            hint = f"{ctx.command_path} {right}" if right else f"{ctx.command_path} --help"
            lead = "use" if right else "see"
            raise click.UsageError(f"there is no command {name!r}; {lead}: {hint}", ctx)
        return super().resolve_command(ctx, args)

    def _right_name(self, ctx: click.Context, name: str) -> str:
        names = self.list_commands(ctx)
        known = WORDS.get(name.lower(), "")
        if known.partition(" ")[0] in names:
            return known
        from difflib import get_close_matches

        near = get_close_matches(name.lower(), names, n=1, cutoff=NEARNESS)
        return near[0] if near else ""


class LazyGroup(NamingGroup):
    """A group that imports the module of a command when the command is called."""

    def __init__(self, *args: Any, places: Mapping[str, CommandModule], **extra: Any) -> None:
        super().__init__(*args, **extra)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names in the order of the table."""
        return [name for name, place in self._places.items() if not place.is_hidden]

    def load(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports and returns a command; None: unknown name."""
        place = self._places.get(cmd_name)
        if place is None:
            return None
        command = getattr(import_module(place.module), cmd_name)
        assert isinstance(command, click.Command)
        return command

    get_command = load  # click's name for it

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of commands without loading any."""
        rows: Sequence[tuple[str, str]] = [
            (name, self._places[name].about) for name in self.list_commands(ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
