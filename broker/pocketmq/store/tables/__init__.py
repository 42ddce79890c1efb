"""Small tables whose files are rewritten as a whole: topics, groups, offsets, removed queues."""
