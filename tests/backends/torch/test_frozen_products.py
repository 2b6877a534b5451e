"""Products of a few rows with matrices that do not change."""

from __future__ import annotations

import pytest
import torch

from artkit.backends.torch import frozen_products
from artkit.backends.torch.frozen_products import DenseProduct, PackedProduct, pays_packing


@pytest.fixture
def matrix() -> torch.Tensor:
    """Large enough, and neither side a multiple of what a register holds."""
    return torch.randn(500, 390, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("biased", [True, False])
def test_both_layouts_multiply(matrix: torch.Tensor, biased: bool) -> None:
    """And add to what is there, in place."""
    generator = torch.Generator().manual_seed(1)
    rows, sums = torch.randn(7, 390, generator=generator), torch.randn(7, 500, generator=generator)
    bias = torch.randn(500, generator=generator) if biased else None
    expected = rows.double() @ matrix.double().T

    for product in (DenseProduct(matrix.T), PackedProduct(matrix)):
        added = sums.clone()
        product.add_to(added, rows)
        wanted = expected if bias is None else expected + bias

        torch.testing.assert_close(product(rows, bias).double(), wanted, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(added.double(), sums + expected, atol=1e-4, rtol=1e-4)


def test_a_packed_row_comes_out_the_same_whatever_the_others_are(matrix: torch.Tensor) -> None:
    """To the last bit, from two rows on: what a request samples does not depend on who else asks."""
    rows = torch.randn(300, 390, generator=torch.Generator().manual_seed(2))
    product = PackedProduct(matrix)
    expected = product(rows)

    for count in (2, 3, 8, 16, 17, 64, 299):
        assert torch.equal(product(rows[:count].clone()), expected[:count])


def test_a_packed_matrix_is_a_copy(matrix: torch.Tensor) -> None:
    """Training goes on in the weights it was made of."""
    rows = torch.ones(2, 390)
    product = PackedProduct(matrix)
    before = product(rows)
    matrix.zero_()

    assert torch.equal(product(rows), before)


def test_only_large_float32_matrices_are_packed(matrix: torch.Tensor) -> None:
    """Calling oneDNN costs more than a small product."""
    assert pays_packing(matrix)
    assert not pays_packing(matrix[:64, :64])
    assert not pays_packing(matrix.bfloat16())


def test_without_onednn_nothing_is_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some builds of torch have none, and another torch may call its operations otherwise."""
    assert frozen_products._can_pack.__wrapped__()
    monkeypatch.setattr(frozen_products, "_ONEDNN", object())
    assert not frozen_products._can_pack.__wrapped__()
    monkeypatch.undo()
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not frozen_products._can_pack.__wrapped__()
