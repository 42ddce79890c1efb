"""Lists pending work of a stopped store: delayed messages and undecided half messages.

kind      read from
timers    rmq_sys_wheel_timer, timer log and wheel
levels    SCHEDULE_TOPIC_XXXX and config/delayOffset.json
halves    RMQ_SYS_TRANS_HALF_TOPIC, its op messages, and the check's committed offsets
"""
