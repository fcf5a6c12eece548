//! The vendors that Convoke knows, one line for each. Nothing else names a vendor's crate.

use std::sync::LazyLock;

use convoke_agent::cli::UnknownCli;
use convoke_agent::{Cli, Programs};
use convoke_vendor::{MeasuredCli, Vendor};

/// Every vendor, in the order in which they are shown.
pub static VENDORS: [&dyn Vendor; 4] = [
    &convoke_vendor_claude::ClaudeCode,
    &convoke_vendor_codex::Codex,
    &convoke_vendor_gemini::GeminiCli,
    &convoke_vendor_acp::OtherAgents,
];

static PROGRAMS: LazyLock<Programs> = LazyLock::new(|| {
    let clis: Vec<&'static dyn Cli> = clis().map(|cli| cli as &dyn Cli).collect();
    let mut presets: Vec<_> = VENDORS.iter().flat_map(|vendor| vendor.presets()).collect();
    presets.sort_by_key(|preset| preset.name);
    Programs { clis: clis.leak(), presets: presets.leak() }
});

/// Returns the programs of all vendors.
pub fn programs() -> Programs {
    *PROGRAMS
}

/// Returns the CLIs of all vendors.
pub fn clis() -> impl Iterator<Item = &'static dyn MeasuredCli> {
    VENDORS.iter().filter_map(|vendor| vendor.cli())
}

/// Finds a CLI by its name.
pub fn cli(name: &str) -> Result<&'static dyn MeasuredCli, UnknownCli> {
    let found = clis().find(|it| it.facts().command == name);
    found.ok_or_else(|| programs().unknown(name))
}

/// Returns how a CLI is measured.
pub fn measured(cli: &dyn Cli) -> Option<&'static dyn MeasuredCli> {
    clis().find(|it| it.facts().command == cli.facts().command)
}
