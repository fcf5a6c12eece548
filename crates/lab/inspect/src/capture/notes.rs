//! Notes on the settings that a program was given, and on missing parts of its user's configuration.

use std::path::Path;

use convoke_agent::launch::stopped_tools;
use convoke_core::{Diagnostic, Severity};
use convoke_explain::AgentReport;
use convoke_rehearsal::Recorded;
use convoke_vendor::MeasuredCli;
use convoke_wire::{Part, PartKind, RequestParts};

use crate::diagnostics;
use crate::host_environment::HostEnvironment;

/// Reports a part of the user's configuration that was not copied.
pub(super) fn left_out(path: &Path) -> Diagnostic {
    let message = format!("{} was not copied, so the request lacks what it adds", path.display());
    Diagnostic::new(diagnostics::CAPTURE_LEFT_OUT, message).at_path(path.display().to_string())
}

/// Reports a tool that the sandbox stopped, by what the program told its model about it.
pub(super) fn stopped(requests: &[Recorded]) -> Option<Diagnostic> {
    let turns = requests.iter().filter(|request| request.is_turn());
    let parts = turns.filter_map(|request| {
        RequestParts::parse(request.model_call()?.wire, &request.body).ok().map(|it| it.parts)
    });
    let parts: Vec<Vec<Part>> = parts.collect();
    // What was there before the first tool was called is of the user.
    let (first, later) = parts.split_first()?;
    let last = later.last()?;
    let is_result = |part: &&Part| {
        let is_models =
            part.role.as_deref().is_some_and(|role| ["assistant", "model"].contains(&role));
        part.kind == PartKind::Message && !is_models && !first.iter().any(|it| it.text == part.text)
    };
    stopped_tools(last.iter().filter(is_result).map(|part| part.text.as_str()))
}

/// Returns the diagnostics of loaded files that the program cuts.
pub(super) fn cuts(report: &AgentReport) -> impl Iterator<Item = Diagnostic> {
    let is_cut = |path: &str| {
        let mut cut = report.loaded.iter().filter(|file| !file.whole);
        cut.any(|file| file.path.as_os_str() == path)
    };
    let losses = report.diagnostics.iter().filter(|it| it.code.severity() == Severity::Loss);
    losses.filter(move |it| it.path.as_deref().is_some_and(is_cut)).cloned()
}

/// Reports trust that the program was given, but that its user has not granted here.
pub(super) fn trust_supplied(
    vendor: &'static dyn MeasuredCli,
    explained: Option<&AgentReport>,
    host_environment: &HostEnvironment,
) -> Option<Diagnostic> {
    let message = vendor.trust_supplied(explained, &host_environment.cwd)?;
    Some(Diagnostic::new(diagnostics::CAPTURE_TRUST_SUPPLIED, message))
}
