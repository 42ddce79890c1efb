"""Transactions: half messages, and the decisions of their producers."""
