"""Access to a page: with the secret on a private connection, with a token anywhere."""

import pytest

from pocketmq.metrics.site import Site
from pocketmq.model.page import Answer, is_loopback_peer

HERE, ELSEWHERE = "ipv4:127.0.0.1:7", "ipv4:192.0.2.1:7"


@pytest.mark.parametrize(
    "peer",
    [HERE, "ipv4:127.9.9.9:1", "ipv6:%5B::1%5D:1", "ipv6:[::1]:1", "ipv6:[::ffff:127.0.0.1]:1"],
)
def test_a_peer_of_this_machine_is_one(peer: str) -> None:
    assert is_loopback_peer(peer)


@pytest.mark.parametrize(
    "peer", [ELSEWHERE, "", "unix:x", "ipv4:", "ipv6:[fe80::1%et0]:1", "ipv6:%5B2001:db8::1%5D:1"]
)
def test_any_other_is_none(peer: str) -> None:
    assert not is_loopback_peer(peer)


@pytest.mark.parametrize(
    ("peer", "has_tls", "is_private"),
    [(HERE, False, True), (ELSEWHERE, True, True), (ELSEWHERE, False, False)],
)
async def test_what_is_asked_for_is_what_may_be_sent(
    peer: str, has_tls: bool, is_private: bool
) -> None:
    asked: list[bool] = []

    def admits(path: str, authorization: str, peer: str, is_private: bool) -> bool:
        asked.append(is_private)
        return False

    site = Site(admits)

    async def page(accept: str) -> Answer:
        raise AssertionError("nobody was admitted")

    site.pages["/metrics"] = page
    answer = await site.answer("/metrics?x=1", {}, peer, has_tls)
    assert answer.status == 401
    assert ("Basic" in answer.challenge) is is_private
    assert ("HTTP Basic with" in answer.body.decode()) is is_private
    assert "Authorization: Bearer TOKEN`; `pocketmq user token` prints" in answer.body.decode()
    assert "Bearer" in answer.challenge
    assert asked == [is_private]
