use super::*;

#[test]
fn an_old_landlock_leaves_gaps_that_a_newer_one_closes() {
    use Permissions::{Edit, EditAndNetwork, Full, ReadOnly};
    let gaps = |abi, permissions, route| {
        Enforcer::Landlock { abi }.gaps(permissions, route, &SandboxAdditions::default())
    };
    let relay = Route::Through { port: 1 };
    let always = [Gap::Attributes];
    assert_eq!(gaps(7, ReadOnly, relay), always);
    assert_eq!(gaps(7, ReadOnly, Route::Direct)[0], Gap::Network);
    assert_eq!(gaps(7, Edit, relay), [Gap::Attributes, Gap::Git]);
    assert_eq!(gaps(5, ReadOnly, relay)[..1], [Gap::Signals]);
    assert_eq!(gaps(4, ReadOnly, relay)[..2], [Gap::Devices, Gap::Signals]);
    assert_eq!(gaps(3, ReadOnly, relay)[..1], [Gap::Ports]);
    assert_eq!(gaps(2, ReadOnly, relay)[..2], [Gap::Truncate, Gap::Ports]);
    assert_eq!(gaps(3, EditAndNetwork, relay)[..1], [Gap::Devices]);
    assert_eq!(gaps(1, Full, relay), []);
    let additions = SandboxAdditions::default();
    assert_eq!(Enforcer::Program.gaps(ReadOnly, relay, &additions), [Gap::Kernel]);
    let additions = SandboxAdditions { unix_sockets: true, ..additions };
    let opened = Enforcer::Landlock { abi: 7 }.gaps(ReadOnly, relay, &additions);
    assert_eq!(opened, [Gap::Attributes, Gap::UnixSockets]);
}

#[test]
fn every_program_has_one_enforcer() {
    let of = Enforcer::on_this_machine;
    assert_eq!(of(Some(Vendor::Codex), Some(0)), Enforcer::Program);
    assert_eq!(of(Some(Vendor::Codex), Some(2)), Enforcer::Program);
    assert_eq!(of(None, Some(0)), Enforcer::Nothing);
}

fn sandbox<'a>(
    settings: &'a SandboxSettings,
    additions: &SandboxAdditions,
    dir: &'a Path,
) -> Sandbox<'a> {
    Sandbox {
        enforcer: Enforcer::Landlock { abi: 7 },
        permissions: Permissions::ReadOnly,
        vendor: Some(Vendor::Codex),
        directory: Some(dir.join(".codex")),
        session: None,
        state: ProgramState::default(),
        home: Some(dir.to_owned()),
        users_homes: Vec::new(),
        cwd: dir,
        workspace: None,
        private_dir: dir,
        private_home: None,
        temp_root: dir,
        settings,
        additions: additions.clone(),
        secrets: Vec::new(),
        addresses: vec!["http://127.0.0.1:8080".to_owned()],
    }
}

#[test]
fn a_relay_is_the_only_port() {
    let dir = tempfile::tempdir().unwrap();
    let additions = SandboxAdditions::default();
    let mut settings = SandboxSettings::default();
    let direct = sandbox(&settings, &additions, dir.path()).network();
    assert_eq!(direct, Network::Ports { ports: vec![53, 443, 8080], udp: true });
    settings.route = Route::Through { port: 4711 };
    let relayed = sandbox(&settings, &additions, dir.path()).network();
    assert_eq!(relayed, Network::Ports { ports: vec![4711], udp: false });
}

#[test]
fn a_required_sandbox_with_a_gap_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let additions = SandboxAdditions::default();
    let required = SandboxSettings { required: true, ..SandboxSettings::default() };
    let refused = sandbox(&required, &additions, dir.path()).report().unwrap_err();
    assert!(refused.contains("require-sandbox") && refused.contains("443"), "{refused}");
    let route = Route::Through { port: 1 };
    let relayed = SandboxSettings { route, ..required };
    let said = sandbox(&relayed, &additions, dir.path()).report().unwrap().unwrap();
    assert!(said.message.contains("chmod"), "{said:?}");
}

#[test]
fn what_the_user_opens_is_not_hidden() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    let settings = SandboxSettings::default();
    let additions =
        SandboxAdditions { readable: vec![home.join(".aws")], ..SandboxAdditions::default() };
    let hidden = sandbox(&settings, &additions, home).hidden();
    assert!(!hidden.contains(&home.join(".aws")) && hidden.contains(&home.join(".ssh")));
    assert!(hidden.contains(&home.join(".claude")) && !hidden.contains(&home.join(".codex")));
}

#[test]
fn what_a_preset_reads_and_writes_is_hidden_from_every_other_agent() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    let (settings, additions) = (SandboxSettings::default(), SandboxAdditions::default());
    let hidden = sandbox(&settings, &additions, home).hidden();
    for preset in &crate::adapter::acp::PRESETS {
        let names = preset.directory.iter().chain(preset.state);
        for name in names.filter(|name| !name.starts_with(".cache") && !name.contains("/state/")) {
            assert!(hidden.contains(&home.join(name)), "{}: {name}", preset.name);
        }
    }
}

#[test]
fn secrets_that_the_environment_names_are_hidden() {
    let variables = [
        ("CODEX_HOME", "/home/kim/alt/codex"),
        ("CLAUDE_CONFIG_DIR", "/home/kim/alt/claude"),
        ("KUBECONFIG", "/home/kim/kube:/srv/kube"),
        ("GNUPGHOME", "/home/kim"),
        ("DOCKER_CONFIG", "/home/kim/shop/docker"),
        ("NETRC", "netrc"),
        ("EDITOR", "/usr/bin/vi"),
    ];
    let variable = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| std::ffi::OsStr::new(*value))
    };
    let of = |own| {
        let places = (Some(Path::new("/home/kim")), Path::new("/home/kim/shop"));
        let paths = secrets::secret_paths_from_env(variable, own, places);
        let mut paths: Vec<String> = paths.iter().map(|it| it.display().to_string()).collect();
        paths.sort();
        paths
    };
    assert_eq!(of(Some(Vendor::Claude)), ["/home/kim/alt/codex", "/home/kim/kube", "/srv/kube"]);
    assert_eq!(
        of(None),
        ["/home/kim/alt/claude", "/home/kim/alt/codex", "/home/kim/kube", "/srv/kube"]
    );
}
