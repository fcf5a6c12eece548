use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// A directory with files of every kind, and a file outside that must stay hidden.
fn lab() -> (tempfile::TempDir, Toolbox) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("work");
    fs::create_dir_all(root.join("src/deep")).unwrap();
    fs::create_dir(root.join(".git")).unwrap();
    fs::write(folder.path().join("secret.txt"), "needle outside").unwrap();
    fs::write(root.join("a.txt"), "one\ntwo needle\nthree\n").unwrap();
    fs::write(root.join("src/deep/b.rs"), "fn needle() {}\n").unwrap();
    fs::write(root.join(".git/config"), "needle in git").unwrap();
    fs::write(root.join("image.png"), b"\x89PNG\0needle").unwrap();
    fs::write(root.join("latin.txt"), b"caf\xe9 needle").unwrap();
    fs::write(root.join("empty"), "").unwrap();
    symlink("../secret.txt", root.join("out.txt")).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("src/deep", root.join("inside")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    let toolbox = Toolbox::open(&root).unwrap();
    (folder, toolbox)
}

#[expect(clippy::needless_pass_by_value, reason = "calls read better without a reference")]
fn call(toolbox: &Toolbox, name: &str, arguments: Value) -> (bool, String) {
    let output = toolbox.run(name, &arguments.to_string());
    (output.ok, output.text)
}

#[test]
fn no_path_leads_out_of_the_directory() {
    let (folder, toolbox) = lab();
    let outside = folder.path().join("secret.txt").display().to_string();
    let missing = folder.path().join("missing").display().to_string();
    for path in [
        "../secret.txt",
        "out.txt",
        "up/secret.txt",
        "up",
        "/etc/passwd",
        "src/../../secret.txt",
        "../missing",
        "/proc/self/environ",
        &outside,
        &missing,
    ] {
        for (name, arguments) in [
            ("read_file", json!({"path": path})),
            ("list_files", json!({"path": path})),
            ("search_text", json!({"text": "needle", "path": path})),
        ] {
            let (ok, text) = call(&toolbox, name, arguments);
            assert!(
                !ok && text.contains("not below the working directory"),
                "{name} {path}: {text}"
            );
        }
    }
}

#[test]
fn secrets_in_the_working_directory_are_neither_listed_nor_read_nor_searched() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().canonicalize().unwrap();
    for (name, text) in [(".ssh/id", "needle"), (".config/gh/hosts", "needle"), ("a.txt", "needle")]
    {
        fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
        fs::write(home.join(name), text).unwrap();
    }
    symlink(".ssh/id", home.join("link")).unwrap();
    let secrets =
        Secrets::of_user(Some(&home), &home, |_| None, &[], convoke_agent::Programs::default());
    let toolbox = Toolbox::open(&home).unwrap().without(&secrets, &home).unwrap();
    let (_, listed) = call(&toolbox, "list_files", json!({"path": "."}));
    assert_eq!(listed, ".config/\na.txt\nlink@");
    for path in [".ssh", ".ssh/id", "link", ".config/gh/hosts"] {
        let (done, told) = call(&toolbox, "read_file", json!({"path": path}));
        assert!(!done && !told.contains("needle"), "{path}: {told}");
    }
    let (_, found) = call(&toolbox, "search_text", json!({"text": "needle"}));
    assert!(found.contains("a.txt") && !found.contains("gh") && !found.contains("id"), "{found}");
}

/// A member could put a link to the keys in the place of another one's directory.
#[test]
fn a_directory_is_opened_through_no_link_and_inside_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().canonicalize().unwrap();
    let (project, keys) = (home.join("project"), home.join(".ssh"));
    for directory in [project.join("real"), keys.join("deep")] {
        fs::create_dir_all(directory).unwrap();
    }
    symlink(&keys, project.join("sub")).unwrap();
    assert!(Toolbox::open(&project.join("sub")).is_err());
    assert!(Toolbox::open(&project.join("sub/deep")).is_err());
    let secrets =
        Secrets::of_user(Some(&home), &project, |_| None, &[], convoke_agent::Programs::default());
    let open = |directory: &Path, started_in: &Path| {
        Toolbox::open(directory).unwrap().without(&secrets, started_in).map(drop)
    };
    for directory in [keys.clone(), keys.join("deep")] {
        assert!(open(&directory, &project).is_err(), "{}", directory.display());
    }
    open(&project.join("real"), &project).unwrap();
    // A person who starts Convoke there has chosen it.
    open(&keys.join("deep"), &keys).unwrap();
}

#[test]
fn links_that_stay_inside_are_followed() {
    let (_folder, toolbox) = lab();
    assert!(call(&toolbox, "read_file", json!({"path": "inside/b.rs"})).0);
    assert!(!call(&toolbox, "read_file", json!({"path": "loop"})).0);
}

#[test]
fn listing_shows_what_is_there_in_order() {
    let (_folder, toolbox) = lab();
    let (ok, text) = call(&toolbox, "list_files", json!({"path": "."}));
    let expected = ".git/\na.txt\nempty\nimage.png\ninside@\nlatin.txt\nloop@\nout.txt@\nsrc/\nup@";
    assert_eq!((ok, text.as_str()), (true, expected));
    assert_eq!(call(&toolbox, "list_files", json!({})), (true, expected.to_owned()));
}

#[test]
fn reading_is_bounded_by_lines_and_bytes_and_says_so() {
    let (folder, toolbox) = lab();
    let read = |arguments: Value| call(&toolbox, "read_file", arguments);
    assert_eq!(read(json!({"path": "a.txt"})), (true, "one\ntwo needle\nthree\n".to_owned()));
    let part = read(json!({"path": "a.txt", "first_line": "2", "line_count": 1}));
    assert_eq!(part, (true, "two needle\n[lines 2 to 2 of 3]".to_owned()));
    assert_eq!(
        read(json!({"path": "a.txt", "first_line": 9})),
        (false, "`a.txt` has 3 lines".into())
    );
    assert_eq!(read(json!({"path": "empty"})), (true, "the file is empty".to_owned()));
    let work = folder.path().join("work");
    fs::write(work.join("long"), "世".repeat(100_000)).unwrap();
    let (ok, text) = read(json!({"path": "long"}));
    assert!(ok && text.len() < 50_000 && text.contains("line cut"));
    fs::File::create(work.join("huge")).unwrap().set_len(1 << 40).unwrap();
    assert!(read(json!({"path": "huge"})).1.contains("the limit is"));
}

#[test]
fn what_is_not_text_is_refused_politely() {
    let (_folder, toolbox) = lab();
    for path in ["image.png", "latin.txt"] {
        let refused = (false, format!("`{path}` is not text"));
        assert_eq!(call(&toolbox, "read_file", json!({"path": path})), refused);
    }
    let (ok, text) = call(&toolbox, "read_file", json!({"path": "src"}));
    assert!(!ok && text.contains("list it instead"));
}

#[test]
fn searching_finds_lines_in_text_and_passes_over_the_rest() {
    let (folder, toolbox) = lab();
    let expected = "a.txt:2: two needle\nsrc/deep/b.rs:1: fn needle() {}\n\
                    [2 files were not searched: 2 not UTF-8 text]\n";
    let found = call(&toolbox, "search_text", json!({"text": "needle"}));
    assert_eq!(found, (true, expected.to_owned()));
    let (_, none) = call(&toolbox, "search_text", json!({"text": "nowhere"}));
    assert!(none.starts_with("no line of "), "{none}");
    fs::write(folder.path().join("work/many"), "needle\n".repeat(1000)).unwrap();
    let (_, many) = call(&toolbox, "search_text", json!({"text": "needle", "path": "many"}));
    assert_eq!(many.lines().count(), 201);
    assert!(many.ends_with("[… there are more lines; search a smaller directory]"));
}

#[test]
fn omitted_parts_of_a_search_are_reported() {
    let (folder, toolbox) = lab();
    let work = folder.path().join("work");
    fs::File::create(work.join("huge")).unwrap().set_len(5 << 20).unwrap();
    let deep = work.join("d/".repeat(40));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("x"), "needle").unwrap();
    let (_, found) = call(&toolbox, "search_text", json!({"text": "needle"}));
    let expected = "[3 files were not searched: 1 larger than 4 MiB, 2 not UTF-8 text; \
                    1 directory more than 32 levels deep was not searched]\n";
    assert!(found.ends_with(expected), "{found}");
    let (_, found) = call(&toolbox, "search_text", json!({"text": "needle", "path": "src"}));
    assert_eq!(found, "src/deep/b.rs:1: fn needle() {}\n");
}

#[test]
fn whatever_a_model_is_shown_of_an_output_each_tool_keeps_to_it_and_says_what_it_left_out() {
    let (folder, toolbox) = lab();
    let work = folder.path().join("work");
    fs::write(work.join("many"), "a needle in the hay\n".repeat(1000)).unwrap();
    for number in 0..1000 {
        fs::create_dir_all(work.join(format!("folder/of {number:04} names"))).unwrap();
    }
    for bytes in [0, 600, 2_000, 12_000] {
        let toolbox = toolbox.within(bytes);
        for (name, arguments, end) in [
            ("read_file", json!({"path": "many"}), "of 1000]"),
            (
                "search_text",
                json!({"text": "needle", "path": "many"}),
                "search a smaller directory]",
            ),
            ("list_files", json!({"path": "folder"}), "more entries]"),
        ] {
            let (ok, text) = call(&toolbox, name, arguments);
            assert!(ok && text.ends_with(end), "{name} {bytes}: {text}");
            assert!(text.len() as u64 <= bytes.max(512), "{name}: {} of {bytes}", text.len());
        }
    }
}

#[test]
fn what_the_project_ignores_is_not_searched_unless_it_is_asked_for() {
    let (folder, toolbox) = lab();
    let work = folder.path().join("work");
    for no_text in ["image.png", "latin.txt"] {
        fs::remove_file(work.join(no_text)).unwrap();
    }
    for directory in ["target/debug", "src/generated", ".config"] {
        fs::create_dir_all(work.join(directory)).unwrap();
    }
    fs::write(work.join(".gitignore"), "/target/\n*.log\n!kept.log\n").unwrap();
    fs::write(work.join("src/.gitignore"), "generated\n").unwrap();
    for file in ["target/debug/out", "src/generated/c.rs", "a.log", "kept.log", ".config/x"] {
        fs::write(work.join(file), "a hay\n").unwrap();
    }
    let search = |path: &str| call(&toolbox, "search_text", json!({"text": "hay", "path": path})).1;
    assert_eq!(search("."), ".config/x:1: a hay\nkept.log:1: a hay\n");
    assert_eq!(search("target"), "target/debug/out:1: a hay\n");
    assert_eq!(search("a.log"), "a.log:1: a hay\n");
    // The rules of the whole project also apply to a part of it.
    let part = Toolbox::open(&work.join("src")).unwrap();
    assert!(call(&part, "search_text", json!({"text": "hay"})).1.starts_with("no line"));
    assert!(call(&toolbox, "read_file", json!({"path": "a.log"})).0);
}

#[test]
fn a_call_that_makes_no_sense_is_answered_in_words() {
    let (_folder, toolbox) = lab();
    assert_eq!(toolbox.run("shell", "{}").text, "unknown tool `shell`");
    assert!(toolbox.run("read_file", "{").text.contains("invalid arguments"));
    assert!(!toolbox.run("search_text", r#"{"text":""}"#).ok);
}

#[test]
fn rules_over_the_limit_are_not_followed_and_reported() {
    let (folder, toolbox) = lab();
    let work = folder.path().join("work");
    for no_text in ["image.png", "latin.txt"] {
        fs::remove_file(work.join(no_text)).unwrap();
    }
    fs::create_dir(work.join("target")).unwrap();
    fs::write(work.join("target/out"), "a hay\n").unwrap();
    fs::write(work.join(".gitignore"), "target\n".repeat(1 << 20)).unwrap();
    let (_, found) = call(&toolbox, "search_text", json!({"text": "hay"}));
    let told = "[1 file was not searched: 1 larger than 4 MiB; \
                1 .gitignore was not followed: larger than 128 KiB with those above]\n";
    assert_eq!(found, format!("target/out:1: a hay\n{told}"));
    // Several small files are loaded only up to the common limit.
    let line = "target\n";
    let half = line.repeat((100 << 10) / line.len());
    fs::write(work.join(".gitignore"), &half).unwrap();
    fs::create_dir(work.join("deep")).unwrap();
    fs::write(work.join("deep/.gitignore"), &half).unwrap();
    fs::write(work.join("deep/hay"), "a hay\n").unwrap();
    let (_, found) = call(&toolbox, "search_text", json!({"text": "hay"}));
    assert!(found.starts_with("deep/hay:1: a hay\n[1 .gitignore was not followed"), "{found}");
}

/// Repeatedly exchanges a directory with a link to a directory outside.
fn exchange(work: &Path, stop: &std::sync::atomic::AtomicBool) {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let (directory, link) = (work.join("d"), work.join("l"));
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        renameat_with(CWD, &directory, CWD, &link, RenameFlags::EXCHANGE).unwrap();
    }
}

#[test]
fn a_directory_that_is_exchanged_for_a_link_leads_nowhere() {
    let (folder, toolbox) = lab();
    let work = folder.path().join("work");
    let outside = folder.path().join("etc");
    fs::create_dir_all(outside.join("s")).unwrap();
    fs::create_dir_all(work.join("d/s")).unwrap();
    for name in ["passwd", "s/passwd"] {
        fs::write(outside.join(name), "the secret needle").unwrap();
        fs::write(work.join("d").join(name), "a needle of the project").unwrap();
    }
    fs::write(outside.join("shadow"), "").unwrap();
    symlink(&outside, work.join("l")).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| exchange(&work, &stop));
        let mut read = 0;
        let mut leaked = None;
        for _ in 0..10_000 {
            let calls = [
                call(&toolbox, "read_file", json!({"path": "d/passwd"})),
                call(&toolbox, "read_file", json!({"path": "d/s/passwd"})),
                call(&toolbox, "list_files", json!({"path": "d"})),
                call(&toolbox, "search_text", json!({"text": "needle", "path": "d"})),
            ];
            read += calls.iter().filter(|(ok, _)| *ok).count();
            let out = |text: &String| text.contains("secret") || text.contains("shadow");
            leaked = leaked.or(calls.into_iter().map(|(_, text)| text).find(out));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(leaked, None);
        assert!(read > 0, "nothing of the project was read either");
    });
}
