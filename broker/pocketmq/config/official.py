"""Reads the command line, files and environment of RocketMQ's mqbroker as settings.

As in RocketMQ's own image, files are below the user's home, and the gRPC port is the proxy's. Calls
must be signed only if a file demands it or the store has users.

    storePathRootDir     the store; if it is not set, DIR/store, where DIR is -Duser.home in
                         JAVA_OPT_EXT, or the home directory
    grpcServerPort       of rmq-proxy.json; if it is not set, 8081. listenPort is not used
    authenticationEnabled, aclEnable     calls must be signed
    initAuthenticationUser               the first admin
Source: BrokerStartup, ProxyStartup, docker-entrypoint.sh.
"""

import json
import re
from collections.abc import Mapping
from os.path import normpath
from pathlib import Path
from typing import Final, NamedTuple

from pocketmq.config.load import examine, text_or_nothing
from pocketmq.config.port_sections import ON
from pocketmq.config.rocketmq_files import TAKEN, properties, proxy_pairs
from pocketmq.config.sections import USERS
from pocketmq.model.errors import IllegalConfig, SettingsFileUnusable

GRPC: Final = "0.0.0.0:8081"
PAGES: Final = "0.0.0.0:5557"
JAVA_VARIABLES: Final = ("JAVA_OPT_EXT", "JAVA_OPT", "JAVA_OPTS")
HOMES: Final = "rocketmq-*"
ASKS: Final = ("authenticationEnabled", "aclEnable")
FIRST_ADMIN: Final = "initAuthenticationUser"
APPLIED: Final = frozenset({*ASKS, FIRST_ADMIN})
"""Names in broker.conf that `official_start` applies; other starts ignore them."""
_USER_HOME: Final = re.compile(r"(?:^|\s)-Duser\.home=(\S+)")


class OfficialStart(NamedTuple):
    """A start of mqbroker as settings.

    file          broker.conf; None: there is none
    assignments   settings that override the file's, "key=value"
    admin         (user, secret) of the first admin; ("", ""): no admin is created
    """

    file: Path | None
    assignments: list[str]
    admin: tuple[str, str]


def official_start(
    broker_conf: Path | None, proxy_conf: Path | None, environment: Mapping[str, str]
) -> OfficialStart:
    """Returns the settings of a start with these files, each of which may be missing.

    Errors   IllegalConfig: rmq-proxy.json, or the value of initAuthenticationUser, cannot be parsed
    """
    user_home = _user_home(environment)
    home = _rocketmq_home(environment, user_home)
    file = _found(broker_conf, home, "broker.conf")
    proxy = _found(proxy_conf, home, "rmq-proxy.json")
    given = examine(file=file, environment=environment).config.origins
    names = {item.name: item.value for item in properties(text_or_nothing(file) if file else "")}
    asks = any(names.get(each, "") == "true" for each in ASKS)
    values = {
        "store.directory": str(user_home / "store"),
        "http.listen": PAGES,
        "access.check": ON if asks else USERS,
    }
    defaults = environment.get("POCKETMQ_DEFAULTS", "")
    wanted = {
        key: value
        for key, value in values.items()
        if key not in given or (defaults and given[key].startswith(f"{defaults}:"))
    }
    # RocketMQ's listenPort is not the port of gRPC clients, so a value from a file is not used.
    wanted |= {
        key: value
        for key, value in {"rpc.listen": GRPC, "broker.advertised_port": "0"}.items()
        if key not in given or not given[key].startswith("POCKETMQ__")
    }
    if proxy is not None:
        wanted |= _proxy_settings(proxy)
    return OfficialStart(
        file, [f"{key}={value}" for key, value in wanted.items()],
        _first_admin(names.get(FIRST_ADMIN, "")),
    )  # fmt: skip


def _user_home(environment: Mapping[str, str]) -> Path:
    for variable in JAVA_VARIABLES:
        if found := _USER_HOME.findall(environment.get(variable, "")):
            return Path(found[-1])
    return Path(environment.get("HOME", "") or "~").expanduser()


def _rocketmq_home(environment: Mapping[str, str], user_home: Path) -> Path | None:
    if environment.get("ROCKETMQ_HOME"):
        return Path(environment["ROCKETMQ_HOME"])
    return max(user_home.glob(HOMES), default=None)


def _found(given: Path | None, home: Path | None, name: str) -> Path | None:
    """Returns the given file; if none is given, the file in `home`/conf, if it exists.

    A given path that does not exist is also resolved from RocketMQ's bin directory.
    """
    if given is not None:
        if home is None or given.exists():
            return given
        beside = Path(normpath(home / "bin" / given))
        return beside if beside.exists() else given
    usual = home / "conf" / name if home else None
    return usual if usual is not None and usual.is_file() else None


def _proxy_settings(path: Path) -> dict[str, str]:
    try:
        pairs = proxy_pairs(path, path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsFileUnusable(field=str(path), why=f"it cannot be read: {error}") from error
    found = {TAKEN[name]: value for name, value in pairs if name in TAKEN and value}
    for key in ("rpc.listen", "http.listen"):
        if key in found:
            found[key] = f"0.0.0.0:{found[key]}"
    return found


def _first_admin(text: str) -> tuple[str, str]:
    """Returns user and secret of `{"username":…,"password":…}`.

    Errors   IllegalConfig, which does not contain the secret
    """
    if not text:
        return "", ""
    try:
        document = json.loads(text)
        return str(document["username"]), str(document["password"])
    except (ValueError, KeyError, TypeError):
        why = 'it is not {"username":"NAME","password":"SECRET"}'
        raise IllegalConfig(field="initAuthenticationUser", why=why) from None
