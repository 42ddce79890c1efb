"""Objects of S3, by a server that answers what is needed."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pocketmq.tools.archive.objects import open_objects
from tests.sim.quick_disk import QuickDisk


class _Bucket(BaseHTTPRequestHandler):
    asked: list[str]
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        if self.headers["Transfer-Encoding"] == "chunked":
            while size := int(self.rfile.readline(), 16):
                self.rfile.read(size + 2)
            self.rfile.readline()
        else:
            self.rfile.read(int(self.headers["Content-Length"]))
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, *given: object) -> None:
        """Prints nothing."""

    def _answer(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        self.send_response(200)
        self.send_header("ETag", '"x"')
        self.send_header("Content-Length", "0")
        self.end_headers()


def test_a_small_object_takes_one_request() -> None:
    pytest.importorskip("pyarrow")
    _Bucket.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), _Bucket) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            place = f"127.0.0.1:{server.server_port}&scheme=http&region=us-east-1"
            target = f"s3://key:secret@bucket/orders?endpoint_override={place}"
            objects = open_objects(QuickDisk(), target)
            objects.put("moments/1.json", [b"one", b"two"])
        finally:
            server.shutdown()
            thread.join()
    assert _Bucket.asked == ["PUT /bucket/orders/moments/1.json"]
    assert objects.target == "s3://bucket/orders"
