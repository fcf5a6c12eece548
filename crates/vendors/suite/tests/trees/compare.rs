//! Compares a report with what arrived, and names the first difference.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use convoke_explain::{AgentReport, LoadReason, Loaded};

use crate::layout::Laid;
use crate::scenario::{Expected, ExpectedFile, Scenario};

/// Returns the first difference.
pub fn compare(
    laid: &Laid,
    scenario: &Scenario,
    agent: &str,
    expected: &Expected,
    report: &AgentReport,
) -> Result<(), String> {
    let mut expected_files: Vec<&ExpectedFile> = expected.loaded.iter().collect();
    let hidden = hidden_files(laid, scenario, expected);
    for file in &report.loaded {
        if let Some(bytes) = hidden.get(&file.path) {
            same_garbage(file, bytes, report)?;
        }
    }
    let mut found_files: Vec<&Loaded> = report.loaded.iter().collect();
    found_files.retain(|file| !hidden.contains_key(&file.path));
    if scenario.order_is_free {
        let free = rule_files(report);
        sort_runs(&mut expected_files, &free, |file| laid.path(&file.path));
        sort_runs(&mut found_files, &free, |file| file.real_path.clone());
    }
    for (index, expected) in expected_files.iter().enumerate() {
        let Some(found) = found_files.get(index) else {
            return Err(format!("file {}: {} is missing", index + 1, expected.path));
        };
        same_file(laid, agent, expected, found)
            .map_err(|what| format!("file {}: {what}", index + 1))?;
    }
    if let Some(further) = found_files.get(expected_files.len()) {
        return Err(format!("{} is loaded and should not be", further.path.display()));
    }
    same_ignored(laid, scenario, agent, expected, report)
}

/// Returns the UTF-16 files that the recorder could not see, with their bytes.
fn hidden_files<'s>(
    laid: &Laid,
    scenario: &'s Scenario,
    expected: &Expected,
) -> HashMap<PathBuf, &'s [u8]> {
    let files = scenario.files.iter().filter_map(|entry| {
        let bytes = scenario.hidden_utf16(expected, &entry.path)?;
        Some((laid.path(&entry.path), bytes))
    });
    files.collect()
}

/// A UTF-16 file that is loaded arrives as its bytes read as UTF-8, and is reported.
fn same_garbage(found: &Loaded, bytes: &[u8], report: &AgentReport) -> Result<(), String> {
    let shown = found.path.display();
    if found.bytes != bytes.len() as u64 {
        return Err(format!("{shown} has {} bytes, found {}", bytes.len(), found.bytes));
    }
    let garbage = String::from_utf8_lossy(bytes);
    if found.text.trim_matches(is_space) != garbage.trim_matches(is_space) {
        return Err(format!("{shown}: {}", first_difference(&garbage, &found.text)));
    }
    let path = found.path.to_string_lossy();
    let is_reported = report.diagnostics.iter().any(|diagnostic| {
        diagnostic.code.name() == "file.utf16" && diagnostic.path.as_deref() == Some(&path)
    });
    if is_reported { Ok(()) } else { Err(format!("{shown} is UTF-16 and not reported")) }
}

fn same_file(
    laid: &Laid,
    agent: &str,
    expected: &ExpectedFile,
    found: &Loaded,
) -> Result<(), String> {
    let path = laid.path(&expected.path);
    if found.path != path && found.real_path != path {
        return Err(format!("expected {}, found {}", expected.path, found.path.display()));
    }
    let named = format!("{}: ", expected.path);
    let is_settings = path.extension().is_some_and(|extension| extension == "json");
    if !is_settings && found.bytes != expected.bytes {
        return Err(format!("{named}the file has {} bytes, found {}", expected.bytes, found.bytes));
    }
    // A file that is marked as trimmed was measured without its outer white space.
    let text = if expected.is_trimmed { found.text.trim_matches(is_space) } else { &found.text };
    if !expected.is_trimmed && found.bytes_loaded != found.text.len() as u64 {
        return Err(format!("{named}the bytes do not count the text"));
    }
    if let Some(arrived) = &expected.arrived
        && laid.moved(arrived) != found.text
    {
        return Err(format!("{named}{}", first_difference(&laid.moved(arrived), &found.text)));
    }
    let is_moved = laid.is_disk() && expected.arrived.is_some();
    if !is_moved && text.len() as u64 != expected.bytes_seen {
        return Err(format!("{named}{} bytes arrived, found {}", expected.bytes_seen, text.len()));
    }
    if found.whole != expected.is_whole {
        return Err(format!("{named}whole is {}, found {}", expected.is_whole, found.whole));
    }
    same_heading(laid, agent, expected, found).map_err(|what| format!("{named}{what}"))
}

/// The heading tells the path under which a file was sent, and for Claude Code also why.
fn same_heading(
    laid: &Laid,
    agent: &str,
    expected: &ExpectedFile,
    found: &Loaded,
) -> Result<(), String> {
    let heading = laid.moved(&expected.heading);
    let program = agent.split('@').next().unwrap_or(agent);
    let (start, end) = match program {
        "claude" => ("Contents of ", ".md"),
        "gemini" => ("--- Context from: ", " ---"),
        _ => return Ok(()),
    };
    let Some(rest) = heading.strip_prefix(start) else {
        return Ok(());
    };
    let (path, label) = match program {
        "claude" => match rest.rsplit_once(" (") {
            Some((path, label)) => (path, label),
            None => (rest.trim_end().trim_end_matches(':'), ""),
        },
        _ => (rest.split(end).next().unwrap_or_default(), ""),
    };
    if path.starts_with('/') && Path::new(path) != found.path && found.depth == 0 {
        return Err(format!("sent as {path}, found {}", found.path.display()));
    }
    let is_import = matches!(found.why, LoadReason::Import { .. });
    let is_right = match label {
        _ if is_import => true,
        label if label.starts_with("organization") => {
            found.why == LoadReason::Managed || found.why == LoadReason::Rule
        }
        label if label.starts_with("user's private global") => {
            matches!(found.why, LoadReason::User | LoadReason::Rule)
        }
        label if label.starts_with("project") => {
            matches!(found.why, LoadReason::Project | LoadReason::Rule | LoadReason::ExtraDirectory)
        }
        label if label.starts_with("user's private project") => {
            matches!(found.why, LoadReason::Local | LoadReason::ExtraDirectory)
        }
        label if label.starts_with("user's auto-memory") => found.why == LoadReason::Memory,
        _ => true,
    };
    if is_right { Ok(()) } else { Err(format!("labelled `{label}`, found `{}`", found.why)) }
}

/// A file that did not arrive must not be loaded, and a file where the agent looks must be accounted
/// for with a rule.
fn same_ignored(
    laid: &Laid,
    scenario: &Scenario,
    agent: &str,
    expected: &Expected,
    report: &AgentReport,
) -> Result<(), String> {
    let own: &[&str] = match agent {
        "claude" => &["CLAUDE.md", "CLAUDE.local.md"],
        "claude@2.1.325" => &["CLAUDE.md", "CLAUDE.local.md", "AGENTS.md"],
        "gemini" => &["GEMINI.md"],
        _ => &["AGENTS.md", "AGENTS.override.md"],
    };
    let given = if agent.starts_with("codex") { scenario.settings.get("codex") } else { None };
    let is_elsewhere = given.is_some_and(|start| start.arguments.iter().any(|it| it == "-C"));
    let cwd = PathBuf::from(laid.moved(&scenario.cwd));
    let cwd = cwd.canonicalize().unwrap_or(cwd);
    for path in &expected.ignored {
        let full = laid.path(path);
        if scenario.hidden_utf16(expected, path).is_some() {
            continue;
        }
        if report.loaded.iter().any(|file| file.path == full) {
            return Err(format!("{path} is loaded and should be ignored"));
        }
        let name = full.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_above = full.parent().is_some_and(|parent| cwd.starts_with(parent));
        let is_accounted = report.ignored.iter().any(|file| file.path == full);
        if own.contains(&name) && is_above && !is_elsewhere && !is_accounted {
            return Err(format!("{path} is ignored, and no rule is given"));
        }
    }
    for ignored in &report.ignored {
        let is_loaded = expected.loaded.iter().any(|file| laid.path(&file.path) == ignored.path);
        let is_loaded_too = report.loaded.iter().any(|file| file.real_path == ignored.path);
        if is_loaded && !is_loaded_too {
            return Err(format!("{} is loaded, found `{}`", ignored.path.display(), ignored.rule));
        }
    }
    Ok(())
}

/// The files of rules directories and what they import: among these the programs have no order.
fn rule_files(report: &AgentReport) -> HashSet<PathBuf> {
    let mut free = HashSet::new();
    for file in &report.loaded {
        let is_free = match &file.why {
            LoadReason::Rule | LoadReason::MatchingRule(_) => true,
            LoadReason::Import { by, .. } => free.contains(by),
            _ => false,
        };
        if is_free {
            free.extend([file.path.clone(), file.real_path.clone()]);
        }
    }
    free
}

/// Puts every run of files that have no order among themselves into that of their paths.
fn sort_runs<T>(files: &mut [T], free: &HashSet<PathBuf>, path: impl Fn(&T) -> PathBuf) {
    for run in
        files.chunk_by_mut(|left, right| free.contains(&path(left)) && free.contains(&path(right)))
    {
        run.sort_by_key(&path);
    }
}

fn first_difference(expected: &str, found: &str) -> String {
    let same =
        expected.bytes().zip(found.bytes()).take_while(|(left, right)| left == right).count();
    let around = |text: &str| {
        String::from_utf8_lossy(
            &text.as_bytes()[same.saturating_sub(20).min(text.len())..(same + 60).min(text.len())],
        )
        .into_owned()
    };
    format!("differs at byte {same}: expected {:?}, found {:?}", around(expected), around(found))
}

fn is_space(character: char) -> bool {
    character.is_whitespace() || character == '\u{feff}'
}
