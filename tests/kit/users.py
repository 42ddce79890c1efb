"""Users of a broker, and calls that they sign."""

from pathlib import Path
from typing import Final

from pocketmq.format.signature import AUTHORIZATION_KEY, DATE_KEY, authorization_of, date_from_ms
from pocketmq.model.access import Grant, User, actions_from_text, resource_from_text
from pocketmq.services.access.access import Access
from pocketmq.store.tables.users import UserTable
from tests.kit.call import FakeCall
from tests.sim.clock import START_MS, FakeClock
from tests.sim.disk import SimDisk

SECRET: Final = "a secret of 24 chars".replace(" ", "-")
WINDOW_MS: Final = 300_000
DATE: Final = date_from_ms(START_MS)


def grant_of(user: str, actions: str, resource: str, **given: object) -> Grant:
    """Parses a rule such as ("app", "pub,sub", "topic:orders-*")."""
    return Grant(user, actions_from_text(actions), resource_from_text(resource), **given)  # type: ignore[arg-type]


def access_of(*grants: Grant, clock: FakeClock | None = None) -> Access:
    """Returns a broker's access control: users admin, app and off (disabled), and rules."""
    table = UserTable(SimDisk(), Path("/store"))
    table.roster.add(User("admin", SECRET, is_admin=True))
    table.roster.add(User("app", SECRET))
    table.roster.add(User("off", SECRET, is_admin=True, is_enabled=False))
    for grant in grants:
        table.roster.grant(grant)
    return Access(table, clock or FakeClock(), WINDOW_MS)


def signed(user: str = "app", secret: str = SECRET, date: str = DATE) -> dict[str, str]:
    """Returns the metadata of a call that a user signed."""
    return {AUTHORIZATION_KEY: authorization_of(user, secret, date), DATE_KEY: date}


def call_of(user: str = "app", **extra: str) -> FakeCall:
    """Returns a call of a user, from 10.0.0.7."""
    return FakeCall(metadata={**signed(user), **extra})
