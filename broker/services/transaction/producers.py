"""Who can be asked what becomes of a transaction: the producers that are connected, by group.

Any producer of a group may know, the one that sent the message may be gone. They are asked in turn;
one that takes no more for now is passed over.
Source: ProducerManager.getAvailableChannel.
"""

from collections.abc import Callable

from broker.model.transaction import Check

Offer = Callable[[Check], bool]
"""Gives a producer a question; False: it takes none now."""


class Producers:
    """The producers of all groups."""

    __slots__ = ("_offers", "_turn")

    def __init__(self) -> None:
        self._offers: dict[str, list[Offer]] = {}
        self._turn = 0

    def join(self, group: str, offer: Offer) -> Callable[[], None]:
        """Have a producer asked, until what this returns is called, once."""
        offers = self._offers.setdefault(group, [])
        offers.append(offer)

        def leave() -> None:
            offers.remove(offer)
            if not offers:
                assert self._offers[group] is offers
                del self._offers[group]

        return leave

    def count(self, group: str) -> int:
        """Return how many producers of a group there are."""
        return len(self._offers.get(group, ()))

    @property
    def total(self) -> int:
        """How many there are of all groups."""
        return sum(map(len, self._offers.values()))

    def ask(self, check: Check) -> bool:
        """Ask one producer of a group; False where none takes the question."""
        offers = self._offers.get(check.group, [])
        self._turn += 1
        first = self._turn % max(len(offers), 1)
        return any(offer(check) for offer in [*offers[first:], *offers[:first]])
