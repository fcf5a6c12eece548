//! The facts of an answer: the tokens that the provider counted, and the model that it named. They are read piece by
//! piece from the stream.

use std::collections::VecDeque;

use convoke_protocol::usage::Usage;
use convoke_protocol::wire::Wire;
use serde_json::Value;

use crate::end::AnswerEnd;
use crate::keyword::Keywords;
use crate::sse::{Data, SseEvent, SseReader, end_of_event, end_of_last_event};
use crate::usage;

/// The maximum size of an event, or of an answer in one piece; a longer one is skipped.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// The facts of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerFacts {
    /// The tokens; `None` if the provider did not count them.
    pub usage: Option<Usage>,
    /// The model; `None` if the provider did not name it.
    pub model: Option<String>,
    /// The provider's own reason for a cache miss, for example `tools_changed` (Anthropic).
    pub cache_miss: Option<String>,
    /// Whether the answer is complete.
    pub is_complete: bool,
    /// Why the model stopped; `None` if the provider did not say.
    pub end: Option<AnswerEnd>,
    /// The error in the answer.
    pub error: Option<String>,
}

/// Reads the facts of an answer from its pieces.
#[derive(Debug)]
pub struct AnswerReader {
    wire: Wire,
    form: AnswerForm,
    facts: AnswerFacts,
}

#[derive(Debug)]
enum AnswerForm {
    Events(SseReader, VecDeque<SseEvent>),
    /// One JSON value; `None` once it is too long.
    Whole(Option<Vec<u8>>),
}

impl AnswerReader {
    /// Creates a reader for an answer with this content type.
    pub fn new(wire: Wire, content_type: &str) -> Self {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        let form = if essence.eq_ignore_ascii_case("text/event-stream") {
            AnswerForm::Events(SseReader::new(MAX_EVENT_BYTES), VecDeque::new())
        } else {
            AnswerForm::Whole(Some(Vec::new()))
        };
        Self { wire, form, facts: AnswerFacts::default() }
    }

    /// Adds the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        match &mut self.form {
            AnswerForm::Events(reader, events) => {
                read_events(self.wire, reader, events, piece, &mut self.facts);
            }
            AnswerForm::Whole(kept) => match kept {
                Some(bytes) if bytes.len() + piece.len() <= MAX_EVENT_BYTES => {
                    bytes.extend_from_slice(piece);
                }
                _ => *kept = None,
            },
        }
    }

    /// Returns the facts so far.
    pub fn finish(mut self) -> AnswerFacts {
        match &mut self.form {
            AnswerForm::Events(reader, _) => {
                if let Some(event) = reader.finish() {
                    read_event(self.wire, &event, &mut self.facts);
                }
            }
            AnswerForm::Whole(bytes) => {
                if let Ok(value) = serde_json::from_slice(bytes.as_deref().unwrap_or_default()) {
                    let values = match &value {
                        Value::Array(values) => &values[..],
                        value => std::slice::from_ref(value),
                    };
                    for value in values {
                        read(self.wire, value, &mut self.facts);
                    }
                    self.facts.is_complete = true;
                }
            }
        }
        self.facts
    }
}

/// Reads the events of a piece. Most are deltas without facts: those that are whole in the piece are neither copied nor
/// parsed. Of those that count tokens, as every event of Gemini does, the last in the piece is parsed.
fn read_events(
    wire: Wire,
    reader: &mut SseReader,
    events: &mut VecDeque<SseEvent>,
    piece: &[u8],
    facts: &mut AnswerFacts,
) {
    let mut words = Keywords::in_text(wire, piece);
    let mut is_replacing = false;
    let mut at = 0;
    while at < piece.len() {
        let mut keyword = at;
        if reader.is_between_events() {
            if !std::mem::replace(&mut is_replacing, true) {
                replace_counts(wire, &mut words, piece, at);
            }
            keyword = words.next(at, facts.model.is_some()).unwrap_or(piece.len());
            at += end_of_last_event(&piece[at..keyword]);
        }
        let end = keyword + end_of_event(&piece[keyword..]);
        reader.push(&piece[at..end], events);
        for event in events.drain(..) {
            read_event(wire, &event, facts);
        }
        at = end;
    }
}

/// Finds the last event of a piece that counts tokens. If it leaves nothing of what the events before it counted, theirs
/// need not be read.
fn replace_counts(wire: Wire, words: &mut Keywords<'_>, piece: &[u8], from: usize) {
    let end = from + end_of_last_event(&piece[from..]);
    let Some(usage) = words.last_usage(from, end) else { return };
    let start = from + end_of_last_event(&piece[from..usage]);
    if words.last_usage(from, start).is_none() {
        return;
    }
    let mut events = VecDeque::new();
    let mut reader = SseReader::new(MAX_EVENT_BYTES);
    reader.push(&piece[start..usage + end_of_event(&piece[usage..])], &mut events);
    let Some(Data::Whole(data)) = events.pop_front().map(|event| event.data) else { return };
    let Ok(value) = serde_json::from_str(&data) else { return };
    let mut own = AnswerFacts::default();
    read(wire, &value, &mut own);
    let counts_all = match wire {
        Wire::Messages => usage::counts_all_of_anthropic(&of_message(&value)["usage"]),
        Wire::Responses | Wire::Chat | Wire::Gemini => own.usage.is_some(),
    };
    if counts_all && (own.model.is_some() || !words.names_model(from, start)) {
        words.replace_before(start);
    }
}

fn read_event(wire: Wire, event: &SseEvent, facts: &mut AnswerFacts) {
    let Data::Whole(data) = &event.data else { return };
    if data.trim() == "[DONE]" {
        facts.is_complete = true;
        return;
    }
    if Keywords::in_text(wire, data.as_bytes()).next(0, facts.model.is_some()).is_some()
        && let Ok(value) = serde_json::from_str(data)
    {
        read(wire, &value, facts);
    }
}

/// Reads one JSON value of an answer: the whole of it, or one event. Later values win.
fn read(wire: Wire, value: &Value, facts: &mut AnswerFacts) {
    // Code Assist wraps the answers of Gemini.
    let wrapped = &value["response"];
    let value = if wire == Wire::Gemini && wrapped.is_object() { wrapped } else { value };
    if let Some(end) = AnswerEnd::read(wire, value) {
        facts.end = Some(match facts.end.take() {
            Some(before) => before.followed_by(end),
            None => end,
        });
    }
    match wire {
        Wire::Messages => read_messages(value, facts),
        Wire::Responses => read_responses(value, facts),
        Wire::Chat => {
            note_model(&value["model"], facts);
            facts.usage = usage::of_openai(&value["usage"]).or(facts.usage);
            facts.is_complete |= value["choices"][0]["finish_reason"].is_string();
        }
        Wire::Gemini => {
            note_model(&value["modelVersion"], facts);
            facts.usage = usage::of_gemini(&value["usageMetadata"]).or(facts.usage);
            facts.is_complete |= value["candidates"][0]["finishReason"].is_string();
        }
    }
    let error = match &value["error"] {
        Value::Null if value["type"] == "response.failed" => &value["response"]["error"],
        error => error,
    };
    if let Some(message) = error["message"].as_str() {
        facts.error = Some(message.to_owned());
    }
}

/// Returns the part of an event of Anthropic that has the counts.
fn of_message(value: &Value) -> &Value {
    if value["type"] == "message_start" { &value["message"] } else { value }
}

fn read_messages(value: &Value, facts: &mut AnswerFacts) {
    let message = of_message(value);
    note_model(&message["model"], facts);
    facts.usage = usage::of_anthropic(&message["usage"], facts.usage);
    let reason = &message["diagnostics"]["cache_miss_reason"];
    let reason = reason["type"].as_str().or(reason.as_str());
    if let Some(reason) = reason {
        facts.cache_miss = Some(reason.to_owned());
    }
    facts.is_complete |= value["type"] == "message_stop";
}

fn read_responses(value: &Value, facts: &mut AnswerFacts) {
    let response = if value["response"].is_object() { &value["response"] } else { value };
    note_model(&response["model"], facts);
    facts.usage = usage::of_openai(&response["usage"]).or(facts.usage);
    facts.is_complete |= matches!(
        value["type"].as_str(),
        Some("response.completed" | "response.incomplete" | "response.done")
    );
}

fn note_model(model: &Value, facts: &mut AnswerFacts) {
    if let Some(model) = model.as_str().filter(|model| !model.is_empty()) {
        facts.model = Some(model.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::end::EndKind;

    fn facts(wire: Wire, content_type: &str, answer: &str) -> AnswerFacts {
        let mut found = Vec::new();
        for size in [1, 7, answer.len()] {
            let mut reader = AnswerReader::new(wire, content_type);
            for piece in answer.as_bytes().chunks(size) {
                reader.push(piece);
            }
            found.push(reader.finish());
        }
        assert_eq!(found[0], found[1]);
        assert_eq!(found[1], found[2]);
        found.remove(0)
    }

    fn shown(facts: &AnswerFacts) -> String {
        let usage = facts.usage.map_or("none".to_owned(), |usage| usage.to_string());
        let model = facts.model.as_deref().unwrap_or("-");
        format!("{model} {usage} {}", if facts.is_complete { "complete" } else { "cut" })
    }

    #[test]
    fn anthropic_counts_its_parts_apart_and_the_last_event_wins() {
        let start = r#"event: message_start
data: {"type":"message_start","message":{"model":"c","usage":{"input_tokens":3,"cache_read_input_tokens":100,"cache_creation_input_tokens":20,"output_tokens":1},"diagnostics":{"cache_miss_reason":{"type":"tools_changed"}}}}

"#;
        let delta = r#"event: message_delta
data: {"type":"message_delta","delta":{},"usage":{"output_tokens":9}}

event: message_stop
data: {"type":"message_stop"}

"#;
        let facts_of = |text: &str| facts(Wire::Messages, "text/event-stream", text);
        let whole = facts_of(&format!("{start}{delta}"));
        assert_eq!(
            shown(&whole),
            "c input=123,cached=100,cache-write=20,output=9,reasoning=0 complete"
        );
        assert_eq!(whole.cache_miss.as_deref(), Some("tools_changed"));
        let cut = facts_of(start);
        assert_eq!(shown(&cut), "c input=123,cached=100,cache-write=20,output=1,reasoning=0 cut");
        let json = r#"{"type":"message","model":"c","usage":{"input_tokens":3,"output_tokens":2}}"#;
        assert_eq!(
            shown(&facts(Wire::Messages, "application/json", json)),
            "c input=3,cached=0,cache-write=0,output=2,reasoning=0 complete"
        );
    }

    #[test]
    fn openai_counts_cached_tokens_within_the_input() {
        let responses = "data: {\"type\":\"response.created\",\"response\":{\"model\":\"g\"}}\n\ndata: {\"type\":\"response.completed\",\"response\":{\"model\":\"g\",\"usage\":{\"input_tokens\":50,\"input_tokens_details\":{\"cached_tokens\":40,\"cache_write_tokens\":5},\"output_tokens\":7,\"output_tokens_details\":{\"reasoning_tokens\":2}}}}\n\n";
        assert_eq!(
            shown(&facts(Wire::Responses, "text/event-stream; charset=utf-8", responses)),
            "g input=50,cached=40,cache-write=5,output=7,reasoning=2 complete"
        );
        let chat = "data: {\"model\":\"g\",\"choices\":[{\"delta\":{\"content\":\"usage\"}}]}\n\ndata: {\"model\":\"g\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n";
        assert_eq!(
            shown(&facts(Wire::Chat, "text/event-stream", chat)),
            "g input=5,cached=0,cache-write=0,output=1,reasoning=0 complete"
        );
        let failed = "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"message\":\"too long\"}}}\n\n";
        let failed = facts(Wire::Responses, "text/event-stream", failed);
        assert_eq!((failed.error.as_deref(), failed.is_complete), (Some("too long"), false));
    }

    #[test]
    fn events_without_facts_are_passed_over_and_the_others_are_found() {
        let delta = "data: {\"choices\":[{\"delta\":{\"content\":\"a word\"},\"finish_reason\":null}],\"usage\":null}";
        let named = "data: {\"model\":\"g\",\"choices\":[]}";
        let told = "data: {\"model\":\"g\",\"choices\":[{\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1}}";
        let expected = "g input=5,cached=0,cache-write=0,output=1,reasoning=0 complete";
        for end in ["\n\n", "\r\n\r\n", "\r\r", "\n\r\n"] {
            let many = format!("{delta}{end}").repeat(40);
            let others = format!(": a comment{end}event: x\nid: 3{end}{end}");
            let text = format!("{named}{end}{many}{others}{told}{end}{many}");
            let found = facts(Wire::Chat, "text/event-stream", &text);
            assert_eq!(shown(&found), expected, "{end:?}");
        }
    }

    #[test]
    fn an_answer_that_counts_in_every_event_is_read_as_if_each_event_came_alone() {
        let mut events = Vec::new();
        for n in 0..40 {
            let named =
                ["", "", r#","model":"one""#, r#","model":"two","modelVersion":"two""#][n % 4];
            let counted = [
                format!(r#""usage":{{"input_tokens":{n},"output_tokens":{n}}}"#),
                format!(r#""usage":{{"prompt_tokens":{n}}}"#),
                format!(r#""usage":{{"output_tokens":{n}}}"#),
                format!(
                    r#""usage":{{"input_tokens":1,"output_tokens":{n},"cache_read_input_tokens":2,"cache_creation_input_tokens":{n}}}"#
                ),
                format!(r#""usageMetadata":{{"promptTokenCount":{n}}}"#),
                r#""usage":{}"#.to_owned(),
                r#""usage":"none""#.to_owned(),
                r#""usage":null"#.to_owned(),
                r#""text":"\"usage\":{\"input_tokens\":7}""#.to_owned(),
                r#""args":{"usage":{"input_tokens":1},"usageMetadata":{"promptTokenCount":5}}"#
                    .to_owned(),
            ];
            let other = [
                "",
                r#","error":{"message":"broken"}"#,
                r#","type":"message_stop""#,
                r#","type":"response.completed""#,
                r#","choices":[{"finish_reason":"stop"}]"#,
                r#","diagnostics":{"cache_miss_reason":"tools_changed"}"#,
                "",
            ];
            let counted = &counted[(n * 7 + n / 10) % counted.len()];
            let other = if n % 11 == 0 { other[n % other.len()] } else { "" };
            events.push(format!("data: {{{counted}{named}{other}}}\n\n"));
        }
        for wire in Wire::ALL {
            // Any part of the stream, so that any event is the last one.
            for start in 0..events.len() {
                for end in start..events.len() {
                    let mut alone = AnswerReader::new(wire, "text/event-stream");
                    let mut together = AnswerReader::new(wire, "text/event-stream");
                    for event in &events[start..=end] {
                        alone.push(event.as_bytes());
                    }
                    // A stream has begun before.
                    together.push(b": x\n\n");
                    together.push(events[start..=end].concat().as_bytes());
                    assert_eq!(together.finish(), alone.finish(), "{wire:?} {start}..={end}");
                }
            }
        }
    }

    #[test]
    fn gemini_counts_thoughts_apart_from_the_text() {
        let chunk = |tokens: &str, end: &str| {
            format!(
                r#"{{"candidates":[{{"content":{{}}{end}}}],"usageMetadata":{{"promptTokenCount":30,"cachedContentTokenCount":12{tokens}}},"modelVersion":"f"}}"#
            )
        };
        let (first, last) = (
            chunk("", ""),
            chunk(
                ",\"candidatesTokenCount\":4,\"thoughtsTokenCount\":3",
                ",\"finishReason\":\"STOP\"",
            ),
        );
        let expected = "f input=30,cached=12,cache-write=0,output=7,reasoning=3 complete";
        let events = format!("data: {first}\r\n\r\ndata: {last}\r\n\r\n");
        assert_eq!(shown(&facts(Wire::Gemini, "text/event-stream", &events)), expected);
        let array = format!("[{first},\r\n{last}]");
        assert_eq!(shown(&facts(Wire::Gemini, "application/json", &array)), expected);
        let wrapped = format!("data: {{\"response\":{last},\"traceId\":\"t\"}}\r\n\r\n");
        assert_eq!(shown(&facts(Wire::Gemini, "text/event-stream", &wrapped)), expected);
    }

    #[test]
    fn the_end_is_that_of_the_providers_word_and_a_refusal_stays_one() {
        use EndKind::{Complete, ContextFull, OutputFull, Refused, Unfinished};
        let messages = |reason: &str| {
            format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}}}}"#)
        };
        let incomplete = |reason: &str| {
            format!(
                r#"{{"type":"response.incomplete","response":{{"incomplete_details":{{"reason":"{reason}"}}}}}}"#
            )
        };
        let chat = |reason: &str| format!(r#"{{"choices":[{{"finish_reason":"{reason}"}}]}}"#);
        let gemini = |reason: &str| {
            format!(
                r#"{{"candidates":[{{"finishReason":"{reason}"}}],"usageMetadata":{{"promptTokenCount":1}}}}"#
            )
        };
        let refused = r#"{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"refusal","refusal":"no"}]}}"#;
        let said_no = r#"{"choices":[{"delta":{"refusal":"no"}}]}"#;
        let blocked = r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#;
        let completed = r#"{"type":"response.completed","response":{"incomplete_details":null}}"#;
        let counted = r#"{"usageMetadata":{"promptTokenCount":1}}"#;
        for (wire, events, expected) in [
            (Wire::Messages, vec![messages("end_turn")], Some(Complete)),
            (Wire::Messages, vec![messages("max_tokens")], Some(OutputFull)),
            (Wire::Messages, vec![messages("model_context_window_exceeded")], Some(ContextFull)),
            (Wire::Messages, vec![messages("refusal")], Some(Refused)),
            (Wire::Messages, vec![messages("pause_turn")], Some(Unfinished)),
            (Wire::Messages, vec![r#"{"delta":{"stop_reason":null}}"#.to_owned()], None),
            (Wire::Responses, vec![incomplete("max_output_tokens")], Some(OutputFull)),
            (Wire::Responses, vec![incomplete("content_filter")], Some(Refused)),
            (Wire::Responses, vec![incomplete("something_new")], Some(Unfinished)),
            (Wire::Responses, vec![refused.to_owned(), completed.to_owned()], Some(Refused)),
            (Wire::Responses, vec![completed.to_owned()], None),
            (Wire::Chat, vec![chat("stop")], Some(Complete)),
            (Wire::Chat, vec![chat("length")], Some(OutputFull)),
            (Wire::Chat, vec![said_no.to_owned(), chat("stop")], Some(Refused)),
            (Wire::Gemini, vec![gemini("STOP")], Some(Complete)),
            (Wire::Gemini, vec![gemini("MAX_TOKENS"), counted.to_owned()], Some(OutputFull)),
            (Wire::Gemini, vec![gemini("RECITATION")], Some(Refused)),
            (Wire::Gemini, vec![blocked.to_owned()], Some(Refused)),
            (Wire::Gemini, vec![format!(r#"{{"response":{blocked}}}"#)], Some(Refused)),
        ] {
            let stream: Vec<String> =
                events.iter().map(|event| format!("data: {event}\n\n")).collect();
            let stream = stream.concat();
            let found = facts(wire, "text/event-stream", &stream).end;
            assert_eq!(found.map(|end| end.kind), expected, "{stream}");
        }
        let whole =
            r#"{"output":[{"type":"message","content":[{"type":"refusal","refusal":"no"}]}]}"#;
        let found = facts(Wire::Responses, "application/json", whole).end;
        assert_eq!(found.map(|end| end.word).as_deref(), Some("refusal"));
    }

    #[test]
    fn an_error_has_no_usage_and_a_strange_answer_no_facts() {
        let error = r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#;
        let limited = facts(Wire::Messages, "application/json", error);
        assert_eq!((limited.usage, limited.error.as_deref()), (None, Some("slow down")));
        for wire in Wire::ALL {
            let strange = facts(wire, "text/html", "<p>usage</p>");
            assert_eq!(strange, AnswerFacts::default());
        }
    }
}
