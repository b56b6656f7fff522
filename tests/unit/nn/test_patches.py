"""Patches, windows and shifts worked out by hand."""

import torch
from torch import nn

from firth.models.swin.config import SwinConfig
from firth.models.swin.network import SwinNetwork, WindowBlock
from firth.nn.patches import cut_patches, relative_places, reorder, shift_regions, sinusoids_2d, window_order


def test_patches_are_a_convolution() -> None:
    pixels, conv = torch.randn(2, 3, 8, 12), nn.Conv2d(3, 5, 4, 4)
    wanted = conv(pixels).flatten(2).transpose(1, 2)
    found = nn.functional.linear(cut_patches(pixels, 4), conv.weight.flatten(1), conv.bias)
    torch.testing.assert_close(found, wanted)


def test_windows_by_hand() -> None:
    """0 1 | 2 3 over 4 5 | 6 7, and so on."""
    assert window_order(4, 4, 2, 0).tolist() == [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]
    # rolled by 1: the image begins with patch 5, and row and column 0 come last
    assert window_order(4, 4, 2, 1).tolist() == [5, 6, 9, 10, 7, 4, 11, 8, 13, 14, 1, 2, 15, 12, 3, 0]


def test_shifted_neighbours_by_hand() -> None:
    """The first window is whole; the right one holds two columns that were no neighbours, the last one four corners."""
    regions = shift_regions(4, 4, 2, 1)
    same = regions[:, :, None] == regions[:, None, :]
    assert same[0].all()
    assert same[1].tolist() == [[True, False, True, False], [False, True, False, True]] * 2
    assert same[2].int().tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    assert same[3].int().tolist() == torch.eye(4).int().tolist()


def test_relative_places_by_hand() -> None:
    """Windows of 2: query - key is (0, 0) in the middle of nine, row 4."""
    assert relative_places(2).tolist() == [[4, 3, 1, 0], [5, 4, 2, 1], [7, 6, 4, 3], [8, 7, 5, 4]]


def test_reorder_and_back() -> None:
    order = torch.randperm(6)
    hidden = torch.randn(2, 6, 3, dtype=torch.float64, requires_grad=True)
    found = reorder(hidden, order, order.argsort())
    torch.testing.assert_close(found, hidden[:, order])
    assert torch.autograd.gradcheck(lambda given: reorder(given, order, order.argsort()), (hidden,))


def test_sinusoids_tell_rows_and_columns() -> None:
    table = sinusoids_2d(3, 4, 8)
    assert table.shape == (12, 8)
    torch.testing.assert_close(table[5, :4], table[7, :4])  # the same row
    torch.testing.assert_close(table[1, 4:], table[9, 4:])  # the same column
    assert len(torch.unique(table, dim=0)) == 12


SMALL = SwinConfig(image_size=16, patch_size=2, embedding_dim=8, depths=(2, 1), num_heads=(2, 2), window_size=4)


def test_no_pixel_reaches_across_the_shift() -> None:
    """A block with shifted windows: the corner sees nothing of the opposite corner, which the roll puts into its window."""
    network = SwinNetwork(SMALL).double().eval()
    block = network.stages[0].blocks[1]
    assert isinstance(block, WindowBlock)
    assert block.shift_of(8, 8) == 2
    order = window_order(8, 8, 4, 2)
    hidden = torch.randn(1, 64, 8, dtype=torch.float64)
    changed = hidden.clone()
    changed[0, 63] = torch.randn(8, dtype=torch.float64)  # the last patch
    moved = (block(changed[:, order], 8, 8) - block(hidden[:, order], 8, 8))[:, order.argsort()].abs().sum(-1)[0] > 1e-9
    assert moved.nonzero().flatten().tolist() == [row * 8 + column for row in (6, 7) for column in (6, 7)]


def test_local_start_looks_at_one_neighbour() -> None:
    network = SwinNetwork(SMALL.replace(local_start=True))
    network.start(torch.Generator())
    block = network.stages[0].blocks[0]
    assert isinstance(block, WindowBlock)
    bias = block.mask(8, 8)[0]  # [heads, 16, 16]
    middle = 1 * 4 + 1
    assert int(bias[0, middle].argmax()) == middle
    assert int(bias[1, middle].argmax()) == middle - 4  # the one above
