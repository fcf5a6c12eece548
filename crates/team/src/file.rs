//! Reads a team file: every setting, and every error at once.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::Duration;

use convoke_core::context::DEFAULT_CONTEXT_WINDOW;
use convoke_core::marker::TextPolicy;
use convoke_core::name::{MemberName, NameKey};
use convoke_core::variable::is_variable_name;
use convoke_core::{ContextOptions, DEFAULT_MAX_BYTES, Fencing, Trimming};
use toml::de::{DeTable, DeValue};

use crate::check::{References, check_member};
use crate::error::{Problem, TeamFileCode, TeamFileErrors, locate};
use crate::member::{AgentSettings, Member, MemberKind};
use crate::quantity::{bytes, duration};
use crate::section::{Form, Place, Section, into_string, whole_number};
use crate::syntax::syntax_problem;
use crate::{Briefing, ChangesInContext, Limits, Team};

/// A parsed member, with the places of its settings.
pub(crate) struct ReadMember {
    pub(crate) member: Member,
    pub(crate) places: BTreeMap<&'static str, Place>,
}

/// Parses a team file. Without references, what the file refers to is not checked.
pub(crate) fn parse(
    text: &str,
    references: Option<&dyn References>,
) -> Result<Team, TeamFileErrors> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut problems = Vec::new();
    let (team, members) = read_team(table.into_inner(), text, &mut problems);
    if let Some(references) = references {
        for member in &members {
            check_member(member, references, &mut problems);
        }
        if problems.is_empty() && errors.is_empty() {
            problems.extend(no_agent(&members));
        }
    }
    if !errors.is_empty() {
        let syntax = errors.iter().map(|error| syntax_problem(text, error)).collect();
        problems = beside_syntax(text, syntax, problems);
    }
    match locate(text, problems) {
        Some(errors) => Err(errors),
        None => Ok(Team { members: members.into_iter().map(|read| read.member).collect(), ..team }),
    }
}

/// Returns the problem of a team without an agent.
fn no_agent(members: &[ReadMember]) -> Option<Problem> {
    let last = members.last()?;
    if members.iter().any(|read| read.member.agent().is_some()) {
        return None;
    }
    Some(Problem {
        span: last.places.get("name").map_or(0..0, |place| place.value.clone()),
        code: TeamFileCode::Missing,
        message: "the team has no agent: every member is a person".to_owned(),
        fix: "add a `[[member]]` with a `name` and an agent, such as `agent = \"claude\"`"
            .to_owned(),
    })
}

/// Joins the syntax errors, one for each line, with the problems that they did not cause.
fn beside_syntax(text: &str, syntax: Vec<Problem>, others: Vec<Problem>) -> Vec<Problem> {
    let starts: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let line = |problem: &Problem| starts.partition_point(|&start| start <= problem.span.start);
    let mut by_line = BTreeMap::new();
    for problem in syntax {
        by_line.entry(line(&problem)).or_insert(problem);
    }
    let mut kept: Vec<Problem> = others
        .into_iter()
        // A missing setting may be in a line that could not be parsed.
        .filter(|it| it.code != TeamFileCode::Missing && !by_line.contains_key(&line(it)))
        .collect();
    kept.extend(by_line.into_values());
    kept
}

fn read_team(
    table: DeTable<'_>,
    text: &str,
    problems: &mut Vec<Problem>,
) -> (Team, Vec<ReadMember>) {
    let mut top = Section::new("", table);
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
    let team_tools = top.boolean(TEAM_TOOLS);
    let copy = read_paths(&mut top, WORKSPACE_COPY);
    let link = read_paths(&mut top, WORKSPACE_LINK);
    let (mut members, is_there) = read_members(&mut top, problems);
    for read in &mut members {
        if let MemberKind::Agent(settings) = &mut read.member.kind {
            settings.record = settings.record.or(record);
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
    top.finish(TOP, |key| in_another_table(key, TOP), problems);
    let is_misspelt = problems[count..].iter().any(|problem| problem.fix.contains("[[member]]"));
    if !is_there && !is_misspelt {
        problems.push(Problem {
            span: text.trim_end().len()..text.trim_end().len(),
            code: TeamFileCode::Missing,
            message: "a team needs at least one member".to_owned(),
            fix: "add a `[[member]]` with a `name`, and `agent = \"claude\"` or `human = true`"
                .to_owned(),
        });
    }
    (team, members)
}

fn read_briefing(top: &mut Section<'_>) -> Briefing {
    let form = Form {
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
    section.finish(CONTEXT, |key| in_another_table(key, CONTEXT), problems);
    (settings, changes)
}

fn read_limits(top: &mut Section<'_>, problems: &mut Vec<Problem>) -> Limits {
    let mut section = top.table("limits");
    let mut timeout = |key: &'static str, example: &'static str| {
        let must_be = "a time with a unit, from \"1s\" to \"720h\"";
        let form = Form { types: &["string"], must_be, example };
        section.read(key, &form, |value| duration(value.as_str()?).filter(|time| !time.is_zero()))
    };
    let turn_timeout = timeout("turn-timeout", "turn-timeout = \"30m\"");
    let background_timeout = timeout("background-timeout", "background-timeout = \"10m\"");
    let ask_timeout = timeout("ask-timeout", "ask-timeout = \"10m\"");
    let limits = Limits {
        turns: section.number("turns", "turns = 50").unwrap_or(50),
        turn_timeout: turn_timeout.unwrap_or(Duration::from_mins(30)),
        background_timeout: background_timeout.unwrap_or(Duration::from_mins(10)),
        ask_timeout: ask_timeout.unwrap_or(Duration::from_mins(10)),
        queue: section.number("queue", "queue = 50").unwrap_or(50),
        parallel: section.boolean("parallel").unwrap_or(false),
    };
    section.finish(LIMITS, |key| in_another_table(key, LIMITS), problems);
    limits
}

/// Reads the members. Also returns whether there are any, right or wrong. O(members).
fn read_members(top: &mut Section<'_>, problems: &mut Vec<Problem>) -> (Vec<ReadMember>, bool) {
    let mut members = Vec::new();
    let Some(value) = top.take("member") else { return (members, false) };
    let place = top.places["member"].clone();
    let refuse = |top: &mut Section<'_>, span: Range<usize>| {
        let message = "`member` must be a list of tables";
        top.problem(span, TeamFileCode::WrongType, message, "write `[[member]]`, in two brackets");
    };
    let DeValue::Array(list) = value else {
        refuse(top, place.key);
        return (members, true);
    };
    let is_there = !list.is_empty();
    let mut names: HashMap<NameKey, String> = HashMap::new();
    for entry in list {
        let header = entry.span();
        let DeValue::Table(table) = entry.into_inner() else {
            refuse(top, header);
            continue;
        };
        let mut section = Section::new("member", table);
        let member = read_member(&mut section, header.clone());
        if let Some(member) = &member {
            refuse_duplicates(member, &header, &mut names, &mut section);
        }
        let person = member.as_ref().filter(|member| member.agent().is_none());
        let places = section.places.clone();
        section.finish(MEMBER, |key| not_of_member(key, person), problems);
        members.extend(member.map(|member| ReadMember { member, places }));
    }
    (members, is_there)
}

/// Refuses a name that another member has.
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
            let message = format!("`{name}` is the name of another member, `{other}`, too");
            let fix = "rename one of them; case, spaces, `-` and `_` make no difference";
            section.problem(span, TeamFileCode::DuplicateMember, message, fix);
        }
    }
    for (_, name, compared) in own.into_iter().flatten() {
        names.entry(compared).or_insert_with(|| name.to_owned());
    }
}

/// Reads a member; one without a usable name, or that is neither an agent nor a person, is a problem.
fn read_member(section: &mut Section<'_>, header: Range<usize>) -> Option<Member> {
    let name = read_name(section, "name");
    if let Some(name) = &name {
        section.rename(format!("member.{name}"));
    } else if !section.has("name") {
        let fix = "add a line such as `name = \"max\"`";
        section.problem(header.clone(), TeamFileCode::Missing, "`member.name` is missing", fix);
    }
    let display_name = read_name(section, "display-name");
    let window = read_window(section);
    let max_bytes = read_max_bytes(section);
    let human = section.boolean("human");
    let form =
        Form { types: &["string"], must_be: "the name of an agent", example: "agent = \"claude\"" };
    let agent = section.read("agent", &form, |value| {
        value.as_str().map(str::to_owned).filter(|name| !name.trim().is_empty())
    });
    let is_agent = section.has("agent");
    if human == Some(true) && is_agent {
        let span = section.places["agent"].key.clone();
        let message = format!("`{}` and `human = true` exclude each other", section.field("agent"));
        section.problem(span, TeamFileCode::Conflict, message, "remove one of the two");
    } else if human != Some(true) && !is_agent && !(section.has("human") && human.is_none()) {
        let message = format!("`{}` is missing", section.field("agent"));
        let fix = "name an agent, such as `agent = \"claude\"`, or write `human = true`";
        section.problem(header, TeamFileCode::Missing, message, fix);
    }
    // The settings of an unknown agent are read too, because each may be wrong.
    let kind = if is_agent || human != Some(true) {
        MemberKind::Agent(Box::new(read_agent(section, agent.unwrap_or_default())))
    } else {
        MemberKind::Human
    };
    Some(Member { name: MemberName::new(name?), display_name, kind, window, max_bytes })
}

fn read_agent(section: &mut Section<'_>, agent: String) -> AgentSettings {
    AgentSettings {
        agent,
        role_summary: section.string("role-summary", "role-summary = \"Max, reviewer\""),
        instructions: section.string("instructions", "instructions = \"You are Max.\""),
        instructions_file: section
            .argument("instructions-file", "instructions-file = \"agents/max.md\""),
        model: read_model(section),
        command: section.argument("command", "command = \"/opt/claude/bin/claude\""),
        args: section.arguments("args", "args = [\"--verbose\"]"),
        env: section.variables("env", "env = { NAME = \"value\" }"),
        cwd: section.argument("cwd", "cwd = \"services/auth\""),
        sandbox: section.word("sandbox"),
        base_url: section.argument("base-url", "base-url = \"http://127.0.0.1:8080/v1\""),
        wire: section.word("wire"),
        developer_role: section.word("developer-role"),
        key_env: read_key_env(section),
        context_window: read_context_window(section),
        tools: section.word("tools"),
        record: section.word("record"),
        team_tools: section.boolean(TEAM_TOOLS),
        workspace: section.word("workspace"),
        workspace_copy: read_paths(section, WORKSPACE_COPY),
        workspace_link: read_paths(section, WORKSPACE_LINK),
    }
}

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
        let problem = format!("has `{bad}`, which is no path below the directory of the team file");
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
    TEAM_TOOLS,
    "workspace",
    WORKSPACE_COPY,
    WORKSPACE_LINK,
    "base-url",
    "wire",
    "developer-role",
    "key-env",
    "context-window",
    "tools",
];

/// Explains a setting of another table.
fn in_another_table(key: &str, own: &[&str]) -> Option<(String, String)> {
    if own.contains(&key) {
        return None;
    }
    let table = if CONTEXT.contains(&key) {
        "[context]"
    } else if LIMITS.contains(&key) {
        "[limits]"
    } else if MEMBER.contains(&key) {
        "[[member]]"
    } else {
        return None;
    };
    Some((format!("is a setting of `{table}`"), format!("move it below `{table}`")))
}

/// Explains a setting that a member cannot have.
fn not_of_member(key: &str, person: Option<&Member>) -> Option<(String, String)> {
    match person {
        Some(Member { name, .. }) if MEMBER.contains(&key) => Some((
            format!("is a setting of agents, and {name} is a person"),
            "remove it, or replace `human = true` with an `agent`".to_owned(),
        )),
        _ => in_another_table(key, MEMBER),
    }
}

/// Parses the name of a variable; a key by mistake is rejected and not repeated.
fn read_key_env(section: &mut Section<'_>) -> Option<String> {
    let form = Form {
        types: &["string"],
        must_be: "the name of a variable, not the key itself",
        example: "key-env = \"MODEL_KEY\"",
    };
    section.read("key-env", &form, |value| into_string(value).filter(|name| is_variable_name(name)))
}

fn read_context_window(section: &mut Section<'_>) -> Option<u64> {
    let form = Form {
        types: &["integer"],
        must_be: "a number of tokens, 1 or more",
        example: "context-window = 8192",
    };
    section.read("context-window", &form, |value| whole_number(&value).filter(|&count| count > 0))
}

/// Reads a model's name, which programs get as an argument.
fn read_model(section: &mut Section<'_>) -> Option<String> {
    let form = Form {
        types: &["string"],
        must_be: "a name that does not begin with `-`, which programs take for an option",
        example: "model = \"opus\"",
    };
    let is_name =
        |name: &String| !name.is_empty() && !name.starts_with('-') && !name.contains('\0');
    section.read("model", &form, |value| into_string(value).filter(is_name))
}

fn read_window(section: &mut Section<'_>) -> Option<usize> {
    let form = Form {
        types: &["integer"],
        must_be: "a whole number of messages, 0 or more",
        example: "window = 5",
    };
    section.read("window", &form, |value| usize::try_from(whole_number(&value)?).ok())
}

fn read_max_bytes(section: &mut Section<'_>) -> Option<u64> {
    let form = Form {
        types: &["string", "integer"],
        must_be: "a size in bytes, KiB or MiB",
        example: "max-bytes = \"768 KiB\"",
    };
    section.read("max-bytes", &form, |value| match &value {
        DeValue::String(text) => bytes(text),
        _ => whole_number(&value),
    })
}

/// Reads a name by which a member can be addressed.
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

/// Returns why a name cannot address a member, and the fix.
fn problem_with_name(name: &str) -> Option<(String, &'static str)> {
    if let Some(unseen) = name.chars().find(|c| is_unseen(*c)) {
        let code = u32::from(unseen);
        let problem = format!(
            "contains U+{code:04X}, a character that cannot be seen: one name could look like another"
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
    } else if name.starts_with('@') {
        ("begins with `@`, which stands before a name in messages", "remove the `@`")
    } else {
        return None;
    };
    Some((problem.to_owned(), fix))
}

/// Returns whether a character shows nothing, or changes how others are shown: controls, line breaks,
/// writing directions, and everything of no width.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}
