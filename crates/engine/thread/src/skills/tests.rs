use super::{Scope, Skill, inject, mentioned};
use convoke_files::MemoryTree;

fn skill(name: &str, path: &str) -> Skill {
    Skill {
        name: name.to_owned(),
        description: "d".to_owned(),
        path: path.into(),
        scope: Scope::User,
        built_in: None,
    }
}

fn paths(text: &str) -> Vec<String> {
    let skills = [
        skill("alpha", "/s/alpha"),
        skill("beta", "/s/beta"),
        skill("twin", "/s/twin1"),
        skill("twin", "/s/twin2"),
        skill("HOME", "/s/home"),
    ];
    let chosen = mentioned(&skills, &[text], &mut Vec::new());
    chosen.iter().map(|it| it.path.display().to_string()).collect()
}

#[test]
fn mentions_choose_skills() {
    let cases: [(&str, &[&str]); 12] = [
        ("$beta then $alpha then $beta", &["/s/alpha", "/s/beta"]),
        ("use$alpha, please", &["/s/alpha"]),
        ("$Alpha", &[]),
        ("$alphabet", &[]),
        ("$alpha-x", &[]),
        ("$twin", &[]),
        ("[$twin](/s/twin2)", &["/s/twin2"]),
        ("[$whatever](skill:///s/beta)", &["/s/beta"]),
        ("[$alpha](/s/nowhere)", &[]),
        ("$alpha [$x](/s/beta)", &["/s/beta", "/s/alpha"]),
        ("[$alpha] (/s/alpha)", &["/s/alpha"]),
        ("$HOME", &[]),
    ];
    for (text, expected) in cases {
        assert_eq!(paths(text), expected, "{text}");
    }
}

#[test]
fn a_mention_that_means_several_skills_is_reported() {
    let skills = [skill("twin", "/a"), skill("twin", "/b")];
    let mut diagnostics = Vec::new();
    mentioned(&skills, &["$twin"], &mut diagnostics);
    assert_eq!(diagnostics[0].message, "$twin is the name of 2 skills, so none is sent");
}

#[test]
fn a_skill_that_cannot_be_read_is_a_warning_and_no_failure() {
    let mut tree = MemoryTree::default();
    tree.write("/s/a", "Do it.\n");
    let mut diagnostics = Vec::new();
    let text = inject(&tree, &skill("a", "/s/a"), &mut diagnostics)
        .map(|it| it.render().text().to_owned());
    assert_eq!(
        text.as_deref(),
        Some("<skill>\n<name>a</name>\n<path>/s/a</path>\nDo it.\n\n</skill>")
    );
    assert_eq!(inject(&tree, &skill("b", "/s/b"), &mut diagnostics), None);
    assert_eq!(diagnostics[0].code.name(), "skill.unreadable");
}
