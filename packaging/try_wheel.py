"""Install what `make dist` built where nothing else is, and try it: `python packaging/try_wheel.py dist`

The wheel by itself and with each extra, and the sdist; each in a virtual environment and a folder of its own, without
the repository. The core alone must do without Pillow and typer.
"""

import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
LARGEST = 15 * 2**20  # bytes of a wheel
CORE = """
import importlib.util, sys
import torch, pgig
for absent in ("PIL", "typer", "matplotlib"):
    assert importlib.util.find_spec(absent) is None, absent
model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)).eval()
patterns = pgig.estimate_patterns(model, [torch.randn(200, 2)])
patterns.save("patterns.safetensors")
a = pgig.attribute("pgig", model, torch.ones(1, 2), patterns=pgig.Patterns.load("patterns.safetensors"))
assert a.shape == (1, 2)
assert pgig.heatmap(torch.randn(3, 8, 8)).shape == (8, 8, 3)
print("core", pgig.__version__)
"""
CLI = """
from PIL import Image
from skimage import data
Image.fromarray(data.chelsea()).save("cat.png")
"""
TRIED: dict[str, Sequence[Sequence[str]]] = {
    "": [["python", "-c", CORE]],
    "cli": [
        ["pgig", "--version"], ["pgig", "stress"], ["python", "-c", CLI], ["pgig", "explain", "cat.png"],
        ["pgig", "bench", "--images", ".", "--methods", "gradient", "--measures", "morf", "--out", "run"],
        ["pgig", "report", "run", "--out", "report"],
    ],
    "app": [["pgig", "app", "--help"], ["python", "-c", "import anywidget, gradio, pgig.app.serve, pgig.app.widget"]],
    "ray": [["python", "-c", "import ray, pgig.runs.backends.ray"]],
    "timm": [["python", "-c", "import importlib.metadata as m; m.version('timm'); import pgig.vision.elsewhere"]],
    "hf": [["python", "-c", "import transformers, pgig.vision.elsewhere"]],
    "docs": [["python", "-c", "import mkdocs, mkdocstrings, jupytext, nbclient"]],
}  # fmt: skip


def main(folder: Path) -> None:
    wheels, sdists = list(folder.glob("*.whl")), list(folder.glob("*.tar.gz"))
    if not len(wheels) == len(sdists) == 1:
        sys.exit(f"{folder} must have one wheel and one sdist: make dist")
    wheel, sdist = wheels[0], sdists[0]
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size / 2**20:.1f} MB")
    if size > LARGEST:
        sys.exit(f"larger than {LARGEST / 2**20:.0f} MB")
    for extra, commands in TRIED.items():
        tried(wheel, extra, commands)
    tried(sdist, "", TRIED[""])
    print("wheel and sdist install, and do what they should")


def tried(package: Path, extra: str, commands: Sequence[Sequence[str]]) -> None:
    asked = f"pgig[{extra}] @ {package.resolve().as_uri()}" if extra else f"pgig @ {package.resolve().as_uri()}"
    print(f"{package.name}{f' with {extra}' if extra else ''}", flush=True)
    with TemporaryDirectory() as folder:
        venv.create(Path(folder) / "venv", with_pip=True)
        binaries = Path(folder) / "venv" / "bin"
        own = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "PGIG_CACHE": folder}
        for name in ("PYTHONPATH", "VIRTUAL_ENV"):
            own.pop(name, None)
        install = ["python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(CONSTRAINTS)]
        if package.suffix == ".whl":  # no compiler is needed
            install.append("--only-binary=:all:")
        for command in ([*install, asked], *commands):
            done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{' '.join(command)[:200]} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
