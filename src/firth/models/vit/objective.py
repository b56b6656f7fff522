"""What a ViT is trained with: one of the shared objectives of images; positions of another size are stretched."""

import torch

from firth.models.shared.image_objective import ImagePretraining
from firth.models.shared.published import Weights
from firth.models.vit.format import FORMAT
from firth.models.vit.network import VitNetwork
from firth.nn.patches import stretch_positions


class VitPretraining(ImagePretraining):
    format = FORMAT

    def _fit(self, weights: Weights) -> None:
        assert isinstance(self.model, VitNetwork)
        first = int(self.model.has_class_token)
        edge = self.model.config.image_size // self.model.config.patch_size
        patches = stretch_positions(weights["positions"][first:], edge, edge)
        weights["positions"] = torch.cat((weights["positions"][:first], patches))
