"""What is run: variants and protocols, as reproduction/questions.md names them."""

ABLATIONS = (
    "pgig,pattern_attribution,integrated_gradients,gradient_x_input,gradient,random,"
    "pgig+start=one,pattern_attribution+start=one,pgig+baseline=black,pgig+baseline=blurred,"
    "integrated_pattern_attribution,pgig+absolute,pattern_attribution+absolute,integrated_pattern_attribution+absolute,"
    "integrated_gradients+absolute,gradient_x_input+absolute,gradient+absolute"
)
RANDOMIZED = "gradient,gradient_x_input,integrated_gradients,vargrad,guided_backprop,pattern_attribution,pgig,random"
RELEASED = "skip_top", "positive_channels", "released"  # for --protocol, in place of the paper's
FILLS = "image_mean", "blur"  # for --fill, in place of the patch's own mean
REGIMES = "auto", "centred"
