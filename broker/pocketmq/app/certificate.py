"""The TLS certificate of the broker: the configured one, else a generated one.

    pocketmq/tls/certificate.pem   the certificate; clients that verify it trust this file
    pocketmq/tls/key.pem           its key, readable by the broker's user only

The generated certificate is ECDSA on P-256, self-signed, created by the openssl command when the
store is first opened. Its subject is unique, so that one file can contain the certificates of
several brokers. It is replaced if it is damaged, about to expire, or lacks an address that
clients get. Backups omit it, so a copy of a store generates its own key.
Source: TlsHelper, ProxyAndTlsProtocolNegotiator.
"""

import logging
import re
import socket
import ssl
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from secrets import token_hex
from typing import Final, NamedTuple

from pocketmq.config.addresses import own_address
from pocketmq.config.sections import Config
from pocketmq.files.disk import Disk
from pocketmq.files.enclosure import FILE_MODE, PRIVATE_MODE
from pocketmq.files.table_file import DRAFT_SUFFIX
from pocketmq.format.names import OWN_DIRECTORY
from pocketmq.model.errors import DiskFull, IllegalConfig, StorageError
from pocketmq.model.step import Clock
from pocketmq.rpc.own.tls import Tls, tls_context

DIRECTORY: Final = "tls"
CERTIFICATE_FILE: Final = "certificate.pem"
KEY_FILE: Final = "key.pem"
KEY_MODE: Final = PRIVATE_MODE
DAYS: Final = 3_650
"""Validity of a generated certificate; after that, clients must trust the next one."""
LEFT_S: Final = 30 * 86_400
"""Remaining validity below which the next start or SIGHUP renews the certificate."""
OPENSSL_S: Final = 10.0
LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")
HOST_LENGTH_MAX: Final = 32
"""Upper limit of characters of the host in a subject, whose common name has at most 64."""
SERIAL_BYTES: Final = 8
ANY_LABEL: Final = "any"
"""Label in place of the wildcard in a certificate for *.example.com."""
EVERY_HOST: Final = frozenset({"0.0.0.0", "::"})
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,252}")
_PEM: Final = re.compile(rb"-----BEGIN ([A-Z ]+)-----.*?-----END \1-----\n", re.DOTALL)
_REQUEST: Final = """\
[req]
distinguished_name = subject
prompt = no
x509_extensions = extensions
[subject]
CN = PocketMQ {host} {serial}
[extensions]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = @names
[names]
"""

logger = logging.getLogger(__name__)


class Shown(NamedTuple):
    """The public facts of a certificate.

    names     hosts and addresses that the certificate covers
    until_s   expiry, seconds since 1970
    """

    names: frozenset[str]
    until_s: float


NOTHING_SHOWN: Final = Shown(frozenset(), 0.0)


class Certificate:
    """Selects and renews the certificate of a broker.

    tls     receives the certificate
    store   the store's directory
    hosts   listening addresses, and names that clients use
    """

    __slots__ = (
        "_cert", "_clock", "_disk", "_hosts", "_in_use", "_key", "_key_in_use", "_named",
        "_seen", "_tls",
    )  # fmt: skip

    def __init__(
        self, tls: Tls, store: Path, disk: Disk, clock: Clock, hosts: Iterable[str]
    ) -> None:
        self._tls = tls
        self._hosts = frozenset(hosts)
        self._disk = disk
        self._clock = clock
        self._cert = store / OWN_DIRECTORY / DIRECTORY / CERTIFICATE_FILE
        self._key = self._cert.with_name(KEY_FILE)
        self._seen = (b"", NOTHING_SHOWN)
        self._in_use = (Path(), b"")
        """The file that new handshakes use, and its content."""
        self._key_in_use = Path()
        self._named: tuple[bytes, frozenset[str]] = (b"", frozenset())
        """A certificate in use, and its names: to find them takes a handshake."""
        assert self._cert.parent == self._key.parent, "certificate and key are in two directories"

    @property
    def path(self) -> Path:
        """The file of the certificate that the broker makes."""
        return self._cert

    def in_use(self, host: str) -> tuple[bytes, str]:
        """Returns the certificate of new handshakes, and a name by which a client verifies it.

        host   the client's name for the broker; is returned if the certificate is for it
        """
        file, content = self._in_use
        if self._named[0] != content or not self._named[1]:
            self._named = content, shown(file, self._key_in_use).names
        names = self._named[1]
        return content, host if host in names else min(names, default="")

    def show_what_is_there(self, config: Config) -> None:
        """Loads the configured or existing certificate, and writes nothing.

        At a start, the store is not locked yet.

        Errors   IllegalConfig: the configured certificate is invalid
        """
        rpc = config.rpc
        if not rpc.offers_tls:
            return
        if rpc.tls_cert:
            self._take(Path(rpc.tls_cert), rpc.tls_key)
        elif self._is_fit(config):
            self._take(self._cert, str(self._key))

    def _take(self, cert: Path, key: str) -> None:
        self._tls.take(str(cert), key)
        self._in_use = (cert, self._disk.read_file(cert))
        self._key_in_use = Path(key)

    def make_sure(self, config: Config) -> None:
        """Generates a certificate unless there is a valid one; blocks for some 20 ms.

        The store must be locked by this process.

        Errors   only if rpc.tls_only is set: IllegalConfig, DiskFull, WriteFailed
        """
        rpc = config.rpc
        if not rpc.offers_tls or rpc.tls_cert or self._is_fit(config):
            return
        try:
            self._make(config)
            self._take(self._cert, str(self._key))
        except (StorageError, DiskFull) as error:
            if rpc.tls_only:
                raise
            logger.warning("tls.certificate_failed", extra={"reason": str(error)})

    def read_again(self, config: Config) -> None:
        """Reloads the files for later handshakes; replaces a generated certificate that is unfit.

        After an error, the certificate in use stays. Another certificate than before is logged.
        """
        before = self._in_use
        try:
            self.show_what_is_there(config)
            if self._in_use != before:
                logger.info("tls.reloaded", extra={"path": str(self._in_use[0])})
            self.make_sure(config)
        except (StorageError, DiskFull) as error:
            logger.error("tls.refused", extra={"reason": str(error)})

    def _is_fit(self, config: Config) -> bool:
        files = (self._cert, self._key)
        if not all(self._disk.exists(path) for path in files):
            return False
        content = b"".join(self._disk.read_file(path) for path in files)
        if content != self._seen[0]:
            self._seen = content, shown(*files)
        found = self._seen[1]
        is_fresh = found.until_s - self._clock.wall_ms() / 1000 > LEFT_S
        return is_fresh and found.names >= told_names(config, self._hosts)

    def _make(self, config: Config) -> None:
        """Replaces both files; if a crash leaves only one replaced, the next start detects it.

        Errors   IllegalConfig, DiskFull, WriteFailed
        """
        names = {*told_names(config, self._hosts), *names_of_machine()}
        certificate, key = made(sorted(names))
        self._disk.make_directory(self._cert.parent)
        for path, content, mode in (
            (self._key, key, KEY_MODE),
            (self._cert, certificate, FILE_MODE),
        ):
            draft = path.with_name(path.name + DRAFT_SUFFIX)
            self._disk.unlink(draft)  # it may have another mode
            self._disk.write_file(draft, content, mode)
            self._disk.rename(draft, path)
        self._disk.sync_directory(self._cert.parent)
        logger.info("tls.made", extra={"path": str(self._cert), "names": ", ".join(sorted(names))})


def told_names(config: Config, hosts: Iterable[str]) -> set[str]:
    """Returns the names that a certificate must cover: advertised, local and listening ones.

    hosts   listening addresses
    """
    return {*LOCAL_NAMES, *_usable([config.broker.advertised_host, *(set(hosts) - EVERY_HOST)])}


def names_of_machine() -> set[str]:
    """Returns the names of this machine, which may change at a restart in a container."""
    return set(_usable([socket.gethostname(), str(own_address())]))


def _usable(names: Iterable[str]) -> Iterable[str]:
    for name in names:
        bare = name.partition("%")[0]
        if _is_address(bare):
            yield str(ip_address(bare))
        elif _NAME.fullmatch(name):
            yield name.lower()


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def made(names: Iterable[str]) -> tuple[bytes, bytes]:
    """Generates (certificate, key) in PEM for hosts and addresses; writes no file.

    Cost     10 ms, in an openssl process
    Errors   IllegalConfig: openssl is missing or fails
    """
    lines = [
        f"{'IP' if _is_address(name) else 'DNS'}.{number} = {name}"
        for number, name in enumerate(names, start=1)
    ]
    # A verifier finds a certificate of a trust file by its subject, and tries only the first.
    host = next(iter(_usable([socket.gethostname()])), "")[:HOST_LENGTH_MAX]
    request = _REQUEST.format(host=host, serial=token_hex(SERIAL_BYTES)) + "\n".join(lines) + "\n"
    command = (
        *("openssl", "req", "-x509", "-batch", "-newkey", "ec", "-nodes", "-sha256"),
        *("-pkeyopt", "ec_paramgen_curve:P-256", "-days", str(DAYS)),
        *("-config", "/dev/stdin", "-keyout", "/dev/stdout", "-out", "/dev/stdout"),
    )
    try:
        done = subprocess.run(
            command, input=request.encode(), capture_output=True, check=True, timeout=OPENSSL_S
        )
    except subprocess.CalledProcessError as error:
        raise _unmade(error.stderr.decode(errors="replace").strip()[-300:]) from error
    except (OSError, subprocess.SubprocessError) as error:
        raise _unmade(str(error)) from error
    found = {match[1].rpartition(b" ")[2]: match[0] for match in _PEM.finditer(done.stdout)}
    if found.keys() != {b"KEY", b"CERTIFICATE"}:
        raise _unmade("openssl did not print a key and a certificate")
    return found[b"CERTIFICATE"], found[b"KEY"]


def _unmade(why: str) -> IllegalConfig:
    return IllegalConfig(
        field="rpc.tls",
        why=f"a certificate cannot be generated: {why}; install openssl, set one of your own "
        "(--tls-cert, --tls-key), or disable TLS (--no-tls)",
    )


def shown(cert_file: Path, key_file: Path) -> Shown:
    """Returns the facts of a certificate, NOTHING_SHOWN if a handshake with it fails.

    Cost     2 ms: a handshake in memory with a client that trusts the certificate
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # another authority may have signed it
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        server = tls_context(str(cert_file), str(key_file))
        client.load_verify_locations(cert_file)
        asks = client.wrap_bio(to_client, to_server)
        says = server.wrap_bio(to_server, to_client, server_side=True)
        for end in (asks, says, asks):  # each proceeds until it waits for the other
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
        found = asks.getpeercert() or {}
    except (OSError, ValueError, IllegalConfig):  # ssl's errors are subclasses of the first two
        return NOTHING_SHOWN
    names = [str(name[1]).replace("*", ANY_LABEL) for name in found.get("subjectAltName", ())]
    until_s = ssl.cert_time_to_seconds(str(found["notAfter"]))
    return Shown(frozenset(_usable(names)), until_s)
