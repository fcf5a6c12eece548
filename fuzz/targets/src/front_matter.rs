use std::path::Path;

use convoke_explain::{Session, explain};
use convoke_files::MemoryTree;
use convoke_thread::config::{Config, Machine, Overrides};
use convoke_thread::pack::Shape;
use convoke_thread::skills::{SkillSearch, find};

const RULE: &str = "/r/.claude/rules/a.md";
const SKILL: &str = "/r/.codex/skills/a/SKILL.md";

/// Reads any bytes as a rule of Claude Code and as a skill: what is loaded of a rule is counted to the
/// byte, and a skill is listed within its limits, or refused with a diagnostic.
pub fn front_matter(bytes: &[u8]) -> bool {
    let mut tree = MemoryTree::default();
    tree.write("/r/.git/HEAD", "ref: refs/heads/main");
    tree.write(RULE, bytes);
    tree.write(SKILL, bytes);
    check_rule(&tree);
    check_skill(&tree)
}

fn check_rule(tree: &MemoryTree) {
    let mut session = Session::new("/r", "/h");
    session.reads = vec!["/r/src/f.ts".into()];
    let editions: Vec<_> = convoke_vendors::edition("claude").into_iter().collect();
    for agent in explain(tree, &session, &editions).agents {
        assert!(agent.loaded.len() <= 1, "a rule is loaded once");
        for file in &agent.loaded {
            assert_eq!(file.path, Path::new(RULE));
            assert_eq!(file.bytes_loaded, file.text.len() as u64);
        }
    }
}

/// Returns whether the skill is listed.
fn check_skill(tree: &MemoryTree) -> bool {
    let machine = Machine {
        home: Some("/h".into()),
        codex_home: "/h/.codex".into(),
        cwd: "/r".into(),
        shell: "bash".to_owned(),
        tmpdir: None,
        openai_base_url: None,
    };
    let shape = Shape::Codex0_98;
    let config = Config::load(tree, &machine, shape, &Overrides::default());
    let config = config.expect("a configuration of defaults");
    let places = SkillSearch {
        cwd: Path::new("/r"),
        machine: &machine,
        config: &config,
        shape,
        system: &[],
    };
    let mut diagnostics = Vec::new();
    let skills = find(tree, &places, &mut diagnostics);
    assert_eq!(skills.len() + diagnostics.len(), 1, "a skill is listed or refused");
    for skill in &skills {
        assert!((1..=64).contains(&skill.name.chars().count()));
        assert!((1..=1024).contains(&skill.description.chars().count()));
        assert!(!skill.name.contains('\n') && !skill.description.contains('\n'));
    }
    !skills.is_empty()
}
