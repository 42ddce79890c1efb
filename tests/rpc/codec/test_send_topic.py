"""The topic read from the head of a send equals that of the parsed request, or is absent."""

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.rpc.codec.send_topic import official_topic, own_topic
from pocketmq.rpc.pb import broker_pb2, messaging_pb2

NAMES = st.text(max_size=150)
BODIES = st.binary(max_size=400)


@given(st.lists(st.tuples(NAMES, BODIES), min_size=1, max_size=3))
def test_of_our_own_requests_it_is_the_first_messages(rows: list[tuple[str, bytes]]) -> None:
    messages = [broker_pb2.Message(topic=topic, body=body) for topic, body in rows]
    found = own_topic(broker_pb2.SendMessageRequest(messages=messages).SerializeToString())
    first = rows[0][0]
    is_short = first != "" and first.isascii() and len(first) < 128
    assert found in ((first, None) if is_short else (None,))
    assert found or not is_short or len(first) < 8


@given(NAMES, NAMES, BODIES)
def test_of_official_ones_it_is_the_first_messages(namespace: str, name: str, body: bytes) -> None:
    resource = messaging_pb2.Resource(resource_namespace=namespace, name=name)
    message = messaging_pb2.Message(topic=resource, body=body)
    raw = messaging_pb2.SendMessageRequest(messages=[message]).SerializeToString()
    found = official_topic(raw)
    is_short = len(resource.SerializeToString()) < 128 and (namespace + name).isascii()
    assert found in (((namespace, name), None) if is_short and name else (None,))
    assert found or not is_short or not name or len(raw) < 8
    other = messaging_pb2.Message(topic=messaging_pb2.Resource(name="other"), body=body)
    more = messaging_pb2.SendMessageRequest(messages=[other]).SerializeToString()
    assert official_topic(raw + more) == found or not body


@given(st.binary(max_size=60).map(lambda raw: b"\n" + raw))
def test_bytes_that_are_no_request_name_nothing_that_is_not_in_them(raw: bytes) -> None:
    own, official = own_topic(raw), official_topic(raw)
    assert own is None or own.encode() in raw
    assert official is None or official[1].encode() in raw


def test_a_topic_that_comes_twice_is_not_told() -> None:
    first = messaging_pb2.Message(topic=messaging_pb2.Resource(name="allowed"))
    other = messaging_pb2.Message(topic=messaging_pb2.Resource(name="other"), body=b"x")
    content = first.SerializeToString() + other.SerializeToString()
    raw = b"\n" + bytes([len(content)]) + content
    parsed = messaging_pb2.SendMessageRequest.FromString(raw)
    assert parsed.messages[0].topic.name == "other"
    assert official_topic(raw) is None
