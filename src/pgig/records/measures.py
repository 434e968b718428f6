"""The table of measures: a line each, with its constants and where they come from. Who judges is in `pgig.measures`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from pgig.errors import PgigError
from pgig.plugins import open_table
from pgig.records.measure import AskedMeasure, Better, Column, Constant, Measure, Number, Records
from pgig.statistics import aopc, auc, score_at

_PAPER = "Schwarzenberg & Castle 2020"
_POINTS = 10, 30, 100  # patches after which the score is reported

_PATCH = Constant("patch", 9, "side of a patch, in pixels", _PAPER)
_FILL = Constant("fill", "mean", "what replaces a patch", f"{_PAPER}: its own mean")
_PROTOCOL = (
    _PATCH,
    Constant("steps", 100, "scores to take", _PAPER),
    Constant("patches_per_step", 1, "patches to replace between two scores", _PAPER),
    _FILL,
    Constant("departure", "paper", "protocol: the paper's, or the released code's", _PAPER),
)
_UNITS = (
    Constant("unit", "patch", "what goes at a step: patch, pixel (a row's worth) or superpixel", "RISE takes pixels"),
    Constant("across", 14, "patches along the shorter side, or a few more", "as a vision transformer's at 224 pixels"),
    Constant(
        "segments",
        100,
        "superpixels to ask for, by SLIC with compactness 10 and sigma 1",
        "SLIC as in IROF (Rieger & Hansen 2020), fewer segments",
    ),
)


def _after(patches: int) -> Callable[[Records, int], NDArray[numpy.float64] | None]:
    def score(curves: Records, each: int) -> NDArray[numpy.float64] | None:
        steps = curves.shape[-1] - 1
        return score_at(curves, patches // each) if patches % each == 0 and patches // each <= steps else None

    return score


def _number(name: str, place: int, better: Better) -> Column:
    return Column(name, lambda records, _: numpy.asarray(records[:, place], dtype=numpy.float64), better)


def _area(better: Better) -> Column:
    return Column("AUC", lambda curves, _: auc(curves), better)


def _degradation(name: str, about: str, better: Better, **more: Any) -> Measure:
    other: Better = "higher" if better == "lower" else "lower"
    columns = (
        _area(better),
        Column("AOPC", lambda curves, _: aopc(curves), other),
        *(Column(f"after {k}", _after(k), better) for k in _POINTS),
    )
    return Measure(
        name, about, columns, "mean {score} of the class", _PROTOCOL, lambda c, side: int(c["steps"]) + 1,
        "patches replaced", needs="patches", sources=("schwarzenberg2020pgig", "samek2017evaluating"), **more,
    )  # fmt: skip


def _by_units(name: str, about: str, better: Better, fill: Constant, steps: str) -> Measure:
    return Measure(
        name, about, (_area(better),), "mean {score} of the class", (*_UNITS, fill), _unit_steps, steps,
        sources=("petsiuk2018rise", "achanta2012slic"),
    )  # fmt: skip


def _unit_steps(constants: Mapping[str, Any], side: int) -> int:
    """Scores of a curve: patches one by one, pixels in as many steps as there are rows, superpixels likewise."""
    if constants["unit"] == "patch":
        return int((side // max(1, side // int(constants["across"]))) ** 2 + 1)
    return side + 1 if constants["unit"] == "pixel" else int(constants["segments"]) + 1


def road_shares(text: str) -> tuple[float, ...]:
    """Of the pixels that ROAD removes, from percentages with slashes between."""
    try:
        found = tuple(float(part) / 100 for part in text.split("/"))
    except ValueError:
        found = ()
    if found and all(0 < share < 1 for share in found):
        return found
    raise PgigError(f"shares of road must be percentages between 0 and 100, such as 10/50/90, got {text!r}")


def _road(name: str, about: str, better: Better) -> Measure:
    # a record is the score with nothing removed, then at every share; then whether the class stayed at every share
    columns = (
        Column("accuracy", lambda found, _: numpy.asarray(found[:, found.shape[1] // 2 + 1 :].mean(1)), better),
        Column("score", lambda found, _: numpy.asarray(found[:, 1 : found.shape[1] // 2 + 1].mean(1)), better),
    )
    constants = (
        Constant("noise", 0.01, "standard deviation of the noise, where white is 1", "ROAD's code"),
        Constant("shares", "10/20/30/40/50/70/90", "percentages of the pixels to remove", "Rong et al. 2022, figure 4"),
    )
    return Measure(
        name, about, columns, "share that keep the class", constants,
        lambda c, side: 2 * len(road_shares(c["shares"])) + 1,
        sources=("rong2022road",),
    )  # fmt: skip


_TABLE = (
    _degradation("morf", "The score as the most relevant patches are replaced first", "lower"),
    _degradation("lerf", "The score as the least relevant patches are replaced first", "higher"),
    Measure(
        "lerf_minus_morf", "The area between the two: least relevant first minus most relevant first",
        (_area("higher"),), "difference in {score}", _PROTOCOL, lambda c, side: int(c["steps"]) + 1, "patches replaced",
        role="derived", needs="patches", sources=("bluecher2024decoupling",),
    ),
    _degradation("random_order", "The score as patches are replaced in a random order", "lower", role="control"),
    _by_units(
        "deletion", "The score as units are deleted from the image, most relevant first, until none is left", "lower",
        Constant("fill", "0", "what is left where a unit was", "RISE: zero, the mean colour"), "units deleted",
    ),
    _by_units(
        "insertion", "The score as units are put back into the blurred image, most relevant first, until it is whole",
        "higher", Constant("fill", "rise", "what there is at first", "RISE's own blur"), "units inserted",
    ),
    _road("road", "How often the class survives as the most relevant pixels are imputed away (ROAD, as published)",
          "lower"),
    _road("road_lerf", "How often the class survives as the least relevant pixels are imputed away (ROAD)", "higher"),
    Measure(
        "sensitivity_n", "Correlation of a random set's attribution with how far the score falls without it",
        (_number("correlation", 0, "higher"),), "correlation",
        (
            _PATCH, _FILL,
            Constant("sizes", 4, "sizes of sets, from one patch to the largest, in equal ratios",
                     "a choice: Ancona et al. 2018 take more"),
            Constant("largest", 0.8, "share of the patches in the largest set", "Ancona et al. 2018"),
            Constant("draws", 100, "sets of each size", "Ancona et al. 2018"),
        ),
        lambda c, side: int(c["sizes"]) + 1, needs="patches", sources=("ancona2018towards",),
    ),
    Measure(
        "saco", "Whether groups of patches that say more weigh more, from -1 to 1 (the salience-guided coefficient)",
        (_number("coefficient", 0, "higher"),), "coefficient",
        (
            _PATCH, Constant("fill", "image_mean", "what replaces a group", "Wu et al. 2024"),
            Constant("groups", 10, "of equal size, by rank", "Wu et al. 2024"),
        ),
        lambda *_: 1, needs="patches", sources=("wu2024saco",),
    ),
    Measure(
        "infidelity", "Squared error of attributions, best scaled, as predictions of how far the score falls",
        (_number("scaled error", 0, "lower"), _number("error as it is", 1, "lower")), "squared error",
        (
            _PATCH, _FILL,
            Constant("side", 4, "squares of 1 to so many patches a side are removed", "Yeh et al. 2019: squares"),
            Constant("draws", 100, "squares of all sizes together", "between Captum's 10 and the paper's 1000"),
            Constant("product", "set", "what predicts: set, its sum in the square; input, its product with the change",
                     "Yeh et al. 2019, for attributions that have the input in them"),
        ),
        lambda *_: 2, needs="patches", sources=("yeh2019infidelity",),
    ),
    Measure(
        "max_sensitivity", "How far an attribution can move when a little noise is added to the input",
        (_number("largest change", 0, "lower"),), "relative change",
        (
            Constant("radius", 0.02, "of the noise, in normalised values", "Captum's sensitivity_max"),
            Constant("draws", 10, "noisy inputs", "Captum's sensitivity_max"),
        ),
        lambda *_: 1, needs="methods", sources=("yeh2019infidelity",),
    ),
    Measure(
        "complexity", "On how many pixels an attribution lies",
        (_number("entropy", 0, "lower"), _number("Gini", 1, "higher")), "entropy", (), lambda *_: 2,
        sources=("bhatt2020evaluating", "chalasani2020concise"),
    ),
    Measure(
        "randomization", "How like an attribution of the model is to that of a model with random weights, by size",
        (Column("rank correlation", lambda found, _: numpy.abs(found[:, 0]), "lower"),),
        "rank correlation of magnitudes", (), lambda *_: 1, needs="methods",
        sources=("adebayo2018sanity",),
    ),
    Measure(
        "localization", "How much of the attribution lies on the object",
        (_number("mass", 0, "higher"), _number("rank accuracy", 1, "higher"), _number("pointing", 2, "higher")),
        "share of the attribution in the mask", (), lambda *_: 3, needs="masks",
        sources=("zhang2018excitation", "arras2022clevr"),
    ),
)  # fmt: skip
MEASURES: dict[str, Measure] = open_table({measure.name: measure for measure in _TABLE})
BY_ORDER = {"descending": "morf", "ascending": "lerf", "random": "random_order"}
CORE = "morf", "lerf", "insertion", "deletion", "sensitivity_n", "saco", "infidelity", "complexity"


def find_measure(name: str) -> Measure:
    if name not in MEASURES:
        raise PgigError(f"unknown measure {name!r}; known: {', '.join(MEASURES)}")
    return MEASURES[name]


def asked_measures(text: str, defaults: Mapping[str, Number], masks: bool = False) -> dict[str, AskedMeasure]:
    """From names with commas between; `core` and `all` stand for several, `all` with `localization` where masks are."""
    found: dict[str, AskedMeasure] = {}
    for name in (part.strip() for part in text.split(",")):
        several: Sequence[str] = [name]
        if name in ("core", "all"):
            several = CORE if name == "core" else [n for n, m in MEASURES.items() if masks or m.needs != "masks"]
        for one in several:
            asked = asked_measure(one, defaults)
            found.setdefault(asked.label, asked)
    return found


def asked_measure(label: str, defaults: Mapping[str, Number]) -> AskedMeasure:
    """From `name` or `name+constant=value+...`; `defaults` are for every measure that has the constant."""
    name, *settings = (part.strip() for part in label.split("+"))
    measure = find_measure(name)
    known = {constant.name: constant for constant in measure.constants}
    found = {constant.name: defaults.get(constant.name, constant.default) for constant in measure.constants}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or key not in known:
            told = f"its constants are {', '.join(known)}" if known else "it has no constants"
            raise PgigError(f"{name} takes no {setting!r}: {told}; write {name}+constant=value")
        found[key] = known[key].read(value, name)
    return AskedMeasure("+".join([name, *settings]), measure, found)
