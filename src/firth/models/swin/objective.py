"""What a Swin is trained with: one of the shared objectives of images."""

from firth.models.shared.image_objective import ImagePretraining
from firth.models.swin.format import FORMAT


class SwinPretraining(ImagePretraining):
    format = FORMAT
