"""The weights as they are laid out for sampling."""

from __future__ import annotations

import weakref

import pytest
import torch

from artkit.backends.torch.batch import Batch
from artkit.backends.torch.decoder import Decoder
from artkit.backends.torch.decoder_config import DecoderConfig
from artkit.backends.torch.kv_cache import KVCache
from artkit.backends.torch.served_decoder import ServedDecoder


def decoder(*, tied: bool = True, biased: bool = False, normed: bool = False, is_large: bool = False) -> Decoder:
    """Random in every parameter, gains and biases too; a large one has matrices that are packed on a CPU."""
    config = DecoderConfig(
        vocab_size=600 if is_large else 60,
        hidden_size=384 if is_large else 32,
        intermediate_size=512 if is_large else 48,
        num_hidden_layers=2,
        num_attention_heads=6 if is_large else 4,
        num_key_value_heads=3 if is_large else 2,
        head_dim=64 if is_large else 8,
        max_position_embeddings=128,
        tie_word_embeddings=tied,
        qkv_bias=biased,
        output_bias=biased,
        query_key_norm=normed,
    )
    decoder = Decoder(config, used_vocab_size=50).requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for parameter in decoder.parameters():
        std = 0.3 if parameter.dim() == 1 else 1.7 / config.hidden_size**0.5
        parameter.normal_(mean=float(parameter.dim() == 1), std=std, generator=generator)
    return decoder


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("normed", [True, False])
@pytest.mark.parametrize("is_large", [True, False])
def test_it_computes_what_the_decoder_computes(tied: bool, biased: bool, normed: bool, is_large: bool) -> None:
    """Whatever the family and the layout: what is sampled from is what is trained."""
    trained = decoder(tied=tied, biased=biased, normed=normed, is_large=is_large)
    ids = torch.randint(50, (3, 32), generator=torch.Generator().manual_seed(1))
    positions = torch.arange(32)[None].expand(3, -1)
    expected = trained.logits(trained(ids, positions))

    served = ServedDecoder(trained)
    cache = KVCache(served.config, served.device, served.dtype)
    cache.reserve(3, 32)
    begun = served(ids[:, :16].flatten(), positions[:, :16].flatten(), cache.attention(0, positions[:, :16], 16))
    wanted = torch.tensor([15, 31, 47])
    ended = served(
        ids[:, 16:].flatten(), positions[:, 16:].flatten(), cache.attention(0, positions[:, 16:], 32), wanted
    )

    torch.testing.assert_close(begun.view(3, 16, -1), expected[:, :16], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(ended, expected[:, 31], atol=1e-4, rtol=1e-4)


def test_a_batch_does_not_keep_the_decoder() -> None:
    """What it knows of prompts goes when the weights go: nobody else may hold them."""
    served = decoder()
    known = weakref.ref(served)
    batch = Batch(served)
    del served

    assert known() is None
    assert len(batch) == 0


@pytest.mark.parametrize("is_large", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_loaded_weights_are_served_as_if_it_had_been_made_of_them(tied: bool, is_large: bool) -> None:
    """A weight sync leaves nothing of the weights before, down to the last bit, and takes all from those it was given."""
    first, second = [decoder(tied=tied, biased=True, normed=True, is_large=is_large) for _ in range(2)]
    for parameter in second.parameters():
        parameter.mul_(1.5)
    ids, positions = torch.arange(16), torch.arange(16)

    def scores(served: ServedDecoder) -> torch.Tensor:
        cache = KVCache(served.config, served.device, served.dtype)
        cache.reserve(1, 16)
        return served(ids, positions, cache.attention(0, positions[None], 16))

    served = ServedDecoder(first)
    before = scores(served)
    served.load(second)
    expected = scores(ServedDecoder(second))
    for parameter in second.parameters():
        parameter.zero_()

    assert torch.equal(scores(served), expected)
    assert not torch.equal(scores(served), before)


def test_weights_of_another_shape_do_not_fit() -> None:
    """Their memory is of another size."""
    served = ServedDecoder(decoder())

    assert served.fits(decoder())
    assert not served.fits(decoder(biased=True))
    assert not served.fits(decoder().to(torch.bfloat16))
