"""How far the layers of published encoders are from transformers', with random weights that are none of them small.

    python benchmarks/encoders.py [--sequences 16] [--length 60]

Prints for every model type the largest difference at each layer, of the scores, and of the tokens of a text in many scripts.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

import firth
from firth.core.types import Inputs
from firth.models.shared.encoder_model import EncoderModel

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from published_models import MIXED, SETTINGS, write_model


@torch.inference_mode()
def differences(folder: Path, sequences: int, length: int) -> tuple[list[float], float, int]:
    """Of each layer, of the scores, and how many texts have other tokens."""
    ours = firth.load(folder)
    assert isinstance(ours, EncoderModel)
    assert ours.token_head is not None
    theirs = AutoModelForMaskedLM.from_pretrained(folder, attn_implementation="eager").eval()
    torch.manual_seed(1)
    ids, mask = torch.randint(5, 400, (sequences, length)), torch.ones(sequences, length, dtype=torch.long)
    for row in range(1, sequences):
        size = 3 + row * (length - 3) // sequences
        mask[row, size:], ids[row, size:] = 0, ours.pieces.pad_id or 0
    wanted = theirs(input_ids=ids, attention_mask=mask, output_hidden_states=True)
    found, real = ours.encoder(Inputs(ids, mask)).hidden, mask.bool()
    layers = [float((one - other)[real].abs().max()) for one, other in zip(wanted.hidden_states, found, strict=True)]
    scores = ours.token_head(found[-1], ours.encoder.embeddings.tokens.weight)
    cutter = AutoTokenizer.from_pretrained(folder)
    other = sum(
        ours.pieces.encode(text, read_special=False).ids.tolist() != cutter(text)["input_ids"] for text in MIXED
    )
    return layers, float((wanted.logits - scores)[real].abs().max()), other


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=16)
    parser.add_argument("--length", type=int, default=60)
    options = parser.parse_args()
    print("| model_type | layer 0 | 1 | 2 | 3 | 4 | scores | texts with other tokens |\n" + "| --- " * 8 + "|")
    for model_type in SETTINGS:
        with tempfile.TemporaryDirectory() as folder:
            write_model(Path(folder) / model_type, model_type)
            layers, scores, other = differences(Path(folder) / model_type, options.sequences, options.length)
        cells = [f"{one:.1e}" for one in (*layers, scores)]
        print(f"| {model_type} | {' | '.join(cells)} | {other} of {len(MIXED)} |", flush=True)


if __name__ == "__main__":
    main()
