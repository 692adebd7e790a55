"""What is proved: bounds on the least norm that anyone can recompute from the problem's data."""

from attsvm.certificate.certificate import Certificate, certify

__all__ = ["Certificate", "certify"]
