"""Compiled protobuf codecs of the fast paths."""
