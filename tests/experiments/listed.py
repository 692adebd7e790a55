"""The page docs/claims.md, kept equal to the studies and the verdicts of the last full run.

`python -m tests.experiments.listed [FOLDER]` writes the page; with the folder of a full
reproduction it keeps its verdicts in tests/experiments/verdicts.json first.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from attsvm.experiments.report import (
    KINDS,
    MEANING,
    PAPERS,
    SOURCES,
    VERDICTS,
    failing_words,
    kind_words,
    paper_title,
    read_results,
    verdict_for,
)
from attsvm.experiments.studies import studies
from tests.conventions.tree import ROOT

PAGE = ROOT / "docs" / "claims.md"
KEPT = Path(__file__).with_name("verdicts.json")


def page() -> str:
    """The page as it should be."""
    records = {name: {"id": name, "verdict": verdict, "kind": studies()[name].kind}
               for name, verdict in json.loads(KEPT.read_text("utf-8")).items()
               if name in studies()}  # fmt: skip
    return studies_page(studies().values(), records)


# How the rows of a folder are checked.
_AUDIT = (
    "`attsvm reproduce --audit --out DIR` draws a tenth of the instances of a folder at random",
    "(`--share`, `--seed`), measures them again and compares every column, within 1e-6 relative to",
    "the larger value; rows that are missing, invented or changed are named, and the exit code is",
    "5. With m of N instances measured again, rows forged in k of them are found with probability",
    "1 − C(N − k, m)/C(N, m): 0.1 for one row, 0.96 for thirty rows of many; `--share 1` measures",
    "all. On another processor, sums in another order change last digits, which grow in mirror",
    "descent, in runs on factors and in networks: there a number may differ by more.",
)


def studies_page(studies, records):
    """The page docs/claims.md: every study, its kind, number, source and verdict, what it says.

    records: of the last full run, by id.
    """
    listed = list(studies)
    counts = Counter(str(records[s.id]["verdict"]) for s in listed if s.id in records)
    said = ", ".join(f"{counts[v]} {verdict_for(v, counts[v])}" for v in VERDICTS if counts[v])
    lines = [
        "# The studies",
        "",
        f"{len(listed)} statements, each measured on instances, judged from the table of its rows,",
        "and drawn by `attsvm reproduce`. `make docs` writes this page. Verdicts are of the full",
        f"run: {said}{failing_words(records[s.id] for s in listed if s.id in records)}.",
        *_real(sum(study.real for study in listed)),
        "",
        *_AUDIT,
        "",
        *(f"- **{kind}**: {words.partition(': ')[2]}" for kind, words in KINDS.items()),
        "- **statement**: a theorem from memory; it is under test, wording and all.",
        "",
        "The verdicts:",
        "",
        *(f"- **{word}**: {words}" for word, words in MEANING.items()),
        "",
        "The source of a statement:",
        "",
        *(f"- **{word}**: {words}" for word, words in SOURCES.items()),
        "",
        "'In the paper' names the theorem, lemma or figure where its number is known; 'v1', 'v2'",
        "are arXiv versions, of paper B and of paper D, and others may number otherwise. 'Size'",
        "compares the full run of a figure with the published one: where it is smaller and its",
        "numbers are not met, the verdict is 'not reproduced at this size', and never 'fails'.",
    ]
    for paper in dict.fromkeys(study.paper for study in listed):
        key = f" [{PAPERS[paper]}]" if paper in PAPERS else ""
        letter = f"{paper}: " if paper in PAPERS else ""
        lines += ["", f"## {letter}{paper_title(paper)}{key}", ""]
        lines += ["| study | verdict | kind | in the paper | size | source | statement |"]
        lines += ["|---|---|---|---|---|---|---|"]
        for study in (study for study in listed if study.paper == paper):
            words = cell(study.statement)
            words += " *Real data.*" if study.real else ""
            words += " *Differs from what is published.*" if study.differs else ""
            verdict = records[study.id]["verdict"] if study.id in records else "not run"
            kind = kind_words({"kind": study.kind, "source": study.source})
            about = " | ".join((verdict, kind, cell(study.theorem), cell(study.size), study.source))
            lines.append(f"| `{study.id}` | {about} | {words} |")
    return "\n".join(lines) + "\n"


def _real(count):
    """How the studies on real data are run, where there are some."""
    if not count:
        return []
    return [
        f"{count} of them, marked *real data*, need torch or data sets and are run apart, by",
        "`attsvm reproduce --real` ([Real data](real-data.md)).",
    ]


def cell(value):
    """Text for one cell of a table: one line, and nothing in it that ends the cell or is markup."""
    plain = " ".join(str(value).split())
    for sign, safe in (("\\", "\\\\"), ("|", "\\|"), ("<", "&lt;"), ("*", "\\*"), ("_", "\\_")):
        plain = plain.replace(sign, safe)
    return plain


def write(path: Path, text: str) -> None:
    """Write the file when its text is another one."""
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    kept = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else {}
    for folder in sys.argv[1:]:
        kept |= {r["id"]: r["verdict"] for r in read_results(Path(folder)) if not r["quick"]}
        write(KEPT, json.dumps(kept, indent=1, sort_keys=True) + "\n")
    write(PAGE, page())
