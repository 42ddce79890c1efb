"""Pending work of a stopped store: delayed messages, and half messages without a decision.

timers      rmq_sys_wheel_timer, timer log and wheel
levels      SCHEDULE_TOPIC_XXXX and config/delayOffset.json
halves      RMQ_SYS_TRANS_HALF_TOPIC, its op messages, and the offsets of their checks
"""
