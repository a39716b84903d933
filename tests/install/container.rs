//! The container: what its root file system holds, and that it serves from it as its Containerfile says: not as root, and with a root
//! file system that cannot be written to. In a container engine where one works, else by `chroot` in namespaces of its own.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use crate::skips::skip;
use crate::{Folder, PATIENCE, all_of, done, get, path, read, tidegate};

/// A word's value in the Containerfile's last stage.
fn word(name: &str) -> String {
    let file = read("packaging/container/Containerfile");
    let (_, last) = file.rsplit_once("\nFROM scratch\n").expect("the last stage is from scratch");
    let found = last.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {name}")).to_owned()
}

/// The words of a JSON list.
fn list(text: &str) -> Vec<String> {
    serde_json::from_str(&text[text.find('[').unwrap()..]).unwrap()
}

fn health_check() -> Vec<String> {
    list(&word("HEALTHCHECK"))
}

/// The container's root file system, of the program of this tree.
fn laid_out(home: &Folder) -> PathBuf {
    let root = home.0.join("rootfs");
    done(Command::new(path("packaging/container/rootfs")).arg(env!("CARGO_BIN_EXE_tidegate")).arg(&root));
    root
}

/// All files and folders, the folders with a slash, and their rights.
fn entries(root: &Path) -> Vec<(String, u32, u64)> {
    fn walk(folder: &Path, root: &Path, found: &mut Vec<(String, u32, u64)>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let metadata = entry.path().symlink_metadata().unwrap();
            let slash = if metadata.is_dir() { "/" } else { "" };
            let name = format!("/{}{slash}", entry.path().strip_prefix(root).unwrap().display());
            found.push((name, metadata.permissions().mode() & 0o7777, metadata.len()));
            if metadata.is_dir() {
                walk(&entry.path(), root, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(root, root, &mut found);
    found
}

#[test]
fn it_holds_the_program_and_what_it_needs_and_nothing_else() {
    let home = Folder::new("rootfs");
    let entries = entries(&laid_out(&home));
    let mut others = BTreeSet::new();
    let mut libraries = BTreeSet::new();
    for (name, ..) in entries.iter().filter(|(name, ..)| !name.ends_with('/')) {
        match name.rsplit('/').next().unwrap() {
            library if name.contains(".so") => libraries.insert(library.split(".so").next().unwrap().to_owned()),
            _ => others.insert(name.as_str()),
        };
    }
    // "libc, libm and libgcc only" is what the release promises
    assert!(libraries.iter().any(|library| library == "libc"), "{libraries:?}");
    assert!(
        libraries.iter().all(|name| ["libc", "libm", "libgcc_s"].contains(&&**name) || name.starts_with("ld-linux")),
        "{libraries:?}"
    );
    others.retain(|name| !name.starts_with("/usr/share/doc/"));
    let wanted = [
        "/etc/group",
        "/etc/nsswitch.conf",
        "/etc/passwd",
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/tidegate/tidegate.yaml",
        "/usr/bin/tidegate",
    ];
    assert_eq!(others, wanted.into_iter().collect());
    for (name, rights, _) in &entries {
        let wanted = match name.as_str() {
            "/run/tidegate/" => 0o1777,
            // the loader and libc may be run
            _ if name.contains(".so") => rights & 0o755,
            "/usr/bin/tidegate" => 0o755,
            _ if name.ends_with('/') => 0o755,
            _ => 0o644,
        };
        assert_eq!(*rights, wanted, "{name}");
    }
    let size: u64 = entries.iter().map(|(_, _, size)| size).sum();
    // a program for tests is a third larger than a release
    assert!(size <= 40_000_000, "{size} bytes");
}

/// How the container is run: to be found again by its name, or by its process.
enum Engine {
    /// Words of a container engine before its verb.
    Of(Vec<&'static str>),
    /// Without one, as root.
    Chroot,
}

/// Rights that a test's environment may not exceed; what the engines ask for otherwise may be more.
const LIMITS: [&str; 4] = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"];

/// The container's image by this engine, if it builds and runs it.
fn image(engine: &[&str], root: &Path, tag: &str) -> Result<(), String> {
    let run = |arguments: &[&str]| {
        let output =
            Command::new(engine[0]).args(&engine[1..]).args(arguments).output().map_err(|fault| fault.to_string())?;
        if output.status.success() { Ok(all_of(&output)) } else { Err(all_of(&output)) }
    };
    run(&["version"])?;
    let file = path("packaging/container/Containerfile");
    let [file, root] = [file.to_str().unwrap(), root.to_str().unwrap()];
    let format: &[&str] = if engine[0] == "podman" { &["--format", "docker"] } else { &[] };
    run(&[&["build", "-q", "--build-arg", "ROOT=prebuilt", "-t", tag, "-f", file], format, &[root]].concat())?;
    let version =
        run(&[&["run", "--rm", "--no-healthcheck", "--network", "none"], &LIMITS[..], &[tag, "--version"]].concat())?;
    assert!(version.contains(concat!("tidegate ", env!("CARGO_PKG_VERSION"))), "{version}");
    Ok(())
}

/// The first engine that works here; the reasons of the others.
fn engine(root: &Path, tag: &str) -> (Engine, Vec<String>) {
    let mut reasons = Vec::new();
    for engine in [&["docker"][..], &["podman"], &["podman", "--runtime", "runc"]] {
        match image(engine, root, tag) {
            Ok(()) => return (Engine::Of(engine.to_vec()), reasons),
            Err(reason) => {
                reasons.push(format!("{}: {}", engine.join(" "), reason.trim().lines().last().unwrap_or_default()))
            }
        }
    }
    (Engine::Chroot, reasons)
}

impl Engine {
    /// The command that serves `policy`.
    fn run(&self, root: &Path, policy: &Path, tag: &str) -> Command {
        match self {
            Engine::Of(words) => {
                let mut command = Command::new(words[0]);
                command.args(&words[1..]).args([
                    "run",
                    "--rm",
                    "--name",
                    tag,
                    "--network",
                    "host",
                    "--read-only",
                    "--no-healthcheck",
                ]);
                command.args(["--cap-drop", "all", "--security-opt", "no-new-privileges"]).args(LIMITS);
                command.arg("-v").arg(format!("{}:/etc/tidegate/tidegate.yaml:ro", policy.display())).arg(tag);
                command
            }
            Engine::Chroot => {
                fs::copy(policy, root.join("etc/tidegate/tidegate.yaml")).unwrap();
                let script = "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && \
                    mount -t tmpfs -o mode=1777,size=1m tmpfs \"$1/run/tidegate\" && \
                    root=$1 user=$2 && shift 2 && exec chroot --userspec=\"$user\" \"$root\" \"$@\"";
                let mut command = Command::new("unshare");
                command.args(["--mount", "sh", "-c", script, "sh"]).arg(root).arg(word("USER"));
                command.args(list(&word("ENTRYPOINT"))).args(list(&word("CMD")));
                self.with_environment(command)
            }
        }
    }

    /// A command inside the container.
    fn inside(&self, process: u32, root: &Path, tag: &str, words: &[String]) -> Command {
        match self {
            Engine::Of(engine) => {
                let mut command = Command::new(engine[0]);
                command.args(&engine[1..]).args(["exec", tag]).args(words);
                command
            }
            Engine::Chroot => {
                let mut command = Command::new("nsenter");
                command.args(["--mount", "--target", &process.to_string(), "chroot"]);
                command.arg(format!("--userspec={}", word("USER"))).arg(root).args(words);
                self.with_environment(command)
            }
        }
    }

    fn with_environment(&self, mut command: Command) -> Command {
        let environment = word("ENV");
        let (name, value) = environment.split_once('=').unwrap();
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env(name, value);
        command
    }
}

/// Ended with the test, whatever comes.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
            std::thread::sleep(std::time::Duration::from_secs(1));
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}

/// The address that the gate names in its first lines.
fn announced(child: &mut Child) -> String {
    let (sender, receiver) = mpsc::channel();
    let readers: [Box<dyn Read + Send>; 2] =
        [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
    for reader in readers {
        let sender = sender.clone();
        // reads on to the end, so that the gate can write on
        std::thread::spawn(move || {
            BufReader::new(reader).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)))
        });
    }
    drop(sender);
    let mut said = String::new();
    let end = Instant::now() + PATIENCE;
    while let Ok(line) = receiver.recv_timeout(end.saturating_duration_since(Instant::now())) {
        if let Some(address) = line.strip_prefix("listening on ").and_then(|rest| rest.split(' ').next()) {
            return address.to_owned();
        }
        said.push_str(&format!("{line}\n"));
    }
    panic!("the container announced no address:\n{said}");
}

/// The origin is asked by TLS, so authorities' certificates are read; the quota ends at a midnight in Berlin, so the rules of time zones
/// are there.
const POLICY: &str = r#"listen: "127.0.0.1:0"
origins: { far: { addresses: ["origin.invalid:443"], tls: {} } }
limits: { daily: { type: quota, max: 2, per: day, time_zone: Europe/Berlin } }
routes:
  - { name: far, match: { path: /far }, origin: far }
  - { name: near, limits: [daily], respond: { status: 200, body: "served\n" } }
server: { overload: off, drain: { timeout: 1s } }
"#;

#[test]
fn it_serves_and_tells_its_health_without_rights_and_without_writing() {
    let home = Folder::new("container");
    let root = laid_out(&home);
    let tag = format!("tidegate-install-{}", std::process::id());
    let policy = home.0.join("tidegate.yaml");
    fs::write(&policy, POLICY).unwrap();
    let checked = tidegate().arg("check").arg(&policy).output().unwrap();
    assert!(checked.status.success(), "{}", all_of(&checked));

    let (engine, reasons) = engine(&root, &tag);
    if matches!(engine, Engine::Chroot) {
        if !rustix::process::geteuid().is_root() {
            return skip(
                "the container",
                format!("no container engine, and no root for chroot ({})", reasons.join("; ")),
            );
        }
        skip("a container engine; chroot took its place", reasons.join("; "));
    }
    let mut command = engine.run(&root, &policy, &tag);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut running = Running(child);
    let address = announced(&mut running.0);
    assert_eq!(get(&address, "/"), (200, "served\n".to_owned()));
    assert_eq!(get(&address, "/").0, 200);
    assert_eq!(get(&address, "/").0, 429, "the limit holds");

    let process = running.0.id();
    done(&mut engine.inside(process, &root, &tag, &health_check()));
    let program = list(&word("ENTRYPOINT"));
    let status = done(&mut engine.inside(process, &root, &tag, &[program[0].clone(), "status".to_owned()]));
    assert!(status.contains("ready"), "{status}");

    kill_process(Pid::from_child(&running.0), Signal::TERM).unwrap();
    let ended = running.0.wait().unwrap();
    assert_eq!(ended.code(), Some(0), "it drains, and ends by itself");
    if let Engine::Of(words) = &engine {
        let _ = Command::new(words[0]).args(&words[1..]).args(["rmi", "-f", &tag]).output();
    }
}
