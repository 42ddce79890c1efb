"""`python -m pocketmq`: the same as the console script `pocketmq`."""

from pocketmq.cli import main

main()
