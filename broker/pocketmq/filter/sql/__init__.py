"""SQL92 expressions over the properties of a message, as RocketMQ evaluates them. Pure."""
