"""How kafka-python is let in to a cluster: the arguments that its consumer, producer and admin client share.

Secrets are read from files and are masked wherever they might be printed.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

from kafka.net.compat import KafkaNetClient
from kafka.net.inet import KafkaNetSocket
from kafka.net.sasl.oauth import AbstractTokenProvider

from agent.errors import ServiceError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from agent.source_config import ConnectionConfig, SaslConfig, TlsConfig

# Lines of a bearer token are sent as one HTTP-like header; more than this is not a token.
LONGEST_SECRET = 1 << 16


class Secret(str):
    """Text that prints as asterisks. kafka-python joins and encodes it as the text it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"

    def __str__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return "***"


def client_arguments(connection: ConnectionConfig, where: str = "source.kafka") -> dict[str, Any]:
    """The keyword arguments for any client of kafka-python; `where` is the key that errors name.

    UsageError for a file that is missing, unreadable or not what it should be.
    """
    tls, sasl = connection.tls, connection.sasl
    protocol = ("SASL_SSL" if tls else "SASL_PLAINTEXT") if sasl else ("SSL" if tls else "PLAINTEXT")
    arguments: dict[str, Any] = {
        "bootstrap_servers": list(connection.servers),
        "security_protocol": protocol,
        "proxy_url": f"{CarefulSocket.SCHEMES[0]}://",
    }
    if tls:
        arguments["ssl_context"] = _context(tls, f"{where}.tls")
    if sasl:
        arguments |= _login(sasl, f"{where}.sasl")
    return arguments


def _context(tls: TlsConfig, where: str) -> ssl.SSLContext:
    """Verifies the broker's certificate and its host name; without `ca`, by the system's authorities."""
    for name in ("ca", "certificate", "key"):
        path = getattr(tls, name)
        if path is not None and not path.is_file():
            raise UsageError(f"{where}.{name}: {path}: no such file")
    password = _secret(tls.key_password_file, f"{where}.key_password_file") if tls.key_password_file else None
    try:
        context = ssl.create_default_context(cafile=tls.ca)
    except (ssl.SSLError, OSError) as error:
        raise UsageError(f"{where}.ca: {tls.ca} holds no certificates in PEM form") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.certificate:
        try:
            # Never ask at the terminal for the password of a key.
            context.load_cert_chain(tls.certificate, tls.key, password=password or "")
        except (ssl.SSLError, OSError) as error:
            raise UsageError(
                f"{where}.certificate: {tls.certificate} and {tls.key} are no PEM certificate with its key, or "
                "`key_password_file` does not open the key"
            ) from error
    return context


def _login(sasl: SaslConfig, where: str) -> dict[str, Any]:
    arguments: dict[str, Any] = {"sasl_mechanism": sasl.mechanism}
    if sasl.token_file:
        _secret(sasl.token_file, f"{where}.token_file")
        return arguments | {"sasl_oauth_token_provider": FileToken(sasl.token_file)}
    if sasl.password_file:
        arguments["sasl_plain_username"] = sasl.username
        arguments["sasl_plain_password"] = _secret(sasl.password_file, f"{where}.password_file")
    return arguments


class FileToken(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python is not typed
    """The bearer token in a file, read anew for each connection: whoever renews it replaces the file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def token(self) -> str:
        """The token as it is now. ServiceError if the file has gone."""
        try:
            # Formatted into the request by kafka-python: it must be the text itself.
            return _stripped(self._path)
        except (OSError, UnicodeDecodeError) as error:
            raise ServiceError(f"{self._path}: the token cannot be read: {type(error).__name__}") from error


def _secret(path: Path, where: str) -> Secret:
    try:
        text = _stripped(path)
    except FileNotFoundError as error:
        raise UsageError(f"{where}: {path}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{where}: {path} cannot be read as text") from error
    if not text:
        raise UsageError(f"{where}: {path} is empty")
    return Secret(text)


def _stripped(path: Path) -> str:
    """What is in the file, without the one newline at its end that editors leave there."""
    with path.open("rb") as stream:
        return stream.read(LONGEST_SECRET).decode().removesuffix("\n").removesuffix("\r")


class CarefulSocket(KafkaNetSocket):  # type: ignore[misc]  # kafka-python is not typed
    """Closes what it could not connect.

    kafka-python 3.0 leaves that to the garbage collector: each attempt at a broker that is away would cost a file.
    A proxy's scheme is the one place where it takes sockets of ours.
    """

    SCHEMES = ("leadline-direct",)

    def socket(self, *arguments: Any) -> Any:  # noqa: ANN401
        """A socket that is not yet connected."""
        self._made = super().socket(*arguments)
        return self._made

    async def connect(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
        """A connected socket."""
        try:
            return await super().connect(*arguments, **options)
        except BaseException:
            self._made.close()
            raise


class Clients:
    """Makes kafka-python's network clients and remembers them, to close what a failed constructor left behind.

    A consumer or admin client that cannot connect raises from its constructor and leaves its thread running.
    """

    def __init__(self) -> None:
        self._made: list[Any] = []

    def __call__(self, **configs: object) -> Any:  # noqa: ANN401 - kafka-python is not typed
        """For the argument `kafka_client`."""
        client = KafkaNetClient(**configs)
        # kafka-python 3.0 does not hand its own option of this name down: asking for a topic would create it.
        client.cluster.config["allow_auto_create_topics"] = False
        self._made.append(client)
        return client

    @property
    def cluster(self) -> Any:  # noqa: ANN401
        """What the newest client knows of topics and brokers."""
        return self._made[-1].cluster

    def close(self) -> None:
        """Close every client, from any thread; whoever waits for one is told. May be repeated."""
        for client in self._made:
            client.close()
