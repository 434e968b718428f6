"""What may import what (docs/design.md), and what the documents claim."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pgig

ROOT = Path(__file__).parents[1]
SOURCES = {path.relative_to(ROOT / "src"): path for path in sorted((ROOT / "src" / "pgig").rglob("*.py"))}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_imports_follow_the_design(source):
    packages = {name.partition(".")[0] for name in imports(SOURCES[source])} - sys.stdlib_module_names - {"pgig"}
    inside = str(source)
    allowed = {"torch", "numpy", "safetensors"}
    if inside.startswith("pgig/vision/"):
        allowed |= {"PIL"}
    if inside == "pgig/figures.py":
        allowed |= {"matplotlib"}
    if inside.startswith("pgig/report/"):
        allowed = {"matplotlib", "jinja2", "numpy"}
    if inside == "pgig/synthetic/transport.py":
        allowed |= {"ot"}
    if inside.startswith("pgig/cli/"):
        allowed |= {"typer", "rich"}
    if inside == "pgig/runs/parts.py":
        allowed |= {"pyarrow"}
    if inside == "pgig/runs/ownership.py":
        allowed |= {"filelock"}
    assert packages <= allowed
    if inside != "pgig/__main__.py" and not inside.startswith("pgig/cli/"):
        assert not any(name.startswith("pgig.cli") for name in imports(SOURCES[source]))
    if not inside.startswith(("pgig/cli/", "pgig/report/", "pgig/demo", "pgig/runs/")):
        assert not any(name.startswith("pgig.report") for name in imports(SOURCES[source]))
    forbidden = {
        "pgig/degradation/": ("pgig.methods.table", "pgig.incremental", "pgig.explaining.attribute"),
        "pgig/incremental/": (
            "pgig.methods.table",
            "pgig.explaining.attribute",
            "pgig.attribution.engine",
            "pgig.runs",
            "pgig.patterns.patterns",
        ),
    }
    for place, names in forbidden.items():
        if inside.startswith(place):
            assert not any(name.startswith(names) for name in imports(SOURCES[source]))
    if not inside.startswith(("pgig/vision/", "pgig/cli", "pgig/__", "pgig/runs/")):
        assert not any(name.startswith("pgig.vision") for name in imports(SOURCES[source]))


def test_importing_pgig_loads_nothing_heavy():
    code = "import sys, pgig; pgig.PgigError; print([m for m in ('torch', 'numpy', 'matplotlib') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_the_report_command_needs_no_torch(tmp_path):
    code = "import sys; sys.argv = ['pgig', 'report', 'nothing']\nfrom pgig.__main__ import main\n"
    code += "try: main()\nexcept SystemExit: pass\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == "False"
    assert "nothing is not a run" in done.stderr


def test_every_command_is_listed():
    done = subprocess.run([sys.executable, "-m", "pgig", "--help"], capture_output=True, text=True)
    source = (ROOT / "src" / "pgig" / "cli" / "__init__.py").read_text()
    names = re.findall(r'^    "(\w+)": "\w+",$', source, re.M)
    assert len(names) == 10
    for name in names:
        assert re.search(rf"\b{name}\b", done.stdout), name
        helped = subprocess.run([sys.executable, "-m", "pgig", name, "--help"], capture_output=True, text=True)
        assert helped.returncode == 0
        assert "Usage" in helped.stdout


def test_every_public_name_can_be_had():
    for name in pgig.__all__:
        assert getattr(pgig, name) is not None
        assert name in dir(pgig)
    assert pgig.captum.PGIG.name == "pgig"
    code = "import pgig; print(pgig.degradation.PatchGrid.__name__, pgig.incremental.plan_of.__name__)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["PatchGrid", "plan_of"]
    with pytest.raises(AttributeError, match="no attribute 'lime'"):
        _ = pgig.lime


def test_the_documents_show_what_is(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import build

    readme, properties = (ROOT / "README.md").read_text(), (ROOT / "docs" / "properties.md").read_text()
    assert build.with_block(readme, "methods", build.methods_table()) == readme, "run `make docs`"
    assert build.with_block(properties, "invariance", build.invariance_table()) == properties, "run `make docs`"
    assert build.broken_links() == []


def test_the_readmes_python_names_exist():
    code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert len(code) >= 2
    names = set(re.findall(r"pgig\.(\w+)\(", "".join(code)))
    assert names
    assert names <= set(pgig.__all__)


def test_the_report_needs_no_torch():
    parts = sorted(path.stem for path in (ROOT / "src" / "pgig" / "report").glob("*.py") if path.stem != "__init__")
    loads = "; ".join(f"import pgig.report.{part}" for part in parts)
    code = f"import sys; {loads}; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_the_example_runs(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import own_explainer

    own_explainer.main(images=2)
    assert "occlusion" in capsys.readouterr().out
