//! The registry of diagnostic codes, the output of diagnostics, and `--deny`.

pub mod own;

use std::collections::BTreeMap;
use std::io::{self, Write};

use clap::Args;
use convoke_core::name::nearest;
use convoke_core::{Code, Diagnostic, Severity};

use crate::outcome::Outcome;
use crate::terminal::{Paint, is_quiet, stderr};

/// Every table of codes, in the order in which they are documented.
const TABLES: [&[Code]; 12] = [
    convoke_core::diagnostics::ALL,
    convoke_team::diagnostics::ALL,
    convoke_session::diagnostics::ALL,
    convoke_agent::diagnostics::ALL,
    convoke_changes::diagnostics::ALL,
    convoke_model::diagnostics::ALL,
    convoke_codex::diagnostics::ALL,
    convoke_thread::diagnostics::ALL,
    convoke_explain::diagnostics::ALL,
    convoke_gate::diagnostics::ALL,
    convoke_inspect::diagnostics::ALL,
    own::ALL,
];

/// Returns every code that a command can give.
pub fn codes() -> impl Iterator<Item = &'static Code> {
    TABLES.iter().flat_map(|table| table.iter())
}

/// The diagnostics that make a command fail.
#[derive(Debug, Default, Args)]
pub struct Deny {
    /// Fail with exit code 3 when this diagnostic is given; may be repeated
    #[arg(long = "deny", value_name = "CODE", value_delimiter = ',', value_parser = parse_code)]
    codes: Vec<Code>,
}

impl Deny {
    /// Returns the outcome of a command that gave these diagnostics, and names the denied ones on standard
    /// error.
    pub fn outcome(&self, given: impl IntoIterator<Item = Code>) -> Outcome {
        let mut denied = BTreeMap::new();
        for code in given.into_iter().filter(|code| self.codes.contains(code)) {
            *denied.entry(code).or_insert(0_u64) += 1;
        }
        for (code, count) in &denied {
            // A failed write is ignored: the exit code has the same information.
            let _ = writeln!(stderr(), "convoke: denied: {code} ({count})");
        }
        if denied.is_empty() { Outcome::Done } else { Outcome::Denied }
    }
}

fn parse_code(name: &str) -> Result<Code, String> {
    codes().find(|code| code.name() == name).cloned().ok_or_else(|| {
        let unknown = format!("unknown diagnostic code `{name}`");
        let names = || codes().map(Code::name);
        let group = |name: &'static str| name.split_once('.').map(|(group, _)| group);
        let written = name.split_once('.').map_or(name, |(group, _)| group);
        let alike: Vec<_> = names().filter(|name| group(name) == Some(written)).collect();
        match nearest(name, names()) {
            Some(near) => format!("{unknown}; did you mean `{near}`?"),
            None if alike.is_empty() => format!("{unknown}; `convoke docs diagnostics` lists them"),
            None => format!("{unknown}; related codes: {}", alike.join(", ")),
        }
    })
}

/// Writes each diagnostic with its fix to standard error.
pub fn show(diagnostics: &[Diagnostic]) -> io::Result<()> {
    let mut err = stderr();
    let paint = Paint::for_stream(&err);
    let is_shown =
        |diagnostic: &&Diagnostic| !is_quiet() || diagnostic.code.severity() != Severity::Note;
    for diagnostic in diagnostics.iter().filter(is_shown) {
        let (code, fix) = (&diagnostic.code, diagnostic.code.fix());
        let message = convoke_chat::printable(&diagnostic.message);
        writeln!(err, "{}: {message}", paint.warning(code.name()))?;
        writeln!(err, "  {}", paint.faint(fix))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write as _;
    use std::path::Path;

    use super::*;

    #[test]
    fn no_two_tables_define_the_same_code() {
        let names: BTreeSet<_> = codes().map(Code::name).collect();
        assert_eq!(names.len(), codes().count());
    }

    #[test]
    fn an_unknown_code_is_refused_with_the_nearest_name() {
        assert_eq!(parse_code("context.dropped"), Ok(convoke_core::diagnostics::CONTEXT_DROPPED));
        assert_eq!(
            parse_code("context.droped").unwrap_err(),
            "unknown diagnostic code `context.droped`; did you mean `context.dropped`?"
        );
    }

    /// Updated with `UPDATE_DOCS=1 cargo test -p convoke diagnostics`.
    #[test]
    fn every_code_is_documented() {
        let mut page = String::from(
            "# Diagnostics\n\nEvery cut, drop, skip and fallback is reported under one of these codes. \
             `--deny CODE` makes a command exit with 3 if it reports that code. An *error* must be \
             corrected, a *loss* means that content was cut or left out, a *note* is information. This \
             page is generated from the tables in `crates/*/src/diagnostics.rs`.\n\n\
             | code | severity | meaning | what to do |\n|---|---|---|---|\n",
        );
        for code in codes() {
            let severity = code.severity().as_str();
            writeln!(page, "| `{code}` | {severity} | {} | {} |", code.meaning(), code.fix())
                .unwrap();
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/diagnostics.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &page).unwrap();
        }
        assert_eq!(
            std::fs::read_to_string(&path).unwrap_or_default(),
            page,
            "UPDATE_DOCS=1 updates it"
        );
    }
}
