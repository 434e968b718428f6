"""Images from files, named architectures, and weights."""

from pgig.vision.models import MODELS, load_model
from pgig.vision.preprocess import Preprocess
from pgig.vision.weights import load_weights

__all__ = ["MODELS", "Preprocess", "load_model", "load_weights"]
