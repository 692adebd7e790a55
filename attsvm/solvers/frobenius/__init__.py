"""Parts of the Frobenius solvers: active set, coordinate descent, Newton steps, enumeration."""
