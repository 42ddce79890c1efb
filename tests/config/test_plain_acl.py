"""RocketMQ's plain_acl.yml becomes users and grants that allow the same; no secret shows."""

from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.config.plain_acl import PlainAcl, PlainYamlError, read_plain_acl, read_yaml
from pocketmq.model.access import Action, Need, ResourceKind
from pocketmq.model.errors import IllegalConfig
from pocketmq.model.rights import Rights

USUAL = """\
# Licensed to the Apache Software Foundation (ASF)
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: "1234 5678"
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY
      - groupB=PUB|SUB

  - accessKey: rocketmq2
    secretKey: 's#cret-of-2'   # one of the admin
    whiteRemoteAddress: 192.168.1.*
    admin: true
""".replace("1234 5678", "secret-of-1")
FILE = Path("plain_acl.yml")
HOST = b"\x0a\0\0\7"


def may(acl: PlainAcl, user: str, action: Action, kind: ResourceKind, name: str) -> bool:
    """Returns whether a user of a file may do something."""
    (found,) = [one for one in acl.users if one.access_key == user]
    rights = Rights(found, [grant for grant in acl.grants if grant.user == user])
    return rights.may(Need((action,), kind, name), HOST)


def account(**given: str) -> PlainAcl:
    """Returns what a file with one account says."""
    lines = [f"    {name}: {value}\n" for name, value in given.items()]
    text = "accounts:\n  - accessKey: app\n    secretKey: secret-of-app\n" + "".join(lines)
    return read_plain_acl(FILE, text)


def test_the_file_of_the_distribution_is_read() -> None:
    acl = read_plain_acl(FILE, USUAL)
    assert [(u.access_key, u.secret, u.is_admin) for u in acl.users] == [
        ("RocketMQ", "secret-of-1", False),
        ("rocketmq2", "s#cret-of-2", True),
    ]
    for topic, actions in (("topicA", ""), ("topicB", "pub sub"), ("topicC", "sub"), ("x", "")):
        for action in (Action.PUB, Action.SUB):
            allowed = may(acl, "RocketMQ", action, ResourceKind.TOPIC, topic)
            assert allowed is (action.value in actions.split()), (topic, action)
    for group, is_allowed in (("groupA", False), ("groupB", True), ("other", True)):
        assert may(acl, "RocketMQ", Action.SUB, ResourceKind.GROUP, group) is is_allowed
    assert [note.partition(" ")[0] for note in acl.notes] == [
        "globalWhiteRemoteAddresses",
        "whiteRemoteAddress",
    ]


@pytest.mark.parametrize("usual", ["DENY", "PUB", "SUB", "PUB|SUB", ""])
@pytest.mark.parametrize("own", ["DENY", "PUB", "SUB", "PUB|SUB", "SUB|PUB"])
def test_the_rule_for_a_name_takes_the_place_of_the_default(usual: str, own: str) -> None:
    acl = account(defaultTopicPerm=usual, topicPerms=f"[orders={own}]")
    for action, word in ((Action.PUB, "PUB"), (Action.SUB, "SUB")):
        assert may(acl, "app", action, ResourceKind.TOPIC, "orders") is (word in own.split("|"))
        assert may(acl, "app", action, ResourceKind.TOPIC, "other") is (word in usual.split("|"))
        assert not may(acl, "app", action, ResourceKind.GROUP, "orders")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it has no accounts"),
        ("accounts: 3\n", "it has no accounts"),
        ("accounts:\n  - secretKey: very-secret\n", "account 1 has no accessKey"),
        ("accounts:\n  - accessKey: a\n", "account a: its key or secret is illegal here"),
        ("accounts:\n  - accessKey: a\n    secretKey: very secret\n", "account a: its key or"),
        (
            "accounts:\n  - accessKey: a\n    secretKey: very-secret\n    defaultTopicPerm: ALL\n",
            "account a: 'ALL' is not a valid permission: it is none of PUB",
        ),
        (
            "accounts:\n" + "- accessKey: a\n  secretKey: very-secret\n" * 2,
            "account a: 'a' is not a valid account: it is a duplicate",
        ),
        (
            "accounts:\n  - accessKey: a\n    secretKey: &x very-secret\n",
            "line 3: its YAML syntax is not supported",
        ),
        ("accounts:\n  - accessKey: a\n    secretKey: 'very-secret\n", "line 3: a quoted text"),
        ("accounts:\n  - accessKey: a\n     very-secret: 1\n", "line 3"),
    ],
)
def test_what_is_wrong_names_the_place_and_no_secret(text: str, why: str) -> None:
    with pytest.raises(IllegalConfig) as caught:
        read_plain_acl(FILE, text)
    assert why in str(caught.value)
    assert "very" not in str(caught.value).replace("very-secret: 1", "")
    assert caught.value.__cause__ is None


# -- YAML ------------------------------------------------------------------------------------------


def test_blocks_may_be_indented_as_people_do() -> None:
    text = """\
    a:
    - x: 1
      y: 'it''s'
    -
      x: "a\\"b"
    - plain # comment
    b: []
    c: [d, "e"]
    e:
    """
    assert read_yaml(dedent(text)) == {
        "a": [{"x": "1", "y": "it's"}, {"x": 'a"b'}, "plain"],
        "b": [],
        "c": ["d", "e"],
        "e": "",
    }


@pytest.mark.parametrize(
    "text",
    ["a: 1\na: 2\n", "a: |\n  b\n", "\ta: 1\n", "a: 1\n   b: 2\n", "- a\nb: 1\n", "a: {b: 1}\n",
     "- " * 40 + "a\n", "a: 1\nfree text\n"],
)  # fmt: skip
def test_what_is_not_read_is_an_error_with_its_line(text: str) -> None:
    with pytest.raises(PlainYamlError, match=r"line \d+: "):
        read_yaml(text)


@given(st.text(alphabet="ab:-#'\"[]{} \t\n|&", max_size=60) | st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(PlainYamlError):
        read_yaml(text)
