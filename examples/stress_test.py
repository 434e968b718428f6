# %% [markdown]
# # The paper's stress test, by hand
#
# `y = 1 - ReLU(1 - (x1 - x2))`: the network subtracts x2 from x1 and is flat from 1 on. x1 carries the signal z, both inputs carry the same noise.
# A good explanation follows the signal on x1, on the plateau too, and leaves x2, the distractor, alone.

# %%
import numpy
import torch
from matplotlib.figure import Figure
from torch import nn

import pgig

rng = numpy.random.default_rng(42)
z = numpy.arange(-2, 2, 0.01)
noise = rng.normal(0, 0.3, len(z))
x = torch.tensor(numpy.stack([z + noise, noise], 1))

model = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 1)).double()
model.load_state_dict(
    {
        "0.weight": torch.tensor([[-1.0, 1.0]]), "0.bias": torch.tensor([1.0]),
        "2.weight": torch.tensor([[-1.0]]), "2.bias": torch.tensor([1.0]),
    }
)  # fmt: skip
model.eval()

# %% [markdown]
# Patterns: where the hidden unit is active, x1 goes along with it, and x2 hardly does, whatever the weight on it. `w.p = 1` always.

# %%
patterns = pgig.estimate_patterns(model, [x])
for name, pattern in patterns.items():
    print(name, pattern.numpy().round(3))

# %% alt="Three curves over z: integrated gradients blame x2, pattern attribution is silent beyond 1, PGIG follows x1 alone"
found = pgig.attribute_all(
    ["integrated_gradients", "pgig"], model, x, 0, score="logit", start="one", patterns=patterns, steps=100
)  # fmt: skip
silent = pgig.attribute("pattern_attribution", model, x, 0, score="logit", patterns=patterns)

figure = Figure(figsize=(9, 2.6), layout="constrained")
shown = {"integrated gradients": found["integrated_gradients"], "pattern attribution": silent, "PGIG": found["pgig"]}
for ax, (name, attribution) in zip(figure.subplots(1, 3, sharey=True), shown.items(), strict=True):
    ax.plot(z, attribution[:, 1], color="#d55e00", linewidth=0.8, label="x2, the distractor")
    ax.plot(z, attribution[:, 0], color="#0072b2", linewidth=0.8, label="x1, the signal")
    ax.plot(z, numpy.minimum(z, 1), color="black", linewidth=1, linestyle="--", label="what to follow")
    ax.set_title(name)
    ax.set_xlabel("z")
ax.legend(fontsize=8, frameon=False)
figure

# %% [markdown]
# Integrated gradients follow, and blame the distractor. Pattern attribution leaves it alone, and goes silent on the plateau. PGIG does neither.
