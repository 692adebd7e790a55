"""The only tolerance numbers of the tests, each with what it is a bound on.

Relative unless it says otherwise. A test that needs another number adds it here, with its reason.
"""

# Two float64 routes to the same number, a few hundred operations apart.
ROUNDING = 1e-12

# A certified gap, upper/lower - 1, that `solve` promises by default.
GAP = 1e-8  # Frobenius, lP, l1, max
GAP_SPECTRUM = 1e-6  # nuclear, spectral: their solvers work on singular values

# What splitting is asked for: it is made for many rows, and nears the end slowly at kinks.
GAP_SPLIT = 1e-3

# A value against the same value from an oracle that stops at its own accuracy.
ORACLE = 1e-5

# A derivative by central differences: the best that step eps**(1/3) allows.
FINITE_DIFFERENCE = 1e-6

# A direction against a known one: a gap of GAP leaves it uncertain by about √(2 GAP).
DIRECTION = 2e-4

# Premises and values that hold exactly in exact arithmetic, on instances of a few dozen rows.
EXACTLY = 1e-10

# A slope of the least norm by a one-sided difference with a step of 1e-3, and that step.
SLOPE = 1e-2
STEP = 1e-3

# A bound claimed too good by this share is refused; far above rounding, far below any gap asked.
FORGED = 1e-6

# The same in a saved certificate, where little more than rounding is left to hide in.
FORGED_SLIGHTLY = 1e-10

# A value printed with four or five decimals (absolute).
PRINTED = 5e-5

# A margin called met where solutions are not unique (absolute; the library's own share is 1e-4).
MET = 1e-3

# What a kernel's proof of infeasibility may leave before it is sharpened, and what the certified
# one may leave after: shares of the rows combined.
PROOF = 1e-9
PROOF_RESIDUAL = 100 * 2.0**-52

# U Vᵀ of a sum of graded terms (absolute): rounding times the condition of its vectors, a few
# hundred for the random ones here.
GRADED = 1e-12

# Attention, a number from 0 to 1, by a forward pass in single precision (absolute).
SINGLE = 1e-5

# A gradient in the log domain, or a run by it, against many digits: logits of size L round by L
# units in the last place. The largest error seen is 1e-12, in a logarithm of size 1500.
LOG_DOMAIN = 2e-12
