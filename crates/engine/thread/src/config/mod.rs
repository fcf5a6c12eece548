//! Codex's own configuration: `config.toml`, its layers, profiles and overrides.
//!
//! Only keys that affect a prompt are read. [`Config::load`] resolves everything once; unsupported settings are reported
//! as diagnostics.

mod features;
mod provider;
mod requirements;

use std::path::{Path, PathBuf};

use convoke_codex::config::{
    ConfigPlaces, DocumentSettings, EFFORTS, Layers, SUMMARIES, Setting, VERBOSITIES, named_text,
    parse, resolved,
};
use convoke_codex::skills::Switches;
use convoke_core::diagnostic::Diagnostic;
use convoke_core::ledger::Source;
use convoke_core::{Fragment, SourcedText};

use crate::history::{Section, UserMessages};
use crate::model::ModelOverrides;
use crate::pack::Shape;
use crate::permissions::{ApprovalPolicy, SandboxMode, SandboxPolicy, WorkspaceWrite};
use crate::personality::Personality;
use crate::project_doc::{DEFAULT_MAX_BYTES, Trust};
use convoke_files::{Files, absolute};

use crate::diagnostics;
pub use convoke_codex::config::{ConfigError, InvalidOverride, parse_override};
pub use provider::{DeveloperRole, Provider, Wire};
use requirements::Requirements;

/// The directory of the machine's configuration.
const MACHINE: &str = "/etc/codex";

/// The default model.
pub const DEFAULT_MODEL: &str = "gpt-5.2-codex";

/// Facts about the machine and its user. This crate never queries the system.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The user's home directory.
    pub home: Option<PathBuf>,
    pub codex_home: PathBuf,
    /// The directory that the program runs in.
    pub cwd: PathBuf,
    /// The name of the user's shell.
    pub shell: String,
    pub tmpdir: Option<PathBuf>,
    pub openai_base_url: Option<String>,
}

/// Overrides from arguments or from a client.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `-C`.
    pub cwd: Option<PathBuf>,
    /// `-m`.
    pub model: Option<String>,
    /// The provider's name in the configuration.
    pub model_provider: Option<String>,
    /// `-p`.
    pub profile: Option<String>,
    pub sandbox_mode: Option<SandboxMode>,
    /// `--ask-for-approval`.
    pub approval_policy: Option<ApprovalPolicy>,
    pub add_dirs: Vec<PathBuf>,
    /// Replaces the model's instructions.
    pub base_instructions: Option<String>,
    /// Replaces `developer_instructions`.
    pub developer_instructions: Option<String>,
    /// Replaces `personality`.
    pub personality: Option<Personality>,
    /// `-c key=value`, in order.
    pub settings: Vec<(String, toml::Value)>,
}

/// The configuration of a prompt.
#[derive(Debug, Clone)]
pub struct Config {
    /// The working directory.
    pub cwd: PathBuf,
    /// The model's name.
    pub model: String,
    pub provider: Provider,
    pub approval_policy: ApprovalPolicy,
    /// The sandbox policy for commands.
    pub sandbox_policy: SandboxPolicy,
    /// Instructions for the developer role.
    pub developer_instructions: Option<SourcedText<'static>>,
    /// The prompt for a summary; `None` for the pack's.
    pub compact_prompt: Option<String>,
    /// The personality of the model.
    pub personality: Option<Personality>,
    /// Whether the model can ask for command rules.
    pub request_rule: bool,
    /// Whether the note on nested AGENTS.md files is sent.
    pub child_agents_md: bool,
    /// Whether a server that supports compaction compacts threads itself.
    pub remote_compaction: bool,
    /// The rule that distinguishes a user's messages from injected ones; no file of Codex sets it.
    pub user_messages: UserMessages,
    /// The maximum size of the project documents.
    pub project_doc_max_bytes: u64,
    /// Names of project documents besides AGENTS.md.
    pub project_doc_fallback_names: Vec<String>,
    /// The markers of a project's root.
    pub project_root_markers: Vec<String>,
    /// Whether the project is trusted.
    pub trust: Trust,
    /// The requested reasoning effort.
    pub reasoning_effort: Option<String>,
    /// The requested reasoning summary; `none` for no summary.
    pub reasoning_summary: String,
    /// The requested verbosity.
    pub verbosity: Option<String>,
    /// The overrides of the model's settings.
    pub model_overrides: ModelOverrides,
    /// The disabled skills.
    pub skill_switches: Switches,
    /// The folders of command rules.
    pub rule_folders: Vec<PathBuf>,
    pub diagnostics: Vec<Diagnostic>,
}

/// Returns developer instructions from a setting.
fn configured(text: &str) -> SourcedText<'static> {
    let source = Source::setting("developer_instructions");
    let section = Section::DeveloperInstructions.name();
    SourcedText::new(section, Fragment::new(text.to_owned(), source))
}

impl Config {
    /// Loads the configuration for a directory.
    pub fn load(
        files: &dyn Files,
        machine: &Machine,
        shape: Shape,
        overrides: &Overrides,
    ) -> Result<Self, ConfigError> {
        // Normalised without resolving links, because the model sees the directory as given.
        let given = overrides.cwd.as_ref();
        let cwd = given.map_or_else(|| machine.cwd.clone(), |it| absolute(&machine.cwd, it));
        let places = ConfigPlaces {
            machine: Path::new(MACHINE),
            codex_home: &machine.codex_home,
            home: machine.home.as_deref(),
            cwd: &cwd,
            profile: None,
        };
        let layers = Layers::load(files, places, overrides.settings.iter().cloned())?;
        Self::from_layers(files, machine, shape, overrides, cwd, &layers)
            .map_err(|error| layers.placed(error))
    }

    fn from_layers(
        files: &dyn Files,
        machine: &Machine,
        shape: Shape,
        overrides: &Overrides,
        cwd: PathBuf,
        layers: &Layers,
    ) -> Result<Self, ConfigError> {
        let setting = Setting::new(&layers.merged, overrides.profile.as_deref())?;
        let documents = DocumentSettings::read(&layers.merged)?;
        let unknown_features = features::check(setting.tables())?;
        let trust = layers.trust;
        let required = Requirements::read(&layers.requirements)?;

        let has_personality = setting.feature("personality").unwrap_or(true);
        let personality = match (overrides.personality, setting.text("personality")?) {
            (Some(given), _) => Some(given),
            (None, Some(name)) => Some(parse("personality", name)?),
            (None, None) => has_personality.then(|| shape.default_personality()),
        };
        let base_instructions = match &overrides.base_instructions {
            Some(given) => Some(given.clone()),
            None => named_text(files, &setting, "model_instructions_file")?,
        };
        let compact_prompt = match setting.text("compact_prompt")?.map(str::trim) {
            Some(text) if !text.is_empty() => Some(text.to_owned()),
            _ => named_text(files, &setting, "experimental_compact_prompt_file")?,
        };
        let added = overrides.add_dirs.iter();
        let added = added.map(|dir| resolved(dir, &cwd, machine.home.as_deref()));
        let provider_name = overrides.model_provider.as_deref();
        let provider_name = match provider_name {
            Some(name) => Some(name),
            None => setting.text("model_provider")?,
        };
        let model = match &overrides.model {
            Some(model) => model.as_str(),
            None => setting.text("model")?.unwrap_or(DEFAULT_MODEL),
        };
        Ok(Self {
            model: model.to_owned(),
            provider: Provider::find(&setting, provider_name.unwrap_or("openai"), machine, shape)?,
            approval_policy: required.approval(approval_policy(&setting, overrides, trust)?),
            sandbox_policy: sandbox_policy(&setting, overrides, &required, trust, added)?,
            developer_instructions: match &overrides.developer_instructions {
                Some(given) => Some(configured(given)),
                None => setting.text("developer_instructions")?.map(configured),
            },
            compact_prompt,
            personality,
            request_rule: setting.feature("request_rule").unwrap_or(true),
            child_agents_md: setting.feature("child_agents_md").unwrap_or(false),
            remote_compaction: setting.feature("remote_compaction").unwrap_or(true),
            user_messages: UserMessages::AsCodex,
            project_doc_max_bytes: documents.max_bytes.unwrap_or(DEFAULT_MAX_BYTES),
            project_doc_fallback_names: documents.fallback_names.unwrap_or_default(),
            project_root_markers: documents.root_markers,
            trust,
            reasoning_effort: setting.choice("model_reasoning_effort", &EFFORTS)?,
            reasoning_summary: setting
                .choice("model_reasoning_summary", &SUMMARIES)?
                .unwrap_or_else(|| "auto".to_owned()),
            verbosity: setting.choice("model_verbosity", &VERBOSITIES)?,
            model_overrides: ModelOverrides {
                base_instructions,
                personality: has_personality,
                remote_models: setting.feature("remote_models").unwrap_or(true),
                supports_reasoning_summaries: setting
                    .truth("model_supports_reasoning_summaries")?,
                context_window: setting.number("model_context_window")?,
                auto_compact_token_limit: setting.number("model_auto_compact_token_limit")?,
                tool_output_token_limit: setting.number("tool_output_token_limit")?,
            },
            skill_switches: layers.skill_switches.clone(),
            rule_folders: layers.rule_folders.clone(),
            diagnostics: ignored_keys(&setting).into_iter().chain(unknown_features).collect(),
            cwd,
        })
    }
}

fn approval_policy(
    setting: &Setting<'_>,
    overrides: &Overrides,
    trust: Trust,
) -> Result<ApprovalPolicy, ConfigError> {
    if let Some(given) = overrides.approval_policy {
        return Ok(given);
    }
    match setting.text("approval_policy")? {
        Some(name) => parse("approval_policy", name),
        None if trust == Trust::Untrusted => Ok(ApprovalPolicy::UnlessTrusted),
        None => Ok(ApprovalPolicy::OnRequest),
    }
}

fn sandbox_policy(
    setting: &Setting<'_>,
    overrides: &Overrides,
    required: &Requirements,
    trust: Trust,
    added: impl Iterator<Item = PathBuf>,
) -> Result<SandboxPolicy, ConfigError> {
    let mode = match (overrides.sandbox_mode, setting.text("sandbox_mode")?) {
        (Some(given), _) => given,
        (None, Some(name)) => parse("sandbox_mode", name)?,
        (None, None) if trust == Trust::Unknown => SandboxMode::ReadOnly,
        (None, None) => SandboxMode::WorkspaceWrite,
    };
    Ok(match required.sandbox(mode) {
        SandboxMode::DangerFullAccess => SandboxPolicy::DangerFullAccess,
        SandboxMode::ReadOnly => SandboxPolicy::ReadOnly,
        SandboxMode::WorkspaceWrite => {
            let workspace = setting.within("sandbox_workspace_write")?;
            let truth = |key: &str| Ok::<_, ConfigError>(workspace.truth(key)?.unwrap_or(false));
            let roots = workspace.texts("writable_roots")?.unwrap_or_default().into_iter();
            let mut writable_roots: Vec<PathBuf> = roots.map(PathBuf::from).collect();
            for added in added {
                if !writable_roots.contains(&added) {
                    writable_roots.push(added);
                }
            }
            SandboxPolicy::WorkspaceWrite(WorkspaceWrite {
                writable_roots,
                network_access: truth("network_access")?,
                exclude_tmpdir_env_var: truth("exclude_tmpdir_env_var")?,
                exclude_slash_tmp: truth("exclude_slash_tmp")?,
            })
        }
    })
}

/// Reports keys that Codex no longer reads.
fn ignored_keys(setting: &Setting<'_>) -> Vec<Diagnostic> {
    let keys = [
        ("experimental_instructions_file", "model_instructions_file"),
        ("instructions", "developer_instructions"),
    ];
    let found = keys.iter().filter(|(key, _)| setting.has(key));
    let diagnostics = found.map(|(key, instead)| {
        let message = format!("`{key}` in config.toml has no effect: use `{instead}`");
        Diagnostic::new(diagnostics::CONFIG_IGNORED, message)
    });
    diagnostics.collect()
}

#[cfg(test)]
mod tests;
