"""ViT and Swin against transformers, both ways: every layer, logits, the loss of masked patches."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import firth
from firth.core.registry import find_run_recipe
from firth.corpus.images import ImageCorpus
from firth.data.images import ImageExample
from firth.models.shared.image_model import ImageModel
from firth.models.swin.format import load_swin
from firth.models.swin.network import SwinNetwork
from firth.models.vit.format import load_vit
from firth.models.vit.network import VitNetwork
from firth.nn.patches import ImageNetwork, Masked
from image_samples import make_folder

VIT = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 16}
VIT |= {"patch_size": 4, "encoder_stride": 4, "num_labels": 5}
SWIN = {
    "image_size": 32,
    "patch_size": 2,
    "embed_dim": 16,
    "depths": [2, 2, 1],
    "num_heads": [2, 4, 8],
    "window_size": 4,
}
SWIN |= {"encoder_stride": 8, "num_labels": 5, "mlp_ratio": 2.0}
SMALL = {
    "vit": ["hidden_dim=32", "num_layers=2", "num_heads=2", "ffn_dim=64"],
    "swin": ["embedding_dim=16", "depths=[2,2]", "num_heads=[2,4]"],
}


def theirs(kind: str, name: str) -> transformers.PreTrainedModel:
    torch.manual_seed(0)
    settings = transformers.ViTConfig(**VIT) if kind == "vit" else transformers.SwinConfig(**SWIN)
    model = getattr(transformers, f"{'ViT' if kind == 'vit' else 'Swin'}{name}")(settings).eval()
    with torch.no_grad():  # tables of zeros would hide mistakes
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def read(folder: Path, kind: str) -> tuple[ImageNetwork, dict[str, dict[str, torch.Tensor]]]:
    network: ImageNetwork
    if kind == "vit":
        config, weights, heads = load_vit(folder)
        network = VitNetwork(config)
    else:
        swin_config, weights, heads = load_swin(folder)
        network = SwinNetwork(swin_config)
    network.load_state_dict(weights)
    return network.eval(), heads


@pytest.mark.parametrize("kind", ["vit", "swin"])
def test_published_classifier_is_read(kind: str, tmp_path: Path) -> None:
    model = theirs(kind, "ForImageClassification")
    model.save_pretrained(tmp_path)
    network, heads = read(tmp_path, kind)
    size = VIT["image_size"] if kind == "vit" else SWIN["image_size"]
    pixels = torch.randn(3, 3, size, size)
    each: list[torch.Tensor] = []
    blocks = (
        model.vit.layers if kind == "vit" else [block for stage in model.swin.encoder.layers for block in stage.blocks]
    )
    for block in blocks:
        block.register_forward_hook(
            lambda module, given, found: each.append(found[0] if isinstance(found, tuple) else found)
        )
    with torch.inference_mode():
        logits = model(pixels).logits
        layers = network.layers(pixels)
        scores = torch.nn.functional.linear(
            network.summary(pixels), heads["classifier"]["weight"], heads["classifier"]["bias"]
        )
    assert len(each) == len(layers) - 1
    for mine, its in zip(layers[1:-1], each[:-1], strict=True):
        torch.testing.assert_close(mine, its, atol=1e-4, rtol=0)
    torch.testing.assert_close(scores, logits, atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", ["vit", "swin"])
def test_published_masked_model_is_read(kind: str, tmp_path: Path) -> None:
    model = theirs(kind, "ForMaskedImageModeling")
    model.save_pretrained(tmp_path)
    network, heads = read(tmp_path, kind)
    size = VIT["image_size"] if kind == "vit" else SWIN["image_size"]
    pixels, edge = torch.randn(2, 3, size, size), size // network.patch_size
    hidden = torch.rand(2, edge * edge) < 0.5
    with torch.inference_mode():
        wanted = model(pixels, bool_masked_pos=hidden).reconstruction
        last = network.patches(pixels, Masked(hidden, heads["mask_token"][""]), None)
        flat = torch.nn.functional.linear(last, heads["decoder"]["weight"], heads["decoder"]["bias"])
    stride, grid = network.stride, size // network.stride
    image = flat.view(2, grid, grid, 3, stride, stride).permute(0, 3, 1, 4, 2, 5).reshape(2, 3, size, size)
    torch.testing.assert_close(image, wanted, atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", ["vit", "swin"])
@pytest.mark.parametrize("masked", [False, True])
def test_runs_are_read_by_transformers(kind: str, masked: bool, tmp_path: Path) -> None:
    firth.prepare_images(make_folder(tmp_path / "in", 24), tmp_path / "corpus", image_size=16)
    recipe = f"{kind}-tiny{'-masked' if masked else ''}"
    config = find_run_recipe(recipe).override([*SMALL[kind], "image_size=16", "steps=3", "batch_size=4"])
    model = firth.pretrain(config, corpus=tmp_path / "corpus", out=tmp_path / "run")
    name = f"{'ViT' if kind == 'vit' else 'Swin'}For{'MaskedImageModeling' if masked else 'ImageClassification'}"
    loaded, said = getattr(transformers, name).from_pretrained(tmp_path / "run", output_loading_info=True)
    assert not said["missing_keys"]
    assert not said["unexpected_keys"]
    corpus = ImageCorpus.open(tmp_path / "corpus")
    pixels = torch.randn(4, 3, 16, 16)
    with torch.inference_mode():
        if masked:
            network, heads = read(tmp_path / "run", kind)
            count = (16 // network.patch_size) ** 2
            hidden = torch.zeros(4, count, dtype=torch.bool)
            hidden[:, : count // 2] = True
            last = network.patches(pixels, Masked(hidden, heads["mask_token"][""]), None)
            outer = loaded.vit if kind == "vit" else loaded.swin
            wanted = outer(pixels, bool_masked_pos=hidden).last_hidden_state
            torch.testing.assert_close(last, wanted[:, int(kind == "vit") :], atol=1e-4, rtol=0)
            return
        assert loaded.config.id2label == {0: "columns", 1: "rows"}
        images = sorted((tmp_path / "in").rglob("*.png"))[:4]
        assert isinstance(model, ImageModel)
        found = model.predict([str(path) for path in images])
        shares = loaded(model.pixels([_example(path) for path in images])).logits.softmax(-1)
    probabilities = [[one["probabilities"][label] for label in corpus.info.labels] for one in found]
    np.testing.assert_allclose(probabilities, shares.numpy(), atol=1e-4)


def _example(path: Path) -> ImageExample:
    return ImageExample(str(path), None, path)


def test_larger_images_stretch_positions(tmp_path: Path) -> None:
    model = theirs("vit", "Model")
    model.save_pretrained(tmp_path)
    network, _ = read(tmp_path, "vit")
    pixels = torch.randn(2, 3, 24, 32)
    with torch.inference_mode():
        wanted = model(pixels, interpolate_pos_encoding=True).last_hidden_state
        torch.testing.assert_close(network.layers(pixels)[-1], wanted, atol=1e-4, rtol=0)


def test_encoder_of_a_masked_autoencoder_is_read(tmp_path: Path) -> None:
    """ViTMAE without hidden patches, in their own order."""
    torch.manual_seed(0)
    settings = {name: value for name, value in VIT.items() if name not in ("encoder_stride", "num_labels")}
    decoder = {"decoder_hidden_size": 16, "decoder_num_hidden_layers": 1, "decoder_num_attention_heads": 2}
    config = transformers.ViTMAEConfig(**settings, **decoder, decoder_intermediate_size=32, mask_ratio=0.0)
    model = transformers.ViTMAEForPreTraining(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(tmp_path)
    network, heads = read(tmp_path, "vit")
    pixels = torch.randn(3, 3, 16, 16)
    with torch.inference_mode():
        found = model.vit(pixels, noise=torch.arange(16.0).expand(3, 16)).last_hidden_state
        torch.testing.assert_close(network.layers(pixels)[-1], found, atol=1e-4, rtol=1e-4)
    assert not heads
    assert firth.load(tmp_path).dim == 32
