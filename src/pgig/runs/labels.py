"""The true classes of a run's images, where they are known."""

import csv
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path

from pgig.errors import PgigError
from pgig.files import read_text
from pgig.records.tables import is_number


def read_labels(path: Path | None, names: Sequence[str]) -> dict[str, int]:
    """Labels by image: from a CSV (file, class index), or by folder, one class each in the order of their names.

    names: all images there are, also where a run takes only some: the folders of the others count.
    """
    if path is None:
        folders = class_folders(names)
        return {name: folders.index(folder) for name in names if (folder := name.rpartition("/")[0])}
    try:
        text = read_text(path).removeprefix("\ufeff")  # spreadsheets begin their files with a mark
        rows = [row for row in csv.reader(StringIO(text, newline="")) if row]
        by_name: dict[str, int] = {}
        for row in rows[0 if rows and is_number(rows[0][1]) else 1 :]:
            name, label = row[0].strip(), int(row[1])
            if by_name.setdefault(name, label) != label:
                raise ValueError(f"{name} has the labels {by_name[name]} and {label}")
    except (OSError, ValueError, IndexError, csv.Error) as error:
        raise PgigError(f"cannot read labels from {path}: expected lines of file,class_index ({error})") from error
    # the whole path counts more than the bare name
    return {name: by_name[key] for name in names for key in (name.rpartition("/")[2], name) if key in by_name}


def class_folders(names: Sequence[str]) -> list[str]:
    return sorted({folder for name in names if (folder := name.rpartition("/")[0])})


def checked_labels(
    labels: Mapping[str, int], images: Sequence[str], classes: int, from_file: bool, wanted: bool
) -> dict[str, int]:
    """The labels of a run's images. Folders are classes only where there are as many of them as the model has."""
    if not from_file and labels and (found := len(set(labels.values()))) != classes:
        if wanted:
            raise PgigError(f"{found} class folders for a model of {classes} classes", lacks="labels")
        return {}
    if wanted and (missing := [name for name in images if name not in labels]):
        raise PgigError(f"no label for {missing[0]}", lacks="labels")
    known = {name: labels[name] for name in images if name in labels}
    for name, label in known.items():
        if not 0 <= label < classes:
            raise PgigError(f"the label {label} of {name} is out of range: the model has {classes} classes")
    return known
