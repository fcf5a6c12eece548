use std::path::Path;

use super::{ApprovalPolicy, Permissions, SandboxPolicy, WorkspaceWrite};
use crate::command_rules::Prefix;
use crate::pack::PermissionTexts;
use convoke_files::MemoryTree;

fn texts() -> PermissionTexts {
    let text = |it: &str| it.to_owned();
    PermissionTexts {
        danger_full_access: text("danger {network_access}\n"),
        read_only: text("read {network_access}\n"),
        workspace_write: text("write {network_access}\n"),
        never: text(" never\n"),
        unless_trusted: text(" unless\n"),
        on_failure: text("failure\n"),
        on_request: text(" request"),
        on_request_rule: text("rule\n"),
        approved_prefixes: text("\nApproved: {prefixes}"),
        prefixes_truncated: text("...\n[cut]"),
    }
}

fn render(
    sandbox: &SandboxPolicy,
    approval: ApprovalPolicy,
    prefixes: Option<&[Prefix]>,
) -> String {
    let mut tree = MemoryTree::default();
    tree.create_directory("/tmp");
    let permissions = Permissions {
        sandbox,
        approval,
        prefixes,
        cwd: Path::new("/r"),
        tmpdir: Some(Path::new("/var/tmp")),
    };
    permissions.render(&texts(), &tree, &mut Vec::new()).text().to_owned()
}

#[test]
fn pieces_are_joined_by_one_newline_at_most() {
    let read_only = SandboxPolicy::ReadOnly;
    assert_eq!(
        render(&read_only, ApprovalPolicy::Never, None),
        "<permissions instructions>\nread restricted\n never\n</permissions instructions>"
    );
    assert_eq!(
        render(&read_only, ApprovalPolicy::OnRequest, None),
        "<permissions instructions>\nread restricted\n request\n</permissions instructions>"
    );
    assert_eq!(
        render(&read_only, ApprovalPolicy::OnRequest, Some(&[])),
        "<permissions instructions>\nread restricted\nrule\n\nApproved: \n</permissions instructions>"
    );
}

#[test]
fn writable_roots_come_in_their_order_and_can_be_excluded() {
    let mut details = WorkspaceWrite {
        writable_roots: vec!["/opt".into()],
        network_access: true,
        ..WorkspaceWrite::default()
    };
    let policy = SandboxPolicy::WorkspaceWrite(details.clone());
    assert!(render(&policy, ApprovalPolicy::Never, None).contains(
        "write enabled\n never\n The writable roots are `/opt`, `/r`, `/tmp`, `/var/tmp`.\n</"
    ));
    details.exclude_slash_tmp = true;
    details.exclude_tmpdir_env_var = true;
    details.writable_roots.clear();
    let policy = SandboxPolicy::WorkspaceWrite(details);
    let text = render(&policy, ApprovalPolicy::Never, None);
    assert!(text.contains("\n The writable root is `/r`.\n</"));
}

#[test]
fn prefixes_are_sorted_by_length_and_the_list_is_bounded() {
    let prefix = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Prefix>();
    let prefixes = [prefix(&["b", "c"]), prefix(&["zz"]), prefix(&["a\"b"])];
    let text = render(&SandboxPolicy::ReadOnly, ApprovalPolicy::OnRequest, Some(&prefixes));
    assert!(text.contains("Approved: - [\"zz\"]\n- [\"a\\\"b\"]\n- [\"b\", \"c\"]\n</"));

    let many: Vec<Prefix> = (0..101).map(|it| prefix(&[&format!("c{it:03}")])).collect();
    let text = render(&SandboxPolicy::ReadOnly, ApprovalPolicy::OnRequest, Some(&many));
    assert!(text.contains("- [\"c099\"]...\n[cut]\n</"));

    let long = [prefix(&[&"x".repeat(6000)])];
    let text = render(&SandboxPolicy::ReadOnly, ApprovalPolicy::OnRequest, Some(&long));
    let list = text.split_once("Approved: ").unwrap().1;
    assert_eq!(list.find("...\n[cut]"), Some(5000));
}
