"""Who the server is, and which clients it knows: a folder with its own certificate and theirs."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from asyncua import ua
from asyncua.crypto import cert_gen
from asyncua.crypto.truststore import TrustStore
from asyncua.crypto.validator import CertificateValidator, CertificateValidatorOptions
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from cnc.errors import CncError
from cnc.service.certificate import write_secret

_DAYS = 3650  # nobody renews it: clients trust it by itself
Validate = Callable[[x509.Certificate, ua.ApplicationDescription], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Identity:
    """The files of a folder: `own.der` and `own.pem` (its key, 0600), `trusted/` for clients."""

    certificate: Path
    key: Path
    trusted: Path

    @property
    def uri(self) -> str:
        return f"urn:{socket.gethostname()}:tsn-cnc"

    @classmethod
    def ensure(cls, folder: Path) -> Self:
        """Made where it is not there. Raises CncError where it cannot be written."""
        its = cls(folder / "own.der", folder / "own.pem", folder / "trusted")
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            its.trusted.mkdir(mode=0o700, exist_ok=True)
            if not (its.certificate.exists() and its.key.exists()):
                its._make()
        except OSError as error:
            raise CncError(
                f"{folder}: the certificate cannot be written: {error.strerror}",
                hint="make the folder writable, or name another one with --pki",
            ) from error
        return its

    def _make(self) -> None:
        key = cert_gen.generate_private_key()
        host = socket.gethostname()
        made = cert_gen.generate_self_signed_app_certificate(
            key,
            "tsn-cnc",
            {},
            [x509.UniformResourceIdentifier(self.uri), x509.DNSName(host)],
            extended=[ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH],
            days=_DAYS,
        )
        write_secret(self.key, cert_gen.dump_private_key_as_pem(key))
        self.certificate.write_bytes(made.public_bytes(Encoding.DER))

    def validator(self) -> Validate:
        """What refuses certificates of clients that are not in `trusted/` at the time."""
        store = TrustStore([self.trusted], [])
        checks = CertificateValidator(
            CertificateValidatorOptions.TRUSTED_VALIDATION
            | CertificateValidatorOptions.PEER_CLIENT,
            store,
        )

        async def validate(
            certificate: x509.Certificate, client: ua.ApplicationDescription
        ) -> None:
            await store.load()
            await checks.validate(certificate, client)

        return validate
