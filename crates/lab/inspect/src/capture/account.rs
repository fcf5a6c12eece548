//! The ledger of a captured request. The user's parts are found by their text; the rest is the program's own.

use std::borrow::Cow;

use convoke_core::ledger::{ENVELOPE, Entry, Ledger, Rule, Source, Target, estimate_tokens};
use convoke_protocol::wire::Wire;
use convoke_rehearsal::Recorded;
use convoke_wire::{Part, PartKind, RequestKind, RequestParts};
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use super::ownership::{Span, UserText, attribute};
use super::{Capture, CaptureError, ChildEnd};

/// A captured request with its ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The number of the request.
    pub request: usize,
    /// The wire format.
    pub wire: Wire,
    pub model: String,
    /// Whether a streamed response was requested.
    pub streamed: bool,
    /// The ledger of the body.
    pub ledger: Ledger<'static>,
}

/// The share of one of the user's sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    pub source: Source<'static>,
    /// Its bytes in the body.
    pub bytes: u64,
}

impl Capture {
    /// Returns the account of the turn's own request.
    pub fn account(&self) -> Result<Account, CaptureError> {
        let (request, call) = self
            .turn()
            .and_then(|turn| Some((turn, turn.model_call()?)))
            .ok_or_else(|| self.no_call())?;
        let request_parts = RequestParts::parse(call.wire, &request.body)
            .map_err(|source| CaptureError::NotJson { number: request.number, source })?;
        Ok(Account {
            request: request.number,
            wire: call.wire,
            model: call.model.clone(),
            streamed: call.streamed,
            ledger: ledger(&request.body, &request_parts.parts, &self.yours),
        })
    }

    fn no_call(&self) -> CaptureError {
        let is_elsewhere =
            |request: &&Recorded| matches!(request.kind, RequestKind::Elsewhere { .. });
        let sent = self.requests.iter().filter(|request| !is_elsewhere(request));
        if self.ended == ChildEnd::Interrupted {
            return CaptureError::Interrupted;
        }
        let output = match &self.ended {
            ChildEnd::Done { output } => output.clone(),
            ChildEnd::Failed { reason } => reason.clone(),
            ChildEnd::Stopped | ChildEnd::Interrupted => String::new(),
            ChildEnd::TimedOut => "nothing before its time limit".to_owned(),
        };
        let sent = sent.map(|request| format!("{} {}", request.method, request.target));
        let sent: Vec<String> = sent.collect();
        let has_answered = matches!(self.ended, ChildEnd::Done { .. });
        if has_answered && sent.is_empty() && !output.trim().is_empty() {
            return CaptureError::WentPast { output };
        }
        CaptureError::NoCall { sent, output }
    }
}

impl Account {
    /// Returns the user's shares by source, in the order of the request.
    pub fn yours(&self) -> Vec<Share> {
        let mut yours: Vec<Share> = Vec::new();
        for entry in self.ledger.entries().filter(is_yours) {
            let bytes = entry.kept_bytes();
            match yours.iter_mut().find(|known| known.source == entry.source) {
                Some(known) => known.bytes += bytes,
                None => yours.push(Share { source: entry.source, bytes }),
            }
        }
        yours
    }

    /// Returns the bytes of the body.
    pub fn body_bytes(&self) -> u64 {
        self.ledger.used_bytes()
    }

    /// Returns the number of the user's bytes.
    pub fn your_bytes(&self) -> u64 {
        self.ledger.entries().filter(is_yours).map(|entry| entry.kept_bytes()).sum()
    }

    /// Returns the number of the program's own bytes, including the envelope.
    pub fn program_bytes(&self) -> u64 {
        self.body_bytes() - self.your_bytes()
    }

    /// Returns the number of bytes outside all parts: settings, and the JSON itself.
    pub fn envelope_bytes(&self) -> u64 {
        let envelope = self.ledger.entries().filter(|entry| entry.section == ENVELOPE);
        envelope.map(|entry| entry.kept_bytes()).sum()
    }
}

fn is_yours(entry: &Entry<'_>) -> bool {
    !matches!(entry.source, Source::Program { .. })
}

impl Serialize for Account {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut account = serializer.serialize_struct("Account", 10)?;
        account.serialize_field("request", &self.request)?;
        account.serialize_field("wire", &self.wire)?;
        account.serialize_field("model", &self.model)?;
        account.serialize_field("streamed", &self.streamed)?;
        account.serialize_field("bodyBytes", &self.body_bytes())?;
        account.serialize_field("tokensEstimate", &estimate_tokens(self.body_bytes()))?;
        account.serialize_field("yourBytes", &self.your_bytes())?;
        account.serialize_field("programBytes", &self.program_bytes())?;
        account.serialize_field("envelopeBytes", &self.envelope_bytes())?;
        account.serialize_field("ledger", &self.ledger)?;
        account.end()
    }
}

/// Creates the ledger of a body, part by part in its order.
pub(crate) fn ledger(body: &[u8], parts: &[Part], yours: &[UserText]) -> Ledger<'static> {
    let spans = attribute(parts, yours);
    let mut parts: Vec<_> = parts.iter().zip(spans).collect();
    parts.sort_by_key(|(part, _)| part.range.start);
    let mut writer = LedgerWriter::default();
    for (part, spans) in parts {
        writer.up_to(part.range.start, ENVELOPE, program(ENVELOPE));
        let section = match part.kind {
            PartKind::System => "instructions",
            PartKind::Message => "conversation",
            PartKind::Tool => "tools",
        };
        let raw = &body[part.range.clone()];
        let mut at = Place::default();
        for Span { range, yours: index } in spans {
            at.decode_up_to(range.start, raw);
            writer.up_to(part.range.start + at.raw, section, own(part));
            at.decode_up_to(range.end, raw);
            writer.up_to(part.range.start + at.raw, section, yours[index].origin.source());
            writer.cut(yours[index].text.len() as u64, yours[index].cut_bytes);
        }
        writer.up_to(part.range.end, section, own(part));
    }
    writer.up_to(body.len(), ENVELOPE, program(ENVELOPE));
    writer.ledger()
}

/// The beginning of the source of an MCP server's tools.
pub(crate) const MCP_SERVER: &str = "MCP server ";

/// Returns the source of a part without texts of the user: the program, or the MCP server that a tool belongs to.
fn own(part: &Part) -> Source<'static> {
    let server = mcp_server(&part.title).filter(|_| part.kind == PartKind::Tool);
    match server {
        Some(server) => Source::Setting { name: Cow::Owned(format!("{MCP_SERVER}{server}")) },
        None => program(&part.title),
    }
}

/// Returns the MCP server in the name of a tool, as programs write it: `mcp__SERVER__TOOL` or `mcp_SERVER_TOOL`.
fn mcp_server(tool: &str) -> Option<&str> {
    let server = match tool.strip_prefix("mcp__") {
        Some(name) => name.split_once("__").map_or(name, |(server, _)| server),
        None => tool.strip_prefix("mcp_")?.split_once('_')?.0,
    };
    (!server.is_empty()).then_some(server)
}

fn program(what: &str) -> Source<'static> {
    Source::Program { what: Cow::Owned(what.to_owned()) }
}

#[derive(Default)]
struct LedgerWriter {
    entries: Vec<Entry<'static>>,
    at: u64,
}

impl LedgerWriter {
    /// Adds an entry for the bytes up to a position, if there are any.
    fn up_to(&mut self, end: usize, section: &'static str, source: Source<'static>) {
        let range = self.at..end as u64;
        if range.is_empty() {
            return;
        }
        self.at = range.end;
        let rule = if section == ENVELOPE { Rule::Frame } else { Rule::Fits };
        let (target, section) = (Target::Prompt, Cow::Borrowed(section));
        self.entries.push(Entry { target, section, source, range, cut_bytes: 0, rule });
    }

    /// Marks the last source as cut by its program.
    fn cut(&mut self, kept: u64, cut_bytes: u64) {
        if cut_bytes > 0
            && let Some(entry) = self.entries.last_mut()
        {
            entry.cut_bytes = cut_bytes;
            entry.rule = Rule::EndCut { needed: kept + cut_bytes, available: kept };
        }
    }

    fn ledger(self) -> Ledger<'static> {
        self.entries.into_iter().collect()
    }
}

/// A position in a JSON string, in its raw bytes and in its decoded text.
#[derive(Debug, Default)]
pub(crate) struct Place {
    pub(crate) raw: usize,
    text: usize,
}

impl Place {
    /// Advances to a position of the text.
    pub(crate) fn decode_up_to(&mut self, text: usize, raw: &[u8]) {
        while self.text < text && self.raw < raw.len() {
            let (escaped, decoded) = character(&raw[self.raw..]);
            self.raw += escaped;
            self.text += decoded;
        }
    }
}

/// Returns the raw and the decoded length of the first character of a JSON string.
fn character(raw: &[u8]) -> (usize, usize) {
    let code = |at: usize| {
        let digits = std::str::from_utf8(raw.get(at..at + 4)?).ok()?;
        u32::from_str_radix(digits, 16).ok()
    };
    match raw {
        [b'\\', b'u', ..] => match code(2) {
            // A surrogate pair.
            Some(0xD800..=0xDFFF) => (12, 4),
            code => (6, code.and_then(char::from_u32).map_or(1, char::len_utf8)),
        },
        [b'\\', ..] => (2, 1),
        _ => (1, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Origin;

    #[test]
    fn every_range_decodes_to_the_text_of_its_source() {
        let file = "Use \"tabs\".\n\tNever délete 🦀 files, please.";
        let prompt = "Read\nthe file, and then answer me.";
        let escaped = serde_json::to_string(file)
            .unwrap()
            .replace('é', "\\u00e9")
            .replace('🦀', "\\ud83e\\udd80");
        let body = format!(
            "{{ \"tools\": [ {{\"name\": \"shell\"}} ],\n \"system\": [{{\"type\": \"text\", \"text\": \"Be brief.\\n\\n{} \\u0041nd kind.\"}}], \"messages\": [{{\"role\": \"user\", \"content\": {}}}]}}",
            escaped.trim_matches('"').trim_end(),
            serde_json::to_string(prompt).unwrap(),
        );
        let given =
            |origin: Origin, text: &str| UserText { origin, text: text.to_owned(), cut_bytes: 0 };
        let path = std::path::PathBuf::from("/p/CLAUDE.md");
        let yours = [given(Origin::File { path }, file), given(Origin::Argument, prompt)];
        let parts = RequestParts::parse(Wire::Messages, body.as_bytes()).unwrap().parts;
        let ledger = ledger(body.as_bytes(), &parts, &yours);
        assert!(ledger.covers(Target::Prompt, body.len() as u64));
        let decoded = |entry: &Entry<'_>| {
            let place = |at: u64| usize::try_from(at).unwrap();
            let raw = &body[place(entry.range.start)..place(entry.range.end)];
            serde_json::from_str(&format!("\"{raw}\"")).unwrap_or_else(|_| raw.to_owned())
        };
        let shown: Vec<(String, String)> = ledger
            .entries()
            .filter(|entry| entry.section != ENVELOPE)
            .map(|entry| (serde_json::to_string(&entry.source).unwrap(), decoded(&entry)))
            .collect();
        let program = |what: &str| format!("{{\"kind\":\"program\",\"what\":\"{what}\"}}");
        let expected = [
            (program("shell"), "{\"name\": \"shell\"}".to_owned()),
            (program("Be brief."), "Be brief.\n\n".to_owned()),
            ("{\"kind\":\"file\",\"path\":\"/p/CLAUDE.md\"}".to_owned(), file.to_owned()),
            (program("Be brief."), " And kind.".to_owned()),
            ("{\"kind\":\"setting\",\"name\":\"your argument\"}".to_owned(), prompt.to_owned()),
        ];
        assert_eq!(shown, expected);
        let mut json = serde_json::to_value(&ledger).unwrap();
        assert_eq!(convoke_conformance::check_ledger(&json), Ok(()));
        json["entries"][0]["source"]["kind"] = "rumour".into();
        assert!(convoke_conformance::check_ledger(&json).is_err());
    }

    #[test]
    fn tools_of_mcp_servers_are_the_users_and_not_the_programs() {
        for (tool, server) in [
            ("mcp__github__create_issue", Some("github")),
            ("mcp__my_files__read", Some("my_files")),
            ("mcp__github", Some("github")),
            ("mcp_github_create_issue", Some("github")),
            ("mcp__", None),
            ("mcp_tool", None),
            ("mcp", None),
            ("Bash", None),
        ] {
            assert_eq!(mcp_server(tool), server, "{tool}");
        }
        let body = r#"{"model":"m","tools":[{"name":"Bash"},{"name":"mcp__github__search"}],"messages":[{"role":"user","content":"mcp__x__y"}]}"#;
        let parts = RequestParts::parse(Wire::Messages, body.as_bytes()).unwrap().parts;
        let account = Account {
            request: 1,
            wire: Wire::Messages,
            model: "m".to_owned(),
            streamed: true,
            ledger: ledger(body.as_bytes(), &parts, &[]),
        };
        let source = Source::setting("MCP server github");
        let bytes = r#"{"name":"mcp__github__search"}"#.len() as u64;
        assert_eq!(account.yours(), [Share { source, bytes }]);
        assert_eq!(account.program_bytes(), account.body_bytes() - bytes);
    }
}
