"""Reads a page as strictly as no browser does."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br", "img", "link", "input", "hr"}


class Reader(HTMLParser):
    """Reads a page strictly: tags that do not close in order are kept in `crooked`."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.crooked: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember the tag, and that it is open."""
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag of SVG that is closed at once."""
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Close the tag."""
        if not self.open or self.open.pop() != tag:
            self.crooked.append(tag)

    def handle_data(self, data: str) -> None:
        """Keep the text under its innermost tag."""
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)

    def attributes(self, name: str) -> list[str]:
        """Every value of an attribute."""
        return [attributes[name] or "" for _, attributes in self.tags if name in attributes]
