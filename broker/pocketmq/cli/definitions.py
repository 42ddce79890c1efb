"""`pocketmq definitions`: topics, groups, users, grants and settings of a broker, as one YAML file.

An import changes what differs between file and broker, but nothing that the file leaves out. A
repeated import changes nothing.

    topics     {name, read_queue_count, write_queue_count, permission, order, attributes}
    groups     {name, and the settings of `group info` except begins_at_min}
    users      {access_key, admin, enabled, secret}; secrets are not exported
    grants     {user, resource, deny, actions, sources}
    settings   {section.name: value}; compared only: a broker reads them from its files
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from pocketmq.cli.connection import BrokerConnection, ConnectedGroup
from pocketmq.cli.definition_file import FORMAT_VERSION, SECTIONS, Definitions, read_definitions
from pocketmq.cli.options import FILE, examples, yes_option
from pocketmq.cli.output import Output, columns, counted, only_planned, talk, yaml_document
from pocketmq.client import GroupState, TopicState
from pocketmq.client.values import GrantState
from pocketmq.model.administration import GroupSettings, TopicChange
from pocketmq.model.errors import IllegalAttribute
from pocketmq.model.topic import (
    FIXED_ATTRIBUTES,
    TYPE_ATTRIBUTE,
    check_attribute,
    is_group_topic,
)

SECRET_BYTES: Final = 16
PAGE_COUNT: Final = 1_000
TOPIC_FIELDS: Final = ("read_queue_count", "write_queue_count", "permission", "order")
OF_MACHINE: Final = frozenset(
    """
    store.directory rpc.listen rpc.tls_cert rpc.tls_key http.listen access.admin_secret_path
    broker.name broker.advertised_host broker.advertised_port
    replication.leader replication.user replication.secret_path
    """.split()
)
"""Settings of one machine, which are not exported."""
CREATE: Final = "create"
CHANGE: Final = "change"
DIFFERS: Final = "differs"
"""Action of a setting that differs: only the broker's files can change it."""
COLUMNS: Final = columns("kind", "name", "action", "details")


class PlannedChange(NamedTuple):
    """One difference between a file and a broker.

    apply   makes the change, and returns a generated secret or ""; None for a setting
    """

    kind: str
    name: str
    action: str
    details: str
    apply: Callable[[], str] | None

    @property
    def document(self) -> dict[str, str]:
        """The change as it is printed."""
        fields = ("kind", "name", "action", "details")
        return {name: getattr(self, name) for name in fields}


# -- export ------------------------------------------------------------------------------------
def topic_definition(topic: TopicState) -> dict[str, Any]:
    """Returns a topic as an import reads it."""
    names = sorted(topic.attributes.keys() - FIXED_ATTRIBUTES)
    attributes = {name: topic.attributes[name] for name in names}
    fields = {name: getattr(topic, name) for name in TOPIC_FIELDS}
    return {"name": topic.name, **fields, "attributes": attributes}


def group_definition(group: GroupState) -> dict[str, Any]:
    """Returns a group as an import reads it; begins_at_min is left out, as `begin` contains it."""
    settings = group.settings._asdict()
    del settings["begins_at_min"]
    return {"name": group.name, **settings}


def exported(broker: BrokerConnection, sections: Sequence[str]) -> dict[str, Any]:
    """Returns the definitions of a broker.

    Errors   ClientError
    """
    admin = broker.admin
    document: dict[str, Any] = {"format_version": FORMAT_VERSION}
    if "topics" in sections:
        topics = broker.all(admin.list_topics, page_size=PAGE_COUNT)
        document["topics"] = [topic_definition(t) for t in topics if not is_group_topic(t.name)]
    if "groups" in sections:
        document["groups"] = list(map(group_definition, broker.all(admin.list_groups)))
    if "users" in sections:
        users, _ = broker.ask(admin.access.list_users())
        document["users"] = [user._asdict() for user in users]
    if "grants" in sections:
        grants = broker.ask(admin.access.list_grants())
        document["grants"] = [
            {**grant._asdict(), "sources": list(grant.sources)} for grant in grants
        ]
    if "settings" in sections:
        rows = broker.ask(admin.effective_config())
        document["settings"] = {
            row.key: row.value
            for row in rows
            if row.origin != "default" and row.key not in OF_MACHINE
        }
    return document


# -- plans -------------------------------------------------------------------------------------
def planned(broker: BrokerConnection, wanted: Definitions) -> Iterator[PlannedChange]:
    """Yields the differences between a file and a broker, in the order to apply them.

    Errors   ClientError
    """
    if wanted.topics:
        yield from _topic_changes(broker, wanted.topics)
    if wanted.groups:
        yield from _group_changes(broker, wanted.groups)
    if wanted.users:
        yield from _user_changes(broker, wanted.users)
    if wanted.grants:
        yield from _grant_changes(broker, wanted.grants)
    if wanted.settings:
        yield from _setting_changes(broker, wanted.settings)


def _topic_changes(
    broker: BrokerConnection, wanted: Sequence[Mapping[str, Any]]
) -> Iterator[PlannedChange]:
    found = broker.all(broker.admin.list_topics, page_size=PAGE_COUNT, include_system=True)
    there = {topic.name: topic for topic in found}
    for row in wanted:
        name, topic = row["name"], there.get(row["name"])
        attributes = row.get("attributes")
        now = {} if topic is None else topic_definition(topic)["attributes"]
        _check_attributes(name, {k: v for k, v in (attributes or {}).items() if now.get(k) != v})
        if topic is None:
            details = _shown({k: v for k, v in row.items() if k != "name"})
            yield PlannedChange("topic", name, CREATE, details, _topic_maker(broker, row))
            continue
        changed = _different(row, topic_definition(topic), TOPIC_FIELDS)
        if attributes is not None and attributes != now:
            changed["attributes"] = (now, attributes)
        if changed:
            change = _topic_change(row, now if attributes is None else attributes, now)
            apply = _doer(broker, partial(broker.admin.update_topic, name, change))
            yield PlannedChange("topic", name, CHANGE, _shown_pairs(changed), apply)


def _check_attributes(topic: str, given: Mapping[str, str]) -> None:
    for name, value in given.items():
        try:
            check_attribute(name, value)
        except IllegalAttribute as error:
            raise click.UsageError(f"topic {topic}: {error}") from error


def _topic_change(
    row: Mapping[str, Any], attributes: Mapping[str, str], now: Mapping[str, str]
) -> TopicChange:
    return TopicChange(
        **{name: row[name] for name in TOPIC_FIELDS if name in row},
        set_attributes={k: v for k, v in attributes.items() if now.get(k) != v},
        remove_attributes=tuple(k for k in now if k not in attributes),
    )


def _topic_maker(broker: BrokerConnection, row: Mapping[str, Any]) -> Callable[[], str]:
    def make() -> str:
        attributes = dict(row.get("attributes", {}))
        type_name = attributes.pop(TYPE_ATTRIBUTE, "")
        made = broker.ask(
            broker.admin.create_topic(
                row["name"], queue_count=row.get("write_queue_count", 0), type_name=type_name,
                attributes=attributes,
            )
        )  # fmt: skip
        others = _different(row, topic_definition(made), TOPIC_FIELDS)
        if others:
            change = TopicChange(**{name: new for name, (_, new) in others.items()})
            broker.ask(broker.admin.update_topic(row["name"], change))
        return ""

    return make


def _group_changes(
    broker: BrokerConnection, wanted: Sequence[Mapping[str, Any]]
) -> Iterator[PlannedChange]:
    there = {group.name: group for group in broker.all(broker.admin.list_groups)}
    for row in wanted:
        name, group = row["name"], there.get(row["name"])
        given = {k: v for k, v in row.items() if k != "name"}
        settings = GroupSettings(**given)
        if group is None:
            apply = _doer(broker, partial(broker.admin.create_group, name, settings))
            yield PlannedChange("group", name, CREATE, _shown(given), apply)
            continue
        changed = _different(given, group_definition(group), tuple(given))
        if changed:
            apply = _doer(broker, partial(broker.admin.update_group, name, settings))
            yield PlannedChange("group", name, CHANGE, _shown_pairs(changed), apply)


def _user_changes(
    broker: BrokerConnection, wanted: Sequence[Mapping[str, Any]]
) -> Iterator[PlannedChange]:
    users, _ = broker.ask(broker.admin.access.list_users())
    there = {user.access_key: user for user in users}
    for row in wanted:
        key, user = row["access_key"], there.get(row["access_key"])
        flags = {name: row[name] for name in ("admin", "enabled") if name in row}
        if user is None:
            details = _shown(flags | ({} if row.get("secret") else {"secret": "generated"}))
            yield PlannedChange("user", key, CREATE, details, _user_maker(broker, row))
            continue
        changed = _different(flags, user._asdict(), tuple(flags))
        if changed:
            apply = _doer(broker, partial(broker.admin.access.update_user, key, **flags))
            yield PlannedChange("user", key, CHANGE, _shown_pairs(changed), apply)


def _user_maker(broker: BrokerConnection, row: Mapping[str, Any]) -> Callable[[], str]:
    def make() -> str:
        access, key, given = broker.admin.access, row["access_key"], row.get("secret", "")
        secret = given or secrets.token_hex(SECRET_BYTES)
        broker.ask(access.create_user(key, secret, admin=row.get("admin", False)))
        if row.get("enabled") is False:
            broker.ask(access.update_user(key, enabled=False))
        return "" if given else secret

    return make


GrantKey = tuple[str, str, bool]
"""(user, resource, whether it denies)."""


def _by_key(grants: Sequence[GrantState]) -> dict[GrantKey, dict[tuple[str, ...], set[str]]]:
    """Returns the actions of grants, by GrantKey and then by sources."""
    found: dict[GrantKey, dict[tuple[str, ...], set[str]]] = {}
    for grant in grants:
        by_sources = found.setdefault((grant.user, grant.resource, grant.deny), {})
        sources = tuple(sorted(grant.sources))
        by_sources.setdefault(sources, set()).update(action.lower() for action in grant.actions)
    return found


def _grant_changes(
    broker: BrokerConnection, wanted: Sequence[Mapping[str, Any]]
) -> Iterator[PlannedChange]:
    asked = [GrantState(**row) for row in wanted]
    there = _by_key(broker.ask(broker.admin.access.list_grants()))
    for key, rows in _by_key(asked).items():
        now = there.get(key, {})
        if now != rows:
            user, resource, denies = key
            name = f"{user} {'denied ' if denies else ''}{resource}"
            details = _shown_pairs({"actions": (_actions(now), _actions(rows))})
            action = CHANGE if now else CREATE
            yield PlannedChange("grant", name, action, details, _granter(broker, key, now, rows))


def _granter(
    broker: BrokerConnection, key: GrantKey, now: Mapping[tuple[str, ...], set[str]],
    wanted: Mapping[tuple[str, ...], set[str]],
) -> Callable[[], str]:  # fmt: skip
    def grant() -> str:
        (user, resource, denies), access = key, broker.admin.access
        if any(not actions <= wanted.get(sources, set()) for sources, actions in now.items()):
            broker.ask(access.remove_grant(user, ["all"], resource, deny=denies))
        for sources, actions in wanted.items():
            row = GrantState(user, sorted(actions), resource, denies, sources)
            broker.ask(access.add_grant(row))
        return ""

    return grant


def _setting_changes(
    broker: BrokerConnection, wanted: Mapping[str, str]
) -> Iterator[PlannedChange]:
    now = {row.key: row.value for row in broker.ask(broker.admin.effective_config())}
    for key, value in wanted.items():
        if now.get(key) != value:
            details = _shown_pairs({"value": (now.get(key, "unknown"), value)})
            yield PlannedChange("setting", key, DIFFERS, details, None)


def _different(
    wanted: Mapping[str, Any], now: Mapping[str, Any], names: Sequence[str]
) -> dict[str, tuple[Any, Any]]:
    """Returns the present and the wanted values of the fields that differ."""
    return {
        name: (now[name], wanted[name])
        for name in names
        if name in wanted and wanted[name] != now[name]
    }


def _doer(broker: BrokerConnection, question: Callable[[], Any]) -> Callable[[], str]:
    def do() -> str:
        broker.ask(question())
        return ""

    return do


def _actions(rows: Mapping[tuple[str, ...], set[str]]) -> str:
    parts = [
        ",".join(sorted(actions)) + (f" from {','.join(sources)}" if sources else "")
        for sources, actions in sorted(rows.items())
    ]
    return "; ".join(parts) or "none"


def _shown(fields: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_text(value)}" for name, value in fields.items())


def _shown_pairs(pairs: Mapping[str, tuple[Any, Any]]) -> str:
    return ", ".join(f"{name}: {_text(old)} → {_text(new)}" for name, (old, new) in pairs.items())


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={text}" for name, text in value.items()) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


# -- the commands ------------------------------------------------------------------------------
@click.group(
    cls=ConnectedGroup,
    epilog=examples(
        "pocketmq definitions export > definitions.yaml",
        "pocketmq definitions import definitions.yaml          what would change",
        "pocketmq definitions import definitions.yaml --yes    change it",
    ),
)
def definitions() -> None:
    """Export and import topics, groups, users, grants and settings as one YAML file."""


only_option: Final = click.option(
    "--only", "sections", type=click.Choice(SECTIONS), multiple=True,
    help="Only this section; may be repeated [default: all].",
)  # fmt: skip


@definitions.asks(
    "Print the definitions of a broker as YAML.",
    "pocketmq definitions export > definitions.yaml",
    "pocketmq definitions export --only topics --only groups",
)
@only_option
def export(broker: BrokerConnection, out: Output, sections: tuple[str, ...]) -> None:
    """Print topics, groups, users, grants and changed settings of a broker as YAML.

    The broker's own topics and groups, retry and dead-letter topics, offsets, messages, users'
    secrets, and settings of the machine (names, paths, addresses, its leader) are left out. The
    output is YAML, whatever --output is.
    """
    del out
    click.echo(yaml_document(exported(broker, sections or SECTIONS)), nl=False)


@definitions.asks(
    "Bring a broker to the definitions in a YAML file.",
    "pocketmq definitions import definitions.yaml          what would change",
    "pocketmq definitions import definitions.yaml --yes    change it",
    "pocketmq definitions import definitions.yaml --only topics --yes",
)
@click.argument("file", type=FILE)
@only_option
@yes_option
def import_command(
    broker: BrokerConnection, out: Output, file: Path, sections: tuple[str, ...], yes: bool
) -> None:
    """Create and change what FILE defines; nothing is removed that it does not name.

    Fields that FILE leaves out keep their values. A listed topic has exactly the listed attributes.
    Listed grants replace a user's grants of the same kind, allowing or denying, on the same
    resource. A new user without `secret` gets a generated one, which is shown only once. Settings
    are compared only: change them in the broker's files.
    """
    wanted = read_definitions(file, sections or SECTIONS)
    changes = list(planned(broker, wanted))
    doable = [change for change in changes if change.apply is not None]
    made: list[tuple[str, str]] = []
    for change in doable if yes else ():
        assert change.apply is not None
        secret = change.apply()
        made += [(change.name, secret)] if secret else []
    out.table((change.document for change in changes), COLUMNS)
    for key, secret in made:
        talk(f"secret of user {key}, shown only once: {secret}")
    if len(doable) < len(changes):
        talk("settings that differ are changed in the broker's files, see `pocketmq config`")
    if not changes:
        talk(f"the broker has all definitions of {file}")
    if doable and not yes:
        raise only_planned(f"{counted(len(doable), 'definition')} would be created or changed")
