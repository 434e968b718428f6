# %% [markdown]
# # From Captum, in one line
#
# Change the import. Constructors, arguments, order and defaults are Captum's; what is left as it was works as it did. Here is a trained network that
# comes with pgig: it tells five shapes apart, under noise.

# %%
import torch

import pgig

# from captum.attr import GuidedBackprop, IntegratedGradients, NoiseTunnel, Saliency
from pgig.captum import PGIG, GuidedBackprop, IntegratedGradients, NoiseTunnel, Saliency
from pgig.synthetic import embedded, embedded_patterns
from pgig.synthetic.images import pixels, samples

model = embedded("plain")
x, label, _ = samples("suppressor", 4)
x, shape = x[3:], int(label[3])

paths, delta = IntegratedGradients(model).attribute(x, target=shape, n_steps=50, return_convergence_delta=True)
print(f"integrated gradients add up to the score's change but for {float(delta.abs().max()):.1e}")

# %%
torch.manual_seed(0)
smooth = NoiseTunnel(Saliency(model)).attribute(x, nt_type="smoothgrad_sq", nt_samples=25, stdevs=0.2, target=shape)
guided = GuidedBackprop(model).attribute(x, target=shape)

# %% [markdown]
# And what Captum has not: methods with patterns, in the same style. The attributions are tensors, as from Captum; `pgig.show` draws them.

# %% alt="A shape under coloured streaks, and four maps: integrated gradients with streaks, smoothed, guided, and the shape's outline by PGIG"
patterned = PGIG(model, embedded_patterns(model, images=300)).attribute(x, target=shape, n_steps=25)
maps = {"IntegratedGradients": paths[0], "NoiseTunnel": smooth[0], "GuidedBackprop": guided[0], "PGIG": patterned[0]}
pgig.show(maps, pixels(x[0]), magnitudes=["NoiseTunnel"])

# %% [markdown]
# What differs is [listed](../howto/from-captum.md), and Captum's own tests run against these classes (`make peers`).
