//! A short list of the instruction files of an agent. `convoke explain` has the details.

use std::path::PathBuf;

use convoke_agent::Vendor;
use convoke_core::Diagnostic;
use convoke_explain::{Edition, Session, VARIABLES, explain};
use convoke_files::Disk;
use serde::Serialize;

use crate::host_environment::HostEnvironment;

/// The instruction files of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Instructions {
    /// The files, in loading order.
    pub files: Vec<InstructionFile>,
    /// The diagnostics.
    pub diagnostics: Vec<Diagnostic>,
}

/// An instruction file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstructionFile {
    /// The file.
    pub path: PathBuf,
    /// The number of bytes that are loaded.
    pub bytes: u64,
    /// Whether the whole file is loaded.
    pub whole: bool,
}

pub(super) fn examine(
    vendor: Vendor,
    version: Option<&str>,
    host_environment: &HostEnvironment,
) -> Instructions {
    let edition = match vendor {
        Vendor::Claude => Edition::Claude325,
        Vendor::Codex => Edition::Codex0166,
        Vendor::Gemini => Edition::Gemini,
    };
    let edition = version.map_or(edition, |version| edition.nearest(version));
    let mut session = Session::new(&host_environment.cwd, &host_environment.home);
    let variables = VARIABLES.iter().filter_map(|name| {
        let value = host_environment.variable(name)?.to_str()?;
        Some(((*name).to_owned(), value.to_owned()))
    });
    session.variables = variables.collect();
    let report = explain(&Disk, &session, &[edition]);
    let mut instructions = Instructions { files: Vec::new(), diagnostics: Vec::new() };
    for agent in report.agents {
        instructions.files.extend(agent.loaded.into_iter().map(|file| InstructionFile {
            path: file.path,
            bytes: file.bytes_loaded,
            whole: file.whole,
        }));
        instructions.diagnostics.extend(agent.diagnostics);
    }
    instructions
}
