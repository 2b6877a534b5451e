"""Environments of Gymnasium, played by text."""

from __future__ import annotations

from typing import Any

import pytest

from artkit.environments import Action, check_environment
from artkit.environments.adapters import GymnasiumEnvironment, GymnasiumScenario, gymnasium_scenarios
from artkit.errors import ConfigurationError
from artkit.rollouts import Rollout
from artkit.testing import ChatServer, choice

pytestmark = pytest.mark.worlds

SCENARIO = GymnasiumScenario(id="lake", seed=11)


class Lake(GymnasiumEnvironment):
    instructions = "Cross the lake: say left, down, right or up."
    actions = ("left", "down", "right", "up")

    def make(self):
        import gymnasium

        return gymnasium.make("FrozenLake-v1", is_slippery=True)

    def describe(self, observation):
        row, column = divmod(int(observation), 4)
        return f"You are in row {row}, column {column}."


def action(text: str) -> Action:
    return Action(choice(text).message)


def echo(space: Any, *, observation: Any = "hi", steps: int = 99) -> Any:
    """An environment that hands back what it was given; the class is made here, where Gymnasium is there."""
    import gymnasium

    class Echo(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Text(99)
        action_space = space
        is_closed = False

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.options = options or {}
            return self.options.get("first", observation), {}

        def step(self, action):
            return repr(action), 0.5, action == "end", False, {}

        def close(self):
            self.is_closed = True

    return gymnasium.wrappers.TimeLimit(Echo(), steps)


class Spoken(GymnasiumEnvironment):
    """Plays what a test hands in."""

    def __init__(self, env: Any) -> None:
        self.env = env

    def make(self):
        return self.env


async def test_it_plays_what_gymnasium_plays() -> None:
    """The same seed and actions, by hand and by a model's words."""
    import gymnasium

    moves = ["down", "right", "Right.", "I go DOWN", "not up: down"]
    by_hand = gymnasium.make("FrozenLake-v1", is_slippery=True)
    first, _ = by_hand.reset(seed=11)
    places, reward = [first], 0.0
    for move in (1, 2, 2, 1, 1):
        place, paid, terminated, truncated, _ = by_hand.step(move)
        places.append(place)
        reward += float(paid)
        if terminated or truncated:
            break

    async with ChatServer(moves) as server:
        model = server.model()
        episode = await Rollout(Lake)(model, SCENARIO)
        await model.openai_client().close()

    seen = [message["content"] for message in episode.messages() if message["role"] == "user"]
    told = [Lake().describe(place) for place in places]
    assert seen == [f"{Lake.instructions}\n\n{told[0]}", *told[1:]]
    assert (episode.reward, episode.metrics["turns"]) == (reward, len(places) - 1)


async def test_a_reply_that_is_no_action_moves_nothing() -> None:
    """The model is told what it may say, and it is counted."""
    lake = Lake()
    await lake.reset(SCENARIO)
    result = await lake.step(action("upwards, downstream"))
    await lake.close()

    assert (result.messages, result.done) == ("That is no action. Say one of: left, down, right, up.", False)
    assert (result.reward, result.metrics) == (0.0, {"invalid_actions": 1})


@pytest.mark.parametrize(
    ("text", "parsed"),
    [("north", 5), ("go North West!", 6), ("north, or west?", 7), ("northern", None), ("", None)],
)
async def test_the_last_action_that_was_said_counts(text: str, parsed: int | None) -> None:
    """A model may think aloud before it moves."""
    import gymnasium

    by_order, by_name = (Spoken(echo(gymnasium.spaces.Discrete(3, start=5))) for _ in range(2))
    by_order.actions = ("north", "north west", "west")
    by_name.actions = {"West": 7, "north": 5, "north west": 6}
    await by_order.reset(SCENARIO)
    await by_name.reset(SCENARIO)

    assert (by_order.parse(text), by_name.parse(text)) == (parsed, parsed)


async def test_a_letter_that_only_looks_alike_is_no_action() -> None:
    """Some letters match another one whatever its case, and do not fold to it."""
    import gymnasium

    world = Spoken(echo(gymnasium.spaces.Discrete(2)))
    world.actions = ("pick", "drop")
    await world.reset(SCENARIO)

    assert (world.parse("p\u0131ck"), world.parse("Drop")) == (None, 1)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [("5", 5), ("3, no: 6.", 6), ("-1", None), ("8", None), ("5.5", None), ("x", None), ("6" * 5000, None)],
)
async def test_without_words_a_discrete_action_is_a_number(text: str, parsed: int | None) -> None:
    """Of those that the space has."""
    import gymnasium

    world = Spoken(echo(gymnasium.spaces.Discrete(3, start=5)))
    await world.reset(SCENARIO)

    assert world.parse(text) == parsed
    assert (await world.step(action("no"))).messages == "That is no action. Say a number from 5 to 7."


async def test_a_text_action_is_the_whole_reply() -> None:
    """If the space holds it; the end says which of Gymnasium's two it was."""
    import gymnasium

    space = gymnasium.spaces.Text(5, charset="abcdefghijklmnopqrstuvwxyz")
    world = Spoken(echo(space, steps=2))
    assert await world.reset(GymnasiumScenario(id="a", seed=0, options={"first": "ho"})) == "ho"
    results = [await world.step(action(text)) for text in ("too long", "walk", "run")]
    await world.close()

    assert [(result.messages, result.reward) for result in results[1:]] == [("'walk'", 0.5), ("'run'", 0.5)]
    assert str(results[0].messages).startswith("That is no action. Say a text that fits Text(")
    assert (results[2].done, results[2].outcome) == (True, {"terminated": False, "truncated": True})
    assert world.env.unwrapped.is_closed

    other = Spoken(echo(space))
    await other.reset(SCENARIO)
    assert (await other.step(action("end"))).outcome == {"terminated": True, "truncated": False}


async def test_what_is_no_text_is_asked_for() -> None:
    """By the name of the method that says it."""
    import gymnasium

    box = gymnasium.spaces.Box(0, 1)
    with pytest.raises(ConfigurationError, match=r"observes list.*override describe"):
        await Spoken(echo(box, observation=[1.0])).reset(SCENARIO)
    world = Spoken(echo(box))
    await world.reset(SCENARIO)
    with pytest.raises(ConfigurationError, match=r"Box.*give actions, or override parse"):
        await world.step(action("0.5"))


async def test_a_gymnasium_world_keeps_an_environments_promises() -> None:
    """Its randomness is its own, and the scenario seeds it."""
    scenarios = gymnasium_scenarios("lake", count=3)
    report = await check_environment(Lake, scenarios, actions=list(Lake.actions), fresh_process=False)

    assert report.findings == ()
    # The lake begins with the same words whatever its seed, and that is all there is to note.
    assert [note.partition(":")[0] for note in report.notes] == ["the prompt does not depend on the scenario"]


def test_episodes_are_listed_by_their_seeds() -> None:
    """Other options are another episode, and so have another id."""
    plain, other = (
        gymnasium_scenarios("lake", count=2, seed=5, options=options) for options in (None, {"first": "ho"})
    )

    assert plain == [GymnasiumScenario(id=f"lake-{seed}", seed=seed) for seed in (5, 6)]
    assert [(one.seed, one.options) for one in other] == [(5, {"first": "ho"}), (6, {"first": "ho"})]
    assert {one.id for one in plain}.isdisjoint(one.id for one in other)


@pytest.mark.parametrize("arguments", [{"count": 0}, {"count": -1}, {"count": True}, {"count": 1, "seed": -1}])
def test_what_is_no_count_or_seed_is_refused(arguments: dict[str, Any]) -> None:
    """An empty list would train on nothing."""
    with pytest.raises(ConfigurationError, match="is no"):
        gymnasium_scenarios("lake", **arguments)
