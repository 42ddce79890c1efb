"""HTTP/2 and gRPC as bytes in, bytes out: no sockets, no tasks, no logging.

    connection   one connection from the server's side: what came in, what is to be sent
      requests   calls as they come           outbound   frames to the peer, within its windows
      peer       its settings             flow       limits of amount and rate
      stream     one call                     streams    those that are open, and how others ended
      headers    what a call asks for         messages   gRPC's own framing and compression
      blocks     header blocks, remembered    fields     one by one, looked at once
      hpack      header blocks to fields      huffman    and their strings
      frames     numbers and frame headers    metadata   texts, times and fields of responses

Every module is typed for mypyc and runs the same without it. Sources: RFC 9113 (HTTP/2), RFC 7541
(HPACK), and gRPC's PROTOCOL-HTTP2.md.
"""
