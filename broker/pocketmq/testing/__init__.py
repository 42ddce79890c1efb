"""Brokers for tests of programs that use RocketMQ: a pytest plugin, and the broker processes.

    def test_an_order_is_shipped(rocketmq):
        rocketmq.create_topic("orders")
        ship(rocketmq.endpoint)
        rocketmq.wait_for_lag_0("shippers", "orders")

    pytest ─► plugin ─► rocketmq ─► broker_process ═ socket ═► spawner ─ fork ─► controlled broker

Each broker is a process with its own store, as official clients and the broker cannot share a
process. The spawner has imported the broker and forks, so that a broker is ready in some hundredths
of a second. docs/howto/testing.md has more.
"""

from pocketmq.testing.broker_process import BrokerEnded, BrokerNotStarted
from pocketmq.testing.rocketmq import Fault, LagRemains, RocketMQ

__all__ = ["BrokerEnded", "BrokerNotStarted", "Fault", "LagRemains", "RocketMQ"]
