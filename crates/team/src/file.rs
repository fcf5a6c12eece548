//! Reading the file.

use std::time::Duration;

use convoke_core::context::DEFAULT_CONTEXT_WINDOW;
use convoke_core::name::NameKey;
use convoke_core::variable::is_variable_name;
use convoke_core::{DEFAULT_MAX_BYTES, Fencing};
use toml::de::{DeTable, DeValue};

use crate::member::{AgentSettings, Member, MemberKind};
use crate::quantity::{bytes, duration};
use crate::section::{Found, Section, whole_number};
use crate::{Briefing, ContextSettings, Limits, Team};

/// A team file that cannot be used: the line, and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct TeamFileError {
    /// The 1-based line.
    pub line: usize,
    /// What is wrong, and what to do.
    pub problem: String,
}

impl TeamFileError {
    pub(crate) fn at(text: &str, offset: usize, problem: String) -> Self {
        let before = &text[..text.floor_char_boundary(offset)];
        Self { line: before.matches('\n').count() + 1, problem }
    }
}

pub(crate) fn parse(text: &str) -> Result<Team, TeamFileError> {
    let table = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        TeamFileError::at(text, offset, error.message().to_owned())
    })?;
    let mut top = Section::new(text, "", table.into_inner());
    let team = Team {
        name: top.string("name")?,
        task: top.string("task")?,
        briefing: read_briefing(&mut top)?,
        context: read_context(&mut top)?,
        limits: read_limits(&mut top)?,
        members: read_members(&mut top, text)?,
    };
    top.finish()?;
    Ok(team)
}

fn read_briefing(top: &mut Section<'_>) -> Result<Briefing, TeamFileError> {
    let briefing = top.read("briefing", "a text, or false for none", |value| match value {
        DeValue::String(text) => Some(Briefing::Own(text.into_owned())),
        DeValue::Boolean(true) => Some(Briefing::Standard),
        DeValue::Boolean(false) => Some(Briefing::Off),
        _ => None,
    })?;
    Ok(briefing.unwrap_or_default())
}

fn read_context(top: &mut Section<'_>) -> Result<ContextSettings, TeamFileError> {
    let mut section = top.table("context")?;
    let settings = ContextSettings {
        window: read_window(&mut section)?.unwrap_or(DEFAULT_CONTEXT_WINDOW),
        max_bytes: read_max_bytes(&mut section)?.unwrap_or(DEFAULT_MAX_BYTES),
        fencing: match section.boolean("fence")? {
            Some(true) => Fencing::Indented,
            Some(false) | None => Fencing::AsWritten,
        },
        visibility: section
            .read("visibility", "\"all\" or \"addressed\"", |value| value.as_str()?.parse().ok())?
            .unwrap_or_default(),
        text: section
            .read("text", "\"preserve\" or \"compat\"", |value| value.as_str()?.parse().ok())?
            .unwrap_or_default(),
    };
    section.finish()?;
    Ok(settings)
}

fn read_limits(top: &mut Section<'_>) -> Result<Limits, TeamFileError> {
    let mut section = top.table("limits")?;
    let limits = Limits {
        turns: section.number("turns")?.unwrap_or(50),
        turn_timeout: section
            .read("turn-timeout", "a time such as \"30m\" or \"90s\"", |value| {
                duration(value.as_str()?)
            })?
            .unwrap_or(Duration::from_mins(30)),
        queue: section.number("queue")?.unwrap_or(50),
        parallel: section.boolean("parallel")?.unwrap_or(false),
    };
    section.finish()?;
    Ok(limits)
}

fn read_members(top: &mut Section<'_>, text: &str) -> Result<Vec<Member>, TeamFileError> {
    let nobody = || {
        let problem = "a team needs at least one `[[member]]`".to_owned();
        TeamFileError { line: 1, problem }
    };
    let Found { value, offset } = top.take("member").ok_or_else(nobody)?;
    let DeValue::Array(list) = value else {
        return Err(top.error(offset, "member", "must be a list of tables: write `[[member]]`"));
    };
    if list.is_empty() {
        return Err(nobody());
    }
    let mut members: Vec<Member> = Vec::new();
    for (index, entry) in list.into_iter().enumerate() {
        let start = entry.span().start;
        let DeValue::Table(table) = entry.into_inner() else {
            return Err(top.error(offset, "member", "must be a table: write `[[member]]`"));
        };
        let mut section = Section::new(text, format!("member[{index}]"), table);
        let member = read_member(&mut section, start)?;
        for name in std::iter::once(&member.name).chain(&member.display_name) {
            let key = NameKey::new(name);
            if members.iter().any(|other| other.is_called(&key)) {
                let problem = "is the name of another member too";
                return Err(section.error(start, "name", problem));
            }
        }
        section.finish()?;
        members.push(member);
    }
    Ok(members)
}

fn read_member(section: &mut Section<'_>, start: usize) -> Result<Member, TeamFileError> {
    let name = section.string("name")?;
    let name = name.ok_or_else(|| section.error(start, "name", "is missing"))?;
    if let Some(problem) = problem_with_name(&name) {
        return Err(section.error(start, "name", &problem));
    }
    section.call(format!("member.{name}"));
    let display_name = section.string("display-name")?;
    if let Some(problem) = display_name.as_deref().and_then(problem_with_name) {
        return Err(section.error(start, "display-name", &problem));
    }
    let window = read_window(section)?;
    let max_bytes = read_max_bytes(section)?;
    let human = section.boolean("human")?.unwrap_or(false);
    let agent = section.string("agent")?;
    let kind = match (human, agent) {
        (true, None) => MemberKind::Human,
        (false, Some(agent)) => MemberKind::Agent(Box::new(read_agent(section, agent)?)),
        (true, Some(_)) => {
            return Err(section.error(start, "human", "and `agent` cannot both be set"));
        }
        (false, None) => {
            let problem = "is missing: name a type of agent, or set `human = true`";
            return Err(section.error(start, "agent", problem));
        }
    };
    Ok(Member { name, display_name, kind, window, max_bytes })
}

fn read_agent(section: &mut Section<'_>, agent: String) -> Result<AgentSettings, TeamFileError> {
    Ok(AgentSettings {
        agent,
        role_summary: section.string("role-summary")?,
        instructions: section.string("instructions")?,
        instructions_file: section.string("instructions-file")?,
        model: read_argument(section, "model")?,
        command: section.string("command")?,
        args: section.strings("args")?,
        env: section.string_table("env")?,
        cwd: section.string("cwd")?,
        sandbox: section.string("sandbox")?,
        base_url: section.string("base-url")?,
        wire: section.one_of("wire", &["responses", "chat"])?,
        developer_role: section.one_of("developer-role", &["developer", "system"])?,
        key_env: read_key_env(section)?,
        context_window: read_context_window(section)?,
        tools: section.one_of("tools", &["none", "read"])?,
    })
}

/// Reads the name of a variable; a key that stands there by mistake is refused, and not repeated.
fn read_key_env(section: &mut Section<'_>) -> Result<Option<String>, TeamFileError> {
    section.read("key-env", "the name of a variable, not the key itself", |value| {
        let name = value.as_str()?;
        is_variable_name(name).then(|| name.to_owned())
    })
}

fn read_context_window(section: &mut Section<'_>) -> Result<Option<u64>, TeamFileError> {
    section.read("context-window", "a number of tokens, 1 or more", |value| {
        whole_number(&value).filter(|&tokens| tokens > 0)
    })
}

/// Says why nobody could be addressed by a name.
fn problem_with_name(name: &str) -> Option<String> {
    if let Some(unseen) = name.chars().find(|c| is_unseen(*c)) {
        let code = u32::from(unseen);
        return Some(format!(
            "must not contain U+{code:04X}, a character that cannot be seen: one name could look like \
             another"
        ));
    }
    let problem = if NameKey::new(name) == NameKey::new("") {
        "must not be blank"
    } else if NameKey::new(name).is_all() {
        "cannot be `all`: that means everyone"
    } else if name.contains(['[', ']', ',', '，', '!', '！', ':']) {
        "must not contain brackets, commas, colons or exclamation marks"
    } else {
        return None;
    };
    Some(problem.to_owned())
}

/// Tells whether a character shows nothing, or changes how others are shown: controls, line breaks,
/// directions of writing, and everything of no width.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Reads a value that programs are given as an argument.
fn read_argument(
    section: &mut Section<'_>,
    key: &'static str,
) -> Result<Option<String>, TeamFileError> {
    section.read(
        key,
        "a name that does not begin with `-`, which programs take for an option",
        |value| {
            let name = value.as_str()?;
            (!name.starts_with('-')).then(|| name.to_owned())
        },
    )
}

fn read_window(section: &mut Section<'_>) -> Result<Option<usize>, TeamFileError> {
    section.read("window", "a whole number of messages", |value| {
        usize::try_from(whole_number(&value)?).ok()
    })
}

fn read_max_bytes(section: &mut Section<'_>) -> Result<Option<u64>, TeamFileError> {
    section.read("max-bytes", "a size such as \"768 KiB\"", |value| match &value {
        DeValue::String(text) => bytes(text),
        _ => whole_number(&value),
    })
}
