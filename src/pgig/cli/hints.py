"""Which option gives what an error says is lacking: the only place that ties errors to flags."""

from pgig.errors import PgigError

HINTS = {
    "patterns": "give --patterns FILE, or run pgig patterns once for this model",
    "class names": "give --classes FILE, or the number of the class",
    "own patterns": "on the command line: --force",
    "references": "give --references DIR, or several images",
    "methods": "see pgig methods",
    "another folder": "give another --out",
    "a free folder": "wait until it is done, or give another --out",
    "labels": "give one for every image with --labels FILE, or leave out --target label",
    "masks": "give --masks, a folder of mask images or a CSV of boxes, with one for every image",
    "held-out images": "give --held-out N",
    "patches": "give --steps N or --patch PIXELS",
    "a score": "commands explain models that return one row of class scores; give a module that picks them",
    "a user": "give --auth USER, or leave out --host",
    "saved attributions": "run it to its end with --save-attributions",
}
# where a command has other options for the same
_OF_COMMAND = {
    ("randomize", "own patterns"): "pgig patterns estimates them",
    ("randomize", "patterns"): "give --patterns FILE, --estimate-from DIR, or other --methods",
}


def hinted(error: PgigError, command: str) -> str:
    """What is wrong, and which option mends it."""
    if error.lacks is None:
        return str(error)
    return f"{error.args[0]}: {_OF_COMMAND.get((command, error.lacks), HINTS[error.lacks])}"
