"""Field numbers of the messages of RocketMQ's protocol that the compiled codecs parse or write."""

from typing import Final

# Message.
TOPIC: Final = 1
PROPERTY: Final = 2
SYSTEM: Final = 3
BODY: Final = 4

# SystemProperties of a Message.
TAG: Final = 1
KEY: Final = 2
ID: Final = 3
DIGEST: Final = 4
ENCODING: Final = 5
TYPE: Final = 6
BORN_TIME: Final = 7
BORN_HOST: Final = 8
STORE_TIME: Final = 9
STORE_HOST: Final = 10
HANDLE: Final = 12
QUEUE_ID: Final = 13
QUEUE_OFFSET: Final = 14
ATTEMPT: Final = 16
GROUP: Final = 17
TRACE: Final = 18

# Timestamp.
SECONDS: Final = 1
NANOS: Final = 2
