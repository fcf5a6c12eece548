//! Packs: directories of prompt texts and model settings.
//!
//! This crate contains no prompt text itself. Every byte of a pack's files counts, including leading spaces and missing
//! final newlines.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use serde::Deserialize;

use crate::model::{ModelFacts, ModelMatch, ModelMessages, ModelSettings, ModelSource};
use crate::personality::Personality;
use convoke_files::{FileKind, Files};

/// The Codex version whose requests are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Shape {
    /// The last version with the Chat wire.
    Codex0_94,
    /// The version of most captures.
    Codex0_98,
}

/// An unknown shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown shape `{0}`: use codex@0.98 or codex@0.94")]
pub struct UnknownShape(pub String);

impl FromStr for Shape {
    type Err = UnknownShape;

    fn from_str(name: &str) -> Result<Self, UnknownShape> {
        match name {
            "codex@0.94" => Ok(Self::Codex0_94),
            "codex@0.98" => Ok(Self::Codex0_98),
            _ => Err(UnknownShape(name.to_owned())),
        }
    }
}

impl Shape {
    /// Returns the name that users type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Codex0_94 => "codex@0.94",
            Self::Codex0_98 => "codex@0.98",
        }
    }

    /// Returns whether a version of Codex has this shape. A version that is not a number counts as covered.
    pub fn covers(self, version: &str) -> bool {
        let mut numbers = version.split(['.', '-', '+']).map(|number| number.parse::<u64>().ok());
        let (major, minor) = (numbers.next().flatten(), numbers.next().flatten());
        let known = match self {
            Self::Codex0_94 => (0, 94),
            Self::Codex0_98 => (0, 98),
        };
        major.zip(minor).is_none_or(|numbers| numbers == known)
    }

    /// Returns the default personality.
    pub const fn default_personality(self) -> Personality {
        match self {
            Self::Codex0_94 => Personality::Friendly,
            Self::Codex0_98 => Personality::Pragmatic,
        }
    }
}

/// An unusable pack; the message names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// A file is missing or cannot be read.
    #[error("cannot read the pack's file {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file is malformed.
    #[error("the pack's file {path} is malformed: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        reason: String,
    },
}

/// The texts and model settings of a pack.
#[derive(Debug, Clone)]
pub struct Pack {
    pub name: String,
    /// The shape that the pack was written for.
    pub shape: Shape,
    /// The model settings, in order of precedence.
    pub models: Vec<ModelFacts>,
    /// The texts about permissions.
    pub permissions: PermissionTexts,
    /// The texts that wrap others.
    pub wrappers: Wrappers,
    /// The texts around the list of skills.
    pub skills: SkillTexts,
    pub compaction: CompactionTexts,
    /// The note on nested AGENTS.md files.
    pub child_agents: String,
    /// The text of each collaboration mode, by name.
    pub collaboration: BTreeMap<String, String>,
}

/// The texts about permissions.
#[derive(Debug, Clone)]
pub struct PermissionTexts {
    /// Of the mode `danger-full-access`.
    pub danger_full_access: String,
    /// Of the mode `read-only`.
    pub read_only: String,
    /// Of the mode `workspace-write`.
    pub workspace_write: String,
    /// Of the policy `never`.
    pub never: String,
    /// Of the policy `untrusted`.
    pub unless_trusted: String,
    /// Of the policy `on-failure`.
    pub on_failure: String,
    /// Of the policy `on-request`.
    pub on_request: String,
    /// Of the policy `on-request` if rules can be requested.
    pub on_request_rule: String,
    /// The template of approved prefixes, with `{prefixes}`.
    pub approved_prefixes: String,
    /// The text after a truncated list of prefixes.
    pub prefixes_truncated: String,
}

/// The texts that wrap others.
#[derive(Debug, Clone)]
pub struct Wrappers {
    /// The template of a personality, with `{spec}`.
    pub personality: String,
    /// The template for a change of model, with `{model_instructions}`. `None` adds nothing when the model
    /// changes.
    pub model_switch: Option<String>,
    /// The text after an interrupted turn.
    pub turn_aborted: String,
}

/// The texts around the list of skills.
#[derive(Debug, Clone)]
pub struct SkillTexts {
    /// Before the list.
    pub intro: String,
    /// After the list.
    pub how_to_use: String,
    /// The skills that Codex installs into its home directory when it starts.
    pub system: Vec<SystemSkill>,
}

/// A skill that is part of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemSkill {
    /// The name of the folder.
    pub folder: String,
    /// The text of `SKILL.md`.
    pub text: Arc<str>,
}

/// The texts of compaction.
#[derive(Debug, Clone)]
pub struct CompactionTexts {
    /// The prompt for a summary.
    pub prompt: String,
    /// The text before a summary in the new history.
    pub summary_prefix: String,
}

impl Pack {
    /// Reads a pack from its directory.
    pub fn load(files: &dyn Files, directory: &Path) -> Result<Self, PackError> {
        let folder = Folder { files, directory };
        let about: PackManifest = folder.toml("pack.toml")?;
        let shape = about
            .shape
            .parse()
            .map_err(|unknown: UnknownShape| folder.malformed("pack.toml", &unknown.to_string()))?;
        Ok(Self {
            name: about.name,
            shape,
            models: folder.models()?,
            permissions: PermissionTexts {
                danger_full_access: folder.text("permissions/sandbox/danger-full-access.md")?,
                read_only: folder.text("permissions/sandbox/read-only.md")?,
                workspace_write: folder.text("permissions/sandbox/workspace-write.md")?,
                never: folder.text("permissions/approval/never.md")?,
                unless_trusted: folder.text("permissions/approval/unless-trusted.md")?,
                on_failure: folder.text("permissions/approval/on-failure.md")?,
                on_request: folder.text("permissions/approval/on-request.md")?,
                on_request_rule: folder.text("permissions/approval/on-request-rule.md")?,
                approved_prefixes: folder.text("permissions/approved-prefixes.md")?,
                prefixes_truncated: folder.text("permissions/prefixes-truncated.md")?,
            },
            wrappers: Wrappers {
                personality: folder.text("wrappers/personality.md")?,
                model_switch: folder.optional("wrappers/model-switch.md")?,
                turn_aborted: folder.text("wrappers/turn-aborted.md")?,
            },
            skills: SkillTexts {
                intro: folder.text("skills/intro.md")?,
                how_to_use: folder.text("skills/how-to-use.md")?,
                system: folder.system_skills()?,
            },
            compaction: CompactionTexts {
                prompt: folder.text("compact/prompt.md")?,
                summary_prefix: folder.text("compact/summary-prefix.md")?,
            },
            child_agents: folder.text("child-agents.md")?,
            collaboration: folder.collaboration()?,
        })
    }
}

#[derive(Deserialize)]
struct PackManifest {
    name: String,
    shape: String,
}

struct Folder<'a> {
    files: &'a dyn Files,
    directory: &'a Path,
}

impl Folder<'_> {
    fn text(&self, name: &str) -> Result<String, PackError> {
        let path = self.directory.join(name);
        self.files
            .read_text(&path, FileKind::Instructions)
            .map_err(|source| PackError::Unreadable { path, source })
    }

    fn optional(&self, name: &str) -> Result<Option<String>, PackError> {
        match self.text(name) {
            Ok(text) => Ok(Some(text)),
            Err(PackError::Unreadable { source, .. })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    /// Reads the collaboration modes, if there are any.
    fn collaboration(&self) -> Result<BTreeMap<String, String>, PackError> {
        let path = self.directory.join("collaboration");
        let names = match self.files.names(&path) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(PackError::Unreadable { path, source }),
        };
        let mut modes = BTreeMap::new();
        for name in names {
            if let Some(mode) = name.to_str().and_then(|it| it.strip_suffix(".md")) {
                modes.insert(mode.to_owned(), self.text(&format!("collaboration/{mode}.md"))?);
            }
        }
        Ok(modes)
    }

    fn toml<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Result<T, PackError> {
        toml::from_str(&self.text(name)?).map_err(|wrong| self.malformed(name, &wrong.to_string()))
    }

    fn malformed(&self, name: &str, reason: &str) -> PackError {
        PackError::Malformed {
            path: self.directory.join(name),
            reason: reason.trim_end().to_owned(),
        }
    }

    fn models(&self) -> Result<Vec<ModelFacts>, PackError> {
        let name = "models.json";
        let listed: Vec<ListedModel> = serde_json::from_str(&self.text(name)?)
            .map_err(|wrong| self.malformed(name, &wrong.to_string()))?;
        let any = |model: &ListedModel| matches!(model.matches, ModelMatch::Any(_));
        if !listed.iter().any(any) {
            let reason = "no entry matches any model: add one with \"match\": {\"any\": true}";
            return Err(self.malformed(name, reason));
        }
        listed.into_iter().map(|model| self.model(model)).collect()
    }

    fn model(&self, listed: ListedModel) -> Result<ModelFacts, PackError> {
        let messages = listed.model_messages.map(|named| {
            Ok::<_, PackError>(ModelMessages {
                instructions_template: self.named(named.instructions_template)?,
                personality_default: self.named(named.personality_default)?,
                personality_friendly: self.named(named.personality_friendly)?,
                personality_pragmatic: self.named(named.personality_pragmatic)?,
            })
        });
        Ok(ModelFacts {
            matches: listed.matches,
            source: listed.source,
            base_instructions: self.text(&listed.base_instructions)?,
            model_messages: messages.transpose()?,
            settings: listed.settings,
        })
    }

    /// Reads `skills/system/*/SKILL.md`, if there are any.
    fn system_skills(&self) -> Result<Vec<SystemSkill>, PackError> {
        let names = self.files.names(&self.directory.join("skills/system"));
        let names = names.unwrap_or_default().into_iter();
        let names = names.map(|name| name.to_string_lossy().into_owned());
        let skill = |folder: String| {
            let text = self.text(&format!("skills/system/{folder}/SKILL.md"))?;
            Ok(SystemSkill { folder, text: text.into() })
        };
        names.map(skill).collect()
    }

    /// Reads a file named by an entry; an empty name means an empty text.
    fn named(&self, name: Option<String>) -> Result<Option<String>, PackError> {
        match name {
            None => Ok(None),
            Some(empty) if empty.is_empty() => Ok(Some(empty)),
            Some(name) => self.text(&name).map(Some),
        }
    }
}

/// An entry of `models.json`, in which texts are file names.
#[derive(Deserialize)]
struct ListedModel {
    #[serde(rename = "match")]
    matches: ModelMatch,
    source: ModelSource,
    base_instructions: String,
    model_messages: Option<NamedMessages>,
    #[serde(flatten)]
    settings: ModelSettings,
}

#[derive(Deserialize)]
struct NamedMessages {
    instructions_template: Option<String>,
    personality_default: Option<String>,
    personality_friendly: Option<String>,
    personality_pragmatic: Option<String>,
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;
    use crate::fixture::pack_files;

    fn refused(change: impl Fn(&mut convoke_files::MemoryTree)) -> String {
        let mut tree = pack_files();
        change(&mut tree);
        let error = Pack::load(&tree, "/pack".as_ref()).unwrap_err();
        let cause = error.source().map_or(String::new(), |it| format!(": {it}"));
        format!("{error}{cause}")
    }

    #[test]
    fn a_missing_or_malformed_file_is_named() {
        let cases = [
            (
                refused(|it| it.remove("/pack/compact/prompt.md")),
                "cannot read the pack's file /pack/compact/prompt.md: No such file",
            ),
            (
                refused(|it| it.remove("/pack/instructions/template.md")),
                "cannot read the pack's file /pack/instructions/template.md: No such file",
            ),
            (
                refused(|it| it.write("/pack/child-agents.md", [0xff])),
                "cannot read the pack's file /pack/child-agents.md: the file is not valid UTF-8",
            ),
            (
                refused(|it| it.write("/pack/pack.toml", "name = \"x\"\nshape = \"codex@9\"\n")),
                "the pack's file /pack/pack.toml is malformed: unknown shape `codex@9`",
            ),
            (
                refused(|it| it.write("/pack/models.json", "[]")),
                "the pack's file /pack/models.json is malformed: no entry matches any model",
            ),
            (
                refused(|it| it.write("/pack/models.json", "[{}]")),
                "the pack's file /pack/models.json is malformed: missing field `match`",
            ),
        ];
        for (told, expected) in cases {
            assert!(told.starts_with(expected), "{told}");
        }
    }

    #[test]
    fn only_the_note_on_a_new_model_may_be_missing() {
        let mut tree = pack_files();
        tree.remove("/pack/wrappers/model-switch.md");
        let pack = Pack::load(&tree, "/pack".as_ref()).unwrap();
        assert_eq!(pack.wrappers.model_switch, None);
    }
}
