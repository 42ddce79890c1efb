"""RocketMQ's classic protocol: requests of remoting clients on the broker's services."""
