"""An encoder that writes step by step gives what one pass over the whole text with a [MASK] at its end gives."""

import numpy as np
import pytest
import torch

from firth.core.types import Inputs
from firth.decoding.beam import beam_search
from firth.decoding.steps import Beam
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder
from firth.models.unilm.model import ClozeStepper
from firth.models.unilm.objective import LEFT_TO_RIGHT, SEQ2SEQ, order_of

CLS, SEP, MASK, VOCAB = 2, 3, 4, 40


def build(norm_first: bool = False, positions: str = "learned") -> Encoder:
    torch.manual_seed(0)
    shape = EncoderConfig(
        vocab_size=VOCAB,
        hidden_dim=32,
        num_layers=3,
        num_heads=4,
        ffn_dim=64,
        max_positions=48,
        num_segments=6,
        norm_first=norm_first,
        positions=positions,
        init_std=0.2,
    )
    model = Encoder(shape).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def scores(model: Encoder, hidden: torch.Tensor) -> torch.Tensor:
    return hidden @ model.embeddings.tokens.weight.T


@torch.inference_mode()
def whole(model: Encoder, source: list[int], target: list[int]) -> torch.Tensor:
    """log p of the token after the target, by one pass over everything."""
    ids = torch.tensor([[*source, *target, MASK]])
    positions = np.arange(ids.shape[1])[None]
    segments = (positions >= len(source)).astype(np.int64)
    kind = SEQ2SEQ if source else LEFT_TO_RIGHT
    order = torch.from_numpy(order_of(np.asarray([kind]), positions, segments))
    offset = torch.from_numpy(segments) + 4 if source else torch.full_like(ids, 2)
    hidden = model.last(Inputs(ids, segments=offset, order=order))[0, -1]
    return scores(model, hidden).log_softmax(-1)


@pytest.mark.parametrize(("norm_first", "positions"), [(False, "learned"), (True, "learned"), (True, "rotary")])
@torch.inference_mode()
def test_from_a_source(norm_first: bool, positions: str) -> None:
    """Sources of different lengths side by side."""
    model = build(norm_first, positions)
    sources = [[CLS, 10, 11, 12, 13, SEP], [CLS, 20, SEP], [CLS, 30, 31, SEP]]
    ids = torch.zeros(3, 6, dtype=torch.long)
    for row, source in enumerate(sources):
        ids[row, : len(source)] = torch.tensor(source)
    tokens = torch.tensor([[place < len(source) for place in range(6)] for source in sources])
    stepper = ClozeStepper(model, lambda hidden: scores(model, hidden), MASK, 5, source=(ids, tokens, 4))
    targets = [[15, 16, 17, 18], [25, 26, 27, 28], [35, 36, 37, 38]]
    state = stepper.start(3)
    found, state = stepper.step(torch.full((3,), SEP), state)
    for place in range(5):
        for row, source in enumerate(sources):
            torch.testing.assert_close(found[row], whole(model, source, targets[row][:place]), rtol=1e-4, atol=1e-4)
        if place < 4:
            found, state = stepper.step(torch.tensor([target[place] for target in targets]), state)
    state = stepper.reorder(state, torch.tensor([2, 2, 0]))
    found, _ = stepper.step(torch.tensor([9, 8, 7]), state)
    for row, (source, last) in enumerate([(2, 9), (2, 8), (0, 7)]):
        wanted = whole(model, sources[source], [*targets[source], last])
        torch.testing.assert_close(found[row], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@torch.inference_mode()
def test_without_a_source(positions: str) -> None:
    """The first token of a prompt is read as [CLS], whatever it is."""
    model = build(positions=positions)
    stepper = ClozeStepper(model, lambda hidden: scores(model, hidden), MASK, 2, first_id=CLS)
    state = stepper.start(2)
    texts = [[SEP, 10, 11, 12], [SEP, 20, 21, 22]]
    for place in range(4):
        found, state = stepper.step(torch.tensor([text[place] for text in texts]), state)
        for row, text in enumerate(texts):
            wanted = whole(model, [], [CLS, *text[1 : place + 1]])
            torch.testing.assert_close(found[row], wanted, rtol=1e-4, atol=1e-4)


@torch.inference_mode()
def test_a_wide_beam_finds_the_best_target() -> None:
    """Of all targets of two tokens, each scored by whole passes."""
    model = build()
    source = [CLS, 10, 11, SEP]
    tokens = torch.ones(1, 4, dtype=torch.bool)
    stepper = ClozeStepper(
        model, lambda hidden: scores(model, hidden), MASK, 5, source=(torch.tensor([source]), tokens, 4)
    )
    beam = Beam(width=VOCAB, normalisation="none")
    best = beam_search(stepper, [[SEP]], 2, None, beam)[0][0]
    first = whole(model, source, [])
    totals = torch.stack([first[token] + whole(model, source, [token]) for token in range(VOCAB)])
    place = int(totals.argmax())
    assert best.ids == [place // VOCAB, place % VOCAB]
    assert best.score == pytest.approx(float(totals.max()), abs=1e-4)
