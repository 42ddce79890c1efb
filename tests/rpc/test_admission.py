"""Gates count the calls of a class and refuse those beyond its limit."""

import pytest

from broker.model.errors import Draining, TooManyRequests
from broker.rpc.admission import DEFAULT_LIMITS, Admission, CallClass


def test_a_gate_refuses_what_is_too_much() -> None:
    admission = Admission({**DEFAULT_LIMITS, CallClass.POLL: 1})
    gate = admission.gate(CallClass.POLL)
    assert gate.refusal() is None
    gate.enter()
    refusal = gate.refusal()
    assert isinstance(refusal, TooManyRequests)
    assert (refusal.field, refusal.limit) == ("poll", 1)
    assert admission.inflight_count() == 1
    gate.leave()
    assert gate.refusal() is None


def test_a_gate_counts_right_or_not_at_all() -> None:
    gate = Admission({**DEFAULT_LIMITS, CallClass.POLL: 1}).gate(CallClass.POLL)
    with pytest.raises(AssertionError):
        gate.leave()
    gate.enter()
    with pytest.raises(AssertionError):
        gate.enter()


def test_only_sends_are_refused_when_the_broker_drains() -> None:
    admission = Admission()
    admission.close_sends()
    assert isinstance(admission.gate(CallClass.SEND).refusal(), Draining)
    assert admission.gate(CallClass.POLL).refusal() is None
