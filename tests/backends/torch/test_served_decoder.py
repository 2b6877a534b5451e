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


def decoder(*, tied: bool = True, biased: bool = False, normed: bool = False) -> Decoder:
    """Random in every parameter, gains and biases too."""
    config = DecoderConfig(
        vocab_size=60,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=128,
        tie_word_embeddings=tied,
        qkv_bias=biased,
        output_bias=biased,
        query_key_norm=normed,
    )
    decoder = Decoder(config, used_vocab_size=50).requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for parameter in decoder.parameters():
        parameter.normal_(mean=float(parameter.dim() == 1), std=0.3, generator=generator)
    return decoder


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("normed", [True, False])
def test_it_computes_what_the_decoder_computes(tied: bool, biased: bool, normed: bool) -> None:
    """Whatever the family: what is sampled from is what is trained."""
    trained = decoder(tied=tied, biased=biased, normed=normed)
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
