use std::path::Path;

use convoke_files::MemoryTree;

use super::{FoundSkills, Scope, Search, Switches, find, read};
use crate::project_doc::Rules;

/// The owners of the directories, in the order of the search.
const SCOPES: [Scope; 6] =
    [Scope::Repo, Scope::User, Scope::User, Scope::System, Scope::Admin, Scope::Repo];

const BOTH: [Rules; 2] = [Rules::V0_98, Rules::V0_166];

#[test]
fn white_space_in_front_matter_is_collapsed() {
    let text = "---\nname: two\n  words\ndescription: |\n  first\n    second\n---\nbody";
    for rules in BOTH {
        let about = read(text, rules).unwrap();
        assert_eq!(about.name.as_deref(), Some("two words"));
        assert_eq!(about.description, "first second");
        assert_eq!(about.stated, "first\n  second");
    }
}

#[test]
fn front_matter_of_each_version() {
    let cases: [(&str, Option<&str>, Option<&str>); 20] = [
        ("name: a\ndescription: b", Some("b"), Some("b")),
        ("description: b", None, Some("b")),
        ("name: \"\"\ndescription: b", None, Some("b")),
        ("name: a", None, None),
        ("name: a\ndescription: \"  \"", None, None),
        ("name: a\ndescription: ~", Some("~"), None),
        ("name: a\ndescription: 12", Some("12"), Some("12")),
        ("name: a\ndescription: [b]", None, None),
        ("name: a\ndescription: b\ndescription: c", None, None),
        ("name: a\ndescription: b: c", None, Some("b: c")),
        ("name: a\ndescription: b: c #d", None, Some("b: c")),
        ("name: a\ndescription: [b] c", None, Some("[b] c")),
        ("name: a\ndescription: it's {b: c", None, Some("it's {b: c")),
        ("name: a\ndescription: @b", None, Some("@b")),
        ("name: a\ndescription: *b*", None, None),
        ("name: a\ndescription: \"b\" c", None, None),
        ("name: a\ndescription: b:", None, None),
        ("name: a\ndescription: b\nmetadata:\n  x: y: z", None, Some("b")),
        ("name: a\ndescription: b\nmetadata: c", None, None),
        ("name: a\ndescription: b\nmetadata:", Some("b"), Some("b")),
    ];
    for (front, old, new) in cases {
        let text = format!("---\n{front}\n---\nbody");
        let [found_old, found_new] = BOTH.map(|rules| read(&text, rules).map(|it| it.description));
        assert_eq!(found_old.ok().as_deref(), old, "0.98: {front}");
        assert_eq!(found_new.ok().as_deref(), new, "0.166: {front}");
    }
}

#[test]
fn what_is_wrong_with_front_matter_is_reported() {
    let name = "n".repeat(65);
    let long = "d".repeat(1025);
    let refused = [
        ("no front matter".to_owned(), "it has no part between --- lines"),
        ("---\nname: a\ndescription: b\n".to_owned(), "it has no part between --- lines"),
        (
            "\u{feff}---\nname: a\ndescription: b\n---\n".to_owned(),
            "it has no part between --- lines",
        ),
        ("---\ndescription: x\n---\n".to_owned(), "it has no `name`"),
        (
            format!("---\nname: {name}\ndescription: x\n---\n"),
            "its `name` has 65 characters and may have 64",
        ),
        (
            format!("---\nname: a\ndescription: {long}\n---\n"),
            "its `description` has 1025 characters and may have 1024",
        ),
    ];
    for (text, reason) in refused {
        assert_eq!(read(&text, Rules::V0_98).unwrap_err(), reason);
    }
    let text = format!("---\nname: a\ndescription: {long}\n---\n");
    assert_eq!(read(&text, Rules::V0_166).unwrap().description.len(), 1025);
}

fn tree() -> MemoryTree {
    let mut tree = MemoryTree::default();
    tree.create_directory("/r/.git");
    tree
}

fn skill(tree: &mut MemoryTree, folder: &str, name: &str) {
    tree.write(format!("{folder}/SKILL.md"), format!("---\nname: {name}\ndescription: d\n---\n"));
}

fn found(tree: &MemoryTree, rules: Rules) -> FoundSkills {
    find(
        tree,
        &Search {
            rules,
            cwd: Path::new("/r/p"),
            codex_home: Path::new("/h/.codex"),
            home: Some(Path::new("/h")),
            machine: Path::new("/etc/codex"),
            root_markers: &[".git".to_owned()],
            has_system: true,
        },
    )
}

fn listed(tree: &MemoryTree, rules: Rules) -> Vec<String> {
    let mut skills = found(tree, rules).skills;
    skills.sort_by(|a, b| a.path.cmp(&b.path));
    skills.iter().map(|it| format!("{} {}", it.name, it.path.display())).collect()
}

#[test]
fn every_place_is_searched_to_six_folders_below() {
    let mut tree = tree();
    let places =
        ["/r/.agents/skills", "/r/p/.codex/skills", "/h/.codex/skills", "/h/.agents/skills"];
    for place in places.into_iter().chain(["/h/.codex/skills/.system", "/etc/codex/skills"]) {
        skill(&mut tree, &format!("{place}/x"), "x");
    }
    skill(&mut tree, "/r/.agents/skills", "top");
    skill(&mut tree, "/r/.agents/skills/1/2/3/4/5/6", "six");
    skill(&mut tree, "/r/.agents/skills/1/2/3/4/5/6/7", "seven");
    skill(&mut tree, "/r/.agents/skills/.hidden", "hidden");
    skill(&mut tree, "/r/.claude/skills/other", "other");
    skill(&mut tree, "/r/p/below/.agents/skills/below", "below");
    for rules in BOTH {
        let skills = found(&tree, rules).skills;
        let scopes: Vec<_> = skills.iter().filter(|it| it.name == "x").map(|it| it.scope).collect();
        assert_eq!(scopes, SCOPES);
        let mut names: Vec<_> = skills.iter().map(|it| &*it.name).filter(|it| *it != "x").collect();
        names.sort_unstable();
        assert_eq!(names, ["six", "top"]);
    }
}

#[test]
fn codex_home_inside_the_project_is_the_users() {
    let mut tree = tree();
    skill(&mut tree, "/r/.codex/skills/x", "x");
    let search = Search {
        rules: Rules::V0_98,
        cwd: Path::new("/r"),
        codex_home: Path::new("/r/.codex"),
        home: None,
        machine: Path::new("/etc/codex"),
        root_markers: &[".git".to_owned()],
        has_system: true,
    };
    assert_eq!(find(&tree, &search).skills[0].scope, Scope::User);
}

#[test]
fn a_linked_folder_is_listed_once_and_a_linked_file_is_not() {
    let mut tree = tree();
    skill(&mut tree, "/shared/s", "s");
    tree.link("/r/.agents/skills/a", "/shared/s");
    tree.link("/r/.agents/skills/b", "/shared/s");
    tree.create_directory("/r/.agents/skills/file");
    tree.link("/r/.agents/skills/file/SKILL.md", "/shared/s/SKILL.md");
    assert_eq!(listed(&tree, Rules::V0_98), ["s /shared/s/SKILL.md"]);
    assert_eq!(listed(&tree, Rules::V0_166), ["s /r/.agents/skills/a/SKILL.md"]);
}

#[test]
fn a_plugin_gives_its_name_to_the_skills_below_it() {
    let mut tree = tree();
    skill(&mut tree, "/r/.agents/skills/p/skills/in", "in");
    skill(&mut tree, "/r/.agents/skills/q/in", "in");
    skill(&mut tree, "/r/.agents/skills/broken/in", "in");
    tree.write("/r/.agents/skills/p/.codex-plugin/plugin.json", r#"{"name": "plx"}"#);
    tree.write("/r/.agents/skills/q/.codex-plugin/plugin.json", "{}");
    tree.write("/r/.agents/skills/broken/.codex-plugin/plugin.json", "no JSON");
    let names = |rules| {
        let names = listed(&tree, rules);
        names.iter().map(|it| it.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(Rules::V0_166), ["in", "plx:in", "q:in"]);
    assert_eq!(names(Rules::V0_98), ["in", "in", "in"]);
}

#[test]
fn a_policy_hides_a_skill() {
    let mut tree = tree();
    for (name, value) in [("off", "false"), ("on", "true"), ("text", "\"false\"")] {
        skill(&mut tree, &format!("/r/.agents/skills/{name}"), name);
        let policy = format!("policy:\n  allow_implicit_invocation: {value}\n");
        tree.write(format!("/r/.agents/skills/{name}/agents/openai.yaml"), policy);
    }
    let skills = found(&tree, Rules::V0_166).skills;
    let hidden: Vec<_> = skills.iter().filter(|it| it.is_hidden).map(|it| &*it.name).collect();
    assert_eq!(hidden, ["off"]);
}

#[test]
fn skills_are_switched_off_by_path_or_name_and_later_entries_win() {
    let mut tree = tree();
    tree.link("/r/link", "/shared");
    let layer = |text: &str| text.parse::<toml::Table>().unwrap();
    let mut switches = Switches::default();
    let user = "[[skills.config]]\npath = \"skills/a/SKILL.md\"\nenabled = false\n\
                [[skills.config]]\npath = \"~/b/SKILL.md\"\nenabled = false\n\
                [[skills.config]]\nname = \"n\"\nenabled = false\n";
    switches.take(&layer(user), Path::new("/h/.codex"), Some(Path::new("/h")));
    let arguments = "[[skills.config]]\npath = \"/h/b/SKILL.md\"\nenabled = true\n";
    switches.take(&layer(arguments), Path::new("/r"), Some(Path::new("/h")));
    let switches = switches.without_links(&tree);
    assert!(switches.is_off(Path::new("/h/.codex/skills/a/SKILL.md")));
    assert!(!switches.is_off(Path::new("/h/b/SKILL.md")));
    assert!(switches.is_name_off("n") && !switches.is_name_off("m"));
}
