"""The families of the zoo: one small variant of each, made with random weights."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Family:
    source: str  # the package
    name: str
    variant: str
    make: Callable[[], nn.Module]
    example: Callable[[int], dict[str, Any]]  # how many rows -> what the model takes: an image by "x", or by name


def families() -> Iterator[Family]:
    _allow_torchvision()
    yield from _timm()
    yield from _torchvision()
    yield from _transformers()


def _allow_torchvision() -> None:
    """Its compiled operators do not load beside every build of torch; these two must exist for its import."""
    try:
        torch.ops.torchvision.nms  # noqa: B018
    except AttributeError:
        global _LIBRARY
        _LIBRARY = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            _LIBRARY.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


_LIBRARY: Any = None


TIMM = {
    "bat": "bat_resnext26ts",
    "bit": "resnetv2_50x1_bit",
    "botnet": "botnet26t_256",
    "byobnet": "test_byobnet",
    "caformer": "caformer_s18",
    "cait": "cait_xxs24_224",
    "coat": "coat_tiny",
    "coatnet": "coatnet_pico_rw_224",
    "coatnext": "coatnext_nano_rw_224",
    "convformer": "convformer_s18",
    "convit": "convit_tiny",
    "convmixer": "convmixer_768_32",
    "convnext": "convnext_atto_rms",
    "convnextv2": "convnextv2_atto",
    "cpubone": "cpubone_nano",
    "crossvit": "crossvit_tiny_240",
    "cs3darknet": "cs3darknet_s",
    "cspdarknet": "cspdarknet53",
    "cspresnet": "cspresnet50",
    "cspresnext": "cspresnext50",
    "darknet": "darknet17",
    "davit": "davit_tiny",
    "deit": "deit_tiny_patch16_224",
    "densenet": "densenet121",
    "densenetblur": "densenetblur121d",
    "dla": "dla46_c",
    "dpn": "dpn48b",
    "eca_nfnet": "eca_nfnet_l0",
    "eca_resnext": "eca_resnext26ts",
    "ecaresnet": "ecaresnet26t",
    "ecaresnetlight": "ecaresnetlight",
    "ecaresnext": "ecaresnext26t_32x4d",
    "edgenext": "edgenext_xx_small",
    "efficientformer": "efficientformer_l1",
    "efficientformerv2": "efficientformerv2_s0",
    "efficientnet": "efficientnet_b0",
    "efficientnet evos": "test_efficientnet_evos",
    "efficientnet gn": "test_efficientnet_gn",
    "efficientnet lite": "tf_efficientnet_lite0",
    "efficientnet tf": "tf_efficientnet_b0",
    "efficientnetv2": "efficientnetv2_rw_t",
    "efficientvim": "efficientvim_m1",
    "efficientvit": "efficientvit_m0",
    "efficientvit_b": "efficientvit_b0",
    "ese_vovnet": "ese_vovnet19b_slim_dw",
    "eva02": "eva02_tiny_patch14_224",
    "fasternet": "fasternet_t0",
    "fastvit": "fastvit_t8",
    "fbnetc": "fbnetc_100",
    "fbnetv3": "fbnetv3_b",
    "flexivit": "flexivit_small",
    "focalnet": "focalnet_tiny_srf",
    "gc_efficientnetv2": "gc_efficientnetv2_rw_t",
    "gcresnet": "gcresnet33ts",
    "gcresnext": "gcresnext26ts",
    "gcvit": "gcvit_xxtiny",
    "gernet": "gernet_s",
    "ghostnet": "ghostnet_050",
    "ghostnetv3": "ghostnetv3_050",
    "gmixer": "gmixer_12_224",
    "gmlp": "gmlp_ti16_224",
    "halonet": "halonet_h1",
    "haloregnetz": "haloregnetz_b",
    "hardcorenas": "hardcorenas_b",
    "hgnet": "hgnet_tiny",
    "hgnetv2": "hgnetv2_b0",
    "hiera": "hiera_tiny_224",
    "hrnet": "hrnet_w18_small",
    "iformer": "iformer_t",
    "inception_next": "inception_next_atto",
    "inception_v3": "inception_v3",
    "lambda_resnet": "lambda_resnet26t",
    "lcnet": "lcnet_035",
    "lcnetv2": "lcnetv2_small",
    "legacy_seresnet": "legacy_seresnet18",
    "levit": "levit_128s",
    "lowformer": "lowformer_b0",
    "mambaout": "mambaout_femto",
    "maxvit": "maxvit_pico_rw_256",
    "maxxvit": "maxxvit_rmlp_nano_rw_256",
    "maxxvitv2": "maxxvitv2_nano_rw_256",
    "mixer": "mixer_s16_224",
    "mixnet": "mixnet_s",
    "mnasnet": "mnasnet_small",
    "mobilenet_edgetpu": "mobilenet_edgetpu_100",
    "mobilenetv2": "mobilenetv2_050",
    "mobilenetv3": "mobilenetv3_small_050",
    "mobilenetv4": "mobilenetv4_conv_small",
    "mobileone": "mobileone_s0",
    "mobilevit": "mobilevit_xxs",
    "mobilevitv2": "mobilevitv2_050",
    "mvitv2": "mvitv2_tiny",
    "nest": "nest_tiny",
    "nextvit": "nextvit_small",
    "nf_regnet": "nf_regnet_b0",
    "nf_resnet": "nf_resnet50",
    "nfnet": "test_nfnet",
    "pit": "pit_ti_224",
    "poolformer": "poolformer_s12",
    "poolformerv2": "poolformerv2_s12",
    "pvt_v2": "pvt_v2_b0",
    "rdnet": "rdnet_tiny",
    "regnetv": "regnetv_040",
    "regnetx": "regnetx_002",
    "regnety": "regnety_002",
    "regnetz": "regnetz_005",
    "repghostnet": "repghostnet_050",
    "repvgg": "repvgg_a0",
    "repvit": "repvit_m1",
    "res2next": "res2next50",
    "resmlp": "resmlp_12_224",
    "resnest": "resnest14d",
    "resnet": "resnet10t",
    "resnetaa": "resnetaa34d",
    "resnetblur": "resnetblur18",
    "resnetv2": "resnetv2_18",
    "resnext": "resnext26ts",
    "rexnet": "rexnet_100",
    "rexnetr": "rexnetr_100",
    "sebotnet": "sebotnet33ts_256",
    "sedarknet": "sedarknet21",
    "sehalonet": "sehalonet33ts",
    "selecsls": "selecsls42",
    "semnasnet": "semnasnet_050",
    "sequencer": "sequencer2d_s",
    "seresnet": "seresnet18",
    "seresnetaa": "seresnetaa50d",
    "seresnext": "seresnext26ts",
    "shvit": "shvit_s1",
    "skresnet": "skresnet18",
    "skresnext": "skresnext50_32x4d",
    "spnasnet": "spnasnet_100",
    "starnet": "starnet_s050",
    "swiftformer": "swiftformer_xs",
    "swin": "swin_tiny_patch4_window7_224",
    "swinv2": "swinv2_tiny_window8_256",
    "swinv2_cr": "swinv2_cr_tiny_224",
    "tiny_vit": "tiny_vit_5m_224",
    "tinynet": "tinynet_e",
    "tnt": "tnt_s_legacy_patch16_224",
    "tresnet": "tresnet_m",
    "twins": "twins_svt_small",
    "visformer": "visformer_tiny",
    "vit": "vit_tiny_patch16_224",
    "vit hybrid": "vit_tiny_r_s16_p8_224",
    "vit qk norm": "test_vit4",
    "vit relpos": "vit_relpos_small_patch16_224",
    "vit rope": "vit_small_patch16_rope_ape_224",
    "volo": "volo_d1_224",
    "vovnet": "vovnet39a",
    "xception": "xception41p",
    "xcit": "xcit_nano_12_p8_224",
}
SMALLER = 96  # pixels, where a model takes images of any size


def _timm() -> Iterator[Family]:
    import timm

    for name, variant in TIMM.items():
        config = timm.get_pretrained_cfg(variant)
        assert config is not None
        fixed = config.fixed_input_size or variant in _WANTS_ITS_SIZE
        size = config.input_size[-1] if fixed else max(SMALLER, *(config.min_input_size or (3, 1, 1))[1:])
        yield Family("timm", name, variant, lambda variant=variant: timm.create_model(variant), _images(size))  # type: ignore[misc]


# models that do not say so, but fail on others
_WANTS_ITS_SIZE: set[str] = set()


def _images(size: int) -> Callable[[int], dict[str, Any]]:
    def example(rows: int) -> dict[str, Any]:
        return {"x": torch.randn(rows, 3, size, size, generator=torch.Generator().manual_seed(0))}

    return example


# the name of a family -> a variant, and the side of its images
TORCHVISION = {
    "alexnet": ("alexnet", 96),
    "vgg": ("vgg11_bn", 64),
    "squeezenet": ("squeezenet1_1", 96),
    "googlenet": ("googlenet", 96),
    "inception": ("inception_v3", 128),
    "densenet": ("densenet121", 96),
    "mobilenet v2": ("mobilenet_v2", 96),
    "mobilenet v3": ("mobilenet_v3_small", 96),
    "mnasnet": ("mnasnet0_5", 96),
    "shufflenet v2": ("shufflenet_v2_x0_5", 96),
    "efficientnet": ("efficientnet_b0", 96),
    "efficientnet v2": ("efficientnet_v2_s", 96),
    "convnext": ("convnext_tiny", 96),
    "regnet": ("regnet_y_400mf", 96),
    "resnet": ("resnet18", 96),
    "resnext": ("resnext50_32x4d", 96),
    "wide resnet": ("wide_resnet50_2", 64),
    "swin": ("swin_t", 96),
    "swin v2": ("swin_v2_t", 96),
    "maxvit": ("maxvit_t", 224),
    "segmentation lraspp": ("lraspp_mobilenet_v3_large", 96),
    "segmentation deeplab": ("deeplabv3_mobilenet_v3_large", 96),
    "video r3d": ("r3d_18", 32),
}


def _torchvision() -> Iterator[Family]:
    import torchvision

    for name, (variant, size) in TORCHVISION.items():
        make = torchvision.models.get_model_builder(variant)
        accepted = inspect.signature(make).parameters
        options: dict[str, Any] = {"weights": None}
        options |= {"weights_backbone": None} if "weights_backbone" in accepted else {}
        options |= {"init_weights": True} if variant in ("googlenet", "inception_v3") else {}
        video = variant == "r3d_18"
        example = _videos(size) if video else _images(size)
        yield Family("torchvision", name, variant, lambda make=make, options=options: make(**options), example)  # type: ignore[misc]


def _videos(size: int) -> Callable[[int], dict[str, Any]]:
    return lambda rows: {"x": torch.randn(rows, 3, 4, size, size, generator=torch.Generator().manual_seed(0))}


_TEXT = {
    "vocab_size": 200,
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "max_position_embeddings": 64,
    "num_labels": 4,
    "pad_token_id": 0,
}
_GPT = {
    "vocab_size": 200,
    "n_embd": 48,
    "n_layer": 3,
    "n_head": 4,
    "n_positions": 64,
    "num_labels": 4,
    "pad_token_id": 0,
}
_LLAMA = {**_TEXT, "num_key_value_heads": 2}
# the name of a family -> its configuration, its class, and options of the configuration
TEXTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertConfig", "BertForSequenceClassification", _TEXT),
    "distilbert": (
        "DistilBertConfig",
        "DistilBertForSequenceClassification",
        {"vocab_size": 200, "dim": 48, "n_layers": 3, "n_heads": 4, "hidden_dim": 96, "num_labels": 4},
    ),
    "roberta": ("RobertaConfig", "RobertaForSequenceClassification", {**_TEXT, "pad_token_id": 1}),
    "albert": ("AlbertConfig", "AlbertForSequenceClassification", {**_TEXT, "embedding_size": 24}),
    "electra": ("ElectraConfig", "ElectraForSequenceClassification", {**_TEXT, "embedding_size": 24}),
    "deberta v2": (
        "DebertaV2Config",
        "DebertaV2ForSequenceClassification",
        {**_TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    ),
    "mpnet": ("MPNetConfig", "MPNetForSequenceClassification", {**_TEXT, "pad_token_id": 1}),
    "funnel": (
        "FunnelConfig",
        "FunnelForSequenceClassification",
        {
            "vocab_size": 200,
            "block_sizes": [1, 1],
            "d_model": 48,
            "n_head": 4,
            "d_head": 12,
            "d_inner": 96,
            "num_labels": 4,
        },
    ),
    "xlnet": (
        "XLNetConfig",
        "XLNetForSequenceClassification",
        {"vocab_size": 200, "d_model": 48, "n_layer": 2, "n_head": 4, "d_inner": 96, "num_labels": 4},
    ),
    "bart": (
        "BartConfig",
        "BartForSequenceClassification",
        {
            "vocab_size": 200,
            "d_model": 48,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 96,
            "decoder_ffn_dim": 96,
            "max_position_embeddings": 64,
            "num_labels": 4,
            "pad_token_id": 0,
            "eos_token_id": 2,
        },
    ),
    "t5": (
        "T5Config",
        "T5ForSequenceClassification",
        {
            "vocab_size": 200,
            "d_model": 48,
            "d_kv": 12,
            "d_ff": 96,
            "num_layers": 2,
            "num_heads": 4,
            "num_labels": 4,
            "pad_token_id": 0,
            "eos_token_id": 2,
            "decoder_start_token_id": 0,
        },
    ),
    "gpt2": ("GPT2Config", "GPT2ForSequenceClassification", _GPT),
    "gpt neox": ("GPTNeoXConfig", "GPTNeoXForSequenceClassification", _TEXT),
    "opt": ("OPTConfig", "OPTForSequenceClassification", {**_TEXT, "ffn_dim": 96, "word_embed_proj_dim": 48}),
    "bloom": (
        "BloomConfig",
        "BloomForSequenceClassification",
        {"vocab_size": 200, "hidden_size": 48, "n_layer": 2, "n_head": 4, "num_labels": 4, "pad_token_id": 0},
    ),
    "llama": ("LlamaConfig", "LlamaForSequenceClassification", _LLAMA),
    "mistral": ("MistralConfig", "MistralForSequenceClassification", _LLAMA),
    "qwen2": ("Qwen2Config", "Qwen2ForSequenceClassification", _LLAMA),
    "gemma": ("GemmaConfig", "GemmaForSequenceClassification", {**_LLAMA, "head_dim": 12}),
    "modernbert": (
        "ModernBertConfig",
        "ModernBertForSequenceClassification",
        {**_TEXT, "cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2},
    ),
}
_VISION = {
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "image_size": 64,
    "patch_size": 8,
    "num_labels": 4,
}
PICTURES: dict[str, tuple[str, str, dict[str, Any], int]] = {
    "vit": ("ViTConfig", "ViTForImageClassification", _VISION, 64),
    "deit": ("DeiTConfig", "DeiTForImageClassification", _VISION, 64),
    "beit": ("BeitConfig", "BeitForImageClassification", _VISION, 64),
    "dinov2": ("Dinov2Config", "Dinov2ForImageClassification", {**_VISION, "mlp_ratio": 2}, 64),
    "convnext": (
        "ConvNextConfig",
        "ConvNextForImageClassification",
        {"hidden_sizes": [16, 24, 32, 48], "depths": [1, 1, 2, 1], "num_labels": 4},
        64,
    ),
    "swin": (
        "SwinConfig",
        "SwinForImageClassification",
        {"image_size": 64, "embed_dim": 24, "depths": [1, 2], "num_heads": [2, 4], "window_size": 4, "num_labels": 4},
        64,
    ),
    "segformer": (
        "SegformerConfig",
        "SegformerForImageClassification",
        {"hidden_sizes": [16, 24, 32, 48], "depths": [1, 1, 1, 1], "num_labels": 4},
        64,
    ),
    "mobilevit": (
        "MobileViTConfig",
        "MobileViTForImageClassification",
        {
            "image_size": 64,
            "hidden_sizes": [24, 32, 48],
            "neck_hidden_sizes": [8, 12, 16, 24, 32, 48, 64],
            "num_labels": 4,
            "initializer_range": 0.2,
        },
        64,
    ),
    "resnet": (
        "ResNetConfig",
        "ResNetForImageClassification",
        {"embedding_size": 16, "hidden_sizes": [16, 24, 32, 48], "depths": [1, 1, 1, 1], "num_labels": 4},
        64,
    ),
    "clip vision": ("CLIPVisionConfig", "CLIPForImageClassification", _VISION, 64),
}


def _transformers() -> Iterator[Family]:
    import transformers

    def made(config: str, kind: str, options: dict[str, Any]) -> nn.Module:
        found = getattr(transformers, config)(**options)
        if kind.startswith("CLIP"):
            found = transformers.CLIPConfig(vision_config=found.to_dict())
            found.num_labels = 4
        # attention as torch's own operations, which every model has
        found._attn_implementation = "sdpa" if kind.startswith(("Bert", "Distil", "GPT2", "ViT", "Llama")) else "eager"
        model: nn.Module = getattr(transformers, kind)(found)
        return model

    for name, (config, kind, options) in TEXTS.items():
        yield Family("transformers", name, kind, lambda of=(config, kind, options): made(*of), _tokens)  # type: ignore[misc]
    for name, (config, kind, options, size) in PICTURES.items():
        yield Family("transformers", name, kind, lambda of=(config, kind, options): made(*of), _pixels(size))  # type: ignore[misc]


def _tokens(rows: int) -> dict[str, Any]:
    ids = torch.randint(3, 200, (rows, 12), generator=torch.Generator().manual_seed(0))
    ids[:, -1] = 2  # the end of a text, by which some know where it is
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _pixels(size: int) -> Callable[[int], dict[str, Any]]:
    return lambda rows: {"pixel_values": _images(size)(rows)["x"]}


def given(example: dict[str, Any]) -> Tensor | dict[str, Any]:
    """As check, attribute and estimate_patterns take it."""
    return example.get("x", example)
