"""Answers to a client's settings: its own ones, and those of the broker.

Clients need different answers. A producer fails without an exponential backoff, a push consumer
without a list of pauses. The client for Node.js takes no list. The client for Go keeps order only
between different receives. All of them read sizes and times.
Source: GrpcClientSettingsManager.
"""

from typing import Final, NamedTuple

from pocketmq.model.consuming import RECEIVE_MAX
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.v2.caller import Caller
from pocketmq.rpc.v2.durations import duration_of
from pocketmq.rpc.v2.receive_message import POLL_MS

PRODUCER_POLICY: Final = pb.RetryPolicy(
    max_attempts=3,
    exponential_backoff=pb.ExponentialBackoff(
        initial=duration_of(10), max=duration_of(1_000), multiplier=2
    ),
)
PAUSES_S: Final = (
    *(1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200),
)
"""Before each next attempt of a consumer (CustomizedRetryPolicy)."""
PAUSES: Final = pb.CustomizedBackoff(next=[duration_of(1000 * pause) for pause in PAUSES_S])
NODE_PAUSES: Final = pb.ExponentialBackoff(
    initial=duration_of(5_000), max=duration_of(7_200_000), multiplier=2
)
LITE_QUOTA: Final = 2_000
LITE_TOPIC_SIZE_MAX: Final = 64


class Terms(NamedTuple):
    """Settings that the broker decides for a consumer.

    max_attempts  deliveries of a message in all
    is_ordered    it consumes some topic in order
    """

    max_attempts: int
    is_ordered: bool


def settings_of_producer(given: pb.Settings, body_size_max: int) -> pb.Settings:
    """Returns the answer to a producer's settings."""
    answer = _copied(given)
    answer.backoff_policy.CopyFrom(PRODUCER_POLICY)
    answer.publishing.max_body_size = body_size_max
    answer.publishing.validate_message_type = True
    return answer


def settings_of_consumer(given: pb.Settings, terms: Terms, caller: Caller) -> pb.Settings:
    """Returns the answer to a consumer's settings."""
    answer = _copied(given)
    policy = pb.RetryPolicy(max_attempts=terms.max_attempts)
    if caller.is_node:
        policy.exponential_backoff.CopyFrom(NODE_PAUSES)
    else:
        policy.customized_backoff.CopyFrom(PAUSES)
    answer.backoff_policy.CopyFrom(policy)
    subscription = answer.subscription
    subscription.fifo = terms.is_ordered
    # With more it would go on with the next one of a group while the first is tried again.
    subscription.receive_batch_size = 1 if terms.is_ordered and caller.is_go else RECEIVE_MAX
    is_pushed = given.client_type != pb.SIMPLE_CONSUMER
    if is_pushed or not subscription.HasField("long_polling_timeout"):
        subscription.long_polling_timeout.CopyFrom(duration_of(POLL_MS))
    subscription.lite_subscription_quota = LITE_QUOTA
    subscription.max_lite_topic_size = LITE_TOPIC_SIZE_MAX
    return answer


def _copied(given: pb.Settings) -> pb.Settings:
    """Returns the same settings; where to report a client's own metrics is left out."""
    answer = pb.Settings()
    answer.CopyFrom(given)
    answer.metric.CopyFrom(pb.Metric(on=False))
    return answer
