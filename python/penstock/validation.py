"""Checks data from files with pydantic.

The message for a mistake is one sentence with the file, the key and a remedy.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, WrapValidator, model_validator
from pydantic_core import PydanticCustomError

from penstock.errors import PenstockError

M = TypeVar("M", bound=BaseModel)


class Strict(BaseModel):
    """A table of a file. The table is immutable, and an unknown key is a mistake."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, data: Any) -> Any:
        known = {field.alias or name for name, field in cls.model_fields.items()}
        for key in data if isinstance(data, dict) else ():
            if key not in known:
                raise ValueError(f"{key} is unknown; known keys are {', '.join(sorted(known))}")
        return data


def must(sentence: str) -> WrapValidator:
    """Replace pydantic's message about a wrong value by `sentence`."""

    def check(value: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise PydanticCustomError("must", sentence) from None

    return WrapValidator(check)


def parse(model: type[M], data: object, where: Path | str, error: Callable[[str], PenstockError] = PenstockError) -> M:
    """The model of `data`. The first mistake raises an `error` whose text begins with `where`."""
    try:
        return model.model_validate(data)
    except ValidationError as wrong:
        raise error(f"{where}: {_sentence(data, wrong.errors()[0])}") from None


def _sentence(data: Any, mistake: Any) -> str:
    """The place and the mistake; an entry of a list is named by its `id`, if it has one."""
    names = []
    for part in mistake["loc"]:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            data = None
        name = str(data.get("id", part) if isinstance(part, int) and isinstance(data, dict) else part)
        names.append(_shown(name)[1:-1])
    key, given = ".".join(names).removesuffix(".[key]"), _shown(mistake["input"])
    match mistake["type"]:
        case "value_error":
            return f"{key}: {mistake['ctx']['error']}".removeprefix(": ")
        case "missing":
            return f"{key} is missing"
        case "literal_error":
            return f"{key} is {given}; it must be one of {mistake['ctx']['expected'].replace(' or ', ', ')}"
    return f"{key or 'the document'} is {given}; {mistake['msg'].replace('Input should', 'it should')}"


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
