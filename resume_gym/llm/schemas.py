"""JSON schemas of answers, for servers that support structured output."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

_KEPT = ("type", "properties", "items", "required", "enum", "additionalProperties")


def schema_of(answer: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of an answer, without references, titles and length limits.

    Few servers enforce length limits; pydantic checks them when the answer is parsed.
    """
    schema = answer.model_json_schema()
    known = schema.get("$defs", {})

    def bare(part: Mapping[str, Any]) -> dict[str, Any]:
        part = known[part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        kept = {key: part[key] for key in _KEPT if key in part}
        if "properties" in kept:
            kept["properties"] = {name: bare(one) for name, one in kept["properties"].items()}
        if "items" in kept:
            kept["items"] = bare(kept["items"])
        return kept

    return bare(schema)
