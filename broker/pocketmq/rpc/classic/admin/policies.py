"""Converts policies of classic requests to rules of users, and rules to policies.

    {"subject":"User:app","policies":[{"policyType":"Custom","entries":[
        {"resource":"Topic:orders","actions":["Pub","Sub"],"sourceIps":[],"decision":"Allow"}]}]}

RocketMQ applies Default policies only if no Custom policy matches. Rules have no such order here,
so Default policies are refused.
Source: AclConverter, AclInfo.
"""

from collections.abc import Iterable
from typing import Any, Final

from pocketmq.model.access import (
    EVERY,
    Action,
    Grant,
    ResourceKind,
    action_from_text,
    resource_from_text,
    source_from_text,
)
from pocketmq.model.errors import IllegalGrant
from pocketmq.rpc.classic.json_body import Body, objects_in, text_in
from pocketmq.rpc.service import MalformedRequest

SUBJECT: Final = "User:"
CUSTOM: Final = "Custom"
TEXTS_MAX: Final = 256
"""Upper limit of the actions in one entry, and of its source addresses."""
_DECISIONS: Final = {"": True, "allow": True, "deny": False}


def user_of(subject: str) -> str:
    """Returns the user of a subject such as "User:app".

    Errors   IllegalGrant
    """
    kind, _, name = subject.partition(":")
    if f"{kind}:".lower() != SUBJECT.lower() or not name:
        raise IllegalGrant(text=subject, what="subject", why=f"write {SUBJECT}NAME")
    return name


def grants_in(user: str, body: Body) -> list[Grant]:
    """Returns the rules in the policies of a request.

    Errors   MalformedRequest, IllegalGrant
    """
    found = []
    for policy in objects_in(body, "policies"):
        kind = text_in(policy, "policyType")
        if kind.lower() not in ("", CUSTOM.lower()):
            why = "only Custom is served: rules have no order here"
            raise IllegalGrant(text=kind, what="policy type", why=why)
        found += [_grant(user, entry) for entry in objects_in(policy, "entries")]
    if not found:
        raise MalformedRequest(why="its policies have no entries")
    return found


def _grant(user: str, entry: Body) -> Grant:
    decision = text_in(entry, "decision")
    if decision.lower() not in _DECISIONS:
        raise IllegalGrant(text=decision, what="decision", why="write Allow or Deny")
    actions = frozenset(map(action_from_text, _texts(entry, "actions")))
    if not actions:
        raise IllegalGrant(text="", what="action", why="name at least one")
    return Grant(
        user,
        actions,
        resource_from_text(text_in(entry, "resource")),
        is_allowed=_DECISIONS[decision.lower()],
        sources=tuple(map(source_from_text, _texts(entry, "sourceIps"))),
    )


def _texts(entry: Body, name: str) -> list[str]:
    found = entry.get(name)
    if found is None:
        return []
    is_list = type(found) is list and all(type(one) is str for one in found)
    if not is_list or len(found) > TEXTS_MAX:
        raise MalformedRequest(why=f"{name} is no list of at most {TEXTS_MAX} texts")
    return list(found)


def policy_body(user: str, grants: Iterable[Grant]) -> dict[str, Any]:
    """Returns the rules of a user as RocketMQ writes them."""
    entries = [
        {
            "actions": [_shown(action) for action in Action if action in grant.actions],
            "decision": grant.decision.capitalize(),
            "resource": _resource(grant),
            "sourceIps": [*grant.sources],
        }
        for grant in grants
    ]
    policies = [{"entries": entries, "policyType": CUSTOM}] if entries else []
    return {"policies": policies, "subject": SUBJECT + user}


def _shown(action: Action) -> str:
    return action.value.capitalize()


def _resource(grant: Grant) -> str:
    kind, pattern = grant.resource
    if kind is ResourceKind.EVERYTHING:
        return EVERY
    return f"{kind.value.capitalize()}:{pattern}"
