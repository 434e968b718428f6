# %% [markdown]
# # Your own network, with patterns
#
# A signal comes in on one input, together with noise; a second input carries the noise alone. A network that tells the signal must look at both:
# it subtracts the noise. So its weights, and gradients, point at the second input, which says nothing of the signal.

# %%
import torch
from torch import nn

import pgig

rng = torch.Generator().manual_seed(0)
signal = torch.rand(4000, 1, generator=rng) * 4 - 2
noise = torch.randn(4000, 1, generator=rng)
x = torch.cat([signal + noise, noise, 0.3 * torch.randn(4000, 2, generator=rng)], 1)  # two further inputs, of nothing
target = signal.clamp(-1, 1)  # flat beyond 1: a plateau

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
for _ in range(400):
    optimiser.zero_grad()
    loss = nn.functional.mse_loss(model(x), target)
    loss.backward()
    optimiser.step()
model.eval()
print(f"squared error {loss.item():.4f}")

# %% [markdown]
# Patterns are estimated in one pass over inputs: no labels. Then PGIG is a method like any other. `score` says what is explained: here
# the one number that the network gives.

# %%
patterns = pgig.estimate_patterns(model, [x])
print(patterns.health().verdict)

methods = ["integrated_gradients", "pattern_attribution", "pgig"]
found = pgig.attribute_all(
    methods, model, x[:1000], score=lambda output: output[:, 0], patterns=patterns, start="one"
)  # fmt: skip
shares = {name: attribution.abs().mean(0) for name, attribution in found.items()}
print(f"{'':24s} signal+noise   noise   nothing")
for name, share in shares.items():
    first, second, *rest = (share / share.sum()).tolist()
    print(f"{name:24s} {first:12.2f} {second:7.2f} {sum(rest):9.2f}")

# %% [markdown]
# Integrated gradients give the noise its share of the computation; the methods with patterns give the signal's input more, since only there
# inputs go along with what the network says. How that works: [patterns](../patterns.md).
