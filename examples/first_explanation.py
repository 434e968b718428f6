# %% [markdown]
# # A first explanation
#
# A photograph, a network that comes as a package (EfficientNet-Lite0, with the extra `cli`), and three ways to ask what mattered.

# %%
import torch
from PIL import Image
from skimage import data

import pgig
from pgig.vision import default_preprocess, imagenet_classes, load_model

model = load_model("efficientnet_lite0")
preprocess = default_preprocess("efficientnet_lite0", None)
Image.fromarray(data.chelsea()).save("cat.png")  # or a photograph of yours
pixels = preprocess.pixels("cat.png")
x = preprocess.normalise(pixels)[None]

with torch.no_grad():
    likely = model(x).softmax(1)[0].topk(3)
for share, number in zip(*(found.tolist() for found in likely), strict=True):
    print(f"{share:.2f} {imagenet_classes()[number]}")

# %% [markdown]
# One call explains by several methods, and gives data: attributions as arrays, what was predicted, with which options, how long it took.

# %% alt="A cat, and three maps: squares by occlusion, points by integrated gradients, outlines by the magnitudes of PGIG"
found = pgig.explain(model, x, "occlusion+stride=16,integrated_gradients,pgig+absolute", patterns="auto")
pgig.show(found, pixels)

# %% [markdown]
# Red speaks for the class, blue against it; purple has no sign. The maps differ, as they answer different questions. Which is to be
# believed? Take away what each ranks highest, and ask the network again:

# %%
from pgig.measures import judge

target = int(found["pgig+absolute"].predicted[0])
judged = judge("morf", model, x, target, {name: one.attribution for name, one in found.items()})
for name, columns in judged.items():
    print(f"{name:24s} area under the curve {float(columns['AUC'][0]):.3f}, lower is better")

# %% [markdown]
# One picture decides nothing; [choosing a method](../choosing.md) has what many pictures say.
