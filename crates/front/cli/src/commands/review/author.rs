//! The program that wrote a change, and one of another vendor to review it.

use convoke_agent::config::Catalog;
use convoke_changes::UsersRepository;
use convoke_inspect::HostEnvironment;
use convoke_vendor::MeasuredCli;

use crate::other_programs::{HomeArgument, with_catalog};
use crate::outcome::UsageError;

/// The program that wrote a change, and how that is known.
#[derive(Debug, Clone)]
pub(super) struct Author {
    pub(super) program: String,
    pub(super) because: String,
}

/// Finds the author: by the commits of the change, else by the session that changed last in the repository.
pub(super) fn find(repository: &UsersRepository, base: &str) -> anyhow::Result<Option<Author>> {
    let messages = repository.messages_since(base)?;
    for message in &messages {
        if let Some(program) = named_in(message) {
            let because = "a commit names it".to_owned();
            return Ok(Some(Author { program, because }));
        }
    }
    with_catalog(&HomeArgument::default(), |catalog| {
        let root = repository.root().to_string_lossy();
        let sessions = catalog.list().sessions.into_iter();
        let mut here = sessions.filter(|session| session.cwd.as_deref() == Some(&*root));
        Ok(here.next().map(|session| Author {
            program: session.program.to_owned(),
            because: "the newest session in this directory is its".to_owned(),
        }))
    })
}

/// Returns the program that a commit names as its author: in the lines of people, or as what generated it.
fn named_in(message: &str) -> Option<String> {
    let lines = message.lines().enumerate().filter(|(at, line)| {
        let line = line.to_ascii_lowercase();
        *at < 2 || line.starts_with("co-authored-by:") || line.contains("generated with")
    });
    let words: Vec<String> = lines
        .flat_map(|(_, line)| line.split(|it: char| !it.is_alphanumeric()))
        .map(str::to_ascii_lowercase)
        .collect();
    let is_named =
        |cli: &&'static dyn MeasuredCli| words.iter().any(|it| it == cli.facts().command);
    convoke_vendors::clis().find(is_named).map(|cli| cli.facts().command.to_owned())
}

/// Returns an installed program of another vendor than the author's.
pub(super) fn other_vendor(
    author: &Author,
    catalog: &Catalog,
    host: &HostEnvironment,
) -> Result<String, UsageError> {
    let clis = convoke_vendors::clis().map(|cli| cli.facts().command);
    let mut others = clis.filter(|name| *name != author.program);
    let is_installed = |name: &&str| {
        let definition = catalog.get(name);
        definition.is_some_and(|it| host.agent_program(it.program()).is_some())
    };
    others.find(is_installed).map(str::to_owned).ok_or_else(|| {
        let program = &author.program;
        UsageError(format!(
            "{program} wrote the change, and no program of another vendor is installed; name a reviewer with --by"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_names_its_author_in_the_lines_of_people_only() {
        let message =
            |lines: &str| format!("Ann <ann@example.org>\nAnn <ann@example.org>\n{lines}");
        let named = |text: &str| named_in(&message(text));
        assert_eq!(named("fix\n\nCo-Authored-By: Claude <x@y>").as_deref(), Some("claude"));
        assert_eq!(named("fix\n\nGenerated with [Codex](u)").as_deref(), Some("codex"));
        assert_eq!(named("claude: describe its settings"), None);
        assert_eq!(named_in("codex <c@x>\nAnn <a@x>\nfix").as_deref(), Some("codex"));
    }
}
