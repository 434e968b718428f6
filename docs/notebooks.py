"""Examples as pages: jupytext scripts of examples/, run, with what they print and show."""

import os
from base64 import b64decode
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

EXAMPLES_FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(EXAMPLES_FOLDER.glob("[a-z]*.py"))
SECONDS = 300  # of a cell, at most: on a busy machine; on an idle one an example takes a few


def run(example: Path) -> Any:
    """The notebook with its outputs; a cell that fails raises."""
    import jupytext
    from nbclient import NotebookClient
    from nbformat.v4 import new_code_cell

    notebook = jupytext.read(example)
    notebook.cells.insert(0, new_code_cell("%matplotlib inline"))  # figures show themselves, as in Jupyter
    with TemporaryDirectory() as folder:  # what an example writes
        client = NotebookClient(
            notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}},
            extra_arguments=["--log-level=ERROR"],
        )  # fmt: skip
        client.execute(env={**os.environ, "OMP_NUM_THREADS": "1"})  # beside others, two threads wait for each other
    del notebook.cells[0]
    return notebook


def page_of(example: Path) -> tuple[str, dict[str, bytes]]:
    """Markdown, and pictures by name."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for number, cell in enumerate(run(example).cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for place, output in enumerate(cell.outputs):
            about = cell.metadata.get("alt")  # of a cell that draws
            parts.append(_shown(output, f"{example.stem}-{number}-{place}.png", about, pictures))
    parts.append(f"*This page is `examples/{example.name}`, run as it stands.*")
    return "\n\n".join(part for part in parts if part), pictures


def _shown(output: Any, name: str, about: str | None, pictures: dict[str, bytes]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        if not about:
            raise ValueError(f"the cell that draws {name} has no alternative text: # %% alt=...")
        pictures[name] = b64decode(data["image/png"])
        return f"![{about}]({name})"
    text = output.get("text") if output.output_type == "stream" else data.get("text/plain")
    if output.output_type == "stream" and output.get("name") == "stderr":
        return ""
    return f'<div class="output" markdown>\n```text\n{text.rstrip()}\n```\n</div>' if text else ""
