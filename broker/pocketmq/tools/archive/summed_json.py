"""JSON documents of an archive, with their format and the digest of their other members."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from pocketmq.format.json_text import read_object


def encode_summed(form: str, members: Mapping[str, Any]) -> bytes:
    """Returns a document as JSON; its member `sha256` is the digest of the others."""
    document = {"format": form, **members}
    assert "sha256" not in members
    return json.dumps({**document, "sha256": _sum(document)}).encode()


def decode_summed(content: bytes, form: str) -> dict[str, Any]:
    """Returns the members of a document that `encode_summed` made.

    Errors   ValueError: its bytes have changed, or it has another format
    """
    document = read_object(content)
    if document.pop("sha256", None) != _sum(document):
        raise ValueError("its sha256 does not match")
    if (found := document.pop("format", None)) != form:
        raise ValueError(f"its format is {found!r}, not {form!r}")
    return document


def _sum(document: Mapping[str, Any]) -> str:
    return sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
