"""The one gradient of an attention layer, in the log domain, and kernels that take its steps."""
