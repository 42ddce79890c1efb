"""A bare grpc.aio server for comparison: it parses requests and returns replies of their types.

    /pocketmq.v1.Broker/SendMessage   request parsed, response encoded
    /noop.Raw/SendMessage             bytes in, the same bytes out each time
    /noop.Raw/PullMessage             returns the bytes of the file

Prints its port. Argument: a file with the reply of PullMessage; optional.
"""

import sys
from pathlib import Path
from typing import Any

import grpc

from pocketmq.rpc.pb import broker_pb2 as pb


def _sent(count: int) -> pb.SendMessageResponse:
    result = pb.SendResult(
        topic="bench",
        message_id="7F00000100011A2B3C4D0A0B0C0D0001",
        offset_message_id="7F00000100001F910000000000000000",
        queue_id=3,
        queue_offset=123_456,
        physical_offset=987_654_321,
        store_timestamp_ms=1_790_000_000_000,
        status=pb.SEND_OK,
    )
    return pb.SendMessageResponse(results=[result] * count)


async def main(pulled: bytes) -> None:
    """Serves until killed."""
    one = _sent(1)
    hundred = _sent(100).SerializeToString()

    async def send_messages(request: Any, context: Any) -> Any:
        return one

    async def send_raw(request: bytes, context: Any) -> bytes:
        return hundred

    async def pull_raw(request: bytes, context: Any) -> bytes:
        return pulled

    typed = grpc.unary_unary_rpc_method_handler(
        send_messages,
        request_deserializer=pb.SendMessageRequest.FromString,
        response_serializer=pb.SendMessageResponse.SerializeToString,
    )
    raw = {
        "SendMessage": grpc.unary_unary_rpc_method_handler(send_raw),
        "PullMessage": grpc.unary_unary_rpc_method_handler(pull_raw),
    }
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", 16 * 1024 * 1024)])
    server.add_generic_rpc_handlers(
        [
            grpc.method_handlers_generic_handler("pocketmq.v1.Broker", {"SendMessage": typed}),
            grpc.method_handlers_generic_handler("noop.Raw", raw),
        ]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main(Path(sys.argv[1]).read_bytes() if len(sys.argv) > 1 else b""))
