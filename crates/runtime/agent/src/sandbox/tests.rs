use super::*;
use crate::testing::{ONE, OTHER, PROGRAMS};

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
    assert_eq!(of(Some(&ONE), Some(0)), Enforcer::Program);
    assert_eq!(of(Some(&ONE), Some(2)), Enforcer::Program);
    assert_eq!(of(None, Some(0)), Enforcer::Nothing);
}

fn place(path: &Path) -> WorkingDirectory {
    WorkingDirectory::open(path).unwrap()
}

fn sandbox<'a>(
    settings: &'a SandboxSettings,
    additions: &SandboxAdditions,
    place: &'a WorkingDirectory,
) -> Sandbox<'a> {
    let dir = place.path();
    Sandbox {
        enforcer: Enforcer::Landlock { abi: 7 },
        permissions: Permissions::ReadOnly,
        vendor: Some(&ONE),
        programs: PROGRAMS,
        directory: Some(dir.join(".one")),
        session: None,
        state: ProgramState::default(),
        home: Some(dir.to_owned()),
        users_homes: Vec::new(),
        cwd: place,
        workspace: None,
        private_dir: dir,
        private_home: None,
        temp_root: dir,
        settings,
        additions: additions.clone(),
        added: AddedPaths::find(additions, None),
        secrets: Vec::new(),
        addresses: vec!["http://127.0.0.1:8080".to_owned()],
    }
}

#[test]
fn a_relay_is_the_only_port() {
    let dir = tempfile::tempdir().unwrap();
    let additions = SandboxAdditions::default();
    let mut settings = SandboxSettings::default();
    let direct = sandbox(&settings, &additions, &place(dir.path())).network();
    assert_eq!(direct, Network::Ports { ports: vec![53, 443, 8080], udp: true });
    settings.route = Route::Through { port: 4711 };
    let relayed = sandbox(&settings, &additions, &place(dir.path())).network();
    assert_eq!(relayed, Network::Ports { ports: vec![4711], udp: false });
}

#[test]
fn a_required_sandbox_with_a_gap_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let additions = SandboxAdditions::default();
    let required = SandboxSettings { required: true, ..SandboxSettings::default() };
    let refused = sandbox(&required, &additions, &place(dir.path())).report().unwrap_err();
    assert!(refused.contains("require-sandbox") && refused.contains("443"), "{refused}");
    let route = Route::Through { port: 1 };
    let relayed = SandboxSettings { route, ..required };
    let said = sandbox(&relayed, &additions, &place(dir.path())).report().unwrap().unwrap();
    assert!(said.message.contains("chmod"), "{said:?}");
}

#[test]
fn what_the_user_opens_is_not_hidden() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    let settings = SandboxSettings::default();
    let additions =
        SandboxAdditions { readable: vec![home.join(".aws")], ..SandboxAdditions::default() };
    let hidden = sandbox(&settings, &additions, &place(home)).hidden();
    assert!(!hidden.contains(&home.join(".aws")) && hidden.contains(&home.join(".ssh")));
    assert!(hidden.contains(&home.join(".other")) && !hidden.contains(&home.join(".one")));
}

#[test]
fn what_a_preset_reads_and_writes_is_hidden_from_every_other_agent() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    let (settings, additions) = (SandboxSettings::default(), SandboxAdditions::default());
    let hidden = sandbox(&settings, &additions, &place(home)).hidden();
    for preset in PROGRAMS.presets {
        let names = preset.directory.iter().chain(preset.state);
        for name in names.filter(|name| !name.starts_with(".cache") && !name.contains("/state/")) {
            assert!(hidden.contains(&home.join(name)), "{}: {name}", preset.name);
        }
    }
}

#[test]
fn secrets_that_the_environment_names_are_hidden() {
    let variables = [
        ("ONE_HOME", "/home/kim/alt/one"),
        ("OTHER_HOME", "/home/kim/alt/other"),
        ("KUBECONFIG", "/home/kim/kube:/srv/kube"),
        ("GNUPGHOME", "/home/kim"),
        ("DOCKER_CONFIG", "/home/kim/shop/docker"),
        ("NETRC", "../netrc"),
        ("PGPASSFILE", ""),
        ("NPM_CONFIG_USERCONFIG", "npmrc"),
        ("EDITOR", "/usr/bin/vi"),
    ];
    let variable = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| std::ffi::OsStr::new(*value))
    };
    let of = |own: Option<&'static dyn Cli>| {
        let homes = BTreeSet::from([PathBuf::from("/home/kim")]);
        let (cwd, base) = (Path::new("/home/kim/shop"), Path::new("/usr/lib"));
        let paths = secrets::secret_paths_from_env(variable, base, own, PROGRAMS, (&homes, cwd));
        let mut paths: Vec<String> = paths.iter().map(|it| it.display().to_string()).collect();
        paths.sort();
        paths
    };
    let relative = ["/usr/lib/../netrc", "/usr/lib/npmrc"];
    let own = ["/home/kim/alt/one", "/home/kim/kube", "/srv/kube"];
    assert_eq!(of(Some(&OTHER)), [&own[..], &relative].concat());
    let all = ["/home/kim/alt/one", "/home/kim/alt/other", "/home/kim/kube", "/srv/kube"];
    assert_eq!(of(None), [&all[..], &relative].concat());
}

/// Another turn may exchange the directory for a link at any time: between two lookups, each could find something else.
#[test]
fn the_policy_gets_the_working_directory_that_was_checked() {
    for permissions in [Permissions::ReadOnly, Permissions::Edit] {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["home/.ssh", "home/.one", "work/sub", "tmp/private"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        let (home, sub, temp_root) = (root.join("home"), root.join("work/sub"), root.join("tmp"));
        let private_dir = temp_root.join("private");
        let settings =
            SandboxSettings { started_in: Some(root.join("work")), ..Default::default() };
        let cwd = place(&sub);
        let sandbox = Sandbox {
            permissions,
            directory: Some(home.join(".one")),
            home: Some(home.clone()),
            private_dir: &private_dir,
            temp_root: &temp_root,
            ..sandbox(&settings, &SandboxAdditions::default(), &cwd)
        };
        let (_, before) = sandbox.prepare().unwrap();
        std::fs::remove_dir(&sub).unwrap();
        std::os::unix::fs::symlink(home.join(".ssh"), &sub).unwrap();
        let (policy, reach) = sandbox.prepare().unwrap();
        assert_eq!(reach, before, "nothing follows the link");
        assert!(!reach.shows(&home.join(".ssh/id")));
        let policy = policy.unwrap();
        let Writes::Beneath { roots, .. } = &policy.writes else { panic!("{policy:?}") };
        for path in roots.iter().chain(&policy.shown) {
            assert!(!path.as_path().starts_with(home.join(".ssh")), "{path:?}");
        }
        assert!(cwd.reopen().is_err(), "the program does not start there");
    }
}

#[test]
fn state_that_leads_into_a_secret_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for name in ["home/.ssh", "home/.one", "work", "tmp/private"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    std::os::unix::fs::symlink("../.ssh", root.join("home/.one/sessions")).unwrap();
    let (settings, cwd) = (SandboxSettings::default(), place(&root.join("work")));
    let (temp_root, private_dir) = (root.join("tmp"), root.join("tmp/private"));
    let sandbox = Sandbox {
        directory: Some(root.join("home/.one")),
        home: Some(root.join("home")),
        private_dir: &private_dir,
        temp_root: &temp_root,
        ..sandbox(&settings, &SandboxAdditions::default(), &cwd)
    };
    let refused = sandbox.prepare().unwrap_err().to_string();
    assert!(refused.contains("sessions` is inside a path that no agent can read"), "{refused}");
}

#[test]
fn private_directories_are_not_where_another_member_works() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for name in ["home/.codex", "work", "other/tmp/private"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    let (temp_root, private_dir) = (root.join("other/tmp"), root.join("other/tmp/private"));
    for permissions in [Permissions::ReadOnly, Permissions::Edit, Permissions::Full] {
        let prepared = |cwd: &str, places: &[&str]| {
            let places = places.iter().map(|name| root.join(name)).collect();
            let settings = SandboxSettings { places, ..Default::default() };
            let cwd = place(&root.join(cwd));
            let sandbox = Sandbox {
                permissions,
                directory: Some(root.join("home/.codex")),
                home: Some(root.join("home")),
                private_dir: &private_dir,
                temp_root: &temp_root,
                ..sandbox(&settings, &SandboxAdditions::default(), &cwd)
            };
            sandbox.prepare().map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(prepared("work", &["work"]), Ok(()), "{permissions:?}");
        let refused = prepared("work", &["work", "other"]).unwrap_err();
        assert!(refused.contains("which agents can change"), "{permissions:?}: {refused}");
        let is_allowed = prepared("other", &["other"]).is_ok();
        assert_eq!(is_allowed, permissions == Permissions::Full, "{permissions:?}: its own");
    }
}

/// A member may replace a path that the user's configuration adds for another member.
#[test]
fn an_added_path_is_the_one_that_was_there_when_the_session_began() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let at = |name: &str| root.join(name);
    for name in ["home", "p4/sub", "p4/out", "disk/cache"] {
        std::fs::create_dir_all(at(name)).unwrap();
    }
    std::os::unix::fs::symlink(at("disk/cache"), at("home/cache")).unwrap();
    let writable = vec![at("p4/out"), "~/cache".into(), at("p4/later")];
    let additions = SandboxAdditions { writable, ..SandboxAdditions::default() };
    let find = || AddedPaths::find(&additions, Some(&at("home")));
    let added = find();
    let found: Vec<&Path> = added.writable().collect();
    assert_eq!(found, [at("p4/out"), at("disk/cache"), at("p4/later")]);
    let places = [at("p4/sub")];
    added.check(&places, &[]).unwrap();
    for name in ["out", "later"] {
        let _ = std::fs::remove_dir(at("p4").join(name));
        std::os::unix::fs::symlink(at("home"), at("p4").join(name)).unwrap();
        let refused = added.check(&places, &[]).unwrap_err().to_string();
        assert!(refused.contains(&format!("p4/{name}`, which an agent can change")), "{refused}");
        // The next session finds the link, in a directory in which an agent works.
        assert!(find().check(&[at("p4")], &[]).is_err());
        std::fs::remove_file(at("p4").join(name)).unwrap();
        // Made anew, it is still the path that the user wrote.
        std::fs::create_dir(at("p4").join(name)).unwrap();
        added.check(&places, &[]).unwrap();
    }
}
