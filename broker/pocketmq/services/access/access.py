"""Authenticates callers by signature, and authorizes their actions.

An unknown access key and a wrong signature get the same answer in the same time.
Source: DefaultAuthenticationHandler, DefaultAuthorizationHandler.
"""

import logging
from collections.abc import Callable, Iterable
from hmac import compare_digest
from typing import Final, NamedTuple, NoReturn

from pocketmq.format.signature import (
    BASIC,
    is_content_signature,
    is_page_proof,
    is_signature,
    ms_from_date,
    pair_from_text,
    signed_from_text,
)
from pocketmq.model.access import Grant, Need, ResourceKind, User, text_from_actions
from pocketmq.model.errors import NOT_SIGNED, AccessDenied, AdminsOnly, DiskFull, Unauthenticated
from pocketmq.model.rights import Rights, belongs_to_broker
from pocketmq.model.stats import Counter
from pocketmq.model.step import Clock
from pocketmq.model.topic import RETRY_PREFIX
from pocketmq.store.tables.users import UserTable

VERIFIED_MAX: Final = 4_096
"""Upper limit of cached signatures; the cache is cleared when it is full. Clients use a signature
for one second."""
ADDRESS_PORT_SIZE: Final = 4
"""Bytes of the port after the address in a packed host."""
LOGGED_PAUSE_MS: Final = 60_000
"""Minimum interval between two logged refusals of the same user, action and resource."""
LOGGED_MAX: Final = 100
"""Upper limit of refusals logged in that interval; the metric counts all refusals."""
NOBODY: Final = User("", "nobody knows this one", is_enabled=False)
"""User that replaces an unknown user, so that the check of an unknown access key takes the same
time."""
NO_READER: Final = "a page was requested without access key and secret, or a token"
EXPOSED: Final = (
    "HTTP Basic sends the secret itself, and the connection has no TLS: the secret may be known "
    "now, so change it; then use TLS, or a token (pocketmq user token)"
)
WRONG: Final = "the access key or the signature is wrong"

logger = logging.getLogger(__name__)


class _Verified(NamedTuple):
    rights: Rights
    date_ms: int


class _Open(NamedTuple):
    """An open stream, call or connection of a user; `end` ends it."""

    caller: Rights
    end: Callable[[], None]
    needs_admin: bool


Owners = Callable[[str], list[str]]
"""Name of a retry topic -> names of the groups that own the topic."""


def _named_owners(topic: str) -> list[str]:
    return [topic.removeprefix(RETRY_PREFIX)]


class Access:
    """Access control of a broker.

    date_window_ms   largest difference between a signature's date and the clock; 0: any date
    """

    __slots__ = (
        "_clock", "_generation", "_logged", "_open", "_owners", "_rights", "_verified",
        "_window_ms", "refused", "table",
    )  # fmt: skip

    def __init__(self, table: UserTable, clock: Clock, date_window_ms: int) -> None:
        self.table = table
        self._clock = clock
        self._logged: dict[tuple[str, str, str], int] = {}
        """(reason, user, action and resource) of a logged refusal -> its time, monotonic ms."""
        self._verified: dict[tuple[str, str], _Verified] = {}
        self._rights: dict[str, Rights] = {}
        self._generation = 0
        self._open: dict[object, _Open] = {}
        self._owners: Owners = _named_owners
        self.refused = Counter(
            "pocketmq_access_refused_total",
            "Calls refused by access control, by reason.",
            ("reason",),
        )
        self.take(date_window_ms)
        self.refresh()

    @property
    def stats(self) -> list[Counter]:
        """Metrics of access control."""
        return [self.refused]

    def take(self, date_window_ms: int) -> None:
        """Sets the window of accepted dates for later calls."""
        assert date_window_ms >= 0, "negative date window"
        self._window_ms = date_window_ms

    def refresh(self) -> None:
        """Applies the table of users and grants; ends the streams of users that lost access."""
        roster = self.table.roster
        self._verified.clear()
        before, grants = self._rights, _by_user(roster.grants)
        self._rights = {
            key: Rights(user, grants.get(key, ()), self._generation_of(before.get(key), user))
            for key, user in roster.users.items()
        }
        gone = [key for key, one in self._open.items() if not self._is_allowed(one)]
        for opened in [self._open.pop(key) for key in gone]:
            opened.end()

    def _is_allowed(self, opened: _Open) -> bool:
        rights = self._find_current(opened.caller)
        return rights is not None and (rights.user.is_admin or not opened.needs_admin)

    def _generation_of(self, before: Rights | None, user: User) -> int:
        """Returns a user's generation; a new generation ends the user's open streams."""
        if before is not None and before.user.is_enabled and before.user.secret == user.secret:
            return before.generation
        self._generation += 1
        return self._generation

    def know_owners(self, owners: Owners) -> None:
        """Sets the function that returns the owners of a retry topic."""
        self._owners = owners

    def when_gone(
        self, caller: Rights, end: Callable[[], None], *, needs_admin: bool = False
    ) -> Callable[[], None]:
        """Calls `end` once if the user is deleted, disabled, or gets a new secret.

        The user may have lost access since the call was checked: then `end` is called at once.

        needs_admin   whether `end` is also called if the user is no longer an admin
        Returns       a function that unregisters `end`; callers call it when the stream has ended
        """
        handle, opened = object(), _Open(caller, end, needs_admin)
        if self._is_allowed(opened):
            self._open[handle] = opened
        else:
            end()

        def forget() -> None:
            self._open.pop(handle, None)

        return forget

    def change_user(
        self, access_key: str, *, secret: str | None, is_admin: bool | None,
        is_enabled: bool | None, keeps_admin: bool = True,
    ) -> User:  # fmt: skip
        """Changes the settings of a user that are not None; `save` applies the change.

        keeps_admin   whether the only enabled admin stays one
        Errors        UserNotFound, IllegalUser, LastAdmin
        """
        return self.table.roster.change(
            access_key, secret=secret, is_admin=is_admin, is_enabled=is_enabled,
            keeps_admin=keeps_admin,
        )  # fmt: skip

    def remove_user(self, access_key: str, *, keeps_admin: bool = True) -> None:
        """Removes a user and its grants; `save` applies the change.

        Errors   UserNotFound, LastAdmin
        """
        self.table.roster.remove(access_key, keeps_admin=keeps_admin)

    async def save(self, what: str, by: str) -> None:
        """Applies the changed table; returns when the change is durable and logged.

        what     text of the log event: the action and its object
        by       access key of the actor; "" without authentication
        Errors   DiskFull: nothing is changed; NotReplicated, StoreFailed
        """
        self.refresh()
        try:
            await self.table.save()
        except DiskFull:
            self.refresh()
            raise
        logger.info("access.changed", extra={"what": what, "by": by})

    def caller(self, authorization: str | None, date: str | None) -> Rights:
        """Returns the rights of the user who signed a call.

        Errors   Unauthenticated
        Cost     0.3 µs if the signature is cached, else 8 µs
        """
        if not authorization or not date:
            self._refuse("unsigned", NOT_SIGNED)
        known = self._verified.get((authorization, date))
        if known is None:
            known = self._verify(authorization, date)
        window_ms = self._window_ms
        if window_ms and abs(self._clock.wall_ms() - known.date_ms) > window_ms:
            self._refuse("stale", self._why_stale(date, known.date_ms))
        return known.rights

    def _verify(self, authorization: str, date: str) -> _Verified:
        signed = signed_from_text(authorization)
        if signed is None:
            self._refuse("unsigned", NOT_SIGNED)
        rights = self._rights.get(signed.access_key)
        user = NOBODY if rights is None else rights.user
        is_right = is_signature(signed, user.secret, date)
        if rights is None or not is_right or not user.is_enabled:
            self._refuse("wrong", WRONG)
        date_ms = ms_from_date(date)
        if date_ms is None:
            if self._window_ms:
                self._refuse("stale", f"its {date[:40]!r} is no date")
            date_ms = 0
        if len(self._verified) >= VERIFIED_MAX:
            self._verified.clear()
        known = self._verified[authorization, date] = _Verified(rights, date_ms)
        return known

    def signer(self, access_key: str, signature: str, content: bytes) -> Rights:
        """Returns the rights of the user who signed a whole request, as classic clients do.

        content   the signed bytes; as they contain no date, a copy of a request is accepted
        Errors    Unauthenticated
        Cost      3 µs, plus 1 µs for each KiB
        """
        if not access_key or not signature:
            self._refuse("unsigned", NOT_SIGNED)
        rights = self._rights.get(access_key)
        user = NOBODY if rights is None else rights.user
        is_right = is_content_signature(signature, user.secret, content)
        if rights is None or not is_right or not user.is_enabled:
            self._refuse("wrong", WRONG)
        return rights

    def _why_stale(self, date: str, date_ms: int) -> str:
        apart_s = abs(self._clock.wall_ms() - date_ms) // 1000
        return (
            f"the call was signed at {date[:40]!r}, {apart_s} s from the broker's clock, and "
            f"access.date_window_ms is {self._window_ms // 1000} s: correct the client's clock"
        )

    def current(self, caller: Rights) -> Rights:
        """Returns the present rights of a user.

        Errors   Unauthenticated: the user was deleted, disabled, or has a new secret
        """
        rights = self._find_current(caller)
        if rights is None:
            self._refuse("wrong", WRONG)
        return rights

    def _find_current(self, caller: Rights) -> Rights | None:
        rights = self._rights.get(caller.user.access_key)
        if rights is None or not rights.user.is_enabled:
            return None
        return rights if rights.generation == caller.generation else None

    def may(self, caller: Rights, host: bytes, need: Need) -> bool:
        """Returns whether a user has a permission; the answer False is not counted as a refusal.

        host     address and port of the client, packed
        """
        rights = self._find_current(caller)
        if rights is None:
            return False
        if rights.user.is_admin:
            return True
        address = host[:-ADDRESS_PORT_SIZE]
        return all(rights.may(one, address) for one in self._of_owners(need))

    def _of_owners(self, need: Need) -> list[Need]:
        """Returns the permissions to check: for a retry topic, permissions for its owner groups."""
        if need.kind is not ResourceKind.GROUP or not need.name.startswith(RETRY_PREFIX):
            return [need]
        return [need._replace(name=group) for group in self._owners(need.name)]

    def of_reader(self, authorization: str, *, is_private: bool) -> Rights:
        """Returns the rights of the reader of a page, by an HTTP Authorization header.

        is_private   whether the connection is encrypted; without encryption HTTP Basic is refused
        Errors       Unauthenticated
        """
        scheme, access_key, given = pair_from_text(authorization)
        if not scheme:
            self._refuse("unsigned", NO_READER)
        if scheme == BASIC and not is_private:
            self._refuse("exposed", EXPOSED)
        rights = self._rights.get(access_key)
        user = NOBODY if rights is None else rights.user
        is_right = (
            compare_digest(user.secret.encode(), given.encode())
            if scheme == BASIC
            else is_page_proof(given, user.secret)
        )
        if rights is None or not is_right or not user.is_enabled:
            self._refuse("wrong", WRONG)
        return rights

    def check(self, rights: Rights, needs: Iterable[Need], host: bytes) -> None:
        """Checks that a user has all permissions that a call needs.

        host     address and port of the client, packed
        Errors   AccessDenied; AdminsOnly for topics and groups of the broker itself
        """
        address = host[:-ADDRESS_PORT_SIZE]
        for asked in needs:
            for need in self._of_owners(asked):
                if not rights.may(need, address):
                    self._deny(rights, need, address, asked)

    def check_admin(self, rights: Rights, what: str) -> None:
        """Checks that a user is an admin.

        Errors   AdminsOnly
        """
        if not rights.user.is_admin:
            self._count("forbidden", rights.user.access_key, what)
            raise AdminsOnly(user=rights.user.access_key, what=what)

    def _deny(self, rights: Rights, need: Need, address: bytes, asked: Need) -> NoReturn:
        """Raises an error that does not reveal which groups own a retry topic."""
        shown = need if need is asked else need._replace(name=_named_owners(asked.name)[0])
        key, resource = rights.user.access_key, str(shown.resource)
        if belongs_to_broker(need):
            self.check_admin(rights, f"touch {resource!r}")
        verdict = rights.verdict(need, address)
        action = text_from_actions(frozenset(need.actions[:1]))
        self._count("forbidden", key, f"{action} {resource}")
        remedy = "grant" if verdict.grant is None else "revoke --deny"
        raise AccessDenied(
            user=key, action=action, resource=resource, why=verdict.why, remedy=remedy
        )

    def _refuse(self, reason: str, why: str) -> NoReturn:
        self._count(reason, "", why)
        raise Unauthenticated(why=why)

    def _count(self, reason: str, user: str, what: str) -> None:
        self.refused.add((reason,))
        # Without a user, callers choose parts of the text: these refusals differ by reason only.
        key, now_ms = (reason, user, what if user else ""), self._clock.monotonic_ms()
        for old in [one for one, ms in self._logged.items() if now_ms - ms >= LOGGED_PAUSE_MS]:
            del self._logged[old]
        if key not in self._logged and len(self._logged) < LOGGED_MAX:
            self._logged[key] = now_ms
            logger.warning("access.refused", extra={"reason": reason, "user": user, "what": what})


def _by_user(grants: Iterable[Grant]) -> dict[str, list[Grant]]:
    found: dict[str, list[Grant]] = {}
    for grant in grants:
        found.setdefault(grant.user, []).append(grant)
    return found
