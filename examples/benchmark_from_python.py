# %% [markdown]
# # A benchmark, from Python
#
# Which method finds what matters to this network? On images with known truth, so that measures that ask the network can be compared with the
# truth itself. (Over many photographs and days: [`pgig bench`](../howto/benchmark.md), which can be stopped and goes on.)

# %% alt="A shape under coloured streaks, and what seven methods find: noise finds nothing, the others its outline"
import pgig
from pgig.measures import Setting, judge
from pgig.synthetic import embedded, embedded_patterns
from pgig.synthetic.images import pixels, samples

model = embedded("plain")
patterns = embedded_patterns(model, images=300)
x, label, mask = samples("suppressor", 16)

methods = "random,gradient,integrated_gradients,guided_backprop,pattern_attribution,pgig,pgig+absolute"
found = pgig.explain(model, x, methods, label, patterns=patterns)
attributions = {name: one.attribution for name, one in found.items()}
pgig.show({name: a[3] for name, a in attributions.items()}, pixels(x[3]), columns=4, magnitudes=["pgig+absolute"])

# %% [markdown]
# Two measures that ask the network, and one that knows the truth: how much of the positive attribution lies on the object.

# %%
setting = Setting(ids=range(len(x)), masks=mask)
asked = {"morf+patch=4+steps=60": "AUC", "sensitivity_n+patch=4": "correlation", "localization": "mass"}
judged = {measure: judge(measure, model, x, label, attributions, setting) for measure in asked}
print(f"{'':24s} removal: lower   sets: higher   on the object: higher")
for name in attributions:
    removal, sets, mass = (judged[measure][name][column].mean() for measure, column in asked.items())
    print(f"{name:24s} {removal:14.3f} {sets:14.3f} {mass:23.2f}")

# %% [markdown]
# They do not agree on everything: [measures, and what they cannot tell](../concepts/measures.md).
