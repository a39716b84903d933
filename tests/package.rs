//! What the Debian package would hold, without building it: every file that it names is there or is made by `./dev deb`, what
//! lands in `/etc` is a configuration file, and what its scripts and units speak of is installed. That it installs, keeps and
//! removes what it should is for `packaging/trial`, which needs the package and root.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use skips::skip;

#[path = "skips/mod.rs"]
mod skips;

/// One line of `assets`: from where, to where, with which rights.
type Asset = (String, String, String);

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|fault| panic!("{path}: {fault}"))
}

/// The lines of a list in the package's metadata. Each is JSON too.
fn list<T: serde::de::DeserializeOwned>(name: &str) -> Vec<T> {
    let manifest = read("Cargo.toml");
    let (_, metadata) = manifest.split_once("[package.metadata.deb]\n").expect("there is metadata");
    let (_, list) = metadata.split_once(&format!("\n{name} = [\n")).expect("there is the list");
    let (list, _) = list.split_once("\n]").expect("the list ends");
    list.lines().map(|line| serde_json::from_str(line.trim().trim_end_matches(',')).expect("JSON")).collect()
}

/// The files that an asset installs: sources, each with its place on the target.
fn installed((from, to, _): &Asset) -> Vec<(PathBuf, String)> {
    let sources = match from.strip_suffix('*') {
        Some(folder) => fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect(),
        None => vec![root().join(from)],
    };
    let place = |source: &PathBuf| match to.strip_suffix('/') {
        Some(folder) => format!("/{folder}/{}", source.file_name().unwrap().to_str().unwrap()),
        None => format!("/{to}"),
    };
    sources.into_iter().map(|source| (source.clone(), place(&source))).collect()
}

fn all_installed() -> Vec<(PathBuf, String)> {
    list::<Asset>("assets").iter().flat_map(installed).collect()
}

#[test]
fn every_file_of_the_package_is_there_or_made_for_it() {
    let dev = read("dev");
    for (source, _) in all_installed() {
        let name = source.file_name().unwrap().to_str().unwrap();
        let made = match source.strip_prefix(root().join("target")) {
            Ok(path) if path.starts_with("package") => {
                dev.contains(&format!("\"$out/{name}\"")) || dev.contains(&format!(">target/package/{name}\n"))
            }
            Ok(path) => path == Path::new("release/tidegate"),
            Err(_) => source.exists(),
        };
        assert!(made, "{} is not there, and `./dev deb` does not make it", source.display());
    }
}

#[test]
fn what_is_installed_below_etc_is_a_configuration_file_and_nothing_else_is() {
    let mut named: Vec<String> = list("conf-files");
    let mut found: Vec<String> = all_installed().into_iter().map(|(_, place)| place).collect();
    found.retain(|place| place.starts_with("/etc/"));
    named.sort();
    found.sort();
    assert_eq!(found, named);
}

#[test]
fn only_the_program_may_be_run_and_nobody_else_may_write() {
    for asset in list::<Asset>("assets") {
        let rights = if asset.1 == "usr/bin/" { "755" } else { "644" };
        assert_eq!(asset.2, rights, "{}", asset.0);
    }
}

#[test]
fn the_installed_policy_is_valid_with_the_variables_of_the_unit_and_without() {
    use std::os::unix::fs::PermissionsExt as _;

    let secrets = std::env::temp_dir().join(format!("tidegate-package-{}", std::process::id()));
    fs::create_dir_all(&secrets).unwrap();
    let key = secrets.join("client_hmac.key");
    fs::write(&key, "0123456789abcdef0123456789abcdef\n").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    for state in [None, Some(&secrets)] {
        let mut check = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        check.args(["check", "--deny-warnings"]).arg(root().join("packaging/tidegate.yaml"));
        check.env("CREDENTIALS_DIRECTORY", &secrets).env_remove("STATE_DIRECTORY");
        state.map(|directory| check.env("STATE_DIRECTORY", directory));
        let checked = check.output().unwrap();
        assert!(checked.status.success(), "{state:?}: {}", String::from_utf8_lossy(&checked.stderr));
    }
    fs::remove_dir_all(&secrets).unwrap();
}

#[test]
fn scripts_and_units_speak_of_what_is_installed() {
    let places: Vec<String> = all_installed().into_iter().map(|(_, place)| place).collect();
    let unit = read("systemd/tidegate.service");
    let programs = unit.lines().filter_map(|line| line.strip_prefix("Exec")?.split_once('=')?.1.split(' ').next());
    let programs: Vec<&str> = programs.collect();
    assert!(!programs.is_empty());
    let scripts = ["postinst", "prerm", "postrm"].map(|name| (name, read(&format!("packaging/debian/{name}"))));
    let spoken = scripts.iter().flat_map(|(_, script)| script.split_whitespace());
    let spoken = spoken.filter(|word| word.starts_with("/usr/lib/sysusers.d/"));
    for place in programs.into_iter().chain(spoken) {
        assert!(places.iter().any(|installed| installed == place), "{place} is not installed");
    }
    for (name, _) in scripts {
        let path = root().join("packaging/debian").join(name);
        assert!(Command::new("sh").arg("-n").arg(&path).status().unwrap().success(), "{name} is no script");
    }
}

/// What is read on a machine without the repository: a link must lead to a file of the package.
#[test]
fn no_installed_page_links_to_what_is_not_installed() {
    let installed = all_installed();
    let pages: Vec<_> = installed.iter().filter(|(_, place)| place.ends_with(".md")).collect();
    assert!(!pages.is_empty());
    for (source, place) in pages {
        let text = fs::read_to_string(source).unwrap();
        let folder = Path::new(place).parent().unwrap();
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            let target = folder.join(link.split('#').next().unwrap());
            let is_there = installed.iter().any(|(_, place)| Path::new(place) == target);
            assert!(is_there || link.contains("://"), "{place}: {link} is not installed");
        }
    }
}

/// The file names logs of the folder that the unit makes, rotates them as its user, and leaves making the next one to the gate.
#[test]
fn the_log_rotation_is_for_the_folder_and_the_user_of_the_unit() {
    let (rotation, unit) = (read("packaging/logrotate"), read("systemd/tidegate.service"));
    let value = |name: &str| unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap();
    let lines: Vec<&str> = rotation.lines().map(str::trim).filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines[0], format!("/var/log/{}/*.log {{", value("LogsDirectory")));
    assert!(lines.contains(&format!("su {} {}", value("User"), value("Group")).as_str()), "{rotation}");
    assert!(["nocreate", "delaycompress", "missingok"].iter().all(|word| lines.contains(word)), "{rotation}");
    let places: Vec<String> = all_installed().into_iter().map(|(_, place)| place).collect();
    assert!(places.contains(&"/etc/logrotate.d/tidegate".to_owned()));
    match Command::new("logrotate").arg("--debug").arg(root().join("packaging/logrotate")).output() {
        Err(error) => skip("log rotation", format!("no logrotate ({error})")),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            // a machine without the package has no such user
            assert!(output.status.success() || said.contains("unknown user 'tidegate'"), "{said}");
        }
    }
}

/// What `./dev deb` builds for others names no file of the machine that built it: crates of the registry, the standard library and
/// this package begin with their own names. `packaging/trial` looks at the result.
#[test]
fn the_packaged_program_is_built_without_paths_of_the_machine() {
    let dev = read("dev");
    let function = |name: &str| {
        let (_, body) = dev.split_once(&format!("\n{name}() {{\n")).unwrap();
        body.split("\n}\n").next().unwrap()
    };
    assert!(function("deb").lines().any(|line| line.trim() == "program"), "the package takes the program built so");
    let build = function("program");
    for path in ["registry/src=", "$(rustc --print sysroot)=", "$PWD="] {
        assert!(
            build.lines().any(|line| line.contains("--remap-path-prefix=") && line.contains(path)),
            "{path}: {build}"
        );
    }
    let trial = read("packaging/trial");
    assert!(trial.contains("not \"the program names no file of the machine that built it\""), "{trial}");
    // what the flags do, on a program of one line
    let folder = std::env::temp_dir().join(format!("tidegate-remap-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let source = folder.join("main.rs");
    fs::write(&source, "fn main() { std::env::args().nth(9).unwrap(); }\n").unwrap();
    let built = |flags: &[String]| {
        let program = folder.join("program");
        let mut rustc = Command::new("rustc");
        let output =
            rustc.arg(&source).arg("-o").arg(&program).args(["-C", "strip=symbols"]).args(flags).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = Command::new(&program).output().unwrap().stderr;
        let bytes = fs::read(program).unwrap();
        let place = folder.to_str().unwrap().as_bytes();
        (String::from_utf8_lossy(&said).into_owned(), bytes.windows(place.len()).any(|bytes| bytes == place))
    };
    let plain = built(&[]);
    let mapped = built(&[format!("--remap-path-prefix={}=", folder.display())]);
    fs::remove_dir_all(&folder).unwrap();
    assert!(plain.1 && !mapped.1, "{plain:?} {mapped:?}");
    assert!(mapped.0.contains("main.rs:1:") && !mapped.0.contains("/tmp/"), "{}", mapped.0);
}

/// What strangers send must not end the neighbours on the machine, and a crash must not write secrets down.
#[test]
fn the_unit_bounds_memory_dumps_nothing_and_gives_way_before_its_neighbours() {
    let unit = read("systemd/tidegate.service");
    let value = |name: &str| {
        let lines: Vec<&str> = unit.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('=')).collect();
        assert_eq!(lines.len(), 1, "{name} stands once");
        lines[0]
    };
    assert_eq!(value("LimitCORE"), "0");
    assert_eq!(value("MemorySwapMax"), "0");
    let share = |name| value(name).strip_suffix('%').expect("a share of the memory").parse::<u32>().unwrap();
    assert!(share("MemoryHigh") < share("MemoryMax") && share("MemoryMax") < 100);
    assert!((1..=1_000).contains(&value("OOMScoreAdjust").parse::<i32>().unwrap()));
    // 20,000 connections of the default `connections.max`, as many to origins, and what is kept
    assert!(value("LimitNOFILE").parse::<u64>().unwrap() >= 2 * 20_000 + 256);
}

#[test]
fn the_changelog_begins_with_this_version() {
    let changelog = read("packaging/changelog");
    let version = concat!("tidegate (", env!("CARGO_PKG_VERSION"), "-1) ");
    assert!(changelog.starts_with(version), "{changelog}");
}

/// Debian Policy 5.6.13: it stands in lists, after the name.
#[test]
fn the_description_fits_a_line_and_is_no_sentence() {
    let manifest = read("Cargo.toml");
    let line = manifest.lines().find_map(|line| line.strip_prefix("description = \"")?.strip_suffix('"')).unwrap();
    assert!(line.len() < 80 && !line.starts_with("An ") && !line.ends_with('.'), "{line}");
}

/// Names and versions of the crates that the program is linked with, by cargo's account of what needs what: those that must be,
/// and those that may be. Cargo's account has the features that tests and benchmarks want of the same crates, so what is optional
/// need not be linked.
fn linked() -> [BTreeSet<String>; 2] {
    let output = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).current_dir(root()).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let version = output("rustc", &["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let metadata = output("cargo", &["metadata", "--locked", "--format-version", "1", "--filter-platform", host]);
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    let list = |value: &serde_json::Value| value.as_array().unwrap().clone();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let nodes: BTreeMap<String, serde_json::Value> =
        list(&metadata["resolve"]["nodes"]).into_iter().map(|node| (text(&node["id"]), node)).collect();
    let packages: BTreeMap<String, serde_json::Value> =
        list(&metadata["packages"]).into_iter().map(|package| (text(&package["id"]), package)).collect();
    [false, true].map(|optional_too| {
        let mut next = vec![text(&metadata["resolve"]["root"])];
        let mut found: BTreeSet<String> = next.iter().cloned().collect();
        while let Some(id) = next.pop() {
            let needed = |dep: &serde_json::Value| {
                let name = &packages[&text(&dep["pkg"])]["name"];
                let declared = list(&packages[&id]["dependencies"]);
                let mut declared = declared.iter().filter(|known| known["name"] == *name && known["kind"].is_null());
                let kinds = list(&dep["dep_kinds"]);
                let normal = kinds.iter().any(|kind| kind["kind"].is_null());
                normal && (optional_too || declared.any(|known| known["optional"] == false))
            };
            for dep in list(&nodes[&id]["deps"]).iter().filter(|dep| needed(dep)) {
                if found.insert(text(&dep["pkg"])) {
                    next.push(text(&dep["pkg"]));
                }
            }
        }
        let name = |id: &String| format!("{} {}", text(&packages[id]["name"]), text(&packages[id]["version"]));
        found.iter().map(name).filter(|name| !name.starts_with("tidegate ") && !name.starts_with("tidegate-")).collect()
    })
}

#[test]
fn the_notices_hold_every_linked_crate_with_its_licence_and_its_texts() {
    let output = Command::new(root().join("packaging/notices")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let notices = String::from_utf8_lossy(&output.stdout).into_owned();
    let (list, texts) = notices.split_once("\n\n").unwrap().1.split_once("\n---").unwrap();
    let lines: Vec<&str> = list.lines().collect();
    let mut named = BTreeSet::new();
    for entry in lines.chunks(3) {
        let [name, licence, numbers] = entry else { panic!("{entry:?}") };
        assert!(licence.trim().len() >= 3, "{name} has no licence");
        let numbers = numbers.trim().strip_prefix("texts:").unwrap();
        // some are only a line that names the others
        let length = |number: &str| {
            let (_, text) = texts.split_once(&format!("\n{number}\n")).unwrap_or_else(|| panic!("{name}: no {number}"));
            text.split("\n---").next().unwrap().trim().len()
        };
        assert!(numbers.split_whitespace().map(length).any(|length| length > 400), "{name} has no text");
        assert!(named.insert((*name).to_owned()), "{name} stands twice");
    }
    let [least, most] = linked();
    println!("{} crates are named, at least {} are linked, at most {}", named.len(), least.len(), most.len());
    assert!(least.len() > 100, "{least:?}");
    assert_eq!(least.difference(&named).collect::<Vec<_>>(), [""; 0], "linked and not named");
    assert_eq!(named.difference(&most).collect::<Vec<_>>(), [""; 0], "named and not linked");
}

#[test]
fn what_was_skipped_is_told_with_its_reason() {
    let target = std::env::temp_dir().join(format!("tidegate-skips-{}", std::process::id()));
    fs::create_dir_all(target.join("tmp")).unwrap();
    let told = || {
        let output = Command::new(root().join("dev")).arg("skips").env("CARGO_TARGET_DIR", &target).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(told(), "dev: nothing was skipped\n");
    fs::write(target.join("tmp/skipped"), "b: no tool\na: no root\nb: no tool\n").unwrap();
    assert_eq!(told(), "dev: skipped: 2\ndev:     a: no root\ndev:     b: no tool\n");
    fs::remove_dir_all(&target).unwrap();
    assert!(read("dev").contains("    trap tell_skips EXIT\n"), "`./dev test` tells them however it ends");
}

/// The audit of dependencies, by a database with one made-up advisory.
fn audit(package: &str) -> Option<(bool, String)> {
    if let Err(error) = Command::new("cargo-deny").arg("--version").output() {
        skip("audit of a made-up advisory", format!("no cargo-deny ({error}); `./dev audit` installs it"));
        return None;
    }
    let copy = std::env::temp_dir().join(format!("tidegate-advisories-{}-{package}", std::process::id()));
    let folder = copy.join("crates").join(package);
    fs::create_dir_all(&folder).unwrap();
    let advisory = format!(
        "```toml\n[advisory]\nid = \"RUSTSEC-2099-0001\"\npackage = \"{package}\"\ndate = \"2026-01-01\"\n\n\
         [versions]\npatched = [\">= 99.0.0\"]\n```\n\n# A made-up weakness\n\nTo try the audit.\n"
    );
    fs::write(folder.join("RUSTSEC-2099-0001.md"), advisory).unwrap();
    let output = Command::new(root().join("dev")).arg("audit").env("TIDEGATE_ADVISORIES", &copy).output().unwrap();
    fs::remove_dir_all(&copy).unwrap();
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn a_known_weakness_of_a_dependency_fails_the_audit() {
    let Some((passed, said)) = audit("siphasher") else { return };
    assert!(!passed && said.contains("RUSTSEC-2099-0001") && said.contains("made-up weakness"), "{said}");
    let (passed, said) = audit("a-crate-that-nobody-uses").unwrap();
    assert!(passed && said.contains("by the copy in"), "{said}");
}

#[test]
fn every_document_has_its_chapter_in_the_site_and_every_link_a_file() {
    let folder = std::env::temp_dir().join(format!("tidegate-site-{}", std::process::id()));
    let output = Command::new(root().join("packaging/site/build")).arg("--check").arg(&folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let chapters = fs::read_to_string(folder.join("src/SUMMARY.md")).unwrap();
    for page in ["[tidegate](index.md)", "(docs/quick_start.md)", "    - [`type: rate`](docs/limits/rate.md)"] {
        assert!(chapters.contains(page), "{page}: {chapters}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// What the wrapper of the compiler calls for these arguments: a compiler that prints them.
fn compiled(version: &str, environment: &[(&str, &str)], arguments: &[&str]) -> String {
    let folder = std::env::temp_dir().join(format!("tidegate-profile-{}-{version}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let compiler = folder.join("compiler");
    let script =
        format!("#!/bin/sh\n[ \"$1\" = --version ] && echo \"rustc {version} (of a test)\" && exit\necho \"$@\"\n");
    fs::write(&compiler, script).unwrap();
    fs::set_permissions(&compiler, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = Command::new(root().join("profile/rustc"));
    command.env_remove("TIDEGATE_PROFILE");
    let output = command.arg(&compiler).args(arguments).envs(environment.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    fs::remove_dir_all(&folder).unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn only_what_is_optimised_for_speed_is_compiled_with_the_profile_of_this_very_compiler() {
    let of = |name: &fs::DirEntry| Some(name.file_name().to_str()?.strip_suffix(".profdata")?.to_owned());
    let profiles = fs::read_dir(root().join("profile")).unwrap().filter_map(|entry| of(&entry.unwrap()));
    let versions: Vec<String> = profiles.collect();
    assert!(!versions.is_empty());
    for version in &versions {
        let fast = ["--crate-name", "x", "-C", "opt-level=3"];
        let with = compiled(version, &[], &fast);
        let profile = root().join(format!("profile/{version}.profdata"));
        assert!(with.contains(&format!("-Cprofile-use={}", profile.display())), "{with}");
        let without = [
            compiled(version, &[], &["-C", "opt-level=1"]),
            compiled(version, &[], &["-C", "opt-level=3", "-Cprofile-generate=/tmp/counts"]),
            compiled(version, &[("TIDEGATE_PROFILE", "off")], &fast),
            compiled("0.0.1", &[], &fast),
        ];
        for arguments in without {
            assert!(!arguments.contains("profile-use"), "{arguments}");
        }
    }
}
