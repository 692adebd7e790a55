"""The page of a reproduction: one HTML file that needs nothing else, drawn from saved results."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from attsvm._utils.files import write_text, writing_to
from attsvm._utils.version import __version__
from attsvm.experiments.reproduce.folder import PAGE, Record, read_results
from attsvm.experiments.reproduce.page.claim import (
    FAILING,
    KNOWN_FROM,
    LEAD,
    MARKS,
    MEANING,
    VERDICTS,
    article,
    badge,
    failing_words,
    failure,
    is_different,
    is_question,
    kind_words,
    seconds,
    style_of,
    verdict_for,
)
from attsvm.experiments.reproduce.page.figure import LARGEST
from attsvm.plotting.html.shell import Parts, text, whole_page
from attsvm.references import REFERENCES

# Letter -> key of the paper in the bibliography.
PAPERS = {
    "A": "tarzanagh2023maxmargin",
    "B": "tarzanagh2023svm",
    "C": "julistiono2024mirror",
    "D": "huang2024nexttoken",
}
# Characters for all pictures together, so that the page stays easy to send.
PICTURES = 6_500_000


def write_page(folder: str | Path) -> Path:
    """The file DIR/report.html, drawn from results.json, the figures and the moving pictures."""
    place = Path(folder)
    page = place / PAGE
    html = render(place, read_results(place))
    with writing_to(place):
        write_text(page, html)
    return page


def paper_title(letter: str) -> str:
    """The paper's title for its letter; `Beyond the papers` for what none of them states.

    Claims from outside the package may have a word of their own there: it is its own title.
    """
    source = REFERENCES.get(PAPERS.get(letter, ""))
    if source:
        return source.title
    return "Beyond the papers" if letter == "beyond" else letter


def render(folder: Path, records: list[Record]) -> str:
    """The whole page for these records, in their order."""
    papers = list(dict.fromkeys(str(record["paper"]) for record in records))
    numbered = list(enumerate(records))
    most = min(LARGEST, PICTURES // max(len(records), 1))
    sections = "\n".join(
        f'<section class="paper" aria-labelledby="p{place}"><h2 id="p{place}">'
        f"{_heading(paper)}</h2>\n"
        + "\n".join(
            article(folder, r, number=k, most=most) for k, r in numbered if str(r["paper"]) == paper
        )
        + "\n</section>"
        for place, paper in enumerate(papers)
    )
    counts = Counter(_verdict(record) for record in records)
    said = ", ".join(f"{counts[v]} {verdict_for(v, counts[v])}" for v in VERDICTS if counts[v])
    return whole_page(
        Parts(
            title=f"attsvm: {len(records)} claims, {said or 'none run'}",
            heading="What attention selects: the claims, run again",
            description=f"{len(records)} claims about attention: {said}",
            main=f"{_summary(records, papers, counts)}\n{_failures(records)}\n"
            f"{_table(records, papers)}\n{sections}",
            footer="<p>Every verdict was judged from saved arrays, and every solution certified "
            f"again from its data. Written by attsvm {text(__version__)}. Run all of it: "
            "<code>attsvm reproduce</code></p>",
            skip=("claims", "the claims"),
            assets=[(_HERE, name) for name in ("style.css", "filter.js", "motion.js")],
        )
    )


_HERE = "attsvm.experiments.reproduce.page"


def _heading(paper: str) -> str:
    letter = f'<span class="letter">{text(paper)}</span> ' if paper in PAPERS else ""
    return f"{letter}{text(paper_title(paper))}"


def _verdict(record: Record) -> str:
    verdict = str(record["verdict"])
    return verdict if verdict in VERDICTS else "undecided"


def _summary(records: list[Record], papers: list[str], counts: Counter[str]) -> str:
    """How many claims have each verdict: in all, and for each paper."""
    tiles = "".join(
        f'<li class="{style_of(v)}"><button type="button" data-set-verdict="{v}">'
        f'<b>{counts[v]}</b> <span><i aria-hidden="true">{MARKS[v]}</i> '
        f"{verdict_for(v, counts[v])}</span></button></li>"
        for v in VERDICTS
    )
    lines = []
    for paper in papers:
        mine = Counter(_verdict(r) for r in records if str(r["paper"]) == paper)
        bar = "".join(
            f'<i class="{style_of(v)}" style="flex:{mine[v]}"></i>' for v in VERDICTS if mine[v]
        )
        cells = "".join(f'<td class="number">{mine[v] or "–"}</td>' for v in VERDICTS)
        lines.append(
            f'<tr><th scope="row">{_heading(paper)}</th>{cells}'
            f'<td class="barcell"><span class="bar" aria-hidden="true">{bar}</span></td></tr>'
        )
    heads = "".join(f'<th scope="col" class="number">{verdict_for(v, 2)}</th>' for v in VERDICTS)
    versions = sorted({str(record.get("version", "")) for record in records} - {""})
    times = [r["seconds"] for r in records if isinstance(r.get("seconds"), int | float)]
    quick = sum(bool(record.get("quick")) for record in records)
    size = (
        "small counts (quick)"
        if quick == len(records)
        else "full size"
        if not quick
        else f"{quick} of {len(records)} quick"
    )
    meaning = "".join(
        f"<dt>{badge(word) if word in VERDICTS else _DIFFERS}</dt><dd>{text(words)}</dd>"
        for word, words in MEANING.items()
    )
    return f"""<section aria-labelledby="summary"><h2 id="summary" class="aside">Summary</h2>
<p class="lead">{text(LEAD)}</p>
<ul class="tiles">{tiles}</ul>
<p class="meta">{len(records)} claims{text(failing_words(records))} · {size} · \
{seconds(float(sum(times)))} of running, without compiling · attsvm \
{text(", ".join(versions) or __version__)}</p>
<dl class="meaning">{meaning}</dl>
<p class="known">{text(KNOWN_FROM)}</p>
<div class="scroll"><table class="papers"><thead><tr><th scope="col">Paper</th>{heads}\
<td></td></tr></thead><tbody>{"".join(lines)}</tbody></table></div>
</section>"""


_DIFFERS = '<span class="tag">differs</span>'


def _failures(records: list[Record]) -> str:
    """For each failing claim what was read, run and found; nothing when none fails.

    Statements of papers come first, then questions of ours.
    """
    parts = []
    for ours, title in FAILING.items():
        lines = [
            failure(record)
            for record in records
            if _verdict(record) == "fails" and is_question(record) == ours
        ]
        if lines:
            listed = "\n".join(lines)
            parts.append(f'<h3>{title}</h3>\n<ul class="failing">\n{listed}\n</ul>')
    if not parts:
        return ""
    return (
        '<section class="failures" aria-labelledby="failures"><h2 id="failures">What fails</h2>\n'
        f"{chr(10).join(parts)}</section>"
    )


def _table(records: list[Record], papers: list[str]) -> str:
    """Every claim in one line, and the controls that filter lines and claims."""
    kinds = list(dict.fromkeys(kind_words(record) for record in records))
    lines = []
    for record in records:
        name, verdict = str(record["id"]), _verdict(record)
        search = " ".join(
            str(record.get(part, ""))
            for part in ("id", "title", "statement", "reason", "differs", "numbered")
        )
        mark = f" {_DIFFERS}" if is_different(record) else ""
        lines.append(
            f'<tr data-claim="{text(name)}" data-paper="{text(record["paper"])}" '
            f'data-verdict="{verdict}" data-kind="{text(kind_words(record))}" '
            f'data-search="{text(search.lower())}"><th scope="row"><a href="#{text(name)}">'
            f"{text(name)}</a></th><td>{text(record['title'])}{mark}</td>"
            f"<td>{text(kind_words(record))}</td><td>{text(record.get('numbered', ''))}</td>"
            f"<td>{text(record.get('size', ''))}</td><td>{badge(record['verdict'])}</td>"
            f"<td>{text(record.get('trust', ''))}</td>"
            f'<td class="number">{seconds(record.get("seconds"))}</td></tr>'
        )
    return f"""<section aria-labelledby="claims"><h2 id="claims" tabindex="-1">Claims</h2>
<form class="filter control" role="search" aria-label="Filter the claims">
<label>Text <input type="search" id="by-text" autocomplete="off" placeholder="press / to search">\
</label>
{_choice("paper", [(p, f"{p}: {paper_title(p)}" if p in PAPERS else p) for p in papers])}
{_choice("verdict", [(v, v) for v in VERDICTS])}
{_choice("kind", [(k, k) for k in kinds if k])}
<button type="reset">Clear</button>
<p role="status" aria-live="polite" id="count">{len(records)} claims</p>
</form>
<div class="scroll"><table class="claims"><thead><tr><th scope="col">Claim</th>\
<th scope="col">Title</th><th scope="col">Kind</th><th scope="col">In the paper</th>\
<th scope="col">Size</th><th scope="col">Verdict</th>\
<th scope="col">Known from</th>\
<th scope="col" class="number">Time</th></tr></thead>
<tbody>
{chr(10).join(lines)}
</tbody></table></div>
<p class="none" id="nothing" hidden>No claim matches.</p>
</section>"""


def _choice(name: str, options: list[tuple[str, str]]) -> str:
    listed = "".join(f'<option value="{text(v)}">{text(shown)}</option>' for v, shown in options)
    return (
        f'<label>{name.capitalize()} <select id="by-{name}"><option value="">all</option>'
        f"{listed}</select></label>"
    )
