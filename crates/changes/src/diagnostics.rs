//! Diagnostics of recording and undo.

convoke_core::diagnostic_codes! {
    CHANGES_OFF = "changes.off", Loss,
        "The changes of a turn were not recorded; it cannot be undone.",
        "The message has the reason: a limit, a full disk, or no `git` program.";
    CHANGES_INCOMPLETE = "changes.incomplete", Loss,
        "A turn changed files before their first copy was complete; undo cannot restore them.",
        "Later turns are complete. The first copy of a directory continues while turns run.";
    CHANGES_UNRECORDED = "changes.unrecorded", Loss,
        "Files could not be read and were not recorded.",
        "Make them readable, or exclude them in `.gitignore`.";
    CHANGES_LARGE = "changes.large", Loss,
        "A turn changed a file over the size limit. Only its hash is recorded; undo leaves it as it is.",
        "Keep a copy of large files, or exclude them in `.gitignore`.";
    CHANGES_SHARED = "changes.shared", Note,
        "Another turn ran in the same directory at the same time; changes may belong to either.",
        "Let them take turns, or give each a directory of its own with `cwd`.";
}
