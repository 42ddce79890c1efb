"""TLS settings of connections."""

import ssl
from pathlib import Path
from typing import Final

from pocketmq.model.errors import IllegalConfig

ALPN: Final = ["h2", "http/1.1"]


class Tls:
    """The certificate for new handshakes; open connections keep the certificate they began with.

    context   None: there is no certificate, and TLS connections are closed
    """

    __slots__ = ("context",)

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.context = context

    def take(self, cert_file: str, key_file: str) -> None:
        """Loads certificate and key; keeps the previous ones if the files are invalid.

        Errors   IllegalConfig, see `tls_context`
        """
        self.context = tls_context(cert_file, key_file)
        assert self.context.options & ssl.OP_NO_RENEGOTIATION, "renegotiation is possible"


def _why_unreadable(file: str) -> str:
    try:
        with Path(file).open("rb"):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def tls_context(cert_file: str, key_file: str) -> ssl.SSLContext:
    """Returns a context for servers: TLS 1.2 or newer, ALPN for HTTP/2 and HTTP/1.1.

    cert_file   the certificate chain, PEM
    key_file    the private key, PEM, without a password
    Errors      IllegalConfig if a file cannot be read, the key has a password, or the certificate
                and the key do not match
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols(ALPN)
    try:
        context.load_cert_chain(cert_file, key_file, password=_no_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        for key, file in (("rpc.tls_cert", cert_file), ("rpc.tls_key", key_file)):
            if why := _why_unreadable(file):
                raise IllegalConfig(field=key, why=f"{file} cannot be read: {why}") from error
        raise _why_unfit(cert_file, key_file, error) from error
    return context


def _why_unfit(cert_file: str, key_file: str, error: OSError | ValueError) -> IllegalConfig:
    """Returns the error for two readable files, in the words of an operator where openssl has none.

    openssl names the wrong file only by its function: a certificate that has no CERTIFICATE
    section is "PEM lib", and so is a key without a PRIVATE KEY section.
    """
    for key, file, section in (
        ("rpc.tls_cert", cert_file, b"CERTIFICATE-----"),
        ("rpc.tls_key", key_file, b"PRIVATE KEY-----"),
    ):
        if section not in Path(file).read_bytes():
            kind = section.decode().strip("-")
            why = f"{file} is no {kind.lower()} in PEM: it has no line BEGIN {kind}"
            return IllegalConfig(field=key, why=why)
    if "KEY_VALUES_MISMATCH" in str(error):
        why = f"{key_file} is not the key of {cert_file}"
        return IllegalConfig(field="rpc.tls_key", why=why)
    why = f"{cert_file} and {key_file} are no certificate and key: {error}"
    return IllegalConfig(field="rpc.tls_cert", why=why)


def _no_password() -> str:
    raise ValueError("the key has a password; remove it")
