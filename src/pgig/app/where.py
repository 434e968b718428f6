"""Where the page may be."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Can nobody but this machine reach it?"""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
