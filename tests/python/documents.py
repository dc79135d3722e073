"""Made-up directory documents."""


def descriptor(place: int, family: str) -> str:
    """A server descriptor of the relay whose identity is the number `place`, with a family line."""
    return (
        f"router relay{place} 10.0.0.1 9001 0 0\npublished 2030-01-01 00:00:00\n"
        f"fingerprint {place.to_bytes(20, 'big').hex()}\nbandwidth 5 5 5\nfamily {family}\nrouter-signature\n"
        "-----BEGIN SIGNATURE-----\nx\n-----END SIGNATURE-----\n"
    )
