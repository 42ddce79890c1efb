"""The blocking client has every method of the other one, for any number of threads."""

import asyncio
import inspect
import subprocess
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pocketmq.client import (
    Admin,
    AsyncAdmin,
    AsyncClient,
    Client,
    GroupSettings,
    KeyQuery,
    Message,
    NotOpen,
    PullQuery,
    Receipt,
    TailQuery,
    errors,
)
from pocketmq.client.async_client import MessageIds
from pocketmq.rpc.own.server import OwnServer
from tests.kit.store_broker import running, store_broker

THREADS = 8
TASKS = 100
WAIT_MS = 10_000


@pytest.fixture
async def endpoint() -> AsyncIterator[str]:
    """Where a broker answers; it lives on the test's loop."""
    async with store_broker() as broker, running(OwnServer(broker.services())) as address:
        yield address


def visible(client: Client, *receipts: Receipt) -> None:
    """Returns when messages can be read."""
    for receipt in receipts:
        at = PullQuery(receipt.topic, receipt.queue_id, receipt.queue_offset, wait_ms=WAIT_MS)
        assert client.pull(at).messages


def public(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}


def test_both_clients_have_the_same_methods() -> None:
    assert public(Client) == public(AsyncClient) - {"tail_pages", "following"}
    assert public(Admin) == public(AsyncAdmin)
    for kind, other in ((Client, AsyncClient), (Admin, AsyncAdmin)):
        for name in public(kind):
            assert inspect.signature(getattr(kind, name)).parameters.keys() >= {"self"}
            assert getattr(kind, name).__doc__, name
            assert inspect.iscoroutinefunction(getattr(kind, name)) is False
            assert callable(getattr(other, name))


async def test_it_sends_reads_and_looks_up(endpoint: str) -> None:
    def use() -> None:
        with Client(endpoint) as client:
            client.admin.create_topic("paid", queue_count=1)
            client.admin.create_group("readers", GroupSettings(max_attempts=3))
            first = client.send(Message("paid", b"a", keys=["k"], tag="t", properties={"p": "1"}))
            (second,) = client.send_many([Message("paid", b"b", message_id="mine")])
            visible(client, second)
            page = client.pull(PullQuery("paid", 0, 0))
            assert [message.body for message in page.messages] == [b"a", b"b"]
            assert page.messages[0].unique_key == first.message_id
            assert second.message_id == "mine"
            assert client.query_by_id("paid", "mine").body == b"b"
            (found,) = client.query_by_key(KeyQuery("paid", "k")).messages
            assert (found.tag, found.properties["p"]) == ("t", "1")
            assert client.query_by_time("paid", 0, 0) == 0
            client.commit_offset("readers", "paid", 0, 1)
            assert client.fetch_offset("readers", "paid", 0) == 1
            assert client.admin.describe_group("readers").topics == ["paid"]
            with pytest.raises(errors.TopicNotFound) as caught:
                client.admin.describe_topic("none")
            assert caught.value.topic == "none"

    await asyncio.to_thread(use)


async def test_threads_share_a_client(endpoint: str) -> None:
    def use() -> set[str]:
        with Client(endpoint) as client, ThreadPoolExecutor(THREADS) as threads:

            def send(number: int) -> str:
                return client.send(Message("orders", b"%d" % number, queue_id=0)).message_id

            ids = set(threads.map(send, range(THREADS * 10)))
            found: set[str] = set()
            while len(found) < len(ids):
                page = client.pull(PullQuery("orders", 0, len(found), wait_ms=WAIT_MS))
                found |= {message.unique_key for message in page.messages}
            assert found == ids
        return ids

    assert len(await asyncio.to_thread(use)) == THREADS * 10


async def test_tasks_share_a_client(endpoint: str) -> None:
    async with AsyncClient(endpoint) as client:
        sends = (client.send(Message("orders", b"%d" % n, queue_id=0)) for n in range(TASKS))
        receipts = await asyncio.gather(*sends)
        assert len({receipt.message_id for receipt in receipts}) == TASKS
        waits = (client.pull(PullQuery("orders", 1, 0, wait_ms=30_000)) for _ in range(TASKS))
        waiting = asyncio.gather(*waits)
        await asyncio.sleep(0)
        await client.send(Message("orders", b"last", queue_id=1))
        assert {len(page.messages) for page in await waiting} == {1}


async def test_a_topic_is_followed(endpoint: str) -> None:
    def use() -> list[bytes]:
        with Client(endpoint) as client:
            client.send(Message("orders", b"0"))
            tail = client.tail(TailQuery("orders", since_ms=0))
            found = [next(tail).body]
            for number in range(1, 4):
                client.send(Message("orders", b"%d" % number))
                found.append(next(tail).body)
            tail.close()
        return found

    assert await asyncio.to_thread(use) == [b"0", b"1", b"2", b"3"]


async def test_a_tail_without_following_has_an_end(endpoint: str) -> None:
    def use() -> list[bytes]:
        with Client(endpoint) as client:
            visible(client, *client.send_many([Message("orders", b"a"), Message("orders", b"b")]))
            wanted = TailQuery("orders", last_count=1, follow=False)
            return [message.body for message in client.tail(wanted)]

    assert await asyncio.to_thread(use) == [b"b"]


async def test_a_client_that_is_closed_says_so(endpoint: str) -> None:
    def use() -> None:
        client = Client(endpoint)
        client.send(Message("orders", b"a"))
        client.close()
        client.close()
        with pytest.raises(NotOpen, match="create a new client"):
            client.send(Message("orders", b"a"))

    await asyncio.to_thread(use)


@pytest.mark.parametrize("text", ["host:", "host:port", "", "http://host:1"])
def test_what_is_no_endpoint_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Client(text)


def test_a_topic_of_no_type_is_refused_with_those_there_are() -> None:
    with (
        Client("127.0.0.1:1") as client,
        pytest.raises(ValueError, match="unknown topic type 'odd'; the types are normal, fifo"),
    ):
        client.admin.create_topic("orders", type_name="odd")


def test_ids_differ_between_threads_and_clients() -> None:
    one, other = MessageIds(), MessageIds()
    with ThreadPoolExecutor(THREADS) as threads:
        made = list(threads.map(lambda ids: ids.make(), [one, other] * 1_000))
    assert len(set(made)) == len(made)
    assert {len(text) for text in made} == {32}


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("import pocketmq.client", {"grpc", "google"}),
        ("from pocketmq.client import Client, AsyncClient", {"google.rpc"}),
    ],
)
def test_importing_it_loads_no_more_than_it_needs(line: str, missing: set[str]) -> None:
    code = f"import sys\n{line}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    others = {"numpy", "uvloop", "lz4", "zstandard", "click", "prometheus_client", "h11"}
    assert loaded & (missing | others) == set()
    ours = {name.split(".")[1] for name in loaded if name.startswith("pocketmq.")}
    assert ours <= {"client", "model", "native", "format", "rpc"}
    assert {name for name in loaded if name.startswith("pocketmq.format.")} <= {
        "pocketmq.format.addresses", "pocketmq.format.signature"
    }  # fmt: skip


def test_wrong_arguments_are_told_the_blocking_methods_own() -> None:
    with Client("127.0.0.1:1") as client:
        with pytest.raises(TypeError, match=r"^Client\.receive\(\) .* Client\.receive\(query: Rec"):
            client.receive("orders", "billing")  # type: ignore[call-arg,arg-type]
        with pytest.raises(TypeError, match=r"^Admin\.create_topic\(\) .* queue_count: int = 0"):
            client.admin.create_topic()  # type: ignore[call-arg]
