"""Both kinds of translators: what is seen, what is not, steps and beams that agree with the whole pass,
and toy languages that are learned in seconds."""

from typing import Any

import pytest
import torch
from torch.nn import functional

from firth.core.types import Inputs
from firth.decoding.beam import beam_search
from firth.decoding.steps import Beam, continue_prompts
from firth.models.seq2seq.config import Seq2SeqConfig
from firth.models.seq2seq.network import Seq2Seq, Seq2SeqStepper
from firth.models.shared.configs import EncoderDecoderConfig
from firth.models.shared.encoder_decoder import EncoderDecoder, EncoderDecoderStepper

pytestmark = pytest.mark.slow

V, START, END = 23, 0, 1
SHAPE: dict[str, Any] = {
    "vocab_size": V,
    "hidden_dim": 16,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 2,
    "ffn_dim": 32,
    "max_positions": 24,
}
CONFIGS: dict[str, EncoderDecoderConfig | Seq2SeqConfig] = {
    "post-norm": EncoderDecoderConfig(**SHAPE),
    "pre-norm": EncoderDecoderConfig(**SHAPE, norm_first=True, positions="learned", activation_dropout_prob=0.1),
    "relative": EncoderDecoderConfig(**SHAPE, positions="relative", output_bias=False),
    "window": EncoderDecoderConfig(**SHAPE, window=2),
    "relative-window": EncoderDecoderConfig(**SHAPE, positions="relative", window=3),
    "own-tables": EncoderDecoderConfig(**SHAPE, target_vocab_size=V, tied_output=False, head_dim=5),
    "t5-like": EncoderDecoderConfig(
        **SHAPE,
        positions="relative",
        norm="rms",
        norm_first=True,
        gated=True,
        bias=False,
        embedding_scale=1.0,
        output_scale=0.25,
        output_bias=False,
    ),
    "lstm": Seq2SeqConfig(vocab_size=V, hidden_dim=16),
    "lstm-dot": Seq2SeqConfig(vocab_size=V, hidden_dim=16, attention="dot"),
    "lstm-additive-fed": Seq2SeqConfig(vocab_size=V, hidden_dim=16, attention="additive", input_feeding=True),
    "gru-general": Seq2SeqConfig(vocab_size=V, hidden_dim=16, attention="general", cell="gru", bidirectional=False),
    "gru-own-tables": Seq2SeqConfig(vocab_size=V, hidden_dim=16, cell="gru", target_vocab_size=V, tied_output=False),
}
EACH = pytest.mark.parametrize("name", CONFIGS)


def build(name: str, seed: int = 0) -> EncoderDecoder | Seq2Seq:
    config = CONFIGS[name]
    model = EncoderDecoder(config) if isinstance(config, EncoderDecoderConfig) else Seq2Seq(config)
    generator = torch.Generator().manual_seed(seed)
    model.initialize(generator)
    for parameter in model.parameters():  # biases and relative tables, too, so that each counts
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


def stepper(model: EncoderDecoder | Seq2Seq, source: torch.Tensor, tokens: torch.Tensor) -> Any:
    kind: Any = EncoderDecoderStepper if isinstance(model, EncoderDecoder) else Seq2SeqStepper
    return kind(model, source, tokens)


def sources() -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.randint(2, V, (3, 9), generator=torch.Generator().manual_seed(1))
    tokens = torch.arange(9) < torch.tensor([9, 4, 6])[:, None]
    return source.masked_fill(~tokens, 0), tokens


def target(length: int = 7) -> torch.Tensor:
    ids = torch.randint(2, V, (3, length), generator=torch.Generator().manual_seed(2))
    ids[:, 0] = START
    return ids


@EACH
def test_the_whole_pass_is_what_the_steps_give(name: str) -> None:
    model, (source, tokens), ids = build(name), sources(), target()
    with torch.inference_mode():
        wanted = model.scores(model.hidden(source, tokens, ids)).log_softmax(-1)
        steps = stepper(model, source, tokens)
        state = steps.start(3)
        for place in range(ids.shape[1]):
            found, state = steps.step(ids[:, place], state)
            torch.testing.assert_close(found, wanted[:, place], atol=1e-5, rtol=0)


@EACH
def test_padding_changes_nothing(name: str) -> None:
    model, (source, tokens), ids = build(name), sources(), target()
    with torch.inference_mode():
        together = model.hidden(source, tokens, ids)
        for row, length in enumerate((9, 4, 6)):
            alone = model.hidden(source[row : row + 1, :length], None, ids[row : row + 1])
            torch.testing.assert_close(together[row], alone[0], atol=1e-5, rtol=0)
        layers = model(Inputs(source, tokens))
        torch.testing.assert_close(
            layers.hidden[:, 1, :4], model(Inputs(source[1:2, :4])).hidden[:, 0], atol=1e-5, rtol=0
        )
        torch.testing.assert_close(layers.last, model.last(Inputs(source, tokens)), atol=1e-6, rtol=0)


@EACH
def test_later_target_tokens_change_nothing_before(name: str) -> None:
    model, (source, tokens), ids = build(name), sources(), target()
    with torch.inference_mode():
        before = model.hidden(source, tokens, ids)
        for place in range(1, ids.shape[1]):
            changed = ids.clone()
            changed[:, place:] = (changed[:, place:] + 5) % V
            after = model.hidden(source, tokens, changed)
            torch.testing.assert_close(after[:, :place], before[:, :place], atol=1e-6, rtol=0)
            assert (after[:, place] - before[:, place]).abs().max() > 1e-3


class Uncached:
    """A stepper that keeps the tokens only and computes everything anew."""

    vocab_size = V

    def __init__(self, model: EncoderDecoder | Seq2Seq, source: torch.Tensor, tokens: torch.Tensor) -> None:
        self.model, self.source, self.tokens = model, source, tokens

    def start(self, num_rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros((num_rows, 0), dtype=torch.long), torch.arange(num_rows)

    def step(
        self, ids_N: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        ids, rows = torch.cat((state[0], ids_N[:, None]), 1), state[1]
        hidden = self.model.hidden(self.source[rows], self.tokens[rows], ids)[:, -1]
        return self.model.scores(hidden).log_softmax(-1), (ids, rows)

    def reorder(
        self, state: tuple[torch.Tensor, torch.Tensor], index_N: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return state[0][index_N], state[1][index_N]


@EACH
@pytest.mark.parametrize("width", [1, 4])
def test_a_cached_beam_finds_what_an_uncached_one_finds(name: str, width: int) -> None:
    model, (source, tokens) = build(name, 4), sources()
    prompts = [[START], [START, 5, 7], [START, 3]]  # forced beginnings of different lengths
    beam = Beam(width=width, num_best=min(width, 3))
    with torch.inference_mode():
        cached = beam_search(stepper(model, source, tokens), prompts, 12, END, beam)
        anew = beam_search(Uncached(model, source, tokens), prompts, 12, END, beam)
    for one, two in zip(cached, anew, strict=True):
        assert [found.ids for found in one] == [found.ids for found in two]
        assert [found.score for found in one] == pytest.approx([found.score for found in two], abs=1e-4)


@pytest.mark.parametrize("name", [name for name in CONFIGS if isinstance(CONFIGS[name], EncoderDecoderConfig)])
def test_attention_weights(name: str) -> None:
    model, (source, tokens), ids = build(name), sources(), target()
    assert isinstance(model, EncoderDecoder)
    inside, own, between = model.attention(source, tokens, ids)
    assert (inside.shape, own.shape, between.shape) == ((2, 3, 2, 9, 9), (2, 3, 2, 7, 7), (2, 3, 2, 7, 9))
    real = tokens[None, :, None, :, None].expand_as(inside)
    torch.testing.assert_close(inside.sum(-1)[real[..., 0]], torch.ones(int(real[..., 0].sum())))
    torch.testing.assert_close(between.sum(-1), torch.ones(between.shape[:-1]))
    assert not own.triu(1).any()
    assert not between[:, ~tokens[:, None, None].expand(3, 2, 7, 9)].any()
    window = model.config.window
    if window is not None:
        away = (torch.arange(7)[:, None] - torch.arange(7)).abs() > window
        assert not own[..., away].any()
        assert not inside[:, 0, :, :7, :7][..., away].any()


def learn(model: EncoderDecoder | Seq2Seq, reverse: bool, steps: int, rate: float) -> float:
    """Trains on random strings to be copied or turned round; the share of new strings without any mistake."""
    generator = torch.Generator().manual_seed(3)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), rate)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, steps, pct_start=0.2)

    def strings(count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        words = torch.randint(2, V, (count, 5), generator=generator)
        ends = torch.full((count, 1), END)
        return torch.cat((words, ends), 1), words.flip(1) if reverse else words, ends

    for _ in range(steps):
        source, wanted, ends = strings(64)
        hidden = model.hidden(source, None, torch.cat((torch.zeros_like(ends), wanted), 1))
        loss = functional.cross_entropy(
            model.scores(hidden).flatten(0, 1), torch.cat((wanted, ends), 1).flatten(), label_smoothing=0.1
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
    model.eval()
    source, wanted, _ = strings(300)
    with torch.inference_mode():
        everywhere = torch.ones_like(source, dtype=torch.bool)
        found = continue_prompts(stepper(model, source, everywhere), [[START]] * 300, 8, END)
    return sum(one.ids == row for one, row in zip(found, wanted.tolist(), strict=True)) / 300


TOY = {
    "transformer": EncoderDecoderConfig(
        **{**SHAPE, "hidden_dim": 48, "ffn_dim": 96, "num_heads": 4, "num_layers": 1, "num_decoder_layers": 2}
    ).replace(dropout_prob=0.0),
    **{
        attention: Seq2SeqConfig(
            vocab_size=V, hidden_dim=64, num_layers=1, attention=attention, dropout_prob=0.0, init_range=0.15
        )
        for attention in ("dot", "general", "additive")
    },
}


@pytest.mark.parametrize("reverse", [False, True], ids=["copy", "reverse"])
@pytest.mark.parametrize("name", TOY)
def test_toy_languages_are_learned(name: str, reverse: bool) -> None:
    torch.manual_seed(0)
    config = TOY[name]
    model = EncoderDecoder(config) if isinstance(config, EncoderDecoderConfig) else Seq2Seq(config)
    model.initialize(torch.Generator().manual_seed(0))
    share = learn(model, reverse, 400 if name == "transformer" else 300, 4e-3 if name == "transformer" else 1e-2)
    assert share > 0.99


def test_padding_beyond_a_window_spoils_no_gradient() -> None:
    """Rows that may look at nothing at all."""
    model, (source, tokens), ids = build("relative-window"), sources(), target()
    model.train()
    model.hidden(source, tokens, ids).square().sum().backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert gradients
    assert all(bool(torch.isfinite(gradient).all()) for gradient in gradients)
