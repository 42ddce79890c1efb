"""`pocketmq replica`: the roles of brokers in replication, and their followers."""

from typing import Final

import click

from pocketmq.cli.charts import with_bars
from pocketmq.cli.connection import BrokerConnection, ConnectedGroup
from pocketmq.cli.options import PAUSE, examples, watch_option, yes_option
from pocketmq.cli.output import (
    Document,
    Exit,
    Failure,
    Output,
    Planned,
    amount,
    columns,
    only_planned,
    talk,
    typed,
)
from pocketmq.cli.watching import repeat
from pocketmq.model.endpoint import ROCKETMQ
from pocketmq.model.replication import FENCED, FOLLOWER, LEADER, ReplicationStatus

COLUMNS: Final = columns(
    "peer", "follower", "acknowledged_offset", "sent_offset", "lag_bytes", "connected",
)  # fmt: skip
IS_ALIVE: Final = (
    "; not while its leader {leader} is alive: demote that one first (pocketmq replica demote), or "
    "force the promotion"
)
HAND_OVER: Final = (
    "nothing was changed yet; pocketmq replica demote --endpoint {leader} --leader HOST:PORT "
    "--yes, with this broker's address, and with --context or keys of its admin if it checks "
    "users; then add --yes here; if that leader cannot be demoted, add --force --yes"
)
LISTED: Final = "pocketmq store diverged {directory} --read-only lists them"
force_option: Final = click.option(
    "--force",
    is_flag=True,
    help="Proceed although the leader is connected, or only this broker has some records.",
)


@click.group(
    cls=ConnectedGroup,
    epilog=examples(
        "pocketmq replica status",
        "pocketmq replica demote --leader 10.0.0.2:8081 --yes     on the leader, then",
        "pocketmq replica promote --yes                           on its follower",
        "pocketmq replica resync --yes       on a follower that its leader refuses",
    ),
)
def replica() -> None:
    """Show, promote, demote, resync and remove brokers that copy a leader's log.

    There is no automatic election: promote a follower only if its leader is gone or was demoted.
    """


@replica.asks(
    "Show a broker's role and its followers.", "pocketmq replica status",
    "pocketmq replica status --watch 2s",
)  # fmt: skip
@watch_option
def status(broker: BrokerConnection, out: Output, watch_s: float | None) -> None:
    """Show a broker's role, its epoch, and the brokers that copy its log.

    Offsets are bytes from the start of the commit log. Tables have a bar for each lag.
    """

    def show() -> None:
        found = broker.ask(broker.admin.replication.status())
        rows = [one._asdict() for one in found.replicas]
        if out.form != "table":
            out.show({**found._asdict(), "replicas": rows})
            return
        out.show(_shown(broker, found))
        if rows:
            out.table(rows, with_bars(COLUMNS, "lag_bytes", rows))

    repeat(watch_s, show)


def _shown(broker: BrokerConnection, found: ReplicationStatus) -> Document:
    has_own = found.role == FENCED or found.diverged_messages
    return readable(found, broker.directory if has_own else "")


def readable(found: ReplicationStatus, directory: str) -> Document:
    """Returns a status formatted for people.

    directory   the broker's store
    """
    listed = LISTED.format(directory=typed(directory))
    shown: dict[str, object] = {
        "role": found.role,
        "epoch": f"{found.epoch}, since offset {found.term_begin}",
        "appended_offset": found.appended_offset,
    }
    if found.role == FOLLOWER:
        state = "connected" if found.connected else f"not connected: {found.trouble}"
        shown |= {"leader": f"{found.leader}, {state}", "lag": _lag(found)}
    elif found.role == FENCED:
        only_here = amount(found.appended_offset - found.fenced_from)
        shown |= {
            "leader": found.leader or "not known",
            "only_here": f"{only_here} from offset {found.fenced_from}; {listed}",
        }
    else:
        shown["replicas"] = sum(one.connected for one in found.replicas)
        if found.left_bytes:
            shown["left_there"] = (
                f"{amount(found.left_bytes)} of the log of {found.leader}, or more, when this "
                "broker was promoted; pocketmq store diverged lists them there, once it follows"
            )
    if found.diverged_messages:
        shown["diverged"] = f"{found.diverged_messages} messages set aside; {listed}"
    return shown


def _lag(found: ReplicationStatus) -> str:
    behind = f"{amount(found.lag_bytes)} behind" if found.lag_bytes else ""
    if found.connected:
        return behind or "up to date"
    return f"{behind} or more" if behind else "not known while it is not connected"


@replica.asks(
    "Make a follower the leader.", "pocketmq replica promote --yes",
    "pocketmq replica promote --force --yes     although its leader is alive",
)  # fmt: skip
@force_option
@yes_option
def promote(broker: BrokerConnection, out: Output, force: bool, yes: bool) -> None:
    """Make a follower the leader of a new epoch; without --yes only show what would happen.

    The old leader must be stopped or demoted. Messages that it acknowledged and the follower does
    not have are lost. It is fenced as soon as it can be reached.
    """
    found = broker.ask(broker.admin.replication.status())
    if not yes and found.role != LEADER:
        out.show(_shown(broker, found))
        text = f"the {found.role} would lead from offset {found.appended_offset} on"
        if found.role == FOLLOWER and found.lag_bytes and not found.connected:
            lost = f"{amount(found.lag_bytes)} of its leader's log, or more, would be left there"
            text = f"{text}; {lost}: start that broker again if it can be"
        if found.connected and not force:
            text += IS_ALIVE.format(leader=found.leader)
            if found.leader.startswith(ROCKETMQ):  # no master can be demoted
                raise only_planned(text, option="--force --yes")
            raise Planned(text, Exit.REFUSED, HAND_OVER.format(leader=found.leader))
        raise only_planned(text)
    epoch, begin = broker.ask(broker.admin.replication.promote(force=force))
    out.show({"role": "leader", "epoch": epoch, "term_begin": begin})


@replica.asks(
    "Make a broker a follower.", "pocketmq replica demote --leader 10.0.0.2:8081 --yes",
)  # fmt: skip
@click.option("--leader", metavar="HOST:PORT", required=True, help="Broker that it follows.")
@click.option(
    "--wait", "wait_s", type=PAUSE, default="10s", show_default=True,
    help="Limit of the wait until a follower has the whole log.",
)  # fmt: skip
@force_option
@yes_option
def demote(
    broker: BrokerConnection, out: Output, leader: str, wait_s: float, force: bool, yes: bool
) -> None:
    """Make a broker a follower of another one; without --yes only show what would happen.

    A leader refuses messages and waits until a follower has its whole log. With --force it does not
    wait: records that only this broker has are set aside.
    """
    found = broker.ask(broker.admin.replication.status())
    if not yes:
        out.show(_shown(broker, found))
        raise only_planned(f"this {found.role} broker would follow {leader}")
    call = broker.admin.replication.follow(leader, force=force, wait_ms=int(wait_s * 1000))
    broker.ask(call)
    out.show({"role": FOLLOWER, "leader": leader})


@replica.asks(
    "Make an empty broker follow this one.",
    "pocketmq replica add 10.0.0.2:8081 --leader 10.0.0.1:8081 --yes",
)
@click.argument("follower", metavar="HOST:PORT")
@click.option(
    "--leader", metavar="HOST:PORT",
    help="Address of this broker, as the new follower reaches it [default: --endpoint].",
)  # fmt: skip
@yes_option
def add(
    broker: BrokerConnection, out: Output, follower: str, leader: str | None, yes: bool
) -> None:
    """Make the broker at HOST:PORT a follower of this one; without --yes only show it.

    Its store should be empty: records that this broker does not have are set aside there.
    """
    from pocketmq.client import Unreachable

    leader = leader or broker.endpoint
    with broker.beside(follower) as other:
        try:
            found = other.ask(other.admin.replication.status())
        except Unreachable as error:
            step = f"start the broker at {follower}, which shall follow; then repeat this command"
            raise Failure(error.message, Exit.UNREACHABLE, step) from error
        if not yes:
            out.show(_shown(broker, found))
            raise only_planned(f"{follower} would follow {leader}")
        other.ask(other.admin.replication.follow(leader, force=not found.appended_offset))
    out.show({"replica": follower, "leader": leader})


@replica.asks("Forget a follower.", "pocketmq replica remove 10.0.0.2 --yes")
@click.argument("name", metavar="REPLICA")
@yes_option
def remove(broker: BrokerConnection, out: Output, name: str, yes: bool) -> None:
    """Forget a follower by its id, peer or host, so that no log is kept for it.

    A follower that connects again is listed again.
    """
    if not yes:
        raise only_planned(f"follower {name} would be forgotten")
    broker.ask(broker.admin.replication.remove(name))
    talk(f"{name} is forgotten")


@replica.asks("Make a follower copy its leader's log again.", "pocketmq replica resync --yes")
@yes_option
def resync(broker: BrokerConnection, out: Output, yes: bool) -> None:
    """Make a follower copy its leader's log from the begin; without --yes only show the plan.

    Its own log is set aside in pocketmq/diverged of its store, so the store grows by that size.
    Check it with pocketmq store diverged, then delete it.
    """
    found = broker.ask(broker.admin.replication.status())
    if not yes and found.role == FOLLOWER:
        out.show(_shown(broker, found))
        store = broker.ask(broker.admin.store_status())
        size = amount(store.appended_offset - store.min_offset)
        what = f"{size} of log would be set aside, and copied again from {found.leader}"
        free = f"the disk needs room for it, and has {amount(store.disk_free_bytes)} free"
        raise only_planned(f"{what}; {free}")
    broker.ask(broker.admin.replication.resync())
    talk("the follower copies its leader's log again; pocketmq replica status shows its lag")
