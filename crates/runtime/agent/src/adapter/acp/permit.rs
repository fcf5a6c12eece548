//! Answers an agent's questions by the permissions of its member, without a person.

use std::path::Path;

use crate::stream::acp::ToolCall;
use crate::turn_input::Permissions;

/// The permissions that answer the questions of a turn.
#[derive(Debug, Clone)]
pub struct Permit {
    pub permissions: Permissions,
    /// Whether the kernel enforces the permissions on everything that the agent does.
    pub is_confined: bool,
}

impl Permit {
    /// Returns the reason why a call is refused; `None` if it is allowed.
    pub(super) fn refusal(&self, call: &ToolCall, cwd: &Path) -> Option<&'static str> {
        let Self { permissions, is_confined } = *self;
        if permissions == Permissions::Full {
            return None;
        }
        match call.kind.as_deref().unwrap_or("other") {
            "edit" | "delete" | "move" if self.refuses_changes().is_some() => {
                self.refuses_changes()
            }
            "edit" | "delete" | "move" if !is_confined && call.paths().next().is_none() => {
                Some("the call names no path, and this system cannot confine it")
            }
            "edit" | "delete" | "move" => {
                let is_inside = call.paths().all(|path| is_below(path, cwd));
                (!is_inside).then_some("a path is outside the working directory")
            }
            "fetch" if permissions < Permissions::EditAndNetwork => {
                Some("the permissions do not include the network")
            }
            "read" | "search" | "think" | "fetch" => None,
            "switch_mode" => Some("the permissions determine the mode"),
            _ if is_confined => None,
            "execute" => self.refuses_commands(),
            _ => Some("this system cannot confine this tool to the permissions"),
        }
    }
}

impl Permit {
    /// Returns the reason why no file may be changed, if any.
    pub(super) fn refuses_changes(&self) -> Option<&'static str> {
        (self.permissions <= Permissions::ReadOnly).then_some("the permissions are `read-only`")
    }

    /// Returns the reason why no command may be run, if any.
    pub(super) fn refuses_commands(&self) -> Option<&'static str> {
        let is_held = self.is_confined || self.permissions == Permissions::Full;
        (!is_held).then_some("this system cannot confine a command to the permissions")
    }
}

/// Returns whether a path is below a directory, without accessing the file system. A path with `..` is not.
fn is_below(path: &Path, directory: &Path) -> bool {
    use std::path::Component;
    let is_plain = |part: Component<'_>| !matches!(part, Component::ParentDir);
    path.components().all(is_plain) && (path.is_relative() || path.starts_with(directory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::acp::Acp;
    use serde_json::{Value, json};

    fn refusal(permissions: Permissions, is_confined: bool, call: &Value) -> Option<&'static str> {
        let call = Acp::new(100).call(call, &mut |_| {});
        Permit { permissions, is_confined }.refusal(&call, Path::new("/work"))
    }

    #[test]
    fn each_kind_of_tool_needs_its_permission() {
        use Permissions::{Edit, EditAndNetwork, Full, ReadOnly};
        for (kind, allowed_from) in [
            ("read", ReadOnly),
            ("search", ReadOnly),
            ("edit", Edit),
            ("delete", Edit),
            ("fetch", EditAndNetwork),
            ("switch_mode", Full),
        ] {
            for permissions in [ReadOnly, Edit, EditAndNetwork, Full] {
                let call =
                    json!({"toolCallId": "1", "kind": kind, "locations": [{"path": "/work/a"}]});
                let is_refused = refusal(permissions, true, &call).is_some();
                assert_eq!(is_refused, permissions < allowed_from, "{kind} {permissions:?}");
            }
        }
    }

    #[test]
    fn a_path_outside_is_never_edited() {
        for path in ["/etc/passwd", "/work/../etc/passwd", "../x", "/workplace/x"] {
            let located = json!({"toolCallId": "1", "kind": "edit", "locations": [{"path": path}]});
            let diff = json!({"type": "diff", "path": path, "newText": "x"});
            let changed = json!({"toolCallId": "1", "kind": "edit", "content": [diff]});
            for call in [located, changed] {
                assert!(refusal(Permissions::EditAndNetwork, true, &call).is_some(), "{path}");
                assert_eq!(refusal(Permissions::Full, true, &call), None);
            }
        }
    }

    #[test]
    fn an_edit_that_names_no_path_needs_the_kernel() {
        let call = json!({"toolCallId": "1", "kind": "edit"});
        assert_eq!(refusal(Permissions::Edit, true, &call), None);
        assert!(refusal(Permissions::Edit, false, &call).is_some());
        assert_eq!(refusal(Permissions::Full, false, &call), None);
    }

    #[test]
    fn a_command_runs_where_the_kernel_confines_it() {
        for call in [json!({"toolCallId": "1", "kind": "execute"}), json!({"toolCallId": "1"})] {
            assert_eq!(refusal(Permissions::ReadOnly, true, &call), None);
            assert!(refusal(Permissions::ReadOnly, false, &call).is_some());
            assert!(refusal(Permissions::EditAndNetwork, false, &call).is_some());
        }
    }
}
