"""Attributions that another run saved, in place of explaining anew."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pgig.errors import PgigError
from pgig.records.part_files import read_sums
from pgig.records.parts import Part


@dataclass(frozen=True)
class Saved:
    """The attributions of a part that another run saved."""

    folder: Path
    rows: Mapping[tuple[str, str], Mapping[str, Any]]  # (image, method) -> row
    skipped: Mapping[str, str]
    digests: Mapping[str, str | None]

    @staticmethod
    def read(folder: Path, part: Part) -> "Saved":
        found = read_sums(folder, part)
        return Saved(
            folder, {(row["image"], row["method"]): row for row in found.rows}, found.skipped, found.digests
        )  # fmt: skip

    def of(self, name: str, methods: tuple[str, ...]) -> tuple[dict[str, Tensor], dict[str, float]]:
        for method in methods:
            if (name, method) not in self.rows:
                raise PgigError(self.skipped.get(name, f"no saved attribution by {method}"))
        sums = {m: torch.tensor(self.rows[name, m]["sums"], dtype=torch.float64) for m in methods}
        return sums, {m: self.rows[name, m]["seconds"] for m in methods}

    def check_image(self, name: str, digest: str | None) -> None:
        before = self.digests.get(name)
        if before is not None and before != digest:
            raise PgigError(f"{name} is another file than the one whose attributions {self.folder} holds")

    def check(self, targets: Mapping[str, int]) -> None:
        """Attributions of one class say nothing of another's score."""
        for (name, _), row in self.rows.items():
            if targets.get(name, row["target"]) != row["target"]:
                raise PgigError(f"the saved attributions of {name} explain another class than this run scores")
