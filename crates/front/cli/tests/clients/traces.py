"""Reads exported sessions with the official types of OpenTelemetry and the validator of ATIF.

    traces.py otlp-json < lines        the spans of lines of JSON, as lines "NAME SPAN PARENT"
    traces.py otlp-protobuf < body     the same of a body in Protocol Buffers
    traces.py atif < trajectory        the sources of the steps
"""
import json
import sys

from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def spans(requests):
    for request in requests:
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    yield span


def from_json(line):
    """Ids are hexadecimal in the JSON of OTLP, where Protocol Buffers have base64."""
    value = json.loads(line)
    import base64

    for resource in value["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name in ("traceId", "spanId", "parentSpanId"):
                    span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    return Parse(json.dumps(value), ExportTraceServiceRequest())


form = sys.argv[1]
if form == "atif":
    from atif import Trajectory

    trajectory = Trajectory.model_validate(json.load(sys.stdin))
    print(" ".join(step.source for step in trajectory.steps))
else:
    if form == "otlp-json":
        requests = [from_json(line) for line in sys.stdin]
    else:
        request = ExportTraceServiceRequest()
        request.ParseFromString(sys.stdin.buffer.read())
        assert request.SerializeToString(), "nothing was sent"
        requests = [request]
    for span in spans(requests):
        print(f"{span.name}\t{span.span_id.hex()}\t{span.parent_span_id.hex()}")
