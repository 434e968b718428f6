# %% [markdown]
# # From Captum, in one line
#
# Change the import. Constructors, arguments, order and defaults are Captum's; what is left as it was works as it did.

# %%
import torch
from torch import nn

# from captum.attr import IntegratedGradients, NoiseTunnel, Saliency
from pgig.captum import PGIG, IntegratedGradients, NoiseTunnel, Saliency

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 16, 5, stride=2), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
    nn.Linear(256, 5),
).eval()  # fmt: skip
x = torch.randn(2, 3, 64, 64, requires_grad=True)

attribution, delta = IntegratedGradients(model).attribute(x, target=2, n_steps=50, return_convergence_delta=True)
print(tuple(attribution.shape), "completeness is off by at most", f"{float(delta.abs().max()):.1e}")

# %%
torch.manual_seed(0)
smooth = NoiseTunnel(Saliency(model)).attribute(x, nt_type="smoothgrad_sq", nt_samples=10, stdevs=0.2, target=2)
print(f"{float(smooth.mean()):.2e}")

# %% [markdown]
# And what Captum has not: methods with patterns, in the same style.

# %%
import pgig

patterns = pgig.estimate_patterns(model, [torch.randn(64, 3, 64, 64)])
found = PGIG(model, patterns).attribute(x, target=2, n_steps=25)
print(tuple(found.shape))

# %% [markdown]
# What differs is [listed](../howto/from-captum.md), and Captum's own tests run against these classes (`make peers`).
