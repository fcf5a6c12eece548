//! The settings of turns, and their overrides.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use crate::config::Config;
use crate::model::ModelInfo;
use crate::permissions::{ApprovalPolicy, SandboxPolicy};
use crate::personality::Personality;

/// The collaboration mode of user and model. As in Codex, it includes the model and the effort.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollaborationMode {
    /// The mode's name.
    pub mode: String,
    /// The model's name.
    pub model: String,
    /// The requested reasoning effort.
    pub effort: Option<String>,
    /// The instructions for the mode.
    pub developer_instructions: Option<String>,
}

impl CollaborationMode {
    /// Returns the instructions, if not empty.
    pub fn text(&self) -> Option<&str> {
        let text = self.developer_instructions.as_deref();
        text.filter(|text| !text.is_empty())
    }
}

/// The settings of a thread's turns, until they are changed.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The working directory.
    pub cwd: PathBuf,
    pub approval_policy: ApprovalPolicy,
    /// The sandbox policy for commands.
    pub sandbox_policy: SandboxPolicy,
    /// The personality of the model.
    pub personality: Option<Personality>,
    /// The requested reasoning summary.
    pub summary: String,
    /// The mode, the model and the effort.
    pub collaboration: CollaborationMode,
}

/// The overrides of a turn; all but the schema persist.
#[derive(Debug, Clone, Default)]
pub struct TurnOverrides {
    /// The working directory.
    pub cwd: Option<PathBuf>,
    pub approval_policy: Option<ApprovalPolicy>,
    /// The sandbox policy for commands.
    pub sandbox_policy: Option<SandboxPolicy>,
    pub model: Option<String>,
    pub effort: Option<String>,
    pub summary: Option<String>,
    /// The personality of the model.
    pub personality: Option<Personality>,
    /// The whole mode, which takes precedence over `model` and `effort`.
    pub collaboration: Option<CollaborationMode>,
    /// The JSON schema of this turn's answer.
    pub output_schema: Option<Value>,
}

/// Everything that one turn depends on.
#[derive(Debug, Clone)]
pub(super) struct TurnContext {
    pub(super) settings: Settings,
    pub(super) model: Arc<ModelInfo>,
    pub(super) output_schema: Option<Value>,
}

impl Settings {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            cwd: config.cwd.clone(),
            approval_policy: config.approval_policy,
            sandbox_policy: config.sandbox_policy.clone(),
            personality: config.personality,
            summary: config.reasoning_summary.clone(),
            collaboration: CollaborationMode {
                mode: "default".to_owned(),
                model: config.model.clone(),
                effort: config.reasoning_effort.clone(),
                developer_instructions: None,
            },
        }
    }

    pub(super) fn apply(&mut self, overrides: &TurnOverrides) {
        fn set<T: Clone>(setting: &mut T, given: Option<&T>) {
            if let Some(given) = given {
                setting.clone_from(given);
            }
        }
        set(&mut self.cwd, overrides.cwd.as_ref());
        set(&mut self.approval_policy, overrides.approval_policy.as_ref());
        set(&mut self.sandbox_policy, overrides.sandbox_policy.as_ref());
        set(&mut self.summary, overrides.summary.as_ref());
        self.personality = overrides.personality.or(self.personality);
        if let Some(mode) = &overrides.collaboration {
            self.collaboration.clone_from(mode);
        } else {
            set(&mut self.collaboration.model, overrides.model.as_ref());
            if overrides.effort.is_some() {
                self.collaboration.effort.clone_from(&overrides.effort);
            }
        }
    }
}
