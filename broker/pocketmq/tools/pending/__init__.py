"""What a stopped store still has to do: messages that wait for their time, or for a decision.

timers      rmq_sys_wheel_timer, timer log and wheel
levels      SCHEDULE_TOPIC_XXXX and config/delayOffset.json
halves      RMQ_SYS_TRANS_HALF_TOPIC, its op messages, and how far they were looked through
"""
