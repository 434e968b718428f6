"""`make zoo`: every family in a process of its own, two at a time; what is done is kept, so that it can be stopped."""

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
SECONDS = 900  # for one family


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--only", help="families whose name holds this")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    from families import families

    if asked.one:
        from examine import examine

        family = next(family for family in families() if f"{family.source}:{family.name}" == asked.one)
        print(json.dumps(examine(family)))
        return
    names = [f"{family.source}:{family.name}" for family in families()]
    names = [name for name in names if not asked.only or asked.only in name]
    asked.out.mkdir(parents=True, exist_ok=True)
    missing = [name for name in names if not _is_done(asked.out / _file(name))]
    print(f"{len(names)} families, {len(missing)} to examine", flush=True)
    began = time.monotonic()
    with ThreadPoolExecutor(asked.workers) as pool:
        for number, (name, line) in enumerate(pool.map(lambda name: (name, _examined(name, asked.out)), missing), 1):
            minutes = (time.monotonic() - began) / 60
            print(f"[{number}/{len(missing)}, {minutes:.0f} min] {name}: {line}", flush=True)


def _file(name: str) -> str:
    return name.replace(":", "_").replace(" ", "-") + ".json"


def _is_done(path: Path) -> bool:
    """What crashed is tried again: it may have been stopped."""
    try:
        return bool(json.loads(path.read_text())["verdict"] != "crashed")
    except (OSError, ValueError, KeyError):
        return False


def _examined(name: str, out: Path) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = None
    try:
        done = subprocess.run(
            [sys.executable, str(HERE / "run.py"), "--one", name],
            capture_output=True, text=True, timeout=SECONDS, env=environment, check=False,
        )  # fmt: skip
        found = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
        reason = (done.stderr.strip().splitlines() or ["no word"])[-1]
    except subprocess.TimeoutExpired:
        found, reason = None, f"not done after {SECONDS} s"
    if found is None and (reason == "KeyboardInterrupt" or (done is not None and done.returncode < 0)):
        return f"stopped ({reason})"
    if found is None:
        source, family = name.split(":", 1)
        found = {"source": source, "name": family, "verdict": "crashed", "crashed": [reason]}
    path = out / _file(name)
    path.with_suffix(".part").write_text(json.dumps(found, indent=1))
    path.with_suffix(".part").replace(path)
    troubles = [*found.get("crashed", []), *found.get("wrong", []), *found.get("refused", [])]
    return f"{found['verdict']} in {found.get('seconds', 0):.0f} s" + (f": {troubles[0]}" if troubles else "")


if __name__ == "__main__":
    main()
