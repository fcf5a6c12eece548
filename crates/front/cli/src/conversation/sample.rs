//! The built-in sample: a small project, a team that reviews it, and a script of its agents' replies.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use convoke_agent::adapter::Step;
use convoke_files::{Disk, FileKind, Files, draft};
use convoke_protocol::session::NewSession;

use super::home::Home;
use super::project::{Origin, Project, TEAM_FILE, UserConfiguration};

const TEAM: &str = include_str!("../../sample/convoke.toml");
const FILES: [(&str, &str); 4] = [
    (TEAM_FILE, TEAM),
    ("login.py", LOGIN),
    ("test_login.py", include_str!("../../sample/test_login.py")),
    ("agents/review.md", include_str!("../../sample/agents/review.md")),
];
const LOGIN: &str = include_str!("../../sample/login.py");

/// The person's first message.
pub const QUESTION: &str = "Can we ship login.py tonight?";

/// One turn of the script: the member, the files it reads, and its reply.
struct ScriptedTurn {
    member: &'static str,
    reads: Option<(&'static str, &'static str)>,
    reply: &'static str,
}

const SCRIPT: [ScriptedTurn; 5] = [
    ScriptedTurn {
        member: "ada",
        reads: Some(("login.py", LOGIN)),
        reply: include_str!("../../sample/replies/1-ada.md"),
    },
    ScriptedTurn {
        member: "lin",
        reads: Some(("login.py", LOGIN)),
        reply: include_str!("../../sample/replies/2-lin.md"),
    },
    ScriptedTurn {
        member: "ada",
        reads: None,
        reply: include_str!("../../sample/replies/3-ada.md"),
    },
    ScriptedTurn {
        member: "sam",
        reads: Some(("test_login.py", FILES[2].1)),
        reply: include_str!("../../sample/replies/4-sam.md"),
    },
    ScriptedTurn {
        member: "ada",
        reads: None,
        reply: include_str!("../../sample/replies/5-ada.md"),
    },
];

/// Returns the directory of the sample project.
pub fn directory(home: &Home) -> PathBuf {
    home.data.join("sample")
}

/// Writes the missing files of the sample project, and returns the project.
pub fn write(home: &Home, user: &UserConfiguration) -> anyhow::Result<Project> {
    let directory = directory(home);
    for (name, text) in FILES {
        let path = directory.join(name);
        write_file(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let directory = directory.canonicalize().context("cannot find the sample project")?;
    let file = "the sample team".to_owned();
    Ok(Project::parse(file, TEAM.to_owned(), directory, user, Origin::Sample)?)
}

fn write_file(path: &Path, text: &str) -> io::Result<()> {
    if Disk.read_text(path, FileKind::Input).is_ok_and(|there| there == text) {
        return Ok(());
    }
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    draft::replace(path, text.as_bytes(), 0o666)
}

/// Returns whether a session was started with the sample. A copy of its files elsewhere is an ordinary project.
pub fn is_of_session(session: &NewSession, home: &Home) -> bool {
    let here = directory(home).canonicalize();
    session.team == TEAM && here.is_ok_and(|here| here == Path::new(&session.directory))
}

/// Returns the steps of a member's turns.
pub fn turns(member: &str) -> Vec<Vec<Step>> {
    let turns = SCRIPT.iter().filter(|turn| turn.member == member);
    turns.map(steps).collect()
}

/// Returns the replies of a member.
pub fn replies(member: &str) -> Vec<String> {
    let turns = SCRIPT.iter().filter(|turn| turn.member == member);
    turns.map(|turn| turn.reply.trim_end().to_owned()).collect()
}

fn steps(turn: &ScriptedTurn) -> Vec<Step> {
    let mut steps = vec![Step::Wait(Duration::from_millis(250))];
    if let Some((file, text)) = turn.reads {
        steps.push(Step::Tool {
            name: "read".to_owned(),
            input: serde_json::json!({ "file": file }).to_string(),
            output: text.to_owned(),
        });
        steps.push(Step::Wait(Duration::from_millis(250)));
    }
    steps.push(Step::Say(turn.reply.trim_end().to_owned()));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoke_team::Team;

    #[test]
    fn every_member_of_the_script_is_an_agent_of_the_team() {
        let team = Team::parse(TEAM).unwrap();
        for part in &SCRIPT {
            assert!(team.member(part.member).unwrap().agent().is_some(), "{}", part.member);
        }
    }

    #[test]
    fn the_lines_that_the_agents_cite_exist() {
        let line = |number: usize| LOGIN.lines().nth(number - 1).unwrap();
        for (number, text) in [
            (6, "SESSION_SECONDS"),
            (12, "no user"),
            (14, "=="),
            (20, "md5"),
            (25, "- you -> all: reviewed"),
        ] {
            assert!(line(number).contains(text), "line {number}");
        }
    }
}
