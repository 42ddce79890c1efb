"""A message's trace context is read from its properties as W3C Trace Context defines it."""

import pytest

from pocketmq.model.spans import TraceContext, context_of, derived_context, span_id_of

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


@pytest.mark.parametrize(
    ("text", "is_sampled"),
    [
        (f"00-{TRACE}-{PARENT}-01", True),
        (f"00-{TRACE}-{PARENT}-00", False),
        (f"00-{TRACE}-{PARENT}-03", True),
        (f"01-{TRACE}-{PARENT}-01-what later versions add", True),
    ],
)
def test_a_traceparent_is_a_trace_and_a_parent(text: str, is_sampled: bool) -> None:
    assert context_of({"traceparent": text}) == TraceContext(TRACE, PARENT, is_sampled)


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{TRACE[:-1]}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}",
    ],
)
def test_another_text_is_none(text: str) -> None:
    assert context_of({"traceparent": text}) is None


def test_the_context_of_official_clients_is_used_where_there_is_no_traceparent() -> None:
    theirs, own = f"00-{TRACE}-{PARENT}-01", f"00-{'1' * 32}-{PARENT}-01"
    assert context_of({"TRACE_CONTEXT": theirs}) == TraceContext(TRACE, PARENT)
    found = context_of({"TRACE_CONTEXT": theirs, "traceparent": own})
    assert found == TraceContext("1" * 32, PARENT)
    assert context_of({"TRACE_CONTEXT": theirs, "traceparent": "?"}) == TraceContext(TRACE, PARENT)


def test_ids_are_the_same_for_the_same_parts_alone() -> None:
    assert span_id_of("a", 1) == span_id_of("a", 1)
    assert span_id_of("a", 1) != span_id_of("a1")
    found = derived_context("KEY")
    assert found == derived_context("KEY")
    assert (len(found.trace_id), found.parent_id) == (32, "")
    assert len(span_id_of("a")) == 16
