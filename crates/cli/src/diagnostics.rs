//! Showing diagnostics, and failing on those that the user denies.

use std::collections::BTreeMap;
use std::io::{self, Write};

use clap::Args;
use convoke_core::name::nearest;
use convoke_core::{Code, Diagnostic};

use crate::outcome::Outcome;
use crate::terminal::Paint;

/// Which diagnostics make a command fail.
#[derive(Debug, Args)]
pub struct Deny {
    /// Fail with exit code 3 when this diagnostic is given; may be repeated
    #[arg(long = "deny", value_name = "CODE", value_delimiter = ',', value_parser = parse_code)]
    codes: Vec<Code>,
}

impl Deny {
    /// Returns how a command ends that gave these diagnostics, and says on standard error which of them
    /// were denied.
    #[expect(clippy::print_stderr, reason = "the verdict must not mix with the output")]
    pub fn outcome(&self, given: impl IntoIterator<Item = Code>) -> Outcome {
        let mut denied = BTreeMap::new();
        for code in given.into_iter().filter(|code| self.codes.contains(code)) {
            *denied.entry(code).or_insert(0_u64) += 1;
        }
        for (code, count) in &denied {
            eprintln!("convoke: denied: {code} ({count})");
        }
        if denied.is_empty() { Outcome::Done } else { Outcome::Denied }
    }
}

fn parse_code(name: &str) -> Result<Code, String> {
    name.parse().map_err(|unknown| {
        let names = || Code::ALL.iter().map(|code| code.name());
        let group = |name: &'static str| name.split_once('.').map(|(group, _)| group);
        let written = name.split_once('.').map_or(name, |(group, _)| group);
        let alike: Vec<_> = names().filter(|name| group(name) == Some(written)).collect();
        match nearest(name, names()) {
            Some(near) => format!("{unknown}; did you mean `{near}`?"),
            None if alike.is_empty() => format!("{unknown}; docs/diagnostics.md lists them all"),
            None => format!("{unknown}; of that kind there are {}", alike.join(", ")),
        }
    })
}

/// Tells the user what happened and what can be done about it.
pub fn show(diagnostics: &[Diagnostic], paint: Paint, out: &mut impl Write) -> io::Result<()> {
    for diagnostic in diagnostics {
        let (code, fix) = (diagnostic.code, diagnostic.code.fix());
        let message = convoke_chat::printable(&diagnostic.message);
        writeln!(out, "{}: {message}", paint.warning(code.name()))?;
        writeln!(out, "  {}", paint.faint(fix))?;
    }
    Ok(())
}
