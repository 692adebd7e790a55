"""Pages that list the claims, kept equal to the registry and to a reproduction.

`python -m tests.experiments.reproduce.listed` writes docs/claims.md; with the folder of a
reproduction it also writes the table of verdicts in README.md.
"""

import sys
from pathlib import Path

from attsvm.experiments.reproduce.folder import read_results
from attsvm.experiments.reproduce.page.tables import claims_page, verdict_table, with_table
from attsvm.experiments.studies import CLAIMS
from tests.conventions.tree import ROOT

PAGE = ROOT / "docs" / "claims.md"
README = ROOT / "README.md"


def write(path: Path, text: str) -> None:
    """Write the file when its text is another one."""
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    write(PAGE, claims_page(CLAIMS.values()))
    for folder in sys.argv[1:]:
        table = verdict_table(read_results(Path(folder)))
        write(README, with_table(README.read_text("utf-8"), table))
