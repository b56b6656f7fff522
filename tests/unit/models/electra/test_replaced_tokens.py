"""Replaced tokens: who learns from what, what is asked of every token, and sampling by its own numbers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from firth.core.types import Batch, Inputs
from firth.corpus.format import Corpus
from firth.models.electra.config import ReplacedTokensConfig
from firth.models.electra.objective import ReplacedTokens, generator_config, sample
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder
from firth.models.shared.rows import Specials

PAD, UNK, CLS, SEP, MASK = range(5)


def build(corpus: Corpus, embedding_dim: int = 8, **options: object) -> tuple[Encoder, ReplacedTokens]:
    torch.manual_seed(0)
    shape = EncoderConfig(
        vocab_size=corpus.info.vocab_size,
        hidden_dim=32,
        embedding_dim=embedding_dim,
        num_layers=2,
        num_heads=4,
        ffn_dim=64,
        max_positions=48,
        dropout_prob=0.0,
        attention_dropout_prob=0.0,
    )
    model = Encoder(shape)
    config = ReplacedTokensConfig.build({"seq_len": 32, **options}, "test")
    generator = Encoder(generator_config(shape, config.generator_ratio), model.embeddings)
    specials = Specials(CLS, SEP, MASK, PAD, np.arange(5, corpus.info.vocab_size))
    return model, ReplacedTokens(config, shape, generator, specials)


def first_batch(corpus: Corpus, objective: ReplacedTokens) -> Batch:
    return objective.batch(corpus.train, objective.rows(corpus.train, 0), 0, 0, 6).to("cpu")


def test_the_generator_is_a_quarter_as_wide() -> None:
    small = EncoderConfig(hidden_dim=256, embedding_dim=128, num_heads=4, ffn_dim=1024)
    found = generator_config(small, 0.25)
    assert (found.hidden_dim, found.num_heads, found.ffn_dim, found.token_dim) == (64, 1, 256, 128)
    assert found.num_layers == small.num_layers
    tiny = generator_config(small.replace(hidden_dim=128, num_heads=2, embedding_dim=None), 0.25)
    assert (tiny.hidden_dim, tiny.num_heads, tiny.token_dim) == (32, 1, 128)
    turned = generator_config(small.replace(positions="rotary"), 0.3)  # 76.8 wide would be an odd head
    assert (turned.hidden_dim, turned.num_heads) == (76, 1)


def test_sampling_follows_the_probabilities() -> None:
    scores = torch.tensor([0.1, 0.2, 0.3, 0.4]).log()
    draws = torch.tensor([0.0, 0.0999, 0.1001, 0.2999, 0.3001, 0.5999, 0.6001, 0.9999], dtype=torch.float64)
    assert sample(scores.expand(8, 4), draws).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    never = torch.tensor([-torch.inf, 0.0, -torch.inf])
    assert sample(never.expand(3, 3), torch.tensor([0.0, 0.5, 1 - 1e-12])).tolist() == [1, 1, 1]
    many = torch.randn(1, 7, generator=torch.Generator().manual_seed(0)).expand(20000, 7)
    found = sample(many, torch.rand(20000, generator=torch.Generator().manual_seed(1), dtype=torch.float64))
    shares = torch.bincount(found, minlength=7) / 20000
    assert float((shares - many[0].softmax(-1)).abs().max()) < 0.015


def test_nothing_flows_back_through_the_sampling(corpus: Corpus) -> None:
    """The second loss moves the model and the shared tables, nothing else of the generator."""
    model, objective = build(corpus)
    losses = objective.loss(model, first_batch(corpus, objective))
    inner = [*objective.generator.parameters(), *objective.head.parameters()]
    assert all(
        part is None
        for part in torch.autograd.grad(losses.sums["replaced"], inner, allow_unused=True, retain_graph=True)
    )
    own = [
        *(p for name, p in model.named_parameters() if not name.startswith("embeddings.")),
        *objective.replaced_head.parameters(),
    ]
    assert all(
        part is None
        for part in torch.autograd.grad(losses.sums["generator"], own, allow_unused=True, retain_graph=True)
    )
    for name in ("generator", "replaced"):
        (shared,) = torch.autograd.grad(losses.sums[name], [model.embeddings.tokens.weight], retain_graph=True)
        assert float(shared.abs().sum()) > 0


def test_the_loss_step_by_step(corpus: Corpus) -> None:
    """Masks, samples in their place, and a yes or no for every token that is not padding."""
    model, objective = build(corpus, mask_prob=0.3)
    batch = first_batch(corpus, objective)
    losses = objective.eval().loss(model, batch)
    tensors = batch.tensors
    inputs = Inputs.of(tensors)
    ids, blocks = inputs.ids, inputs.doc_ids
    places = [(int(place) // ids.shape[1], int(place) % ids.shape[1]) for place in tensors["places"]]
    assert len(places) == batch.counts["generator"] == len(tensors["labels"])
    hidden = objective.generator.last(inputs)
    seen, wanted, total = ids.clone(), torch.zeros(ids.shape), torch.zeros(())
    for (row, column), label, draw in zip(places, tensors["labels"], tensors["draws"], strict=True):
        scores = objective.head(hidden[row, column][None], model.embeddings.tokens.weight)
        total = total + functional.cross_entropy(scores, label[None])
        guess = sample(scores, draw[None])[0]
        seen[row, column] = guess
        wanted[row, column] = float(guess != label)
    torch.testing.assert_close(losses.sums["generator"], total, rtol=1e-5, atol=1e-4)
    found = objective.replaced_head(model.last(replace(inputs, ids=seen)))
    each = functional.binary_cross_entropy_with_logits(found, wanted, reduction="none")
    torch.testing.assert_close(losses.sums["replaced"], each[blocks > 0].sum(), rtol=1e-5, atol=1e-4)
    assert batch.counts["replaced"] == int((blocks > 0).sum()) == batch.num_tokens
    assert objective.weights == {"generator": 1.0, "replaced": 50.0}
    assert losses.metrics["replaced_share"] == (float(wanted.sum()), batch.num_tokens)


def test_masks_as_published(corpus: Corpus) -> None:
    """85 % become [MASK], 15 % stay; none a random token."""
    _, objective = build(corpus)
    kept = masked = 0
    rows = objective.rows(corpus.train, 0)
    for first in range(0, 60, 6):
        arrays = objective.batch(corpus.train, rows, 0, first, 6).arrays
        seen = arrays["ids"].ravel()[arrays["places"]]
        masked += int((seen == MASK).sum())
        kept += int((seen == arrays["labels"]).sum())
        assert ((seen == MASK) | (seen == arrays["labels"])).all()
    assert abs(masked / (masked + kept) - 0.85) < 0.06


def test_a_batch_is_pure(corpus: Corpus) -> None:
    _, objective = build(corpus)
    rows = objective.rows(corpus.train, 0)
    one, other = (objective.batch(corpus.train, rows, 3, 8, 4) for _ in range(2))
    assert all(np.array_equal(one.arrays[name], other.arrays[name]) for name in one.arrays)
    parts = [objective.batch(corpus.train, rows, 3, 8 + at, 2) for at in (0, 2)]
    for name in ("labels", "draws"):
        assert np.array_equal(one.arrays[name], np.concatenate([part.arrays[name] for part in parts]))


def test_shared_tables_are_saved_once(corpus: Corpus, tmp_path: Path) -> None:
    model, objective = build(corpus)
    assert not any("embeddings" in name for name in objective.state_dict())
    assert objective.generator.embeddings is model.embeddings
