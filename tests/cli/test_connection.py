"""Commands ask the endpoint they are told, one call after the other."""

from unittest.mock import sentinel

from pocketmq.cli.connection import BrokerConnection, make_client
from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker


def test_the_endpoint_is_the_option_then_the_variable_then_the_default(broker: LocalBroker) -> None:
    run("topic", "ls")
    assert broker.endpoint == "127.0.0.1:8081"
    run("topic", "ls", POCKETMQ_ENDPOINT="b:1")
    assert broker.endpoint == "b:1"
    run("topic", "ls", "--endpoint", "c:2", POCKETMQ_ENDPOINT="b:1")
    assert broker.endpoint == "c:2"


def test_many_calls_share_one_connection(broker: LocalBroker) -> None:
    async def answer() -> object:
        return sentinel.answer

    with BrokerConnection("a:1") as connected:
        assert connected.ask(answer()) is sentinel.answer
        question = connected.client.admin.describe_topic("orders")
        assert connected.ask(question).name == "orders"


def test_a_client_is_made_for_an_endpoint() -> None:
    assert type(make_client("127.0.0.1:1")).__name__ == "AsyncClient"
