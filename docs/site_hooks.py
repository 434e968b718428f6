"""What the site has beside the pages of docs/: examples with their outputs, commands from their own help, and more."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
WIDE = {"models.md"}  # a table takes the place beside the text, where there are no headings to list
SHORTEST = 15  # letters of an alternative text
OUTSIDE = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md", "licence.md": "LICENSE"}


def on_files(files: Files, config: Any) -> Files:
    from commands_page import commands_page
    from notebooks import EXAMPLES, page_of

    made: dict[str, str | bytes] = {"reference/commands.md": commands_page()}
    for name, source in OUTSIDE.items():
        made[name] = (ROOT / source).read_text(encoding="utf-8")
    made["licence.md"] = f"# Licence\n\n{made['licence.md']!s}"
    for example in EXAMPLES:
        text, pictures = page_of(example)
        made |= {f"examples/{example.stem}.md": text, **{f"examples/{name}": data for name, data in pictures.items()}}
    for address, content in made.items():
        files.append(File.generated(config, address, content=content))
    return files


def on_config(config: Any) -> Any:
    import sys

    sys.path.insert(0, str(ROOT / "docs"))
    if find_spec("ruff") is None:
        raise PluginError("signatures are wrapped by ruff, which is not installed: pip install ruff")
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links that leave docs/: to pages that the site has, and to files, which are named."""
    for about in re.findall(r"!\[([^\]]*)\]\(", markdown):
        if len(about) < SHORTEST:
            raise PluginError(f"{page.file.src_uri}: a picture must say what it shows, got {about!r}")
    if page.file.src_uri in WIDE:
        page.meta["hide"] = ["toc"]
    here = Path(page.file.src_uri).parent
    up = "../" * len(here.parts)

    def within(match: re.Match[str]) -> str:
        text, address = match[1], match[2]
        path, _, anchor = address.partition("#")
        source = (
            (ROOT / "docs" / here / path).resolve() if page.file.src_uri not in OUTSIDE else (ROOT / path).resolve()
        )
        if "://" in address or not path or not source.exists():
            return match[0]
        for name, outside in OUTSIDE.items():
            if source == ROOT / outside:
                return f"[{text}]({up}{name})"
        if source == ROOT / "README.md":
            return f"[{text}]({up}index.md)"
        if ROOT / "docs" in source.parents:
            return f"[{text}]({up}{source.relative_to(ROOT / 'docs')}{f'#{anchor}' if anchor else ''})"
        return f"{text} (`{source.relative_to(ROOT)}`)"

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", within, markdown)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    return _from_here(output, page.url)


def on_post_template(output: str, template_name: str, **_: Any) -> str:
    return _from_here(output, template_name) if template_name.endswith(".html") else output


def _from_here(output: str, url: str) -> str:
    """The theme would fetch a script for searching in files; the site brings its own."""
    up = "../" * url.count("/")
    output = output.replace('<script src="https://unpkg.com/iframe-worker/shim">', f'<script src="{up}file_search.js">')
    if fetched := re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"']?(?:https?:)?//[^>]+", output):
        raise PluginError(f"{url} would fetch from elsewhere: {fetched[0]}")
    return output
