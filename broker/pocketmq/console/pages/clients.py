"""Clients: consumers of all groups, sorted by their last call."""

import asyncio
from typing import Final

from starlette.responses import Response

from pocketmq.client import ClientError, GroupState
from pocketmq.console.listing import counted_groups, list_page
from pocketmq.console.web import Route, Visit
from pocketmq.model.administration import Member

SORTS: Final = {
    "seen": lambda one: (-one.seen_ms, one.client_id),
    "client": lambda one: (one.client_id, one.group),
    "group": lambda one: (one.group, one.client_id),
}
GROUPS_MAX: Final = 200
"""Upper limit of groups whose consumers a page lists."""


async def clients(page: Visit) -> Response:
    """Lists the clients that consumed in the last two minutes."""
    groups = [one for one in await counted_groups(page) if one.stats and one.stats.member_count]
    each = await asyncio.gather(*(_members(page, one) for one in groups[:GROUPS_MAX]))
    return await list_page(
        page, "clients", [one for members in each for one in members],
        lambda one: f"{one.client_id} {one.address} {one.group}", SORTS,
        left_out=len(groups) - len(each),
    )  # fmt: skip


async def _members(page: Visit, group: GroupState) -> list[Member]:
    try:
        return await page.client.admin.list_members(group.name)
    except ClientError:  # the group was deleted, or the visitor may not see it
        return []


async def stack(page: Visit) -> Response:
    """Shows the stacks that a client reports."""
    group, client_id = page.text("group"), page.text("id")
    answer = await page.client.admin.print_client_stack(group, client_id)
    return page.render(
        "stack.html", answer=answer, group=group, number=client_id,
        command=page.console.command("client", "stack", group, client_id),
    )  # fmt: skip


ROUTES: Final = [Route("/clients", clients), Route("/clients/stack", stack)]
