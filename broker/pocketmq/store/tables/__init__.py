"""Small tables that are written whole: topics, groups, offsets, removed queues."""
