"""Access: users, their grants, and why an action is allowed or denied."""

from secrets import token_hex
from typing import Final

from starlette.responses import Response

from pocketmq.client import ClientError, errors
from pocketmq.client.async_access import Explained
from pocketmq.client.values import GrantState
from pocketmq.console.listing import cut
from pocketmq.console.web import Route, Visit

SECRET_BYTES: Final = 16
CHANGES: Final = ("enable", "disable", "secret", "remove")
ROWS_MAX: Final = 200
"""Users that a page lists."""
ACTIONS: Final = ("all", "pub", "sub", "create", "update", "delete", "get", "list")


async def access(page: Visit) -> Response:
    """Shows users and grants, and the answer to a question."""
    return await _show(page)


async def _show(page: Visit, secret: tuple[str, str] = ("", "")) -> Response:
    own = page.offers.own_grants
    if own is not None:
        return page.render("access_own.html", grants=own)
    users, is_checked = await page.client.admin.access.list_users()
    grants = await page.client.admin.access.list_grants()
    explained, failure = await _explained(page)
    return page.render(
        "access.html", users=users, is_checked=is_checked, grants=cut(grants, page),
        actions=ACTIONS,
        secret=secret, explained=explained, failure=failure, user=page.text("user"),
        action=page.text("action"), resource=page.text("resource"),
        source=page.text("source"), is_admin=page.offers.is_admin, rows_max=ROWS_MAX,
    )  # fmt: skip


async def _explained(page: Visit) -> tuple[Explained | None, str]:
    user, resource = page.text("user").strip(), page.text("resource").strip()
    if page.request.method != "GET" or not user or not resource:
        return None, ""
    try:
        return await page.client.admin.access.explain(
            user, page.text("action"), resource, page.text("source").strip()
        ), ""
    except errors.Unauthenticated:
        raise
    except ClientError as error:
        return None, error.message


async def add_user(page: Visit) -> Response:
    """Creates a user, and shows the secret once."""
    key, is_admin = page.text("access_key").strip(), page.text("admin") == "true"
    secret = token_hex(SECRET_BYTES)
    await page.client.admin.access.create_user(key, secret, admin=is_admin)
    page.note(
        f"User {key} exists.",
        page.console.command("user", "add", key, *(("--admin",) if is_admin else ())),
    )
    return await _show(page, (key, secret))


async def change_user(page: Visit) -> Response:
    """Enables, disables or removes a user, or gives it a new secret."""
    key, what = page.text("access_key"), page.choice("what", CHANGES)
    if what == "secret":
        if page.text("confirm") != key:
            return page.render(
                "plan.html", title=f"New secret of {key}", confirm=key, target="/access/user",
                lines=[f"clients that sign as {key} with the secret of now are refused"],
                verb="Make a new secret", back=page.url("/access"),
                fields={"access_key": key, "what": "secret"},
                command=page.console.command("user", "edit", key, "--new-secret"),
            )  # fmt: skip
        secret = token_hex(SECRET_BYTES)
        await page.client.admin.access.update_user(key, secret=secret)
        page.note(
            f"User {key} has a new secret.",
            page.console.command("user", "edit", key, "--new-secret"),
        )
        return await _show(page, (key, secret))
    if what == "remove":
        if page.text("confirm") != key:
            return page.render(
                "plan.html", title=f"Remove {key}", lines=[f"user {key} and its grants"],
                confirm=key, target="/access/user", verb="Remove", back=page.url("/access"),
                fields={"access_key": key, "what": "remove"},
                command=page.console.command("user", "rm", key, "--yes"),
            )  # fmt: skip
        await page.client.admin.access.delete_user(key)
        page.note(f"Removed user {key}.", page.console.command("user", "rm", key, "--yes"))
        return page.redirect("/access")
    is_on = what == "enable"
    await page.client.admin.access.update_user(key, enabled=is_on)
    words = ("user", "edit", key, "--enabled", str(is_on).lower())
    page.note(f"User {key} is {'enabled' if is_on else 'disabled'}.", page.console.command(*words))
    return page.redirect("/access")


async def change_grant(page: Visit) -> Response:
    """Adds or removes a grant."""
    user, resource = page.text("user").strip(), page.text("resource").strip()
    actions = page.text("actions").replace(",", " ").split()
    sources = page.text("sources").replace(",", " ").split()
    is_denied, is_removed = page.text("deny") == "true", page.text("what") == "remove"
    rights = page.client.admin.access
    if is_removed:
        await rights.remove_grant(user, actions, resource, deny=is_denied)
    else:
        await rights.add_grant(GrantState(user, actions, resource, is_denied, sources=sources))
    verb, deny = "revoke" if is_removed else "grant", ("--deny",) if is_denied else ()
    near = [word for one in sources for word in ("--source", one)]
    words = ("acl", verb, user, ",".join(actions), resource, *deny, *near)
    page.note(f"The grants of {user} were changed.", page.console.command(*words))
    return page.redirect("/access")


ROUTES: Final = [
    Route("/access", access),
    Route("/access/users", add_user, is_action=True),
    Route("/access/user", change_user, is_action=True),
    Route("/access/grant", change_grant, is_action=True),
]
