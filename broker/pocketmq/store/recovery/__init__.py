"""What a start finds in a store, and making log and views agree."""
