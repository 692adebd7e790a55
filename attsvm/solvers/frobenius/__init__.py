"""The Frobenius norm: dual active set, cutting planes, coordinate descent and Newton steps."""
