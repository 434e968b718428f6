"""Patterns that are found again: packed ones, those in the cache, and what commands and Python do with "auto"."""

import os
import time
from pathlib import Path

import pytest
import torch
from commands import FACTORY, noise_picture, run
from networks import NETWORKS, images, network

import pgig
from pgig.patterns.health import Health, LayerHealth
from pgig.patterns.kept import cache_folder, find_file, keep_patterns, shipped_files
from pgig.patterns.packed import is_packed, load_packed, packed_about, save_packed
from pgig.vision.models import load_model

# few images, and networks without joins
pytestmark = pytest.mark.filterwarnings("ignore::pgig.PgigWarning")
SMALL = ("--model", "net:make", "--size", "32", "--resize", "32")


@pytest.mark.parametrize("net", NETWORKS)
@pytest.mark.parametrize("joins", ["summed", "shared"])
def test_packing_loses_no_more_than_sixteen_bits(net, joins, tmp_path):
    """And w.p is what it was: rounding does not change what a pattern restores."""
    model = network(net).float()
    patterns = pgig.estimate_patterns(model, [images(16).float()], joins=joins)
    save_packed(patterns, model, tmp_path / "p.safetensors")
    packed = load_packed(tmp_path / "p.safetensors", model)
    assert packed.keys() == patterns.keys()
    assert (packed.digest, packed.layers, packed.facts.keys()) == (
        patterns.digest, patterns.layers, patterns.facts.keys(),
    )  # fmt: skip
    weights = {n.removesuffix(".weight"): p.detach() for n, p in model.named_parameters()}
    for name, pattern in patterns.items():
        scale = pattern.flatten(1).abs().amax(1).clamp_min(1e-9)
        off = (packed[name] - pattern).flatten(1).abs().amax(1) / scale
        assert float(off.median()) < 2**-15
        if name in weights and weights[name].shape == pattern.shape:
            product = [(weights[name].double() * p.double()).flatten(1).sum(1) for p in (pattern, packed[name])]
            torch.testing.assert_close(product[1], product[0], atol=1e-6, rtol=1e-6)


def test_packed_files_are_refused_for_other_weights_and_when_damaged(tmp_path):
    model = network("chain").float()
    path = tmp_path / "p.safetensors"
    save_packed(pgig.estimate_patterns(model, [images(8).float()]), model, path)
    assert is_packed(path)
    other = network("chain").float()
    with torch.no_grad():
        next(other.parameters()).add_(1)
    with pytest.raises(pgig.PgigError, match="other weights"):
        load_packed(path, other)
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(pgig.PgigError, match="damaged"):
        load_packed(path, model)
    with pytest.raises(pgig.PgigError, match="packed"):
        pgig.Patterns.load(path)


def test_the_newest_of_the_weights_and_the_regime_is_found(own_cache):
    model, other = network("chain").float(), network("chain").float()
    with torch.no_grad():
        next(other.parameters()).add_(1)
    batches = [images(8).float()]
    assert find_file(model) is None
    with pytest.raises(pgig.PgigError, match="no patterns of these weights are kept"):
        pgig.attribute("pgig", model, images().float(), patterns="auto")
    found = {}
    for number, regime in enumerate(("linear", "positive", "linear")):
        patterns = pgig.estimate_patterns(model, [batches[0] + number], regime=regime)
        found[number] = keep_patterns(patterns.with_facts(regime=regime))
        os.utime(found[number], (time.time() + number, time.time() + number))
    assert cache_folder() == own_cache
    assert find_file(model).path == found[2]
    assert find_file(model, "positive").path == found[1]
    assert find_file(model, "centred") is None
    assert find_file(other) is None
    x = images().float()
    auto = pgig.attribute("pgig", model, x, patterns="auto")
    assert torch.equal(auto, pgig.attribute("pgig", model, x, patterns=pgig.Patterns.load(found[2])))
    with pytest.raises(pgig.PgigError, match="without a digest"):
        keep_patterns(pgig.Patterns({}))
    with pytest.raises(pgig.PgigError, match=r"expected pgig\.Patterns"):
        keep_patterns({})


def test_what_comes_with_pgig_says_what_it_is():
    (path,) = shipped_files()
    about = packed_about(path)
    assert about["facts"]["images"] == 500
    assert about["facts"]["quality_from"].endswith("on the other 100")
    model = load_model("efficientnet_lite0")
    patterns = load_packed(path, model)
    live = [layer for layer in patterns.layers.values() if layer.dead < layer.units]
    assert max(layer.error for layer in live) < 1e-4
    assert path.stat().st_size < 12e6
    assert pgig.find_patterns(model, "auto").content_digest() == patterns.content_digest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    import numpy

    (tmp_path / "net.py").write_text(FACTORY)
    rng = numpy.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    for number in range(6):
        noise_picture(rng).save(tmp_path / "photos" / f"{number}.png")
    return tmp_path


def test_commands_find_what_the_patterns_command_kept(folder, own_cache):
    done = run(folder, "patterns", *SMALL, "--images", "photos")
    assert done.returncode == 0, done.stderr
    assert "verdict: " in done.stdout
    assert "max |w.p-1|" not in done.stdout
    (kept,) = (own_cache / "patterns").rglob("*.safetensors")
    assert not list(folder.glob("*.safetensors"))  # no file was asked for, and no checkpoint is left
    done = run(folder, "explain", "photos/0.png", *SMALL, "--methods", "pgig", "--steps", "2", "--save-arrays")
    assert done.returncode == 0, done.stderr
    assert f"patterns: {kept}, kept on this machine" in done.stderr.replace("\n", " ")
    digest = pgig.Explanation.load(folder / "explained" / "0" / "pgig.safetensors").patterns_digest
    assert digest == pgig.Patterns.load(kept).content_digest()
    run_folder = folder / "run"
    call = ("--images", "photos", "--methods", "pgig", "--patch", "8", "--steps", "4", "--out", str(run_folder))
    assert run(folder, "degrade", *SMALL, *call).returncode == 0
    assert digest in (run_folder / "config.toml").read_text()
    done = run(folder, "explain", "photos/0.png", *SMALL, "--methods", "pgig", "--patterns", "none")
    assert done.returncode == 2
    done = run(folder, "patterns", *SMALL, "--images", "photos", "--table", "--out", "p.safetensors")
    assert "max |w.p-1|" in done.stdout
    assert (folder / "p.safetensors").exists()


def layer(**changed: object) -> LayerHealth:
    known = {"regime": "positive", "units": 10, "samples": 100, "active_share": 0.5, "dead": 0, "weak": 0,
             "negative": 0, "largest": 1.0, "error": 1e-7, "few": 0}  # fmt: skip
    return LayerHealth(**{**known, **changed})


@pytest.mark.parametrize(
    ("changed", "facts", "told"),
    [
        ({}, {}, "good: 2 layers"),
        ({"dead": 2}, {}, "good"),
        ({"dead": 6}, {}, "doubtful in 1 of 2 layers: odd (60% of the units dead)"),
        ({"weak": 2, "negative": 1}, {}, "odd (30% of the units weak)"),
        ({"few": 5}, {}, "odd (50% of the units seen too few times); give more images"),
        ({"largest": 1e4}, {}, "odd (max |p| 1e+04)"),
        ({}, {"quality": {"odd": [0.5, 0.2, 0.0]}}, "odd (rho 0.20, the weight's own is 0.50)"),
        ({}, {"quality": {"odd": [0.5, 0.7, 0.0]}}, "good"),
        ({}, {"paths": 1e9}, "attributions may explode"),
    ],
)
def test_the_verdict_is_one_line(changed, facts, told):
    verdict = Health({"even": layer(), "odd": layer(**changed)}, facts).verdict
    assert told in verdict
    assert "\n" not in verdict


def test_a_run_goes_on_with_the_patterns_that_it_began_with(folder):
    assert run(folder, "patterns", *SMALL, "--images", "photos").returncode == 0
    call = ("--images", "photos", "--methods", "pgig", "--patch", "8", "--steps", "4", "--out", "run")
    assert run(folder, "degrade", *SMALL, *call).returncode == 0
    assert run(folder, "patterns", *SMALL, "--images", "photos", "--limit", "3").returncode == 0
    again = run(folder, "degrade", *SMALL, *call)
    assert again.returncode == 0, again.stderr


def test_a_damaged_file_in_the_cache_is_passed_over(folder, own_cache):
    assert run(folder, "patterns", *SMALL, "--images", "photos").returncode == 0
    (kept,) = (own_cache / "patterns").rglob("*.safetensors")
    damaged = kept.with_name("auto-1234.safetensors")
    damaged.write_bytes(b"no")
    os.utime(damaged, (time.time() + 9, time.time() + 9))
    done = run(folder, "explain", "photos/0.png", *SMALL, "--methods", "pgig", "--steps", "2")
    assert done.returncode == 0, done.stderr
    assert "is damaged, and passed over" in done.stderr


def test_a_cache_that_cannot_be_written_is_noticed_before_the_work(folder, monkeypatch):
    (folder / "file").touch()
    monkeypatch.setenv("PGIG_CACHE", str(folder / "file"))
    done = run(folder, "patterns", *SMALL, "--images", "photos")
    assert done.returncode == 2
    assert "give --out FILE, or another folder in PGIG_CACHE" in done.stderr
    assert not list(folder.glob("*.moments.safetensors"))
    done = run(folder, "patterns", *SMALL, "--images", "photos", "--out", "p.safetensors")
    assert done.returncode == 0, done.stderr
    assert "not kept: " in done.stdout


def test_patterns_that_nobody_needs_are_not_looked_for():
    model, x = network("chain").float(), images().float()
    assert pgig.attribute("gradient", model, x, patterns="auto") is not None
    assert pgig.explain(model, x, "gradient", patterns="auto")["gradient"].patterns_digest is None


def test_packed_patterns_of_another_model_are_refused_in_words(folder):
    (shipped,) = shipped_files()
    call = ("explain", "photos/0.png", *SMALL, "--methods", "pgig", "--patterns", str(shipped))
    done = run(folder, *call)
    assert done.returncode == 2
    assert "these patterns were estimated for other weights" in done.stderr
    done = run(folder, *call, "--force")
    assert done.returncode == 2
    assert "which this model does not have" in done.stderr
