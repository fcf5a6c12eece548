//! Where sessions lie, and which files belong to them.

use std::collections::HashMap;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use convoke_protocol::id::Millis;
use convoke_source::{FoundSession, Home, SourceError, lines};
use memchr::memchr;

use super::PROGRAM;
use super::record::{Message, Record, parsed, text};

/// The bytes of a file by which a session is recognised, and those that are mostly enough.
const BEGINNING: u64 = 64 << 10;
const SHORT_BEGINNING: u64 = 8 << 10;
/// The maximum number of files of one session.
const MAX_FILES: usize = 10_000;
/// The depth of directories below that of a session.
const MAX_DEPTH: usize = 3;

/// What the beginning of a file tells.
#[derive(Debug, Default)]
pub(super) struct Beginning {
    pub session: Option<String>,
    pub cwd: Option<String>,
    /// The session that this one was forked from.
    pub parent: Option<String>,
    /// Whether the file is that of a sub-agent.
    pub is_agent: bool,
    is_session: bool,
}

/// Finds the sessions in a home.
pub(super) fn list(home: &Home<'_>, found: &mut dyn FnMut(Result<FoundSession, SourceError>)) {
    let directory = home.moved("CLAUDE_CONFIG_DIR", ".claude");
    let mut places = vec![directory.join("projects")];
    if directory == home.directory.join(".claude") {
        // Some versions followed the rules of the desktop.
        places.push(home.directory.join(".config/claude/projects"));
    }
    for place in places {
        match entries(&place) {
            Ok(projects) => {
                projects.iter().filter(|it| it.path().is_dir()).for_each(|project| {
                    list_project(&project.path(), found);
                });
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => found(Err(SourceError::read(&place)(error))),
        }
    }
}

fn list_project(directory: &Path, found: &mut dyn FnMut(Result<FoundSession, SourceError>)) {
    let entries = match entries(directory) {
        Ok(entries) => entries,
        Err(error) => return found(Err(SourceError::read(directory)(error))),
    };
    let files = entries.iter().filter(|it| it.file_type().is_ok_and(|kind| kind.is_file()));
    let files = files.map(DirEntry::path).filter(|it| is_jsonl(it));
    let (agents, sessions): (Vec<_>, Vec<_>) = files.partition(|it| is_agent_name(it));
    let mut agents_of: HashMap<String, Vec<PathBuf>> = HashMap::new();
    for agent in agents {
        if let Ok(Beginning { session: Some(session), .. }) = beginning(&agent) {
            agents_of.entry(session).or_default().push(agent);
        }
    }
    for path in sessions {
        found(match beginning(&path) {
            Ok(beginning) => {
                let agents = agents_of.get(&stem(&path)).map_or(&[][..], Vec::as_slice);
                Ok(session(&path, beginning, agents))
            }
            Err(error) => Err(SourceError::read(&path)(error)),
        });
    }
}

/// Returns the session that a file or directory belongs to.
pub(super) fn at(path: &Path) -> Result<Option<FoundSession>, SourceError> {
    let metadata = fs::metadata(path).map_err(SourceError::read(path))?;
    if metadata.is_dir() {
        let beside = path.with_extension("jsonl");
        if beside.is_file() {
            return at(&beside);
        }
        let mut latest: Option<FoundSession> = None;
        list_project(path, &mut |found| {
            if let Ok(found) = found
                && latest.as_ref().is_none_or(|it| it.changed_at < found.changed_at)
                && beginning(&found.path).is_ok_and(|it| it.is_session)
            {
                latest = Some(found);
            }
        });
        return Ok(latest);
    }
    let beginning = beginning(path).map_err(SourceError::read(path))?;
    if !beginning.is_session {
        return Ok(None);
    }
    if beginning.is_agent
        && let Some(parent) = parent_file(path, beginning.session.as_deref())
    {
        return at(&parent);
    }
    let agents = match (path.parent(), beginning.is_agent) {
        (Some(directory), false) => flat_agents(directory, &stem(path)),
        _ => Vec::new(),
    };
    Ok(Some(session(path, beginning, &agents)))
}

/// Returns the file of the session that a sub-agent is of: beside it, or above its directory.
fn parent_file(agent: &Path, session: Option<&str>) -> Option<PathBuf> {
    let is_name = |id: &&str| id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let name = format!("{}.jsonl", session.filter(is_name)?);
    let parents = agent.ancestors().skip(1).take(MAX_DEPTH + 1);
    let mut files = parents.map(|parent| parent.join(&name));
    files.find(|file| file.is_file() && file != agent)
}

/// Returns the files of a session's sub-agents that lie beside it, as older versions wrote them.
fn flat_agents(directory: &Path, session: &str) -> Vec<PathBuf> {
    let files = entries(directory).unwrap_or_default().into_iter().map(|it| it.path());
    let agents = files.filter(|it| is_jsonl(it) && is_agent_name(it));
    let of_session = |it: &PathBuf| {
        beginning(it).is_ok_and(|beginning| beginning.session.as_deref() == Some(session))
    };
    agents.filter(of_session).take(MAX_FILES).collect()
}

fn session(path: &Path, beginning: Beginning, agents: &[PathBuf]) -> FoundSession {
    let mut files = vec![path.to_owned()];
    files.extend_from_slice(agents);
    files_below(&path.with_extension(""), MAX_DEPTH, &mut files);
    let mut bytes = 0;
    let mut changed_at = Millis(0);
    for metadata in files.iter().filter_map(|file| fs::symlink_metadata(file).ok()) {
        bytes += metadata.len();
        let since = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let since = since.and_then(|since| i64::try_from(since.as_millis()).ok());
        changed_at = changed_at.max(Millis(since.unwrap_or_default()));
    }
    let named = stem(path);
    let is_uuid = uuid::Uuid::try_parse(&named).is_ok();
    let id = if is_uuid { named } else { beginning.session.unwrap_or(named) };
    let parent = beginning.parent.filter(|parent| *parent != id);
    FoundSession {
        program: PROGRAM,
        id,
        path: path.to_owned(),
        files,
        cwd: beginning.cwd,
        changed_at,
        bytes,
        parent,
    }
}

/// Adds the files of a session's own directory: those of sub-agents and of large outputs.
pub(super) fn files_below(directory: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    for entry in entries(directory).unwrap_or_default() {
        match entry.file_type() {
            Ok(kind) if kind.is_file() && files.len() < MAX_FILES => files.push(entry.path()),
            Ok(kind) if kind.is_dir() && depth > 0 => files_below(&entry.path(), depth - 1, files),
            _ => {}
        }
    }
}

/// Returns the sub-agent whose records a file has.
pub(super) fn agent_of(path: &Path) -> Option<String> {
    let stem = stem(path);
    let name = stem.strip_prefix("agent-")?;
    (is_jsonl(path) && !name.is_empty()).then(|| name.to_owned())
}

fn is_agent_name(path: &Path) -> bool {
    agent_of(path).is_some()
}

fn is_jsonl(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "jsonl")
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn entries(directory: &Path) -> std::io::Result<Vec<DirEntry>> {
    let mut entries: Vec<_> = fs::read_dir(directory)?.filter_map(Result::ok).collect();
    entries.sort_by_key(DirEntry::file_name);
    Ok(entries)
}

/// Reads what the beginning of a file tells.
pub(super) fn beginning(path: &Path) -> std::io::Result<Beginning> {
    let short = told_by(&lines::beginning(path, SHORT_BEGINNING)?, SHORT_BEGINNING);
    if short.cwd.is_some() && short.is_session {
        return Ok(short);
    }
    Ok(told_by(&lines::beginning(path, BEGINNING)?, BEGINNING))
}

fn told_by(bytes: &[u8], max_bytes: u64) -> Beginning {
    let is_whole = (bytes.len() as u64) < max_bytes;
    let mut beginning = Beginning::default();
    let mut rest = bytes;
    while !rest.is_empty() && (beginning.cwd.is_none() || !beginning.is_session) {
        let end = memchr(b'\n', rest);
        let line = &rest[..end.unwrap_or(rest.len())];
        rest = end.map_or(&[][..], |end| &rest[end + 1..]);
        match serde_json::from_slice::<Record<'_>>(line) {
            Ok(record) => beginning.note(&record),
            // A line that is longer than the beginning.
            Err(_) if end.is_none() && !is_whole => beginning.is_session |= is_cut_record(line),
            Err(_) => {}
        }
    }
    beginning
}

fn is_cut_record(line: &[u8]) -> bool {
    let starts = [&b"{\"parentUuid\":"[..], b"{\"type\":\"api-request", b"{\"type\":\"user\""];
    starts.iter().any(|start| line.starts_with(start))
}

impl Beginning {
    fn note(&mut self, record: &Record<'_>) {
        let kind = text(record.kind).unwrap_or_default();
        let owned = |raw| text(raw).map(std::borrow::Cow::into_owned);
        let Some(session) = owned(record.session_id) else {
            self.is_session |= kind == "summary" && record.summary.is_some();
            return;
        };
        self.is_session |= match &*kind {
            "user" | "assistant" => {
                let message: Message<'_> = parsed(record.message).unwrap_or_default();
                record.uuid.is_some() && message.content.is_some()
            }
            "attachment" | "system" => record.uuid.is_some(),
            "queue-operation" | "api-request" => true,
            _ => false,
        };
        self.session.get_or_insert(session);
        self.is_agent |= record.agent_id.is_some();
        if self.cwd.is_none() {
            self.cwd = owned(record.cwd);
        }
        if self.parent.is_none() {
            self.parent =
                parsed::<Record<'_>>(record.forked_from).and_then(|it| owned(it.session_id));
        }
    }
}
