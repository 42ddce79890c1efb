"""Objects of S3, by a server that answers what is needed."""

import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

import pytest

from pocketmq.tools.archive import objects as module
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


def test_a_large_object_is_read_in_several_requests_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(module, "PIECE_SIZE", 1000)
    objects = open_objects(QuickDisk(), f"file://{tmp_path}")
    for size in (0, 1, 999, 1000, 1001, 8000, 20_500):
        content = random.Random(size).randbytes(size)
        objects.put("one", [content])
        pieces = [*objects.get("one")]
        assert b"".join(pieces) == content
        assert all(pieces)
    before = threading.active_count()
    begun = objects.get("one")
    assert next(begun) == content[:1000]
    begun.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
    with pytest.raises(FileNotFoundError):
        next(objects.get("none"))


def test_a_request_that_fails_ends_the_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other requests are under way."""
    monkeypatch.setattr(module, "PIECE_SIZE", 1000)

    class Source(BytesIO):
        calls = 0

        def size(self) -> int:
            return 20_000

        def read_at(self, count: int, begin: int) -> bytes:
            Source.calls += 1
            if begin == 3000:
                raise OSError("the bucket is gone")
            return bytes(count)

    objects = open_objects(QuickDisk(), f"file://{tmp_path}")
    monkeypatch.setattr(type(objects), "opened", lambda *_: Source())
    found: list[bytes] = []
    before = threading.active_count()
    with pytest.raises(OSError, match="the bucket is gone"):
        found.extend(objects.get("one"))
    assert Source.calls < 20
    assert threading.active_count() == before


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
