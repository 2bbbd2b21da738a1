# SPDX-License-Identifier: Apache-2.0
"""Asks a server of `python -m npugraph serve`: an answer that is streamed, and one in JSON of a given form.

    python examples/serving/client.py [--url http://localhost:8000/v1] [--model NAME] [QUESTION]

Needs the package openai, which vLLM installs. The server needs no key; a client of OpenAI wants one nevertheless.
"""

import argparse
import json

from openai import OpenAI

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Paris", "Rome", "Madrid"]},
        "country": {"enum": ["France", "Italy", "Spain"]},
    },
    "required": ["city", "country"],
    "additionalProperties": False,
}


def chat(client: OpenAI, model: str, question: str) -> None:
    """Prints the answer as it comes."""
    stream = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": question}], max_tokens=60, stream=True
    )
    for chunk in stream:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
    print()


def fill_in(client: OpenAI, model: str, schema: dict) -> dict:
    """Returns an answer that fits the schema: the server lets the model write no other."""
    answer = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "Name a capital of Europe and its country, in JSON."}],
        response_format={"type": "json_schema", "json_schema": {"name": "capital", "schema": schema}},
        max_tokens=100,
    )
    return json.loads(answer.choices[0].message.content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://localhost:8000/v1", help="default: %(default)s")
    parser.add_argument("--model", help="default: the first model of the server")
    parser.add_argument("question", nargs="?", default="What is the capital of France?")
    arguments = parser.parse_args()

    client = OpenAI(base_url=arguments.url, api_key="none")
    model = arguments.model or client.models.list().data[0].id
    chat(client, model, arguments.question)
    print(json.dumps(fill_in(client, model, SCHEMA)))


if __name__ == "__main__":
    main()
