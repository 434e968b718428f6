"""What is run: variants and protocols, as reproduction/questions.md names them."""

ABLATIONS = (
    "pgig,pattern_attribution,integrated_gradients,gradient_x_input,gradient,random,"
    "pgig+start=one,pattern_attribution+start=one,pgig+baseline=black,pgig+baseline=blurred,"
    "integrated_pattern_attribution,pgig+absolute,pattern_attribution+absolute,integrated_pattern_attribution+absolute,"
    "integrated_gradients+absolute,gradient_x_input+absolute,gradient+absolute"
)
# those of them that are tried under every protocol
PROTOCOL_METHODS = (
    "pgig,pattern_attribution,integrated_gradients,random,pgig+baseline=black,pgig+baseline=blurred,"
    "integrated_pattern_attribution,pgig+absolute,pattern_attribution+absolute,integrated_pattern_attribution+absolute,"
    "integrated_gradients+absolute"
)
# all; those that draw many points with fewer
RANDOMIZED = (
    "random,gradient,gradient_x_input,integrated_gradients,vargrad,smoothgrad_squared,smoothgrad_ig+steps=5+samples=5,"
    "expected_gradients+samples=10,guided_backprop,pattern_attribution,pgig"
)
RELEASED = "skip_top", "positive_channels", "released"  # for --protocol, in place of the paper's
ALL_METHODS = ("positive_channels",)  # those of them that all methods are tried under
FILLS = "image_mean", "blur"  # for --fill, in place of the patch's own mean: on the embedded networks
PHOTOGRAPH_FILLS = ("image_mean",)  # and on photographs
REGIMES = "auto", "centred"
CENTRED = ", centred patterns"  # behind the name of a method that was given them
DIGITS = 6  # of published areas
