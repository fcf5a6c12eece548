//! Shows a request and its ledger: the body to a pipe, the parts to a person.

use std::io::{self, Write};

use convoke_core::Diagnostic;
use convoke_core::ledger::{Ledger, Source, Table};
use convoke_inspect::capture::Measured;
use convoke_protocol::wire::Wire;
use convoke_thread::pack::Shape;
use convoke_thread::prompt::Request;
use convoke_wire::{Part, PartKind, RequestParts};
use serde_json::json;

use super::Arguments;
use crate::diagnostics;
use crate::figures::number;
use crate::terminal::{Paint, Screen, ledger_style, stderr, stdout};

/// A request that was assembled by rule.
pub(super) struct Assembled<'a> {
    pub request: &'a Request,
    pub shape: Shape,
    pub pack: &'a str,
    pub wire: Wire,
    /// The version of an installed Codex that sends another request.
    pub installed: Option<String>,
    pub diagnostics: &'a [Diagnostic],
}

/// A request to show, measured or assembled.
struct Shown<'a> {
    /// The title: the first lines of every output.
    title: String,
    body: &'a [u8],
    parts: Vec<Part>,
    ledger: &'a Ledger<'a>,
    diagnostics: &'a [Diagnostic],
}

/// Shows an assembled request.
pub(super) fn write_assembled(assembled: &Assembled<'_>, arguments: &Arguments) -> io::Result<()> {
    let Assembled { request, shape, pack, installed, diagnostics, .. } = assembled;
    let shape = shape.name();
    if arguments.json {
        let facts = json!({
            "version": 1, "agent": "codex", "measured": false, "shape": shape, "pack": pack,
            "installed": installed, "path": request.path,
        });
        return write_json(&facts, request.body.as_bytes(), &request.ledger, diagnostics);
    }
    let mut title = format!("POST {}\nshape {shape}, pack {pack}", request.path);
    if let Some(version) = installed {
        let hint = "--agent codex shows its own request";
        title = format!("{title}; codex {version} is installed: {hint}");
    }
    let parts = RequestParts::parse(assembled.wire, request.body.as_bytes());
    let shown = Shown {
        title,
        body: request.body.as_bytes(),
        parts: parts.map(|parts| parts.parts).unwrap_or_default(),
        ledger: &request.ledger,
        diagnostics,
    };
    write(&shown, arguments)
}

/// Shows a measured request.
pub(super) fn write_measured(measured: &Measured, arguments: &Arguments) -> io::Result<()> {
    let Measured { program, account, .. } = measured;
    let (agent, version) = (program.agent, program.version.as_deref());
    if arguments.json {
        let facts = json!({
            "agent": agent, "version": version, "measured": true, "wire": account.wire,
            "model": account.model, "path": program.path,
        });
        return write_json(&facts, &measured.body, &account.ledger, &measured.diagnostics);
    }
    let version = version.unwrap_or("(unknown version)");
    let title =
        format!("{agent} {version}  measured offline  {} ({})", account.model, account.wire);
    let shown = Shown {
        title,
        body: &measured.body,
        parts: measured.parts.clone(),
        ledger: &account.ledger,
        diagnostics: &measured.diagnostics,
    };
    write(&shown, arguments)
}

/// Writes the body to a pipe, or the parts to a person; everything about it goes to standard error.
fn write(shown: &Shown<'_>, arguments: &Arguments) -> io::Result<()> {
    let mut out = stdout();
    let mut err = stderr();
    if out.is_terminal() {
        write_parts(shown, &mut out)?;
    } else {
        out.write_all(shown.body)?;
        out.flush()?;
        writeln!(err, "{}", shown.title)?;
    }
    if arguments.explain {
        let style = ledger_style(&err);
        write!(err, "{}", Table { ledger: shown.ledger, style })?;
    }
    diagnostics::show(shown.diagnostics)
}

/// Writes each part under a heading with its position, size and sources; of a tool only the heading.
fn write_parts(shown: &Shown<'_>, out: &mut Screen) -> io::Result<()> {
    let paint = Paint::for_stream(out);
    writeln!(out, "{}", paint.strong(&shown.title))?;
    for part in &shown.parts {
        let size = number(part.range.len() as u64);
        let sources = sources(part, shown.ledger);
        let heading = match part.kind {
            PartKind::Tool => format!("tool {}  {size} bytes", part.title),
            PartKind::System | PartKind::Message => {
                let role = part.role.as_deref().unwrap_or("instructions");
                format!("{role}  {}  {size} bytes", part.place)
            }
        };
        let heading = paint.strong(&format!("── {heading}"));
        writeln!(out, "{heading}{}", paint.faint(&sources))?;
        if part.kind != PartKind::Tool {
            writeln!(out, "{}", part.text.trim_end_matches('\n'))?;
        }
    }
    let whole = number(shown.body.len() as u64);
    let line =
        format!("{whole} bytes; --explain shows the source of every byte, a pipe gets the body");
    writeln!(out, "{}", paint.faint(&line))
}

/// Returns the sources of a part's text, apart from the program and the pack.
fn sources(part: &Part, ledger: &Ledger<'_>) -> String {
    let range = part.range.start as u64..part.range.end as u64;
    let mut names: Vec<String> = Vec::new();
    for entry in ledger.entries() {
        if entry.range.end <= range.start || range.end <= entry.range.start {
            continue;
        }
        let name = match &entry.source {
            Source::File { path, .. } => path.to_string(),
            Source::Setting { name } => name.to_string(),
            _ => continue,
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() { String::new() } else { format!("  {}", names.join(", ")) }
}

/// Writes one JSON object that embeds the exact bytes of the body.
fn write_json(
    facts: &serde_json::Value,
    body: &[u8],
    ledger: &Ledger<'_>,
    diagnostics: &[Diagnostic],
) -> io::Result<()> {
    let facts = facts.to_string();
    let mut out = stdout();
    write!(out, "{}", facts.trim_end_matches('}'))?;
    out.write_all(br#","body":"#)?;
    out.write_all(body)?;
    out.write_all(br#","ledger":"#)?;
    serde_json::to_writer(&mut out, ledger)?;
    out.write_all(br#","diagnostics":"#)?;
    serde_json::to_writer(&mut out, diagnostics)?;
    out.write_all(b"}\n")
}
