//! The output of `convoke prompt`.

use std::io::{self, Write};

use convoke_core::AssemblerOutput;
use convoke_core::ledger::Table;
use convoke_core::prompt_builder::DebugSend;
use serde_json::json;

use super::Arguments;
use crate::diagnostics;
use crate::figures::number;
use crate::terminal::{Paint, heading, ledger_style, stderr, stdout};
use crate::tokens;

/// The content of standard output.
#[derive(Debug, Clone, Copy)]
pub(super) enum PromptOutput {
    Prompt,
    System,
    Json,
}

/// Writes the prompt to standard output, and its ledger and diagnostics to standard error.
pub(super) fn write(
    prompt: &AssemblerOutput<'_>,
    shown: PromptOutput,
    arguments: &Arguments,
) -> io::Result<()> {
    let mut err = stderr();
    if std::env::var_os("DEBUG").is_some_and(|value| value == "1") {
        write!(err, "{}", DebugSend(prompt))?;
    }
    match shown {
        PromptOutput::Json => return write_json(prompt, arguments),
        PromptOutput::Prompt if stdout().is_terminal() => write_parts(prompt)?,
        PromptOutput::Prompt => write_text(&prompt.prompt)?,
        PromptOutput::System => write_text(prompt.system_flag.as_deref().unwrap_or_default())?,
    }
    if arguments.explain {
        let style = ledger_style(&err);
        write!(err, "{}", Table { ledger: &prompt.ledger, style })?;
        if arguments.exact_tokens {
            let count = tokens::count(prompt);
            writeln!(
                err,
                "exactly {} tokens in {}: {} prompt, {} system",
                count.prompt + count.system,
                tokens::ENCODING,
                count.prompt,
                count.system
            )?;
        }
    }
    diagnostics::show(&prompt.diagnostics)
}

/// Writes the system text and the prompt for a person, each under a heading.
fn write_parts(prompt: &AssemblerOutput<'_>) -> io::Result<()> {
    let mut out = stdout().verbatim();
    let paint = Paint::for_stream(&out);
    let parts = [("system text", prompt.system_flag.as_deref()), ("prompt", Some(&*prompt.prompt))];
    for (name, text) in parts.into_iter().filter_map(|(name, text)| Some((name, text?))) {
        let title = format!("──── {name}, {} bytes", number(text.len() as u64));
        writeln!(out, "{}", paint.strong(&heading(&title)))?;
        if text.is_empty() {
            writeln!(out, "{}", paint.faint("(empty: no messages yet)"))?;
        } else {
            write_text(text)?;
        }
    }
    Ok(())
}

/// Writes a text byte for byte; on a terminal, ends its last line.
fn write_text(text: &str) -> io::Result<()> {
    let mut out = stdout();
    out.write_all(text.as_bytes())?;
    if out.is_terminal() && !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()
}

fn write_json(prompt: &AssemblerOutput<'_>, arguments: &Arguments) -> io::Result<()> {
    let mut value = json!({
        "prompt": prompt.prompt,
        "systemFlag": prompt.system_flag,
        "ledger": prompt.ledger,
        "diagnostics": prompt.diagnostics,
    });
    if arguments.exact_tokens {
        let count = tokens::count(prompt);
        value["tokens"] = json!({
            "encoding": tokens::ENCODING,
            "prompt": count.prompt,
            "system": count.system,
        });
    }
    let mut out = stdout();
    serde_json::to_writer(&mut out, &value)?;
    out.write_all(b"\n")
}
