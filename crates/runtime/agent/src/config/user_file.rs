//! The user's own file of agents, `agents.toml`: reads every setting and reports all errors together.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use convoke_core::name::nearest;
use convoke_team::{
    MisplacedSetting, Section, TeamFileErrors, Word, Words, diagnostics, read_document,
};

use super::{AgentKind, Api, Definition, Protocol, Unused};
use crate::sandbox::SandboxAdditions;

type Agents = BTreeMap<String, Definition>;

/// What people write for a kind of agent in other programs.
const FOREIGN: [(&str, AgentKind); 7] = [
    ("openai", AgentKind::Api),
    ("ollama", AgentKind::Api),
    ("model", AgentKind::Api),
    ("http", AgentKind::Api),
    ("command", AgentKind::Plain),
    ("program", AgentKind::Plain),
    ("script", AgentKind::Plain),
];

impl Word for Protocol {
    const WORDS: Words<'static, Self> =
        Words { words: &[("app-server", Self::AppServer), ("exec", Self::Exec)], foreign: &[] };
}

/// The kinds of agents, by the words that name them.
struct Kinds {
    words: Vec<(&'static str, AgentKind)>,
    foreign: Vec<(&'static str, &'static str)>,
}

impl Kinds {
    fn new(kinds: &[AgentKind]) -> Self {
        let of_clis = kinds.iter().filter_map(|kind| kind.vendor()).flat_map(|cli| {
            let facts = cli.facts();
            facts.other_names.iter().map(|other| (*other, facts.command))
        });
        let general = FOREIGN.iter().map(|(word, kind)| (*word, kind.name()));
        Self {
            words: kinds.iter().map(|kind| (kind.name(), *kind)).collect(),
            foreign: of_clis.chain(general).collect(),
        }
    }

    fn words(&self) -> Words<'_, AgentKind> {
        Words { words: &self.words, foreign: &self.foreign }
    }
}

/// The settings of an agent, in the order of `docs/agents.md`.
const AGENT: &[&str] = &[
    "kind",
    "command",
    "args",
    "env",
    "model",
    "permissions",
    "protocol",
    "mode",
    "client-files",
    "client-terminal",
    "replies",
    "base-url",
    "wire",
    "developer-role",
    "key-env",
    "context-window",
    "tools",
    "readable",
    "writable",
    "ports",
    "unix-sockets",
    "listen",
    "variables",
];

/// Returns the known agents with the file's additions and changes.
pub(super) fn read(
    text: &str,
    known: &Agents,
    kinds: &[AgentKind],
) -> Result<Agents, TeamFileErrors> {
    let kinds = Kinds::new(kinds);
    read_document(text, |mut top, problems| {
        let mut agents = known.clone();
        for (name, header, mut section) in top.tables("agent") {
            let agent = read_agent(&name, header, &mut section, known, &kinds);
            section.finish(AGENT, |key, _| of_members(key), problems);
            agents.extend(agent.map(|agent| (name, agent)));
        }
        top.finish(
            &["agent"],
            |key, value| value.is_table().then(|| without_prefix(key)).flatten(),
            problems,
        );
        agents
    })
}

/// Explains a table such as `[claude]`, whose header lacks `agent.`.
fn without_prefix(key: &str) -> Option<MisplacedSetting> {
    (key != "agents").then(|| MisplacedSetting {
        message: "is not a setting".to_owned(),
        fix: format!("write `[agent.{key}]`"),
        is_exact: false,
    })
}

/// Explains a setting of a team file.
fn of_members(key: &str) -> Option<MisplacedSetting> {
    let fix = match key {
        "sandbox" => "write `permissions`, the widest that a member can have",
        "agent" => "write `kind`",
        "cwd" | "workspace" | "record" | "instructions" | "instructions-file" | "role-summary"
        | "window" | "max-bytes" | "display-name" | "human" => {
            "move it to a `[[member]]` of the team file"
        }
        _ => return None,
    };
    Some(MisplacedSetting {
        message: "is a setting of a team file".to_owned(),
        fix: fix.to_owned(),
        is_exact: true,
    })
}

/// Reads an agent. An unknown kind is an error.
fn read_agent(
    name: &str,
    header: Range<usize>,
    section: &mut Section<'_>,
    known: &Agents,
    kinds: &Kinds,
) -> Option<Definition> {
    let kind = section.choice("kind", kinds.words());
    let base = match (known.get(name).cloned(), kind) {
        (Some(known), Some(kind)) if known.kind != kind => Definition::built_in(kind),
        (Some(known), _) => known,
        (None, Some(kind)) => Definition::built_in(kind),
        (None, None) => {
            if !section.has("kind") {
                refuse_without_kind(name, header, section, known, kinds);
            }
            // The other settings are still read, to report their errors.
            Definition::built_in(AgentKind::StandIn)
        }
    };
    let is_of_known_kind = kind.is_some() || known.contains_key(name);
    let command = read_command(section);
    let args = section.arguments("args", "args = [\"--verbose\"]");
    let env = section.variables("env", "env = { NAME = \"value\" }");
    let model = section.model();
    let permissions = section.word("permissions");
    let protocol = section.word("protocol");
    let mode = section.string("mode", "mode = \"plan\"");
    let client_files = section.boolean("client-files");
    let client_terminal = section.boolean("client-terminal");
    let replies = section.arguments("replies", "replies = [\"First answer.\"]");
    let api = Api {
        base_url: section
            .argument("base-url", "base-url = \"http://127.0.0.1:8080/v1\"")
            .or(base.api.base_url),
        wire: section.word("wire").unwrap_or(base.api.wire),
        developer_role: section.word("developer-role").unwrap_or(base.api.developer_role),
        key_env: section.variable_name("key-env").or(base.api.key_env),
        context_window: section.tokens("context-window").or(base.api.context_window),
        tools: section.word("tools").unwrap_or(base.api.tools),
    };
    let readable = read_paths(section, "readable");
    let writable = read_paths(section, "writable");
    let ports = section.ports("ports");
    let unix_sockets = section.boolean("unix-sockets");
    let listen = section.boolean("listen");
    let variables = section.arguments("variables", "variables = [\"GITHUB_TOKEN\"]");
    if is_of_known_kind {
        refuse_unused(section, base.kind);
    }
    let mut all_env = base.env;
    all_env.extend(env);
    Some(Definition {
        kind: base.kind,
        preset: base.preset,
        command: command.or(base.command),
        args: if section.has("args") { args } else { base.args },
        env: all_env,
        model: model.or(base.model),
        permissions: permissions.or(base.permissions),
        protocol: protocol.unwrap_or(base.protocol),
        mode: mode.or(base.mode),
        client_files: client_files.unwrap_or(base.client_files),
        client_terminal: client_terminal.unwrap_or(base.client_terminal),
        replies: if section.has("replies") { replies } else { base.replies },
        api,
        sandbox: SandboxAdditions {
            readable: readable.unwrap_or(base.sandbox.readable),
            writable: writable.unwrap_or(base.sandbox.writable),
            ports: if section.has("ports") { ports } else { base.sandbox.ports },
            unix_sockets: unix_sockets.unwrap_or(base.sandbox.unix_sockets),
            no_listening: listen.map_or(base.sandbox.no_listening, |listens| !listens),
            variables: if section.has("variables") { variables } else { base.sandbox.variables },
        },
    })
    .filter(|_| is_of_known_kind)
}

fn refuse_without_kind(
    name: &str,
    header: Range<usize>,
    section: &mut Section<'_>,
    known: &Agents,
    kinds: &Kinds,
) {
    let near = nearest(name, known.keys().map(String::as_str));
    let (hint, fix) = match near {
        Some(near) => (
            format!("; did you mean `{near}`?"),
            format!("write `[agent.{near}]`, or add a `kind` to a new agent"),
        ),
        None => (
            String::new(),
            format!("add a line such as `kind = \"plain\"`; kinds are {}", kinds.words().list()),
        ),
    };
    let message = format!("`agent.{name}` is new and needs `kind`{hint}");
    section.problem(header, diagnostics::TEAM_MISSING_SETTING, message, fix);
}

/// Reads a program: a name or a path, without arguments.
fn read_command(section: &mut Section<'_>) -> Option<String> {
    let command = section.argument("command", "command = \"/opt/claude/bin/claude\"")?;
    if command.contains(char::is_whitespace) && !command.contains('/') {
        let problem = "must be a program alone, without its arguments";
        section.invalid("command", problem, "write the program, and the rest as `args = [\"…\"]`");
    }
    Some(command)
}

/// Reads a list of paths, none of them relative to the working directory.
fn read_paths(section: &mut Section<'_>, key: &'static str) -> Option<Vec<PathBuf>> {
    let paths = section.arguments(key, &format!("{key} = [\"~/shared\"]"));
    let is_anchored =
        |path: &String| path.starts_with('/') || path == "~" || path.starts_with("~/");
    if let Some(path) = paths.iter().find(|path| !is_anchored(path)) {
        let problem = format!("must hold paths that begin with `/` or `~/`, not `{path}`");
        section.invalid(key, &problem, format!("write `{key} = [\"~/{path}\"]`"));
    }
    section.has(key).then(|| paths.into_iter().map(PathBuf::from).collect())
}

/// Rejects settings that the kind does not use.
fn refuse_unused(section: &mut Section<'_>, kind: AgentKind) {
    for (setting, place) in section.places.clone() {
        if let Some(Unused { problem, fix }) = kind.unused(setting) {
            let message = format!("`{}` {problem}", section.field(setting));
            section.problem(place.key, diagnostics::TEAM_UNUSED_SETTING, message, fix);
        }
    }
}
