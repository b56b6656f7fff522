"""The largest difference between Firth and transformers at any token, layer by layer, for tiny models with random weights.

    python benchmarks/parity.py            # prints a table in Markdown

The models are those of the parity tests: published directories as transformers writes them, read by ``firth.load``.
"""

import sys
import tempfile
from pathlib import Path

import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "parity"))

from test_llama import KINDS, published

import firth
from firth.core.types import Inputs
from firth.models.gpt.format import load_decoder
from firth.models.gpt.network import Decoder
from published_models import SETTINGS, write_model


def encoder_differences(model_type: str, folder: Path) -> list[float]:
    """Of rows of unequal length."""
    write_model(folder, model_type)
    ours = firth.load(folder)
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(folder, attn_implementation="eager").eval()
    ids, mask = torch.randint(5, 400, (3, 50)), torch.ones(3, 50, dtype=torch.long)
    for row, size in ((1, 30), (2, 7)):
        mask[row, size:], ids[row, size:] = 0, ours.pieces.pad_id or 0
    wanted = theirs(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
    found = ours.encoder(Inputs(ids, mask)).hidden
    return [float((one - other)[mask.bool()].abs().max()) for one, other in zip(wanted, found, strict=True)]


def decoder_differences(name: str, folder: Path) -> list[float]:
    model = published(name)
    model.save_pretrained(folder)
    config, weights = load_decoder(folder)
    ours = Decoder(config).eval()
    ours.load_state_dict(weights)
    ids = torch.randint(0, 90, (3, 50))
    wanted = model(ids, output_hidden_states=True).hidden_states
    return [float((one - other).abs().max()) for one, other in zip(wanted, ours(Inputs(ids)).hidden, strict=True)]


@torch.inference_mode()
def main() -> None:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    print("| model | tokens | layer 1 | 2 | 3 | 4 |\n| --- | --- | --- | --- | --- | --- |")
    for names, differences in ((SETTINGS, encoder_differences), (KINDS, decoder_differences)):
        for name in names:
            torch.manual_seed(1)
            with tempfile.TemporaryDirectory() as folder:
                found = [f"{value:.1e}" for value in differences(name, Path(folder) / "model")]
            print(f"| {name} | {' | '.join(found + [''] * (5 - len(found)))} |")


if __name__ == "__main__":
    main()
