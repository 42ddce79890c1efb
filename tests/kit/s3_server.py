"""A server with the part of S3's protocol that pyarrow uses; its objects are in memory.

with S3Server() as bucket:
    objects = open_objects(QuickDisk(), bucket.target("lake"))
"""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

MODIFIED: Final = "Sun, 29 Nov 2026 12:00:00 GMT"
SPACE: Final = "{http://s3.amazonaws.com/doc/2006-03-01/}"


class S3Server:
    """The server, with one bucket."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        """Content by key."""
        self.uploads: dict[str, dict[int, bytes]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.bucket = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever)
        assert not self.objects

    def __enter__(self) -> "S3Server":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def target(self, place: str) -> str:
        """Returns the URL of a place in the bucket, with credentials."""
        own = f"127.0.0.1:{self._server.server_port}"
        return f"s3://key:secret@bucket/{place}?endpoint_override={own}&scheme=http&region=x"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        key, query = self._asked()
        if not key:
            self._list(query)
            return
        content = self._bucket.objects.get(key)
        if content is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        asked = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
        if not asked[1]:
            self._answer(200, content)
            return
        begin, end = int(asked[0]), min(int(asked[2] or len(content) - 1) + 1, len(content))
        span = {"Content-Range": f"bytes {begin}-{end - 1}/{len(content)}"}
        self._answer(206, content[begin:end], span)

    def do_HEAD(self) -> None:
        key, _ = self._asked()
        content = self._bucket.objects.get(key)
        if key and content is None:
            self._answer(404)
        else:
            self._answer(200, content or b"")

    def do_PUT(self) -> None:
        key, query = self._asked()
        content = self._body()
        if "uploadId" in query:
            self._bucket.uploads[query["uploadId"]][int(query["partNumber"])] = content
        elif key:
            self._bucket.objects[key] = content
        self._answer(200)

    def do_POST(self) -> None:
        key, query = self._asked()
        content = self._body()
        if "uploads" in query:
            name = str(len(self._bucket.uploads))
            self._bucket.uploads[name] = {}
            self._answer(200, _xml("InitiateMultipartUploadResult", f"<UploadId>{name}</UploadId>"))
        elif "uploadId" in query:
            parts = self._bucket.uploads.pop(query["uploadId"])
            self._bucket.objects[key] = b"".join(parts[number] for number in sorted(parts))
            self._answer(200, _xml("CompleteMultipartUploadResult", "<ETag>x</ETag>"))
        else:
            for found in ElementTree.fromstring(content).iter(f"{SPACE}Key"):
                self._bucket.objects.pop(found.text or "", None)
            self._answer(200, _xml("DeleteResult", ""))

    def do_DELETE(self) -> None:
        key, _ = self._asked()
        self._bucket.objects.pop(key, None)
        self._answer(204)

    def log_message(self, *given: object) -> None:
        """Prints nothing."""

    @property
    def _bucket(self) -> S3Server:
        found: S3Server = self.server.bucket  # type: ignore[attr-defined]
        return found

    def _asked(self) -> tuple[str, dict[str, str]]:
        """Returns the key, "" for the bucket, and the options of a request."""
        parts = urlsplit(self.path)
        options = parse_qs(parts.query, keep_blank_values=True)
        key = unquote(parts.path).removeprefix("/bucket").lstrip("/")
        return key, {name: texts[0] for name, texts in options.items()}

    def _list(self, query: dict[str, str]) -> None:
        prefix, mark = query.get("prefix", ""), query.get("delimiter", "")
        keys, places = [], set()
        for key in sorted(self._bucket.objects):
            if not key.startswith(prefix):
                continue
            begin, _, rest = key[len(prefix) :].partition(mark) if mark else ("", "", "")
            if rest:
                places.add(f"{prefix}{begin}{mark}")
            else:
                keys.append(key)
        rows = [
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self._bucket.objects[key])}</Size>"
            "<LastModified>2026-11-29T12:00:00.000Z</LastModified></Contents>"
            for key in keys
        ]
        rows += [
            f"<CommonPrefixes><Prefix>{escape(place)}</Prefix></CommonPrefixes>"
            for place in sorted(places)
        ]
        count = f"<KeyCount>{len(rows)}</KeyCount><IsTruncated>false</IsTruncated>"
        self._answer(200, _xml("ListBucketResult", count + "".join(rows)))

    def _body(self) -> bytes:
        if self.headers["Transfer-Encoding"] == "chunked":
            content = b""
            while size := int(self.rfile.readline(), 16):
                content += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            content = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            return _unchunked(content)
        return content

    def _answer(self, code: int, body: bytes = b"", more: Any = None) -> None:
        self.send_response(code)
        headers = {"ETag": '"x"', "Last-Modified": MODIFIED, "Content-Length": str(len(body))}
        for name, text in (headers | (more or {})).items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _xml(name: str, content: str) -> bytes:
    return f'<{name} xmlns="{SPACE[1:-1]}">{content}</{name}>'.encode()


def _unchunked(content: bytes) -> bytes:
    """Returns the body of an upload whose client signs or sums it in pieces."""
    found, at = b"", 0
    while True:
        end = content.index(b"\r\n", at)
        size = int(content[at:end].partition(b";")[0], 16)
        if not size:
            return found
        found += content[end + 2 : end + 2 + size]
        at = end + 2 + size + 2
