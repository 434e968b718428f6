"""`make faults`: the whole campaigns, some minutes; writes their figures into docs/reliability.md."""

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path

from campaigns import BAD, CAMPAIGNS

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- campaigns -->", "<!-- end of campaigns -->"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="a word in the name of a campaign")
    parser.add_argument("--write", action="store_true", help="write the table into docs/reliability.md")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, bad = [], 0
    for name, campaign in CAMPAIGNS.items():
        if arguments.only and arguments.only not in name:
            continue
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            outcomes = campaign.run(campaign.full, Path(folder), arguments.seed)
        bad += sum(outcomes[what] for what in BAD)
        told = ", ".join(f"{count:,} {what}" for what, count in sorted(outcomes.items()))
        took = f"{time.monotonic() - begun:.0f} s"
        rows.append(f"| {name} | {campaign.full:,} {campaign.unit} | {told} | {campaign.promise} | {took} |")
        print(rows[-1], flush=True)
    print(f"{bad} cases broke a promise")
    if arguments.write and not arguments.only:
        head = "| tried | cases | outcome | promise | took |\n| --- | --- | --- | --- | --- |\n"
        text = PAGE.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        after = rest.split(END)[1]
        PAGE.write_text(before + BEGIN + "\n" + head + "\n".join(rows) + "\n" + END + after, encoding="utf-8")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
