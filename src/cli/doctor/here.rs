//! What this machine gives the gate: descriptors, addresses, files, a clock.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{Access, access};

use super::finding::{Finding, Verdict};
use crate::cli::global::Global;
use crate::config::certificate::covers;
use crate::config::fault::Severity;
use crate::config::settings::{ListenOn, Listener, LogTarget};
use crate::config::{Config, EXPIRES_SOON_DAYS, Loaded, UsedCertificate};
use crate::edge::bind::bind;
use crate::human::{count, grouped, span};
use crate::observe::state::State;
use crate::policy::route::HostMatch;
use crate::process::control;
use crate::system::descriptors::{Outlook, outlook};

/// 2026-01-01, before any version of this program.
const TOO_EARLY: i64 = 1_767_225_600;

/// A file that was changed so many seconds in the future tells of a clock that is slow.
const AHEAD: i64 = 60;

/// A disk for logs or state with less than this is soon full.
const LITTLE_SPACE: u64 = 256 * 1024 * 1024;

/// Whether the policy loads.
pub fn policy(path: &Path, loaded: &Loaded) -> Finding {
    let name = path.display();
    match &loaded.outcome {
        Err(refused) => {
            Finding::new("policy", Verdict::Fail, format!("{name}: {}", count(refused.errors as u64, "error")))
                .advise(format!("mend what stands above; `tidegate check {name}` says it again"))
        }
        Ok(config) => {
            let (routes, limits) = (config.policy.routes.len() as u64, config.policy.rules.len() as u64);
            let found = format!(
                "{name}: {}, {}, {}; fingerprint {}",
                count(routes, "route"),
                count(limits, "limit"),
                count(config.policy.origins.len() as u64, "origin"),
                config.fingerprint
            );
            let warnings = loaded.diagnostics.iter().filter(|fault| fault.severity() == Severity::Warning).count();
            match warnings {
                0 => Finding::ok("policy", found),
                _ => Finding::new("policy", Verdict::Warn, format!("{found}; {}", count(warnings as u64, "warning")))
                    .advise(format!("`tidegate check {name}` shows them")),
            }
        }
    }
}

/// Whether as many clients fit as the listeners allow.
pub fn descriptors(config: &Config) -> Finding {
    let allowed = config.settings.listeners.iter().map(|listener| u64::from(listener.connections.max)).sum();
    let Outlook { limit, room, enough } = outlook(allowed);
    let found = format!("{} in all: room for {} clients", grouped(limit), grouped(room));
    match room < allowed {
        false => Finding::ok("descriptors", found),
        true => Finding::new("descriptors", Verdict::Warn, format!("{found} of the {} allowed", grouped(allowed)))
            .advise(format!(
                "`ulimit -Hn {enough}` here, `LimitNOFILE={enough}` in a unit, or a lower `connections.max`"
            )),
    }
}

/// Whether each address can be had, by taking it for a moment. What `running` holds is in good hands.
pub fn listeners(config: &Config, running: Option<&State>) -> Vec<Finding> {
    let settings = &config.settings;
    let page = |name: &str, address| Listener::new(name, ListenOn::Ip(address));
    let metrics = settings.metrics.iter().map(|metrics| ("metrics".to_owned(), page("metrics", metrics.address)));
    let admin = settings.admin.iter().map(|admin| ("admin".to_owned(), page("admin", admin.address)));
    let listeners = settings.listeners.iter().map(|one| (format!("listener {}", one.name), one.clone()));
    listeners
        .chain(metrics)
        .chain(admin)
        .map(|(check, listener)| listener_can_be_had(check, &listener, running))
        .collect()
}

fn listener_can_be_had(check: String, listener: &Listener, running: Option<&State>) -> Finding {
    let address = &listener.address;
    let fault = match bind(listener) {
        Ok(_) => return Finding::ok(check, format!("{address} is free")),
        Err(_) if matches!(address, ListenOn::Systemd(_)) => {
            return Finding::ok(check, format!("{address}: passed at the start, not tried"));
        }
        Err(fault) => fault,
    };
    // of its pages it tells no address
    let is_page = !check.starts_with("listener");
    let holds = |state: &&State| is_page || state.listeners.iter().any(|one| one.address == address.to_string());
    match running.filter(|_| fault.cause.kind() == io::ErrorKind::AddrInUse).filter(holds) {
        Some(state) => Finding::ok(check, format!("{address}: process {} serves it", state.process)),
        None => {
            let text = fault.to_string();
            let found = text.split_once(": ").map_or(text.as_str(), |(_, rest)| rest);
            let (found, advice) = found.split_once("; ").unwrap_or((found, "see `ip address` and `ss -ltnp`"));
            Finding::new(check, Verdict::Fail, found).advise(advice)
        }
    }
}

/// Whether verbs will reach the process.
pub fn admin_socket(global: &Global, running: Option<&State>) -> Finding {
    const CHECK: &str = "admin socket";
    if let Some(state) = running {
        return Finding::ok(CHECK, format!("process {} answers", state.process));
    }
    let Some(path) = global.admin.clone().or_else(control::default_path) else {
        return Finding::new(CHECK, Verdict::Warn, "none: neither RUNTIME_DIRECTORY nor XDG_RUNTIME_DIR is set")
            .advise("without it `reload`, `status` and others reach no process: `tidegate run --admin PATH`");
    };
    match control::examine(&path) {
        Ok(()) => Finding::ok(CHECK, path.display().to_string()),
        // one that was asked for stops the start
        Err(fault) => {
            let verdict = if global.admin.is_some() { Verdict::Fail } else { Verdict::Warn };
            Finding::new(CHECK, verdict, fault).advise("choose another place: `tidegate run --admin PATH`")
        }
    }
}

/// Whether the clock can be right. Certificates, quotas by the calendar and logs rest on it.
pub fn clock(policy: &Path, now: i64) -> Finding {
    let changed = fs::metadata(policy).and_then(|found| found.modified()).ok();
    let changed = changed.and_then(|time: SystemTime| time.duration_since(UNIX_EPOCH).ok());
    let ahead = changed.and_then(|since| i64::try_from(since.as_secs()).ok()).map_or(0, |changed| changed - now);
    let advice = "set it, and keep it by NTP: `timedatectl`";
    if now < TOO_EARLY {
        Finding::new("clock", Verdict::Fail, "says a time before 2026").advise(advice)
    } else if ahead > AHEAD {
        let ahead = span(ahead.unsigned_abs());
        Finding::new("clock", Verdict::Warn, format!("the policy was changed {ahead} in its future")).advise(advice)
    } else {
        Finding::ok("clock", "plausible")
    }
}

/// Whether certificates are valid now and for a while, and whether the hosts of all routes have one.
pub fn certificates(config: &Config, used: &[UsedCertificate], now: i64) -> Vec<Finding> {
    const DAY: i64 = 86_400;
    let mut findings: Vec<Finding> = used
        .iter()
        .map(|UsedCertificate { written, not_before, not_after, .. }| {
            let check = format!("certificate {written}");
            let days = not_after.saturating_sub(now).div_euclid(DAY);
            let left = count(days.unsigned_abs(), "day");
            let (verdict, found) = match () {
                () if now < *not_before => (Verdict::Fail, "is not valid yet".to_owned()),
                () if now > *not_after => (Verdict::Fail, format!("expired {left} ago")),
                () if days < EXPIRES_SOON_DAYS => (Verdict::Warn, format!("expires in {left}")),
                () => return Finding::ok(check, format!("valid for {left}")),
            };
            Finding::new(check, verdict, found).advise("renew it; a new file is taken over without a restart")
        })
        .collect();
    let has_tls = config.settings.listeners.iter().any(|listener| listener.tls.is_some());
    let bare: Vec<String> = if has_tls { hosts_without(config, used) } else { Vec::new() };
    if !bare.is_empty() {
        findings.push(
            Finding::new("hosts", Verdict::Warn, format!("no certificate for {}", bare.join(", ")))
                .advise("browsers refuse the one that they get in its place: name a certificate with this host"),
        );
    }
    findings
}

/// Hosts of routes for which no certificate stands, each once.
fn hosts_without(config: &Config, used: &[UsedCertificate]) -> Vec<String> {
    let matches = config.policy.routes.iter().flat_map(|route| &route.matches);
    let mut hosts: Vec<String> = matches
        .filter_map(|one| match &one.host {
            HostMatch::Any => None,
            HostMatch::Exact(host) => Some(host.clone()),
            HostMatch::Suffix(suffix) => Some(format!("*{suffix}")),
        })
        .collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts.retain(|host| !used.iter().any(|certificate| covers(&certificate.names, host)));
    hosts
}

/// Whether others may change what the gate believes. Whether others may read its secrets is said when the policy loads.
pub fn files(policy: &Path, config: &Config) -> Vec<Finding> {
    let tls = config.settings.listeners.iter().filter_map(|listener| listener.tls.as_ref());
    let named =
        tls.flat_map(|tls| &tls.certificates).flat_map(|files| [files.cert.path.clone(), files.key.path.clone()]);
    let mut paths: Vec<PathBuf> = std::iter::once(policy.to_owned()).chain(named).collect();
    // whoever may write in a folder may replace its files
    let folders: Vec<PathBuf> = paths.iter().filter_map(|path| path.parent()).map(Path::to_owned).collect();
    paths.extend(
        folders.into_iter().map(|folder| if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder }),
    );
    paths.sort_unstable();
    paths.dedup();
    let open: Vec<&PathBuf> = paths.iter().filter(|path| is_open_to_all(path)).collect();
    if open.is_empty() {
        return vec![Finding::ok(
            "files",
            format!("{}: only their owners and groups may change them", count(paths.len() as u64, "file")),
        )];
    }
    let findings = open.into_iter().map(|path| {
        let path = path.display();
        Finding::new("files", Verdict::Fail, format!("each user of this machine may change {path}"))
            .advise(format!("chmod o-w {path}"))
    });
    findings.collect()
}

/// Whether each user may write there; where only its owner may remove what lies there, as in `/tmp`, no one may replace it.
fn is_open_to_all(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o1002 == 0o0002)
}

/// Whether the directory of state can be written or made. Without it the gate serves, and begins anew at each start.
pub fn state(config: &Config) -> Option<Finding> {
    const CHECK: &str = "state";
    let directory = config.settings.state.as_ref()?.directory.as_path();
    let shown = directory.display();
    let bad = |found: String, advice: String| Some(Finding::new(CHECK, Verdict::Warn, found).advise(advice));
    let lost = "a restart forgets counts and bans";
    let (there, ready) = match fs::metadata(directory) {
        Ok(found) if !found.is_dir() => {
            return bad(format!("{shown} is not a directory"), format!("name another: {lost}"));
        }
        Ok(found) if found.permissions().mode() & 0o077 != 0 => {
            let mode = found.permissions().mode() & 0o777;
            return bad(
                format!("{shown}: others than its owner may enter it (mode {mode:03o})"),
                format!("chmod 700 {shown}; as it is {lost}"),
            );
        }
        Ok(_) => (directory, "can be written"),
        Err(_) => (directory.ancestors().skip(1).find(|above| above.is_dir()).unwrap_or(Path::new(".")), "can be made"),
    };
    if let Err(error) = access(there, Access::WRITE_OK | Access::EXEC_OK) {
        let advice = format!("give {shown} to the user that serves; as it is {lost}");
        return bad(format!("{shown}: {}: {error}", there.display()), advice);
    }
    let Ok(disk) = rustix::fs::statvfs(there) else { return Some(Finding::ok(CHECK, format!("{shown} {ready}"))) };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let found = format!("{shown} {ready}, {} MiB are free on its disk", grouped(free >> 20));
    if free < LITTLE_SPACE {
        bad(found, format!("free some: when it is full {lost}"))
    } else {
        Some(Finding::ok(CHECK, found))
    }
}

/// Whether the access log can be written.
pub fn access_log(config: &Config) -> Option<Finding> {
    const CHECK: &str = "access log";
    let LogTarget::File(path) = &config.settings.access_log.as_ref()?.to else { return None };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // a file that is not there is made
    let wanted =
        if path.exists() { access(path, Access::WRITE_OK) } else { access(folder, Access::WRITE_OK | Access::EXEC_OK) };
    let found = path.display();
    if let Err(error) = wanted {
        return Some(Finding::new(CHECK, Verdict::Fail, format!("{found}: {error}")).advise(format!(
            "make {} and give it to the user that serves; requests are served all the same, lines are lost",
            folder.display()
        )));
    }
    let free = rustix::fs::statvfs(folder).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize)).unwrap_or(u64::MAX);
    Some(match free < LITTLE_SPACE {
        true => {
            Finding::new(CHECK, Verdict::Warn, format!("{found}: {} MiB are free on its disk", grouped(free >> 20)))
                .advise("free some: lines are lost when it is full")
        }
        false => Finding::ok(CHECK, format!("{found} can be written")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load_text;

    fn config(text: &str) -> Config {
        load_text("t.yaml", text, &|_| None, Path::new(".")).outcome.unwrap()
    }

    const SITE: &str = "routes: [{ origin: \"127.0.0.1:3000\" }]\n";

    fn verdicts(findings: &[Finding]) -> Vec<Verdict> {
        findings.iter().map(|finding| finding.verdict).collect()
    }

    #[test]
    fn an_address_that_is_taken_fails_unless_the_gate_itself_has_it() {
        let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = held.local_addr().unwrap();
        let config = config(&format!("listen: \"{address}\"\n{SITE}"));
        let stranger = listeners(&config, None);
        assert_eq!(verdicts(&stranger), [Verdict::Fail]);
        assert_eq!(stranger[0].found, format!("cannot listen on {address}: the port is in use"));
        assert!(stranger[0].advice.as_ref().unwrap().contains("ss -ltnp"), "{stranger:?}");
        assert_eq!(verdicts(&listeners(&config, Some(&State::default()))), [Verdict::Fail], "it serves elsewhere");
        let own = crate::observe::state::Listener { address: address.to_string(), ..Default::default() };
        let running = State { listeners: vec![own], ..State::default() };
        assert_eq!(verdicts(&listeners(&config, Some(&running))), [Verdict::Ok]);
        drop(held);
        assert_eq!(verdicts(&listeners(&config, None)), [Verdict::Ok]);
        assert_eq!(verdicts(&listeners(&config, None)), [Verdict::Ok], "it was given back");
    }

    #[test]
    fn a_clock_before_this_program_fails_and_one_behind_a_file_warns() {
        let file = std::env::temp_dir().join(format!("tidegate-doctor-clock-{}", std::process::id()));
        fs::write(&file, "").unwrap();
        let written = fs::metadata(&file).unwrap().modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
        let written = i64::try_from(written.as_secs()).unwrap();
        let verdict = |now| clock(&file, now).verdict;
        assert_eq!(verdict(written), Verdict::Ok);
        assert_eq!(verdict(written - AHEAD), Verdict::Ok);
        assert_eq!(verdict(written - AHEAD - 1), Verdict::Warn);
        assert_eq!(verdict(0), Verdict::Fail);
        fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_certificate_is_told_by_its_days() {
        let config = config(&format!("listen: \"127.0.0.1:0\"\n{SITE}"));
        let day = 86_400;
        let used = UsedCertificate {
            written: "a.pem".to_owned(),
            at: crate::config::span::Span::default(),
            names: vec!["shop.example.com".to_owned()],
            not_before: 0,
            not_after: 100 * day,
        };
        let told = |now: i64| {
            let findings = certificates(&config, std::slice::from_ref(&used), now);
            (findings[0].verdict, findings[0].found.clone())
        };
        assert_eq!(told(0), (Verdict::Ok, "valid for 100 days".to_owned()));
        assert_eq!(told(99 * day), (Verdict::Warn, "expires in 1 day".to_owned()));
        assert_eq!(told(86 * day), (Verdict::Ok, "valid for 14 days".to_owned()));
        assert_eq!(told(102 * day).0, Verdict::Fail);
        assert_eq!(told(-1), (Verdict::Fail, "is not valid yet".to_owned()));
    }

    #[test]
    fn a_file_that_everyone_may_change_fails() {
        let folder = std::env::temp_dir().join(format!("tidegate-doctor-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("tidegate.yaml");
        fs::write(&file, "").unwrap();
        let config = config(&format!("listen: \"127.0.0.1:0\"\n{SITE}"));
        let with = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            let findings = files(&file, &config);
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
            verdicts(&findings)
        };
        assert_eq!(with(&file, 0o664), [Verdict::Ok]);
        assert_eq!(with(&file, 0o666), [Verdict::Fail]);
        assert_eq!(with(&folder, 0o777), [Verdict::Fail]);
        assert_eq!(with(&folder, 0o1777), [Verdict::Ok], "as /tmp");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_directory_of_state_is_looked_at_and_not_made() {
        let folder = std::env::temp_dir().join(format!("tidegate-doctor-state-{}", std::process::id()));
        let directory = folder.join("a/b");
        let config = config(&format!(
            "listen: \"127.0.0.1:0\"\n{SITE}server: {{ state: {{ directory: \"{}\" }} }}\n",
            directory.display()
        ));
        let told = || state(&config).unwrap().found;
        assert!(told().contains(" can be made, "), "{}", told());
        assert!(!folder.exists());
        fs::create_dir_all(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(told().contains(" can be written, "), "{}", told());
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(verdicts(&[state(&config).unwrap()]), [Verdict::Warn]);
        assert!(told().ends_with("(mode 755)"), "{}", told());
        fs::remove_dir_all(&folder).unwrap();
        fs::write(&folder, "").unwrap();
        assert_ne!(verdicts(&[state(&config).unwrap()]), [Verdict::Fail]);
        fs::remove_file(&folder).unwrap();
    }

    #[test]
    fn an_access_log_without_a_folder_fails() {
        let folder = std::env::temp_dir().join(format!("tidegate-doctor-log-{}", std::process::id()));
        let log = folder.join("access.log");
        let config = config(&format!(
            "listen: \"127.0.0.1:0\"\n{SITE}telemetry: {{ access_log: {{ to: \"{}\" }} }}\n",
            log.display()
        ));
        assert_eq!(access_log(&config).unwrap().verdict, Verdict::Fail);
        fs::create_dir_all(&folder).unwrap();
        assert_ne!(access_log(&config).unwrap().verdict, Verdict::Fail);
        assert!(!log.exists(), "it is only looked at");
        fs::remove_dir_all(&folder).unwrap();
    }
}
