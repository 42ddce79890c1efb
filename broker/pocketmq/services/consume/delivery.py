"""The interface of a delivery mode: under leases (lease/), or in FIFO order (fifo/)."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from pocketmq.services.consume.ack_mode import AckMode
from pocketmq.services.consume.group_topic import GroupTopic
from pocketmq.services.consume.receive_mode import ReceiveMode


class DeliveryMode(ABC):
    """A delivery mode."""

    __slots__ = ("ack", "receive")

    receive: ReceiveMode
    ack: AckMode

    @abstractmethod
    def release(self, group: str, topic: str, handles: Sequence[str]) -> bool:
        """Makes messages that never reached the client visible soon.

        Returns   whether some of these messages can be received at once
        """

    @abstractmethod
    def leave(self, client_id: str, group: str, targets: Iterable[GroupTopic]) -> bool:
        """Ends the auto-renewed leases of a terminating client in a group, within about 1 s.

        targets   topics that the group receives in this mode
        Returns   whether some messages of these leases can be received at once
        """

    @abstractmethod
    def frees(self, target: GroupTopic) -> bool:
        """Returns whether an acknowledgement may make messages available to parked receives."""

    @abstractmethod
    def watch_ends(self, target: GroupTopic) -> int | None:
        """Returns the monotonic time at which a lease that blocks parked receives ends, or None.

        Effects   `next_end_ms` includes this time from now on
        """

    @property
    @abstractmethod
    def next_end_ms(self) -> int | None:
        """Monotonic time of the next lease end that this mode has to handle."""
