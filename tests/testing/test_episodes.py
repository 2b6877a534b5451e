"""Hand-made replies and episodes, as a real server and a real rollout leave them."""

from __future__ import annotations

from types import SimpleNamespace

from artkit.episodes import Episode
from artkit.testing import Reply, choice, episode


def test_a_choice_is_what_art_trains_on() -> None:
    """Log probabilities for both versions, token ids for 0.5.23."""
    made = choice("ab", prompt="q")
    extra = made.model_extra or {}

    assert made.logprobs is not None
    assert made.logprobs.content is not None
    assert ([entry.token for entry in made.logprobs.content], extra["token_ids"], bool(extra["prompt_token_ids"])) == (
        ["token_id:97", "token_id:98"],
        [97, 98],
        True,
    )


def test_a_choice_can_be_any_reply() -> None:
    """Calls, a cut-off text, a refusal."""
    made = choice(Reply("half", [("look", {})], "length"))

    assert (made.message.content, made.finish_reason, len(made.message.tool_calls or ())) == ("half", "length", 1)


def test_an_episode_holds_its_turns_in_order() -> None:
    """A str is what the user said, a choice what the model said, a message is itself."""
    system, reply = {"role": "system", "content": "be brief"}, choice("a")
    made = episode(system, "q", reply, reward=0.5, outcome=3, metrics={"turns": 1})  # type: ignore[arg-type]

    assert (type(made), made.messages_and_choices, made.reward, made.outcome, made.metrics) == (
        Episode,
        [system, {"role": "user", "content": "q"}, reply],
        0.5,
        3,
        {"turns": 1},
    )


def test_an_episode_remembers_its_scenario() -> None:
    """Its id in the metadata, where ART counts scenarios."""
    scenario = SimpleNamespace(id="s1")
    made = episode("q", scenario=scenario)

    assert (made.scenario, made.metadata) == (scenario, {"scenario_id": "s1"})
