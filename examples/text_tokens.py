# %% [markdown]
# # Text, token by token
#
# Token ids have no gradient, so texts are explained through the output of the embedding that they are looked up in. Here with a small network
# that is trained on the spot; a network of transformers goes the same way, with its tokenizer.

# %%
import torch
from torch import Tensor, nn

import pgig

GOOD, BAD = ["good", "great", "lovely", "clever"], ["bad", "dull", "awful", "silly"]
WORDS = ["<pad>", "the", "film", "was", "and", "plot", "a", "not", *GOOD, *BAD]
NUMBERS = {word: number for number, word in enumerate(WORDS)}


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(WORDS), 16, padding_idx=0)
        self.mix = nn.Conv1d(16, 32, 3, padding=1)
        self.out = nn.Linear(32, 2)

    def forward(self, input_ids: Tensor) -> Tensor:
        seen = torch.relu(self.mix(self.embedding(input_ids).transpose(1, 2)))
        return self.out(seen.amax(2))


def sentence(rng: torch.Generator) -> tuple[str, int]:
    """`not` turns a word round."""
    label, turned = torch.randint(2, (2,), generator=rng).tolist()
    words = (GOOD if label != turned else BAD) if turned else (GOOD if label else BAD)
    word = words[int(torch.randint(len(words), (1,), generator=rng))]
    return f"the film was {'not ' if turned else ''}{word} and a plot", label


def ids_of(text: str) -> list[int]:
    ids = [NUMBERS[word] for word in text.split()]
    return ids + [0] * (9 - len(ids))


rng = torch.Generator().manual_seed(0)
texts, labels = zip(*(sentence(rng) for _ in range(1500)), strict=True)
ids, label = torch.tensor([ids_of(text) for text in texts]), torch.tensor(labels)

torch.manual_seed(0)
model = Reader()
optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(150):
    optimiser.zero_grad()
    nn.functional.cross_entropy(model(ids), label).backward()
    optimiser.step()
model.eval()
print(f"right on {float((model(ids).argmax(1) == label).float().mean()):.0%}")

# %%
patterns = pgig.estimate_patterns(model, [ids], "linear")  # words that are always there do not vary: no signal
asked = torch.tensor([ids_of("the film was not dull and a plot"), ids_of("the film was lovely and a plot")])
found = pgig.explain_tokens(
    model, asked, ["integrated_gradients", "pgig"], tokenizer=WORDS.__getitem__, patterns=patterns, target=1
)  # fmt: skip
for name, one in found.items():
    print(name)
    for row in range(len(asked)):
        values = abs(one.attribution[row]) if name == "pgig" else one.attribution[row]  # by size: see below
        shares = values / abs(values).max()  # of the largest
        told = zip(one.tokens[row], shares.tolist(), strict=True)
        print("   ", "  ".join(f"{token} {value:+.2f}" for token, value in told if token != "<pad>"))

# %% [markdown]
# Integrated gradients name the words that decide. PGIG is shown by its size, since its sign is that of the evidence times x - x0, and a direction of
# an embedding has no "up"; it also names neighbours, which go along with the verdict in the windows of three words that this network reads.
#
# In a terminal `print(found["pgig"])` is in colours, and in a notebook the value shows itself.
