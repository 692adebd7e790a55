"""Everything here needs torch and the data sets of the studies on real data, or is left out."""

from attsvm.experiments.studies import missing, studies

needs = tuple({need for study in studies().values() for need in study.needs})
collect_ignore_glob = ["test_*.py"] if missing(needs) else []
