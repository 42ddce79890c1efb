"""Small tables, most of them in files that are rewritten as a whole: topics, groups, offsets."""
