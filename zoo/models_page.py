"""docs/models.md, from what `make zoo` found."""

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "models.md"
HEAD = """# Every model that people have

`pgig check --model ...` (or `pgig.check(model, example)`) says of a model what is in this table: which gates it has,
which of its layers get patterns, and whether the rules can be trusted on it. The table is what `make zoo` found: one
small variant of each family, with random weights, through

- `check`, with its self-test;
- the gradient against autograd's, and patterns of ones against the gradient (in float64, where the model runs in that);
- guided backpropagation, soft gates too, against hooks at modules, where all its gates are modules;
- patterns estimated from 16 inputs, and PGIG with them: finite, and not zero;
- the plan of incremental inference against the model, a patch of noise in the middle of the image.

Coverage is the share of the layers' weights that have patterns. Paths count the ways on which branches that are added
come from the input: patterns restore the signal on each, so that attributions grow with them unless joins are shared
([patterns](patterns.md#joins)). The last column has how many times fewer multiply-adds a degradation step takes in
windows, and from where on the model is computed whole. "none seen" are gates that a model writes out in its own
arithmetic.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    found = [json.loads(path.read_text()) for path in sorted(parser.parse_args().results.glob("*.json"))]
    verdicts = Counter(one["verdict"] for one in found)
    told = ", ".join(f"{verdicts.get(word, 0)} {word}" for word in ("right", "refused", "wrong", "crashed"))
    lines = [HEAD, f"{len(found)} families: {told}.", "", *_troubles(found), *_table(found)]
    PAGE.write_text("\n".join(lines) + "\n")
    print(f"wrote {PAGE}: {told}")


def _troubles(found: list[dict[str, Any]]) -> list[str]:
    lines = []
    for one in found:
        if one["verdict"] != "right":
            reasons = [*one.get("crashed", []), *one.get("wrong", []), *one.get("refused", [])]
            lines.append(f"- {one['source']}, {one['name']}: {one['verdict']}. {reasons[0]}")
    return [*lines, ""] if lines else []


def _table(found: list[dict[str, Any]]) -> list[str]:
    lines = ["| family | variant | gates | coverage | paths | verdict | multiply-adds saved |", "| --- " * 7 + "|"]
    for one in found:
        gates = ", ".join(f"{name} {count}" for name, count in one.get("gates", {}).items()) or "none seen"
        plan = one.get("plan", "").replace("|", "/")
        lines.append(
            f"| {one['source']}: {one['name']} | {one.get('variant', '')} | {gates} | {one.get('coverage', 0):.0%} "
            f"| {one.get('paths', 1):.2g} | {one['verdict']} | {plan} |"
        )
    return lines


if __name__ == "__main__":
    main()
