"""A body is shown as what it is, and a page says when it shows only its begin."""

import json

import pytest

from pocketmq.console.bodies import HEX_MAX, SHOWN_MAX, body_of


@pytest.mark.parametrize(
    ("content", "forms"),
    [
        (b'{"a": 1}', ("json", "text", "hex")),
        (b"[1, 2]", ("json", "text", "hex")),
        (b"{not json", ("text", "hex")),
        (b"plain", ("text", "hex")),
        (b"", ("text", "hex")),
        (b"\x08\x96\x01\x12\x02\xc3\x28", ("protobuf", "hex")),
        (b"\xff\xfe\x00", ("hex",)),
        (b"[" * 100_000, ("text", "hex")),
    ],
)
def test_the_first_form_is_the_most_readable(content: bytes, forms: tuple[str, ...]) -> None:
    found = body_of(content, "")
    assert (found.forms, found.form) == (forms, forms[0])
    assert body_of(content, "hex").form == "hex"
    assert body_of(content, "nonsense") == found


def test_json_is_indented() -> None:
    assert body_of(b'{"a":[1]}', "").text == json.dumps({"a": [1]}, indent=2)


def test_protobuf_fields_have_numbers() -> None:
    content = b"\x08\x96\x01\x12\x04\x0a\x02\xc3\x28\x1d\x01\x00\x00\x00"
    assert body_of(content, "").text == "1: 150\n2 {\n  1: c328\n}\n3: 0x00000001"


@pytest.mark.parametrize(
    ("content", "form", "is_cut"),
    [
        (b"x" * SHOWN_MAX, "text", False),
        (b"x" * (SHOWN_MAX + 1), "text", True),
        (b"x" * HEX_MAX, "hex", False),
        (b"x" * (HEX_MAX + 1), "hex", True),
        (json.dumps([1] * 9_000).encode(), "json", False),
        (json.dumps([1] * 20_000).encode(), "json", True),
        ("é".encode() * SHOWN_MAX, "text", True),
    ],
)
def test_what_is_shown_in_part_says_so(content: bytes, form: str, is_cut: bool) -> None:
    found = body_of(content, form)
    assert (found.form, found.is_cut) == (form, is_cut)
    assert form == "hex" or len(found.text) <= SHOWN_MAX
