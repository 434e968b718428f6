"""`make peers CAPTUM=path`: Captum's own tests against `pgig.captum`. path: a checkout of pytorch/captum."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
FILES = [
    "attr/test_saliency.py", "attr/test_input_x_gradient.py", "attr/test_guided_backprop.py",
    "attr/test_gradient_shap.py", "attr/test_integrated_gradients_basic.py",
    "attr/test_integrated_gradients_classification.py", "attr/test_targets.py", "attr/test_hook_removal.py",
    "attr/test_input_layer_wrapper.py", "attr/test_deeplift_basic.py", "attr/test_deeplift_classification.py",
    "attr/test_lrp.py", "attr/test_feature_ablation.py", "attr/test_occlusion.py",
    "attr/layer/test_layer_integrated_gradients.py", "attr/layer/test_layer_gradient_shap.py",
    "attr/layer/test_layer_activation.py", "attr/layer/test_layer_conductance.py",
    "attr/layer/test_internal_influence.py", "attr/layer/test_layer_gradient_x_activation.py",
    "attr/neuron/test_neuron_integrated_gradients.py", "attr/neuron/test_neuron_gradient_shap.py",
    "metrics/test_infidelity.py", "metrics/test_sensitivity.py",
]  # fmt: skip
# where we differ on purpose: docs/attribution.md, "Differences"
KNOWN = {
    "test_lrp_ixg_equivalency": "dropout is on",
    "test_future_output": "no futures",
    "test_future_output_2": "no futures",
    "test_future_wrong_usage_2": "no futures",
    "test_basic_multilayer_compare_w_inp_features": "Captum's draws",
    "test_multiple_with_baseline_internal_inf": "Captum's trapezoid weights",
    "test_simple_with_baseline_internal_inf": "Captum's trapezoid weights",
    "test_simple_multi_gradient_activation_with_unused_layer": "a layer that the score does not depend on",
    "test_multiple_layers_multiple_input_outputs": "equal to 2e-6, not to 1e-7",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("captum", type=Path, help="a checkout of Captum, with its tests")
    parser.add_argument("--classes", default="", help="only these, by comma; all that are in both otherwise")
    parser.add_argument("--out", type=Path, help="where to write each test's outcome, as JSON")
    asked, further = parser.parse_known_args()  # what it does not know is for pytest
    if not (asked.captum / "tests" / "attr").is_dir():
        sys.exit(f"no Captum tests in {asked.captum}: give a checkout of its repository, which has tests/attr")
    files = [f"tests/{name}" for name in FILES if (asked.captum / "tests" / name).exists()]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(HERE), str(asked.captum.resolve()), os.environ.get("PYTHONPATH", "")]),
        "PEERS_CLASSES": asked.classes,
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "captum_plugin", "-p", "no:cacheprovider", "--tb=short"]
    with tempfile.TemporaryDirectory() as folder:
        out = asked.out.resolve() if asked.out else Path(folder) / "outcomes.json"
        environment["PEERS_OUT"] = str(out)
        subprocess.run([*command, *further, *files], cwd=asked.captum, env=environment, check=False)
        if not out.exists():
            sys.exit("Captum's tests did not run to their end")
        outcomes = json.loads(out.read_text())
    failed = [test for test, told in outcomes.items() if told["outcome"] == "failed"]
    new = [test for test in failed if test.rpartition("::")[2] not in KNOWN]
    print(
        f"{len(failed)} differ, {len(failed) - len(new)} of them on purpose" + "".join(f"\nnew: {test}" for test in new)
    )
    sys.exit(1 if new or not outcomes else 0)


if __name__ == "__main__":
    main()
