//! Rules of Gemini CLI, one test each; places are below `/w`, the home directory is `/w/home`.

use convoke_files::MemoryTree;

use super::*;

struct Place {
    tree: MemoryTree,
    session: Session,
}

fn place(cwd: &str, files: &[(&str, &str)]) -> Place {
    let mut tree = MemoryTree::default();
    tree.create_directory("/w/home");
    tree.create_directory(cwd);
    for (path, text) in files {
        tree.write(path, *text);
    }
    let mut session = Session::new(cwd, "/w/home");
    session.variables.insert("GEMINI_CLI_TRUST_WORKSPACE".into(), "true".into());
    Place { tree, session }
}

/// A repository at `/w/repo`, started in `/w/repo/sub`.
fn repository(files: &[(&str, &str)]) -> Place {
    let mut place = place("/w/repo/sub", files);
    place.tree.write("/w/repo/.git/HEAD", "x");
    place
}

impl Place {
    fn explain(&self) -> AgentReport {
        explain(&self.tree, &self.session)
    }

    fn loaded(&self) -> Vec<String> {
        let files = self.explain().loaded.into_iter();
        files.map(|file| file.path.display().to_string()).collect()
    }

    fn text(&self) -> String {
        self.explain().loaded.first().map(|file| file.text.clone()).unwrap_or_default()
    }

    fn codes(&self) -> Vec<String> {
        self.explain().diagnostics.iter().map(|it| it.code.name().to_owned()).collect()
    }

    fn set(mut self, name: &str, value: &str) -> Self {
        self.session.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    fn settings(mut self, text: &str) -> Self {
        self.tree.write("/w/home/.gemini/settings.json", text);
        self
    }
}

#[test]
fn user_then_memory_then_extensions_then_project() {
    let place = repository(&[
        ("/w/GEMINI.md", "above the repository"),
        ("/w/repo/GEMINI.md", "root"),
        ("/w/repo/sub/GEMINI.md", "sub"),
        ("/w/repo/sub/below/GEMINI.md", "below"),
        ("/w/repo/.gemini/GEMINI.md", "never"),
        ("/w/home/.gemini/GEMINI.md", "user"),
        ("/w/home/.gemini/tmp/sub/memory/MEMORY.md", "notes"),
        ("/w/home/.gemini/tmp/sub/memory/GEMINI.md", "older notes"),
        ("/w/home/.gemini/extensions/b/gemini-extension.json", r#"{"name": "b"}"#),
        ("/w/home/.gemini/extensions/b/GEMINI.md", "b"),
        (
            "/w/home/.gemini/extensions/a/gemini-extension.json",
            r#"{"name": "a", "contextFileName": ["X.md", "Y.md"]}"#,
        ),
        ("/w/home/.gemini/extensions/a/X.md", "x"),
        ("/w/home/.gemini/extensions/a/GEMINI.md", "not named"),
        ("/w/home/.gemini/extensions/none/GEMINI.md", "no manifest"),
    ]);
    let expected = [
        "/w/home/.gemini/GEMINI.md",
        "/w/home/.gemini/tmp/sub/memory/MEMORY.md",
        "/w/home/.gemini/extensions/a/X.md",
        "/w/home/.gemini/extensions/b/GEMINI.md",
        "/w/repo/GEMINI.md",
        "/w/repo/sub/GEMINI.md",
    ];
    assert_eq!(place.loaded(), expected);
    assert_eq!(place.codes(), ["memory.loaded"]);
}

#[test]
fn without_an_index_the_notes_are_those_under_the_context_names() {
    let place = repository(&[("/w/home/.gemini/tmp/sub/memory/GEMINI.md", "notes")]);
    assert_eq!(place.loaded(), ["/w/home/.gemini/tmp/sub/memory/GEMINI.md"]);
}

#[test]
fn configured_names_add_to_the_default() {
    let files = [
        ("/w/repo/sub/GEMINI.md", "g"),
        ("/w/repo/sub/AGENTS.md", "a"),
        ("/w/repo/sub/docs/CTX.md", "c"),
        ("/w/home/.gemini/GEMINI.md", "g"),
        ("/w/home/.gemini/AGENTS.md", "a"),
    ];
    let user = ["/w/home/.gemini/GEMINI.md"];
    let cases: [(&str, Vec<&str>); 5] = [
        (
            r#""AGENTS.md""#,
            vec![
                "/w/home/.gemini/AGENTS.md",
                user[0],
                "/w/repo/sub/AGENTS.md",
                "/w/repo/sub/GEMINI.md",
            ],
        ),
        (
            r#"["GEMINI.md", "AGENTS.md"]"#,
            vec![
                user[0],
                "/w/home/.gemini/AGENTS.md",
                "/w/repo/sub/AGENTS.md",
                "/w/repo/sub/GEMINI.md",
            ],
        ),
        (r#""./docs/CTX.md""#, vec![user[0], "/w/repo/sub/GEMINI.md", "/w/repo/sub/docs/CTX.md"]),
        (r#""""#, vec![user[0], "/w/repo/sub/GEMINI.md"]),
        ("[]", vec![user[0], "/w/repo/sub/GEMINI.md"]),
    ];
    for (names, expected) in cases {
        let settings = format!(r#"{{"context": {{"fileName": {names}}}}} // comments are fine"#);
        assert_eq!(repository(&files).settings(&settings).loaded(), expected, "{names}");
    }
    let both = repository(&files).settings(r#"{"context": {"fileName": "AGENTS.md"}}"#);
    assert_eq!(both.codes(), ["names.add-up"]);
    let legacy = repository(&files).settings(r#"{"contextFileName": "AGENTS.md"}"#);
    assert_eq!(legacy.loaded(), [user[0], "/w/repo/sub/GEMINI.md"]);
}

#[test]
fn settings_count_in_the_working_directory_and_not_above_it() {
    let setting = r#"{"context": {"fileName": "AGENTS.md"}}"#;
    let here =
        repository(&[("/w/repo/sub/.gemini/settings.json", setting), ("/w/repo/AGENTS.md", "a")]);
    assert_eq!(here.loaded(), ["/w/repo/AGENTS.md"]);
    let above =
        repository(&[("/w/repo/.gemini/settings.json", setting), ("/w/repo/AGENTS.md", "a")]);
    assert!(above.loaded().is_empty());
    assert_eq!(above.codes(), ["settings.elsewhere"]);
}

#[test]
fn files_are_sorted_by_path_so_that_the_root_may_come_last() {
    for (name, root_is_last) in
        [("App", true), ("01-x", true), (".x", true), ("app", false), ("Zoo", false)]
    {
        let sub = format!("/w/repo/{name}/GEMINI.md");
        let mut place = place(
            &format!("/w/repo/{name}"),
            &[("/w/repo/.git/HEAD", "x"), ("/w/repo/GEMINI.md", "root"), (&sub, "sub")],
        );
        let loaded = place.loaded();
        assert_eq!(loaded[1] == "/w/repo/GEMINI.md", root_is_last, "{name}");
        let expected: &[&str] = if root_is_last { &["order.by-name"] } else { &[] };
        assert_eq!(place.codes(), expected, "{name}");
        place.tree.remove(&sub);
        assert!(place.codes().is_empty());
    }
}

#[test]
fn the_search_goes_up_to_the_nearest_marker() {
    let files =
        [("/w/repo/GEMINI.md", "root"), ("/w/repo/sub/GEMINI.md", "sub"), ("/w/repo/pom.xml", "")];
    let both = ["/w/repo/GEMINI.md", "/w/repo/sub/GEMINI.md"];
    let only = ["/w/repo/sub/GEMINI.md"];
    let unmarked = || place("/w/repo/sub", &files);
    assert_eq!(repository(&files).loaded(), both);
    assert_eq!(unmarked().loaded(), only);
    let markers = |list: &str| format!(r#"{{"context": {{"memoryBoundaryMarkers": {list}}}}}"#);
    assert_eq!(unmarked().settings(&markers(r#"["pom.xml"]"#)).loaded(), both);
    assert_eq!(repository(&files).settings(&markers("[]")).loaded(), only);
    assert_eq!(repository(&files).settings(&markers(r#"["../x", "/w"]"#)).loaded(), only);
    let mut near = repository(&files).settings(&markers(r#"[".git", "near"]"#));
    near.tree.write("/w/repo/sub/near", "");
    assert_eq!(near.loaded(), only);
    for stray in ["file", "directory"] {
        let mut place = repository(&files);
        match stray {
            "file" => place.tree.write("/w/repo/sub/.git", "nonsense"),
            _ => place.tree.create_directory("/w/repo/sub/.git"),
        }
        assert_eq!(place.loaded(), only, "{stray}");
    }
}

#[test]
fn the_users_own_directory_is_not_walked() {
    let place = place(
        "/w/home/.gemini",
        &[
            ("/w/home/.gemini/GEMINI.md", "user"),
            ("/w/home/.git/HEAD", "x"),
            ("/w/home/GEMINI.md", "home"),
        ],
    );
    assert_eq!(place.loaded(), ["/w/home/.gemini/GEMINI.md"]);
}

#[test]
fn included_directories_are_walked_too_and_sorted_among_the_rest() {
    let files = [
        ("/w/repo/sub/GEMINI.md", "sub"),
        ("/w/extra/.git/HEAD", "x"),
        ("/w/extra/GEMINI.md", "extra"),
        ("/w/extra/in/GEMINI.md", "in"),
    ];
    let expected = ["/w/extra/GEMINI.md", "/w/extra/in/GEMINI.md", "/w/repo/sub/GEMINI.md"];
    let setting = r#"{"context": {"includeDirectories": ["/w/extra/in"], "loadMemoryFromIncludeDirectories": false}}"#;
    let set = repository(&files).settings(setting);
    assert_eq!(set.loaded(), expected);
    assert_eq!(set.codes(), ["added-directory.sorted"]);
    let mut given = repository(&files);
    given.session.arguments = vec!["--include-directories".into(), "/w/extra/in".into()];
    assert_eq!(given.loaded(), expected);
}

#[test]
fn a_read_brings_the_directories_from_there_up_to_the_marker() {
    let files = [
        ("/w/repo/GEMINI.md", "root"),
        ("/w/repo/sub/a/GEMINI.md", "a"),
        ("/w/repo/sub/a/b/GEMINI.md", "@./c.md"),
        ("/w/repo/sub/a/b/c.md", "c"),
        ("/w/repo/other/GEMINI.md", "other"),
    ];
    let mut place = repository(&files);
    place.session.reads = vec!["/w/repo/sub/a/b/f.txt".into(), "/w/repo/other/f.txt".into()];
    let expected = [
        "/w/repo/GEMINI.md",
        "/w/repo/sub/a/GEMINI.md",
        "/w/repo/sub/a/b/GEMINI.md",
        "/w/repo/sub/a/b/c.md",
    ];
    assert_eq!(place.loaded(), expected);
}

#[test]
fn a_mention_is_replaced_by_its_file_or_by_the_reason_why_not() {
    let cases = [
        (
            "a @./x.md b",
            "a <!-- Imported from: ./x.md -->\nX\n\n<!-- End of import from: ./x.md --> b",
        ),
        ("@x.md", "<!-- Imported from: x.md -->\nX\n\n<!-- End of import from: x.md -->"),
        (
            "@alice",
            "<!-- Import failed: alice - ENOENT: no such file or directory, access '/w/repo/sub/alice' -->",
        ),
        ("@docs", "<!-- Import failed: docs - EISDIR: illegal operation on a directory, read -->"),
        (
            "@x.md/y",
            "<!-- Import failed: x.md/y - ENOTDIR: not a directory, access '/w/repo/sub/x.md/y' -->",
        ),
        ("@../../out.md", "<!-- Import failed: ../../out.md - Path traversal attempt -->"),
        ("@https://x.y/z", "<!-- Import failed: https://x.y/z - Path traversal attempt -->"),
        ("@./leads-out.md", "<!-- Import failed: ./leads-out.md - Path traversal attempt -->"),
        ("@~/x.md `@x.md` (@x.md)", "@~/x.md `@x.md` (@x.md)"),
        (
            "<!-- @x.md -->",
            "<!-- <!-- Imported from: x.md -->\nX\n\n<!-- End of import from: x.md --> -->",
        ),
    ];
    for (text, expected) in cases {
        let mut place = repository(&[
            ("/w/repo/sub/GEMINI.md", text),
            ("/w/repo/sub/x.md", "X\n"),
            ("/w/repo/sub/docs/y.md", "Y"),
            ("/w/out.md", "out"),
        ]);
        place.tree.link("/w/repo/sub/leads-out.md", "/w/out.md");
        assert_eq!(place.text(), expected, "{text}");
    }
}

#[test]
fn failures_are_distinguished_as_prose_missing_and_outside() {
    let place = repository(&[
        ("/w/repo/sub/GEMINI.md", "@alice\n@docs/a.md\n@../../x.md\n\n    @b.md\n<!-- @b.md -->\n"),
        ("/w/repo/sub/b.md", "b"),
    ]);
    let report = place.explain();
    let found: Vec<_> =
        report.diagnostics.iter().map(|it| (it.code.name(), it.line.unwrap_or(0))).collect();
    let expected = [
        ("import.prose", 1),
        ("import.missing", 2),
        ("import.outside", 3),
        ("import.in-comment", 5),
        ("import.in-comment", 6),
    ];
    assert_eq!(found, expected);
}

#[test]
fn imports_go_five_deep_and_never_past_themselves() {
    let mut files: Vec<(String, String)> = (1..=6)
        .map(|n| (format!("/w/repo/sub/i{n}.md"), format!("i{n} @./i{}.md", n + 1)))
        .collect();
    files.push(("/w/repo/sub/GEMINI.md".into(), "@./i1.md".into()));
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let place = repository(&files);
    let names = ["GEMINI", "i1", "i2", "i3", "i4", "i5"];
    assert_eq!(place.loaded(), names.map(|name| format!("/w/repo/sub/{name}.md")));
    assert!(place.text().contains("i5 @./i6.md\n<!-- End"));

    let own = repository(&[("/w/repo/sub/GEMINI.md", "x @./GEMINI.md")]);
    let expected = "x <!-- Imported from: ./GEMINI.md -->\nx <!-- File already processed: ./GEMINI.md -->\n<!-- End of import from: ./GEMINI.md -->";
    assert_eq!(own.text(), expected);
}

#[test]
fn an_import_may_not_leave_the_project_of_its_file() {
    let without_marker = place("/w/plain", &[("/w/plain/GEMINI.md", "@../x.md"), ("/w/x.md", "x")]);
    assert!(without_marker.text().contains("Path traversal attempt"));
    let users = repository(&[
        ("/w/home/.gemini/GEMINI.md", "@../notes.md @./in.md"),
        ("/w/home/notes.md", "n"),
        ("/w/home/.gemini/in.md", "in"),
    ]);
    assert_eq!(users.loaded(), ["/w/home/.gemini/GEMINI.md", "/w/home/.gemini/in.md"]);
}

#[test]
fn the_flat_format_writes_each_file_once_and_the_last_import_first() {
    let place = repository(&[
        ("/w/repo/sub/GEMINI.md", "main\n@./a.md\n@./b.md\n@./a.md\n"),
        ("/w/repo/sub/a.md", "a\n@./c.md\n"),
        ("/w/repo/sub/b.md", "b\n"),
        ("/w/repo/sub/c.md", "c\n"),
    ])
    .settings(r#"{"context": {"importFormat": "flat"}}"#);
    let names = ["GEMINI", "a", "c", "b"];
    assert_eq!(place.loaded(), names.map(|name| format!("/w/repo/sub/{name}.md")));
    let block = |name: &str, text: &str| {
        format!("--- File: {name} ---\n{text}\n--- End of File: {name} ---")
    };
    let blocks = [
        block("/w/repo/sub", "main\n@./a.md\n@./b.md\n@./a.md"),
        block("/w/repo/sub/a.md", "a\n@./c.md"),
        block("/w/repo/sub/c.md", "c"),
        block("/w/repo/sub/b.md", "b"),
    ];
    assert_eq!(place.text(), blocks.join("\n\n"));
    let report = place.explain();
    assert_eq!(report.bytes_loaded(), report.loaded[0].text.len() as u64);
    assert_eq!(report.loaded[1].text, "a\n@./c.md\n");
}

#[test]
fn a_blank_file_has_a_block_in_the_flat_format() {
    let place = repository(&[("/w/repo/GEMINI.md", " \n"), ("/w/repo/sub/GEMINI.md", "text")])
        .settings(r#"{"context": {"importFormat": "flat"}}"#);
    assert_eq!(place.loaded(), ["/w/repo/GEMINI.md", "/w/repo/sub/GEMINI.md"]);
    assert_eq!(place.text(), "--- File: /w/repo ---\n\n--- End of File: /w/repo ---");
}

#[test]
fn a_system_text_of_the_users_lists_no_skills_unless_it_asks_for_them() {
    let skill = "---\nname: own\ndescription: d\n---\n";
    let place = |text: &str| {
        repository(&[
            ("/w/repo/sub/.gemini/skills/own/SKILL.md", skill),
            ("/w/repo/sub/.gemini/system.md", text),
        ])
    };
    let listed = |place: Place| place.explain().skills.iter().filter(|it| it.name == "own").count();
    for (value, expected) in [("1", 0), ("TRUE", 0), ("0", 1), ("false", 1), ("", 1)] {
        assert_eq!(listed(place("Mine.").set("GEMINI_SYSTEM_MD", value)), expected, "{value}");
    }
    assert_eq!(listed(place("Mine. ${AgentSkills}").set("GEMINI_SYSTEM_MD", "1")), 1);
    let mut by_file = place("Mine.");
    by_file.tree.write("/w/repo/.env", "GEMINI_SYSTEM_MD=/w/repo/sub/.gemini/system.md\n");
    assert_eq!(listed(by_file), 0);
    let missing = place("Mine.").set("GEMINI_SYSTEM_MD", "/w/none.md").explain();
    assert!(missing.no_request.is_some());
}

#[test]
fn one_file_is_loaded_once_whatever_leads_to_it() {
    let mut place = repository(&[("/w/repo/AGENTS.md", "text")])
        .settings(r#"{"context": {"fileName": "AGENTS.md"}}"#);
    place.tree.link("/w/repo/GEMINI.md", "AGENTS.md");
    place.tree.link("/w/repo/sub/GEMINI.md", "../AGENTS.md");
    assert_eq!(place.loaded(), ["/w/repo/AGENTS.md"]);
}

#[test]
fn hard_links_of_a_file_load_once() {
    let root = tempfile::tempdir().unwrap();
    let path = |below: &str| root.path().canonicalize().unwrap().join(below);
    for directory in ["home", "repo/.git", "repo/sub"] {
        std::fs::create_dir_all(path(directory)).unwrap();
    }
    std::fs::write(path("repo/GEMINI.md"), "Rules.\n").unwrap();
    std::fs::hard_link(path("repo/GEMINI.md"), path("repo/sub/GEMINI.md")).unwrap();
    let mut session = Session::new(path("repo/sub"), path("home"));
    session.variables.insert("GEMINI_CLI_TRUST_WORKSPACE".into(), "true".into());
    let loaded = explain(&convoke_files::Disk, &session).loaded;
    assert_eq!(loaded.len(), 1, "{loaded:?}");
    assert_eq!(loaded[0].path, path("repo/GEMINI.md"));
}

#[test]
fn one_bad_file_costs_nothing_but_itself() {
    let mut place =
        repository(&[("/w/repo/GEMINI.md", "locked"), ("/w/repo/sub/GEMINI.md", "fine")]);
    place.tree.lock("/w/repo/GEMINI.md");
    assert_eq!(place.loaded(), ["/w/repo/sub/GEMINI.md"]);
    place.tree.remove("/w/repo/GEMINI.md");
    place.tree.link("/w/repo/GEMINI.md", "GEMINI.md");
    assert_eq!(place.loaded(), ["/w/repo/sub/GEMINI.md"]);
    place.tree.remove("/w/repo/GEMINI.md");
    place.tree.create_directory("/w/repo/GEMINI.md");
    assert_eq!(place.loaded(), ["/w/repo/sub/GEMINI.md"]);
}

#[test]
fn an_untrusted_folder_makes_no_request() {
    let files = [("/w/repo/sub/GEMINI.md", "text"), ("/w/home/.gemini/GEMINI.md", "user")];
    let untrusted = || {
        let mut place = repository(&files);
        place.session.variables.clear();
        place
    };
    assert!(untrusted().loaded().is_empty());
    assert_eq!(untrusted().codes(), ["folder.untrusted"]);
    // Nor does one without any file to load, which nothing else shows.
    let mut empty = repository(&[]);
    assert_eq!(empty.explain().no_request, None);
    empty.session.variables.clear();
    assert!(empty.explain().no_request.is_some() && empty.explain().ignored.is_empty());
    for settings in ["{bad", r#"{"context": {"fileName": 5}}"#] {
        let both = untrusted().settings(settings);
        assert!(both.loaded().is_empty());
        assert_eq!(both.codes(), ["settings.malformed", "folder.untrusted"], "{settings}");
    }
    let mut skipped = untrusted();
    skipped.session.arguments = vec!["--skip-trust".into()];
    assert_eq!(skipped.loaded().len(), 2);
    let off = untrusted().settings(r#"{"security": {"folderTrust": {"enabled": false}}}"#);
    assert_eq!(off.loaded().len(), 2);
    let mut by_project = untrusted();
    by_project.tree.write(
        "/w/repo/sub/.gemini/settings.json",
        r#"{"security": {"folderTrust": {"enabled": false}}}"#,
    );
    assert!(by_project.loaded().is_empty());
    let mut listed = untrusted();
    listed.tree.write("/w/home/.gemini/trustedFolders.json", r#"{"/w/repo": "TRUST_FOLDER"}"#);
    assert_eq!(listed.loaded().len(), 2);
}

#[test]
fn more_than_the_model_can_take_makes_no_request() {
    let mut place = repository(&[("/w/repo/GEMINI.md", "small")]);
    place.tree.write("/w/repo/sub/GEMINI.md", vec![b'x'; 1024 * 1024]);
    assert_eq!(place.loaded().len(), 2);
    place.tree.write("/w/repo/sub/GEMINI.md", vec![b'x'; 4 * 1024 * 1024 + 1]);
    assert!(place.loaded().is_empty());
    assert_eq!(place.codes(), ["file.too-large"]);
}

#[test]
fn imports_that_multiply_are_stopped_when_no_request_could_hold_them() {
    let all: Vec<_> = (0..60).map(|n| format!("@./f{n}.md")).collect();
    let all = all.join("\n");
    let mut files: Vec<(String, String)> =
        (0..60).map(|n| (format!("/w/repo/sub/f{n}.md"), all.clone())).collect();
    files.push(("/w/repo/sub/GEMINI.md".into(), all));
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    assert_eq!(repository(&files).codes().last().map(String::as_str), Some("file.too-large"));
}

#[test]
fn another_home_can_be_named() {
    let mut place = repository(&[
        ("/w/other/.gemini/GEMINI.md", "moved"),
        ("/w/home/.gemini/GEMINI.md", "not this"),
    ]);
    place.session.variables.insert("GEMINI_CLI_HOME".into(), "/w/other".into());
    assert_eq!(place.loaded(), ["/w/other/.gemini/GEMINI.md"]);
}

#[test]
fn settings_that_end_the_program_leave_nothing_loaded() {
    let files = [("/w/repo/sub/GEMINI.md", "g")];
    let cases = [
        ("{bad", "settings.malformed"),
        ("[]", "settings.malformed"),
        (r#"{"context": {"fileName": 5}}"#, "settings.malformed"),
        (r#"{"context": {"fileName": ["A.md", 5]}}"#, "settings.malformed"),
        (r#"{"context": {"memoryBoundaryMarkers": [1]}}"#, "settings.malformed"),
        (r#"{"context": {"includeDirectories": ["missing"]}}"#, "added-directory.missing"),
    ];
    for (settings, code) in cases {
        let place = repository(&files).settings(settings);
        assert!(place.loaded().is_empty(), "{settings}");
        assert_eq!(place.codes(), [code], "{settings}");
    }
}

#[test]
fn a_name_leads_from_each_directory_wherever_it_points() {
    let files =
        [("/w/repo/AGENTS.md", "a"), ("/w/repo/sub/etc/x.md", "x"), ("/etc/x.md", "not this one")];
    let place =
        repository(&files).settings(r#"{"context": {"fileName": ["../AGENTS.md", "/etc/x.md"]}}"#);
    assert_eq!(place.loaded(), ["/w/repo/AGENTS.md", "/w/repo/sub/etc/x.md"]);
}

#[test]
fn a_link_that_leads_nowhere_or_in_circles_is_reported() {
    for target in ["GEMINI.md", "missing.md"] {
        let mut place = repository(&[]);
        place.tree.link("/w/repo/sub/GEMINI.md", target);
        assert_eq!(place.codes(), ["file.unreadable"], "{target}");
    }
}

#[test]
fn the_system_text_has_at_most_two_line_breaks_in_a_row() {
    let text = "one\n\n\n\ntwo\n\nthree\r\n\r\n\r\nfour\n";
    let place = place(
        "/w/p",
        &[("/w/home/.gemini/GEMINI.md", text), ("/w/p/GEMINI.md", text), ("/w/p/.git/HEAD", "x")],
    );
    let texts: Vec<String> = place.explain().loaded.into_iter().map(|file| file.text).collect();
    let expected = "one\n\ntwo\n\nthree\r\n\r\n\r\nfour";
    assert_eq!(texts, [expected, text.trim_end()]);
}
