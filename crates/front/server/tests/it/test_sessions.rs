//! A session of another program whose every text is hostile.

use std::path::PathBuf;
use std::sync::Arc;

use convoke_open::request::SentRequest;
use convoke_open::summary::Summary;
use convoke_protocol::agent_event::{RequestPurpose, TodoState};
use convoke_protocol::id::Millis;
use convoke_protocol::usage::Usage;
use convoke_protocol::window::{At, Grade, Part, Place, Placed, Role, Text, Window, WindowPart};
use convoke_server::other_sessions::{
    Excerpt, FileState, ListedOther, MAX_SHOWN, OtherFilter, OtherList, OtherName, OtherSession,
    PageEnds, PricedRequest, ReadError, RequestRow, Step, StepKey, StepKind, TextName, TodoLine,
    ToolOutput, UsageFigures, UsageRow,
};
use convoke_server::{ChangedFile, OtherSessions};
use convoke_source::FoundSession;

/// A text that would act in HTML or on a terminal.
pub const HOSTILE: &str = "</script><img src=x onerror=\"a()\"> \u{1b}[2J \u{202e}txt";

/// Every route of other programs' sessions.
pub const OTHER_ROUTES: [&str; 11] = [
    "/api/programs",
    "/api/usage?days=0",
    "/api/programs/claude/one",
    "/api/programs/claude/one/state",
    "/api/programs/claude/one/steps?at=3&number=3",
    "/api/programs/claude/one/text?number=1&part=text",
    "/api/programs/claude/one/requests",
    "/api/programs/claude/one/requests/1",
    "/api/programs/claude/one/requests/1/parts",
    "/api/programs/claude/one/requests/1/parts/0",
    "/api/programs/claude/one/requests/1/rows",
];

/// One session of Claude Code, `one`.
pub struct TestSessions;

fn found() -> FoundSession {
    FoundSession {
        program: "claude",
        id: "one".to_owned(),
        path: PathBuf::from("/home/kim/one.jsonl"),
        files: Vec::new(),
        cwd: Some(HOSTILE.to_owned()),
        changed_at: Millis(5),
        bytes: 9,
        parent: None,
    }
}

fn summary() -> Summary {
    let hostile = || Some(HOSTILE.to_owned());
    Summary {
        title: hostile(),
        model: hostile(),
        version: hostile(),
        branch: hostile(),
        requests: 2,
        usage: Some(USAGE),
        ..Summary::default()
    }
}

const USAGE: Usage =
    Usage { input: 12_345, cached: 10_000, cache_write: 2_000, output: 7, reasoning: 1 };

fn excerpt() -> Excerpt {
    Excerpt::new(HOSTILE, MAX_SHOWN)
}

fn steps() -> Vec<Step> {
    let long = "x".repeat(MAX_SHOWN + 10);
    let (name, path) = (HOSTILE.to_owned(), HOSTILE.to_owned());
    let file = ChangedFile {
        path,
        status: HOSTILE.to_owned(),
        added: Some(1),
        removed: Some(1),
        bytes: 3,
        diff: format!("@@ -1 +1 @@\n-{HOSTILE}\n+two\n"),
    };
    let output = Some(ToolOutput { ok: false, text: excerpt() });
    let kinds = vec![
        StepKind::Person { text: excerpt() },
        StepKind::Answer { question: excerpt(), text: excerpt() },
        StepKind::Plan { text: excerpt() },
        StepKind::Reply { text: Excerpt::new(&long, MAX_SHOWN) },
        StepKind::Thinking { text: excerpt() },
        StepKind::Tool { name, input: excerpt(), output },
        StepKind::Changed { files: vec![file] },
        StepKind::Todo {
            items: vec![TodoLine { text: HOSTILE.to_owned(), state: TodoState::Completed }],
        },
        StepKind::Compacted { text: excerpt(), dropped: 3 },
        StepKind::Failed { status: Some(529), text: excerpt() },
    ];
    let step = |(kind, number): (StepKind, u64)| Step {
        key: StepKey { at: 1, agent: (number > 8).then(|| HOSTILE.to_owned()), number },
        at: Some(Millis(1)),
        place: format!("{HOSTILE}:1"),
        kind,
    };
    kinds.into_iter().zip(1..).map(step).collect()
}

fn row(number: u64) -> RequestRow {
    RequestRow {
        number,
        at: Some(Millis(1)),
        agent: (number == 2).then(|| HOSTILE.to_owned()),
        purpose: RequestPurpose::Compaction,
        model: Some(HOSTILE.to_owned()),
        usage: Some(USAGE),
        cost: Some(0.5),
        grade: Grade::Exact,
        status: Some(429),
    }
}

fn request(number: u64) -> SentRequest {
    let place = || Place { file: Arc::from(HOSTILE), at: At::Line(7) };
    let text = |text: &str| Text::new(text, usize::MAX);
    let part = |role, what| WindowPart { role, part: Arc::new(Placed { what, place: place() }) };
    let long = "y".repeat(MAX_SHOWN + 10);
    let call = Part::Call { name: HOSTILE.to_owned(), input: "{\"command\":\"ls -l\"}".into() };
    let mut parts = vec![
        part(Role::User, Part::Text(text(HOSTILE))),
        part(Role::Assistant, call),
        part(Role::Tool, Part::Result(text(&long))),
    ];
    parts.extend((0..300).map(|_| part(Role::User, Part::Text(text("more")))));
    SentRequest {
        number,
        total: 2,
        place: place(),
        at: Some(Millis(1)),
        agent: None,
        purpose: RequestPurpose::Answer,
        model: Some(HOSTILE.to_owned()),
        window: Window {
            system: vec![Placed { what: text(HOSTILE), place: place() }],
            tools: vec![HOSTILE.to_owned(), "Bash".to_owned()],
            parts,
        },
        grade: Grade::Partial,
        missing: vec![HOSTILE.to_owned()],
        usage: Some(USAGE),
        cache_write_hour: 0,
        tier: None,
        status: Some(200),
    }
}

fn check(name: &OtherName) -> Result<(), ReadError> {
    if (&*name.program, &*name.id) == ("claude", "one") {
        return Ok(());
    }
    Err(ReadError::NotFound("no such session".to_owned()))
}

impl OtherSessions for TestSessions {
    fn programs(&self) -> Vec<&'static str> {
        vec!["claude"]
    }

    fn list(&self, filter: &OtherFilter, from: usize, _: usize) -> Result<OtherList, ReadError> {
        if !filter.has(&found()) {
            return Ok(OtherList::default());
        }
        let listed = ListedOther { found: found(), summary: Arc::new(summary()) };
        let sessions = if from == 0 { vec![listed] } else { Vec::new() };
        Ok(OtherList { sessions, total: 1, problems: vec![HOSTILE.to_owned()] })
    }

    fn read(&self, name: &OtherName, ends: &PageEnds) -> Result<OtherSession, ReadError> {
        check(name)?;
        let mut steps = steps();
        if let Some(end) = &ends.steps {
            steps.retain(|step| step.key < *end);
        }
        Ok(OtherSession {
            found: found(),
            summary: summary(),
            report: HOSTILE.to_owned(),
            state: self.state(name)?,
            requests: vec![row(1), row(2)],
            earlier_requests: 4,
            most_tokens: 12_352,
            steps,
            earlier_steps: 5,
        })
    }

    fn request(&self, name: &OtherName, number: u64) -> Result<Arc<PricedRequest>, ReadError> {
        check(name)?;
        if number > 2 {
            return Err(ReadError::NotFound("no such request".to_owned()));
        }
        Ok(Arc::new(PricedRequest { request: request(number), cost: Some(0.25) }))
    }

    fn text(&self, name: &OtherName, _: &TextName) -> Result<String, ReadError> {
        check(name)?;
        Ok(format!("{HOSTILE}{}", "z".repeat(2 * MAX_SHOWN)))
    }

    fn usage(&self, since: Option<Millis>) -> Result<UsageFigures, ReadError> {
        if since.is_some() {
            return Ok(UsageFigures::default());
        }
        let row = UsageRow {
            name: HOSTILE.to_owned(),
            requests: 2,
            usage: USAGE,
            cost_usd: 0.75,
            unpriced: 1,
        };
        Ok(UsageFigures {
            by_day: vec![row.clone()],
            by_program: vec![row.clone()],
            by_model: vec![row.clone()],
            by_project: vec![row.clone()],
            total: row,
            sessions: 1,
            problems: vec![HOSTILE.to_owned()],
            prices: HOSTILE.to_owned(),
        })
    }

    fn state(&self, name: &OtherName) -> Result<FileState, ReadError> {
        check(name)?;
        Ok(FileState { bytes: 9, changed_at: Millis(5) })
    }
}
