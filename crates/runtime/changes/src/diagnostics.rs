//! Diagnostics of recording and undo.

convoke_core::diagnostic_codes! {
    CHANGES_OFF = "changes.off", Loss,
        "The changes of a turn were not recorded; it cannot be undone.",
        "The message names the reason: a limit, a full disk, or a missing `git` program.";
    CHANGES_INCOMPLETE = "changes.incomplete", Loss,
        "A turn changed files before their first copy was complete; undo cannot restore them.",
        "Later turns are complete. The first copy of a directory continues while turns run. If it stopped, the message says why.";
    CHANGES_COPYING = "changes.copying", Note,
        "A turn began before all files of the directory without another copy were copied. Undo cannot restore one that the turn \
         changes before its copy.",
        "No action needed for later turns. Commit large files, or exclude them in `.gitignore`, and a first turn waits less.";
    CHANGES_UNVERIFIED = "changes.unverified", Note,
        "A first turn changed files before they were copied. Their contents were taken from the repository's objects, or from \
         the files that they were moved to, by size and time of the files alone.",
        "No action needed, unless a program sets the times of files: then compare them after an undo.";
    CHANGES_UNRECORDED = "changes.unrecorded", Loss,
        "Files could not be read and were not recorded.",
        "Make them readable, or exclude them in `.gitignore`.";
    CHANGES_LARGE = "changes.large", Loss,
        "A turn changed a file over the size limit. Only its hash is recorded; undo leaves it as it is.",
        "Keep a copy of large files, or exclude them in `.gitignore`.";
    CHANGES_HIDDEN = "changes.hidden", Note,
        "A turn created files and the ignore rule that hides them from git, and they are too large to be recorded. Undo leaves them as they are.",
        "No action needed if they can be created again, like builds and installed packages.";
    CHANGES_SHARED = "changes.shared", Note,
        "Another turn ran in the same directory at the same time; changes may belong to either.",
        "Run them one after the other, or give each its own copy with `workspace = \"own\"`.";
    CHANGES_COMPLETED = "changes.completed", Note,
        "An undo or a merge was interrupted. It is complete now.",
        "No action needed; the message names the command that reverses it.";
    CHANGES_UNSHOWN = "changes.unshown", Loss,
        "The changes of other members could not be read. The prompt of the turn lacks them.",
        "The message names the reason. `convoke changes` shows what is recorded.";
    CHANGES_COMMANDS = "changes.commands", Note,
        "A turn changed files that name commands for CLIs, editors or shells. Other members and your own programs may run them, without the sandbox of that turn.",
        "Look at them before the next turn: `convoke changes`; `convoke undo` undoes them.";
    CHANGES_NOT_EXPORTED = "changes.not-exported", Note,
        "The session has recorded file changes; an archive does not contain them.",
        "They stay in the session's store. Commit the files that others need.";
    WORKSPACE_CREATED = "workspace.created", Note,
        "A member works in a copy of the directory. It lacks files that git ignores.",
        "Name files to copy in `workspace-copy` and files to link to in `workspace-link`.";
    WORKSPACE_RESTORED = "workspace.restored", Loss,
        "The directory of a workspace was gone and was restored from its last record. Ignored files and files over the \
         size limit are not part of a record.",
        "Check the member's last turn, which removed it.";
    REPOSITORY_CHANGED = "changes.repository", Note,
        "An agent committed, changed the branch, used the stash, moved the repository of the directory or changed what it \
         ignores. Undo leaves that as it is.",
        "`git reflog` shows the earlier commits, `git stash list` the stashed changes. Check `.git/info/exclude` and \
         `core.excludesFile` in `.git/config`: what they ignore is not recorded.";
    REPOSITORY_REMOVED = "changes.repository-removed", Loss,
        "An agent removed the repository (`.git`) of the directory, or of one in it. Convoke records files, never a repository: undo cannot \
         restore it.",
        "Restore `.git` from a clone or a backup.";
    WORKSPACE_UNCOMMITTED = "workspace.uncommitted", Loss,
        "The state of a workspace after a turn was not committed to its branch.",
        "The changes are recorded, and the end of the next turn commits them.";
    WORKSPACE_NOT_COPIED = "workspace.not-copied", Note,
        "A copy of a session has no workspaces: its members begin with new ones.",
        "Merge them before: `convoke changes apply MEMBER`.";
    WORKSPACE_LEFTOVER = "workspace.leftover", Note,
        "The directory of a workspace is unused: a crash left it behind, or its session was removed.",
        "Remove the directory that the message names.";
}
