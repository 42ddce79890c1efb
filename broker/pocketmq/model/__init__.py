"""The vocabulary: nouns, numbers, errors. Standard library only, no I/O, no clock of its own."""
