"""Imports RocketMQ's plain_acl.yml as users and grants.

    accounts[]  accessKey, secretKey, admin             a user
                defaultTopicPerm, defaultGroupPerm      grants on topic:*, group:*
                topicPerms[], groupPerms[]              NAME=PUB|SUB, NAME=DENY: grants on NAME

In RocketMQ an account's rule for a name replaces its default; in PocketMQ a deny wins. So actions
that the default allows and the rule does not are denied for the name. No error contains a secret.
Source: PlainPermissionManager, PlainAccessConfig, Permission.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from pocketmq.model.access import (
    Action,
    Grant,
    Resource,
    ResourceKind,
    User,
    check_user,
    resource_from_text,
)
from pocketmq.model.errors import IllegalGrant, IllegalUser, SettingsFileUnusable

# -- a subset of YAML --------------------------------------------------------------------------
DEPTH_MAX: Final = 16
_KEY: Final = re.compile(r"""("[^"]*"|'[^']*'|[^\s'"#\[\]{},&*!|>%@`-][^:#]*?)\s*:(?:\s+(.*)|$)""")
_FOREIGN: Final = re.compile(r"[&*!|>%@`{]")
_QUOTED: Final = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*(?:#.*)?""")
_ESCAPED: Final = re.compile(r'\\(["\\/])')


class PlainYamlError(ValueError):
    """Error of text outside the YAML subset; contains the line number, but no content."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")


class _Line(NamedTuple):
    number: int
    indent: int
    text: str


def read_yaml(text: str) -> Any:
    """Parses YAML into dicts, lists and texts; an empty value or document is "".

    Errors   PlainYamlError
    """
    reader = _Reader([*_lines(text)])
    found = reader.block(0, 0) if reader.lines else ""
    if reader.lines:
        raise PlainYamlError(reader.lines[0].number, "its indentation differs from the lines above")
    return found


def _lines(text: str) -> list[_Line]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if not bare or bare.startswith("#") or (bare in {"---", "..."} and line[0] != " "):
            continue
        indent = len(line) - len(line.lstrip(" "))
        if line[indent] == "\t":
            raise PlainYamlError(number, "a tab cannot indent")
        found.append(_Line(number, indent, bare))
    return found


class _Reader:
    __slots__ = ("lines",)

    def __init__(self, lines: list[_Line]) -> None:
        self.lines = lines

    def block(self, indent: int, depth: int) -> Any:
        first = self.lines[0]
        if depth > DEPTH_MAX:
            raise PlainYamlError(first.number, "it is nested too deep")
        assert first.indent >= indent, "the block is indented less than its parent"
        if _is_item(first.text):
            return self._sequence(first.indent, depth)
        if _KEY.fullmatch(first.text):
            return self._mapping(first.indent, depth)
        del self.lines[0]
        return _scalar(first.text, first.number)

    def _sequence(self, indent: int, depth: int) -> list[Any]:
        found: list[Any] = []
        while self._goes_on(indent, _is_item):
            number, _, text = self.lines[0]
            rest = text[1:].lstrip()
            if rest and not rest.startswith("#"):
                self.lines[0] = _Line(number, indent + len(text) - len(rest), rest)
                found.append(self.block(indent + 1, depth + 1))
            else:
                del self.lines[0]
                found.append(self._below(indent + 1, depth))
        return found

    def _mapping(self, indent: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._goes_on(indent, lambda text: not _is_item(text)):
            number, _, text = self.lines.pop(0)
            pair = _KEY.fullmatch(text)
            if pair is None:
                raise PlainYamlError(number, "it is no KEY: VALUE")
            key, rest = pair[1].strip("\"'"), (pair[2] or "").strip()
            if key in found:
                raise PlainYamlError(number, "duplicate key")
            if rest and not rest.startswith("#"):
                found[key] = _scalar(rest, number)
            else:
                found[key] = self._value_below(indent, depth)
        return found

    def _value_below(self, indent: int, depth: int) -> Any:
        if self._goes_on(indent, _is_item):
            return self._sequence(indent, depth + 1)
        return self._below(indent + 1, depth)

    def _below(self, indent: int, depth: int) -> Any:
        is_there = self.lines and self.lines[0].indent >= indent
        return self.block(indent, depth + 1) if is_there else ""

    def _goes_on(self, indent: int, is_one: Callable[[str], bool]) -> bool:
        return bool(self.lines) and self.lines[0].indent == indent and is_one(self.lines[0].text)


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _scalar(text: str, number: int) -> Any:
    if text[0] in "\"'":
        quoted = _QUOTED.fullmatch(text)
        if quoted is None:
            raise PlainYamlError(number, "a quoted text does not end, or text follows it")
        return _unquoted(quoted[1])
    bare = text.partition(" #")[0].rstrip()
    if bare.startswith("[") and bare.endswith("]"):
        return [_scalar(part.strip(), number) for part in bare[1:-1].split(",") if part.strip()]
    if _FOREIGN.match(bare) or bare.startswith("["):
        why = (
            "its YAML syntax is not supported; write a line KEY: VALUE for each field, and lists "
            "with - or [A, B]"
        )
        raise PlainYamlError(number, why)
    return "" if bare in {"~", "null"} else bare


def _unquoted(text: str) -> str:
    inner = text[1:-1]
    return inner.replace("''", "'") if text[0] == "'" else _ESCAPED.sub(r"\1", inner)


# -- plain_acl.yml -----------------------------------------------------------------------------
PERMISSIONS: Final[Mapping[str, frozenset[Action]]] = {
    "PUB": frozenset({Action.PUB}),
    "SUB": frozenset({Action.SUB}),
    "PUB|SUB": frozenset({Action.PUB, Action.SUB}),
    "SUB|PUB": frozenset({Action.PUB, Action.SUB}),
    "ANY": frozenset({Action.PUB, Action.SUB}),
    "DENY": frozenset(),
}
_KINDS: Final = (
    (ResourceKind.TOPIC, "defaultTopicPerm", "topicPerms"),
    (ResourceKind.GROUP, "defaultGroupPerm", "groupPerms"),
)
_NO_WHITE_LIST: Final = "PocketMQ requires a signature from every address"


class PlainAcl(NamedTuple):
    """Users and grants of a plain_acl.yml.

    notes   settings that are left out, with reasons
    """

    users: list[User]
    grants: list[Grant]
    notes: list[str]


def is_plain_acl(path: Path) -> bool:
    """Returns whether a file is a plain_acl.yml, by its suffix."""
    return path.suffix.lower() in {".yml", ".yaml"}


def read_plain_acl(path: Path, text: str) -> PlainAcl:
    """Returns the users and grants of a plain_acl.yml.

    Errors   SettingsFileUnusable, which contains the account but no secret
    """
    try:
        document = read_yaml(text)
    except PlainYamlError as error:
        raise SettingsFileUnusable(field=str(path), why=str(error)) from None
    accounts = document.get("accounts") if isinstance(document, dict) else None
    if not isinstance(accounts, list):
        raise SettingsFileUnusable(
            field=str(path), why="it has no accounts: it is no plain_acl.yml"
        )
    found = PlainAcl([], [], [])
    if document.get("globalWhiteRemoteAddresses"):
        found.notes.append(f"globalWhiteRemoteAddresses is left out: {_NO_WHITE_LIST}")
    for number, account in enumerate(accounts, 1):
        if not isinstance(account, dict) or not isinstance(account.get("accessKey"), str):
            why = f"account {number} has no accessKey"
            raise SettingsFileUnusable(field=str(path), why=why)
        try:
            _take(found, account)
        except (IllegalUser, IllegalGrant) as error:
            why = f"account {account['accessKey'][:64]}: {_why(error)}"
            raise SettingsFileUnusable(field=str(path), why=why) from None
    return found


def _why(error: IllegalUser | IllegalGrant) -> str:
    """Returns the text of an error; a fixed text for IllegalUser, which may contain a secret."""
    return str(error) if isinstance(error, IllegalGrant) else "its key or secret is illegal here"


def _take(found: PlainAcl, account: Mapping[str, Any]) -> None:
    key, secret = account["accessKey"], account.get("secretKey", "")
    user = User(key, secret if isinstance(secret, str) else "", is_admin=_is_true(account))
    check_user(user)
    if any(known.access_key == key for known in found.users):
        raise IllegalGrant(text=key, what="account", why="it is a duplicate")
    found.users.append(user)
    if account.get("whiteRemoteAddress"):
        found.notes.append(f"whiteRemoteAddress of {key} is left out: {_NO_WHITE_LIST}")
    if not user.is_admin:
        found.grants.extend(_grants(key, account))


def _is_true(account: Mapping[str, Any]) -> bool:
    return str(account.get("admin", "")).lower() == "true"


def _grants(key: str, account: Mapping[str, Any]) -> Iterator[Grant]:
    for kind, default_name, names in _KINDS:
        usual = _permission(account.get(default_name) or "DENY")
        if usual:
            yield Grant(key, usual, Resource(kind, "*"))
        rules = account.get(names) or []
        for rule in rules if isinstance(rules, list) else [rules]:
            name, _, permission = str(rule).partition("=")
            allowed = _permission(permission)
            resource = resource_from_text(f"{kind.value}:{name.strip()}")
            if allowed:
                yield Grant(key, allowed, resource)
            if usual - allowed:
                yield Grant(key, usual - allowed, resource, is_allowed=False)


def _permission(text: object) -> frozenset[Action]:
    wanted = str(text).replace(" ", "").upper()
    found = PERMISSIONS.get(wanted)
    if found is None:
        why = f"it is none of {', '.join(PERMISSIONS)}"
        raise IllegalGrant(text=wanted[:64], what="permission", why=why)
    return found
