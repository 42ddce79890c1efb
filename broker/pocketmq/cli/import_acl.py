"""Imports RocketMQ's plain_acl.yml into a store, for `pocketmq config import-broker-conf`."""

from pathlib import Path

from pocketmq.cli.output import counted, only_planned, talk, talk_notes, write


def import_acl(file: Path, store: Path | None) -> bool:
    """Prints users and grants of a file, and writes them into a store if one is given.

    Returns  whether the file is a plain_acl.yml
    Errors   IllegalConfig; Planned: no store is given; NotAStore, StoreLocked, UserExists,
             DiskFull: nothing was written
    """
    from pocketmq.config.broker_conf import text_of
    from pocketmq.config.plain_acl import is_plain_acl, read_plain_acl
    from pocketmq.model.access import text_from_actions
    from pocketmq.tools.users import changed_roster

    if not is_plain_acl(file):
        return False
    acl = read_plain_acl(file, text_of(file))
    if store is not None:
        with changed_roster(store) as roster:
            for user in acl.users:
                roster.add(user)
            for grant in acl.grants:
                roster.grant(grant)
    for user in acl.users:
        write(f"user   {user.access_key}{'  admin' if user.is_admin else ''}\n")
    for grant in acl.grants:
        actions = text_from_actions(grant.actions)
        write(f"{grant.decision:6} {grant.user}  {actions}  {grant.resource}\n")
    talk_notes(acl.notes)
    if store is None:
        count, noun = counted(len(acl.users), "user"), "grant"
        text = f"{count} and {counted(len(acl.grants), noun)} would be written"
        raise only_planned(text, option="--store DIR")
    talk(f"Wrote {len(acl.users)} users and {len(acl.grants)} grants to {store}")
    return True
