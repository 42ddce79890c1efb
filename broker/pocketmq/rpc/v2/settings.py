"""Answers to a client's settings: its own settings, completed by the broker's.

Clients need different answers. A producer fails without an exponential backoff, a push consumer
without a list of delays. The client for Node.js does not support such a list. The client for Go
keeps FIFO order only between receives, not within one receive.
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
"""Delays between a consumer's attempts (CustomizedRetryPolicy)."""
PAUSES: Final = pb.CustomizedBackoff(next=[duration_of(1000 * pause) for pause in PAUSES_S])
NODE_PAUSES: Final = pb.ExponentialBackoff(
    initial=duration_of(5_000), max=duration_of(7_200_000), multiplier=2
)
LITE_QUOTA: Final = 2_000
LITE_TOPIC_SIZE_MAX: Final = 64


class Terms(NamedTuple):
    """Settings that the broker decides for a consumer.

    max_attempts  number of deliveries after which a message is moved to the dead letters
    is_ordered    whether the group, or a topic that it subscribes to, is FIFO
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
    # With more than one, the Go client would consume the next message of a message group while
    # it retries the first one.
    subscription.receive_batch_size = 1 if terms.is_ordered and caller.is_go else RECEIVE_MAX
    is_pushed = given.client_type != pb.SIMPLE_CONSUMER
    if is_pushed or not subscription.HasField("long_polling_timeout"):
        subscription.long_polling_timeout.CopyFrom(duration_of(POLL_MS))
    subscription.lite_subscription_quota = LITE_QUOTA
    subscription.max_lite_topic_size = LITE_TOPIC_SIZE_MAX
    return answer


def _copied(given: pb.Settings) -> pb.Settings:
    answer = pb.Settings()
    answer.CopyFrom(given)
    answer.metric.CopyFrom(pb.Metric(on=False))  # The client sends no metrics.
    return answer
