"""A page as a reader of its source sees it."""

from html.parser import HTMLParser

VOID = {"meta", "link", "input", "img", "br"}


class Page(HTMLParser):
    """The elements of a page in order, with the text inside each; tags must nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.inside: list[str] = []
        self.text: dict[str, list[str]] = {}
        self.feed(html)
        self.close()
        assert self.inside == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self.inside.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.inside and self.inside.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        self.text.setdefault(self.inside[-1] if self.inside else "", []).append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        """The attributes of every element of this kind."""
        return [attributes for name, attributes in self.elements if name == tag]
