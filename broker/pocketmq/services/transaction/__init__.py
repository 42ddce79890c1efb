"""Half messages, and the decisions of their producers."""
