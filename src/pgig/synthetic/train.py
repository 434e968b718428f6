"""Train the embedded default anew: python -m pgig.synthetic.train --out DIR"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar, get_args

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

from pgig.files import written
from pgig.synthetic.images import SETTINGS, Samples, samples, stream
from pgig.synthetic.networks import SmallVGG, Variant

_SEED = 1  # of the samples
Model = TypeVar("Model", bound=nn.Module)


def train(make: Callable[[], Model], name: str, steps: int, seed: int = 0, batch_size: int = 32) -> Model:
    """A classifier of all settings at once, each with `batch_size` fresh samples a step."""
    torch.manual_seed(seed)
    model = make().to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1.5e-3, total_steps=steps)
    streams = [stream(setting, batch_size, seed=_SEED, purpose="training") for setting in SETTINGS]
    begun = time.monotonic()
    for step in range(1, steps + 1):
        batch = Samples(*(torch.cat(parts) for parts in zip(*map(next, streams), strict=True)))
        loss = F.cross_entropy(model(batch.x), batch.label)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            took = time.monotonic() - begun
            left = took / step * (steps - step)
            print(f"{name}: step {step}/{steps}, loss {loss.detach():.3f}, {left:.0f} s left", flush=True)
    return model.to(memory_format=torch.contiguous_format).eval()  # type: ignore[no-any-return]


@torch.no_grad()
def accuracy(model: nn.Module, setting: str, number: int = 1000) -> float:
    drawn = samples(setting, number, purpose="testing")
    return float((model(drawn.x).argmax(1) == drawn.label).float().mean())


def main(out: Path, steps: int, seed: int) -> None:
    for variant in get_args(Variant):
        model = train(partial(SmallVGG, variant), variant, steps, seed)
        reached = {setting: accuracy(model, setting) for setting in SETTINGS}
        print(f"{variant}: accuracy on unseen samples", {name: round(share, 3) for name, share in reached.items()})
        path = out / f"{variant}.safetensors"
        facts = {"made by": f"python -m pgig.synthetic.train --steps {steps} --seed {seed}"}
        with written(path) as temporary:
            save_file(model.state_dict(), temporary, facts)
        print(f"wrote {path}, {path.stat().st_size / 2**20:.2f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m pgig.synthetic.train")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder; without, into the package")
    parser.add_argument("--steps", type=int, default=1800)
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
