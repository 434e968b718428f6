"""The sentence that follows from a ranking, and no other."""

from pgig.report.ranking import Ranking


def verdict(ranking: Ranking) -> str:
    ranks, cells = ranking.mean_ranks, len(ranking.cells)
    first, second = list(ranks)[:2]
    images = sorted({cell.images for cell in ranking.cells})
    shown = f"{images[0]}" if len(images) == 1 else f"{images[0]} to {images[-1]}"
    one, two = (f"{ranks[m].mean:.1f} [{ranks[m].low:.1f}, {ranks[m].high:.1f}]" for m in (first, second))
    over = f"Over {_count(cells, 'setting')} on {shown} images, "
    lead = ranking.lead(first, second)
    if lead.mean == 0:
        said = [f"{over}{first} and {second} share the best mean rank, {one} of {len(ranks)}."]
    else:
        told = "" if lead.low > 0 else ": on these images the two are not told apart"
        said = [f"{over}{first} has the best mean rank, {one} of {len(ranks)}, before {second} with {two}{told}."]
    if not all(cell.is_complete for cell in ranking.cells):
        said.insert(0, "Not all runs are finished: this is how it stands so far.")
    best = ranking.in_best_group[first]
    said.append(f"It cannot be told from the best in {best} of {cells}.")
    winners = [m for m, wins in ranking.wins.items() if wins]
    if cells > 1:
        said.append(
            f"{winners[0]} is the best in all of them."
            if len(winners) == 1 and ranking.wins[winners[0]] == cells
            else f"No method wins everywhere; methods that are the best alone somewhere: {len(winners)}."
        )
    if ranking.twice:
        said.append(f"Counted twice, since it is in two runs: {'; '.join(ranking.twice)}.")
    if ranking.without:
        others = {
            label: [m for m, place in places.items() if place == min(places.values())]
            for label, places in ranking.without.items()
        }
        changed = [label for label, tops in others.items() if first not in tops]
        said.append(
            f"Whichever measure is left out, {first} stays first."
            if not changed
            else f"Without {changed[0]} the first is {others[changed[0]][0]}: the order hangs on which measures count."
        )
    if ranking.agreements:
        weak = min(ranking.agreements, key=lambda a: a.correlation.mean)
        word = "disagree" if weak.correlation.mean < 0 else "agree least"
        said.append(f"{weak.first} and {weak.second} {word}, with a rank correlation of {weak.correlation.mean:.2f}.")
    return " ".join(said)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
