"""Products of a few rows with matrices that do not change."""

from __future__ import annotations

import functools
from typing import Protocol

import torch
from torch import Tensor

# Not in torch's documentation, but what its own compiler makes of linear layers on a CPU.
_ONEDNN = torch.ops.mkldnn

__all__ = ["DenseProduct", "FrozenProduct", "PackedProduct", "pays_packing"]

# Calling oneDNN takes 10 microseconds more than calling the BLAS, which is what so many elements take.
_LEAST_ELEMENTS = 1 << 17
# The rows that a matrix is packed for. Any number may come; with two or more each comes out the same to the last bit.
_PACKED_FOR = 16


class FrozenProduct(Protocol):
    """Multiplies rows, `[n, in]`, by a matrix."""

    def __call__(self, rows: Tensor, bias: Tensor | None = None) -> Tensor:
        """Their products, `[n, out]`."""
        ...

    def add_to(self, sums: Tensor, rows: Tensor) -> None:
        """Add the products to `sums`, in place."""
        ...


class DenseProduct:
    """By a matrix as it is: `[in, out]`."""

    __slots__ = ("_matrix",)

    def __init__(self, matrix: Tensor) -> None:
        self._matrix = matrix

    def __call__(self, rows: Tensor, bias: Tensor | None = None) -> Tensor:
        return rows @ self._matrix if bias is None else torch.addmm(bias, rows, self._matrix)

    def add_to(self, sums: Tensor, rows: Tensor) -> None:
        # In place, or what is added to would be copied first.
        sums.addmm_(rows, self._matrix)


class PackedProduct:
    """By a copy of a matrix in the order in which oneDNN reads it: 1.2 to 3 times as fast for few rows.

    Args:
        matrix: `[out, in]`, for which packing pays.
    """

    __slots__ = ("_matrix",)

    def __init__(self, matrix: Tensor) -> None:
        self._matrix = _pack(matrix)

    def __call__(self, rows: Tensor, bias: Tensor | None = None) -> Tensor:
        return _packed_product(rows, self._matrix, bias)

    def add_to(self, sums: Tensor, rows: Tensor) -> None:
        sums.add_(_packed_product(rows, self._matrix, None))


def pays_packing(matrix: Tensor) -> bool:
    """Whether `PackedProduct` takes this matrix, and is faster."""
    return (
        matrix.device.type == "cpu"
        and matrix.dtype == torch.float32
        and matrix.numel() >= _LEAST_ELEMENTS
        and _can_pack()
    )


@functools.cache
def _can_pack() -> bool:
    """Whether this torch has oneDNN, and the two operations as they are called here."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    matrix = torch.ones(2, 2)
    try:
        return bool((_packed_product(matrix, _pack(matrix), None) == 2.0).all())
    except (AttributeError, RuntimeError):
        return False


def _pack(matrix: Tensor) -> Tensor:
    packed: Tensor = _ONEDNN._reorder_linear_weight(matrix.contiguous(), _PACKED_FOR)  # noqa: SLF001
    return packed


def _packed_product(rows: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    product: Tensor = _ONEDNN._linear_pointwise(rows, matrix, bias, "none", [], "")  # noqa: SLF001
    return product
