"""What a paper needs of a report: tables in LaTeX, the entries of its bibliography, and a paragraph on the methods."""

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from pgig.files import written
from pgig.report.run import Run
from pgig.statistics import MANY, RESAMPLES, Interval, shown

_OF_METHODS = {
    "gradient": "simonyan2014deep", "gradient_x_input": "shrikumar2017learning", "smoothgrad": "smilkov2017smoothgrad",
    "smoothgrad_ig": "smilkov2017smoothgrad", "smoothgrad_squared": "hooker2019benchmark",
    "vargrad": "adebayo2018local",
    "integrated_gradients": "sundararajan2017axiomatic", "expected_gradients": "erion2021improving",
    "pattern_attribution": "kindermans2018learning", "patternnet": "kindermans2018learning",
    "integrated_pattern_attribution": "kindermans2018learning", "guided_backprop": "springenberg2015striving",
    "occlusion": "zeiler2014visualizing", "igos": "qi2020visualizing", "smooth_taylor": "goh2021understanding",
}  # fmt: skip


def write_publication(runs: Mapping[str, Run], out: Path, sections: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """report.tex, references.bib and methods.txt; gives the paragraph and what was cited."""
    keys = cited(runs)
    paragraph = " ".join(_paragraph(name, run) for name, run in runs.items())
    _write(out / "report.tex", "\n\n".join(_tables(section) for section in sections) + "\n")
    _write(out / "references.bib", "\n".join(_entries(keys)))
    _write(out / "methods.txt", paragraph + "\n")
    return {"paragraph": paragraph, "cited": ", ".join(keys)}


def cited(runs: Mapping[str, Run]) -> list[str]:
    methods = [_OF_METHODS.get(m.partition("+")[0]) for run in runs.values() for m in run.methods]
    measures = [key for run in runs.values() for asked in run.asked.values() for key in asked.measure.sources]
    return list(dict.fromkeys(["schwarzenberg2020pgig", *(key for key in methods if key), *measures]))


def _entries(keys: Sequence[str]) -> list[str]:
    text = files("pgig.report").joinpath("references.bib").read_text(encoding="utf-8")
    known = {re.match(r"@\w+\{([^,]+),", entry)[1]: entry for entry in re.findall(r"@\w+\{.*?\n\}\n", text, re.S)}  # type: ignore[index]
    return [known[key] for key in keys]


def _paragraph(name: str, run: Run) -> str:
    """All constants, in plain words."""
    images, scores = run.config["images"], run.config["degradation"]
    scored = "predicted" if scores.get("scored", "predicted") == "predicted" else "labelled"
    said = [
        f"In {name}, {len(run.images)} images were brought to {images['size']} x {images['size']} pixels and explained "
        f"for {run.config['model']['model']} by {len(run.methods)} methods ({', '.join(run.methods)}), each for the "
        f"{scored} class, with the {scores['score']} as score and the seed {scores.get('order_seed', 0)}."
    ]
    for label, asked in run.asked.items():
        constants = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in asked.constants.items())
        about = asked.measure.about[0].lower() + asked.measure.about[1:]
        said.append(
            f"{label}: {about}{f' ({constants})' if constants else ''}; ranked by its {asked.measure.ranks_by}, "
            f"{asked.measure.better} is better."
        )
    said.append(
        f"Intervals are 95 % bootstrap intervals over images ({RESAMPLES} resamples; of more than {MANY} images by "
        "normal theory), not corrected for their number; methods were compared in pairs by image, with sign-flip tests "
        "of the mean difference and sign tests, each corrected by Holm's method over all pairs."
    )
    return " ".join(said)


def _tables(section: Mapping[str, Any]) -> str:
    found = []
    for measure in section["measures"]:
        head = " & ".join(["Method", *(_tex(name) for name in measure["head"])])
        rows = [
            " & ".join(_bold(text, method == measure["best"]) for text in [_tex(method), *map(_cell, row.values())])
            for method, row in measure["table"].items()
        ]
        better = f"{measure['better'].capitalize()} {_tex(measure['column'])} is better"
        body = " \\\\\n    ".join(rows)
        found.append(
            f"\\begin{{table}}\n  \\centering\n  \\caption{{{_tex(measure['label'])} on {section['images']} images "
            f"({_tex(section['name'])}): {_tex(measure['about'])}. {better}; "
            f"means with uncorrected 95\\,\\% intervals.}}\n"
            f"  \\begin{{tabular}}{{l{'r' * len(measure['head'])}}}\n    \\toprule\n    {head} \\\\\n    \\midrule\n"
            f"    {body} \\\\\n    \\bottomrule\n  \\end{{tabular}}\n\\end{{table}}"
        )
    return "\n\n".join(found)


_SPECIAL = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
}


def _tex(text: str) -> str:
    return "".join(_SPECIAL.get(c, c) for c in text)


def _cell(found: Interval) -> str:
    return f"{shown(found.mean)}\\,[{shown(found.low)}, {shown(found.high)}]"


def _bold(text: str, wanted: bool) -> str:
    return f"\\textbf{{{text}}}" if wanted else text


def _write(path: Path, text: str) -> None:
    with written(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
