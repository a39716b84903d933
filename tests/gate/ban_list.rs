//! `conf/firewall/ban-list`: what nftables, or a command for a CDN, is given of a gate's bans.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use regex::Regex;

use crate::admin::{OPEN, gate, verb};
use crate::harness::gate::Folder;
use crate::harness::{Gate, wait_for};
use crate::skips::skip;

/// A machine with the script, and an `nft` that keeps what it is given.
struct Machine {
    folder: Folder,
}

impl Machine {
    fn new() -> Machine {
        let machine = Machine { folder: Folder::new() };
        machine.program("nft", &format!("[ \"$1\" = -f ] && cp \"$2\" '{}'", machine.path("given").display()));
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, name: &str, lines: &str) {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, socket: &Path, arguments: &[&str]) -> Output {
        let program = Path::new(env!("CARGO_BIN_EXE_tidegate")).parent().unwrap();
        let usual = std::env::var("PATH").unwrap();
        Command::new("sh")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("conf/firewall/ban-list"))
            .args(arguments)
            .env("PATH", format!("{}:{}:{usual}", self.folder.path().display(), program.display()))
            .env("TIDEGATE_ADMIN", socket)
            .env("TMPDIR", self.folder.path())
            .output()
            .unwrap()
    }

    /// What `nft` is given by a run, with `SECONDS` for each time that is at most an hour.
    fn given(&self, gate: &Gate) -> String {
        let output = self.run(&gate.admin_socket(), &["nftables"]);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        let given = fs::read_to_string(self.path("given")).unwrap();
        self.is_right(&given);
        let times = Regex::new(r"timeout (3600|3[0-5]\d\d)s").unwrap();
        times.replace_all(&given, "timeout SECONDS").into_owned()
    }

    /// Asks the real `nft` about it.
    fn is_right(&self, given: &str) {
        let nft = ["/usr/sbin/nft", "/usr/bin/nft"].into_iter().find(|path| Path::new(path).exists());
        let Some(nft) = std::env::var("TIDEGATE_TEST_NFT").ok().or_else(|| nft.map(str::to_owned)) else {
            return skip("the list in nftables", "no nft; Debian's package is nftables");
        };
        let check = |text: &str| {
            let file = self.path("checked");
            fs::write(&file, text).unwrap();
            Command::new(&nft).arg("-c").arg("-f").arg(&file).output().unwrap()
        };
        if !check("table inet tidegate\n").status.success() {
            return skip("the list in nftables", "`nft -c` is not permitted");
        }
        let checked = check(given);
        assert!(checked.status.success(), "{}\n{given}", String::from_utf8_lossy(&checked.stderr));
    }

    /// Nothing but what the tests write themselves is left.
    fn is_tidy(&self) {
        let names = fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = names.filter(|name| name.to_str().unwrap().contains('.')).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn done(gate: &Gate, arguments: &[&str]) {
    let ended = verb(gate, arguments);
    assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.stderr);
}

const TABLE: &str = "table inet tidegate
delete table inet tidegate
table inet tidegate {
    set banned4 {
        type ipv4_addr
        flags interval, timeout
FOUR    }
    set banned6 {
        type ipv6_addr
        flags interval, timeout
SIX    }
    chain prerouting {
        type filter hook prerouting priority raw; policy accept;
        ip saddr @banned4 counter drop
        ip6 saddr @banned6 counter drop
    }
}
";

fn table(four: &str, six: &str) -> String {
    let elements = |list: &str| match list {
        "" => String::new(),
        list => format!("        elements = {{ {list} }}\n"),
    };
    TABLE.replace("FOUR", &elements(four)).replace("SIX", &elements(six))
}

#[test]
fn nftables_gets_each_networks_ban_with_its_end_and_keeps_what_it_has_when_the_gate_is_away() {
    let (machine, gate) = (Machine::new(), gate(OPEN, ""));
    assert_eq!(machine.given(&gate), table("", ""), "an empty list ends what was there");
    for target in ["203.0.113.0/24", "203.0.113.7", "198.51.100.7", "2001:db8:7::1", "2001:db8:8::/48", "by_key=stolen"]
    {
        done(&gate, &["ban", target, "--for", "1h", "--why", "} ; flush ruleset; $(touch x) #"]);
    }
    // the /24 has the address in it, and an IPv6 client is its /64
    let four = "198.51.100.7 timeout SECONDS, 203.0.113.0/24 timeout SECONDS";
    let six = "2001:db8:7::/64 timeout SECONDS, 2001:db8:8::/48 timeout SECONDS";
    assert_eq!(machine.given(&gate), table(four, six));
    done(&gate, &["unban", "203.0.113.0/24"]);
    done(&gate, &["unban", "2001:db8:8::/48"]);
    done(&gate, &["ban", "2001:db8:7::1", "--for", "1s"]);
    wait_for("a ban to end", || {
        let six = "2001:db8:7::/64 timeout 1s";
        let four = "198.51.100.7 timeout SECONDS, 203.0.113.7 timeout SECONDS";
        let given = machine.given(&gate);
        assert!(given == table(four, six) || given == table(four, ""), "{given}");
        (given == table(four, "")).then_some(())
    });
    done(&gate, &["ban", "0.0.0.0/0", "--for", "1h", "--force"]);
    assert_eq!(machine.given(&gate), table("0.0.0.0/0 timeout SECONDS", ""));
    // what nft says is what the script says
    machine.program("nft", "echo no >&2; exit 3");
    let output = machine.run(&gate.admin_socket(), &["nftables"]);
    assert_eq!((output.status.code(), &*output.stderr), (Some(3), &b"no\n"[..]));
    machine.program("nft", &format!("touch '{}'", machine.path("asked").display()));
    let socket = gate.admin_socket();
    drop(gate);
    let output = machine.run(&socket, &["nftables"]);
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    assert!(!machine.path("asked").exists(), "nft is not asked");
    machine.is_tidy();
}

#[test]
fn a_command_gets_the_list_when_it_has_changed_and_again_until_it_takes_it() {
    let (machine, gate) = (Machine::new(), gate(OPEN, ""));
    let (file, took) = (machine.path("banned"), machine.path("took"));
    machine.program("publish", &format!("echo \"$1:\" >>'{0}'; cat \"$2\" >>'{0}'", took.display()));
    let run = || machine.run(&gate.admin_socket(), &[file.to_str().unwrap(), "publish", "a b"]);
    let taken = || fs::read_to_string(&took).unwrap_or_default();
    assert!(run().status.success() && taken() == "a b:\n", "{}", taken());
    assert!(run().status.success() && taken() == "a b:\n", "it has not changed: {}", taken());
    done(&gate, &["ban", "203.0.113.7", "--for", "1h"]);
    done(&gate, &["ban", "2001:db8:8::/48", "--for", "1h"]);
    let publish = fs::read_to_string(machine.path("publish")).unwrap();
    machine.program("publish", "exit 5");
    assert_eq!(run().status.code(), Some(5));
    assert_eq!(fs::read_to_string(&file).unwrap(), "", "it was not taken");
    fs::write(machine.path("publish"), publish).unwrap();
    assert!(run().status.success());
    let list = "203.0.113.7\n2001:db8:8::/48\n";
    assert_eq!((taken(), fs::read_to_string(&file).unwrap()), (format!("a b:\na b:\n{list}"), list.to_owned()));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
    // without a command the file is all
    done(&gate, &["unban", "203.0.113.7"]);
    assert!(machine.run(&gate.admin_socket(), &[file.to_str().unwrap()]).status.success());
    assert_eq!(fs::read_to_string(&file).unwrap(), "2001:db8:8::/48\n");
    let socket = gate.admin_socket();
    drop(gate);
    let output = machine.run(&socket, &[file.to_str().unwrap(), "publish", "a b"]);
    assert_eq!((output.status.code(), taken()), (Some(69), format!("a b:\na b:\n{list}")), "{output:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "2001:db8:8::/48\n");
    machine.is_tidy();
    assert_eq!(machine.run(&socket, &[]).status.code(), Some(64));
}

/// A process at the socket that lists this as a network, to one question.
fn lying(socket: &Path, network: &str) -> std::thread::JoinHandle<()> {
    let _ = fs::remove_file(socket);
    let listener = UnixListener::bind(socket).unwrap();
    let told = serde_json::json!({
        "networks": [["203.0.113.7/32", 60], [network, 60]], "left_out": 0, "schema": "tidegate.bans.networks/1"
    });
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            match line.to_ascii_lowercase().trim_end().strip_prefix("content-length:") {
                Some(count) => length = count.trim().parse().unwrap(),
                None if line == "\r\n" => break,
                None => {}
            }
        }
        reader.read_exact(&mut vec![0; length]).unwrap();
        let body = told.to_string();
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    })
}

#[test]
fn a_process_that_lists_what_is_no_network_gets_nothing_into_the_firewall() {
    let machine = Machine::new();
    let (socket, file) = (machine.path("socket"), machine.path("banned"));
    fs::write(&file, "198.51.100.7/32\n").unwrap();
    for name in ["1.2.3.4 }\nflush ruleset\n", "$(touch x)", "1.2.3.4/33", "-f /etc/passwd", "", "::/0 timeout 1s, ::1"]
    {
        for arguments in [&["nftables"][..], &[file.to_str().unwrap(), "false"]] {
            let process = lying(&socket, name);
            let output = machine.run(&socket, arguments);
            process.join().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.code() == Some(1) && said.contains("what is no network"), "{name}: {said}");
        }
    }
    assert!(!machine.path("given").exists());
    assert_eq!(fs::read_to_string(&file).unwrap(), "198.51.100.7/32\n");
    // the same process, when it tells the truth
    let process = lying(&socket, "198.51.100.0/24");
    assert!(machine.run(&socket, &["nftables"]).status.success());
    process.join().unwrap();
    assert!(fs::read_to_string(machine.path("given")).unwrap().contains("{ 203.0.113.7 timeout 60s, 198.51.100.0/24"));
}
