"""Serves the files that pages load: styles, scripts and the icon, each read once."""

from hashlib import sha256
from pathlib import Path
from typing import Final

from pocketmq.console.asgi import PageRequest, Response, TextResponse

FOLDER: Final = Path(__file__).parent / "assets"
TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
FILES: Final = {
    path.name: path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.suffix in TYPES
}
VERSION: Final = sha256(b"\0".join(FILES.values())).hexdigest()[:12]
"""Part of each file's URL, so that browsers keep a file until it changes."""


async def asset(request: PageRequest) -> Response:
    """Returns a file of the folder; no other file can be named."""
    name = request.path.rpartition("/")[2]
    content = FILES.get(name)
    if content is None:
        return TextResponse("no such file", 404)
    kind = TYPES[Path(name).suffix]
    return Response(
        content, media_type=kind, headers={"cache-control": "public, max-age=31536000, immutable"}
    )
