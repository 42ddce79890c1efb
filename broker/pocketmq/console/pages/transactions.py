"""Transactions: lists undecided ones, which an operator commits, rolls back or reopens."""

from typing import Final

from starlette.responses import Response

from pocketmq.client import Resolution
from pocketmq.console.listing import cut, forget
from pocketmq.console.web import Route, Visit

LISTED_MAX: Final = 1_000
DECISIONS: Final = {"commit": Resolution.COMMIT, "rollback": Resolution.ROLLBACK}


async def transactions(page: Visit) -> Response:
    """Lists undecided transactions, the oldest first."""
    group = page.text("group").strip()
    rows = await page.client.admin.list_transactions(group=group, count_max=LISTED_MAX)
    words = ["txn", "ls", *(("--producer-group", group) if group else ())]
    return page.render(
        "transactions.html", shown=cut(rows, page), group=group, is_cut=len(rows) == LISTED_MAX,
        command=page.console.command(*words),
    )  # fmt: skip


async def transaction(page: Visit) -> Response:
    """Shows one transaction with its message."""
    state, message = await page.client.admin.describe_transaction(page.text("id"))
    return page.render("transaction.html", state=state, message=message)


async def end(page: Visit) -> Response:
    """Commits a transaction, or rolls it back."""
    transaction_id = page.text("id")
    decision = page.choice("what", DECISIONS)
    state, _ = await page.client.admin.describe_transaction(transaction_id)
    await page.client.end_transaction(state.group, transaction_id, DECISIONS[decision])
    forget(page)
    text = "Committed: it is delivered." if decision == "commit" else "Rolled back: it is dropped."
    page.note(text, page.console.command("txn", decision, transaction_id))
    return page.redirect("/transactions")


async def resume(page: Visit) -> Response:
    """Reopens a transaction that expired, under a new id."""
    expired_id = page.text("id")
    new_id = await page.client.admin.resume_transaction(expired_id)
    page.note("The transaction is open again.", page.console.command("txn", "resume", expired_id))
    return page.redirect("/transactions/one", id=new_id)


ROUTES: Final = [
    Route("/transactions", transactions),
    Route("/transactions/one", transaction),
    Route("/transactions/end", end, is_action=True),
    Route("/transactions/resume", resume, is_action=True),
]
