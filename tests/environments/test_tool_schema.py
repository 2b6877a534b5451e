"""What a marked method looks like to the model."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import functools
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from openai.types.chat import ChatCompletionToolParam
from pydantic import BaseModel, Field, TypeAdapter
from typing_extensions import TypedDict

from artkit.environments import ToolEnvironment, tool
from artkit.environments.tools.docstring import read_docstring
from artkit.environments.tools.mark import marked
from artkit.errors import ConfigurationError, EnvironmentContractError


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    zip: str
    street: str | None = None


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class World(ToolEnvironment[Any]):
    async def reset(self, scenario: Any) -> str:
        return "go"


def schema_of(method: Any) -> Any:
    made = marked(method)
    assert made is not None
    return made.schema


def parameters_of(method: Any) -> Any:
    return schema_of(method)["function"]["parameters"]


def test_name_docstring_and_annotations_become_the_tool() -> None:
    """Whoever writes a method has said all that a model must know."""

    @tool
    def look(self, at: str, times: int = 1) -> str:  # noqa: D417  # self is no argument
        """Look at a thing.

        It may be far away.

        Args:
            at: What to look at,
                by its name.
            times (int): How often.

        Returns:
            What is seen.
        """

    assert schema_of(look) == {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Look at a thing.\n\nIt may be far away.",
            "parameters": {
                "type": "object",
                "properties": {
                    "at": {"type": "string", "description": "What to look at, by its name."},
                    "times": {"type": "integer", "default": 1, "description": "How often."},
                },
                "required": ["at"],
                "additionalProperties": False,
            },
        },
    }


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (Literal["C", "F"], {"enum": ["C", "F"], "type": "string"}),
        (str | None, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (list[int], {"items": {"type": "integer"}, "type": "array"}),
        (dict[str, float], {"additionalProperties": {"type": "number"}, "type": "object"}),
        (Colour, {"$ref": "#/$defs/Colour"}),
        (Address, {"$ref": "#/$defs/Address"}),
        (list[Point], {"items": {"$ref": "#/$defs/Point"}, "type": "array"}),
        (Annotated[int, Field(ge=1, description="whole")], {"type": "integer", "minimum": 1, "description": "whole"}),
        (bool, {"type": "boolean"}),
        (Any, {}),
    ],
)
def test_a_type_becomes_its_json_schema(annotation: Any, schema: Any) -> None:
    """Enums, optionals, nested models and dataclasses, lists: what tools take in practice."""

    def method(self, value: Any) -> None: ...

    method.__annotations__["value"] = annotation

    assert parameters_of(tool(method))["properties"] == {"value": schema}


def test_nested_types_are_defined_beside_the_arguments() -> None:
    """A reference that leads nowhere is refused by the server."""

    @tool
    def send(self, to: Address, colour: Colour = Colour.RED, via: Point | None = None) -> None: ...

    parameters = parameters_of(send)
    assert parameters["$defs"]["Colour"] == {"enum": ["red", "blue"], "title": "Colour", "type": "string"}
    assert parameters["properties"]["colour"] == {"$ref": "#/$defs/Colour", "default": "red"}
    assert sorted(parameters["$defs"]) == ["Address", "Colour", "Point"]
    jsonschema.Draft202012Validator(parameters).validate({"to": {"zip": "1"}, "via": {"x": 1}, "colour": "blue"})


def test_a_tool_without_arguments_takes_an_empty_object() -> None:
    """Servers want the schema of an object, also where there is nothing in it."""

    @tool
    def wait(self) -> None: ...

    assert parameters_of(wait) == {"type": "object", "properties": {}, "additionalProperties": False}


def test_every_tool_is_a_valid_function_tool() -> None:
    """It is what the server checks first."""

    class Desk(World):
        @tool
        def send(self, to: Address, points: list[Point], colour: Colour | None = None) -> None:
            """Send it."""

        @tool(final=True)
        async def done(self) -> None: ...

    tools = Desk().tools()

    assert TypeAdapter(list[ChatCompletionToolParam]).validate_python(tools) == tools


def test_types_that_are_local_to_a_function_are_found() -> None:
    """Notebooks and tests define their worlds inside functions."""

    class Size(enum.StrEnum):
        SMALL = "s"

    class Desk(World):
        Kind = Literal["a"]

        @tool
        def pack(self, size: Size, kind: Kind) -> None: ...

    assert parameters_of(Desk.pack)["properties"]["kind"] == {"const": "a", "type": "string"}
    assert parameters_of(Desk.pack)["$defs"]["Size"]["enum"] == ["s"]


def test_an_argument_may_be_called_like_a_method_of_pydantics() -> None:
    """`schema`, `copy` and `json` are good names for arguments of tools."""

    @tool
    def store(self, schema: str, copy: bool, json: int, model_config: int = 1, _hidden: int = 2) -> None: ...

    assert list(parameters_of(store)["properties"]) == ["schema", "copy", "json", "model_config", "_hidden"]


def test_a_default_that_json_cannot_hold_is_left_out() -> None:
    """The method fills it in; the model need not know."""
    nothing = object()

    @tool
    def look(self, at: Any = nothing) -> None: ...

    assert parameters_of(look)["properties"] == {"at": {}}


def test_a_wrapped_method_shows_its_own_signature() -> None:
    """Decorators for logging and caching are everywhere."""

    def logged(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return method(*args, **kwargs)

        return wrapper

    @tool
    @logged
    def look(self, at: str) -> None: ...

    assert list(parameters_of(look)["properties"]) == ["at"]


def test_a_name_and_a_description_can_be_given() -> None:
    """The model's words need not be the program's."""

    @tool(name="look-at", description="Look.")
    def _look(self) -> None:
        """Not for the model."""

    function = schema_of(_look)["function"]
    assert (function["name"], function["description"]) == ("look-at", "Look.")


WHOLE = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "By hand.",
        "strict": True,
        "parameters": {"type": "object", "properties": {"at": {"type": "string", "minLength": 2}}, "required": ["at"]},
    },
}


def test_a_whole_tool_that_was_given_stays_as_it_is() -> None:
    """A user's own schema may hold what no annotation says."""

    class Desk(World):
        @tool(schema=WHOLE)
        def _anything(self, at): ...

    assert Desk().tools() == [WHOLE]


def test_a_schema_of_the_arguments_that_was_given_stays_as_it_is() -> None:
    """Name and description still come from the method."""
    given = {"properties": {"at": {"enum": ["door"]}}, "type": "object"}

    @tool(schema=given)
    def look(self, at):
        """Look."""

    assert schema_of(look)["function"] == {"name": "look", "description": "Look.", "parameters": given}


def test_the_tools_of_a_class_stand_in_the_order_of_their_definition() -> None:
    """The prompt must not change from run to run; those of a base come first, an override keeps its place."""

    class Base(World):
        @tool
        def b(self) -> None: ...

        @tool
        def gone(self) -> None: ...

        @tool
        def a(self) -> None: ...

    class Derived(Base):
        @tool
        def c(self) -> None: ...

        @tool(description="new")
        def b(self) -> None: ...

        gone = None  # type: ignore[assignment]  # how a tool is taken away

    assert [schema["function"]["name"] for schema in Derived().tools()] == ["b", "a", "c"]
    assert Derived().tools()[0]["function"]["description"] == "new"


def test_a_mixin_brings_its_tools() -> None:
    """Tools are shared between worlds."""

    class Clock:
        @tool
        def now(self) -> str: ...

    class Desk(Clock, World):
        pass

    assert [schema["function"]["name"] for schema in Desk().tools()] == ["now"]


def test_the_schemas_are_the_callers_own() -> None:
    """What one rollout does to them, no other sees."""

    class Desk(World):
        @tool
        def look(self, at: str) -> None: ...

    Desk().tools()[0]["function"]["parameters"]["properties"].clear()

    assert list(Desk().tools()[0]["function"]["parameters"]["properties"]) == ["at"]


def no_annotation(self, at): ...
def stars(self, *at: str): ...
def two_stars(self, **at: str): ...
def by_position(self, at: str, /): ...
def unknown_type(self, at: Missing): ...  # noqa: F821
def no_json(self, at: asyncio.Event): ...
def no_self(): ...


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        (no_annotation, "argument 'at' of no_annotation() has no annotation"),
        (stars, "stars() takes *at: 'str'"),
        (two_stars, "two_stars() takes **at: 'str'"),
        (by_position, "argument 'at' of by_position() can only be given by position"),
        (unknown_type, "argument 'at' of unknown_type() is annotated with 'Missing', which cannot be read: "),
        (no_json, "the arguments of no_json() have no JSON schema: "),
        (no_self, "no_self() takes no self"),
    ],
)
def test_arguments_that_no_model_can_fill_are_refused_where_they_are_written(method: Any, problem: str) -> None:
    """Found in the first episode, it would have cost a run."""
    with pytest.raises(EnvironmentContractError) as refused:
        tool(method)

    assert refused.value.problem.startswith(problem)
    assert refused.value.hint


OBJECT = {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"timeout_s": 0}, "timeout_s=0 is not positive"),
        ({"final": True, "parallel": True}, "a tool is final and parallel"),
        ({"name": "look at"}, "name='look at' is no name of a tool"),
        ({"answers": (OSError, "ValueError")}, "answers='ValueError' is no class of exceptions"),
        ({"answers": KeyboardInterrupt}, "answers=<class 'KeyboardInterrupt'> is no class of exceptions"),
        ({"schema": Address}, "schema=<class '"),
        ({"schema": {"type": "string"}}, "schema={'type': 'string'} does not describe named arguments"),
        ({"schema": {"function": {"parameters": OBJECT}}}, "schema={'function': {'parameters': "),
        (
            {"schema": {**OBJECT, "required": 3}},
            "schema={'type': 'object', 'properties': {}, 'required': 3} is no JSON",
        ),
        ({"schema": WHOLE, "name": "other"}, "a whole tool was given beside a name or description"),
    ],
)
def test_a_mark_that_cannot_work_is_refused(arguments: Any, problem: str) -> None:
    """Settings are refused where they are made."""

    def look(self) -> None: ...

    with pytest.raises(ConfigurationError) as refused:
        tool(**arguments)(look)

    assert refused.value.problem.startswith(problem)


def test_what_is_no_method_is_refused() -> None:
    """`@tool("name")` looks right and is not."""
    with pytest.raises(ConfigurationError, match="@tool was given 'look'"):
        tool("look")  # type: ignore[call-overload]  # the mistake


def test_a_class_with_two_tools_of_one_name_is_refused() -> None:
    """A call could mean either."""
    with pytest.raises(EnvironmentContractError, match="has two tools called 'look', look and peek"):

        class Desk(World):
            @tool
            def look(self) -> None: ...

            @tool(name="look")
            def peek(self) -> None: ...


def test_a_tool_that_is_overridden_without_a_mark_is_refused() -> None:
    """Gone in silence or kept with the old schema: either would surprise somebody."""

    class Base(World):
        @tool
        def look(self) -> None: ...

    with pytest.raises(EnvironmentContractError, match="look overrides a tool and is none"):

        class Derived(Base):
            def look(self) -> None: ...


@pytest.mark.parametrize("name", ["step", "reset", "close", "tools", "on_reply"])
def test_a_tool_called_like_a_method_of_the_environment_is_refused(name: str) -> None:
    """A tool that closes a door must not close the environment."""

    def method(self) -> None: ...

    with pytest.raises(EnvironmentContractError, match=f"{name} is a tool, but means something else"):
        type("Desk", (World,), {name: tool(method)})


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_a_tool_that_is_no_plain_method_is_refused(kind: Any) -> None:
    """Its first argument would be taken for self."""

    def add(left: int, right: int) -> int:
        return left + right

    with pytest.raises(EnvironmentContractError, match=f"add is a {kind.__name__}"):
        type("Desk", (World,), {"add": kind(tool(add))})
    with pytest.raises(ConfigurationError, match="@tool was given"):
        tool(kind(add))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, ("", {})),
        ("", ("", {})),
        ("One line.", ("One line.", {})),
        ("Do.\n\nArgs:\n    a: 1\n    b (list of int): 2\n\nRaises:\n    X: no", ("Do.", {"a": "1", "b": "2"})),
        (
            "Do.\n\nArgs:\n    a: one\n        b: still of a\n    c: two",
            ("Do.", {"a": "one b: still of a", "c": "two"}),
        ),
        (
            "Do.\n\nArgs:\n    a (dict[str, tuple(int, int)]): one\n    b (x (y) z, optional): two: three",
            ("Do.", {"a": "one", "b": "two: three"}),
        ),
        (
            "Do.\n\nArgs:\n    a: one\n    *names: two\n    **more (int): three\n    \\*\\*rest: four",
            ("Do.", {"a": "one", "names": "two", "more": "three", "rest": "four"}),
        ),
        ("Do.\n\nArgs:\n    a: one (see\n    b (of: one)", ("Do.", {"a": "one (see b (of: one)"})),
        ("Do: this.\n\nAnd: that.", ("Do: this.\n\nAnd: that.", {})),
    ],
)
def test_a_docstring_is_read_as_it_is_meant(text: str | None, expected: Any) -> None:
    """Google style, as far as people write it."""
    assert read_docstring(text) == expected


def test_an_argument_whose_default_is_none_may_be_null() -> None:
    """`at: str = None` is widely written, and a model that reads the default sends it."""

    @tool
    def look(self, at: str = None, colour: Colour = None) -> None: ...  # noqa: RUF013  # as people write it

    assert parameters_of(look)["properties"] == {
        "at": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "colour": {"anyOf": [{"$ref": "#/$defs/Colour"}, {"type": "null"}], "default": None},
    }


@pytest.mark.parametrize("default", [math.inf, -math.inf, math.nan])
def test_a_default_that_is_not_finite_is_left_out(default: Any) -> None:
    """No server reads it, so no request could be sent."""

    @tool
    def look(self, at: Any = default) -> None: ...

    assert parameters_of(look)["properties"] == {"at": {}}


def test_a_text_beside_an_annotation_describes_the_argument() -> None:
    """`Annotated[str, "…"]` is how other libraries of agents are told."""

    @tool
    def look(self, at: Annotated[str, "where"], n: Annotated[int, Field(description="how often"), "no"] = 1) -> None:  # noqa: D417
        """Look.

        Args:
            at: Said before.
            n: Likewise.
        """

    assert parameters_of(look)["properties"] == {
        "at": {"type": "string", "description": "where"},
        "n": {"type": "integer", "description": "how often", "default": 1},
    }


def test_types_that_are_local_may_name_each_other() -> None:
    """With `from __future__ import annotations`, the fields of a local dataclass are names that only it can resolve."""

    @dataclasses.dataclass
    class Size:
        width: int

    class Label(TypedDict):
        text: str

    @dataclasses.dataclass
    class Box:
        size: Size
        labels: list[Label]

    class Desk(World):
        @tool
        def pack(self, box: Box) -> str: ...

    parameters = parameters_of(Desk.pack)
    jsonschema.Draft202012Validator(parameters).validate({"box": {"size": {"width": 1}, "labels": [{"text": "x"}]}})
    assert sorted(parameters["$defs"]) == ["Box", "Label", "Size"]


def test_a_type_that_is_defined_nowhere_is_named() -> None:
    """Not the model of arguments that is made behind the tool."""

    @dataclasses.dataclass
    class Box:
        size: Missing  # noqa: F821

    def pack(self, box: Box) -> None: ...

    pack.__annotations__["box"] = Box
    with pytest.raises(EnvironmentContractError, match="have no JSON schema: name 'Missing' is not defined"):
        tool(pack)


NUMPY = """Find a book.

It may be lent.

Parameters
----------
title : str
    Words of its title,
    in any order.
year, month : int, optional
    When it was printed.

Returns
-------
Book
    The book.
"""

SPHINX = """Find a book.

:param title: Words of its title,
    in any order.
:type title: str
:param int year: When it was printed.
:returns: The book.
:raises LookupError: There is none.

It may be lent.
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            NUMPY,
            (
                "Find a book.\n\nIt may be lent.",
                {
                    "title": "Words of its title, in any order.",
                    "year": "When it was printed.",
                    "month": "When it was printed.",
                },
            ),
        ),
        (
            SPHINX,
            (
                "Find a book.\n\nIt may be lent.",
                {"title": "Words of its title, in any order.", "year": "When it was printed."},
            ),
        ),
        ("Parameters are given.\n\nNotes\nof mine", ("Parameters are given.\n\nNotes\nof mine", {})),
        (
            "Do.\n\nParameters\n----------\n*args, **more : int\n    All.\nx\n    One.",
            ("Do.", {"args": "All.", "more": "All.", "x": "One."}),
        ),
        (":param x:", ("", {"x": ""})),
        ("Say :param or :this.", ("Say :param or :this.", {})),
    ],
    ids=["NumPy", "Sphinx", "stars", "no header", "no text", "no field"],
)
def test_docstrings_of_other_styles_are_read_too(text: str, expected: Any) -> None:
    """Left in the description, types and return values would be said to the model, and its arguments not described."""
    assert read_docstring(text) == expected
