"""Certificates for services with TLS: an authority of their own, a server, a client."""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from pathlib import Path


def write_certificates(folder: Path, hosts: Sequence[str] = ("localhost", "127.0.0.1")) -> None:
    """Write a new certificate authority, and a certificate of the server and one of a client that it signed."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    now = dt.datetime.now(dt.UTC)
    names = x509.SubjectAlternativeName(
        [x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host) for host in hosts]
    )
    authority, signer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "local-cloud")]), None
    for name in ("ca", "server", "client"):
        key = ec.generate_private_key(ec.SECP256R1())
        signer = signer or key
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"local-cloud {name}")])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(authority if name == "ca" else subject)
            .issuer_name(authority)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=365))
            .add_extension(x509.BasicConstraints(ca=name == "ca", path_length=None), critical=True)
            .add_extension(names, critical=False)
            .sign(signer, hashes.SHA256())
        )
        file = folder / f"{name}.key"
        file.touch(mode=0o600)
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
