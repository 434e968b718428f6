"""The study's analysis and page, on made-up tables whose answers are known."""

import csv
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "study"))
import analysis
import aside_tables
import settings
import study_page
import study_tables
from analysis import Network
from measured import Results, read_results

PHOTOGRAPHS = [f"{number:03}.jpg" for number in range(40)]
FEW = PHOTOGRAPHS[:12]
LEVELS = {
    "random": 0.5,
    "good": 0.1,
    "candidates:removal_consensus": 0.12,
    "candidates:removal_control": 0.3,
    "bad": 0.9,
}
LOWER = {"morf": True, "lerf": False, "insertion": False, "deletion": True, "road": True, "sensitivity_n": False,
         "infidelity": True}  # fmt: skip

Write = Callable[[str, Iterable[str], Sequence[str], Sequence[str]], None]


def noise(*of: str) -> float:
    return float(numpy.random.default_rng([ord(letter) for letter in "".join(of)]).normal(0, 0.05))


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A table of a network named `net`: photographs, methods and measures, at the methods' levels."""

    def written(name: str, photographs: Iterable[str], methods: Sequence[str], labels: Sequence[str]) -> None:
        (tmp_path / "net").mkdir(exist_ok=True)
        with (tmp_path / "net" / f"{name}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["photograph", "method", *labels])
            for photograph in photographs:
                for method in methods:
                    levels = [LEVELS.get(method, 0.5) + noise(photograph, method, label) for label in labels]
                    signed = [
                        v if LOWER[label.split("+")[0]] else 1 - v for v, label in zip(levels, labels, strict=True)
                    ]
                    rows.writerow([photograph, method, *signed])

    return written


@pytest.fixture
def results(write: Write, tmp_path: Path) -> Results:
    few = [label for label in settings.FAITHFULNESS if label not in settings.MAIN]
    write("main-0", PHOTOGRAPHS[:20], list(LEVELS), settings.MAIN)
    write("main-1", PHOTOGRAPHS[20:], list(LEVELS), settings.MAIN)
    write("further-0", FEW, list(LEVELS), few)
    write("main-quality-0", PHOTOGRAPHS[:20], ["pgig"], settings.MAIN)
    write("further-quality-0", FEW, ["pgig"], few)
    return read_results(tmp_path, "net")


def test_tables_are_put_together_and_methods_named(results):
    assert results.methods == ["random", "good", "removal_consensus", "removal_control", "bad", "pgig, quality"]
    assert len(results.run(settings.MAIN, ["good"]).images) == 40
    assert len(results.run(settings.FAITHFULNESS, ["good"]).images) == 12
    assert len(results.run(settings.MAIN, ["good", "pgig, quality"]).images) == 20


def test_what_was_measured_less_is_compared_on_what_it_shares(results):
    assert "pgig, quality" not in analysis.compared(results)
    assert "pgig, quality" in analysis.begun(results)
    assert Network(results).counts == "40 and 12"
    assert Network(results, of=analysis.begun).counts == "20 and 12"
    assert analysis.with_slow(results) == []


def test_the_slow_ones_are_tested_beside_all_others_on_the_few(results, write, tmp_path):
    write("slow-0", FEW, settings.SLOW, settings.FAITHFULNESS)
    found = Network(read_results(tmp_path, "net"), of=analysis.with_slow)
    assert set(found.ranking.methods) == {*analysis.begun(results), *settings.SLOW}
    assert found.counts == "12 and 12"
    assert settings.SLOW[0] not in Network(found.results).ranking.methods


def test_the_best_group_and_a_win(results):
    network = Network(results)
    best, near, bad = (network.standings[m] for m in ("good", "removal_consensus", "bad"))
    assert len(best.best_in) == len(best.of) == 7
    assert best.wins
    assert not bad.best_in
    assert not bad.wins
    assert best.mean_rank <= near.mean_rank < bad.mean_rank
    assert network.standings["bad"].mean_rank == 5


def test_measures_on_many_and_on_few_do_not_hide_each_other(results):
    few = Network(results, images=tuple(FEW))
    assert sorted(cell.label for cell in few.ranking.cells) == sorted(settings.FAITHFULNESS)


def test_worse_than_random_is_one_sided(results):
    found = Network(results).worse_than_random
    assert {worse.method for worse in found} == {"bad"}
    assert {worse.label for worse in found} == set(settings.FAITHFULNESS)
    assert all(worse.by == pytest.approx(0.4, abs=0.05) and worse.p < 0.05 for worse in found)


def test_the_answer_says_where_it_fails(results):
    network = Network(results)
    study_tables_titles = {**study_tables.TITLES, "net": "the network"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study_tables, "TITLES", study_tables_titles)
        assert study_tables.verdict("good", [network], [network]) == (
            "Yes: `good` is in the best group under 7 of 7 on the network; nowhere worse than random."
        )
        lost = study_tables.verdict("bad", [network], [network])
        assert lost.startswith(
            "No: `bad` is in the best group under 0 of 7 on the network; worse than random under `morf`"
        )
        assert "random too" not in study_tables.best_table(network)
        assert "**+" in study_tables.control_table([("the network", network)])


def test_only_what_goes_on_can_be_chosen(results):
    assert analysis.chosen(Network(results).standings) == "removal_consensus"
    with pytest.raises(RuntimeError, match="was stopped"):
        analysis.chosen({"pgig, quality": Network(results).standings["good"]})


def test_the_papers_order_agrees_with_itself(write, tmp_path):
    order = {method: -place for method, place in analysis.PAPER_ORDER.items()}
    for method, place in order.items():
        LEVELS[method] = LEVELS.get(method, 0.5) if method == "random" else 0.5 + place / 20
    try:
        write("main-0", PHOTOGRAPHS, list(order), settings.MAIN)
        run = read_results(tmp_path, "net").run(["morf"], list(order))
    finally:
        for method in set(order) - {"random"}:
            del LEVELS[method]
    assert analysis.paper_agreement(run) > 0.85
    assert len(analysis.PAPER_ORDER) == 11


def test_patterns_by_number_of_photographs(tmp_path):
    (tmp_path / "patterns").mkdir()
    areas = {"10 photographs": 0.6, "50 photographs": 0.31, "250 photographs": 0.3, "noise": 0.7}
    with (tmp_path / "patterns" / "net.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["patterns", "photograph", "animal", "method", "morf", "correlation"])
        for name, area in areas.items():
            for photograph in FEW:
                for method in ("pgig", "pgig+absolute"):
                    rows.writerow([name, photograph, photograph < "006.jpg", method, area + noise(photograph), 0.9])
    with (tmp_path / "patterns" / "net-verdicts.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["patterns", "images", "layers", "doubtful", "doubtful by rho too", "verdict"])
        for name, doubtful in zip(areas, (3, 0, 0, 5), strict=True):
            rows.writerow([name, name.split()[0] if "photo" in name else 250, 9, doubtful, doubtful + 2, "words"])
    found = aside_tables.from_data(tmp_path, "net")
    assert [each.doubtful for each in found] == [(3, 5, 9), (0, 2, 9), (0, 2, 9), (5, 7, 9)]
    assert len(found[0].animals) == 6
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aside_tables, "TITLES", {"net": "the network"})
        assert aside_tables.good_from(tmp_path, ["net"]) == (
            "the network: MoRF of PGIG's sizes is within the interval of that by 250 from 50 photographs on; "
            "the report says good at 50, 250, and with held-out images at none."
        )
    assert aside_tables.from_data(tmp_path, "other") == []


def test_an_interval_over_draws_holds_its_mean():
    told = aside_tables.over_draws([[0.6, 0.7], [0.5, 0.8], [0.6, 0.6]])
    assert told.mean == pytest.approx(0.6333, abs=1e-3)
    assert told.low < told.mean < told.high
    assert aside_tables.over_draws([[0.4, 0.4]] * 3).low == pytest.approx(0.4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_page_is_written_from_the_published_tables(tmp_path):
    """All of it, with its figures; nothing is left to fill in."""
    study_page.write_page(docs=tmp_path)
    text = (tmp_path / "study.md").read_text()
    assert "<<" not in text
    pictures = {line.split("](")[1].rstrip(")") for line in text.splitlines() if line.startswith("![")}
    assert pictures
    assert all((tmp_path / picture).is_file() for picture in pictures)
