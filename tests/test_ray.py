"""Ray: one result for all backends, whoever dies; on loopback, and nothing left behind."""

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import fsspec
import numpy
import pytest
from commands import FACTORY, run
from PIL import Image
from test_backends import PARTS, Made

from pgig.errors import PgigError
from pgig.patterns.patterns import Patterns
from pgig.records.part_files import read_rows
from pgig.records.parts import Part
from pgig.runs.backends.events import Done, Progress, Retried, SetAside
from pgig.runs.backends.handing import Handing
from pgig.runs.backends.ray import Ray
from pgig.runs.backends.ray_cluster import connected

pytest.importorskip("ray")
CALL = (
    "--model", "net:make", "--size", "32", "--resize", "32", "--images", "photos", "--threads", "1",
    "--methods", "gradient,vargrad,pgig",
)  # fmt: skip
BENCH = ("bench", *CALL, "--patterns", "p.safetensors", "--patch", "8", "--steps", "6", "--measures", "morf,complexity")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("ray")
    (place / "net.py").write_text(FACTORY)
    rng = numpy.random.default_rng(0)
    (place / "photos").mkdir()
    for number in range(20):
        Image.fromarray(rng.integers(0, 255, (40, 50, 3), numpy.uint8)).save(place / "photos" / f"{number:02d}.png")
    done = run(place, "patterns", *CALL[:8], "--out", "p.safetensors")
    assert done.returncode == 0, done.stderr
    return place


@pytest.fixture(scope="module")
def ray(folder):
    """One of our own for all tests here; what they start finds it, and leaves it alone."""
    before = _environment(), signal.getsignal(signal.SIGTERM), logging.getLogger("ray").handlers[:]
    others = _below(os.getpid())
    with ExitStack() as stack:
        found, session = stack.enter_context(connected(None, 2, 0, folder / "ray.log"))
        below = _below(os.getpid()) - others
        assert below
        yield found, session
    now = _environment(), signal.getsignal(signal.SIGTERM), logging.getLogger("ray").handlers
    assert set(now[0].items()) ^ set(before[0].items()) == set()
    assert now[1:] == before[1:]
    assert not session.exists()
    deadline = time.monotonic() + 10
    while _alive(below) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _alive(below)


def _environment() -> dict[str, str]:
    """What Ray goes by; torch, pytest and others set variables of their own meanwhile."""
    return {name: value for name, value in os.environ.items() if name.startswith("RAY")}


def rows_of(folder: Path) -> list[dict]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in read_rows(folder)]


def _below(process: int) -> set[tuple[int, str]]:
    """All processes that descend from one, each with when it began."""
    parents: dict[int, list[tuple[int, str]]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "stat").read_text().rpartition(")")[2].split()
            parents.setdefault(int(words[1]), []).append((int(entry.name), words[19]))
    found: set[tuple[int, str]] = set()
    waiting = [process]
    while waiting:
        for child in parents.get(waiting.pop(), []):
            found.add(child)
            waiting.append(child[0])
    return found


def _alive(processes: set[tuple[int, str]]) -> set[tuple[int, str]]:
    found = set()
    for number, begun in processes:
        with suppress(OSError):
            words = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
            if words[19] == begun and words[0] != "Z":
                found.add((number, begun))
    return found


def _name(process: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_text()
    return ""


def _listening(processes: list[int]) -> list[str]:
    """The addresses on which processes listen."""
    sockets = set()
    for number in processes:
        for handle in Path(f"/proc/{number}/fd").glob("*"):
            try:
                sockets.add(str(handle.readlink()))
            except OSError:
                continue
    found = []
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                address = bytes.fromhex(words[1].partition(":")[0])
                parts = [address[i : i + 4][::-1] for i in range(0, len(address), 4)]
                found.append(socket.inet_ntop(family, b"".join(parts)))
    return found


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux's /proc to see who listens")
def test_a_ray_of_our_own_listens_on_loopback_alone(ray):
    found, _ = ray
    found.get(found.remote(lambda: 1).remote())  # a worker is up
    addresses = _listening([os.getpid(), *(number for number, _ in _below(os.getpid()))])
    assert len(addresses) >= 3
    assert set(addresses) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_every_part_is_done_once(ray):
    events = list(Ray(workers=2).map(Made(), PARTS))
    done = [event for event in events if isinstance(event, Done)]
    assert sorted(event.part.number for event in done) == [0, 1, 2, 3, 4]
    assert all([row["image"] for row in event.result] == list(event.part.images) for event in done)
    assert sum(event.images for event in events if isinstance(event, Progress)) == 15
    assert list(Ray(workers=2).map(Made(), [])) == []


def test_what_a_worker_raises_is_raised(ray):
    with pytest.raises(PgigError, match="2-1 is odd"):
        list(Ray(workers=2).map(Made("error"), PARTS))
    with pytest.raises(PgigError, match="no worker") as raised:
        list(Ray(workers=2).map(Made("making"), PARTS))
    assert raised.value.lacks == "patterns"


def test_a_part_that_kills_its_workers_is_set_aside_and_the_run_goes_on(ray):
    events = list(Ray(workers=2).map(Made("death"), PARTS))
    assert sorted(event.part.number for event in events if isinstance(event, Done)) == [0, 1, 3, 4]
    again = [event.part.number for event in events if isinstance(event, Retried)]
    assert again in ([2], [2, 2])  # one of the three may have had a copy
    assert [event.part.number for event in events if isinstance(event, SetAside)] == [2]
    told = sum(event.images for event in events if isinstance(event, Progress))
    assert told - sum(event.images for event in events if isinstance(event, Retried)) == 12


@dataclass(frozen=True)
class Once:
    """In trouble with part 2, the first time that anyone takes it."""

    marker: Path
    trouble: str

    def __call__(self):
        return self

    def run(self, part: Part):
        yield 1
        if part.number == 2 and not self.marker.exists():
            self.marker.touch()
            if self.trouble == "death":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(120)
        yield 2
        return part.number


@pytest.mark.parametrize("trouble", ["death", "slow"])
def test_a_dead_or_slow_worker_does_not_hold_the_end_up(ray, tmp_path, trouble):
    begun = time.monotonic()
    events = list(Ray(workers=2).map(Once(tmp_path / "marker", trouble), PARTS))
    assert sorted(event.result for event in events if isinstance(event, Done)) == [0, 1, 2, 3, 4]
    assert time.monotonic() - begun < 60
    assert (tmp_path / "marker").exists()


def test_one_result_for_all_backends(ray, folder):
    places = {"serial": ("--backend", "serial"), "processes": ("--workers", "2", "--threads", "2"),
              "ray": ("--backend", "ray", "--workers", "2"),
              "shared": ("--backend", "ray", "--workers", "2", "--shared-folder")}  # fmt: skip
    for name, how in places.items():
        done = run(folder, *BENCH, *how, "--out", name)
        assert done.returncode == 0, done.stderr
        assert not done.stderr, "Ray's own words belong into its log"
    files = fsspec.filesystem("memory")
    files.put(str(folder / "photos"), "/photos", recursive=True)
    here = f"file://{folder}/photos"
    for name, place, options in (
        ("file-serial", here, "--backend serial"),
        ("file-processes", here, "--workers 2 --threads 2"),
        ("file-ray", here, "--backend ray --workers 2"),
        ("memory", "memory://photos", "--backend serial"),
    ):
        places[name] = ("--images", place, *options.split())
        done = run(folder, *BENCH, *places[name], "--out", name)
        assert done.returncode == 0, done.stderr
    for name in places:
        assert rows_of(folder / name) == rows_of(folder / "serial")
        # a copy that was overtaken may leave behind what it was just writing, which no name of a result has
        assert len([file for file in (folder / name / "examples").iterdir() if not file.name.startswith(".")]) == 6


def test_patterns_are_the_same_bits_for_any_number_of_workers(ray, folder, monkeypatch):
    monkeypatch.setattr("pgig.runs.shards.LEAST_IMAGES", 4)  # five shards of four
    found = {}
    for name, how in (("serial", "serial"), ("ray", "ray --workers 2")):
        call = ("patterns", *CALL[:8], "--threads", "1", "--backend", *how.split(), "--out", f"{name}.safetensors")
        done = run(folder, *call)
        assert done.returncode == 0, done.stderr
        found[name] = Patterns.load(folder / f"{name}.safetensors")
    whole = Patterns.load(folder / "p.safetensors")
    for layer in whole:
        numpy.testing.assert_array_equal(found["serial"][layer], found["ray"][layer])
        numpy.testing.assert_allclose(found["serial"][layer], whole[layer], rtol=1e-5, atol=1e-6)
    assert not list(folder.glob("*.moments"))


def test_randomisation_and_truth_are_the_same_on_all_backends(ray, folder):
    sanity = ("randomize", *CALL, "--patterns", "p.safetensors", "--limit", "3")
    truth = ("truth", "--images", "20", "--setting", "white", "--methods", "gradient,random", "--threads", "1")
    for name in ("serial", "ray"):
        for command in (sanity, truth):
            done = run(folder, *command, "--backend", name, "--out", f"{command[0]}-{name}")
            assert done.returncode == 0, done.stderr
    for file in ("randomize-{}/table.csv", "randomize-{}/stages/cascading-001.csv", "truth-{}/truth-images.csv"):
        one, other = ((folder / file.format(name)).read_bytes() for name in ("serial", "ray"))
        assert one == other


def test_bad_calls_are_one_line(folder, monkeypatch):
    fsspec.filesystem("memory").put(str(folder / "photos" / "00.png"), "/one/00.png")
    for more, match in (
        (("--backend", "cloud"), "unknown backend 'cloud'"),
        (("--backend", "serial", "--workers", "2"), "has one worker"),
        (("--address", "auto"), "an address is for the ray backend"),
        (("--shared-folder",), "a shared folder is for the ray backend"),
        (("--backend", "ray", "--workers", "0"), "workers must be at least 1"),
        (("--backend", "processes", "--cpus-per-worker", "0"), "CPUs per worker must be at least 1"),
        (("--workers", "2", "--images", "memory://one"), "in this process alone"),
        (("--images", "memory://nowhere"), "no images at memory://nowhere"),
        (("--images", "gopher://nowhere"), "cannot read gopher://nowhere"),
    ):
        done = run(folder, *BENCH, *more, "--out", "bad")
        assert done.returncode == 2
        assert match in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    (folder / "theirs.toml").write_text('backend = "ray"\naddress = "elsewhere:6379"\n')
    done = run(folder, *BENCH, "--config", "theirs.toml", "--out", "bad")
    assert done.returncode == 2
    assert "names a cluster to connect to, which a file may not" in done.stderr
    monkeypatch.setitem(sys.modules, "ray", None)
    done = run(folder, *BENCH, "--backend", "ray", "--out", "bad")
    assert done.returncode == 2
    assert "pip install 'pgig[ray]'" in done.stderr


def test_a_cluster_that_is_not_there_or_too_small_is_one_line(ray, folder):
    done = run(folder, *BENCH, "--backend", "ray", "--gpus-per-worker", "2", "--out", "bad")
    assert done.returncode == 2
    assert "no node of the Ray cluster has 1 CPUs and 2 GPUs" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_driver_that_is_stopped_leaves_nothing_running_and_can_go_on(folder, number):
    """ctrl-C reaches all processes of a terminal; a kill, polite or not, only the driver."""
    slow = FACTORY.replace("return nn", "import time; time.sleep(0.2); return nn")
    place = folder / f"stopped-{number}"
    (place / "photos").mkdir(parents=True)
    for image in (folder / "photos").iterdir():
        (place / "photos" / image.name).write_bytes(image.read_bytes())
    (place / "net.py").write_text(slow)
    more = "--methods gradient,smoothgrad_ig --patterns none --backend ray --workers 2 --out run"
    call = [sys.executable, "-m", "pgig", *BENCH[:-2], "--measures", "morf,max_sensitivity", *more.split()]
    process = subprocess.Popen(call, cwd=place, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 120
    while not list((place / "run").glob("parts/*.parquet")) and time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        time.sleep(0.05)
    below = _below(process.pid)
    assert len(below) >= 3
    begun = time.monotonic()
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        os.kill(process.pid, number)
    _, said = process.communicate(timeout=60)
    if number != signal.SIGKILL:
        assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[number], said
        assert said.strip().endswith("the same command goes on")
        assert len(said.strip().splitlines()) == 1, "Ray's own words belong into its log"
    if number == signal.SIGKILL:  # Ray's agents look after their node only once in a while, and then end
        below = {one for one in below if not _name(one[0]).startswith(("ray::Dash", "ray::Runtime"))}
    while _alive(below) and time.monotonic() - begun < 30:
        time.sleep(0.2)
    assert not _alive(below)
    assert time.monotonic() - begun < 30
    again = subprocess.run(call, cwd=place, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert len({row["image"] for row in read_rows(place / "run")}) == 20


def test_handing_out():
    """Every part once; the last twice; what is the end of a worker again, but not for ever."""
    handing = Handing(PARTS[:2], tries=2)
    one, two = handing.next_for(0), handing.next_for(1)
    assert (one, two) == (PARTS[0], PARTS[1])
    assert handing.next_for(2) == PARTS[0]  # a copy of what was handed out first
    assert handing.next_for(3) == PARTS[1]
    assert handing.next_for(4) is None  # no third
    assert handing.finished(2, PARTS[0])
    assert not handing.finished(0, PARTS[0])
    assert handing.died(1, PARTS[1]) == "elsewhere"  # a copy is in work
    assert handing.died(3, PARTS[1]) == "aside"
    assert handing.is_over
    again = Handing(PARTS[:1])
    assert again.next_for(0) == PARTS[0]
    assert again.died(0, PARTS[0]) == "again"
    assert again.next_for(1) == PARTS[0]
    assert again.next_for(2) is None  # it was the end of one already
    assert again.finished(1, PARTS[0])
    assert again.is_over
    unlucky = Handing(PARTS[:1])
    for worker in range(5):  # of machines that are lost no part is to blame
        assert unlucky.next_for(worker) == PARTS[0]
        assert unlucky.died(worker, PARTS[0], is_to_blame=False) == "again"
    assert not unlucky.deaths
