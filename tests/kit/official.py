"""Calls of official clients without a transport: requests and decoded answers.

desk = OfficialDesk(broker)
await desk.ask("SendMessage", sent("orders", b"x"))            one answer
await desk.all("ReceiveMessage", receive("g", "orders"))       all of them
"""

from collections.abc import AsyncIterator
from inspect import isasyncgen, isawaitable
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from pocketmq.model.errors import BrokerError
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.service import Service
from pocketmq.rpc.v2.service_table import NAME
from tests.kit.call import FakeCall
from tests.kit.store_broker import StoreBroker

MESSAGE_ID: Final = "0102FC00000001167A0B125C4B00000000"
DIALLED: Final = pb.Endpoints(
    scheme=pb.DOMAIN_NAME, addresses=[pb.Address(host="mq.example.com", port=1234)]
)


class OfficialDesk:
    """One client of a broker."""

    def __init__(
        self,
        broker: StoreBroker,
        client_id: str = "host@1@2@x",
        language: str = "JAVA",
        service: Service | None = None,
    ) -> None:
        self.broker = broker
        self.service = service or broker.official.service()
        assert self.service.name == NAME
        self.methods = {method.name: method for method in self.service.methods}
        self.metadata = {
            "x-mq-client-id": client_id,
            "x-mq-language": language,
            "x-mq-client-version": "5.2.0",
            "x-mq-namespace": "",
        }

    def call(self, time_left_ms: int = 0, **metadata: str) -> FakeCall:
        """Returns a call of this client; its deadline has passed, so that polls end at once."""
        changed = {name.replace("_", "-"): value for name, value in metadata.items()}
        return FakeCall(time_left_ms=time_left_ms, metadata={**self.metadata, **changed})

    async def all(self, name: str, request: Any, call: FakeCall | None = None) -> list[Any]:
        """Returns every answer to a call, in the protocol's form.

        request   may be a list of them, or bytes
        """
        method, call = self.methods[name], call or self.call()
        found: list[Any] = []
        try:
            read = method.reader()
            if isinstance(request, bytes | Message):
                asked: Any = read(request if isinstance(request, bytes) else raw_of(request))
            else:
                asked = _each([read(raw_of(one)) for one in request])
            answer = method.handler(asked, call)
            if isasyncgen(answer):
                async for one in answer:
                    found += one if isinstance(one, list) else [one]
            else:
                found.append(await answer if isawaitable(answer) else answer)
        except BrokerError as error:
            refused = self.service.refuse(error, method)
            found += refused if isinstance(refused, list) else [refused]
        write = method.writer()
        answers = [method.response.FromString(write(one)) for one in found]
        for one in answers:
            check_readable(one)
        return answers

    async def ask(self, name: str, request: Message, call: FakeCall | None = None) -> Any:
        """Returns the one answer to a call."""
        (answer,) = await self.all(name, request, call)
        return answer

    async def code(self, name: str, request: Message, call: FakeCall | None = None) -> str:
        """Returns the code of the first answer to a call."""
        answers = await self.all(name, request, call)
        return pb.Code.Name(answers[0].status.code)

    async def received(self, group: str, topic: str, **fields: Any) -> list[pb.Message]:
        """Returns the messages of a receive."""
        answers = await self.all("ReceiveMessage", receive(group, topic, **fields))
        assert answers[0].HasField("status")
        assert answers[-1].HasField("delivery_timestamp")
        return [answer.message for answer in answers[1:-1]]


def check_readable(answer: Message) -> None:
    """Asserts the fields of an answer without which some client fails."""
    fields = answer.DESCRIPTOR.fields_by_name
    if isinstance(answer, pb.ReceiveMessageResponse | pb.PullMessageResponse):
        assert answer.WhichOneof("content") is not None
    if isinstance(answer, pb.ReceiveMessageResponse) and answer.HasField("message"):
        system = answer.message.system_properties
        assert system.message_id
        assert system.body_encoding != pb.ENCODING_UNSPECIFIED
        assert system.body_digest.type == pb.MD5
        assert system.message_type != pb.MESSAGE_TYPE_UNSPECIFIED
        assert system.HasField("born_timestamp")
        assert system.born_host
        assert system.HasField("store_timestamp")
        assert system.receipt_handle
        assert system.delivery_attempt >= 1
    if "status" in fields and answer.HasField("status"):
        status: pb.Status = getattr(answer, "status")  # noqa: B009 - of many types
        assert status.code != pb.CODE_UNSPECIFIED


def raw_of(request: Message) -> bytes:
    """Returns a request's encoded bytes."""
    return request.SerializeToString()


async def _each(requests: list[Any]) -> AsyncIterator[Any]:
    for request in requests:
        yield request


def name(text: str) -> pb.Resource:
    """Returns a topic or a group as a Resource."""
    return pb.Resource(name=text)


def message(topic: str, body: bytes = b"hello", **system: Any) -> pb.Message:
    """Returns a message as a client sends it."""
    properties = {"message_id": MESSAGE_ID, "body_encoding": pb.IDENTITY, **system}
    made = pb.SystemProperties(**properties)
    if "born_timestamp" not in system:
        made.born_timestamp.seconds = 1_700_000_000
        made.born_host = "client-host"
    return pb.Message(topic=name(topic), body=body, system_properties=made)


def sent(topic: str, *bodies: bytes, **system: Any) -> pb.SendMessageRequest:
    """Returns a request with messages that have these system properties."""
    return pb.SendMessageRequest(messages=[message(topic, body, **system) for body in bodies])


def receive(group: str, topic: str, **fields: Any) -> pb.ReceiveMessageRequest:
    """Returns the request of a receive without a wait; durations are in seconds."""
    invisible = fields.pop("invisible_s", 10)
    given: dict[str, Any] = {
        "group": name(group),
        "message_queue": pb.MessageQueue(topic=name(topic), id=-1),
        "filter_expression": pb.FilterExpression(type=pb.TAG, expression="*"),
        "batch_size": 32,
        "long_polling_timeout": Duration(),
        **fields,
    }
    if invisible is not None:
        given["invisible_duration"] = Duration(seconds=invisible)
    return pb.ReceiveMessageRequest(**given)
