//! Showing diagnostics, and failing on those that the user denies.

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
    #[arg(long = "deny", value_name = "CODE", value_parser = parse_code)]
    codes: Vec<Code>,
}

impl Deny {
    /// Returns how a command ends that gave these diagnostics.
    pub fn outcome(&self, given: impl IntoIterator<Item = Code>) -> Outcome {
        let denied = given.into_iter().any(|code| self.codes.contains(&code));
        if denied { Outcome::Denied } else { Outcome::Done }
    }
}

fn parse_code(name: &str) -> Result<Code, String> {
    name.parse().map_err(|unknown| {
        let names = || Code::ALL.iter().map(|code| code.name());
        match nearest(name, names()) {
            Some(near) => format!("{unknown}; did you mean `{near}`?"),
            None => format!("{unknown}; there are {}", names().collect::<Vec<_>>().join(", ")),
        }
    })
}

/// Tells the user what happened and what can be done about it.
pub fn show(diagnostics: &[Diagnostic], paint: Paint, out: &mut impl Write) -> io::Result<()> {
    for diagnostic in diagnostics {
        let (code, fix) = (diagnostic.code, diagnostic.code.fix());
        writeln!(out, "{}: {}", paint.warning(code.name()), diagnostic.message)?;
        writeln!(out, "  {}", paint.faint(fix))?;
    }
    Ok(())
}
