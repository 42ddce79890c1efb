"""Decodes many records at once: one numpy column a field (`record_scan` goes one by one).

    buffer ─► starts ─► heads ─► queues        which (topic, queue) each record belongs to
                          │
                          └────► properties ─► hashes ─► tags codes, index entries

Every column has one element a record, in log order. Positions are of the buffer; the buffer has
room in front of the first and behind the last record (`heads.FRONT`, `heads.BEHIND`), so that whole
words and whole rows can be loaded anywhere.
"""
