"""Benches and batteries: what would let a wrong figure pass, or a battery that cannot fail."""

import json
import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from bench.cold import log_files, resident_share
from bench.console import STALL_MS, beside
from bench.figures import FIGURES, IN_MODULES
from bench.load import framed, percentile, requests_from
from bench.peer.classic import SHAPES as CLASSIC_SHAPES
from bench.peer.classic import Shape, generate
from bench.peer.clients import h2load_run
from bench.peer.compare import SECTIONS, measured
from bench.peer.content import Content, equal_contents, mixed_contents, v1_request, v2_request
from bench.peer.rocketmq import QUEUE_COUNT, is_sent
from bench.peer.rows import FLOOR, HELD, MISSED, NOT_RUN, Aim, Row
from bench.peer.sides import Extent as PeerExtent
from bench.queues import shuffled_queues, topics_of
from bench.retention import wanted_bases
from bench.servers import LAG, lag_bound_ms
from harness.arguments import end_in_order
from harness.budget import Budget, NotHere
from harness.figures import Extent, Figure, alternated, ratios, table, turns
from harness.process import ROOT, Failed, apart, cpu_seconds, ended, maps_of, running
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.pb import messaging_pb2 as v2
from torture.batteries import BATTERIES, cells, ran
from torture.foreign.calls import CANCELLED, Call, plan
from torture.interop import verdicts_of
from torture.interop_service import Interop, Wanted, described, refused
from torture.judged import Truth, difference, left_as_it_was, taken_back
from torture.versions import SHAPES, STEPS, counts, shape_of

CLASSIC = {shape.name: shape for shape in CLASSIC_SHAPES}


# -- figures --------------------------------------------------------------------------------------
def test_a_figure_is_the_median_of_its_rounds_in_one_line_and_one_row() -> None:
    figure = Figure.of("send", "a send ÷ nothing", [3.0, 1.0, 2.0], "ratio", "≥ 0.8")
    assert json.loads(figure.line())["value"] == 2.0
    rows = table(("figure", "wanted", "measured"), [figure.cells]).splitlines()
    assert rows[-1] == "| a send ÷ nothing | ≥ 0.8 | 2.00 ratio [1.00 to 3.00] |"


def test_ratios_are_taken_round_by_round() -> None:
    assert ratios([6.0, 1.0], [2.0, 4.0]) == [3.0, 0.25]
    with pytest.raises(ValueError):
        ratios([1.0], [])


def test_scale_is_of_amounts_and_leaves_something_to_measure() -> None:
    assert Extent(scale=3.0).count(400) == 1_200
    assert Extent(scale=0.0001).count(400) == 1
    assert Extent(scale=0.01).seconds(3.0) == 0.5


def test_everybody_comes_first_and_everybody_comes_last() -> None:
    orders = [turns("abc", number) for number in range(6)]
    assert all(sorted(order) == ["a", "b", "c"] for order in orders)
    assert {order[0] for order in orders[:3]} == {"a", "b", "c"}
    assert {order[-1] for order in orders} == {"a", "b", "c"}
    assert orders[3] == orders[0][::-1]


def test_rounds_alternate_and_stay_with_their_subject() -> None:
    calls: list[str] = []

    def measure(name: str) -> str:
        calls.append(name)
        return f"{name}{calls.count(name)}"

    found = alternated(2, {name: partial(measure, name) for name in "ab"})
    assert calls == ["a", "b", "b", "a"]
    assert found == {"a": ["a1", "a2"], "b": ["b1", "b2"]}


@pytest.mark.parametrize(
    ("aim", "value", "verdict"),
    [
        (Aim(3.0, 2.0), 3.0, HELD),
        (Aim(3.0, 2.0), 2.5, FLOOR),
        (Aim(3.0, 2.0), 1.99, MISSED),
        (Aim(0.4, at_most=True), 0.4, HELD),
        (Aim(0.4, at_most=True), 0.41, MISSED),
    ],
)
def test_a_median_holds_its_goal_or_its_floor_or_misses_both(
    aim: Aim, value: float, verdict: str
) -> None:
    assert Row("row", "a row", aim, [value, 0.0, 99.0]).verdict == verdict


def test_a_section_that_cannot_run_is_a_row_that_says_why() -> None:
    (late,) = measured(next(iter(SECTIONS)), Path("/nowhere"), PeerExtent(), 1.0)
    assert (late.verdict, late.document["value"]) == (NOT_RUN, None)
    assert "were left" in late.cells[-1]


# -- the generator and its clients -----------------------------------------------------------------
@given(some.lists(some.binary(max_size=300)))
def test_requests_come_back_as_they_were_framed(requests: list[bytes]) -> None:
    assert requests_from(framed(requests)) == requests


def test_percentiles_are_values_that_were_seen() -> None:
    ordered = [float(number) for number in range(1, 101)]
    assert (percentile(ordered, 0.5), percentile(ordered, 1.0)) == (51.0, 100.0)
    assert percentile(ordered[:3], 0.99) == 3.0
    assert percentile([], 0.99) == 0.0


PRINTED = """
finished in 2.00s, 25000.00 req/s, 3.10MB/s
requests: 50000 total, 50000 started, 50000 done, {} succeeded, {} failed, 0 errored, 0 timeout
status codes: 50000 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 6.20MB (6500164) total, 1.05MB (1100000) headers (80.00%), 4.96MB (5200000) data
"""


def test_a_run_is_read_from_what_h2load_prints() -> None:
    run = h2load_run(PRINTED.format(50000, 0))
    assert run is not None
    assert (run.calls, run.per_second, run.answer_bytes) == (50_000, 25_000.0, 5_200_000)


@pytest.mark.parametrize("printed", [PRINTED.format(49999, 1), "connection refused", ""])
def test_a_run_with_failed_calls_counts_nothing(printed: str) -> None:
    assert h2load_run(printed) is None


def _reply(header: bytes) -> bytes:
    return (4 + len(header)).to_bytes(4) + len(header).to_bytes(4) + header


def _loaded(shape: Shape, headers: list[bytes], piece_size: int) -> tuple[int, int]:
    """Loads a server that writes replies with these headers once, in pieces of a size.

    Returns  the number of counted replies, and the number of bytes that the server read
    """
    size, replies = len(b"".join(shape.requests)), b"".join(map(_reply, headers))

    def serve() -> int:
        peer, _ = listener.accept()
        with peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            read = 0
            while read < size:
                read += len(peer.recv(size))
            for begin in range(0, len(replies), piece_size):
                peer.sendall(replies[begin : begin + piece_size])
            return read + len(peer.recv(1))  # The generator closes the connection.

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve)
        found, _ = generate(f"127.0.0.1:{listener.getsockname()[1]}", shape, 0.0)
        return found, served.result(10)


def test_replies_to_classic_frames_are_counted_in_whatever_pieces_they_arrive() -> None:
    shape = CLASSIC["unary"]._replace(connections=1, in_flight=QUEUE_COUNT)
    headers = [b'{"code":0,' + bytes(number) for number in range(QUEUE_COUNT)]
    size = len(b"".join(shape.requests))
    for piece_size in (1, 7, 19, 1_000):
        assert _loaded(shape, headers, piece_size) == (QUEUE_COUNT, size)


@pytest.mark.parametrize("last", [b'{"code":10,' + bytes(40_000), b'{"code":0,' + bytes(1_000)])
def test_a_refused_or_short_reply_to_a_classic_frame_ends_the_run(last: bytes) -> None:
    shape = CLASSIC["pull"]._replace(connections=1, in_flight=QUEUE_COUNT)
    good = b'{"code":0,' + bytes(shape.reply_size_min)
    with pytest.raises(Failed, match="a reply is refused or too short"):
        _loaded(shape, [good] * (QUEUE_COUNT - 1) + [last], 5_000)


def test_only_ok_of_an_answer_in_v2_is_sent() -> None:
    assert is_sent(bytes.fromhex("0a0608a09c0112001200"))
    assert not is_sent(bytes.fromhex("0a0608a49d0112001200"))
    assert not is_sent(b"")


texts = some.text(max_size=200)
contents = some.builds(
    Content, some.binary(max_size=300), texts, some.lists(texts, max_size=3).map(tuple), texts
)


@given(some.lists(contents, max_size=4))
def test_both_protocols_carry_the_same_messages(given_contents: list[Content]) -> None:
    ours = pb.SendMessageRequest.FromString(v1_request(given_contents)).messages
    assert [(m.body, m.tag, (*m.keys,), m.message_id) for m in ours] == given_contents
    theirs = [
        (m.body, m.system_properties.tag, (*m.system_properties.keys,),
         m.system_properties.message_id)
        for m in v2.SendMessageRequest.FromString(v2_request(given_contents)).messages
    ]  # fmt: skip
    assert theirs == given_contents


def test_batches_of_equal_and_mixed_messages_are_as_their_names_say() -> None:
    assert {len(one.body) for one in equal_contents(100)} == {1024}
    mixed = mixed_contents(100)
    assert len({len(one.body) for one in mixed}) == 6
    assert {len(one.keys) for one in mixed} == {0, 1, 2, 3}
    assert len({one.message_id for one in [*mixed, *equal_contents(100)]}) == 200
    assert mixed == mixed_contents(100)


# -- processes, /proc and /metrics -----------------------------------------------------------------
def test_a_server_is_killed_when_its_block_ends(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = "import sys, time; print('here', flush=True); sys.stderr.write('said'); time.sleep(600)"
    with running(["python", "-c", code], log) as server:
        assert server.line == "here\n"
        assert server.process.poll() is None
    assert server.process.returncode == -signal.SIGKILL
    with pytest.raises(Failed, match="ended at once"), running(["python", "-c", "pass"]):
        pass


def test_a_program_that_fails_gives_no_result() -> None:
    with pytest.raises(Failed, match=r"failed with 3: why"):
        ended(["sh", "-c", "echo '{}'; echo why >&2; exit 3"])
    with pytest.raises(Failed):
        apart("timeit", "no statement")


def test_processor_time_of_another_process_only_grows() -> None:
    before = cpu_seconds(os.getppid())
    assert 0 < before <= cpu_seconds(os.getppid())


def test_maps_of_a_directory_are_told_from_those_beside_it() -> None:
    text = (
        "7f00-7f10 rw-s 00000000 fe:00 12    /store/consumequeue/t/0/00000000000000000000\n"
        "7f10-7f20 rw-s 00000000 fe:00 13    /store/consumequeue-old/x\n"
        "7f20-7f30 rw-p 00000000 00:00 0 \n"
    )
    assert maps_of(text, Path("/store/consumequeue")) == (3, 1)


def lag_page(**counts: int) -> str:
    """A page whose buckets hold so many observations: at_0_01=3 for those up to 10 ms."""
    buckets = [
        f'{LAG}_bucket{{le="{name.removeprefix("at_").replace("_", ".")}"}} {count}'
        for name, count in counts.items()
    ]
    lines = [f"# HELP {LAG} Late.", f"# TYPE {LAG} histogram", *buckets]
    last = [*counts.values()][-1]
    return "\n".join([*lines, f'{LAG}_bucket{{le="+Inf"}} {last}', f"{LAG}_count {last}", ""])


def test_the_lag_is_bounded_by_the_bucket_that_holds_all_that_is_new() -> None:
    before = lag_page(at_0_01=5, at_0_1=6)
    assert lag_bound_ms(before, lag_page(at_0_01=9, at_0_1=10)) == pytest.approx(10)
    assert lag_bound_ms(before, lag_page(at_0_01=9, at_0_1=11)) == pytest.approx(100)


def test_calls_count_unless_a_bare_server_was_slow_at_the_same_time() -> None:
    calls = [(float(second), 500.0) for second in range(7)]
    assert beside(calls, [(second, STALL_MS - 1) for second, _ in calls]) == calls
    slow = [(1.4, STALL_MS), (3.6, 2_000.0), (3.7, STALL_MS), (6.6, STALL_MS)]
    assert [begun for begun, _ in beside(calls, slow)] == [0.0, 2.0, 3.0, 6.0]


def test_pages_that_tell_nothing_new_bound_nothing() -> None:
    page = lag_page(at_0_01=5)
    assert lag_bound_ms(page, page) is None
    assert lag_bound_ms("", "") is None


# -- queues, cold files, retention -----------------------------------------------------------------
@pytest.mark.parametrize(("count", "topics"), [(1, 1), (1_000, 1), (10_000, 10)])
def test_every_queue_comes_once_in_an_order_that_is_the_same_again(count: int, topics: int) -> None:
    found = topics_of(count)
    queues = shuffled_queues(found)
    assert (len(found), len(set(queues)), len(queues)) == (topics, count, count)
    assert queues == shuffled_queues(found)


def test_files_are_cold_only_when_they_end_below_what_is_pulled(tmp_path: Path) -> None:
    for base in (0, 100, 200):
        (tmp_path / f"{base:020d}").write_bytes(bytes(100))
    assert [int(path.name) for path in log_files(tmp_path, 250)] == [0, 100]


def test_what_was_written_a_moment_ago_is_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(4_096))
    assert resident_share([path]) == 1.0
    assert resident_share([]) == 0.0


@pytest.mark.parametrize(
    ("limit", "left"), [(400, [0, 100, 200, 300]), (399, [100, 200, 300]), (50, [300])]
)
def test_the_newest_files_that_fit_the_limit_stay_and_the_last_one_always(
    limit: int, left: list[int]
) -> None:
    assert wanted_bases([0, 100, 200, 300], 100, limit) == left


# -- batteries -------------------------------------------------------------------------------------
def test_every_name_leads_to_a_battery_or_a_figure() -> None:
    """By their sources: what some import would take seconds."""
    where = [f"torture.{place}" for place in BATTERIES.values()] + [*IN_MODULES.values()]
    for place in where:
        module, _, function = place.partition(":")
        source = (ROOT / "scripts" / f"{module.replace('.', '/')}.py").read_text("utf-8")
        assert f"\ndef {function}(" in source, place
    assert IN_MODULES.keys() < FIGURES.keys()


def test_a_battery_is_ok_failed_or_not_run_and_a_failure_says_how_to_see_it_again() -> None:
    def torture(place: Path, budget: Budget) -> dict[str, Any]:
        assert place.is_dir()
        if budget.seed == 2:
            raise NotHere("no go")
        assert budget.seed == 1, "lost"
        return {"lives": 3}

    rows = [ran("kill", None, Budget(seed=seed), torture) for seed in (1, 2, 3)]
    assert [row["verdict"] for row in rows] == ["ok", "NOT RUN HERE", "FAILED"]
    shown = [*cells(rows)]
    assert ("kill", "lives", "3") in shown
    assert ("kill", "why", "no go") in shown
    assert "run kill --seed 3 " in rows[2]["repro"]
    assert "AssertionError: lost" in rows[2]["why"]


def test_a_signal_ends_all_batteries_and_not_the_one_that_runs() -> None:
    def ended_by_signal(place: Path, budget: Budget) -> dict[str, Any]:
        signal.raise_signal(signal.SIGTERM)
        return {}

    before = signal.getsignal(signal.SIGTERM)
    try:
        end_in_order()
        with pytest.raises(KeyboardInterrupt):
            ran("kill", None, Budget(), ended_by_signal)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_something_is_tried_however_short_the_time() -> None:
    assert [*Budget(seed=2, seconds=0).seeds(apart=100)] == [200]
    assert [*Budget(seconds=0).in_portions(range(9), 2, sum)] == [1]
    assert [*islice(Budget(seed=2).seeds(), 3)] == [2, 3, 4]


# -- other people's clients -----------------------------------------------------------------------
def result(*codes: int, answers: tuple[str, ...] = ("b2s=",), **own: Any) -> dict[str, Any]:
    """Returns a client's report of one call; the answer is "ok"."""
    return {"codes": [*codes], "text": "said", "answers": [*answers], "trailers": {}, **own}


CALL = Call("one", "/a.B/C", (b"",), check=lambda answers, _: answers == [b"ok"])


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (result(0), "ok"),
        (result(0, 0, 0), "ok"),
        (result(0, 14), "codes [0, 14], not 0: said"),
        (result(0, answers=("bm8=",)), "other answers: [b'no']"),
        (result(0, answers=()), "other answers: []"),
    ],
)
def test_a_call_is_judged_by_all_its_codes_and_by_its_answers(
    found: dict[str, Any], verdict: str
) -> None:
    assert CALL.verdict(found) == verdict


def test_trailers_are_compared_whatever_their_names_look_like() -> None:
    def check(_: list[bytes], trailers: Any) -> bool:
        return "x-request-id" in trailers

    call = CALL._replace(code=CANCELLED, check=check)
    assert call.verdict(result(1, trailers={"X-Request-Id": ["a"]})) == "ok"
    assert call.verdict(result(1, trailers=None)) != "ok"


def test_every_call_of_a_plan_is_told_from_the_others() -> None:
    calls = plan("own")
    assert len({call.name for call in calls}) == len(calls)


def test_a_client_that_is_not_here_is_told_and_is_no_failure() -> None:
    def missing() -> dict[str, str]:
        raise NotHere("go is not on the PATH")

    assert verdicts_of(missing) == {"here": "go is not on the PATH"}


def test_the_interop_service_has_every_kind_of_method_and_shows_the_status_it_is_asked_for() -> (
    None
):
    service = Interop(described()).service()
    assert len({method.kind for method in service.methods}) == 4
    status = refused(Wanted(why="said", number=7), service.methods[0])
    assert (status.code, status.message) == (7, "said")


# -- real brokers ----------------------------------------------------------------------------------
ONE: dict[str, Any] = {"topic": "orders", "physical_offset": 0, "properties": {"KEYS": "a"}}
TWO: dict[str, Any] = {"topic": "orders", "physical_offset": 90, "properties": {}}


def told(*messages: dict[str, Any], found: list[int]) -> Truth:
    """Returns what a broker says that has these messages in one queue and answers one question."""
    own = {"from": "orders", "from_queue": 0}
    documents = [{"kind": "queue", **own, "min": 0, "max": len(messages)}]
    documents += [{"kind": "message", **own, **message} for message in messages]
    truth = Truth()
    truth.add([*documents, {"kind": "key", "topic": "orders", "key": "a", "found": found}])
    return truth


@pytest.mark.parametrize(
    ("found", "more", "expected"),
    [
        ([ONE, TWO], False, ""),
        ([ONE], False, "1 messages, not 2"),
        ([ONE, TWO, TWO], False, "3 messages, not 2"),
        ([ONE, TWO, TWO], True, ""),
        ([TWO, ONE], False, "message 0: physical_offset is 90, not 0"),
        ([{**ONE, "properties": {}}, TWO], False, "message 0: properties is {}, not {'KEYS': 'a'}"),
    ],
)
def test_messages_are_compared_in_order_and_field_by_field(
    found: list[dict[str, Any]], more: bool, expected: str
) -> None:
    assert difference([ONE, TWO], found, more=more) == expected


def test_a_later_run_tells_everything_anew() -> None:
    truth = told(ONE, TWO, found=[0])
    assert truth.message_count == 2
    assert truth.keys == [("orders", "a")]
    truth.add([{"kind": "queue", "from": "orders", "from_queue": 1, "min": 0, "max": 0}])
    assert truth.queues == {("orders", 1): []}
    assert not truth.keys


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (told(ONE, TWO, TWO, found=[0]), ""),
        (told(ONE, TWO, found=[0, 90]), ""),
        (told(ONE, found=[0]), "1 of 2 queues and keys: orders/0: 1 messages, not 2"),
        (told(ONE, TWO, found=[]), "1 of 2 queues and keys: key 'a' of orders: [], not [0]"),
    ],
)
def test_what_is_taken_back_has_ours_behind_theirs(after: Truth, expected: str) -> None:
    ours = {("orders", 0): [TWO]}
    assert taken_back(told(ONE, found=[0]), ours, after, has_index=True) == expected


@pytest.fixture
def twins(tmp_path: Path) -> tuple[Path, Path]:
    """A store as it was, and as it is."""
    for store in ("was", "is"):
        for name in ("commitlog/0", "index/1", "consumequeue/t/0/0"):
            path = tmp_path / store / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(name.encode() + bytes(9))
    return tmp_path / "was", tmp_path / "is"


def test_a_changed_a_new_and_a_removed_file_are_seen(twins: tuple[Path, Path]) -> None:
    before, now = twins
    assert left_as_it_was(before, now) == ""
    (now / "index/1").rename(now / "index/2")
    assert left_as_it_was(before, now) == "2 of 4 files: index/1"
    (now / "commitlog/0").write_text("other")
    assert left_as_it_was(before, now) == "1 of 3 files: commitlog/0"


def test_what_was_due_stands_behind_what_there_was(twins: tuple[Path, Path]) -> None:
    before, now = twins
    for name in ("commitlog/0", "index/1", "consumequeue/t/0/0"):
        (now / name).write_bytes(name.encode() + b"and more")
    (now / "commitlog/1").write_bytes(b"new")
    assert left_as_it_was(before, now) == ""
    (now / "consumequeue/t/0/0").write_bytes(b"consumequeue/t/0/1 and more")
    assert left_as_it_was(before, now) == "1 of 3 files: consumequeue/t/0/0"


def test_joined_shapes_have_the_settings_and_the_runs_of_both() -> None:
    joined = shape_of("restarts+deleted+ipv6")
    assert joined.runs == [("mixed", "deleted"), ("few",), ("few", "retry")]
    assert joined.settings == SHAPES["ipv6"].settings
    with pytest.raises(ValueError, match="no shape 'ipv5'; there are plain"):
        shape_of("crc+ipv5")


def test_a_rebuild_that_differs_and_a_broker_that_fails_itself_are_no_differences() -> None:
    sound = dict.fromkeys(STEPS, "")
    rows: list[dict[str, Any]] = [
        {"steps": sound | {"rebuilt": "index/#0 is more"}, "messages": 7},
        {"steps": sound | {"verify": "exit code 10"}, "messages": 5},
        {"steps": {}, "why": "the real broker itself fails: it said nothing"},
        {"steps": {}, "why": "KeyError: 'min'"},
    ]
    figures = counts(rows)
    assert figures["differences"] == 2
    assert figures["messages compared"] == 12
    assert figures["steps as the real broker said"] == 2 * len(STEPS) - 2
    assert figures["the real broker itself fails"] == 1
