"""The settings of transactions: which are taken, and when producers are asked about them."""

from dataclasses import dataclass

from pocketmq.config.knob import INT32_MAX, live_knob
from pocketmq.config.units import SECOND_MS


@dataclass(frozen=True, kw_only=True)
class TransactionsSection:
    """Messages that are delivered when their producer commits them."""

    refuse: bool = live_knob(
        False, "Refuse messages of transactions; existing ones can be decided.",
        "rejectTransactionMessage",
    )  # fmt: skip
    timeout_ms: int = live_knob(
        6 * SECOND_MS, "Age at which a transaction is first checked with its producers.",
        "transactionTimeOut", lower=1, upper=INT32_MAX,
    )  # fmt: skip
    check_interval_ms: int = live_knob(
        30 * SECOND_MS, "Interval between checks of a transaction.",
        "transactionCheckInterval", lower=1, upper=INT32_MAX,
    )  # fmt: skip
    checks_max: int = live_knob(
        15,
        "Number of checks after which a transaction expires undecided.",
        "transactionCheckMax",
        upper=1_000,
    )
