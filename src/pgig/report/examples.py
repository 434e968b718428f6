"""A few images as they are degraded, for the page: the image, what is put in its place, the order, the score."""

from typing import Any
from zipfile import BadZipFile

import numpy

from pgig.drawing.encoded import as_address
from pgig.report.run import Run

_MOST = 6


def examples_of(run: Run) -> list[dict[str, Any]]:
    found = []
    for file in sorted((run.folder / "examples").glob("[!.]*.npz"))[:_MOST]:
        try:
            with numpy.load(file, allow_pickle=False) as arrays:
                image, patch = arrays["image"], int(arrays["patch"])
                methods, steps = len(arrays["methods"]), arrays["curves"].shape[1] - 1
                found.append({
                    "name": file.stem.partition("-")[2],
                    "image": as_address(image), "filled": as_address(arrays["filled"]),
                    "size": [int(image.shape[1]), int(image.shape[0])], "patch": patch,
                    "columns": int(image.shape[1]) // patch,
                    "methods": [str(name) for name in arrays["methods"]],
                    "curves": [[round(float(v), 4) for v in curve] for curve in arrays["curves"]],
                    "orders": arrays["orders"].reshape(methods, steps, -1).tolist(),
                })  # fmt: skip
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):  # examples are not worth a report
            continue
    return found
