"""docs/glossary.md: written from the one source by `make docs`, and compared by a test."""

from attsvm.cli.parts.glossary import glossary_page
from tests.conventions.tree import ROOT

PAGE = ROOT / "docs" / "glossary.md"

if __name__ == "__main__":
    PAGE.write_text(glossary_page(), encoding="utf-8", newline="\n")
