"""Protobuf codecs of the fast paths, compiled."""
