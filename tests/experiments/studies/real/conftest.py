"""Everything here needs torch and the data sets of the claims on real data, or is left out."""

from attsvm.experiments.studies import CLAIMS
from attsvm.experiments.studies.shared.needs import missing

needs = tuple({need for claim in CLAIMS.values() for need in claim.needs})
collect_ignore_glob = ["test_*.py"] if missing(needs) else []
