//! The output of `convoke request`.

use std::io::{self, Write};

use convoke_core::Diagnostic;
use convoke_core::ledger::Table;
use convoke_thread::prompt::Request;

use super::Arguments;
use crate::diagnostics;
use crate::terminal::{Paint, stderr, stdout};

/// Writes the body to standard output, and its ledger and diagnostics to standard error.
pub(super) fn write(
    request: &Request,
    diagnostics: &[Diagnostic],
    arguments: &Arguments,
) -> io::Result<()> {
    if arguments.json {
        return write_json(request, diagnostics);
    }
    write_body(&request.body)?;
    let mut err = stderr();
    let paint = Paint::for_stream(&err);
    if arguments.explain {
        let style = paint.ledger_style();
        writeln!(err, "POST {}", request.path)?;
        write!(err, "{}", Table { ledger: &request.ledger, style })?;
    }
    diagnostics::show(diagnostics, paint, &mut err)
}

/// Writes the body byte for byte; on a terminal, ends its last line.
fn write_body(body: &str) -> io::Result<()> {
    let mut out = stdout();
    out.write_all(body.as_bytes())?;
    if out.is_terminal() {
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Writes one JSON object that embeds the exact bytes of the body.
fn write_json(request: &Request, diagnostics: &[Diagnostic]) -> io::Result<()> {
    let mut out = stdout();
    write!(out, r#"{{"version":1,"path":"{}","body":{}"#, request.path, request.body)?;
    out.write_all(br#","ledger":"#)?;
    serde_json::to_writer(&mut out, &request.ledger)?;
    out.write_all(br#","diagnostics":"#)?;
    serde_json::to_writer(&mut out, diagnostics)?;
    out.write_all(b"}\n")
}
