"""Every code block of every page: Python runs, and commands have the options that they are shown with."""

import re
import shlex
import sys
from collections import OrderedDict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from optional import timm
from torch import Tensor, nn
from typer.main import get_command

import pgig
from pgig.cli import COMMANDS
from pgig.cli.command import app
from pgig.explainers.registry import explainers, known_explainers, unregister
from pgig.records.measures import MEASURES

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))
import build
from notebooks import EXAMPLES, run

ROOT = Path(__file__).parents[1]
PAGES = {str(page.relative_to(ROOT)): page for page in build.PAGES if page.name != "CHANGELOG.md"}
# blocks that are not run here, by how they begin, with the reason; their names are checked all the same
NOT_RUN = {
    'model = load_model("efficientnet_lite0")\npgig.widget': "a notebook's; tests/test_widget.py runs it",
    "metric(\n    model=model": "any metric of Quantus; tests/test_quantus_metrics.py runs thirty",
    "found = pgig.explain_tokens(\n    model, ids": "a tokenizer; tests/test_tokens.py has one",
}


def blocks(language: str) -> list[Any]:
    """Of every page that has some."""
    found = {
        name: re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)
        for name, page in PAGES.items()
    }
    return [pytest.param(code, id=name) for name, code in found.items() if code]


SIDE = 96  # of images: a hundred patches


class Reader(nn.Module):
    """Ids in, two classes out."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.out = nn.Embedding(20, 8), nn.Linear(8, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return self.out(torch.relu(self.embedding(input_ids)).mean(1))


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.image, self.table = nn.Linear(3 * SIDE * SIDE, 4), nn.Linear(5, 4)

    def forward(self, image: Tensor, table: Tensor) -> Tensor:
        return self.image(image.flatten(1)) + torch.relu(self.table(table))


def given() -> dict[str, Any]:
    """What pages talk of without saying where it is from."""
    torch.manual_seed(0)
    further = [nn.Identity() for _ in range(8)]
    features = nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.ReLU(), nn.Conv2d(6, 6, 3), nn.ReLU(), *further, nn.Conv2d(6, 6, 1), nn.ReLU()
    )  # fmt: skip
    layers = {"features": features, "pool": nn.AdaptiveAvgPool2d(4), "flat": nn.Flatten(), "out": nn.Linear(96, 10)}
    model = nn.Sequential(OrderedDict(layers)).eval()
    x = torch.rand(2, 3, SIDE, SIDE)
    patterns = pgig.estimate_patterns(model, [torch.rand(16, 3, SIDE, SIDE)])
    words = [f"w{number}" for number in range(20)]
    return {
        "pgig": pgig, "torch": torch, "nn": nn, "model": model, "x": x, "target": torch.tensor([1, 3]),
        "targets": torch.tensor([1, 3]), "patterns": patterns, "p": patterns,
        "loader": [torch.rand(8, 3, SIDE, SIDE) for _ in range(2)], "names": ["a.jpg", "b.jpg"], "words": words,
        "reader": Reader().eval(), "ids": torch.randint(20, (2, 7)), "two_inputs": TwoInputs().eval(),
        "by_name": TwoInputs().eval(), "table": torch.rand(2, 5),
        "texts": [(torch.randint(20, (4, 7)), torch.ones(4, 7).long())], "y": torch.tensor([1, 3]),
        "regressor": nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE * SIDE, 1)).eval(),
        "segmenter": nn.Conv2d(3, 4, 3).eval(),
        "attributions": {"gradient": torch.rand_like(x)}, "references": torch.rand(4, 3, SIDE, SIDE),
        "shard_1": [torch.rand(8, 3, SIDE, SIDE)], "shard_2": [torch.rand(8, 3, SIDE, SIDE)],
        "more": [torch.rand(8, 3, SIDE, SIDE)],
    }  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with photographs, a cache of its own, and nothing registered afterwards."""
    from PIL import Image
    from skimage import data

    timm()  # with what its import needs
    (tmp_path / "photos").mkdir()
    for name in ("dog.jpg", "cat.jpg", "photo.jpg", "photos/1.jpg", "photos/2.jpg"):
        Image.fromarray(data.chelsea()).save(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGIG_CACHE", str(tmp_path / "cache"))
    before, measures = set(known_explainers()), set(MEASURES)
    yield tmp_path
    for name in set(known_explainers()) - before:
        unregister(name)
    for name in set(MEASURES) - measures:
        del MEASURES[name]


@pytest.mark.parametrize("code", blocks("python"))
@pytest.mark.filterwarnings("ignore::pgig.PgigWarning")
def test_the_python_of_a_page_runs(code: list[str], place: Path) -> None:
    """One block after another, as a reader would."""
    world = given()
    for block in code:
        compile(block, "page", "exec")
        if not any(block.split("import load_model\n\n")[-1].startswith(begun) for begun in NOT_RUN):
            exec(block, world)  # pages of this repository


@pytest.mark.parametrize("code", blocks("python"))
def test_the_names_of_a_page_exist(code: list[str]) -> None:
    for name in re.findall(r"\bpgig\.([a-zA-Z_]\w*)", "\n".join(code)):
        assert getattr(pgig, name, None) is not None or import_module(f"pgig.{name}"), name


@pytest.mark.parametrize("code", blocks("sh"))
def test_the_commands_of_a_page_have_these_options(code: list[str]) -> None:
    for name in COMMANDS:
        import_module(f"pgig.cli.{name}")
    group: Any = get_command(app)
    for line in "\n".join(code).replace("\\\n", "").splitlines():
        words = shlex.split(line, comments=True)
        while words and "=" in words[0]:
            words = words[1:]
        if not words or words[0] != "pgig" or words[1].startswith("-"):
            continue
        assert words[1] in group.commands, line
        command = group.commands[words[1]]
        parser = command.make_parser(command.context_class(command, info_name=words[1]))
        given, rest, _ = parser.parse_args(words[2:])
        wanted = {parameter.name for parameter in command.params if parameter.required}
        assert {name for name in wanted if given.get(name) is None} == set(), line
        assert not rest, line
        if given.get("methods") and ":" not in given["methods"]:
            explainers(given["methods"])
        if given.get("measures") not in (None, "all", "core"):
            assert {label.partition("+")[0] for label in given["measures"].split(",")} <= set(MEASURES), line
        if str(given.get("model")).startswith("timm:") and words[1] != "check":
            assert given.get("weights"), line
    for target in re.findall(r"^make (\w+)", "\n".join(code), re.M):
        assert f"\n{target}:" in (ROOT / "Makefile").read_text(), target


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a notebook, which says something."""
    monkeypatch.setenv("PYTHONWARNINGS", "")
    cells = run(example).cells
    assert any(cell.get("outputs") for cell in cells)
    assert cells[0].source.startswith("# ")


def test_every_page_is_in_the_site() -> None:
    nav = set(re.findall(r"[ :]([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M))
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    examples = {f"examples/{example.stem}.md" for example in EXAMPLES}
    assert pages | examples <= nav
    assert len(nav) > 40


def test_pictures_say_what_they_show() -> None:
    for page in PAGES.values():
        for text in re.findall(r"!\[([^\]]*)\]\(", page.read_text()):
            assert len(text) > 15, f"{page}: {text!r}"
