use std::io::ErrorKind;
use std::path::Path;

use super::{Disk, EntryKind, FileKind, Files, MemoryTree, OpenedFile, TooLarge, absolute};

/// Lays the same tree out in memory and on disk; `check` sees it in both.
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
        let base = disk.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("dir")).unwrap();
        std::fs::write(base.join("dir/file"), "0123456789").unwrap();
        symlink("dir/file", base.join("link")).unwrap();
        symlink("nowhere", base.join("dangling")).unwrap();
        symlink("loop", base.join("loop")).unwrap();
        symlink("dir/../dir", base.join("up")).unwrap();
        check(&Disk, &base);
    }
}

#[test]
fn a_link_is_seen_as_itself_and_as_what_it_leads_to() {
    in_each(|files, base| {
        let link = base.join("link");
        assert_eq!(files.entry_kind(&link).unwrap(), EntryKind::Symlink);
        assert_eq!(files.kind(&link).unwrap(), EntryKind::File);
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
            let failed = files.read(&base.join(name), FileKind::Instructions).unwrap_err();
            assert_eq!(failed.kind(), kind, "{name}");
        }
        let looping = files.read(&base.join("loop"), FileKind::Instructions).unwrap_err();
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
fn a_directory_lists_the_kind_of_each_name() {
    in_each(|files, base| {
        let entries = files.entries(base).unwrap();
        let kinds: Vec<_> = entries.iter().map(|(_, kind)| *kind).collect();
        let link = EntryKind::Symlink;
        assert_eq!(kinds, [link, EntryKind::Directory, link, link, link]);
    });
}

#[test]
fn a_locked_entry_is_seen_but_not_read() {
    let mut tree = MemoryTree::default();
    tree.write("/a/file", "x");
    tree.lock("/a/file");
    assert_eq!(tree.kind("/a/file".as_ref()).unwrap(), EntryKind::File);
    let denied = tree.read("/a/file".as_ref(), FileKind::Instructions).unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::PermissionDenied);

    tree.lock("/a");
    let denied = tree.kind("/a/file".as_ref()).unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::PermissionDenied);
}

#[cfg(unix)]
#[test]
fn a_pipe_is_refused_and_never_opened() {
    let disk = tempfile::tempdir().unwrap();
    let pipe = disk.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    if made.is_ok_and(|status| status.success()) {
        assert_eq!(Disk.kind(&pipe).unwrap(), EntryKind::Special);
        let refused = Disk.read(&pipe, FileKind::Instructions).unwrap_err();
        assert_eq!(refused.to_string(), "not a regular file");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_of_the_kernel_is_refused_however_a_path_leads_to_it() {
    let disk = tempfile::tempdir().unwrap();
    let link = |name: &str, to: &str| {
        let path = disk.path().join(name);
        std::os::unix::fs::symlink(to, &path).unwrap();
        path
    };
    let environment = link("AGENTS.md", "/proc/self/environ");
    let directory = link("directory", "/proc/self");
    for path in [environment, directory.join("status"), link("state", "/sys/kernel/profiling")] {
        // A machine need not have a `/sys`.
        if path.exists() {
            let refused = Disk.read(&path, FileKind::Instructions).unwrap_err();
            assert_eq!(refused.to_string(), "a file of the kernel", "{}", path.display());
        }
    }
    // A path through there may end in a file on the disk.
    std::fs::write(disk.path().join("own"), "text").unwrap();
    let through = format!("/proc/self/root{}", disk.path().join("own").display());
    let opened = OpenedFile::open(through.as_ref()).unwrap();
    let real = disk.path().canonicalize().unwrap().join("own");
    assert_eq!(opened.real_path().unwrap(), real);
    assert_eq!(Disk.read_text(&link("null", "/dev/null"), FileKind::Instructions).unwrap(), "");
}

#[test]
fn a_file_over_the_limit_of_its_kind_is_refused_with_its_size_and_the_limit() {
    let disk = tempfile::tempdir().unwrap();
    for kind in FileKind::ALL {
        // Sparse, so that nothing but the size is there.
        let path = disk.path().join("file");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(kind.limit() + 1).unwrap();
        let refused = Disk.read(&path, *kind).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::FileTooLarge);
        let limit = kind.limit();
        let expected = TooLarge { path: path.clone(), size: limit + 1, limit, kind: *kind };
        assert_eq!(TooLarge::from_error(&refused), Some(&expected));
        let text = refused.to_string();
        let named = [kind.name().to_owned(), limit.to_string(), (limit + 1).to_string()];
        assert!(named.iter().all(|part| text.contains(part)), "{text}");
    }
    let path = disk.path().join("file");
    std::fs::File::create(&path).unwrap().set_len(FileKind::TeamFile.limit()).unwrap();
    let read = Disk.read(&path, FileKind::TeamFile).unwrap();
    assert_eq!(read.len() as u64, FileKind::TeamFile.limit());
}

/// Counts the bytes that are read of a file whose size is not known.
struct Endless(std::cell::Cell<u64>);

impl Files for Endless {
    fn entry_kind(&self, _: &Path) -> std::io::Result<EntryKind> {
        Ok(EntryKind::File)
    }

    fn kind(&self, _: &Path) -> std::io::Result<EntryKind> {
        Ok(EntryKind::File)
    }

    fn read_head(&self, _: &Path, limit: u64) -> std::io::Result<super::Head> {
        self.0.set(self.0.get() + limit);
        let bytes = vec![0; usize::try_from(limit).unwrap()];
        Ok(super::Head { bytes, size: 0 })
    }

    fn names(&self, _: &Path) -> std::io::Result<Vec<std::ffi::OsString>> {
        Ok(Vec::new())
    }

    fn canonicalize(&self, path: &Path) -> std::io::Result<std::path::PathBuf> {
        Ok(path.to_owned())
    }
}

#[test]
fn of_a_file_without_a_size_no_more_is_read_than_the_limit_and_a_byte() {
    let endless = Endless(std::cell::Cell::new(0));
    let kind = FileKind::Gitignore;
    let refused = endless.read("/proc/endless".as_ref(), kind).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::FileTooLarge);
    assert_eq!(endless.0.get(), kind.limit() + 1);
    let stream = super::limit::read_stream(std::io::repeat(0), Path::new("-"), kind).unwrap_err();
    assert_eq!(TooLarge::from_error(&stream).map(|it| it.size), Some(kind.limit() + 1));
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

#[test]
#[cfg(unix)]
fn looking_into_directories_finds_what_listing_and_reading_find() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for name in ["whole", "long", "linked", "none", "named"] {
        std::fs::create_dir(path(name)).unwrap();
    }
    std::fs::write(path("whole/SKILL.md"), "text").unwrap();
    std::fs::write(path("whole/.hidden"), "").unwrap();
    std::fs::create_dir(path("whole/scripts")).unwrap();
    std::fs::write(path("long/SKILL.md"), "x".repeat(100)).unwrap();
    std::os::unix::fs::symlink("../whole/SKILL.md", path("linked/SKILL.md")).unwrap();
    std::fs::create_dir(path("named/SKILL.md")).unwrap();
    let mut directories = ["whole", "long", "linked", "none", "named"].map(path).to_vec();
    directories.push(path("missing"));
    let found = Disk.look_into(&directories, "SKILL.md", 10);
    assert_eq!(found.len(), directories.len());
    for (directory, found) in directories.iter().zip(found) {
        let entries = found.as_ref().map(|it| &it.entries);
        assert_eq!(entries, Disk.entries(directory).ok().as_ref(), "{}", directory.display());
        let file = directory.join("SKILL.md");
        let is_file = matches!(Disk.entry_kind(&file), Ok(EntryKind::File));
        let expected = is_file.then(|| Disk.read_head(&file, 10).unwrap());
        assert_eq!(found.and_then(|it| it.head), expected, "{}", directory.display());
    }
}
