"""Pages as they are read: lists of pages that may grow, and files of the project's root."""

import re
from pathlib import Path

# Files of the root that have a page: name -> page.
ROOT_PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "SECURITY.md": "security.md",
}
ROOT_FILE = re.compile(r"<!-- root: (\S+) -->\n?")
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
MORE = "```{toctree}\n:hidden:\n:caption: More\n\n"


def prepare(app, docname, source):
    """Rewrite the text of a page before it is parsed (the event source-read)."""
    docs = Path(app.srcdir)
    if docname == app.config.root_doc:
        pages = {path.stem for path in docs.glob("*.md")} - {docname}
        source[0] = complete(source[0], pages)
    for name in ROOT_FILE.findall(source[0]):
        app.env.note_dependency(str(docs.parent / name))
        text = (docs.parent / name).read_text("utf-8")
        source[0] = ROOT_FILE.sub(lambda _, text=text: relinked(text), source[0])


def complete(home, pages):
    """The home page without patterns that match nothing, and with the pages that no list has.

    >>> complete("a\\nb*\\nc*\\n", {"a", "c1", "d"}).split()
    ['a', 'c*', '```{toctree}', ':hidden:', ':caption:', 'More', 'd', '```']
    """
    kept, listed = [], set()
    for line in home.splitlines():
        pattern = re.fullmatch(r"[\w-]+\*?", line)
        found = {page for page in pages if pattern and matches(line, page)}
        listed |= found
        if found or not line.endswith("*"):
            kept.append(line)
    rest = sorted(pages - listed)
    kept += [MORE + "\n".join(rest), "```"] if rest else []
    return "\n".join([*kept, ""])


def matches(line, page):
    """Whether a line of a list names a page, itself or by a pattern that ends in a star."""
    return page.startswith(line[:-1]) if line.endswith("*") else page == line


def relinked(text):
    """A file of the root with its links as they lead from docs/; files without a page lose theirs.

    >>> relinked("[a](docs/a.md), [b](CHANGELOG.md), [c](.ci/run), [d](https://d.e)")
    '[a](a.md), [b](changes.md), c, [d](https://d.e)'
    """

    def new(link):
        said, target = link.groups()
        if "://" in target or target.startswith("#"):
            return link[0]
        page = ROOT_PAGES.get(target, target.removeprefix("docs/"))
        return f"[{said}]({page})" if page != target else said

    return LINK.sub(new, text)
