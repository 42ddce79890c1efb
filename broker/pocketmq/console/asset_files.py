"""Serves the files that pages load: styles, scripts and the icon, each read once."""

from hashlib import sha256
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

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


async def asset(request: Request) -> Response:
    """Returns a file of the folder; no other file can be named."""
    name = str(request.path_params["name"])
    content = FILES.get(name)
    if content is None:
        return PlainTextResponse("no such file", 404)
    kind = TYPES[Path(name).suffix]
    return Response(
        content, media_type=kind, headers={"cache-control": "public, max-age=31536000, immutable"}
    )
