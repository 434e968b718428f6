"""What may import what (docs/design.md), and what the documents claim."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import run, run_process

import pgig
from pgig.cli import COMMANDS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "pgig"
SOURCES = {str(path.relative_to(PACKAGE)): path for path in sorted(PACKAGE.rglob("*.py"))}
# from the ground up: a room imports only from itself and from those before it
ROOMS = (
    "errors", "files", "sealing", "digests", "statistics", "plugins", "draws",
    "drawing", "records", "methods", "network", "subject", "patterns", "attribution", "degradation", "incremental",
    "measures", "explainers", "explaining", "captum", "quantus", "vision", "randomization", "synthetic", "report",
    "runs", "app", "cli", "__main__",
)  # fmt: skip
WITHOUT_TORCH = "errors", "files", "sealing", "digests", "statistics", "plugins", "drawing", "records", "report"
# which packages are known where, beside torch, numpy and safetensors
FURTHER = {
    "vision/": {"PIL"},
    "vision/image_address.py": {"fsspec"},
    "runs/explain.py": {"PIL"},
    "drawing/figures.py": {"matplotlib"},
    "drawing/encoded.py": {"PIL"},
    "records/explanation.py": {"matplotlib"},
    "records/part_files.py": {"pyarrow"},
    "records/part_tables.py": {"pyarrow"},
    "measures/linear_imputation.py": {"scipy"},
    "measures/superpixels.py": {"skimage"},
    "report/": {"matplotlib", "jinja2", "markupsafe"},
    "report/ranking.py": {"scipy"},
    "report/measure_tables.py": {"pyarrow"},
    "runs/masks.py": {"PIL"},
    "runs/backends/ray_": {"ray"},
    "runs/ownership.py": {"filelock"},
    "synthetic/transport.py": {"ot"},
    "quantus/degradation.py": {"quantus"},
    "app/shown.py": {"PIL"},
    "app/views.py": {"gradio"},
    "app/desk.py": {"gradio"},
    "app/page.py": {"gradio"},
    "app/tabs/": {"gradio"},
    "app/serve.py": {"gradio", "fastapi", "uvicorn"},
    "app/widget.py": {"anywidget", "traitlets"},
    "cli/": {"typer", "rich"},
}
LONGEST = 250  # lines


def room_of(source: str) -> str:
    return source.partition("/")[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {str(node.module)}
    return found


def test_every_file_has_a_room():
    assert {room_of(source) for source in SOURCES} == {*ROOMS, "__init__"}


@pytest.mark.parametrize("source", [source for source in SOURCES if source != "__init__.py"])
def test_rooms_know_only_those_below_them(source):
    place = ROOMS.index(room_of(source))
    for name in imports(SOURCES[source]):
        package, _, rest = name.partition(".")
        if package == "pgig" and rest:
            assert ROOMS.index(rest.partition(".")[0]) <= place, f"{source} imports {name}"


@pytest.mark.parametrize("source", SOURCES)
def test_packages_are_known_where_they_belong(source):
    packages = {name.partition(".")[0] for name in imports(SOURCES[source])} - sys.stdlib_module_names - {"pgig"}
    allowed = {"numpy", "safetensors"} | (set() if room_of(source) in WITHOUT_TORCH else {"torch"})
    for place, further in FURTHER.items():
        allowed |= further if source.startswith(place) else set()
    assert packages <= allowed


def test_no_file_is_long():
    assert {
        name: lines for name, path in SOURCES.items() if (lines := len(path.read_text().splitlines())) > LONGEST
    } == {}


def test_the_design_fits_two_screens_and_names_every_package():
    text = (ROOT / "docs" / "design.md").read_text()
    assert len(text.splitlines()) <= 75
    packages = {str(path.parent.relative_to(PACKAGE)) for path in PACKAGE.rglob("__init__.py")} - {"."}
    assert all(re.search(rf"\b{package.rpartition('/')[2]}/", text) for package in packages)
    assert all(re.search(rf"\b{room}\b", text) for room in ROOMS if room != "__main__")


def test_flags_are_named_in_the_command_only():
    flag = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
    own = {"synthetic/train.py"}  # a script with a command line of its own
    for name, path in SOURCES.items():
        if not name.startswith("cli/") and name not in own:
            texts = [n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant)]
            assert not [text for text in texts if isinstance(text, str) and flag.search(text)], name


def test_what_is_known_of_models_is_in_one_table():
    """No module keeps things by model, but for the one weak table of subjects."""
    table = re.compile(r"^\w+(?:: [^\n=]+)? = Weak\w+\(", re.M)
    tables = {name: found for name, path in SOURCES.items() if (found := table.findall(path.read_text()))}
    assert list(tables) == ["subject/subject.py"]
    assert len(tables["subject/subject.py"]) == 1


def test_importing_pgig_loads_nothing_heavy():
    code = "import sys, pgig; pgig.PgigError; print([m for m in ('torch', 'numpy', 'matplotlib') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_rooms_without_torch_load_without_it(tmp_path):
    parts = [
        "pgig." + name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in SOURCES
        if room_of(name) in WITHOUT_TORCH
    ]
    code = "import sys; sys.argv = ['pgig', 'report', 'nothing']\n"
    code += "".join(f"import {part}\n" for part in parts)
    code += "from pgig.__main__ import main\nprint(main(), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == "2 False", done.stderr
    assert "nothing is not a run" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_runs_in_a_process_of_its_own(command, tmp_path):
    done = run_process(tmp_path, command, "--help")
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
    assert "pgig " + command in " ".join(done.stdout.split())


def test_every_command_is_listed(tmp_path):
    helped = run(tmp_path, "--help").stdout
    for name in COMMANDS:
        assert re.search(rf"\b{name}\b", helped), name
    assert {path.stem for path in (PACKAGE / "cli").glob("*.py")} >= set(COMMANDS)


def test_the_public_names_agree():
    """`__all__`, the table of lazy homes and what type checkers see are the same names, and each can be had."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (checking,) = [node for node in tree.body if isinstance(node, ast.If)]
    imported = [node for node in checking.body if isinstance(node, ast.ImportFrom)]
    seen = {(alias.name, str(node.module)) for node in imported for alias in node.names}
    assert seen == {(name, f"pgig.{home}") for name, home in pgig._HOMES.items()}
    assert sorted(pgig.__all__) == sorted(pgig._HOMES)
    for name in pgig.__all__:
        assert getattr(pgig, name) is not None
        assert name in dir(pgig)
    for name in pgig._SUBMODULES:
        assert getattr(pgig, name).__name__ == f"pgig.{name}"
    with pytest.raises(AttributeError, match="no attribute 'lime'"):
        _ = pgig.lime


def test_submodules_can_be_had_without_importing_them():
    code = "import pgig; print(pgig.degradation.PatchGrid.__name__, pgig.incremental.plan_of.__name__)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["PatchGrid", "plan_of"]


def test_the_documents_show_what_is(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import build

    methods = (ROOT / "docs" / "concepts" / "methods.md").read_text()
    properties = (ROOT / "docs" / "properties.md").read_text()
    assert build.with_block(methods, "methods", build.methods_table()) == methods, "run `make docs`"
    measures = (ROOT / "docs" / "measures.md").read_text()
    assert build.with_block(measures, "measures", build.measures_table()) == measures, "run `make docs`"
    assert build.with_block(properties, "invariance", build.invariance_table()) == properties, "run `make docs`"
    assert build.with_block(properties, "rewritings", build.rewritings_table()) == properties, "run `make docs`"
    assert build.broken_links() == []


def test_the_readmes_python_names_exist():
    code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert code
    names = set(re.findall(r"pgig\.(\w+)\(", "".join(code)))
    assert names
    assert names <= set(pgig.__all__)


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), *((name, "--help") for name in COMMANDS)])
def test_help_needs_no_torch(arguments):
    """Nor anything else that is slow to load: a half second is all that help may take."""
    heavy = "'torch', 'numpy', 'matplotlib', 'PIL', 'pyarrow', 'jinja2'"
    code = (
        "import sys\nfrom pgig.__main__ import main\n"
        f"assert main({list(arguments)!r}) == 0\nprint([m for m in ({heavy}) if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).splitlines()[-1] == "[]"


def test_help_names_what_there_is(tmp_path):
    """What is written into help, for it to be quick, is what there is."""
    from typing import get_args

    from pgig.degradation.protocol import Departure, Order
    from pgig.synthetic.images import SETTINGS
    from pgig.vision.decoding import MAX_PIXELS
    from pgig.vision.models import MODELS
    from pgig.vision.names import MODEL_NAMES

    assert tuple(MODELS) == MODEL_NAMES
    helped = {name: run(tmp_path, name, "--help").stdout for name in ("degrade", "truth")}
    for word in (*get_args(Order), *get_args(Departure), *MODEL_NAMES):
        assert word in helped["degrade"].replace("\n", ""), word
    assert all(name in helped["truth"] for name in SETTINGS)
    assert MAX_PIXELS == 150_000_000
    assert "150 million" in " ".join(helped["degrade"].replace("│", " ").split())
