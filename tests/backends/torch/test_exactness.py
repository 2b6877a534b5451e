"""From the request to the update: what is sampled, told, trained on and served is one and the same."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import art
import openai
import pytest
import torch
import transformers
from art.transformers import patches
from openai.types.chat.chat_completion import Choice
from transformers import masking_utils

from artkit import Action, Environment, PromptScenario, Rollout, Sampling, StepResult, StopReason
from artkit.backends.torch import LoraSettings, TorchBackend
from artkit.backends.torch.sequences import sampled_sequences
from artkit.backends.torch.token_batch import micro_batches

Model = art.TrainableModel[Any, Any]
Find = Callable[[str], list[Path]]
Play = Callable[..., Awaitable[list[art.TrajectoryGroup]]]
Sample = Callable[..., Awaitable[Choice]]
Until = Callable[[Callable[[], bool]], Awaitable[None]]
HELLO: list[Any] = [{"role": "user", "content": "hello"}]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
REQUESTS, CHOICES = 125, 16
LORA = LoraSettings(rank=4, alpha=8)


@pytest.fixture(autouse=True)
def _unpatched_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing ART gives transformers a mask function of an older signature; its models need their own again."""
    monkeypatch.setattr(masking_utils, "_preprocess_mask_arguments", patches._preprocess_mask_arguments)


@pytest.fixture
async def client(model: Model) -> AsyncIterator[openai.AsyncOpenAI]:
    """ART's client of the model, without retries: over HTTP."""
    async with openai.DefaultAioHttpClient() as http_client:
        yield model.openai_client().with_options(http_client=http_client, max_retries=0)


def ids_of(choice: Choice) -> tuple[list[int], list[int]]:
    """The prompt's and the reply's."""
    extra = choice.model_extra or {}
    return extra["prompt_token_ids"], extra["token_ids"]


def told(choice: Choice) -> list[float]:
    assert choice.logprobs is not None
    return [token.logprob for token in choice.logprobs.content or []]


def hugging_face(checkpoint: Path) -> Any:
    """A checkpoint in transformers: all that is known of its maths here."""
    return transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()  # type: ignore[no-untyped-call]


def logprobs(hugging_face: Any, prompt: list[int], reply: list[int], used: int | None = None) -> list[float]:
    """What transformers makes of the ids that were sampled, out of the `used` ones that the tokenizer knows."""
    with torch.no_grad():
        scores = torch.log_softmax(hugging_face(torch.tensor([prompt + reply])).logits[0, :, :used], dim=-1)
    return scores[len(prompt) - 1 : -1].gather(1, torch.tensor(reply)[:, None])[:, 0].tolist()


def letters(prompt: str, reply: str) -> float:
    """A reward that differs between replies."""
    del prompt
    return float(sum(map(ord, reply)))


async def test_what_the_route_tells_is_what_transformers_computes(
    client: openai.AsyncOpenAI, model: Model, backend: TorchBackend, play: Play, find: Find
) -> None:
    """Of weights that were trained, behind several turns, in a crowd, and told again by the learner."""
    await backend.train(model, await play(model, letters, members=8), learning_rate=0.02)
    turns: list[Any] = [
        *HELLO,
        {"role": "assistant", "content": "What?"},
        {"role": "user", "content": "Count to nine."},
    ]
    replies = await asyncio.gather(
        *(
            client.chat.completions.create(
                model="agent@1",
                messages=turns[: 1 + 2 * (seed % 2)],
                max_completion_tokens=40,
                logprobs=True,
                seed=seed,
            )
            for seed in range(8)
        )
    )
    choices = [reply.choices[0] for reply in replies]
    known = hugging_face(find("0001")[0])
    expected = [logprobs(known, *ids_of(choice)) for choice in choices]

    assert [told(choice) for choice in choices] == [pytest.approx(values, abs=1e-4) for values in expected]
    sequences = [
        s for c in choices for s in sampled_sequences(art.Trajectory(messages_and_choices=[c]), vocab_size=999)
    ]
    learner = backend._policy(model).learner.weights.decoder
    for batch in micro_batches(sequences, torch.device("cpu"), 300):
        scored, _ = batch.score(learner)
        wanted = [value for member in batch.members for value in expected[member]]
        assert scored.tolist() == pytest.approx(wanted, abs=1e-4)


def likely(scores: torch.Tensor, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> dict[int, float]:
    """The distribution that a request asks for, by its definition: top-k first, then the nucleus of what is left."""
    weights = torch.softmax(scores.double() / temperature, dim=-1).tolist()
    ranked = sorted(range(len(weights)), key=lambda token: -weights[token])[: top_k or None]
    total = sum(weights[token] for token in ranked)
    kept, mass = [], 0.0
    for token in ranked:
        if mass >= top_p * total:
            break
        kept.append(token)
        mass += weights[token]
    return {token: weights[token] / mass for token in kept}


def is_drawn_from(counts: Counter[Any], expected: dict[Any, float]) -> bool:
    """Pearson's chi-square test at 0.1 %; what comes less than five times is counted together."""
    draws = counts.total()
    rare = {token for token, share in expected.items() if share * draws < 5}
    bins = [(counts[token], share * draws) for token, share in expected.items() if token not in rare]
    if rare:
        bins.append((sum(counts[token] for token in rare), sum(expected[token] for token in rare) * draws))
    statistic = sum((count - mean) ** 2 / mean for count, mean in bins)
    freedom = len(bins) - 1
    # Wilson and Hilferty's approximation of the quantile, good to a percent from three degrees on.
    bound = freedom * (1 - 2 / (9 * freedom) + 3.09 * math.sqrt(2 / (9 * freedom))) ** 3
    return counts.keys() <= expected.keys() and statistic < bound


async def draw(client: openai.AsyncOpenAI, tokens: int, settings: dict[str, Any]) -> Counter[tuple[int, ...]]:
    """Count what comes of many short replies, over HTTP."""
    replies = await asyncio.gather(
        *(
            client.chat.completions.create(
                model="agent",
                messages=HELLO,
                max_completion_tokens=tokens,
                n=CHOICES,
                seed=seed,
                logprobs=True,
                extra_body=settings,
            )
            for seed in range(REQUESTS)
        )
    )
    return Counter(tuple(ids_of(choice)[1]) for reply in replies for choice in reply.choices)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"temperature": 0.6},
        {"top_p": 0.6},
        {"top_k": 7},
        {"temperature": 0.7, "top_p": 0.8, "top_k": 9},
    ],
    ids=str,
)
async def test_tokens_come_over_http_as_often_as_the_request_asks(
    client: openai.AsyncOpenAI, find: Find, settings: dict[str, float]
) -> None:
    """The sampler alone is tested beside it; here are the request, the batch and the seeds of its choices too."""
    reply = await client.chat.completions.create(model="agent", messages=HELLO, max_completion_tokens=1, logprobs=True)
    prompt, _ = ids_of(reply.choices[0])
    with torch.no_grad():
        scores = hugging_face(find("0000")[0])(torch.tensor([prompt])).logits[0, -1]
    expected = {(token,): share for token, share in likely(scores, **settings).items()}  # type: ignore[arg-type]
    others = {
        (token,): share for token, share in likely(scores, temperature=2 * settings.get("temperature", 1)).items()
    }

    counts = await draw(client, 1, settings)

    assert is_drawn_from(counts, expected)
    assert not is_drawn_from(counts, others)


async def test_the_next_token_comes_as_often_as_it_should_behind_the_first(
    client: openai.AsyncOpenAI, find: Find
) -> None:
    """It is computed from a cache, behind a prompt that all share, and drawn with a generator that has drawn before."""
    reply = await client.chat.completions.create(model="agent", messages=HELLO, max_completion_tokens=1, logprobs=True)
    prompt, _ = ids_of(reply.choices[0])
    known = hugging_face(find("0000")[0])
    with torch.no_grad():
        first = likely(known(torch.tensor([prompt])).logits[0, -1], top_k=4)
        behind = {token: likely(known(torch.tensor([[*prompt, token]])).logits[0, -1], top_k=4) for token in first}
    pairs = {(a, b): first[a] * share for a in first for b, share in behind[a].items()}

    assert is_drawn_from(await draw(client, 2, {"top_k": 4}), pairs)


class Chat(Environment[PromptScenario]):
    """Says something after each reply, until nobody can answer any more."""

    async def reset(self, scenario: PromptScenario) -> Any:
        return scenario.messages

    async def step(self, action: Action) -> StepResult:
        return StepResult("And then?", reward=float(sum(map(ord, action.text))))


@pytest.mark.parametrize(
    ("limit", "reason"),
    [(20, StopReason.TRUNCATED), (None, StopReason.CONTEXT_OVERFLOW)],
    ids=["max_tokens", "context"],
)
async def test_what_is_trained_on_is_what_was_sampled(
    backend: TorchBackend,
    make_model: Any,
    make_base_model: Callable[..., Path],
    limit: int | None,
    reason: StopReason,
) -> None:
    """Over turns, up to the reply that a limit or the context cuts off: every id, in its place, and nothing else."""
    base_model = make_base_model(CHATML, window=160)
    model = make_model(base_model=str(base_model))
    await model.register(backend)
    rollout = Rollout(Chat, sampling=Sampling(max_completion_tokens=limit, seed=0))
    scenarios = [PromptScenario(id=f"{n}", messages=[{"role": "user", "content": f"hello {n}"}]) for n in range(6)]
    episodes = [await rollout(model, scenario) for scenario in scenarios]
    known, used = hugging_face(base_model), len(transformers.AutoTokenizer.from_pretrained(base_model))

    assert reason in {episode.stop_reason for episode in episodes}
    count = turns = 0
    for number, episode in enumerate(episodes):
        episode.reward = float(number)
        choices = [item for item in episode.messages_and_choices if isinstance(item, Choice)]
        sampled = [(*prompt, *reply[: i + 1]) for prompt, reply in map(ids_of, choices) for i in range(len(reply))]
        sequences = sampled_sequences(episode, vocab_size=1_000)
        trained = [tuple(s.token_ids[: place + 1]) for s in sequences for place in s.targets]
        assert trained == sampled
        # Ids and what they stand behind are the true ones, or these would not be the log probabilities.
        expected = list(itertools.chain.from_iterable(logprobs(known, *ids_of(choice), used) for choice in choices))
        assert [value for s in sequences for value in s.logprobs] == pytest.approx(expected, abs=1e-4)
        count += len(sampled)
        turns += len(choices)
    assert limit or turns > len(episodes)  # whoever is cut off at a limit says no more
    result = await backend.train(model, [art.TrajectoryGroup(episodes)])
    assert result.metrics["data/step_trainer_tokens"] == count
    assert result.metrics["offpolicy/max_logprob_gap"] < 1e-4


async def test_turns_behind_a_reply_that_was_cut_off_are_trained_on_as_they_were(
    model: Model, backend: TorchBackend, sample: Sample
) -> None:
    """The template ends what the model did not: that marker is context, and never a target."""
    trajectories = []
    for seed in range(2):
        turns: list[Any] = [*HELLO]
        for _ in range(3):
            sent = [
                {"role": "assistant", "content": turn.message.content} if isinstance(turn, Choice) else turn
                for turn in turns
            ]
            turns += [await sample(model, sent, seed=seed, tokens=5), HELLO[0]]
        trajectories.append(art.Trajectory(messages_and_choices=turns[:-1], reward=float(seed)))

    for trajectory in trajectories:
        choices = [item for item in trajectory.messages_and_choices if isinstance(item, Choice)]
        assert "length" in {choice.finish_reason for choice in choices}
        sampled = [(*prompt, *reply[: i + 1]) for prompt, reply in map(ids_of, choices) for i in range(len(reply))]
        sequences = sampled_sequences(trajectory, vocab_size=1_000)
        assert [tuple(s.token_ids[: place + 1]) for s in sequences for place in s.targets] == sampled
    result = await backend.train(model, [art.TrajectoryGroup(trajectories)])
    assert result.metrics["offpolicy/max_logprob_gap"] < 1e-4


@pytest.fixture(params=[None, LORA], ids=["full", "lora"])
async def trainee(request: pytest.FixtureRequest, tmp_path: Path, make_model: Any) -> AsyncIterator[Model]:
    """A registered model, of which all is trained, or adapters."""
    async with TorchBackend(tmp_path, lora=request.param) as backend:
        model = make_model()
        await model.register(backend)
        yield model


async def test_a_reply_that_a_weight_sync_overtakes_is_of_the_old_weights_to_its_end(
    trainee: Model, play: Play, sample: Sample, until: Until
) -> None:
    """Ids and log probabilities; and while that step trains and after, an older one is asked for by its name."""
    model, backend = trainee, cast("TorchBackend", trainee.backend())
    await backend.train(model, await play(model, letters), learning_rate=0.02)
    old, groups = backend._policy(model).decoder_at(1), await play(model, letters, seed=1)
    named = await sample(model, "who", seed=9, tokens=12, name="agent@0")
    alone = await asyncio.gather(*(sample(model, "hello", seed=seed, tokens=600) for seed in range(8)))
    longest = max(range(8), key=lambda seed: len(told(alone[seed])))

    in_flight = asyncio.ensure_future(sample(model, "hello", seed=longest, tokens=600, name="agent"))
    await until(lambda: bool(backend._worker._batches))
    training = asyncio.ensure_future(backend.train(model, groups, learning_rate=0.05))
    await until(lambda: bool(backend._worker._jobs) or training.done())
    meanwhile = await sample(model, "who", seed=9, tokens=12, name="agent@0")
    await training
    was_in_flight = not in_flight.done()
    choice = await in_flight
    afterwards = await sample(model, "who", seed=9, tokens=12, name="agent@0")
    new = backend._policy(model).decoder_at(2)

    assert was_in_flight
    assert ids_of(choice) == ids_of(alone[longest])
    assert [ids_of(reply) for reply in (meanwhile, afterwards)] == [ids_of(named)] * 2
    assert [told(reply) for reply in (meanwhile, afterwards)] == [pytest.approx(told(named), abs=1e-5)] * 2
    assert told(choice) == pytest.approx(scores(old, choice), abs=1e-4)
    apart = [abs(a - b) for a, b in zip(told(choice), scores(new, choice), strict=True)]
    assert max(apart[:20]) > 1e-2
    assert max(apart[-20:]) > 1e-2


def scores(decoder: Any, choice: Choice) -> list[float]:
    """The log probabilities of a reply, in one pass over all of it."""
    prompt, reply = ids_of(choice)
    ids = torch.tensor([prompt + reply])
    with torch.no_grad():
        values = torch.log_softmax(decoder.logits(decoder(ids, torch.arange(ids.shape[1])[None])), dim=-1)[0]
    return values[len(prompt) - 1 : -1].gather(1, torch.tensor(reply)[:, None])[:, 0].tolist()
