use std::io::ErrorKind;
use std::path::Path;

#[cfg(unix)]
use super::Nearby;
use super::{Disk, Files, Kind, MemoryTree, absolute};

/// Lays the same tree out in memory and deep on disk; `check` sees it in every way.
fn in_each(check: impl Fn(&dyn Files, &Path)) {
    let mut memory = MemoryTree::default();
    memory.write("/base/dir/file", "0123456789");
    memory.link("/base/link", "dir/file");
    memory.link("/base/dangling", "nowhere");
    memory.link("/base/loop", "loop");
    memory.link("/base/up", "dir/../dir");
    check(&memory, Path::new("/base"));

    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        let disk = tempfile::tempdir().unwrap();
        let base = deep(disk.path());
        std::fs::create_dir(base.join("dir")).unwrap();
        std::fs::write(base.join("dir/file"), "0123456789").unwrap();
        symlink("dir/file", base.join("link")).unwrap();
        symlink("nowhere", base.join("dangling")).unwrap();
        symlink("loop", base.join("loop")).unwrap();
        symlink("dir/../dir", base.join("up")).unwrap();
        check(&Disk, &base);
        check(&Nearby::new(&base), &base);
        check(&Nearby::new(&base.join("up")), &base);
        check(&Nearby::new(&base.join("missing")), &base);
    }
}

/// Makes so many directories below one another that some of them are held open.
#[cfg(unix)]
fn deep(base: &Path) -> std::path::PathBuf {
    let mut deepest = base.canonicalize().unwrap();
    deepest.extend((0..50).map(|level| format!("level{level}")));
    std::fs::create_dir_all(&deepest).unwrap();
    deepest
}

#[cfg(unix)]
#[test]
fn a_path_near_a_held_directory_leads_where_it_leads_from_the_root() {
    let disk = tempfile::tempdir().unwrap();
    let base = deep(disk.path());
    std::fs::write(base.join("file"), "deep").unwrap();
    std::fs::write(base.with_file_name("level49x"), "beside").unwrap();
    std::os::unix::fs::symlink("..", base.join("above")).unwrap();
    let near = Nearby::new(&base);
    let long = format!("{}file", "./".repeat(2048));
    let tails = [
        "",
        "/",
        "/.",
        "//file",
        "/./file",
        "/file/",
        "/file/.",
        "/../level49/file",
        "x",
        "/x",
        "/..",
        "/../../../level47/../level47/level48/level49/file",
        "/above",
        "/above/level49x",
    ];
    let tails = tails.into_iter().map(str::to_owned).chain([format!("/{long}")]);
    for level in base.ancestors().take(48).step_by(4) {
        for tail in tails.clone() {
            let path = Path::new(&format!("{}{tail}", level.display())).to_owned();
            let answers = |files: &dyn Files| {
                format!(
                    "{:?} {:?} {:?} {:?} {:?} {:?}",
                    files.entry_kind(&path),
                    files.kind(&path),
                    files.read_head(&path, 3),
                    files.names(&path),
                    files.entries(&path),
                    files.canonicalize(&path),
                )
            };
            assert_eq!(answers(&near), answers(&Disk), "{}", path.display());
        }
    }
}

#[test]
fn a_link_is_seen_as_itself_and_as_what_it_leads_to() {
    in_each(|files, base| {
        let link = base.join("link");
        assert_eq!(files.entry_kind(&link).unwrap(), Kind::Symlink);
        assert_eq!(files.kind(&link).unwrap(), Kind::File);
        assert_eq!(files.canonicalize(&link).unwrap(), base.join("dir/file"));
        assert_eq!(files.canonicalize(&base.join("up/file")).unwrap(), base.join("dir/file"));
    });
}

#[test]
fn a_head_says_how_long_the_whole_file_is() {
    in_each(|files, base| {
        let head = files.read_head(&base.join("link"), 4).unwrap();
        assert_eq!((head.bytes.as_slice(), head.size), (&b"0123"[..], 10));
    });
}

#[test]
fn failures_say_why_alike() {
    in_each(|files, base| {
        let cases = [
            ("missing", ErrorKind::NotFound),
            ("dangling", ErrorKind::NotFound),
            ("dir", ErrorKind::IsADirectory),
            ("link/below", ErrorKind::NotADirectory),
        ];
        for (name, kind) in cases {
            let failed = files.read(&base.join(name)).unwrap_err();
            assert_eq!(failed.kind(), kind, "{name}");
        }
        let looping = files.read(&base.join("loop")).unwrap_err();
        assert_ne!(looping.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_directory_lists_its_names_in_order() {
    in_each(|files, base| {
        let names = files.names(base).unwrap();
        assert_eq!(names, ["dangling", "dir", "link", "loop", "up"]);
    });
}

#[test]
fn a_directory_tells_what_stands_under_each_name() {
    in_each(|files, base| {
        let entries = files.entries(base).unwrap();
        let kinds: Vec<_> = entries.iter().map(|(_, kind)| *kind).collect();
        let link = Kind::Symlink;
        assert_eq!(kinds, [link, Kind::Directory, link, link, link]);
    });
}

#[test]
fn a_locked_entry_is_seen_but_not_read() {
    let mut tree = MemoryTree::default();
    tree.write("/a/file", "x");
    tree.lock("/a/file");
    assert_eq!(tree.kind("/a/file".as_ref()).unwrap(), Kind::File);
    let denied = tree.read("/a/file".as_ref()).unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::PermissionDenied);

    tree.lock("/a");
    let denied = tree.kind("/a/file".as_ref()).unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::PermissionDenied);
}

#[cfg(unix)]
#[test]
fn a_pipe_is_refused_and_never_opened() {
    let disk = tempfile::tempdir().unwrap();
    let pipe = deep(disk.path()).join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    if made.is_ok_and(|status| status.success()) {
        for files in [&Disk as &dyn Files, &Nearby::new(pipe.parent().unwrap())] {
            assert_eq!(files.kind(&pipe).unwrap(), Kind::Special);
            let refused = files.read(&pipe).unwrap_err();
            assert_eq!(refused.to_string(), "not a regular file");
        }
    }
}

#[test]
fn absolute_paths_lose_their_dots_by_spelling() {
    let cases = [
        ("/a/b", "c", "/a/b/c"),
        ("/a/b", "../c/./d", "/a/c/d"),
        ("/a", "/x/y", "/x/y"),
        ("/", "../..", "/"),
    ];
    for (base, path, expected) in cases {
        assert_eq!(absolute(base.as_ref(), path.as_ref()), Path::new(expected));
    }
}
