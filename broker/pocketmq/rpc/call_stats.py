"""Metrics of calls by method: latency and result.

    rocketmq_rpc_latency_milliseconds{request_code="pull_message", response_code="success", …}

Request codes are RocketMQ's names of methods. Response codes are those of the v2 protocol
(model/errors Code), "success", and "none" for a cancelled call. A call of the poll class that had
to wait counts as a long poll.
A series exists from its first call on.
Cost: a call answered at once increments a counter. Calls of one socket read are all recorded with
the duration of that read, as their answers are sent together.
Source: RemotingMetricsManager, RequestCode.
"""

from collections.abc import Mapping
from typing import Final

from pocketmq.model.errors import BrokerError, Corruption
from pocketmq.model.stats import Counter, Gauge, Histogram, Histograms, Stat
from pocketmq.rpc.admission import Admission, CallClass
from pocketmq.rpc.service import GRPC, Method

LATENCY_BUCKETS: Final = (1.0, 3.0, 5.0, 7.0, 10.0, 100.0, 1000.0, 2000.0, 3000.0)
CREATE_BUCKETS: Final = (10.0, 100.0, 1000.0, 3000.0, 5000.0)
LATENCY_LABELS: Final = (
    "protocol_type",
    "request_code",
    "response_code",
    "is_long_polling",
    "result",
)
SUCCESS: Final = "success"
FAILED: Final = "process_request_failed"
CANCELLED: Final = "cancelled"
NO_CODE: Final = "none"

CREATIONS: Final[Mapping[str, str]] = {
    "pocketmq.v1.Admin/CreateTopic": "rocketmq_topic_create_execution_time_milliseconds",
    "pocketmq.v1.Admin/CreateGroup": "rocketmq_consumer_group_create_execution_time_milliseconds",
}
"""Full names of methods that create topics or groups -> the metric of their duration."""
PROCESSORS: Final[Mapping[str, CallClass]] = {
    "send": CallClass.SEND,
    "pull": CallClass.POLL,
    "ack": CallClass.SETTLE,
    "query_message": CallClass.QUERY,
    "admin": CallClass.ADMIN,
    "client_manager": CallClass.SESSION,
}
"""RocketMQ's thread pools -> the class of calls that does their work here."""
DAMAGED_FILES: Final = ("commitlog", "consumequeue", "index")
DAMAGES_KEPT_MAX: Final = 10_000
"""Upper limit of remembered positions of damaged records, which are not counted or logged again.
At the limit, all positions are forgotten."""


def request_code(method: Method) -> str:
    """Returns RocketMQ's request code of a method, or the method's name in snake case."""
    letters = (f"_{letter.lower()}" if letter.isupper() else letter for letter in method.name)
    return method.request_code or "".join(letters).lstrip("_")


class MethodStats:
    """Results of one method's calls; durations run from the request's arrival to the answer."""

    __slots__ = (
        "_code", "_create", "_latency", "_poll", "_protocol", "_rejected", "answered", "is_known",
        "under_way",
    )  # fmt: skip

    def __init__(
        self,
        method: Method,
        latency: Histograms,
        create: Histograms | None,
        rejected: Counter,
        protocol: str = GRPC,
    ) -> None:
        self._protocol = protocol
        self._code = request_code(method)
        self._latency = latency
        self._create = create
        self._rejected = rejected
        self.under_way = 0
        self.answered = 0
        """Calls that were answered at once and are not in the histogram yet."""
        self.is_known = False
        """Whether a call has ended."""
        self._poll = "true" if method.call_class is CallClass.POLL else "false"

    @property
    def success(self) -> Histogram:
        """Duration in ms of calls that were answered at once."""
        return self._series(SUCCESS, "false", SUCCESS)

    @property
    def waited(self) -> Histogram:
        """Duration in ms of calls that had to wait for their answers."""
        return self._series(SUCCESS, self._poll, SUCCESS)

    def _series(self, response_code: str, is_long_polling: str, result: str) -> Histogram:
        self.is_known = True
        return self._latency.at(
            (self._protocol, self._code, response_code, is_long_polling, result)
        )

    def begin(self, count: int = 1) -> None:
        """Counts calls that begin."""
        self.under_way += count

    def end(self, count: int = 1) -> None:
        """Counts calls that have ended."""
        self.under_way -= count
        assert self.under_way >= 0, "more calls ended than began"

    def fold(self, seconds: float) -> None:
        """Moves the calls answered at once since the last fold into the histogram.

        seconds   duration of each call
        """
        count, self.answered = self.answered, 0
        assert count > 0, "no answered calls to fold"
        self.success.observe_many(seconds * 1000, count)
        self.count_created(seconds, count)

    def count_waited(self, seconds: float, count: int = 1) -> None:
        """Counts calls that had to wait for their answers, each with a duration of `seconds`."""
        self.waited.observe_many(seconds * 1000, count)
        self.count_created(seconds, count)

    def count_created(self, seconds: float, count: int = 1) -> None:
        """Counts created topics or groups, if the method creates some."""
        if self._create is not None:
            self._create.at((SUCCESS, "false")).observe_many(seconds * 1000, count)

    def count_failed(self, error: BrokerError, seconds: float) -> None:
        """Counts a call that was answered with an error."""
        self._rejected.add((error.reason,))
        self._series(error.code.name.lower(), "false", FAILED).observe(seconds * 1000)
        if self._create is not None:
            self._create.at(("failure", "false")).observe(seconds * 1000)

    def count_cancelled(self, seconds: float) -> None:
        """Counts a call that ended without a result: its client left, or it was cancelled."""
        self._series(NO_CODE, self._poll, CANCELLED).observe(seconds * 1000)


class CallStats:
    """The metrics of all methods of a server."""

    __slots__ = ("_creations", "_damages", "_latency", "_methods", "_rejected", "damage", "stats")

    def __init__(self, admission: Admission) -> None:
        self._latency = Histograms(
            "rocketmq_rpc_latency_milliseconds",
            "Duration of calls.",
            LATENCY_BUCKETS,
            LATENCY_LABELS,
        )
        labels = ("invocation_status", "is_system")
        self._creations = {
            method: Histograms(name, "Duration of one creation.", CREATE_BUCKETS, labels)
            for method, name in CREATIONS.items()
        }
        self.damage = Counter(
            "pocketmq_crc_errors_total", "Damaged records found by calls.", ("file",)
        )
        self._damages: set[tuple[str, int]] = set()
        self._methods: dict[str, MethodStats] = {}
        self._rejected = Counter(
            "pocketmq_rejected_total", "Calls answered with an error of the broker.", ("reason",)
        )
        for file in DAMAGED_FILES:
            self.damage.add((file,), 0)
        watermark = Gauge(
            "rocketmq_processor_watermark",
            "Calls in progress, by processor.",
            lambda: {
                (processor,): float(admission.gate(call_class).count)
                for processor, call_class in PROCESSORS.items()
            },
            ("processor",),
        )
        inflight = Gauge(
            "pocketmq_inflight_requests",
            "Calls in progress.",
            lambda: {
                (path,): float(method.under_way)
                for path, method in self._methods.items()
                if method.is_known or method.under_way
            },
            ("method",),
        )
        self.stats: list[Stat] = [
            self._latency,
            *self._creations.values(),
            self.damage,
            watermark,
            inflight,
            self._rejected,
        ]

    def method(self, path: str, method: Method, protocol: str = GRPC) -> MethodStats:
        """Registers a method; returns its new counts, which replace older counts of this path.

        path   such as "pocketmq.v1.Broker/SendMessage"
        """
        before = self._methods.get(path)
        under_way = 0 if before is None else before.under_way
        assert not under_way, "a method with calls in progress is registered again"
        creations = self._creations.get(path)
        made = self._methods[path] = MethodStats(
            method, self._latency, creations, self._rejected, protocol
        )
        return made

    def count_damage(self, error: Corruption) -> bool:
        """Counts a damaged record, by the kind of its file.

        Returns  whether the damage is new: not among those remembered from earlier calls
        """
        place = (error.path, error.file_position)
        if place in self._damages:
            return False
        if len(self._damages) >= DAMAGES_KEPT_MAX:
            self._damages.clear()
        self._damages.add(place)
        assert len(self._damages) <= DAMAGES_KEPT_MAX, "too many damages remembered"
        found = (file for file in DAMAGED_FILES if f"/{file}/" in error.path)
        self.damage.add((next(found, "other"),))
        return True
