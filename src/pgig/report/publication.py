"""What a paper needs of a report: tables in LaTeX, the entries of its bibliography, and a paragraph on the methods."""

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from pgig.files import written
from pgig.report.ranking import ALPHA
from pgig.report.ranking import RESAMPLES as RANKING_RESAMPLES
from pgig.report.run import Run
from pgig.statistics import BAND_RESAMPLES, FLIPS_A_PAIR, MANY, RESAMPLES, Interval, shown

_OF_METHODS = {
    "gradient": "simonyan2014deep", "gradient_x_input": "shrikumar2017learning", "smoothgrad": "smilkov2017smoothgrad",
    "smoothgrad_ig": "smilkov2017smoothgrad", "smoothgrad_squared": "hooker2019benchmark",
    "vargrad": "adebayo2018local",
    "integrated_gradients": "sundararajan2017axiomatic", "expected_gradients": "erion2021improving",
    "pattern_attribution": "kindermans2018learning", "patternnet": "kindermans2018learning",
    "integrated_pattern_attribution": "kindermans2018learning", "guided_backprop": "springenberg2015striving",
    "occlusion": "zeiler2014visualizing", "igos": "qi2020visualizing", "smooth_taylor": "goh2021understanding",
}  # fmt: skip


_OF_TESTS = "holm1979simple"
_OF_RANKINGS = "demsar2006statistical"
_NEEDS = "% these tables need \\usepackage{booktabs}"


def write_publication(
    runs: Mapping[str, Run], out: Path, sections: Sequence[Mapping[str, Any]], ranking: Mapping[str, Any] | None
) -> dict[str, str]:
    """report.tex, references.bib and methods.txt; gives the paragraph and what was cited."""
    keys = [*cited(runs), _OF_TESTS, *([_OF_RANKINGS] if ranking else [])]
    said = [_paragraph(name, run) for name, run in runs.items()] + [_STATISTICS, *([_RANKED] if ranking else [])]
    paragraph = " ".join(said)
    tables = [*([_ranking_table(ranking)] if ranking else []), *(_tables(section) for section in sections)]
    _write(out / "report.tex", "\n\n".join([_NEEDS, *tables]) + "\n")
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
    return [known[key] for key in keys if key in known]  # somebody's own measure may have sources of its own


def _paragraph(name: str, run: Run) -> str:
    """All constants, in plain words."""
    images, scores = run.config["images"], run.config["degradation"]
    scored = "predicted" if scores.get("scored", "predicted") == "predicted" else "labelled"
    said = [
        f"In {name}, {len(run.images)} images were resized to {images.get('resize', images['size'])} pixels on the "
        f"short side, cropped to {images['size']} x {images['size']}, normalised with mean {images.get('mean', '')} "
        f"and deviation {images.get('std', '')}, and explained for {run.config['model']['model']} by "
        f"{len(run.methods)} methods ({', '.join(run.methods)}; constants that a name does not give are those of pgig "
        f"{run.config.get('versions', {}).get('pgig', '')}), each for the {scored} class, with the {scores['score']} "
        f"as score and the seed {scores.get('order_seed', 0)}."
    ]
    for label, asked in run.asked.items():
        unused = {"patch": "segments", "superpixel": "across", "pixel": "across"}.get(
            asked.constants.get("unit", ""), ""
        )
        constants = ", ".join(
            f"{key.replace('_', ' ')} {value}" for key, value in asked.constants.items() if key != unused
        )
        about = asked.measure.about[0].lower() + asked.measure.about[1:]
        ranked = f"ranked by its {asked.measure.ranks_by}, {asked.measure.better} is better"
        said.append(
            f"{label}: {about}{f' ({constants})' if constants else ''}; "
            f"{'a control' if asked.measure.role == 'control' else ranked}."
        )
    return " ".join(said)


_STATISTICS = (
    f"Intervals are 95 % bootstrap intervals over images ({RESAMPLES} resamples, {BAND_RESAMPLES} for curves; of more "
    f"than {MANY} images by normal theory), not corrected for their number; methods were compared in pairs by image, "
    f"with sign-flip tests of the mean difference (at least {RESAMPLES} flips, {FLIPS_A_PAIR} for each pair) and sign "
    "tests, each corrected by Holm's method over all pairs."
)
_RANKED = (
    "Methods were ranked in each setting (a measure of a run) by their means, and ranks averaged over settings, with "
    f"95 % intervals over images drawn anew {RANKING_RESAMPLES} times, the same for all measures and for runs on the "
    "same images; the best group of a setting are the methods that a sign-flip test against its best does not tell "
    f"apart (Holm over the others, p < {ALPHA}); critical differences of mean ranks are Nemenyi's."
)


def _ranking_table(ranking: Mapping[str, Any]) -> str:
    rows = []
    for number, method in enumerate(ranking["methods"]):
        found = ranking["mean_ranks"][method]
        cells = [_tex(method), f"{found.mean:.2f}\\,[{found.low:.2f}, {found.high:.2f}]",
                 f"{ranking['in_best_group'][method]} of {ranking['count']}", ranking["span"][method]]  # fmt: skip
        rows.append(" & ".join(_bold(cell, number == 0) for cell in cells))
    return _table(
        f"Mean rank over {ranking['count']} settings, with uncorrected 95\\,\\% intervals; in how many a method is in "
        "the best group; its place when any one measure is left out.",
        ["Method", "Mean rank", "Best group", "Place"], rows,
    )  # fmt: skip


def _tables(section: Mapping[str, Any]) -> str:
    found = []
    for measure in section["measures"]:
        rows = [
            " & ".join(_bold(text, method in measure["tied"]) for text in [_tex(method), *map(_cell, row.values())])
            for method, row in measure["table"].items()
        ]
        better = f"{measure['better'].capitalize()} {_tex(measure['column'])} is better"
        caption = (
            f"{_tex(measure['label'])} on {section['images']} images ({_tex(section['name'])}): "
            f"{_tex(measure['about'])}. {better}; means with uncorrected 95\\,\\% intervals."
        )
        found.append(_table(caption, ["Method", *(_tex(name) for name in measure["head"])], rows))
    return "\n\n".join(found)


def _table(caption: str, head: Sequence[str], rows: Sequence[str]) -> str:
    body = " \\\\\n    ".join(rows)
    return (
        f"\\begin{{table}}\n  \\centering\n  \\caption{{{caption}}}\n  \\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}\n"
        f"    \\toprule\n    {' & '.join(head)} \\\\\n    \\midrule\n    {body} \\\\\n    \\bottomrule\n"
        "  \\end{tabular}\n\\end{table}"
    )


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
