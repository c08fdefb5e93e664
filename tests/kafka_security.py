"""What the secure listeners of a test's broker need: a CA of its own, certificates, a user and a password."""

from __future__ import annotations

import base64
import json
import secrets
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka.net.sasl.oauth import AbstractTokenProvider

from agent.errors import ServiceError

if TYPE_CHECKING:
    from pathlib import Path

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM, "OAUTHBEARER")
LOGIN_MODULES = "org.apache.kafka.common.security"
OAUTH = f"{LOGIN_MODULES}.oauthbearer"
UNSECURED_TOKENS = f"{OAUTH}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
LEAF = (
    *("-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"),
    *("-addext", "basicConstraints=critical,CA:FALSE"),
    *("-addext", "keyUsage=critical,digitalSignature"),
    *("-addext", "authorityKeyIdentifier=keyid"),
)
AUTHORITY = (
    *("-addext", "basicConstraints=critical,CA:TRUE"),
    *("-addext", "keyUsage=critical,keyCertSign"),
    *("-addext", "subjectKeyIdentifier=hash"),
)


@dataclass(frozen=True)
class UnsecuredToken(AbstractTokenProvider):
    """A token that the broker takes without a signature: right until it expires."""

    user: str
    seconds: float = 3600.0

    def token(self) -> str:
        """A JSON Web Token of the algorithm ``none``."""
        now = time.time()
        # Issued a second ago: the broker counts whole milliseconds, for which one of just now is of the future.
        claims = {"sub": self.user, "iat": min(now, now + self.seconds) - 1.0, "exp": now + self.seconds}
        parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
        return ".".join([base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts]) + "."


@dataclass(frozen=True)
class Security:
    """Made anew for each broker: nothing secret is kept in the repository."""

    directory: Path
    user: str = "agent"
    password: str = field(default_factory=lambda: secrets.token_urlsafe(16), repr=False)

    @property
    def ca(self) -> Path:
        """The certificate a client must trust."""
        return self.directory / "ca.pem"

    @property
    def client_certificate(self) -> Path:
        """What the listener MUTUAL_TLS asks of a client."""
        return self.directory / "client.pem"

    @property
    def client_key(self) -> Path:
        """The key of that certificate, without a password."""
        return self.directory / "client.key"

    def write(self) -> None:
        """Make the CA and the certificates of broker and client."""
        self.directory.mkdir(parents=True, exist_ok=True)
        # A configuration of our own: a system's openssl.cnf may add extensions that contradict these.
        (self.directory / "openssl.cnf").write_text("[req]\ndistinguished_name=dn\n[dn]\n", encoding="utf-8")
        self._openssl("ca", "CA of one test run", *AUTHORITY)
        for name, subject in (("broker", "localhost"), ("client", self.user)):
            self._openssl(name, subject, "-CA", str(self.ca), "-CAkey", str(self.directory / "ca.key"), *LEAF)
        chain = [(self.directory / name).read_text(encoding="utf-8") for name in ("broker.key", "broker.pem")]
        (self.directory / "keystore.pem").write_text("".join(chain), encoding="utf-8")

    def properties(self, sasl_listeners: tuple[str, ...]) -> dict[str, str]:
        """The broker's settings beside the list of its listeners."""
        lines = {
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.directory / "keystore.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            "listener.name.mutual_tls.ssl.client.auth": "required",
            # Everything is allowed until a test adds a rule that denies; the tests' own plain listener always may.
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:ANONYMOUS",
        }
        for listener in sasl_listeners:
            name = f"listener.name.{listener.lower()}"
            plain = f'{LOGIN_MODULES}.plain.PlainLoginModule required user_{self.user}="{self.password}";'
            # Asked of the broker too, although nothing logs in from it.
            oauth = f"{OAUTH}.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=broker;"
            lines[f"{name}.plain.sasl.jaas.config"] = plain
            lines[f"{name}.oauthbearer.sasl.jaas.config"] = oauth
            lines[f"{name}.oauthbearer.sasl.server.callback.handler.class"] = UNSECURED_TOKENS
            for mechanism in SCRAM:
                scram = f"{LOGIN_MODULES}.scram.ScramLoginModule required;"
                lines[f"{name}.{mechanism.lower()}.sasl.jaas.config"] = scram
        return lines

    def format_options(self) -> list[str]:
        """What the storage tool writes about users of SCRAM."""
        users = [f"{mechanism}=[name={self.user},password={self.password}]" for mechanism in SCRAM]
        return [word for user in users for word in ("--add-scram", user)]

    def client_options(self, protocol: str, mechanism: str | None) -> dict[str, object]:
        """The options of kafka-python with which the broker lets a client in."""
        options: dict[str, object] = {"security_protocol": "SSL" if protocol == "MUTUAL_TLS" else protocol}
        if protocol != "SASL_PLAINTEXT":
            options["ssl_cafile"] = str(self.ca)
        if protocol == "MUTUAL_TLS":
            options |= {"ssl_certfile": str(self.client_certificate), "ssl_keyfile": str(self.client_key)}
        if mechanism:
            options["sasl_mechanism"] = mechanism
        if mechanism == "OAUTHBEARER":
            options["sasl_oauth_token_provider"] = UnsecuredToken(self.user)
        elif mechanism:
            options |= {"sasl_plain_username": self.user, "sasl_plain_password": self.password}
        return options

    def _openssl(self, name: str, subject: str, *options: str) -> None:
        program = shutil.which("openssl")
        if program is None:
            raise ServiceError("openssl is not on PATH (Debian package openssl)")
        here = self.directory
        files = ["-config", str(here / "openssl.cnf"), "-keyout", str(here / f"{name}.key")]
        files += ["-out", str(here / f"{name}.pem"), "-subj", f"/CN={subject}"]
        done = subprocess.run(
            [program, "req", "-x509", *files, *KEY, *options],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ServiceError(f"openssl could not make the certificate {name}: {done.stderr}")
