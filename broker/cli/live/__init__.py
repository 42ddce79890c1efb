"""What a running broker looks like: `pocketmq status`, `top` and `tail`."""
