"""Parses many records at once: one numpy column for each field (`record_scan` parses one by one).

Every column has one element for each record, in log order. A position is a byte index into the
buffer. The buffer has room before the first and after the last record (`heads.FRONT`,
`heads.BEHIND`), so that whole words and whole rows can be loaded at any position.
"""
