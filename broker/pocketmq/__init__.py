"""PocketMQ: Apache RocketMQ's storage design and protocol in one Python process.

Records arrive over gRPC and lie in a commit log; every other file is a view of that log. The
packages form a tower in which every import points downwards, from `cli` to `model`.
"""

from pocketmq import native

__version__ = "0.1.0"

native.install()
