"""HTTP/2, gRPC framing and RocketMQ's remoting, sans-I/O: no sockets, no tasks, no logging.

    connection   server side of one connection: received bytes to streams, answers to bytes
      requests   HEADERS, DATA, RST_STREAM    outbound   frames to the peer, within its windows
      peer       other frames of the peer     flow       flow control and rate limits
      stream     one call                     streams    open streams; states of closed ones
      headers    headers of a call            messages   gRPC's framing and compression
      blocks     cache of header blocks       fields     checks of header fields
      hpack      decoding of header blocks    huffman    Huffman-coded strings
      frames     constants, frame headers     metadata   encodings of gRPC fields
    remoting     commands and frames of RocketMQ's remoting
    remoting_header   headers of remoting requests, parsed in place

All modules except `remoting` are compiled by mypyc, and run the same without it. Sources: RFC 9113
(HTTP/2), RFC 7541 (HPACK), and gRPC's PROTOCOL-HTTP2.md.
"""
