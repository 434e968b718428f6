"""How long a person waits for the app, in headless Chromium on the same cores; and what removing a patch costs.

python benchmarks/app.py --out benchmarks/results
"""

import argparse
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from measuring import machine, write
from playwright.sync_api import sync_playwright

from pgig.app.network import load_network
from pgig.app.removal import removals
from pgig.app.visitors import Visitor
from pgig.patterns.kept import find_file
from pgig.runs.photographs import photographs
from pgig.vision.models import default_preprocess, load_model

READY = "document.querySelectorAll('#maps .pg-card:not(.pg-waiting)').length"
STEPS = {"efficientnet_lite0": None, "squeezenet1_0": "random", "resnet18": "random"}


def waits(round_: int) -> dict[str, float]:
    """Seconds, of one start."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "pgig", "app", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = {"command until it listens": time.perf_counter() - begun}
        address = re.search(r"http://\S+", line)
        assert address, line
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1400, "height": 1000})
            page.set_default_timeout(60_000)
            begun = time.perf_counter()
            page.goto(address[0])
            page.wait_for_selector("#picker .pg-drop")
            found["listening until the page is painted"] = time.perf_counter() - begun
            begun = time.perf_counter()
            page.locator("#picker .pg-example").first.click()
            for count, name in ((1, "picture until the first map"), (5, "picture until five maps")):
                page.wait_for_function(f"{READY} >= {count}", polling=50)
                found[name] = time.perf_counter() - begun
            title = page.locator("#maps .pg-title").text_content()
            page.locator("#classes .pg-class").nth(1).click()
            page.wait_for_function(f"t => document.querySelector('#maps .pg-title').textContent !== t && {READY} >= 5",
                                   arg=title, polling=50)  # fmt: skip
            begun = time.perf_counter()
            page.locator("#classes .pg-class").nth(0).click()
            page.wait_for_function(f"t => document.querySelector('#maps .pg-title').textContent === t && {READY} >= 5",
                                   arg=title, polling=20)  # fmt: skip
            found["five maps once more"] = time.perf_counter() - begun
            browser.close()
        process.send_signal(signal.SIGINT)
        process.wait(30)
    print(f"round {round_}: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in found.items()), flush=True)
    return found


def step_times(model: str, weights: str | None) -> dict[str, float]:
    """Milliseconds of a step of three orders at once, by the app's evaluator and by whole passes."""
    from pgig.app.answers import answers, question_of

    kept = find_file(load_model(model, weights)) if weights is None else None
    network = load_network(model, weights, default_preprocess(model, weights), kept.path if kept else None)
    path = photographs()[0]
    picture = network.picture(path.read_bytes(), path.stem)
    question = question_of(network, [network.likeliest(picture)[0][0]])
    *_, found = answers(network, Visitor(), picture, question, ["gradient", "integrated_gradients"])
    network.evaluator()
    taken = min(list(removals(network, picture, found.explanations))[-1].milliseconds for _ in range(3))
    whole = []
    with torch.no_grad():
        for _ in range(10):
            begun = time.perf_counter()
            network.subject.module(picture.x.repeat(3, 1, 1, 1))
            whole.append(1000 * (time.perf_counter() - begun))
    return {"milliseconds": taken, "milliseconds of whole passes": min(whole), "evaluator": network.evaluator().name}  # type: ignore[dict-item]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    rounds = [waits(number + 1) for number in range(asked.rounds)]
    medians = {name: statistics.median(of[name] for of in rounds) for name in rounds[0]}
    results: dict[str, Any] = {"machine": machine(), "seconds": medians}
    results["a step of three orders"] = {name: step_times(name, weights) for name, weights in STEPS.items()}
    write(asked.out / "app.json", results)
    for name, of in results["a step of three orders"].items():
        print(name, of)


if __name__ == "__main__":
    main()
