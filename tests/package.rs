//! What the Debian package would hold, without building it: every file that it names is there or is made by `./dev deb`, what
//! lands in `/etc` is a configuration file, and what its scripts and units speak of is installed. That it installs, keeps and
//! removes what it should is for `packaging/trial`, which needs the package and root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
            Ok(path) if path.starts_with("package") => dev.contains(&format!("\"$out/{name}\"")),
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
