"""Contribution of a call to the metrics of its method."""

from pocketmq.model.errors import Corruption, TopicNotFound
from pocketmq.model.stats import Counter, Gauge, Histograms
from pocketmq.rpc.admission import Admission, CallClass
from pocketmq.rpc.call_stats import (
    DAMAGES_KEPT_MAX,
    CallStats,
    MethodStats,
    request_code,
)
from pocketmq.rpc.service import Internal, Method, method
from pocketmq.rpc.v1.service_table import ADMIN, BROKER


def row(name: str, call_class: CallClass = CallClass.QUERY, code: str = "") -> Method:
    pool = BROKER if name in BROKER.methods_by_name else ADMIN
    return method(pool, name, lambda request, call: None, call_class, request_code=code)


class Desk:
    """The numbers of one server."""

    def __init__(self) -> None:
        self.admission = Admission()
        self.stats = CallStats(self.admission)

    def method(self, name: str, call_class: CallClass = CallClass.QUERY) -> MethodStats:
        one = row(name, call_class)
        return self.stats.method(f"{one.request.DESCRIPTOR.file.package}.Admin/{name}", one)

    def counts(self, name: str) -> dict[tuple[str, ...], int]:
        """Returns how many were observed, by labels, without those never observed."""
        (stat,) = [stat for stat in self.stats.stats if stat.name == name]
        assert isinstance(stat, Histograms)
        sums = {labels: sum(one.counts) for labels, one in stat.series.items()}
        return {labels: count for labels, count in sums.items() if count}


LATENCY = "rocketmq_rpc_latency_milliseconds"


def test_a_method_without_a_word_of_rocketmqs_goes_by_its_own_name() -> None:
    assert request_code(row("QueryById")) == "query_by_id"
    assert request_code(row("QueryById", code="view_message_by_id")) == "view_message_by_id"


def test_two_faces_may_have_a_method_of_one_name() -> None:
    desk = Desk()
    paths = ("pocketmq.v1.Broker/QueryById", "other.v2.Service/QueryById")
    mine, other = (desk.stats.method(path, row("QueryById")) for path in paths)
    mine.under_way += 2
    (inflight,) = [s for s in desk.stats.stats if s.name == "pocketmq_inflight_requests"]
    assert isinstance(inflight, Gauge)
    assert inflight.read() == {(paths[0],): 2}
    mine.success.observe(1)
    other.success.observe(1)
    assert inflight.read() == {(paths[0],): 2, (paths[1],): 0}
    assert desk.counts(LATENCY) == {("grpc", "query_by_id", "success", "false", "success"): 2}


def test_a_method_without_a_call_has_no_series() -> None:
    desk = Desk()
    for name in ("PullMessage", "QueryById"):
        desk.method(name, CallClass.POLL)
    for stat in desk.stats.stats:
        if isinstance(stat, Histograms):
            assert not stat.series
        if stat.name == "pocketmq_inflight_requests":
            assert isinstance(stat, Gauge)
            assert stat.read() == {}


def test_a_poll_that_waited_is_a_long_poll() -> None:
    desk = Desk()
    poll, query = desk.method("PullMessage", CallClass.POLL), desk.method("QueryById")
    poll.success.observe(1)
    poll.waited.observe(1)
    query.waited.observe(1)
    assert desk.counts(LATENCY) == {
        ("grpc", "pull_message", "success", "false", "success"): 1,
        ("grpc", "pull_message", "success", "true", "success"): 1,
        ("grpc", "query_by_id", "success", "false", "success"): 1,
    }


def test_failures_are_told_apart_by_their_code() -> None:
    desk = Desk()
    query = desk.method("QueryById")
    query.count_failed(TopicNotFound(topic="t"), 0.002)
    query.count_failed(Internal(incident="1"), 0.002)
    query.count_cancelled(0.002)
    assert desk.counts(LATENCY) == {
        ("grpc", "query_by_id", code, "false", result): 1
        for code, result in (
            ("topic_not_found", "process_request_failed"),
            ("internal_server_error", "process_request_failed"),
            ("none", "cancelled"),
        )
    }


def test_creating_a_topic_is_counted_apart() -> None:
    desk = Desk()
    create = desk.method("CreateTopic", CallClass.ADMIN)
    create.count_created(0.5)
    create.count_failed(Internal(incident="1"), 0.5)
    desk.method("QueryById").count_created(0.5)
    assert desk.counts("rocketmq_topic_create_execution_time_milliseconds") == {
        ("success", "false"): 1,
        ("failure", "false"): 1,
    }


def test_damage_is_counted_once_by_the_kind_of_file() -> None:
    desk = Desk()
    paths = ("/s/commitlog/00000000000000000000", "/s/consumequeue/t/0/0", "/elsewhere")
    for is_new in (True, False):
        for path in paths:
            error = Corruption(path=path, file_position=0, physical_offset=0, why="x")
            assert desk.stats.count_damage(error) is is_new
    assert isinstance(desk.stats.damage, Counter)
    assert desk.stats.damage.values == {
        ("commitlog",): 1,
        ("consumequeue",): 1,
        ("index",): 0,
        ("other",): 1,
    }


def test_places_of_damage_are_remembered_up_to_a_bound() -> None:
    desk = Desk()
    for number in [*range(DAMAGES_KEPT_MAX + 1), 0]:
        error = Corruption(path="/s", file_position=number, physical_offset=0, why="x")
        assert desk.stats.count_damage(error)


def test_the_watermark_is_what_is_under_way() -> None:
    desk = Desk()
    (stat,) = [s for s in desk.stats.stats if s.name == "rocketmq_processor_watermark"]
    assert isinstance(stat, Gauge)
    desk.admission.gate(CallClass.POLL).count = 3
    read = stat.read()
    assert isinstance(read, dict)
    assert read["pull",] == 3
    assert read["send",] == 0
