"""Access control of a broker: whether calls must be signed, and the checks of each call."""

import logging
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Final

from pocketmq.app.container import SECRET, Container
from pocketmq.app.ports import Ports
from pocketmq.config.live import LiveConfig
from pocketmq.config.port_sections import AUTO, OFF, ON
from pocketmq.config.relations import unreadable
from pocketmq.config.sections import TEMPORARY_STORE, USERS, Config
from pocketmq.files.disk import Disk
from pocketmq.model.access import SECRET_LENGTH_SAFE, Need, ResourceKind, User
from pocketmq.model.errors import BrokerError, IllegalConfig, IllegalUser
from pocketmq.model.ownership import owner_groups
from pocketmq.model.step import Clock
from pocketmq.rpc.call import host_from_peer
from pocketmq.rpc.classic.service_table import TABLE as CLASSIC
from pocketmq.rpc.classic.signing import signed_by_fields
from pocketmq.rpc.creations import Creations
from pocketmq.rpc.guard import Guard
from pocketmq.rpc.permissions import GET
from pocketmq.rpc.service import GRPC, REMOTING, Service
from pocketmq.rpc.v1.service_table import rules_of
from pocketmq.rpc.v2.service_table import TABLE as OFFICIAL
from pocketmq.services.access.access import Access
from pocketmq.services.replication.followers import WhenLost, always_admitted
from pocketmq.services.replication.handshake import signature_of
from pocketmq.store.tables.tables import Tables
from pocketmq.store.tables.users import UserTable

OPEN_PAGES: Final = frozenset({"/livez", "/readyz", "/startupz"})
"""Pages for probes, which contain no secrets."""

logger = logging.getLogger(__name__)


class AccessControl:
    """The users of a broker, and whether calls must be signed."""

    __slots__ = (
        "_clock", "_cluster", "_has_new_admin", "_in_clear", "_is_local", "_live", "access",
        "is_checked",
    )  # fmt: skip

    def __init__(
        self, access: Access, live: LiveConfig, clock: Clock, *, is_checked: bool, in_clear: str,
        is_local: bool, has_new_admin: bool,
    ) -> None:  # fmt: skip
        self.access = access
        self._live = live
        self._clock = clock
        self.is_checked = is_checked
        self._in_clear = in_clear
        """Addresses that serve without TLS."""
        self._is_local = is_local
        """Whether only this machine reaches the ports."""
        self._cluster = live.config.broker.cluster
        self._has_new_admin = has_new_admin
        if has_new_admin:
            assert access.table.roster.users, "the new admin is missing"

    async def begin(self) -> None:
        """Saves the first admin in the open store, and logs the state of access control.

        Errors   DiskFull
        """
        if self._has_new_admin:
            await self.access.table.save()
            _doubt_secrets(self.access.table.roster.users.values())
        count = len(self.access.table.roster.users)
        if self.is_checked:
            logger.info("access.checked", extra={"users": count})
            if self._in_clear:
                what = "the network can read signatures of calls without TLS: set rpc.tls_only"
                logger.warning("access.in_clear", extra={"ports": self._in_clear, "what": what})
        elif self._is_local:
            logger.info("access.local", extra={"users": count})
        else:
            what = "every client that reaches a port may do everything"
            logger.warning("access.open", extra={"users": count, "what": what})

    def reload(self) -> None:
        """Applies the users in the file, which a follower has replaced.

        Errors   TableUnreadable: the users stay
        """
        self.access.table.load()
        self.access.refresh()

    def check_follower(self, token: str) -> WhenLost:
        """Checks that the token of a follower was signed by an admin, if calls must be signed.

        Returns  a function that calls another one when the user is no longer such an admin
        Errors   Unauthenticated, AdminsOnly
        """
        if not self.is_checked:
            return always_admitted
        rights = self.access.caller(*signature_of(token))
        self.access.check_admin(rights, "follow this broker")
        return partial(self.access.when_gone, rights, needs_admin=True)

    def guarded(self, services: Iterable[Service], tables: Tables) -> list[Service]:
        """Returns the services to serve, each with the guard if calls must be signed.

        tables   the store's tables, to look up topics and groups
        """
        if not self.is_checked:
            return [*services]
        is_group, is_topic = tables.groups.find, tables.topics.find
        self.access.know_owners(lambda name: owner_groups(name, is_group, is_topic))
        exists = {ResourceKind.TOPIC: is_topic, ResourceKind.GROUP: is_group}
        creations = Creations(exists, self._clock.monotonic_ms, self._creations_per_hour)
        guards = {
            GRPC: Guard(self.access, creations),
            REMOTING: Guard(self.access, creations, signed_by_fields),
        }
        rules = rules_of(self._cluster)
        rules |= {table.name: table.rules(self._cluster) for table in (OFFICIAL, CLASSIC)}
        return [
            guards[service.protocol].guarded(service, rules[service.name]) for service in services
        ]

    def _creations_per_hour(self) -> int:
        return self._live.config.limits.user_creations_per_hour

    def admits(self, path: str, authorization: str, peer: str, is_private: bool) -> bool:
        """Returns whether a client may read a page.

        authorization   the client's HTTP Basic credentials or bearer token; "" for none
        peer            the client's address in gRPC's form
        is_private      whether the connection is encrypted or local, so that HTTP Basic is accepted
        """
        if not self.is_checked or path in OPEN_PAGES:
            return True
        host = host_from_peer(peer)
        need = Need(GET, ResourceKind.CLUSTER, self._cluster)
        try:
            rights = self.access.of_reader(authorization, is_private=is_private)
            self.access.check(rights, (need,), host)
        except BrokerError:
            return False
        return True


def door_of(
    live: LiveConfig, disk: Disk, clock: Clock, ports: Ports, container: Container
) -> AccessControl:
    """Returns the access control of a broker, before its store is open.

    Errors   TableUnreadable; IllegalConfig: no enabled user, an illegal secret, or an unreadable
             secret file
    """
    config = live.config
    table = UserTable(disk, config.store_settings().directory)
    table.load()
    has_new_admin = False
    if not table.roster.users and (container.secret or config.access.admin_secret_path):
        _add_admin(table, config, container)
        has_new_admin = True
    access = Access(table, clock, config.access.date_window_ms)
    live.follow(lambda config: access.take(config.access.date_window_ms))
    users = table.roster.users
    is_checked = must_check(config, ports, has_users=bool(users))
    if is_checked and not any(user.is_enabled for user in users.values()):
        raise _nobody(config, ports, container)
    return AccessControl(
        access, live, clock, is_checked=is_checked, in_clear=", ".join(ports.in_clear(config)),
        is_local=not ports.opened(config), has_new_admin=has_new_admin,
    )  # fmt: skip


def must_check(config: Config, ports: Ports, *, has_users: bool) -> bool:
    """Returns whether calls must be signed."""
    if config.access.check == AUTO:
        return bool(ports.opened(config))
    return config.access.check == ON or (config.access.check == USERS and has_users)


def _nobody(config: Config, ports: Ports, container: Container) -> IllegalConfig:
    opened = ports.opened(config)
    key, reach = opened[0] if opened else ("access.check", "calls have to be signed")
    lead = f"{reach}, and there is no enabled user; create or enable one"
    if container.image:
        why = f"{lead}, or disable access control:{container.ways_in()}"
    elif config.origin("store.directory") == TEMPORARY_STORE:
        why = (
            f"{reach}, and a broker of pocketmq dev begins without users; add --insecure to serve "
            "all callers, or run pocketmq serve, whose users last"
        )
    else:
        store = quote(str(config.store.directory))
        why = (
            f"{lead} (pocketmq user add {container.admin} --admin --store {store}), or disable "
            f"access control (--insecure, access.check={OFF})"
        )
    return IllegalConfig(field=key, why=why)


def _add_admin(table: UserTable, config: Config, container: Container) -> None:
    path = config.access.admin_secret_path
    source = SECRET if container.secret else "access.admin_secret_path"
    try:
        secret = container.secret or Path(path).expanduser().read_text("utf-8").strip()
        table.roster.add(User(container.admin, secret, is_admin=True))
    except IllegalUser as error:
        raise IllegalConfig(field=source, why=error.why) from error
    except (OSError, ValueError) as error:
        raise unreadable(config, "access.admin_secret_path", error) from error


def _doubt_secrets(users: Iterable[User]) -> None:
    """Warns of a short secret that an operator chose for the first admin."""
    for user in users:
        if len(user.secret) < SECRET_LENGTH_SAFE:
            doubt = (
                f"the secret of {user.access_key} has {len(user.secret)} characters and can be "
                f"guessed; make a long one: pocketmq user edit {user.access_key} --new-secret"
            )
            logger.warning("config.suspect", extra={"doubt": doubt})
