//! Reads a team file: every setting, with all errors together.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::Duration;

use convoke_core::context::DEFAULT_CONTEXT_WINDOW;
use convoke_core::marker::TextPolicy;
use convoke_core::name::{MemberName, NameKey};
use convoke_core::{ContextOptions, DEFAULT_MAX_BYTES, Fencing, Trimming};
use toml::de::DeValue;

use crate::check::{References, check_member};
use crate::diagnostics;
use crate::document::read_document;
use crate::error::{Problem, TeamFileErrors};
use crate::member::{AgentSettings, Member, MemberKind};
use crate::quantity::{bytes, duration};
use crate::section::{ExpectedValue, MisplacedSetting, Place, Section, member_fix, whole_number};
use crate::suggestion::meant_elsewhere;
use crate::{Briefing, ChangesInContext, Limits, Team, WorkspaceChoice};

/// A parsed member, with the positions of its settings.
pub(crate) struct ReadMember {
    /// A member without a valid name has none, and only its settings are checked.
    pub(crate) member: Member,
    /// The path of its settings, such as `member.max`.
    pub(crate) path: String,
    pub(crate) places: BTreeMap<&'static str, Place>,
}

/// Parses a team file. Checks references only if `references` are given.
pub(crate) fn parse(
    text: &str,
    references: Option<&dyn References>,
) -> Result<Team, TeamFileErrors> {
    read_document(text, |top, problems| {
        let (team, members) = read_team(top, problems);
        if let Some(references) = references {
            for member in &members {
                check_member(member, references, problems);
            }
            if problems.is_empty() {
                problems.extend(no_agent(&members));
            }
        }
        Team { members: members.into_iter().map(|read| read.member).collect(), ..team }
    })
}

/// Returns a problem if the team has no agent.
fn no_agent(members: &[ReadMember]) -> Option<Problem> {
    let last = members.last()?;
    if members.iter().any(|read| read.member.agent().is_some()) {
        return None;
    }
    Some(Problem {
        span: last.places.get("name").map_or(0..0, |place| place.value.clone()),
        code: diagnostics::TEAM_MISSING_SETTING,
        message: "the team has no agent: every member is a person".to_owned(),
        fix: "add a `[[member]]` with a `name` and an agent, such as `agent = \"claude\"`"
            .to_owned(),
    })
}

fn read_team(mut top: Section<'_>, problems: &mut Vec<Problem>) -> (Team, Vec<ReadMember>) {
    let (context, changes) = read_context(&mut top, problems);
    let team = Team {
        name: top.string("name", "name = \"auth review\""),
        task: top.string("task", "task = \"Review the authentication module\""),
        briefing: read_briefing(&mut top),
        context,
        changes,
        limits: read_limits(&mut top, problems),
        workspace: top.word("workspace"),
        require_sandbox: top.boolean("require-sandbox").unwrap_or(false),
        members: Vec::new(),
    };
    let record = top.word("record");
    let memory = top.word(MEMORY);
    let memory_limit = top.tokens(MEMORY_LIMIT);
    let idle_timeout = read_timeout(&mut top, IDLE_TIMEOUT, "idle-timeout = \"30m\"");
    let team_tools = top.boolean(TEAM_TOOLS);
    let copy = read_paths(&mut top, WORKSPACE_COPY);
    let link = read_paths(&mut top, WORKSPACE_LINK);
    let (mut members, is_there) = read_members(&mut top, problems);
    refuse_unused_paths(&mut top, &team, &members, problems);
    for read in &mut members {
        if let MemberKind::Agent(settings) = &mut read.member.kind {
            settings.record = settings.record.or(record);
            settings.memory = settings.memory.or(memory);
            settings.memory_limit = settings.memory_limit.or(memory_limit);
            settings.idle_timeout = settings.idle_timeout.or(idle_timeout);
            settings.team_tools = settings.team_tools.or(team_tools);
            let of_team = [
                (WORKSPACE_COPY, &mut settings.workspace_copy, &copy),
                (WORKSPACE_LINK, &mut settings.workspace_link, &link),
            ];
            for (key, own, teams) in of_team {
                if !read.places.contains_key(key) {
                    own.clone_from(teams);
                }
            }
        }
    }
    let count = problems.len();
    let end = top.end();
    top.finish(TOP, |key, value| elsewhere(key, value, TOP), problems);
    let is_misspelt = problems[count..].iter().any(|problem| problem.fix.contains("[[member]]"));
    if !is_there && !is_misspelt {
        problems.push(Problem {
            span: end..end,
            code: diagnostics::TEAM_MISSING_SETTING,
            message: "a team needs at least one member".to_owned(),
            fix: "add a `[[member]]` with a `name`, and `agent = \"claude\"` or `human = true`"
                .to_owned(),
        });
    }
    (team, members)
}

/// Rejects settings about workspace files if no member has its own workspace.
fn refuse_unused_paths(
    top: &mut Section<'_>,
    team: &Team,
    members: &[ReadMember],
    problems: &mut Vec<Problem>,
) {
    let has_own = |settings: &AgentSettings| match settings.workspace.or(team.workspace) {
        Some(choice) => choice == WorkspaceChoice::Own,
        // Members that may change files get a workspace if turns run at the same time.
        None => team.limits.parallel,
    };
    let agents = || members.iter().filter_map(|read| Some((read, read.member.agent()?)));
    let fix = "add `workspace = \"own\"`, or remove it";
    for key in [WORKSPACE_COPY, WORKSPACE_LINK] {
        for (read, _) in agents().filter(|(_, settings)| !has_own(settings)) {
            let Some(place) = read.places.get(key) else { continue };
            let (path, name) = (&read.path, read.member.name.as_str());
            let who = if name.is_empty() { "the member" } else { name };
            problems.push(Problem {
                span: place.key.clone(),
                code: diagnostics::TEAM_UNUSED_SETTING,
                message: format!("`{path}.{key}` is not used: {who} has no own workspace"),
                fix: fix.to_owned(),
            });
        }
        if let Some(place) = top.places.get(key).cloned()
            && !agents().any(|(_, settings)| has_own(settings))
        {
            let message = format!("`{key}` is not used: no member has its own workspace");
            top.problem(place.key, diagnostics::TEAM_UNUSED_SETTING, message, fix);
        }
    }
}

fn read_briefing(top: &mut Section<'_>) -> Briefing {
    let form = ExpectedValue {
        types: &["string", "boolean"],
        must_be: "a text, or false for none",
        example: "briefing = false",
    };
    let briefing = top.read("briefing", &form, |value| match value {
        DeValue::String(text) => Some(Briefing::Own(text.into_owned())),
        DeValue::Boolean(true) => Some(Briefing::Standard),
        DeValue::Boolean(false) => Some(Briefing::Off),
        _ => None,
    });
    briefing.unwrap_or_default()
}

fn read_context(
    top: &mut Section<'_>,
    problems: &mut Vec<Problem>,
) -> (ContextOptions, ChangesInContext) {
    let mut section = top.table("context");
    let text = section.word("text").unwrap_or_default();
    let settings = ContextOptions {
        window: read_window(&mut section).unwrap_or(DEFAULT_CONTEXT_WINDOW),
        max_bytes: read_max_bytes(&mut section).unwrap_or(DEFAULT_MAX_BYTES),
        fencing: match section.boolean("fence") {
            Some(true) => Fencing::Indented,
            Some(false) | None => Fencing::AsWritten,
        },
        visibility: section.word("visibility").unwrap_or_default(),
        text,
        trimming: match text {
            TextPolicy::Preserve => Trimming::End,
            TextPolicy::Compat => Trimming::BothEnds,
        },
        ..ContextOptions::default()
    };
    let changes = section.word("changes").unwrap_or_default();
    section.finish(CONTEXT, |key, value| elsewhere(key, value, CONTEXT), problems);
    (settings, changes)
}

fn read_limits(top: &mut Section<'_>, problems: &mut Vec<Problem>) -> Limits {
    let mut section = top.table("limits");
    let mut timeout =
        |key: &'static str, example: &'static str| read_timeout(&mut section, key, example);
    let turn_timeout = timeout("turn-timeout", "turn-timeout = \"30m\"");
    let background_timeout = timeout("background-timeout", "background-timeout = \"10m\"");
    let ask_timeout = timeout("ask-timeout", "ask-timeout = \"10m\"");
    let limits = Limits {
        turns: section.count("turns", "turns = 50").unwrap_or(50),
        turn_timeout: turn_timeout.unwrap_or(Duration::from_mins(30)),
        background_timeout: background_timeout.unwrap_or(Duration::from_mins(10)),
        ask_timeout: ask_timeout.unwrap_or(Duration::from_mins(10)),
        queue: section.count("queue", "queue = 50").unwrap_or(50),
        parallel: section.boolean("parallel").unwrap_or(false),
    };
    section.finish(LIMITS, |key, value| elsewhere(key, value, LIMITS), problems);
    limits
}

fn read_timeout(
    section: &mut Section<'_>,
    key: &'static str,
    example: &'static str,
) -> Option<Duration> {
    let must_be = "a time with a unit, from \"1s\" to \"720h\"";
    let form = ExpectedValue { types: &["string"], must_be, example };
    section.read(key, &form, |value| duration(value.as_str()?).filter(|time| !time.is_zero()))
}

/// Reads the members. Also returns whether there are any, valid or not. O(members).
fn read_members(top: &mut Section<'_>, problems: &mut Vec<Problem>) -> (Vec<ReadMember>, bool) {
    let mut members = Vec::new();
    let Some(value) = top.take("member") else { return (members, false) };
    let place = top.places["member"].clone();
    let refuse = |top: &mut Section<'_>, span: Range<usize>, fix: String| {
        let message = "`member` must be a list of tables";
        top.problem(span, diagnostics::TEAM_WRONG_TYPE, message, fix);
    };
    let whole = member_fix(&value);
    let DeValue::Array(list) = value else {
        refuse(top, place.key, whole);
        return (members, true);
    };
    let is_there = !list.is_empty();
    let mut names: HashMap<NameKey, String> = HashMap::new();
    for entry in list {
        let header = entry.span();
        let DeValue::Table(table) = entry.into_inner() else {
            refuse(top, header, whole.clone());
            continue;
        };
        let mut section = Section::new("member", table);
        let member = read_member(&mut section, header.clone());
        if !member.name.as_str().is_empty() {
            refuse_duplicates(&member, &header, &mut names, &mut section);
        }
        let person = Some(&member).filter(|member| member.agent().is_none());
        let (path, places) = (section.path().to_owned(), section.places.clone());
        section.finish(MEMBER, |key, value| not_of_member(key, value, person), problems);
        members.push(ReadMember { member, path, places });
    }
    (members, is_there)
}

/// Rejects a name that another member has.
fn refuse_duplicates(
    member: &Member,
    header: &Range<usize>,
    names: &mut HashMap<NameKey, String>,
    section: &mut Section<'_>,
) {
    let own =
        [("name", Some(member.name.as_str())), ("display-name", member.display_name.as_deref())];
    let own = own.map(|(key, name)| name.map(|name| (key, name, NameKey::new(name))));
    for (key, name, compared) in own.iter().flatten() {
        if let Some(other) = names.get(compared) {
            let span = section.places.get(key).map_or(header.clone(), |place| place.value.clone());
            let message = format!("`{name}` is also the name of another member, `{other}`");
            let fix = "rename one of them; case, spaces, `-` and `_` make no difference";
            section.problem(span, diagnostics::TEAM_DUPLICATE_MEMBER, message, fix);
        }
    }
    for (_, name, compared) in own.into_iter().flatten() {
        names.entry(compared).or_insert_with(|| name.to_owned());
    }
}

/// Reads a member. A member without a valid name, or that is neither an agent nor a person, is a problem.
fn read_member(section: &mut Section<'_>, header: Range<usize>) -> Member {
    let name = read_name(section, "name");
    if let Some(name) = &name {
        section.rename(format!("member.{name}"));
    } else if !section.has("name") {
        let fix = "add a line such as `name = \"max\"`";
        section.problem(
            header.clone(),
            diagnostics::TEAM_MISSING_SETTING,
            "`member.name` is missing",
            fix,
        );
    }
    let display_name = read_name(section, "display-name");
    let window = read_window(section);
    let max_bytes = read_max_bytes(section);
    let human = section.boolean("human");
    let form = ExpectedValue {
        types: &["string"],
        must_be: "the name of an agent",
        example: "agent = \"claude\"",
    };
    let agent = section.read("agent", &form, |value| {
        value.as_str().map(str::to_owned).filter(|name| !name.trim().is_empty())
    });
    let is_agent = section.has("agent");
    if human == Some(true) && is_agent {
        let span = section.places["agent"].key.clone();
        let message = format!("`{}` and `human = true` exclude each other", section.field("agent"));
        section.problem(span, diagnostics::TEAM_CONFLICT, message, "remove one of the two");
    } else if human != Some(true) && !is_agent && !(section.has("human") && human.is_none()) {
        let message = format!("`{}` is missing", section.field("agent"));
        let fix = "name an agent, such as `agent = \"claude\"`, or write `human = true`";
        section.problem(header, diagnostics::TEAM_MISSING_SETTING, message, fix);
    }
    // The settings of an unknown agent are read too, to report their errors.
    let kind = if is_agent || human != Some(true) {
        MemberKind::Agent(Box::new(read_agent(section, agent.unwrap_or_default())))
    } else {
        MemberKind::Human
    };
    let name = MemberName::new(name.unwrap_or_default());
    Member { name, display_name, kind, window, max_bytes }
}

fn read_agent(section: &mut Section<'_>, agent: String) -> AgentSettings {
    AgentSettings {
        agent,
        role_summary: section.string("role-summary", "role-summary = \"Max, reviewer\""),
        instructions: section.string("instructions", "instructions = \"You are Max.\""),
        instructions_file: section
            .argument("instructions-file", "instructions-file = \"agents/max.md\""),
        model: section.model(),
        command: section.argument("command", "command = \"/opt/claude/bin/claude\""),
        args: section.arguments("args", "args = [\"--verbose\"]"),
        env: section.variables("env", "env = { NAME = \"value\" }"),
        cwd: section.argument("cwd", "cwd = \"services/auth\""),
        sandbox: section.word("sandbox"),
        base_url: section.argument("base-url", "base-url = \"http://127.0.0.1:8080/v1\""),
        wire: section.word("wire"),
        developer_role: section.word("developer-role"),
        key_env: section.variable_name("key-env"),
        context_window: section.tokens("context-window"),
        tools: section.word("tools"),
        record: section.word("record"),
        memory: section.word(MEMORY),
        memory_limit: section.tokens(MEMORY_LIMIT),
        idle_timeout: read_timeout(section, IDLE_TIMEOUT, "idle-timeout = \"30m\""),
        team_tools: section.boolean(TEAM_TOOLS),
        mode: section.string("mode", "mode = \"plan\""),
        client_files: section.boolean("client-files"),
        client_terminal: section.boolean("client-terminal"),
        workspace: section.word("workspace"),
        workspace_copy: read_paths(section, WORKSPACE_COPY),
        workspace_link: read_paths(section, WORKSPACE_LINK),
        node: section.argument("node", "node = \"build-server\""),
    }
}

const MEMORY: &str = "memory";
const MEMORY_LIMIT: &str = "memory-limit";
const IDLE_TIMEOUT: &str = "idle-timeout";
const TEAM_TOOLS: &str = "team-tools";
const WORKSPACE_COPY: &str = "workspace-copy";
const WORKSPACE_LINK: &str = "workspace-link";

/// Reads a list of paths below the directory of the team file.
fn read_paths(section: &mut Section<'_>, key: &'static str) -> Vec<String> {
    let paths = section.arguments(key, &format!("{key} = [\".env\"]"));
    let is_below = |path: &String| {
        let names = path.trim_end_matches('/').split('/');
        !path.contains(char::is_control)
            && names.into_iter().all(|name| !["", ".", "..", ".git"].contains(&name))
    };
    if let Some(bad) = paths.iter().find(|path| !is_below(path)) {
        let problem =
            format!("has `{bad}`, which is not a path below the directory of the team file");
        section.invalid(key, &problem, format!("write paths such as `{key} = [\".env\"]`"));
        return Vec::new();
    }
    paths
}

/// The settings of each table, in the order of `docs/team-file.md`.
const TOP: &[&str] = &[
    "name",
    "task",
    "briefing",
    "require-sandbox",
    "record",
    MEMORY,
    MEMORY_LIMIT,
    IDLE_TIMEOUT,
    TEAM_TOOLS,
    "workspace",
    WORKSPACE_COPY,
    WORKSPACE_LINK,
    "context",
    "limits",
    "member",
];
const CONTEXT: &[&str] = &["window", "fence", "max-bytes", "changes", "visibility", "text"];
const LIMITS: &[&str] =
    &["turns", "turn-timeout", "background-timeout", "ask-timeout", "queue", "parallel"];
const MEMBER: &[&str] = &[
    "name",
    "display-name",
    "human",
    "agent",
    "role-summary",
    "instructions",
    "instructions-file",
    "model",
    "window",
    "max-bytes",
    "command",
    "args",
    "env",
    "cwd",
    "sandbox",
    "record",
    MEMORY,
    MEMORY_LIMIT,
    IDLE_TIMEOUT,
    TEAM_TOOLS,
    "mode",
    "client-files",
    "client-terminal",
    "workspace",
    WORKSPACE_COPY,
    WORKSPACE_LINK,
    "node",
    "base-url",
    "wire",
    "developer-role",
    "key-env",
    "context-window",
    "tools",
];

/// The tables, each with its position in a file and the fix for a misplaced setting.
const TABLES: [(&[&str], &str, &str); 4] = [
    (TOP, "the top of the file", "above the first `[…]` line"),
    (CONTEXT, "`[context]`", "below `[context]`"),
    (LIMITS, "`[limits]`", "below `[limits]`"),
    (MEMBER, "`[[member]]`", "below `[[member]]`"),
];

/// Explains a setting of another table.
fn elsewhere(key: &str, value: &DeValue<'_>, own: &[&'static str]) -> Option<MisplacedSetting> {
    if own.contains(&key) {
        return None;
    }
    let is_setting = |settings: &[&str]| {
        settings.contains(&key) && !["context", "limits", "member"].contains(&key)
    };
    // Below another header, a setting that exists both at the top and in members belongs to the top.
    let exact = TABLES.iter().find(|(settings, ..)| is_setting(settings));
    if let Some((_, table, place)) = exact {
        let message = format!("is a setting of {table}");
        return Some(MisplacedSetting { message, fix: format!("move it {place}"), is_exact: true });
    }
    TABLES.iter().filter(|(settings, ..)| *settings != own).find_map(|(settings, table, place)| {
        let near = meant_elsewhere(key, value, settings)?;
        let name = near.setting;
        if ["context", "limits", "member"].contains(&name) {
            return None;
        }
        let message = format!("is not a setting; did you mean `{name}` of {table}?");
        let fix = near.fix.unwrap_or_else(|| format!("write `{name}`"));
        Some(MisplacedSetting {
            message,
            fix: format!("{fix}, and move it {place}"),
            is_exact: false,
        })
    })
}

/// Explains a setting that does not belong to a member.
fn not_of_member(
    key: &str,
    value: &DeValue<'_>,
    person: Option<&Member>,
) -> Option<MisplacedSetting> {
    match person {
        Some(Member { name, .. }) if MEMBER.contains(&key) => Some(MisplacedSetting {
            message: format!("is a setting of agents, and {name} is a person"),
            fix: "remove it, or replace `human = true` with an `agent`".to_owned(),
            is_exact: true,
        }),
        _ => elsewhere(key, value, MEMBER),
    }
}

fn read_window(section: &mut Section<'_>) -> Option<usize> {
    let form = ExpectedValue {
        types: &["integer"],
        must_be: "a whole number of messages, 0 or more",
        example: "window = 5",
    };
    section.read("window", &form, |value| usize::try_from(whole_number(&value)?).ok())
}

/// The minimum budget, which headers and truncation marks need.
const LEAST_BYTES: u64 = 16;

fn read_max_bytes(section: &mut Section<'_>) -> Option<u64> {
    let form = ExpectedValue {
        types: &["string", "integer"],
        must_be: "a size of 16 bytes or more, in bytes, KiB or MiB",
        example: "max-bytes = \"768 KiB\"",
    };
    let size = |value: &DeValue<'_>| match value {
        DeValue::String(text) => bytes(text),
        _ => whole_number(value),
    };
    section.read("max-bytes", &form, |value| size(&value).filter(|&size| size >= LEAST_BYTES))
}

/// Reads a name with which a member can be addressed.
fn read_name(section: &mut Section<'_>, key: &'static str) -> Option<String> {
    let name = section.string(key, &format!("{key} = \"max\""))?;
    match problem_with_name(&name) {
        Some((problem, fix)) => {
            section.invalid(key, &problem, fix);
            None
        }
        None => Some(name),
    }
}

/// The maximum length of a name in characters. Every prompt of the team repeats it.
const MAX_NAME_LENGTH: usize = 100;

/// Returns the reason why a name cannot address a member, and the fix.
fn problem_with_name(name: &str) -> Option<(String, &'static str)> {
    if let Some(unseen) = name.chars().find(|c| is_unseen(*c)) {
        let code = u32::from(unseen);
        let problem = format!(
            "contains U+{code:04X}, an invisible character: one name could look like another"
        );
        return Some((problem, "remove the character"));
    }
    let (problem, fix) = if NameKey::new(name) == NameKey::new("") {
        ("is blank", "write a name of letters and digits")
    } else if NameKey::new(name).is_all() {
        ("cannot be `all`: that means everyone", "choose another name")
    } else if name.contains(['[', ']', ',', '，', '!', '！', ':']) {
        (
            "contains a bracket, comma, colon or exclamation mark, which markers use",
            "write a name of letters and digits",
        )
    } else if name.chars().count() > MAX_NAME_LENGTH {
        ("has more than 100 characters", "choose a shorter name")
    } else if name.starts_with('@') {
        ("begins with `@`, which comes before a name in messages", "remove the `@`")
    } else {
        return None;
    };
    Some((problem.to_owned(), fix))
}

/// Returns whether a character is invisible or changes how others are shown: controls, line breaks, writing
/// directions, and zero-width characters.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}
