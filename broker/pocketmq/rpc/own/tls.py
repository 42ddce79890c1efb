"""TLS settings of connections."""

import ssl
from typing import Final

from pocketmq.model.errors import IllegalConfig

ALPN: Final = ["h2", "http/1.1"]


class Tls:
    """Certificate for new handshakes; earlier connections keep theirs.

    context   None until there is a certificate: TLS connections are closed
    """

    __slots__ = ("context",)

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.context = context

    def take(self, cert_file: str, key_file: str) -> None:
        """Uses the present content of the files; the old one where they are wrong.

        Errors   IllegalConfig, as `tls_context`
        """
        self.context = tls_context(cert_file, key_file)
        assert self.context.options & ssl.OP_NO_RENEGOTIATION, "it costs us more than them"


def tls_context(cert_file: str, key_file: str) -> ssl.SSLContext:
    """Returns a context for servers: TLS 1.2 or newer, with a certificate, offering both HTTPs.

    cert_file   the certificate and those it is signed by, PEM
    key_file    its key, PEM, without a password
    Errors      IllegalConfig when a file cannot be read or they do not belong together
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols(ALPN)
    try:
        context.load_cert_chain(cert_file, key_file, password=_no_password)
    except (OSError, ValueError) as error:  # ssl's errors are of the first
        why = f"{cert_file} and {key_file} are no certificate and key: {error}"
        raise IllegalConfig(field="rpc.tls_cert", why=why) from error
    return context


def _no_password() -> str:
    raise ValueError("the key has a password; take it off")
