//! Compares the list of skills in a request with an explanation.

use convoke_explain::{AgentReport, Skill};
use convoke_vendor::{ListedSkill, MeasuredCli};

use super::compare::Difference;

/// Compares the list of skills in the texts of a request with an explanation.
pub(super) fn differences(
    cli: &dyn MeasuredCli,
    report: &AgentReport,
    texts: &[&str],
) -> Vec<Difference> {
    let mut listed: Vec<Option<ListedSkill<'_>>> =
        cli.listed_skills(texts).into_iter().map(Some).collect();
    let mut differences = Vec::new();
    let mut before: Option<usize> = None;
    let unsteady = cli.unsteady_bytes(texts);
    let is_cut = report.skills.iter().any(|skill| !skill.whole);
    for skill in &report.skills {
        let Some(at) =
            listed.iter().position(|it| it.as_ref().is_some_and(|it| is_same(it, skill)))
        else {
            differences.push(Difference::SkillMissing { name: skill.name.clone() });
            continue;
        };
        let Some(found) = listed.get_mut(at).and_then(Option::take) else { continue };
        let arrived = found.description.len() as u64;
        let is_right = match &skill.text {
            // The program may add a note of its own.
            Some(text) if text.trim().is_empty() => arrived == 0,
            Some(text) => {
                let (arrived, text) = (found.description.trim(), text.trim());
                let is_shorter =
                    is_cut && text.starts_with(arrived) && text.len() - arrived.len() <= unsteady;
                arrived.starts_with(text) || is_shorter
            }
            // Of a text inside the program only the length is known; the mark of a cut may follow.
            None => (0..=MARK).contains(&arrived.saturating_sub(skill.description_bytes_loaded)),
        };
        if !is_right {
            let explained =
                skill.text.as_ref().map_or(skill.description_bytes_loaded, |it| it.len() as u64);
            let name = skill.name.clone();
            differences.push(Difference::SkillBytes { name, explained, arrived });
        }
        if before.is_some_and(|before| at < before) && cli.orders_skills() {
            differences.push(Difference::SkillOrder { name: skill.name.clone() });
        }
        before = before.max(Some(at));
    }
    let unexplained = listed.into_iter().flatten();
    differences
        .extend(unexplained.map(|it| Difference::SkillUnexplained { name: it.name.to_owned() }));
    differences
}

/// The bytes of the longest mark of a cut.
const MARK: u64 = 3;

fn is_same(listed: &ListedSkill<'_>, skill: &Skill) -> bool {
    let rest = listed.name.strip_prefix(&*skill.name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
}

#[cfg(test)]
mod tests {
    use convoke_explain::{Edition, Session, explain};
    use convoke_files::MemoryTree;

    use super::*;

    fn report(edition: Edition) -> AgentReport {
        let mut tree = MemoryTree::default();
        tree.create_directory("/r/.git");
        tree.create_directory("/h");
        for place in ["/r/.agents/skills", "/r/.claude/skills"] {
            for (name, text) in [("one", "First: a <skill>."), ("two", "Second.")] {
                let text = format!("---\nname: {name}\ndescription: \"{text}\"\n---\nbody\n");
                tree.write(format!("{place}/{name}/SKILL.md"), text);
            }
        }
        let mut session = Session::new("/r", "/h");
        session.variables.insert("GEMINI_CLI_TRUST_WORKSPACE".into(), "true".into());
        let mut report = explain(&tree, &session, &[edition]).agents.remove(0);
        report.skills.retain(|it| it.text.is_some());
        report
    }

    fn cli(edition: Edition) -> &'static dyn MeasuredCli {
        convoke_vendors::cli(edition.agent()).unwrap()
    }

    fn compare(edition: Edition, text: &str) -> Vec<String> {
        let found = differences(cli(edition), &report(edition), &["Nothing here.", text]);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_agents_list_is_read() {
        let claude = "Agents:\n- one-more: x\n\nThe following skills are available:\n\n- one: First: a &lt;skill&gt;.\n- two: Second.\n\nToday.";
        assert_eq!(compare(convoke_vendors::edition("claude").unwrap(), claude), [""; 0]);
        let codex = "### List\n- one: First: a <skill>. (file: r0/one/SKILL.md)\n- two: Second. (file: r0/two/SKILL.md)\n";
        assert_eq!(compare(convoke_vendors::edition("codex").unwrap(), codex), [""; 0]);
        let gemini = "<skill>\n<name>two</name>\n<description>Second.</description>\n</skill>\n<skill><name>one</name><description>First: a <skill>.</description></skill>";
        assert_eq!(compare(convoke_vendors::edition("gemini").unwrap(), gemini), [""; 0]);
    }

    #[test]
    fn the_table_of_roots_may_shorten_a_description_that_is_cut() {
        let mut report = report(convoke_vendors::edition("codex").unwrap());
        let list =
            "- one: First: a <skill>. (file: r0/one/SKILL.md)\n- two: Sec (file: r0/two/SKILL.md)";
        let table = "- `r0` = `/private/home/.codex/skills`\n";
        let compare = |report: &AgentReport, text: &str| {
            differences(cli(report.edition), report, &[text]).len()
        };
        assert_eq!(compare(&report, &format!("{table}{list}")), 1);
        report.skills[0].whole = false;
        assert_eq!(compare(&report, &format!("{table}{list}")), 0);
        assert_eq!(compare(&report, list), 1);
    }

    #[test]
    fn every_difference_names_its_skill() {
        let claude = |list: &str| {
            compare(
                convoke_vendors::edition("claude").unwrap(),
                &format!("The following skills are available:\n\n{list}\n\ny"),
            )
        };
        assert_eq!(
            claude("- two: Second.\n- one: First: a &lt;skill&gt;."),
            ["the skill two is explained after another, and arrived before it"]
        );
        assert_eq!(
            claude("- one: First\n- two\n- three: Third."),
            [
                "the description of the skill one is explained with 23 bytes, and 5 bytes arrived",
                "the description of the skill two is explained with 7 bytes, and 0 bytes arrived",
                "the skill three arrived and is not explained",
            ]
        );
        assert_eq!(claude("- two: Second."), ["the skill one is explained and did not arrive"]);
    }
}
