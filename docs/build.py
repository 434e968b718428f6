"""Make what the documents show, and check what they point to: python docs/build.py"""

import re
import sys
from pathlib import Path

from torch import Tensor

from pgig.explainers.registry import known_explainers
from pgig.methods.table import PAPER_METHODS
from pgig.records.measures import MEASURES
from pgig.report.stress import stress_figure
from pgig.report.truth import truth_sheet
from pgig.synthetic import stress_test, truth_test
from pgig.synthetic.images import SETTINGS, pixels
from pgig.synthetic.properties import implementation_invariance

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def methods_table() -> str:
    rows = ["| method | what it is | options |", "| --- | --- | --- |"]
    for name, method in known_explainers().items():
        options = ", ".join(f"{key} {value}" for key, value in method.options.items())
        rows.append(f"| {f'`{name}`'}{'' if name in PAPER_METHODS else ' *'} | {method.about} | {options} |")
    return "\n".join(rows)


def measures_table() -> str:
    rows = ["| measure | what it says | better | constants, with where they come from |", "| --- | --- | --- | --- |"]
    for name, measure in MEASURES.items():
        constants = "; ".join(f"{c.name} {c.default} ({c.source})" for c in measure.constants)
        better = f"{measure.better} {measure.ranks_by}"
        rows.append(f"| `{name}` | {measure.about} | {better} | {constants} |")
    return "\n".join(rows)


def invariance_table() -> str:
    found = implementation_invariance()
    rows = ["| | ReLU(w.x - b) | ReLU(1 ReLU(w.x) - b) |", "| --- | --- | --- |"]
    rows.append(f"| pattern of the first layer | {_pair(found.patterns[0])} | {_pair(found.patterns[1])} |")
    rows += [f"| `{name}` | {_pair(one)} | {_pair(two)} |" for name, (one, two) in found.attributions.items()]
    return "\n".join(rows)


def _pair(values: Tensor) -> str:
    return f"({values[0]:.3f}, {values[1]:.3f})"


def with_block(text: str, name: str, content: str) -> str:
    """Put content between the marks of a document."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, rest = text.split(begin)
    return f"{before}{begin}\n{content}\n{end}{rest.split(end)[1]}"


def broken_links() -> list[str]:
    found = []
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if "://" not in link and not (page.parent / link).exists():
                found.append(f"{page.relative_to(ROOT)}: {link}")
    return found


def main() -> None:
    test = stress_test()
    columns = {name: values.numpy() for name, values in test.columns().items()}
    stress_figure(columns, list(test.attributions)).savefig(ROOT / "docs" / "images" / "stress.png", dpi=120)
    tests = [truth_test(setting, images=1, examples=1) for setting in SETTINGS]
    truth_sheet(
        [pixels(test.examples.x[0]) for test in tests],
        [test.examples.mask[0] for test in tests],
        {name: [test.example_attributions[name][0] for test in tests] for name in tests[0].example_attributions},
        list(SETTINGS),
    ).savefig(ROOT / "docs" / "images" / "known-truth.png", dpi=110)
    for page, name, content in (
        (ROOT / "README.md", "methods", methods_table()),
        (ROOT / "docs" / "measures.md", "measures", measures_table()),
        (ROOT / "docs" / "properties.md", "invariance", invariance_table()),
    ):
        page.write_text(with_block(page.read_text(), name, content))
    if broken := broken_links():
        sys.exit("broken links:\n" + "\n".join(broken))
    print("README.md and docs/images are up to date; all links lead somewhere")


if __name__ == "__main__":
    main()
