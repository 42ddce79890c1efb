"""Clients: consumers of all groups, sorted by their last call."""

import asyncio
from functools import partial
from typing import Final

from starlette.responses import Response

from pocketmq.client import ClientError, GroupState
from pocketmq.console.listing import PAGE_SIZE, kept, list_page
from pocketmq.console.web import Route, Visit
from pocketmq.model.administration import Member
from pocketmq.model.listing import GroupOrder

SORTS: Final = {
    "seen": lambda one: (-one.seen_ms, one.client_id),
    "client": lambda one: (one.client_id, one.group),
    "group": lambda one: (one.group, one.client_id),
}
GROUPS_MAX: Final = 200
"""Upper limit of groups whose consumers a page lists."""


async def clients(page: Visit) -> Response:
    """Lists the clients that consumed in the last two minutes."""
    groups, left_out = await kept(page, "consuming groups", partial(_consuming, page))
    each = await asyncio.gather(*(_members(page, one) for one in groups))
    return await list_page(
        page, "clients", [one for members in each for one in members],
        lambda one: f"{one.client_id} {one.address} {one.group}", SORTS, left_out=left_out,
    )  # fmt: skip


async def _consuming(page: Visit) -> tuple[list[GroupState], int]:
    """Returns groups with consumers, and the number of such groups that are left out."""
    ask = partial(page.client.admin.find_groups, order=GroupOrder.MEMBERS, page_size=PAGE_SIZE)
    found: list[GroupState] = []
    while len(found) < GROUPS_MAX:
        part = (await ask(skip=len(found), with_stats=True)).items
        consuming = [one for one in part if one.stats and one.stats.member_count]
        found += consuming
        if len(consuming) < PAGE_SIZE:
            return found, 0
    sums = (await ask(with_sums=True)).sums
    return found, sums.consuming_count - len(found) if sums else 0


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
