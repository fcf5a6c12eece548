//! The gate: decides which settings of a team file take effect before the user trusts its directory, and what a grant
//! of trust covers.
//!
//! Only [`gate`] decides which settings need trust. A [`Grant`] covers the settings that the user saw when
//! granting trust, and nothing wider.

use convoke_core::figures::hexadecimal;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{AgentSettings, ApiTools, Permissions, Team};

/// Whether the user trusts a directory. Its files can choose the programs to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// The user has not granted trust.
    #[default]
    Untrusted,
    /// The user has granted trust.
    Trusted,
}

/// A setting that takes effect only in a trusted directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrustedSetting {
    /// The program to run.
    Command,
    /// Its arguments.
    Args,
    /// Its environment variables.
    Env,
    /// The working directory.
    Cwd,
    /// Permissions wider than the user's own.
    Sandbox,
    /// The address of a model.
    BaseUrl,
    /// The variable that holds the model's key.
    KeyEnv,
    /// Tools wider than the user's own.
    Tools,
    /// An instructions file outside the project.
    InstructionsFile,
    /// Recording of requests.
    Record,
    /// The session mode, which may let an agent do more without asking.
    Mode,
    /// File access through Convoke, if the user's own settings do not allow it.
    ClientFiles,
    /// Commands through Convoke, if the user's own settings do not allow them.
    ClientTerminal,
}

impl TrustedSetting {
    /// Returns the name of the setting in the team file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Args => "args",
            Self::Env => "env",
            Self::Cwd => "cwd",
            Self::Sandbox => "sandbox",
            Self::BaseUrl => "base-url",
            Self::KeyEnv => "key-env",
            Self::Tools => "tools",
            Self::InstructionsFile => "instructions-file",
            Self::Record => "record",
            Self::Mode => "mode",
            Self::ClientFiles => "client-files",
            Self::ClientTerminal => "client-terminal",
        }
    }
}

/// The settings of an agent without the team file. A team file needs trust for anything wider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Baseline {
    /// The user's own permissions for the agent.
    pub permissions: Permissions,
    /// The user's own tools for the agent.
    pub tools: ApiTools,
    /// Whether the user's own settings let the agent read and write files through Convoke.
    pub client_files: bool,
    /// Whether the user's own settings let the agent run commands through Convoke.
    pub client_terminal: bool,
    pub instructions: FileLocation,
}

/// The location of a file, with links resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum FileLocation {
    /// In the project, or no file.
    #[default]
    Inside,
    /// Outside the project.
    Outside,
}

/// The settings of an agent after the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatedSettings {
    /// The settings that take effect.
    pub allowed: AgentSettings,
    /// The settings that need trust and were left out.
    pub refused: Vec<TrustedSetting>,
}

/// Decides which settings of a team file take effect.
///
/// ```
/// use convoke_team::{AgentSettings, Baseline, Trust, TrustedSetting, gate};
///
/// let settings = AgentSettings { command: Some("/bin/x".into()), ..AgentSettings::default() };
/// let gated = gate(&settings, Baseline::default(), Trust::Untrusted);
/// assert_eq!(gated.allowed.command, None);
/// assert_eq!(gated.refused, [TrustedSetting::Command]);
/// ```
pub fn gate(settings: &AgentSettings, baseline: Baseline, trust: Trust) -> GatedSettings {
    let mut allowed = settings.clone();
    let mut refused = Vec::new();
    if trust == Trust::Trusted {
        return GatedSettings { allowed, refused };
    }
    // Exhaustive, so that no new setting is forgotten.
    let AgentSettings {
        agent: _,
        role_summary: _,
        instructions: _,
        instructions_file,
        model: _,
        command,
        args,
        env,
        cwd,
        sandbox,
        base_url,
        wire: _,
        developer_role: _,
        key_env,
        context_window: _,
        tools,
        record,
        mode,
        client_files,
        client_terminal,
        // What an agent keeps is its own, under the same permissions.
        memory: _,
        memory_limit: _,
        idle_timeout: _,
        // Team tools give access to the team only.
        team_tools: _,
        // A workspace contains only what the agent can read anyway, and allows no further changes.
        workspace: _,
        workspace_copy: _,
        workspace_link: _,
        // The user of the node decides what runs on it.
        node: _,
    } = &mut allowed;
    let mut refuse = |setting: TrustedSetting, is_set: bool| {
        if is_set {
            refused.push(setting);
        }
    };
    refuse(TrustedSetting::Command, command.take().is_some());
    refuse(TrustedSetting::Args, !std::mem::take(args).is_empty());
    refuse(TrustedSetting::Env, !std::mem::take(env).is_empty());
    refuse(TrustedSetting::Cwd, cwd.take().is_some());
    let is_wider = |asked: &mut Permissions| *asked > baseline.permissions;
    refuse(TrustedSetting::Sandbox, sandbox.take_if(is_wider).is_some());
    refuse(TrustedSetting::BaseUrl, base_url.take().is_some());
    refuse(TrustedSetting::KeyEnv, key_env.take().is_some());
    refuse(TrustedSetting::Tools, tools.take_if(|asked| *asked > baseline.tools).is_some());
    let is_outside = |_: &mut String| baseline.instructions == FileLocation::Outside;
    refuse(TrustedSetting::InstructionsFile, instructions_file.take_if(is_outside).is_some());
    refuse(TrustedSetting::Record, record.take().is_some());
    refuse(TrustedSetting::Mode, mode.take().is_some());
    let files = client_files.take_if(|asked| *asked && !baseline.client_files);
    refuse(TrustedSetting::ClientFiles, files.is_some());
    let terminal = client_terminal.take_if(|asked| *asked && !baseline.client_terminal);
    refuse(TrustedSetting::ClientTerminal, terminal.is_some());
    GatedSettings { allowed, refused }
}

/// The settings of one member that need trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberChoices {
    /// The member's name.
    pub member: String,
    /// Its choices, in a fixed order; never empty.
    pub choices: Vec<Choice>,
    /// The stored form of a grant for these choices.
    pub grant: Grant,
}

/// One choice that needs trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The setting; `env.NAME` for a variable.
    pub setting: String,
    /// The value, formatted for people. The value of a variable may be a secret.
    pub value: String,
}

/// The stored grant for one member: enough to decide whether a later team file asks for more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The SHA-256 of all choices that cannot be narrower or wider.
    sha256: String,
    sandbox: Permissions,
    tools: ApiTools,
}

impl Grant {
    /// Returns whether this grant covers another one.
    ///
    /// Narrower permissions and tools are covered. Any other difference is not, not even a missing setting: the
    /// same program without its arguments can do something else.
    pub fn covers(&self, asked: &Self) -> bool {
        self.sha256 == asked.sha256 && asked.sandbox <= self.sandbox && asked.tools <= self.tools
    }
}

impl Team {
    /// Returns the settings of each member that need trust, in the order of the team file. `locate` returns the
    /// location of an instructions file; `resolve` the real path of a working directory, if links lead elsewhere.
    pub fn choices(
        &self,
        locate: impl Fn(&str) -> FileLocation,
        resolve: impl Fn(&str) -> Option<String>,
    ) -> Vec<MemberChoices> {
        let agents = self.members.iter().filter_map(|it| Some((&it.name, it.agent()?)));
        let asked = agents.filter_map(|(name, settings)| {
            let instructions = settings.instructions_file.as_deref().map(&locate);
            let baseline =
                Baseline { instructions: instructions.unwrap_or_default(), ..Baseline::default() };
            let needed = gate(settings, baseline, Trust::Untrusted).refused;
            let mut choices: Vec<Choice> =
                needed.iter().flat_map(|setting| choices_of(*setting, settings)).collect();
            let cwd = choices.iter_mut().find(|it| it.setting == TrustedSetting::Cwd.as_str());
            let elsewhere = settings.cwd.as_deref().and_then(&resolve);
            if let (Some(cwd), Some(elsewhere)) = (cwd, elsewhere) {
                // A grant is for the directory that was there, not for what a later link leads to.
                cwd.value = format!("{} (a link to {elsewhere:?})", cwd.value);
            }
            let is_asking = !choices.is_empty();
            is_asking.then(|| MemberChoices {
                member: name.to_string(),
                grant: grant_of(settings, &choices),
                choices,
            })
        });
        asked.collect()
    }
}

fn choices_of(setting: TrustedSetting, settings: &AgentSettings) -> Vec<Choice> {
    let choice = |name: &str, value: String| Choice { setting: name.to_owned(), value };
    let text = |value: &Option<String>| value.as_ref().map(|value| format!("{value:?}"));
    let value = match setting {
        TrustedSetting::Env => {
            let variables = settings.env.iter();
            return variables
                .map(|(name, value)| choice(&format!("env.{name}"), format!("{value:?}")))
                .collect();
        }
        TrustedSetting::Command => text(&settings.command),
        TrustedSetting::Args => Some(format!("{:?}", settings.args)),
        TrustedSetting::Cwd => text(&settings.cwd),
        TrustedSetting::Sandbox => settings.sandbox.map(|it| format!("{:?}", it.as_str())),
        TrustedSetting::BaseUrl => text(&settings.base_url),
        TrustedSetting::KeyEnv => text(&settings.key_env),
        TrustedSetting::Tools => settings.tools.map(|it| format!("{:?}", it.as_str())),
        TrustedSetting::InstructionsFile => text(&settings.instructions_file),
        TrustedSetting::Record => settings.record.map(|it| format!("{:?}", it.as_str())),
        TrustedSetting::Mode => text(&settings.mode),
        TrustedSetting::ClientFiles => settings.client_files.map(|it| it.to_string()),
        TrustedSetting::ClientTerminal => settings.client_terminal.map(|it| it.to_string()),
    };
    value.map(|value| choice(setting.as_str(), value)).into_iter().collect()
}

fn grant_of(settings: &AgentSettings, choices: &[Choice]) -> Grant {
    let by_width = [TrustedSetting::Sandbox.as_str(), TrustedSetting::Tools.as_str()];
    let exact = choices.iter().filter(|choice| !by_width.contains(&&*choice.setting));
    let mut hash = Sha256::new();
    // The same arguments mean something else for another agent.
    let agent = std::iter::once(("agent", settings.agent.as_str()));
    for (name, value) in agent.chain(exact.map(|it| (it.setting.as_str(), it.value.as_str()))) {
        for part in [name, value] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    Grant {
        sha256: hexadecimal(&hash.finalize()),
        sandbox: settings.sandbox.unwrap_or_default(),
        tools: settings.tools.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: &str = r#"
        [[member]]
        name = "max"
        agent = "claude"
        model = "opus"
        instructions-file = "../max.md"
        command = "/bin/evil"
        args = ["-x"]
        env = { LD_PRELOAD = "evil.so" }
        cwd = "/"
        sandbox = "full"
        base-url = "https://evil.example/v1"
        key-env = "OPENAI_API_KEY"
        tools = "read"
        record = "wire"
        mode = "plan"
        client-files = true
        client-terminal = true
    "#;

    fn asked(text: &str) -> Vec<MemberChoices> {
        let locate = |file: &str| {
            if file.starts_with("..") { FileLocation::Outside } else { FileLocation::Inside }
        };
        Team::parse(text).unwrap().choices(locate, |_| None)
    }

    #[test]
    fn a_grant_is_for_the_working_directory_that_was_there() {
        let team = Team::parse("[[member]]\nname = \"max\"\nagent = \"claude\"\ncwd = \"sub\"\n");
        let team = team.unwrap();
        let asked = |resolve: fn(&str) -> Option<String>| {
            team.choices(|_| FileLocation::Inside, resolve).remove(0)
        };
        let (itself, link) = (asked(|_| None), asked(|_| Some("/home/kim/.ssh".to_owned())));
        assert_eq!(link.choices[0].value, r#""sub" (a link to "/home/kim/.ssh")"#);
        assert!(itself.grant.covers(&itself.grant) && link.grant.covers(&link.grant));
        assert!(!itself.grant.covers(&link.grant) && !link.grant.covers(&itself.grant));
    }

    #[test]
    fn an_untrusted_directory_chooses_nothing_that_runs_or_where_a_key_goes() {
        let team = Team::parse(MAX).unwrap();
        let settings = team.members[0].agent().unwrap();
        let outside = Baseline { instructions: FileLocation::Outside, ..Baseline::default() };
        let GatedSettings { allowed, refused } = gate(settings, outside, Trust::Untrusted);
        let named = AgentSettings {
            agent: "claude".to_owned(),
            model: Some("opus".to_owned()),
            ..AgentSettings::default()
        };
        assert_eq!(allowed, named);
        let names: Vec<&str> = refused.iter().map(|setting| setting.as_str()).collect();
        let all = "command args env cwd sandbox base-url key-env tools instructions-file record mode client-files client-terminal";
        assert_eq!(names.join(" "), all);

        let trusted = gate(settings, outside, Trust::Trusted);
        assert_eq!((&trusted.allowed, trusted.refused.len()), (settings, 0));
    }

    #[test]
    fn a_record_for_the_team_is_one_of_every_agent_and_needs_trust() {
        let text = "record = \"wire\"\n[[member]]\nname = \"max\"\nagent = \"claude\"\n[[member]]\nname = \"ada\"\nhuman = true\n";
        let asked = asked(text);
        assert_eq!(asked.len(), 1);
        let choice = Choice { setting: "record".to_owned(), value: "\"wire\"".to_owned() };
        assert_eq!((&*asked[0].member, &asked[0].choices[..]), ("max", &[choice][..]));
        let wrong = Team::parse("record = \"wired\"\n[[member]]\nname = \"a\"\nagent = \"b\"\n");
        let wrong = wrong.unwrap_err().to_string();
        assert!(wrong.contains("`record` must be \"wire\""), "{wrong}");
    }

    #[test]
    fn what_the_user_has_anyway_needs_no_trust() {
        let settings = AgentSettings {
            sandbox: Some(Permissions::Edit),
            tools: Some(ApiTools::Read),
            ..AgentSettings::default()
        };
        let own = Baseline {
            permissions: Permissions::Edit,
            tools: ApiTools::Read,
            ..Baseline::default()
        };
        assert_eq!(gate(&settings, own, Trust::Untrusted).refused, []);
        let narrow = Baseline::default();
        let refused = gate(&settings, narrow, Trust::Untrusted).refused;
        assert_eq!(refused, [TrustedSetting::Sandbox, TrustedSetting::Tools]);
    }

    #[test]
    fn a_grant_covers_what_was_shown_and_nothing_wider() {
        let grant = |text: &str| asked(text).remove(0).grant;
        let granted = grant(MAX);
        assert!(granted.covers(&granted));
        for (from, to) in [("\"full\"", "\"edit\""), ("\"read\"", "\"none\""), ("opus", "haiku")] {
            assert!(granted.covers(&grant(&MAX.replace(from, to))), "{from} {to}");
        }
        for (from, to) in [
            ("/bin/evil", "/bin/worse"),
            ("args = [\"-x\"]", ""),
            ("[\"-x\"]", "[\"-\", \"x\"]"),
            ("evil.so", "worse.so"),
            ("cwd = \"/\"", ""),
            ("evil.example", "worse.example"),
            ("OPENAI_API_KEY", "OTHER_KEY"),
            ("../max.md", "../secrets.md"),
            ("\"claude\"", "\"plain\""),
        ] {
            assert!(!granted.covers(&grant(&MAX.replace(from, to))), "{from} {to}");
        }
        let narrow = grant(&MAX.replace("\"full\"", "\"edit\""));
        assert!(!narrow.covers(&granted));
    }

    #[test]
    fn a_member_that_chooses_nothing_asks_for_nothing() {
        let text = "[[member]]\nname = \"max\"\nagent = \"claude\"\nsandbox = \"read-only\"\n\
                    tools = \"none\"\ninstructions-file = \"max.md\"\n";
        assert_eq!(asked(text), []);
    }
}
