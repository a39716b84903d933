//! Real stores: `redis-server` alone, with a replica and sentinels, and as a cluster, each on free ports and with a folder
//! of its own. Everything ends when it is dropped.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::ports::own_port;
use super::wait_for;

/// A process that speaks Redis' protocol.
pub struct Server {
    child: Child,
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    folder: PathBuf,
    program: &'static str,
    arguments: Vec<String>,
    login: Vec<String>,
}

impl Server {
    /// A `redis-server` that saves nothing and evicts nothing, with these further arguments.
    pub fn start(arguments: &[&str]) -> Server {
        let mut all = vec!["--maxmemory-policy", "noeviction", "--port", "PORT"];
        all.extend_from_slice(arguments);
        Server::start_closed(&all, &[])
    }

    /// One that is reached by `redis-cli` with the arguments of `login`: passwords, certificates. `PORT` stands for its port.
    pub fn start_closed(arguments: &[&str], login: &[&str]) -> Server {
        let port = own_port();
        let mut all: Vec<String> = ["--save", "", "--appendonly", "no"].map(str::to_owned).to_vec();
        all.extend(arguments.iter().map(|argument| argument.replace("PORT", &port.to_string())));
        Server::run("redis-server", port, folder(), all, login)
    }

    fn run(program: &'static str, port: u16, folder: PathBuf, arguments: Vec<String>, login: &[&str]) -> Server {
        let child = spawn(program, &folder, &arguments);
        let login = login.iter().map(|word| (*word).to_owned()).collect();
        let server = Server { child, port, folder, program, arguments, login };
        server.wait();
        server
    }

    fn wait(&self) {
        wait_for("a store to listen", || TcpStream::connect(("127.0.0.1", self.port)).ok());
        wait_for("a store to answer", || (self.try_cli(&["PING"]).trim() == "PONG").then_some(()));
    }

    /// What `redis-cli` prints of one command.
    pub fn cli(&self, words: &[&str]) -> String {
        self.try_cli(words).trim().to_owned()
    }

    fn try_cli(&self, words: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string()])
            .args(&self.login)
            .args(words)
            .stdin(Stdio::null())
            .output()
            .expect("no redis-cli: run `./dev setup test`");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// From now on it wants this password of everybody who comes; whoever is there already may stay.
    pub fn lock(&mut self, password: &str) {
        assert_eq!(self.cli(&["CONFIG", "SET", "requirepass", password]), "OK");
        self.arguments.extend(["--requirepass", password].map(str::to_owned));
        self.login = ["--no-auth-warning", "-a", password].map(str::to_owned).to_vec();
    }

    /// It answers nothing from now on, and keeps its connections.
    pub fn pause(&self) {
        self.signal("-STOP");
        // a signal is on its way for a moment, and what was answered until then
        let stat = format!("/proc/{}/stat", self.child.id());
        wait_for("the store to stop", || {
            let stat = std::fs::read_to_string(&stat).ok()?;
            stat.rsplit_once(") ")?.1.starts_with('T').then_some(())
        });
        std::thread::sleep(Duration::from_millis(50));
    }

    /// It goes on.
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success());
    }

    /// It ends without a word.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// It starts again, empty, where it was.
    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn(self.program, &self.folder, &self.arguments);
        self.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A primary called `shared`, its replica, and three sentinels of whom two decide.
pub struct Sentinels {
    /// The primary at first.
    pub primary: Server,
    /// What follows it.
    pub replica: Server,
    /// Those who watch.
    pub sentinels: Vec<Server>,
}

impl Sentinels {
    /// All of them, once they know each other.
    pub fn start() -> Sentinels {
        let primary = Server::start(&[]);
        let replica = Server::start(&["--replicaof", "127.0.0.1", &primary.port.to_string()]);
        wait_for("the replica", || primary.cli(&["INFO", "replication"]).contains("state=online").then_some(()));
        let sentinels: Vec<Server> = (0..3).map(|_| sentinel(primary.port)).collect();
        for sentinel in &sentinels {
            wait_for("the sentinels to know each other", || {
                let told = sentinel.cli(&["SENTINEL", "MASTER", "shared"]);
                let lines: Vec<&str> = told.lines().collect();
                let value = |name| lines.iter().position(|line| *line == name).map(|at| lines[at + 1]);
                (value("num-other-sentinels") == Some("2") && value("num-slaves") == Some("1")).then_some(())
            });
        }
        Sentinels { primary, replica, sentinels }
    }
}

fn sentinel(primary: u16) -> Server {
    let (port, folder) = (own_port(), folder());
    let file = folder.join("sentinel.conf");
    let text = format!(
        "port {port}\nsentinel monitor shared 127.0.0.1 {primary} 2\nsentinel down-after-milliseconds shared 500\n\
         sentinel failover-timeout shared 5000\n"
    );
    std::fs::write(&file, text).unwrap();
    Server::run("redis-sentinel", port, folder, vec![file.display().to_string()], &[])
}

/// Three servers that share the slots.
pub struct Cluster {
    /// All of them primaries.
    pub servers: Vec<Server>,
}

impl Cluster {
    /// All three, once each knows that all slots are covered.
    pub fn start() -> Cluster {
        let servers: Vec<Server> = (0..3).map(|_| cluster_server()).collect();
        let mut create = Command::new("redis-cli");
        create.args(["--cluster", "create"]);
        create.args(servers.iter().map(|server| format!("127.0.0.1:{}", server.port)));
        let output = create.args(["--cluster-replicas", "0", "--cluster-yes"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        for server in &servers {
            wait_for("the cluster", || {
                let info = server.cli(&["CLUSTER", "INFO"]);
                (info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")).then_some(())
            });
        }
        Cluster { servers }
    }

    /// The position of the server that has this slot, by its own word.
    pub fn owner(&self, slot: &str) -> usize {
        let slot: u16 = slot.parse().unwrap();
        let mine = |server: &Server| {
            let nodes = server.cli(&["CLUSTER", "NODES"]);
            let line = nodes.lines().find(|line| line.contains("myself")).unwrap().to_owned();
            line.split(' ').skip(8).any(|range| {
                let (from, to) = range.split_once('-').unwrap_or((range, range));
                matches!((from.parse::<u16>(), to.parse::<u16>()), (Ok(from), Ok(to)) if (from..=to).contains(&slot))
            })
        };
        self.servers.iter().position(mine).unwrap()
    }

    /// Moves a slot with all that is in it from one server to another, as `redis-cli --cluster reshard` does: it is never
    /// at neither.
    pub fn reshard(&self, slot: &str, from: usize, to: usize) {
        let (source, target) = (&self.servers[from], &self.servers[to]);
        let (source_id, target_id) = (source.cli(&["CLUSTER", "MYID"]), target.cli(&["CLUSTER", "MYID"]));
        assert_eq!(target.cli(&["CLUSTER", "SETSLOT", slot, "IMPORTING", &source_id]), "OK");
        assert_eq!(source.cli(&["CLUSTER", "SETSLOT", slot, "MIGRATING", &target_id]), "OK");
        for key in source.cli(&["CLUSTER", "GETKEYSINSLOT", slot, "1000"]).lines() {
            // `NOKEY`: it has ended by itself
            let moved = source.cli(&["MIGRATE", "127.0.0.1", &target.port.to_string(), key, "0", "5000"]);
            assert!(matches!(moved.as_str(), "OK" | "NOKEY"), "{moved}");
        }
        for server in [target, source] {
            assert_eq!(server.cli(&["CLUSTER", "SETSLOT", slot, "NODE", &target_id]), "OK");
        }
        wait_for("the slot to have moved", || (self.owner(slot) == to).then_some(()));
    }

    /// A further server that follows the one at this position, and that all know of.
    pub fn replica_of(&self, primary: usize) -> Server {
        let (replica, primary) = (cluster_server(), &self.servers[primary]);
        let id = primary.cli(&["CLUSTER", "MYID"]);
        let bus = primary.cli(&["CONFIG", "GET", "cluster-port"]);
        let bus = bus.lines().last().unwrap();
        let meet = ["CLUSTER", "MEET", "127.0.0.1", &primary.port.to_string(), bus];
        assert_eq!(replica.cli(&meet), "OK");
        wait_for("the replica to know its primary", || {
            (replica.cli(&["CLUSTER", "REPLICATE", &id]) == "OK").then_some(())
        });
        wait_for("the replica", || primary.cli(&["INFO", "replication"]).contains("state=online").then_some(()));
        let replica_id = replica.cli(&["CLUSTER", "MYID"]);
        for server in &self.servers {
            wait_for("all to know the replica", || {
                let nodes = server.cli(&["CLUSTER", "NODES"]);
                let line = nodes.lines().find(|line| line.starts_with(&replica_id))?;
                line.contains("slave").then_some(())
            });
        }
        replica
    }
}

fn cluster_server() -> Server {
    let bus = own_port().to_string();
    Server::start(&["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-node-timeout", "2000"])
}

fn spawn(program: &str, folder: &PathBuf, arguments: &[String]) -> Child {
    Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {program} ({error}): `./dev setup test` installs it"))
}

fn folder() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("tidegate-store-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Somebody who hears all that a server is told.
pub struct Listener {
    child: Child,
    heard: std::sync::Arc<std::sync::Mutex<String>>,
}

impl Listener {
    /// Everything that was said so far, with what is not printable as escapes.
    pub fn heard(mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.heard.lock().unwrap().clone()
    }
}

impl Server {
    /// Hears every command from now on, with all of its arguments, as they came over the wire.
    pub fn listen_in(&self) -> Listener {
        let mut child = Command::new("redis-cli")
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "MONITOR"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("no redis-cli: run `./dev setup test`");
        let heard = std::sync::Arc::<std::sync::Mutex<String>>::default();
        let (mut out, ears) = (child.stdout.take().expect("it is piped"), std::sync::Arc::clone(&heard));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = std::io::Read::read(&mut out, &mut bytes) {
                ears.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        wait_for("the listener to hear", || (!heard.lock().unwrap().is_empty()).then_some(()));
        Listener { child, heard }
    }

    /// All keys, and what is kept of each.
    pub fn contents(&self) -> String {
        let keys = self.cli(&["KEYS", "*"]);
        keys.lines().map(|key| format!("{key} {} {}\n", self.cli(&["GET", key]), self.cli(&["DUMP", key]))).collect()
    }
}
