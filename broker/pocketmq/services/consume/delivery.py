"""The interface of a delivery mode: under leases (lease/), or in FIFO order (fifo/)."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from pocketmq.services.consume.ack_mode import AckMode
from pocketmq.services.consume.group_topic import GroupTopic
from pocketmq.services.consume.receive_mode import ReceiveMode


class DeliveryMode(ABC):
    """One of the two ways to deliver messages."""

    __slots__ = ("ack", "receive")

    receive: ReceiveMode
    ack: AckMode

    @abstractmethod
    def release(self, group: str, topic: str, handles: Sequence[str]) -> bool:
        """Makes messages visible soon whose receiver never got them.

        Returns   whether some of them may be received at once
        """

    @abstractmethod
    def leave(
        self, client_id: str, group: str, targets: Iterable[GroupTopic]
    ) -> Iterable[GroupTopic]:
        """Ends soon the leases that a terminating client kept alive for a group.

        targets   of the group, and received in this mode
        Returns   those of which messages may be received at once
        """

    @abstractmethod
    def frees(self, target: GroupTopic) -> bool:
        """Returns whether an ack may let waiting receives have more messages."""

    @abstractmethod
    def watch_ends(self, target: GroupTopic) -> int | None:
        """Returns when leases end next that receives wait for; `next_end_ms` includes it then."""

    @property
    @abstractmethod
    def next_end_ms(self) -> int | None:
        """Monotonic time of the next end of a lease that something has to be done at."""
