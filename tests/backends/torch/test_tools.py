"""Tools: offered to a model, called by it, and learnt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import art
import openai
import pytest
from openai.types.chat.chat_completion import Choice

from artkit import PromptScenario, Rollout, Sampling, StopReason
from artkit.backends.torch import TorchBackend
from artkit.backends.torch.chat_messages import template_message
from artkit.backends.torch.demonstrations import demonstrated_sequences
from artkit.backends.torch.pretrained_tokenizer import PretrainedTokenizer
from artkit.backends.torch.sequences import sampled_sequences
from artkit.environments import ToolEnvironment, tool
from artkit.transport import SamplingRequest

# As Qwen's: tools in a system turn, a call behind the content on a line of its own, results in a turn of the user.
TEMPLATE = """\
{%- if tools %}<|im_start|>system
<tools>{% for tool in tools %}{{ tool | tojson }}{% endfor %}</tools><|im_end|>
{% endif %}
{%- for m in messages %}
    {%- if m.role == "tool" %}{{- '<|im_start|>user\n<tool_response>' + m.content + '</tool_response>' }}
    {%- else %}{{- '<|im_start|>' + m.role + '\n' + m.content }}
        {%- for c in m.tool_calls %}
            {%- if m.content or not loop.first %}{{- '\n' }}{% endif %}
            {{- '<tool_call>\n{"name": "' + c.function.name + '", "arguments": ' + c.function.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
    {%- endif %}
    {{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %}"""
COLOURS = {"hat": "red", "coat": "blue"}
MARKERS = ("<tool_call>", "</tool_call>")


class Wardrobe(ToolEnvironment[PromptScenario]):
    """Knows the colours of things."""

    async def reset(self, scenario: PromptScenario) -> str:
        """Ask."""
        return str(scenario.messages[-1]["content"])

    @tool
    def look(self, thing: str) -> str:
        """Look."""
        return COLOURS[thing]


TOOLS: list[Any] = list(Wardrobe().tools())


def call(thing: str, number: int = 0) -> dict[str, Any]:
    function = {"name": "look", "arguments": json.dumps({"thing": thing})}
    return {"id": f"call_{number}", "type": "function", "function": function}


def demonstration(question: str, *things: str) -> art.Trajectory:
    calls = [call(thing, number) for number, thing in enumerate(things)]
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": COLOURS[thing]}
        for call, thing in zip(calls, things, strict=True)
    ]
    asked = [{"role": "user", "content": question}]
    answer = {"role": "assistant", "content": " and ".join(COLOURS[thing] for thing in things)}
    messages = [*asked, {"role": "assistant", "content": "Let me see.", "tool_calls": calls}, *results, answer]
    return art.Trajectory(messages_and_choices=messages, tools=TOOLS, reward=1.0)


STEPS = 100


def template_messages(trajectory: art.Trajectory) -> list[dict[str, Any]]:
    return [template_message(message, "message") for message in trajectory.messages_and_choices]


QUESTIONS = {"hat": ("hat",), "coat": ("coat",), "both": ("hat", "coat")}


@pytest.fixture(scope="module")
def base_model(make_base_model: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that was taught to look before it answers; the markers of a call are special tokens of it."""
    call_text = '<tool_call>\n{"name": "look", "arguments": {"thing": "hat"}}\n</tool_call> Let me see.'
    texts = [json.dumps(tool) for tool in TOOLS] * 2 + [call_text] * 2
    untaught = make_base_model(TEMPLATE, texts=texts, specials=MARKERS, window=512)
    names = {"run_name": "run"} if "run_name" in art.TrainableModel.model_fields else {}
    model = art.TrainableModel(name="pupil", project="tests", base_model=str(untaught), report_metrics=[], **names)  # type: ignore[call-arg]
    demonstrations = [demonstration(question, *things) for question, things in QUESTIONS.items()]

    async def teach() -> Path:
        path = tmp_path_factory.mktemp("taught")
        backend = TorchBackend(path)
        try:
            await model.register(backend)
            rates = [1e-2 * (1 - step / STEPS) for step in range(STEPS)]
            await model.train_sft(demonstrations * STEPS, art.TrainSFTConfig(learning_rate=rates, batch_size=3))
        finally:
            await backend.close()
        (checkpoint,) = path.rglob("0001")
        return checkpoint

    return asyncio.run(teach())


@pytest.fixture
async def model(backend: TorchBackend, make_model: Any, base_model: Path) -> art.TrainableModel[Any, Any]:
    """It, registered."""
    model = make_model(base_model=str(base_model))
    await model.register(backend)
    return model


Ask = Callable[..., Awaitable[Choice]]


@pytest.fixture
def ask(backend: TorchBackend, model: art.TrainableModel[Any, Any]) -> Ask:
    """Asks for the likeliest reply."""

    async def ask(question: str | list[dict[str, Any]], tokens: int | None = None, **extra: Any) -> Choice:
        messages = [{"role": "user", "content": question}] if isinstance(question, str) else question
        request = SamplingRequest(
            model="agent@0", messages=messages, tools=TOOLS, temperature=0, max_completion_tokens=tokens, logprobs=True
        )
        reply = await backend.sampling_client(model).complete(replace(request, extra_body=extra))
        return reply.choices[0]

    return ask


async def test_a_rollout_with_tools_is_trained_on_as_it_was_sampled(
    backend: TorchBackend, model: art.TrainableModel[Any, Any]
) -> None:
    """Calls, results and answer are one sequence, and nothing in it was encoded anew."""
    rollout = Rollout(Wardrobe, sampling=Sampling(temperature=0.0, max_completion_tokens=100))
    episodes = [
        await rollout(model, PromptScenario(id=question, messages=[{"role": "user", "content": question}]))
        for question in QUESTIONS
    ]

    choices = [[turn for turn in episode.messages_and_choices if isinstance(turn, Choice)] for episode in episodes]
    assert [episode.outcome for episode in episodes] == ["red", "blue", "red and blue"]
    assert {episode.stop_reason for episode in episodes} == {StopReason.DONE}
    assert [[choice.finish_reason for choice in turns] for turns in choices] == [["tool_calls", "stop"]] * 3
    for episode, turns in zip(episodes, choices, strict=True):
        (sequence,) = sampled_sequences(episode, vocab_size=1_000)
        sampled = [token_id for choice in turns for token_id in (choice.model_extra or {})["token_ids"]]
        assert [sequence.token_ids[place] for place in sequence.targets] == sampled
        last = turns[-1].model_extra or {}
        assert sequence.token_ids == last["prompt_token_ids"] + last["token_ids"]
    for reward, episode in enumerate(episodes):
        episode.reward = float(reward)
    result = await backend.train(model, [art.TrajectoryGroup(episodes)])
    assert result.metrics["offpolicy/max_logprob_gap"] < 1e-4


async def test_calls_come_in_openais_shape(ask: Ask) -> None:
    """With the text before them as the content, and ids that are the same in every run."""
    choice = await ask("both")

    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "Let me see.")
    assert [item.model_dump() for item in choice.message.tool_calls or []] == [call("hat", 0), call("coat", 1)]


async def test_a_reply_that_is_cut_off_holds_no_half_call(ask: Ask, base_model: Path) -> None:
    """Wherever it is cut, it says so, and its ids are those that were sampled."""
    whole = await ask("both")
    sampled = (whole.model_extra or {})["token_ids"]
    tokenizer = PretrainedTokenizer(base_model)

    cut = await asyncio.gather(*(ask("both", tokens=tokens) for tokens in range(1, len(sampled))))

    for tokens, choice in enumerate(cut, start=1):
        text = tokenizer.decode(sampled[:tokens])
        calls = [item.model_dump() for item in choice.message.tool_calls or []]
        assert choice.finish_reason == "length"
        assert (choice.model_extra or {})["token_ids"] == sampled[:tokens]
        assert calls == [call("hat", 0), call("coat", 1)][: text.count("</tool_call>")]
        if not calls:
            assert choice.message.content == text


async def test_only_the_first_call_is_handed_out_where_one_was_asked_for(ask: Ask) -> None:
    """As vLLM does; the ids keep what was sampled."""
    several, first = await ask("both"), await ask("both", parallel_tool_calls=False)

    assert [item.model_dump() for item in first.message.tool_calls or []] == [call("hat")]
    assert first.finish_reason == "tool_calls"
    assert (first.model_extra or {})["token_ids"] == (several.model_extra or {})["token_ids"]


async def test_tools_are_rendered_and_calls_not_read_where_none_are_wanted(ask: Ask) -> None:
    """As vLLM does by default."""
    auto, none = await ask("hat"), await ask("hat", tool_choice="none")

    assert (none.model_extra or {})["prompt_token_ids"] == (auto.model_extra or {})["prompt_token_ids"]
    assert (none.finish_reason, none.message.tool_calls) == ("stop", None)
    assert (
        none.message.content
        == 'Let me see.\n<tool_call>\n{"name": "look", "arguments": {"thing": "hat"}}\n</tool_call>'
    )


async def test_a_call_ends_at_a_stop_string(ask: Ask) -> None:
    """A reply that was ended there has all of its call."""
    choice = await ask("hat", stop="\n</tool_call>")

    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "Let me see.")
    assert [item.model_dump() for item in choice.message.tool_calls or []] == [call("hat")]


async def test_a_stop_string_within_a_call_leaves_text(ask: Ask) -> None:
    """Half a call is none, whatever cut it."""
    choice = await ask("hat", stop='"arguments"')

    assert (choice.finish_reason, choice.message.tool_calls) == ("stop", None)
    assert choice.message.content == 'Let me see.\n<tool_call>\n{"name": "look", '


async def test_a_call_is_the_one_that_http_would_have_brought(ask: Ask, model: art.TrainableModel[Any, Any]) -> None:
    """Through ART's own client, on either ART version."""
    direct = await ask("both")
    async with openai.DefaultAioHttpClient() as http_client:
        client = model.openai_client().with_options(http_client=http_client, max_retries=0)
        served = await client.chat.completions.create(
            model="agent@0",
            messages=[{"role": "user", "content": "both"}],
            tools=TOOLS,
            tool_choice="auto",
            temperature=0,
            logprobs=True,
        )

    assert direct.model_dump() == served.choices[0].model_dump(exclude={"art_completion_tokens"})


@pytest.mark.parametrize("specials", [(), MARKERS, ("<|other|>",)])
def test_the_markers_of_calls_are_text_and_other_special_tokens_are_not(
    make_base_model: Callable[..., Path], specials: tuple[str, ...]
) -> None:
    """Whatever the tokenizer holds them for; without them no call could be read."""
    tokenizer = PretrainedTokenizer(make_base_model(TEMPLATE, specials=specials))
    messages = template_messages(demonstration("hat", "hat"))

    text = tokenizer.decode(tokenizer.encode_chat(messages, add_generation_prompt=True, tools=TOOLS))

    assert text.count("<tool_call>") == text.count("</tool_call>") == 1
    assert "<|" not in text


def test_demonstrated_calls_are_learnt_as_the_template_writes_them(base_model: Path) -> None:
    """So that the model learns the form in which its calls are read."""
    tokenizer = PretrainedTokenizer(base_model)

    (sequence,) = demonstrated_sequences(demonstration("hat", "hat"), tokenizer)

    learnt = tokenizer.decode([sequence.token_ids[place] for place in sequence.targets])
    assert '"description": "Look."' in tokenizer.decode(sequence.token_ids)
    call_text = '<tool_call>\n{"name": "look", "arguments": {"thing": "hat"}}\n</tool_call>'
    assert learnt == f"Let me see.\n{call_text}red"


@pytest.fixture(params=["micro", "directory"])
def toolless_model(request: pytest.FixtureRequest, make_base_model: Callable[..., Path]) -> str:
    """The micro model, and one whose template ignores tools, as SmolLM2's does."""
    template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}<|im_end|>{% endfor %}"
    return "artkit/micro" if request.param == "micro" else str(make_base_model(template))


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"tools": TOOLS}, "tools"),
        ({"messages": demonstration("hat", "hat").messages_and_choices}, "messages[1].tool_calls"),
        ({"messages": [{"role": "tool", "content": "red", "tool_call_id": "call_0"}]}, "messages[0].tool_call_id"),
    ],
)
async def test_a_model_whose_template_ignores_tools_refuses_them_by_name(
    backend: TorchBackend, make_model: Any, toolless_model: str, changes: dict[str, Any], param: str
) -> None:
    """Silently without its tools it would play another game."""
    model = make_model(base_model=toolless_model)
    await model.register(backend)
    request = SamplingRequest(model="agent@0", messages=[{"role": "user", "content": "hat"}])

    with pytest.raises(openai.BadRequestError, match="does not render tools") as refused:
        await backend.sampling_client(model).complete(replace(request, **changes))

    assert (refused.value.param, refused.value.code) == (param, "unsupported_parameter")
