"""The page docs/claims.md, kept equal to the studies and the verdicts of the last full run.

`python -m tests.experiments.listed [FOLDER]` writes the page; with the folder of a full
reproduction it keeps its verdicts in tests/experiments/verdicts.json first.
"""

import json
import sys
from pathlib import Path

from attsvm.experiments.report import read_results, studies_page
from attsvm.experiments.studies import studies
from tests.conventions.tree import ROOT

PAGE = ROOT / "docs" / "claims.md"
VERDICTS = Path(__file__).with_name("verdicts.json")


def page() -> str:
    """The page as it should be."""
    records = {name: {"id": name, "verdict": verdict, "kind": studies()[name].kind}
               for name, verdict in json.loads(VERDICTS.read_text("utf-8")).items()
               if name in studies()}  # fmt: skip
    return studies_page(studies().values(), records)


def write(path: Path, text: str) -> None:
    """Write the file when its text is another one."""
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    kept = json.loads(VERDICTS.read_text("utf-8")) if VERDICTS.exists() else {}
    for folder in sys.argv[1:]:
        kept |= {r["id"]: r["verdict"] for r in read_results(Path(folder)) if not r["quick"]}
        write(VERDICTS, json.dumps(kept, indent=1, sort_keys=True) + "\n")
    write(PAGE, page())
