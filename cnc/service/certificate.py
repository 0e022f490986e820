"""The TLS certificate that a service makes itself at its first start.

`python -m cnc.service.certificate DIR` makes one for workers that have a directory of their own.
"""

from __future__ import annotations

import os
import socket
import sys
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from cnc.errors import CncError

CERTIFICATE, KEY = "tls.crt", "tls.key"
_YEARS = 10  # nobody renews it: clients trust it by itself, as they do a host key


def ensure(directory: Path, address: str = "localhost") -> tuple[Path, Path]:
    """The certificate and its key (0600) in a directory, made if they are not there, for `address`
    and the names of this machine. Raises CncError where they cannot be written."""
    certificate, key = directory / CERTIFICATE, directory / KEY
    if certificate.exists() and key.exists():
        return certificate, key
    try:
        _make(certificate, key, address)
    except OSError as error:
        raise CncError(
            f"{directory}: the TLS certificate cannot be written: {error.strerror}",
            hint="make the directory writable, or name another one with --state-dir",
        ) from error
    return certificate, key


def names_of(certificate: Path) -> frozenset[str]:
    """The names and addresses that a certificate is for. Raises OSError, ValueError."""
    its = x509.load_pem_x509_certificate(certificate.read_bytes())
    try:
        found = its.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = (str(each) for each in found.get_values_for_type(x509.IPAddress))
    return frozenset({*found.get_values_for_type(x509.DNSName), *addresses})


def _make(certificate: Path, key: Path, address: str) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tsn-cnc")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # of clients whose clock is behind
        .not_valid_after(now + timedelta(days=365 * _YEARS))
        .add_extension(x509.SubjectAlternativeName(_names(address)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(private, hashes.SHA256())
    )
    secret = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_secret(key, secret)
    certificate.write_bytes(made.public_bytes(Encoding.PEM))


def _names(address: str) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = [
        x509.DNSName(each) for each in dict.fromkeys(("localhost", socket.gethostname()))
    ]
    for each in dict.fromkeys((address, "127.0.0.1", "::1")):
        try:
            its = ip_address(each)
        except ValueError:
            names.append(x509.DNSName(each))
        else:
            names += [] if its.is_unspecified else [x509.IPAddress(its)]
    return names


def write_secret(path: Path, content: bytes) -> None:
    """A file that its owner alone may read, from its first octet on, on the disk. What was there is
    replaced."""
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(handle)


if __name__ == "__main__":
    try:
        ensure(Path(sys.argv[1]))
    except CncError as error:
        sys.exit(f"{error}\nhint: {error.hint}")
