"""`python -m broker`: the same as the console script `pocketmq`."""

from broker.cli import main

main()
