"""Make what the documents show, and check what they point to: python docs/build.py"""

import re
import sys
from pathlib import Path

from pgig.methods import METHODS, PAPER_METHODS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
MARKS = "<!-- methods -->", "<!-- end of methods -->"


def methods_table() -> str:
    rows = ["| method | what it is | options |", "| --- | --- | --- |"]
    for name, method in METHODS.items():
        options = ", ".join(f"{key} {value}" for key, value in method.options.items())
        rows.append(f"| {f'`{name}`'}{'' if name in PAPER_METHODS else ' *'} | {method.about} | {options} |")
    return "\n".join(rows)


def with_methods_table(text: str) -> str:
    before, rest = text.split(MARKS[0])
    return f"{before}{MARKS[0]}\n{methods_table()}\n{MARKS[1]}{rest.split(MARKS[1])[1]}"


def broken_links() -> list[str]:
    found = []
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if "://" not in link and not (page.parent / link).exists():
                found.append(f"{page.relative_to(ROOT)}: {link}")
    return found


def main() -> None:
    sys.path.insert(0, str(ROOT / "examples"))
    import demo

    model, (z, x) = demo.stress_model(), demo.stress_data()
    drawing = demo.figure(z, model(x)[:, 0].detach(), demo.attributions(model, x))
    drawing.savefig(ROOT / "docs" / "images" / "stress.png", dpi=120)
    readme = ROOT / "README.md"
    readme.write_text(with_methods_table(readme.read_text()))
    if broken := broken_links():
        sys.exit("broken links:\n" + "\n".join(broken))
    print("README.md and docs/images are up to date; all links lead somewhere")


if __name__ == "__main__":
    main()
