//! The vendors that Convoke knows, one line for each. Nothing else names a vendor's crate.

use std::sync::LazyLock;

use convoke_agent::cli::UnknownCli;
use convoke_agent::{Cli, Programs};
use convoke_explain::{Edition, LoadingRules, UnknownEdition};
use convoke_source::SessionSource;
use convoke_vendor::{MeasuredCli, Vendor};

/// Every vendor, in the order in which they are shown.
pub static VENDORS: [&dyn Vendor; 8] = [
    &convoke_vendor_claude::ClaudeCode,
    &convoke_vendor_codex::Codex,
    &convoke_vendor_gemini::GeminiCli,
    &convoke_vendor_opencode::Opencode,
    &convoke_vendor_copilot::Copilot,
    &convoke_vendor_pi::Pi,
    &convoke_vendor_kimi::Kimi,
    &convoke_vendor_acp::OtherAgents,
];

static PROGRAMS: LazyLock<Programs> = LazyLock::new(|| {
    let clis: Vec<&'static dyn Cli> = clis().map(|cli| cli as &dyn Cli).collect();
    let mut presets: Vec<_> = VENDORS.iter().flat_map(|vendor| vendor.presets()).collect();
    presets.sort_by_key(|preset| preset.name);
    Programs { clis: clis.leak(), presets: presets.leak() }
});

static EDITIONS: LazyLock<Vec<Edition>> = LazyLock::new(|| {
    let rules = VENDORS.iter().filter_map(|vendor| vendor.loading_rules());
    let mut editions: Vec<Edition> = rules.flat_map(LoadingRules::all).collect();
    editions.sort();
    editions
});

/// Returns every edition of the loading rules, in the order in which they are shown; of one agent the oldest first.
pub fn editions() -> &'static [Edition] {
    &EDITIONS
}

/// Returns the newest edition of each agent's loading rules.
pub fn newest_editions() -> Vec<Edition> {
    editions().iter().copied().filter(|edition| edition.is_newest()).collect()
}

/// Finds an edition: the newest by the name of its agent, or any by name and version.
pub fn edition(name: &str) -> Result<Edition, UnknownEdition> {
    Edition::find(name, editions())
}

/// Returns the environment variables that decide what agents load.
pub fn loading_variables() -> impl Iterator<Item = &'static str> {
    let newest = editions().iter().filter(|edition| edition.is_newest());
    newest.flat_map(|edition| edition.rules().variables.iter().copied())
}

/// Returns the programs of all vendors.
pub fn programs() -> Programs {
    *PROGRAMS
}

/// Returns the CLIs of all vendors.
pub fn clis() -> impl Iterator<Item = &'static dyn MeasuredCli> {
    VENDORS.iter().filter_map(|vendor| vendor.cli())
}

/// Returns the programs whose sessions can be read.
pub fn sources() -> impl Iterator<Item = &'static dyn SessionSource> {
    VENDORS.iter().filter_map(|vendor| vendor.sessions())
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
