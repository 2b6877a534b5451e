"""Code that uses a trained model after its run."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from artkit.bridge import constructor_call

if TYPE_CHECKING:
    import art

__all__ = ["usage_example"]

_ASKING = ("system", "developer", "user")
_MAX_CHARACTERS = 500


def usage_example(model: art.TrainableModel[Any, Any], backend: Any, messages: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return a complete script that opens `backend` again and asks the trained model something.

    Args:
        model: The trained model.
        backend: The backend it was trained on; one like it is made.
        messages: What to ask: of these, what comes up to the first message of a user, long texts shortened and anything
            that is no text left out, for a person has to read it.
    """
    module, name = _import_of(type(backend))
    call = constructor_call(backend)
    # What its arguments are made of comes from the same place.
    imported = {name, *(other for other in getattr(sys.modules[module], "__all__", ()) if f"={other}(" in call)}
    names = {"name": model.name, "project": model.project, "base_model": model.base_model}
    if run_name := getattr(model, "run_name", None):
        names["run_name"] = run_name
    # Absolute, so that the script finds the model from any directory.
    names["base_path"] = str(Path(model.base_path).resolve())
    arguments = ", ".join(f"{key}={value!r}" for key, value in names.items())
    question = _question(messages) or [{"role": "user", "content": "Hello"}]
    return dedent(f"""\
        import asyncio

        from artkit import make_trainable_model
        from {module} import {", ".join(sorted(imported))}


        async def main() -> None:
            model = make_trainable_model({arguments})
            backend = {call}
            try:
                await model.register(backend)
                completion = await model.openai_client().chat.completions.create(
                    model=model.get_inference_name(),
                    messages={question!r},
                    max_completion_tokens=256,
                )
                print(completion.choices[0].message.content)
                await model.openai_client().close()
            finally:
                await backend.close()


        asyncio.run(main())
        """)


def _question(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    question: list[dict[str, Any]] = []
    for message in messages:
        text = _text_of(message.get("content"))
        if message.get("role") in _ASKING and text:
            question.append({**message, "content": text})
            if message["role"] == "user":
                break
    return question


def _text_of(content: Any) -> str:
    blocks = [content] if isinstance(content, str) else content or []
    texts = [block if isinstance(block, str) else block.get("text") for block in blocks]
    text = "\n".join(filter(None, texts))
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]} […]"


def _import_of(kind: type) -> tuple[str, str]:
    """Return the shortest module that offers the class, as its documentation would import it."""
    parts = kind.__module__.split(".")
    for length in range(1, len(parts)):
        module = ".".join(parts[:length])
        if getattr(sys.modules.get(module), kind.__name__, None) is kind:
            return module, kind.__name__
    return kind.__module__, kind.__name__
