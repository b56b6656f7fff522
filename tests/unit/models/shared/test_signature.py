"""One signature for all networks: what ``last``, ``picked`` and ``packed`` give is in what the network itself gives."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from firth.core.types import Inputs, Layers, Network
from firth.models.gpt.config import DecoderConfig
from firth.models.gpt.network import Decoder
from firth.models.recurrent.config import RecurrentConfig
from firth.models.recurrent.network import Recurrent
from firth.models.shared.configs import EncoderConfig, EncoderDecoderConfig
from firth.models.shared.encoder import Encoder
from firth.models.shared.encoder_decoder import EncoderDecoder
from firth.models.shared.translation_model import SourceReader
from firth.models.xlnet.config import TwoStreamConfig
from firth.models.xlnet.network import TwoStream
from firth.nn.layers import TokenNetwork
from firth.nn.lookup import Lookup, WithExtraVectors

SIZES = {"vocab_size": 30, "hidden_dim": 16, "num_layers": 2, "num_heads": 2, "ffn_dim": 32}
NETWORKS: dict[str, Any] = {
    "encoder": lambda: Encoder(EncoderConfig.build({**SIZES, "max_positions": 12}, "test")),
    "decoder": lambda: Decoder(DecoderConfig.build({**SIZES, "max_positions": 12}, "test")),
    "two streams": lambda: TwoStream(TwoStreamConfig.build({**SIZES, "max_positions": 12}, "test")),
    "recurrent": lambda: Recurrent(
        RecurrentConfig.build({"vocab_size": 30, "embedding_dim": 6, "hidden_dim": 8}, "test")
    ),
    "source": lambda: SourceReader(EncoderDecoder(EncoderDecoderConfig.build({**SIZES, "max_positions": 12}, "test"))),
    "table": lambda: Lookup(np.random.default_rng(0).standard_normal((30, 5)).astype(np.float32)),
    "beside": lambda: WithExtraVectors(NETWORKS["encoder"](), NETWORKS["table"]()),
}
LENS = (7, 3, 9)


@pytest.fixture
def inputs() -> Inputs:
    doc_ids = (torch.arange(9) < torch.tensor(LENS)[:, None]).long()
    return Inputs(torch.randint(1, 30, (3, 9)) * doc_ids, doc_ids)


@pytest.mark.parametrize("name", NETWORKS)
@torch.inference_mode()
def test_cheaper_passes_are_part_of_the_whole(name: str, inputs: Inputs) -> None:
    torch.manual_seed(0)
    network: Network = NETWORKS[name]().eval()
    layers, mask = network(inputs), inputs.mask
    assert torch.equal(layers.mask, mask)
    torch.testing.assert_close(network.last(inputs)[mask], layers.last[mask])
    picks = torch.tensor([[0, 6], [2, 0], [8, 1]])
    wanted = layers.last[torch.arange(3)[:, None], picks]
    torch.testing.assert_close(network.picked(inputs, picks), wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
@torch.inference_mode()
def test_padding_changes_nothing(name: str, inputs: Inputs) -> None:
    torch.manual_seed(0)
    network = NETWORKS[name]().eval()
    hidden = network(inputs).hidden
    for row, size in enumerate(LENS):
        alone = network(Inputs(inputs.ids[row : row + 1, :size])).hidden[:, 0]
        torch.testing.assert_close(hidden[:, row, :size], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
@torch.inference_mode()
def test_packed_where_it_can_be(name: str, inputs: Inputs) -> None:
    network = NETWORKS[name]().eval()
    end_to_end = Inputs(inputs.ids[inputs.mask])
    if not network.can_pack:
        with pytest.raises(NotImplementedError, match="ask can_pack"):
            network.packed(end_to_end, LENS)
        return
    wanted = network(inputs).hidden[:, inputs.mask]
    torch.testing.assert_close(torch.stack(list(network.packed(end_to_end, LENS))), wanted, atol=1e-5, rtol=1e-5)


def test_every_option_reaches_every_pass_of_an_encoder() -> None:
    """Documents, positions, segments, tasks and an order with hidden tokens, each of which matters."""
    torch.manual_seed(0)
    encoder = Encoder(EncoderConfig.build({**SIZES, "max_positions": 12, "num_tasks": 3}, "test")).eval()
    whole = Inputs(
        torch.randint(1, 30, (2, 6)),
        doc_ids=torch.tensor([[1, 1, 1, 2, 2, 2]]).expand(2, -1),
        positions=torch.tensor([[0, 1, 2, 0, 1, 2]]).expand(2, -1),
        segments=torch.tensor([[0, 1, 1, 0, 0, 1]]).expand(2, -1),
        order=torch.tensor([[0, 1, 2, 0, 1, 2]]).expand(2, -1),
        alone=torch.tensor([[False, True, False, False, True, False]]).expand(2, -1),
        tasks=torch.tensor([[2, 2, 2, 1, 1, 1]]).expand(2, -1),
    )
    picks = torch.tensor([[2, 5], [2, 5]])
    with torch.inference_mode():
        last = encoder.last(whole)
        torch.testing.assert_close(encoder(whole).last, last)
        torch.testing.assert_close(encoder.picked(whole, picks), last[:, [2, 5]], atol=1e-5, rtol=1e-5)
        for name in ("doc_ids", "positions", "segments", "order", "alone", "tasks"):
            assert not torch.allclose(encoder.last(replace(whole, **{name: None})), last), name


class Toy(TokenNetwork):
    def forward(self, inputs: Inputs) -> Layers:
        return Layers(inputs.ids[None, :, :, None].float(), inputs.mask)


def test_what_a_new_network_gets_for_nothing() -> None:
    toy, inputs = Toy(), Inputs(torch.tensor([[4, 5, 6], [7, 8, 0]]), torch.tensor([[1, 1, 1], [1, 1, 0]]))
    assert toy.last(inputs)[:, :, 0].tolist() == [[4, 5, 6], [7, 8, 0]]
    assert toy.picked(inputs, torch.tensor([[2], [1]]))[:, :, 0].tolist() == [[6], [8]]
    assert not toy.can_pack


def test_inputs_of_a_batch_are_taken_by_name() -> None:
    tensors = {name: torch.tensor([[number]]) for number, name in enumerate(("ids", "order", "segments", "labels"))}
    found = Inputs.of(tensors)
    assert (found.ids, found.order, found.segments) == (tensors["ids"], tensors["order"], tensors["segments"])
    assert found.doc_ids is None
    assert found.positions is None
    assert found.mask.tolist() == [[True]]
