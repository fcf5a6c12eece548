"""Validates every message of a recorded dialogue by the published schema of ACP: the schema, what the client sent, what
the agent sent."""

import json
import sys

import jsonschema

schema = json.load(open(sys.argv[1], encoding="utf-8"))
definitions = schema["$defs"]
by_method = {}
for name, definition in definitions.items():
    if "x-method" in definition:
        kind = next(kind for kind in ("Request", "Response", "Notification") if name.endswith(kind))
        by_method[definition["x-method"], kind] = name


def check(value, method, kind):
    name = by_method[method, kind]
    validator = jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": definitions})
    errors = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]
    assert not errors, f"{method} ({name}): {errors}: {value}"


def messages(path):
    return [json.loads(line) for line in open(path, encoding="utf-8")]


sent, received = messages(sys.argv[2]), messages(sys.argv[3])
counts = {}
for own, other in [(sent, received), (received, sent)]:
    asked = {message["id"]: message["method"] for message in other if "id" in message and "method" in message}
    for message in own:
        assert message["jsonrpc"] == "2.0", message
        if "method" in message:
            kind = "Request" if "id" in message else "Notification"
            check(message["params"], message["method"], kind)
        elif "error" in message:
            error = message["error"]
            assert isinstance(error["code"], int) and isinstance(error["message"], str), message
            kind = "error"
        else:
            check(message["result"], asked[message["id"]], "Response")
            kind = "Response"
        counts[kind] = counts.get(kind, 0) + 1
answered = [message["id"] for message in received if "method" not in message]
assert len(answered) == len(set(answered)), "a request was answered twice"
asked = {message["id"] for message in sent if "id" in message and "method" in message}
assert asked == set(answered), f"not answered: {asked - set(answered)}"
print(counts)
