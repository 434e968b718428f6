"""Several nodes on one machine: kills of actors, nodes and drivers change nothing but the time. `make cluster`."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_ray import BENCH, folder, rows_of  # noqa: F401 (a fixture)

from pgig.runs.backends.ray_cluster import ray_module

pytestmark = pytest.mark.cluster


@pytest.fixture
def cluster() -> Iterator:
    """A head without CPUs, as on a real cluster's login node, and three nodes of one CPU."""
    ray_module()
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [made.add_node(num_cpus=1) for _ in range(3)]
    yield made, nodes
    made.shutdown()


def begun(place: Path, cluster, out: str, *more: str) -> subprocess.Popen:
    call = [sys.executable, "-m", "pgig", *BENCH, "--methods", "gradient,smoothgrad_ig,pgig", "--out", out]
    return subprocess.Popen([*call, "--backend", "ray", "--address", cluster[0].address, *more], cwd=place, text=True,
                            stderr=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip


def ended(process: subprocess.Popen) -> None:
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said


@pytest.fixture
def serial(folder: Path) -> Path:  # noqa: F811
    out = folder / "cluster-serial"
    if not out.exists():
        call = [*BENCH, "--methods", "gradient,smoothgrad_ig,pgig", "--out", str(out), "--backend", "serial"]
        subprocess.run([sys.executable, "-m", "pgig", *call], cwd=folder, check=True, capture_output=True)
    return out


def actors() -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cmdline").read_bytes().startswith(b"ray::Actor"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def wait_for(what, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


@pytest.mark.parametrize("shared", [False, True])
def test_three_nodes_give_what_one_process_gives(folder, cluster, serial, shared):  # noqa: F811
    out = f"three-{shared}"
    ended(begun(folder, cluster, out, *(["--shared-folder"] if shared else [])))
    assert rows_of(folder / out) == rows_of(serial)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_killed_actor_changes_nothing(folder, cluster, serial, seed):  # noqa: F811
    out = f"killed-{seed}"
    process = begun(folder, cluster, out)
    # at any moment: while workers load, or while they work
    wait_for(lambda: actors() and len(list((folder / out).glob("parts/*.parquet"))) >= seed)
    time.sleep(random.Random(seed).uniform(0, 0.5))
    running = actors()
    assert running, "the run was over before anyone was killed"
    os.kill(random.Random(seed).choice(running), signal.SIGKILL)
    ended(process)
    assert rows_of(folder / out) == rows_of(serial)


def test_a_node_that_is_gone_changes_nothing(folder, cluster, serial):  # noqa: F811
    process = begun(folder, cluster, "node")
    wait_for(lambda: list((folder / "node").glob("parts/*.parquet")) or process.poll() is not None)
    cluster[0].remove_node(cluster[1][0], allow_graceful=False)
    ended(process)
    assert rows_of(folder / "node") == rows_of(serial)


def test_a_killed_driver_goes_on(folder, cluster, serial):  # noqa: F811
    process = begun(folder, cluster, "driver")
    wait_for(lambda: list((folder / "driver").glob("parts/*.parquet")))
    process.kill()
    process.communicate()
    wait_for(lambda: not actors(), 60)  # Ray ends what was the driver's
    ended(begun(folder, cluster, "driver"))
    assert rows_of(folder / "driver") == rows_of(serial)


def test_a_cluster_that_is_not_there_is_one_line(folder):  # noqa: F811
    call = [sys.executable, "-m", "pgig", *BENCH, "--out", "nowhere", "--backend", "ray"]
    done = subprocess.run(
        [*call, "--address", "127.0.0.1:1"], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "cannot reach Ray at '127.0.0.1:1'" in done.stderr
