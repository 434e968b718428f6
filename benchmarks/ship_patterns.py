"""Make the patterns that come with pgig: `python benchmarks/ship_patterns.py --images DIR`.

Patterns of the default network from all images of a folder, in 16 bits. Their signal quality cannot be measured on
images that they have seen: it is that of patterns from all but every fifth image, measured on those.
"""

import argparse
from pathlib import Path

from torch import Tensor

import pgig
from pgig.patterns.kept import find_file
from pgig.patterns.packed import load_packed, save_packed
from pgig.vision.image_folder import ImageFolder
from pgig.vision.models import default_preprocess, load_model
from pgig.vision.names import DEFAULT_MODEL

SHIPPED = Path(__file__).parents[1] / "src" / "pgig" / "patterns" / "shipped"
HELD_OUT = 5  # every fifth


def main(images: Path, source: str, regime: str, joins: str) -> None:
    model, preprocess = load_model(DEFAULT_MODEL), default_preprocess(DEFAULT_MODEL, None)
    names = ImageFolder.open(images).names

    def batches(chosen: list[str]) -> list[Tensor]:
        folder = ImageFolder(tuple(chosen), ImageFolder.open(images).read)
        return [batch for _, batch in folder.batches(preprocess, 8, 0, {})]

    asked = {"regime": regime, "joins": joins, "preprocessing": preprocess.facts}
    some = pgig.estimate_patterns(model, batches([n for i, n in enumerate(names) if i % HELD_OUT]), **asked)  # type: ignore[arg-type]
    quality = pgig.signal_quality(model, some, batches(list(names[::HELD_OUT])))
    found = pgig.estimate_patterns(model, batches(list(names)), **asked).with_quality(quality)  # type: ignore[arg-type]
    held = len(names[::HELD_OUT])
    found = found.with_facts(
        regime=regime, source=source, images=len(names),
        quality_from=f"patterns of {len(names) - held} of the images, on the other {held}",
    )  # fmt: skip
    path = SHIPPED / f"{DEFAULT_MODEL}.safetensors"
    save_packed(found, model, path)
    packed = load_packed(path, model)
    worst = max(float((packed[n] - found[n]).abs().max() / found[n].abs().max().clamp_min(1e-12)) for n in found)
    print(found.health())
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB; off by at most {worst:.1e} of a layer's largest number")
    print(find_file(model))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--source", default="500 photographs of ImageNet, one for every even class")
    parser.add_argument("--regime", default="auto")
    parser.add_argument("--joins", default="shared")
    main(**vars(parser.parse_args()))
