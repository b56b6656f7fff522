"""The encoder is general: BERT's own blocks classify images, once patches stand in the place of tokens (ViT, Dosovitskiy et
al. 2021).

    python examples/05_images.py [--epochs 30] [--patch 2]

Scikit-learn's 1,797 handwritten digits of 8 x 8 pixels; a patch of 2 x 2 is a "word", so an image is a sentence of 16.
Only the token layer is new: a linear map of the pixels, a learned [CLS] vector and learned positions. As published, norms
come first and the class is read from [CLS].
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

from firth.core.types import Inputs
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder


class Patches(nn.Module):
    """Pixels [B, T, P] to the token layer [B, 1 + T, D]."""

    def __init__(self, num_patches: int, num_pixels: int, dim: int) -> None:
        super().__init__()
        self.project = nn.Linear(num_pixels, dim)
        self.cls = nn.Parameter(torch.zeros(dim))
        self.positions = nn.Parameter(0.02 * torch.randn(1 + num_patches, dim))

    def forward(self, patches_BTP: torch.Tensor, *others: object) -> torch.Tensor:
        tokens = self.project(patches_BTP)
        return torch.cat((self.cls.expand(len(tokens), 1, -1), tokens), 1) + self.positions


def cut(images_BHW: torch.Tensor, size: int) -> torch.Tensor:
    """[B, T, P], row by row."""
    patches = images_BHW.unfold(1, size, size).unfold(2, size, size)
    return patches.reshape(len(images_BHW), -1, size * size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--patch", type=int, default=2, choices=[1, 2, 4], help="pixels of a side")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    data = load_digits()
    patches, labels = cut(torch.tensor(data.images).float() / 16, arguments.patch), torch.tensor(data.target)
    order = torch.randperm(len(labels))
    train, test = order[:1400], order[1400:]

    config = EncoderConfig(
        num_layers=3, hidden_dim=64, num_heads=4, ffn_dim=256, norm_first=True, positions="none", dropout_prob=0.0
    )
    model = nn.ModuleDict({"embeddings": Patches(*patches.shape[1:], 64), "head": nn.Linear(64, 10)})
    model["encoder"] = encoder = Encoder(config, model["embeddings"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    places = torch.arange(1 + patches.shape[1])[None]

    def scores(some: torch.Tensor) -> torch.Tensor:
        """[B, 10], from the last layer at [CLS]."""
        return model["head"](encoder.last(Inputs(patches[some], positions=places))[:, 0])

    for epoch in range(arguments.epochs):
        model.train()
        for some in train[torch.randperm(len(train))].split(50):
            functional.cross_entropy(scores(some), labels[some]).backward()
            optimizer.step()
            optimizer.zero_grad()
        if epoch % 5 == 4 or epoch == arguments.epochs - 1:
            model.eval()
            with torch.no_grad():
                right = (scores(test).argmax(1) == labels[test]).float().mean()
            print(f"epoch {epoch + 1:>3}: {right:.1%} of {len(test)} test images right")


if __name__ == "__main__":
    main()
