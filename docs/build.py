"""Make what the documents show, and check what they point to: python docs/build.py"""

import re
import sys
from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image
from skimage import data
from torch import Tensor

import pgig
from pgig.explainers.registry import known_explainers
from pgig.methods.table import PAPER_METHODS
from pgig.records.measures import MEASURES
from pgig.report.stress import stress_figure
from pgig.report.truth import truth_sheet
from pgig.synthetic import stress_test, truth_test
from pgig.synthetic.images import SETTINGS, pixels
from pgig.synthetic.properties import implementation_invariance
from pgig.synthetic.rewritings import REWRITINGS, rewritten
from pgig.vision.models import default_preprocess, load_model

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


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


def rewritings_table() -> str:
    """How far attributions move, as a share of the largest: PGIG with traced patterns and with those of the linear
    regime, pattern attribution, integrated gradients.
    """
    rows = [
        "| the same function, rewritten | PGIG | PGIG, linear regime | pattern attribution | integrated gradients |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, rewriting in REWRITINGS.items():
        traced, linear = rewritten(name).attributions, rewritten(name, "linear").attributions
        moved = [traced["pgig"], linear["pgig"], traced["pattern_attribution"], traced["integrated_gradients"]]
        rows.append(f"| {rewriting.about} | {' | '.join('stays' if x < 1e-9 else f'{x:.1%}' for x in moved)} |")
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
            if "://" not in link and not (page.parent / link).exists() and not _is_made(page.parent / link):
                found.append(f"{page.relative_to(ROOT)}: {link}")
    return found


def first_picture() -> Figure:
    """A photograph and three maps, for who sees this for the first time."""
    model, preprocess = load_model("efficientnet_lite0"), default_preprocess("efficientnet_lite0", None)
    file = BytesIO()
    Image.fromarray(data.chelsea()).save(file, "png")
    pixels = preprocess.pixels(BytesIO(file.getvalue()))
    methods = {
        "covering parts": "occlusion+window=24", "integrated gradients": "integrated_gradients",
        "PGIG, magnitudes": "pgig+absolute",
    }  # fmt: skip
    found = pgig.explain(model, preprocess.normalise(pixels)[None], list(methods.values()), patterns="auto")
    maps = {title: found[name].attribution[0] for title, name in methods.items()}
    return pgig.show(maps, pixels, magnitudes=["PGIG, magnitudes"])


def _is_made(target: Path) -> bool:
    """Pages that the site alone has: of examples, and of commands."""
    folder, name = target.parent.name, target.stem
    return (folder == "examples" and (ROOT / "examples" / f"{name}.py").exists()) or target.name == "commands.md"


def main() -> None:
    first_picture().savefig(ROOT / "docs" / "images" / "first.png", dpi=130, bbox_inches="tight")
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
        (ROOT / "docs" / "concepts" / "methods.md", "methods", methods_table()),
        (ROOT / "docs" / "measures.md", "measures", measures_table()),
        (ROOT / "docs" / "properties.md", "invariance", invariance_table()),
        (ROOT / "docs" / "properties.md", "rewritings", rewritings_table()),
    ):
        page.write_text(with_block(page.read_text(), name, content))
    if broken := broken_links():
        sys.exit("broken links:\n" + "\n".join(broken))
    print("docs and docs/images are up to date; all links lead somewhere")


if __name__ == "__main__":
    main()
