"""Everything shown, to take away: the page of `pgig explain`, the arrays, and the lines of Python that give them."""

import io
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from pprint import pformat

from pgig import __version__
from pgig.app.network import Network, facts_of
from pgig.digests import digest_of
from pgig.errors import PgigError
from pgig.explainers.methods import MethodExplainer
from pgig.explainers.registry import explainers
from pgig.records.explanation import Explanation
from pgig.report.benchmarked import benchmarked
from pgig.report.explained import ShownPicture, write_explained
from pgig.runs.explain import Answer, judged, photo, shown_question
from pgig.runs.questions import Question
from pgig.vision.models import default_preprocess
from pgig.vision.pictures import Picture

_CONTRAST = """

def score(output):  # why the one rather than the other?
    return output[:, {}] - output[:, {}]

"""


def page_of(
    network: Network, picture: Picture, question: Question, explanations: Mapping[str, Explanation]
) -> bytes:  # fmt: skip
    """The self-contained page, as the command writes it."""
    found = Answer(question, dict(explanations), {})
    if not found.explanations:
        raise PgigError("there is nothing to save yet: explain a picture first")
    with network.working:
        judgement = judged(network.subject, picture, found, 0, False)
    named = [(network.name_of(index), index, share) for index, share in network.likeliest(picture)]
    shown = ShownPicture(picture.name, photo(picture), named, [shown_question(picture, found, judgement, {})])
    digest = digest_of(network.subject.known_digest)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index.html"
        write_explained(
            path, [shown], model=network.model, count=1, skipped={}, benchmarked=benchmarked(network.model, digest),
            facts=facts_of(network, pgig=__version__, seed=0),
        )  # fmt: skip
        return path.read_bytes()


def arrays_of(explanations: Mapping[str, Explanation], code: str) -> bytes:
    """A zip of explanations, as `Explanation.load` reads them, and of the lines that give them."""
    if not explanations:
        raise PgigError("there is nothing to save yet: explain a picture first")
    buffer = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, one in explanations.items():
            path = Path(folder) / f"{name}.safetensors"
            one.save(path)
            archive.write(path, path.name)
        archive.writestr("same_result.py", code)
    return buffer.getvalue()


def code_of(network: Network, picture: Picture, file: str, asked: Sequence[int], methods: Sequence[str]) -> str:
    """The Python that gives the same result. file: an expression that names it."""
    if not methods:
        return ""
    return f"""{_model_lines(network, picture, file, asked, methods)}
pgig.show({{name: one.attribution[0] for name, one in found.items()}}, path="maps.png")
"""


def removal_code(
    network: Network, picture: Picture, file: str, asked: Sequence[int], methods: Sequence[str], fill: str
) -> str:
    """The Python that gives the curves of the class asked for."""
    protocol = network.protocol
    return f"""{_model_lines(network, picture, file, asked, methods)}
from pgig.degradation import DenseEvaluator, Protocol, degrade, scored_by
from pgig.drawing.heatmaps import strengths
import torch

protocol = Protocol(patch={protocol.patch}, steps={protocol.steps}, fill={fill!r})
grid = protocol.grid(x)
maps = {{name: strengths(one.attribution[0], signed=one.signed) for name, one in found.items()}}
sums = {{name: grid.sums(torch.from_numpy(shown.copy())[None, None]) for name, shown in maps.items()}}
evaluator = DenseEvaluator(scored_by(model, "probability"))  # pgig.incremental has the quick one
curves = degrade(evaluator, x, torch.tensor([{asked[0]}]), sums, protocol, [{picture.name!r}])
"""


def truth_code(setting: str, wanted: str, seed: int, methods: Sequence[str]) -> str:
    """The Python that draws the same image and explains it."""
    return f"""import pgig
from pgig.app.truths import drawn
from pgig.synthetic import embedded, embedded_patterns

model = embedded()
picture, label, mask = drawn({setting!r}, {wanted!r}, {seed})
found = pgig.explain(
    model, picture.x, {list(methods)!r}, target=label, patterns=embedded_patterns(model), ids=[picture.name],
)
"""


def _model_lines(
    network: Network, picture: Picture, file: str, asked: Sequence[int], methods: Sequence[str]
) -> str:  # fmt: skip
    """Down to what was found."""
    names, options, before = list(methods), f'target={asked[0]}, score="probability"', ""
    if len(asked) == 2:
        before, options = _CONTRAST.format(*asked), "score=score"
        # backpropagation from the score itself would turn signs where it is negative
        names = [f"{name}+start=one" if _starts(name) else name for name in methods]
    patterns = "None" if network.patterns is None else '"auto"'
    if network.given:
        patterns = f"pgig.Patterns.load({network.given!r})"
        patterns = f"dict({patterns})" if network.forced else patterns
    weights = "" if network.weights is None else f", {network.weights!r}"
    example = "from pgig.runs.photographs import photographs\n" if file.startswith("photographs()") else ""
    return f"""import pgig
{example}from pgig.vision import Preprocess, load_model

model = load_model({network.model!r}{weights})
preprocess = {_preprocess(network)}
x = preprocess.normalise(preprocess.pixels({file}))[None]
{before}
found = pgig.explain(
    model, x, {names!r}, {options},
    patterns={patterns}, black=preprocess.black, ids=[{picture.name!r}],
)"""


def _preprocess(network: Network) -> str:
    facts = network.preprocess.facts
    if network.preprocess == default_preprocess(network.model, network.weights) and not facts:
        return "Preprocess()"
    return f"Preprocess({', '.join(f'{name}={pformat(value)}' for name, value in facts.items())})"


def _starts(name: str) -> bool:
    explainer = explainers([name])[name]
    return isinstance(explainer, MethodExplainer) and "start" not in explainer.own and "start" in explainer.options
