"""The decoder against itself: causal, packed or alone, cached or whole, one by one or together."""

from pathlib import Path

import pytest
import torch

from firth.core.errors import FirthError
from firth.core.registry import find_run_recipe
from firth.core.types import Inputs
from firth.corpus.format import Corpus
from firth.models.gpt.config import DecoderConfig
from firth.models.gpt.model import DecoderStepper
from firth.models.gpt.network import Decoder
from firth.models.pretrain import configure
from firth.models.shared.pretraining import find_pretraining
from firth.nn.blocks import initialize

CONFIG = DecoderConfig(
    vocab_size=30, hidden_dim=16, num_layers=2, num_heads=4, ffn_dim=32, max_positions=70, dropout_prob=0.0
)


@pytest.fixture(scope="module")
def model() -> Decoder:
    made = Decoder(CONFIG)
    initialize(made, 0.5, torch.Generator().manual_seed(0))
    return made.eval()


def random_ids(*shape: int) -> torch.Tensor:
    return torch.randint(0, 30, shape, generator=torch.Generator().manual_seed(1))


def test_later_tokens_change_nothing_before(model: Decoder) -> None:
    ids = random_ids(2, 12)
    other = ids.clone()
    other[:, 7] = (other[:, 7] + 1) % 30
    first, second = model(Inputs(ids)).hidden, model(Inputs(other)).hidden
    assert torch.equal(first[:, :, :7], second[:, :, :7])
    assert not torch.isclose(first[-1, :, 7:], second[-1, :, 7:]).all()


def test_packed_documents_do_not_see_each_other(model: Decoder) -> None:
    one, two = random_ids(1, 5), random_ids(1, 8)[:, 1:]
    packed = torch.cat((one, two, torch.zeros(1, 2, dtype=torch.long)), 1)
    blocks = torch.tensor([[1] * 5 + [2] * 7 + [0] * 2])
    positions = torch.tensor([[*range(5), *range(7), 0, 0]])
    hidden = model.last(Inputs(packed, blocks, positions))
    torch.testing.assert_close(hidden[:, :5], model.last(Inputs(one)), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(hidden[:, 5:12], model.last(Inputs(two)), atol=1e-5, rtol=1e-5)


def test_padding_changes_nothing(model: Decoder) -> None:
    ids = random_ids(1, 9)
    padded = torch.cat((ids, torch.zeros(1, 3, dtype=torch.long)), 1)
    blocks = torch.tensor([[1] * 9 + [0] * 3])
    torch.testing.assert_close(model.last(Inputs(padded, blocks))[:, :9], model.last(Inputs(ids)), atol=1e-5, rtol=1e-5)


def test_cached_is_whole(model: Decoder) -> None:
    """In any portions, across the borders at which room is made, and after rows were reordered."""
    ids = random_ids(3, 70)
    wanted = model.last(Inputs(ids))
    for portions in ([70], [1] * 70, [63, 1, 1, 5], [10, 20, 30, 10]):
        cache = model.begin(3)
        parts = (
            model.advance(ids[:, : portions[0]], cache),
            *(model.advance(ids[:, cache.at : cache.at + size], cache) for size in portions[1:]),
        )
        torch.testing.assert_close(torch.cat(parts, 1), wanted, atol=1e-5, rtol=1e-4)
    cache = model.begin(3)
    model.advance(ids[:, :66], cache)
    order = torch.tensor([2, 0, 0, 1])
    found = model.advance(ids[order, 66:], cache.reorder(order))
    torch.testing.assert_close(found, wanted[order, 66:], atol=1e-5, rtol=1e-4)


def test_steps_are_the_whole_pass(model: Decoder) -> None:
    """Prefilled or step by step; when the positions are used up, the last half is read again."""
    ids = random_ids(2, 90)
    stepper = DecoderStepper(model, 28)
    with torch.inference_mode():
        found, state = stepper.prefill(ids[:, :60])
        stepped = stepper.start(2)
        for place in range(60):
            log_probs, stepped = stepper.step(ids[:, place], stepped)
        torch.testing.assert_close(log_probs, found, atol=1e-5, rtol=1e-4)
        for place in range(60, 90):
            found, state = stepper.step(ids[:, place], state)
            seen = ids[:, : place + 1] if place < 70 else ids[:, 71 - 35 : place + 1]
            wanted = model.scores(model.last(Inputs(seen))[:, -1])[:, :28].log_softmax(-1)
            torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)


def test_residuals_begin_smaller() -> None:
    plain, shrunk = Decoder(CONFIG), Decoder(CONFIG)
    shrunk.load_state_dict(plain.state_dict())
    shrunk.shrink_residuals()
    for (name, before), after in zip(plain.named_parameters(), shrunk.parameters(), strict=True):
        factor = 0.5 if name.endswith(("attention.out.weight", "ffn.outer.weight")) else 1.0
        torch.testing.assert_close(after, before * factor)


def test_heads_begin_by_looking_back(bpe_folder: Path) -> None:
    """Before any training each head of the first block looks at the token that it should, wherever that stands."""
    usual = ["num_layers=2", "hidden_dim=96", "num_heads=3", "ffn_dim=64", "embeddings=none"]
    config, corpus = find_run_recipe("llama-10m").override(usual), Corpus.open(bpe_folder)
    model = find_pretraining(config)(configure(config, corpus), corpus).model.eval()
    assert isinstance(model, Decoder)
    ids = torch.randint(corpus.info.vocab_size, (3, 20), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        weights_LBHTT = model.attention(Inputs(ids))
    places = torch.arange(4, 20)
    for head, offset in enumerate((-1, -2, -3)):
        assert float((weights_LBHTT[0, :, head, places].argmax(-1) == places + offset).float().mean()) > 0.9
    assert float((model.tokens.weight - model.tokens.weight.mean(0)).detach().std()) == pytest.approx(0.08, rel=0.1)


def test_a_start_that_groups_cannot_have() -> None:
    with pytest.raises(FirthError, match="leave it out"):
        find_run_recipe("llama-tiny").override(["local_start=true"])
