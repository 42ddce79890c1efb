"""Half messages, and what their producers decide of them."""
