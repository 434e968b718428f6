"""Token models: attributions to tokens through their embedding, for every method, against Captum's."""

import pytest
import torch
from optional import transformers
from torch import Tensor, nn

import pgig
from pgig.methods.table import METHODS

EXACT = {"rtol": 1e-8, "atol": 1e-11}
SIZES = {"vocab_size": 60, "num_labels": 3, "pad_token_id": 0}


def bert() -> nn.Module:
    return transformers().BertForSequenceClassification(
        transformers().BertConfig(
            **SIZES, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
            max_position_embeddings=16,
        )
    )  # fmt: skip


def distilbert() -> nn.Module:
    return transformers().DistilBertForSequenceClassification(
        transformers().DistilBertConfig(
            **SIZES, dim=16, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=16
        )
    )


def gpt2() -> nn.Module:
    return transformers().GPT2ForSequenceClassification(
        transformers().GPT2Config(**SIZES, n_embd=16, n_layer=2, n_head=2, n_positions=16)
    )


EMBEDDING = {
    bert: "bert.embeddings.word_embeddings",
    distilbert: "distilbert.embeddings.word_embeddings",
    gpt2: "transformer.wte",
}


def made(make) -> nn.Module:
    torch.manual_seed(0)
    return make().double().eval()


def ids(rows: int = 3) -> Tensor:
    found = torch.randint(1, 60, (rows, 8), generator=torch.Generator().manual_seed(1))
    found[1, 5:] = 0  # padded
    return found


def masks(tokens: Tensor) -> dict[str, Tensor]:
    return {"attention_mask": (tokens != 0).long()}


@pytest.mark.parametrize("make", EMBEDDING)
@pytest.mark.parametrize("baseline", ["padding", "zero"])
@pytest.mark.filterwarnings("ignore::UserWarning:captum")
def test_integrated_gradients_are_captums(make, baseline):
    from captum.attr import LayerIntegratedGradients

    model, tokens = made(make), ids().clamp(max=58)
    layer = model.get_submodule(EMBEDDING[make])
    with torch.no_grad():
        layer.weight[59] = 0  # Captum looks baselines up as well: this one is zero
    (found,) = pgig.explain_tokens(
        model,
        tokens,
        "integrated_gradients",
        1,
        baseline=baseline,
        forward_kwargs=masks(tokens),
        steps=20,
        score="logit",
    ).values()
    integrated = LayerIntegratedGradients(lambda t, mask: model(t, attention_mask=mask).logits, layer)
    start = torch.full_like(tokens, 0 if baseline == "padding" else 59)
    wanted = integrated.attribute(
        tokens, baselines=start, target=1, n_steps=20, method="riemann_right",
        additional_forward_args=(masks(tokens)["attention_mask"],),
    ).sum(-1)  # fmt: skip
    # Captum's steps are float32
    torch.testing.assert_close(torch.from_numpy(found.attribution), wanted.detach(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("make", EMBEDDING)
@pytest.mark.filterwarnings("ignore:.*unreliable:pgig.PgigWarning")
@pytest.mark.filterwarnings("ignore:guided backpropagation left:pgig.PgigWarning")
@pytest.mark.filterwarnings("ignore:.*cancels out over the features:pgig.PgigWarning")
def test_every_method_explains_tokens(make):
    model, tokens = made(make), ids()
    batches = [{"input_ids": t, **masks(t)} for t in torch.randint(1, 60, (6, 20, 8))]
    patterns = pgig.estimate_patterns(model, batches)
    assert patterns.unsupported == ()
    before = [hook for module in model.modules() for hook in (*module._forward_hooks, *module._forward_pre_hooks)]
    methods = [name for name in METHODS if name != "guided_backprop"]
    found = pgig.explain_tokens(
        model, tokens, methods, patterns=patterns, references=ids(5).clamp(min=1), forward_kwargs=masks(tokens),
        samples=3, steps=3,
    )  # fmt: skip
    assert list(found) == methods
    at = pgig.Subject(model, patterns, at=EMBEDDING[make])
    inner = at.inner(tokens, **masks(tokens))
    plain = pgig.attribute(
        "pgig", at, inner, patterns=patterns, steps=3, forward_args=(tokens,), forward_kwargs=masks(tokens),
        baseline=at.inner(torch.zeros_like(tokens), **masks(tokens)),
    )  # fmt: skip
    torch.testing.assert_close(torch.from_numpy(found["pgig"].attribution), plain.sum(-1), **EXACT)
    for name, explanation in found.items():
        assert explanation.attribution.shape == tokens.shape, name
        assert explanation.options["embedding"] == EMBEDDING[make]
    assert [
        hook for module in model.modules() for hook in (*module._forward_hooks, *module._forward_pre_hooks)
    ] == before
    soft = (
        pgig.explain_tokens(model, tokens, "guided_backprop", forward_kwargs=masks(tokens), soft_gates=True)
        if (
            make is not gpt2  # its GELU is written out, and has no gate to see
        )
        else {}
    )
    assert all(explanation.attribution.any() for explanation in soft.values())


@pytest.mark.parametrize("make", EMBEDDING)
def test_padding_gets_nothing_and_changes_nothing(make):
    """A text with padding behind it is explained as it is without."""
    model, tokens = made(make), ids()[1:2]
    padded = pgig.explain_tokens(model, tokens, "integrated_gradients", forward_kwargs=masks(tokens))
    alone = pgig.explain_tokens(model, tokens[:, :5], "integrated_gradients", forward_kwargs=masks(tokens[:, :5]))
    (one,), (other,) = padded.values(), alone.values()
    torch.testing.assert_close(torch.from_numpy(one.attribution[:, :5]), torch.from_numpy(other.attribution), **EXACT)
    assert not one.attribution[:, 5:].any()
    assert one.shown.tolist() == [[True] * 5 + [False] * 3]


class Tokenizer:
    pad_token_id = 0

    def convert_ids_to_tokens(self, row: list[int]) -> list[str]:
        return [["[PAD]", "the", "film", "##s", "<b>", "\x1b[31m"][min(token, 5)] for token in row]


def test_gradients_that_cancel_out_before_a_layer_norm_are_told():
    model, tokens = made(bert), ids()
    with pytest.warns(pgig.PgigWarning, match="gradient cancels out over the features of every token"):
        pgig.explain_tokens(model, tokens, "gradient", forward_kwargs=masks(tokens))


def test_what_a_tokenizer_gives_is_taken_and_ids_may_be_positions():
    model, tokens = made(bert), torch.arange(8)[None]
    (one,) = pgig.explain_tokens(model, {"attention_mask": torch.ones_like(tokens), "input_ids": tokens}).values()
    (other,) = pgig.explain_tokens(model, tokens, forward_kwargs={"attention_mask": torch.ones_like(tokens)}).values()
    assert (one.attribution == other.attribution).all()
    assert one.options["embedding"] == "bert.embeddings.word_embeddings"
    report = pgig.check(model, {"attention_mask": torch.ones_like(tokens), "input_ids": tokens + 9})
    assert "gradients were tested" in str(report)


def test_texts_are_coloured_and_safe():
    model, tokens = made(bert), torch.tensor([[1, 2, 3, 4, 5, 0]])
    (found,) = pgig.explain_tokens(
        model, tokens, "gradient_x_input", tokenizer=Tokenizer(), forward_kwargs=masks(tokens)
    ).values()  # fmt: skip
    words = str(found)
    assert "\x1b" not in words  # no terminal
    assert "the films" in words
    assert "[PAD]" not in words
    coloured = found.text(colour=True)
    assert coloured.count("\x1b[48;2;") == 5
    assert "\x1b[31m" not in coloured
    page = found._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "red: for the class, blue: against it" in page
    strongest = abs(found.attribution[0]).argmax()
    red = found.attribution[0][strongest] > 0
    assert ("background:rgb(178,24,43)" in page) == red
    assert ("background:rgb(33,102,172)" in page) == (not red)
    assert len(found) == 1
    assert len(list(found)) == 1
    assert "TokenExplanation by gradient_x_input of 1 texts" in repr(found)


def test_token_baselines_and_bad_input():
    model, tokens = made(bert), ids()
    with torch.no_grad():
        model.get_input_embeddings().weight[0] = torch.linspace(-1, 1, 16)  # of padding: zero in a fresh model
    named = {"forward_kwargs": masks(tokens), "methods": "integrated_gradients", "steps": 3}

    def explained(**options) -> Tensor:
        (found,) = pgig.explain_tokens(model, tokens, **named, **options).values()
        return torch.from_numpy(found.attribution)

    torch.testing.assert_close(explained(), explained(baseline="padding"), **EXACT)
    torch.testing.assert_close(explained(baseline=7), explained(baseline=torch.full((3, 8), 7)), **EXACT)
    assert not torch.allclose(explained(), explained(baseline="zero"))
    for match, options in {
        "unknown baseline 'black'": {"baseline": "black"},
        "does not fit ids": {"baseline": torch.ones(5, dtype=torch.long)},
        "whole numbers; 'zero'": {"baseline": torch.ones(8)},
    }.items():
        with pytest.raises(pgig.PgigError, match=match):
            explained(**options)
    with pytest.raises(pgig.PgigError, match="input_ids must be token ids"):
        pgig.explain_tokens(model, tokens.double())
    with pytest.raises(pgig.PgigError, match="input_ids must be token ids"):
        pgig.explain_tokens(model, [[1, 2]])  # type: ignore[arg-type]
    with pytest.raises(pgig.PgigError, match="not looked up in 'words'"):
        pgig.explain_tokens(model, tokens, embedding="words")
    with pytest.raises(pgig.PgigError, match=r"not looked up in 'bert\.embeddings\.token_type_embeddings'"):
        pgig.explain_tokens(model, tokens, embedding="bert.embeddings.token_type_embeddings")
    for bad in (tokens + 300, tokens.repeat(1, 9), -tokens):
        with pytest.raises(pgig.PgigError, match="the model failed on token ids of shape"):
            pgig.explain_tokens(model, bad)
    with pytest.raises(pgig.PgigError, match=r"in 0\.\.59, got 999"):
        explained(baseline=999)
    with pytest.raises(pgig.PgigError, match="the tokenizer must have"):
        explained(tokenizer=3)
    with pytest.raises(pgig.PgigError, match="forward_kwargs must be a mapping"):
        pgig.explain_tokens(model, tokens, forward_kwargs=[1])  # type: ignore[arg-type]
    with pytest.raises(pgig.PgigError, match="not looked up in one embedding"):
        pgig.explain_tokens(nn.Sequential(Floats(), nn.Linear(8, 3)).eval(), tokens)


class Floats(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.float()


def test_inputs_by_name_and_outputs_of_every_kind():
    """inputs_embeds, masks and ModelOutputs: everywhere the same."""
    model, tokens = made(bert), ids()
    embeds = model.get_input_embeddings()(tokens).detach()
    found = pgig.attribute(
        "integrated_gradients", model, {"inputs_embeds": embeds, **masks(tokens)}, 1, steps=5, score="logit"
    )
    assert list(found) == ["inputs_embeds"]
    (by_place,) = pgig.explain_tokens(
        model, tokens, "integrated_gradients", 1, forward_kwargs=masks(tokens), steps=5, score="logit", baseline="zero"
    ).values()
    torch.testing.assert_close(found["inputs_embeds"].sum(-1), torch.from_numpy(by_place.attribution), **EXACT)
    assert pgig.check(model, {"inputs_embeds": embeds, **masks(tokens)}).ok
    report = pgig.check(model, tokens, forward_kwargs=masks(tokens))
    assert report.ok
    assert "tested from the output of 'bert.embeddings.word_embeddings' on" in str(report)
    encoding = transformers().BatchEncoding({"input_ids": tokens, **masks(tokens)})
    assert pgig.check(model, encoding).ok
    assert pgig.estimate_moments(model, [encoding]).samples == 3
    with pytest.raises(pgig.PgigError, match="explain_tokens explains token ids"):
        pgig.attribute("gradient", model, encoding)
    with pytest.raises(pgig.PgigError, match=r"a \w+ of last_hidden_state, pooler_output.*pass score="):
        pgig.explain_tokens(model.bert, tokens)
