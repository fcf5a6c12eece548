//! A trace by the OpenTelemetry conventions for generative AI.
//!
//! The names are those of the repository semantic-conventions-genai at commit [`CONVENTIONS`]. A session is one trace:
//! `invoke_workflow` for the session, `invoke_agent` for an invocation and for each of its sub-agents, `chat` for a request and
//! `execute_tool` for a call. Ids follow from the session, so a trace that is sent twice is the same trace.

use convoke_protocol::id::Millis;
use convoke_protocol::usage::Usage;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message as _;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::{Call, Conversation, Failed, Invocation, ModelRequest, Step, StepKind};

/// The commit of the conventions.
pub const CONVENTIONS: &str = "002c8a6ea1c8a42b14a4527db83b3cabcded610a";
/// The maximum number of spans in a batch.
pub const MAX_BATCH: usize = 512;

/// A part of a trace that is sent at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch(ExportTraceServiceRequest);

impl Batch {
    /// Returns the batch in Protocol Buffers.
    pub fn to_protobuf(&self) -> Vec<u8> {
        self.0.encode_to_vec()
    }

    /// Returns the number of spans.
    pub fn spans(&self) -> usize {
        let resources = self.0.resource_spans.iter().flat_map(|it| &it.scope_spans);
        resources.map(|it| it.spans.len()).sum()
    }

    /// Returns the batch as JSON.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&self.0)
    }
}

/// Returns the trace of a session.
pub fn trace(conversation: &Conversation) -> Vec<Batch> {
    let mut spans = vec![workflow(conversation)];
    for invocation in &conversation.invocations {
        spans.extend(invocation_spans(conversation, invocation));
    }
    batches(conversation, spans)
}

/// Returns the part of a trace that is about invocations which have just ended.
pub fn invocations(conversation: &Conversation, ended: &[Invocation]) -> Vec<Batch> {
    let spans = ended.iter().flat_map(|invocation| invocation_spans(conversation, invocation));
    batches(conversation, spans.collect())
}

fn batches(conversation: &Conversation, spans: Vec<Span>) -> Vec<Batch> {
    let mut spans = spans.into_iter().peekable();
    let mut batches = Vec::new();
    while spans.peek().is_some() {
        batches.push(batch(conversation, spans.by_ref().take(MAX_BATCH).collect()));
    }
    batches
}

fn batch(conversation: &Conversation, spans: Vec<Span>) -> Batch {
    let mut attributes = vec![text("service.name", &conversation.program)];
    attributes.extend(conversation.version.iter().map(|it| text("service.version", it)));
    let scope = InstrumentationScope {
        name: "convoke".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let scope_spans = ScopeSpans { scope: Some(scope), spans, schema_url: String::new() };
    Batch(ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource { attributes, ..Resource::default() }),
            scope_spans: vec![scope_spans],
            schema_url: String::new(),
        }],
    })
}

/// Returns the first bytes of the hash of a name.
fn id(name: &str, bytes: usize) -> Vec<u8> {
    Sha256::digest(name.as_bytes())[..bytes].to_vec()
}

fn trace_name(conversation: &Conversation) -> String {
    format!("{}:{}", conversation.program, conversation.id)
}

fn span_id(conversation: &Conversation, key: &str) -> Vec<u8> {
    id(&format!("{}\n{key}", trace_name(conversation)), 8)
}

/// The facts that every span has.
struct SpanFacts<'s> {
    operation: &'static str,
    /// What the operation is about: the name of an agent, a model or a tool.
    subject: Option<&'s str>,
    kind: SpanKind,
    key: &'s str,
    /// The key of the parent; `None` for the root.
    parent: Option<&'s str>,
    began: Millis,
    ended: Millis,
    failed: Option<&'s Failed>,
}

/// The key of the root.
const ROOT: &str = "session";

fn span(conversation: &Conversation, facts: &SpanFacts<'_>, attributes: Vec<KeyValue>) -> Span {
    let &SpanFacts { operation, subject, kind, key, parent, began, ended, failed } = facts;
    let name = subject.map_or_else(|| operation.to_owned(), |it| format!("{operation} {it}"));
    let mut all = vec![
        text("gen_ai.operation.name", operation),
        text("gen_ai.conversation.id", &conversation.id),
    ];
    all.extend(attributes);
    all.extend(failed.map(|failed| text("error.type", &failed.kind)));
    let error = |failed: &Failed| Status {
        code: StatusCode::Error.into(),
        message: failed.message.clone(),
    };
    Span {
        trace_id: id(&trace_name(conversation), 16),
        span_id: span_id(conversation, key),
        parent_span_id: parent.map_or_else(Vec::new, |parent| span_id(conversation, parent)),
        name,
        kind: kind.into(),
        start_time_unix_nano: nanos(began),
        end_time_unix_nano: nanos(ended.max(began)),
        attributes: all,
        status: failed.map(error),
        ..Span::default()
    }
}

fn nanos(at: Millis) -> u64 {
    u64::try_from(at.0).unwrap_or_default().saturating_mul(1_000_000)
}

fn workflow(conversation: &Conversation) -> Span {
    let name = conversation.name.as_deref();
    let facts = SpanFacts {
        operation: "invoke_workflow",
        subject: name,
        kind: SpanKind::Internal,
        key: ROOT,
        parent: None,
        began: conversation.began.unwrap_or_default(),
        ended: conversation.ended.unwrap_or_default(),
        failed: None,
    };
    span(
        conversation,
        &facts,
        name.map(|it| text("gen_ai.workflow.name", it)).into_iter().collect(),
    )
}

/// Returns the spans of an invocation: its own, and those of what it did.
fn invocation_spans(conversation: &Conversation, invocation: &Invocation) -> Vec<Span> {
    let mut spans = vec![invocation_span(conversation, invocation)];
    for name in invocation.sub_agents() {
        spans.push(sub_agent_span(conversation, invocation, name));
    }
    for request in &invocation.requests {
        spans.push(request_span(conversation, invocation, request));
    }
    for (index, step) in invocation.steps.iter().enumerate() {
        if let StepKind::Call(call) = &step.kind {
            spans.push(call_span(conversation, invocation, (index, step), call));
        }
    }
    spans
}

fn invocation_span(conversation: &Conversation, invocation: &Invocation) -> Span {
    let facts = SpanFacts {
        operation: "invoke_agent",
        subject: Some(&invocation.agent),
        kind: SpanKind::Internal,
        key: &invocation.key,
        parent: Some(ROOT),
        began: invocation.began,
        ended: invocation.ended,
        failed: invocation.failed.as_ref(),
    };
    let mut attributes = vec![text("gen_ai.agent.name", &invocation.agent)];
    attributes.extend(provider(invocation));
    attributes.extend(invocation.model.iter().map(|it| text("gen_ai.request.model", it)));
    attributes.extend(invocation.usage.map(tokens).into_iter().flatten());
    attributes.extend(invocation.cost.map(cost));
    if let Some(input) = &invocation.input {
        let messages = json!([{ "role": "user", "parts": [{ "type": "text", "content": input }] }]);
        attributes.push(text("gen_ai.input.messages", &messages.to_string()));
    }
    attributes.extend(output(invocation));
    span(conversation, &facts, attributes)
}

/// Returns what the agent itself wrote, as an attribute.
fn output(invocation: &Invocation) -> Option<KeyValue> {
    let own = invocation.steps.iter().filter(|step| step.sub_agent.is_none());
    let parts: Vec<_> = own
        .filter_map(|step| match &step.kind {
            StepKind::Text(Some(text)) => Some(json!({ "type": "text", "content": text })),
            StepKind::Thinking(Some(text)) => Some(json!({ "type": "reasoning", "content": text })),
            _ => None,
        })
        .collect();
    let reason = if invocation.failed.is_some() { "error" } else { "stop" };
    let messages = json!([{ "role": "assistant", "parts": parts, "finish_reason": reason }]);
    (!parts.is_empty()).then(|| text("gen_ai.output.messages", &messages.to_string()))
}

fn sub_agent_key(invocation: &Invocation, name: &str) -> String {
    format!("{}, sub-agent {name}", invocation.key)
}

fn sub_agent_span(conversation: &Conversation, invocation: &Invocation, name: &str) -> Span {
    let of_it = |sub_agent: &Option<String>| sub_agent.as_deref() == Some(name);
    let steps = invocation.steps.iter().filter(|step| of_it(&step.sub_agent)).flat_map(|step| {
        let ended = match &step.kind {
            StepKind::Call(Call { result: Some(result), .. }) => result.at,
            _ => step.at,
        };
        [step.at, ended]
    });
    let requests = invocation.requests.iter().filter(|request| of_it(&request.sub_agent));
    let times = steps.chain(requests.flat_map(|request| [request.began, request.ended]));
    let times: Vec<Millis> = times.collect();
    let key = sub_agent_key(invocation, name);
    let facts = SpanFacts {
        operation: "invoke_agent",
        subject: Some(name),
        kind: SpanKind::Internal,
        key: &key,
        parent: Some(&invocation.key),
        began: times.iter().min().copied().unwrap_or(invocation.began),
        ended: times.iter().max().copied().unwrap_or(invocation.ended),
        failed: None,
    };
    let mut attributes = vec![text("gen_ai.agent.name", name)];
    attributes.extend(provider(invocation));
    span(conversation, &facts, attributes)
}

fn request_span(
    conversation: &Conversation,
    invocation: &Invocation,
    request: &ModelRequest,
) -> Span {
    let parent = parent(invocation, request.sub_agent.as_deref());
    let facts = SpanFacts {
        operation: "chat",
        subject: request.model.as_deref(),
        kind: SpanKind::Client,
        key: &request.key,
        parent: Some(&parent),
        began: request.began,
        ended: request.ended,
        failed: request.failed.as_ref(),
    };
    let mut attributes: Vec<_> = provider(invocation).into_iter().collect();
    attributes.extend(request.model.iter().map(|it| text("gen_ai.request.model", it)));
    attributes.extend(request.answered_by.iter().map(|it| text("gen_ai.response.model", it)));
    attributes.extend(request.usage.map(tokens).into_iter().flatten());
    attributes.extend(request.cost.map(cost));
    attributes.push(text("convoke.request.purpose", request.purpose.as_str()));
    span(conversation, &facts, attributes)
}

fn parent(invocation: &Invocation, sub_agent: Option<&str>) -> String {
    sub_agent.map_or_else(|| invocation.key.clone(), |name| sub_agent_key(invocation, name))
}

fn call_span(
    conversation: &Conversation,
    invocation: &Invocation,
    (index, step): (usize, &Step),
    call: &Call,
) -> Span {
    let parent = parent(invocation, step.sub_agent.as_deref());
    let problem = call.result.as_ref().is_some_and(|result| !result.ok).then(|| Failed {
        kind: "tool_error".to_owned(),
        message: format!("{} reported an error", call.tool),
    });
    let facts = SpanFacts {
        operation: "execute_tool",
        subject: Some(&call.tool),
        kind: SpanKind::Internal,
        key: &format!("{}, step {index}", invocation.key),
        parent: Some(&parent),
        began: step.at,
        ended: call.result.as_ref().map_or(step.at, |result| result.at),
        failed: problem.as_ref(),
    };
    let mut attributes =
        vec![text("gen_ai.tool.name", &call.tool), text("gen_ai.tool.call.id", &call.id)];
    attributes.extend(call.input.iter().map(|it| text("gen_ai.tool.call.arguments", it)));
    let output = call.result.as_ref().and_then(|result| result.output.as_deref());
    attributes.extend(output.map(|it| text("gen_ai.tool.call.result", it)));
    span(conversation, &facts, attributes)
}

/// Returns the provider by the name that the conventions give it.
fn provider(invocation: &Invocation) -> Option<KeyValue> {
    let name = match invocation.provider.as_deref()? {
        "google" => "gcp.gemini",
        other => other,
    };
    Some(text("gen_ai.provider.name", name))
}

/// Returns token counts: the parts from and into the cache are in the input, reasoning is in the output.
fn tokens(usage: Usage) -> [KeyValue; 5] {
    let Usage { input, cached, cache_write, output, reasoning } = usage;
    [
        count("gen_ai.usage.input_tokens", input),
        count("gen_ai.usage.cache_read.input_tokens", cached),
        count("gen_ai.usage.cache_creation.input_tokens", cache_write),
        count("gen_ai.usage.output_tokens", output),
        count("gen_ai.usage.reasoning.output_tokens", reasoning),
    ]
}

fn cost(dollars: f64) -> KeyValue {
    attribute("convoke.cost.usd", Value::DoubleValue(dollars))
}

fn count(name: &str, count: u64) -> KeyValue {
    attribute(name, Value::IntValue(i64::try_from(count).unwrap_or(i64::MAX)))
}

fn text(name: &str, value: &str) -> KeyValue {
    attribute(name, Value::StringValue(value.to_owned()))
}

fn attribute(name: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: name.to_owned(), value, ..KeyValue::default() }
}
