"""A message that is delivered if the order it tells of was stored, and not otherwise.

The topic has a type: pocketmq topic create placed-orders --type transaction
Run it: python examples/own/transactions.py [HOST:PORT]
"""

import sqlite3
import sys

from pocketmq import Client, ClientError, Message, PendingTransaction, Receipt, Resolution

ENDPOINT = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8081"
TOPIC, GROUP = "placed-orders", "order-service"

orders = sqlite3.connect(":memory:")
orders.execute("CREATE TABLE orders (message_id TEXT PRIMARY KEY, text TEXT)")


def place(client: Client, text: str) -> Resolution:
    """Stores an order, and tell of it once it is stored."""

    def work(receipt: Receipt) -> Resolution:
        with orders:  # commits, or rolls back where it raises
            orders.execute("INSERT INTO orders VALUES (?, ?)", (receipt.message_id, text))
        return Resolution.COMMIT

    message = Message(TOPIC, text.encode(), producer_group=GROUP, first_check_ms=1_000)
    _, resolution = client.send_in_transaction(message, work)
    return resolution


def was_stored(pending: PendingTransaction) -> Resolution:
    """Tells what became of an order whose sender said nothing."""
    wanted = (pending.message.properties["UNIQ_KEY"],)
    found = orders.execute("SELECT 1 FROM orders WHERE message_id = ?", wanted).fetchone()
    return Resolution.COMMIT if found else Resolution.ROLLBACK


def main() -> None:
    """Places an order, and answers the check of another one."""
    with Client(ENDPOINT) as client:
        print("order 1:", place(client, "order 1").name)
        # A sender that dies between its order and its word: somebody of its group is asked.
        left = Message(
            TOPIC, b"order 2", producer_group=GROUP, transactional=True, first_check_ms=1_000
        )
        client.send(left)
        print("asked about", client.answer_checks(GROUP, was_stored, count_max=1), "order")
        print("open:", len(client.admin.list_transactions(group=GROUP)))


try:
    main()
except ClientError as error:
    sys.exit(str(error))
