"""Sends messages whose delivery a database decides: python examples/transaction.py [HOST:PORT].

The topic has a type: pocketmq topic create payments --type transaction
"""

import sys

from rocketmq import (
    ClientConfiguration,
    Credentials,
    Message,
    Producer,
    TransactionChecker,
    TransactionResolution,
)

BOOKED = {"payment 1"}  # the database


class Books(TransactionChecker):
    """Decides transactions that are still open, for example after a crash of the producer."""

    def check(self, message: Message) -> TransactionResolution:
        """Returns the decision for a half message."""
        is_booked = message.body.decode() in BOOKED
        return TransactionResolution.COMMIT if is_booked else TransactionResolution.ROLLBACK


endpoint = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8081"
producer = Producer(ClientConfiguration(endpoint, Credentials()), ("payments",), checker=Books())
producer.startup()
for payment in ("payment 1", "payment 2"):
    message, transaction = Message(), producer.begin_transaction()
    message.topic, message.body = "payments", payment.encode()
    producer.send(message, transaction)  # invisible to consumers until the transaction ends
    decide = transaction.commit if payment in BOOKED else transaction.rollback
    decide()
    print(payment, "booked" if payment in BOOKED else "rolled back")
producer.shutdown()
