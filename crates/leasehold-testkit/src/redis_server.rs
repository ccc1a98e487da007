//! Real Redis servers, each in a directory of its own, gone when dropped.

use std::{
    fmt::Write as _,
    fs::{self, File},
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How a server is started.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct RedisOptions {
    settings: Vec<(String, String)>,
    password: Option<String>,
    tls: bool,
    sentinel: bool,
}

impl RedisOptions {
    /// No persistence, no password, on 127.0.0.1 and, where there is one, on `::1`.
    pub fn new() -> Self {
        Self::default()
    }

    /// A line of `redis.conf`. The last one of a name counts.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The default user's password.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.set("requirepass", password)
    }

    /// Listens with TLS on a second port, with a certificate for `localhost` and 127.0.0.1.
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Follows another server.
    pub fn replica_of(self, primary: &RedisServer) -> Self {
        self.set("replicaof", &format!("127.0.0.1 {}", primary.port()))
    }

    /// Is a sentinel, which watches `primary` under this name and is quick to judge.
    pub fn sentinel(mut self, name: &str, primary: &RedisServer, quorum: u32) -> Self {
        self.sentinel = true;
        self.set("sentinel", &format!("monitor {name} 127.0.0.1 {} {quorum}", primary.port()))
            .set("sentinel", &format!("down-after-milliseconds {name} 300"))
            .set("sentinel", &format!("failover-timeout {name} 2000"))
    }

    /// Starts the server, and waits until it answers.
    pub fn start(self) -> RedisServer {
        let dir = tempfile::tempdir().unwrap();
        if self.tls {
            make_certificates(dir.path());
        }
        let mut server = RedisServer { options: self, dir, port: 0, tls_port: 0, child: None };
        for _ in 0..10 {
            server.configure();
            if server.launch() {
                return server;
            }
            // Somebody else was given the port meanwhile.
        }
        panic!("redis-server does not start:\n{}", server.log());
    }
}

/// A server. Killed when dropped.
#[derive(Debug)]
pub struct RedisServer {
    options: RedisOptions,
    dir: TempDir,
    port: u16,
    tls_port: u16,
    child: Option<Child>,
}

impl RedisServer {
    /// On 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// With TLS, if asked for.
    pub fn tls_port(&self) -> u16 {
        self.tls_port
    }

    /// Where its files are: `dump.rdb`, `redis.sock`, and with TLS `ca.crt`, `client.crt`, `client.key`.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// It listens here too.
    pub fn socket(&self) -> PathBuf {
        self.dir().join("redis.sock")
    }

    /// `redis://127.0.0.1:PORT`, with the password.
    pub fn url(&self) -> String {
        match &self.options.password {
            Some(password) => format!("redis://:{password}@127.0.0.1:{}", self.port),
            None => format!("redis://127.0.0.1:{}", self.port),
        }
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the server runs").id()
    }

    /// What `redis-cli` prints.
    pub fn cli(&self, args: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]).args(args);
        if let Some(password) = &self.options.password {
            command.env("REDISCLI_AUTH", password);
        }
        let output = command.output().expect("redis-cli is installed with redis-server");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Pauses it: connections stay, answers do not come.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Goes on after [`stop`](Self::stop).
    pub fn cont(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills it with -9, and waits until it is gone.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    /// Starts it again after [`kill`](Self::kill), on the same ports, with what it had saved.
    pub fn start_again(&mut self) {
        let until = Instant::now() + Duration::from_secs(20);
        while !self.launch() {
            assert!(Instant::now() < until, "redis-server does not start again:\n{}", self.log());
        }
    }

    /// Kills it and starts it again.
    pub fn restart(&mut self) {
        self.kill();
        self.start_again();
    }

    /// As [`start_again`](Self::start_again), but returns at once, while it may still be loading.
    pub fn start_loading(&mut self) {
        self.spawn();
        let until = Instant::now() + Duration::from_secs(20);
        while !self.cli(&["PING"]).contains("LOADING") {
            assert!(Instant::now() < until, "redis-server is not seen loading:\n{}", self.log());
            sleep(Duration::from_millis(10));
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).unwrap()).expect("no process has the number 0");
        kill_process(pid, signal).unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir().join("log")).unwrap_or_default()
    }

    /// Chooses ports and writes `redis.conf`.
    fn configure(&mut self) {
        (self.port, self.tls_port) = (free_port(), free_port());
        let dir = self.dir().display();
        let mut conf = format!("port {}\nbind 127.0.0.1 -::1\ndir {dir}\n", self.port);
        if !self.options.sentinel {
            write!(conf, "save \"\"\nunixsocket {dir}/redis.sock\nrepl-diskless-sync-delay 0\n").unwrap();
        }
        if self.options.tls {
            write!(
                conf,
                "tls-port {}\ntls-cert-file {dir}/server.crt\ntls-key-file {dir}/server.key\n\
                 tls-ca-cert-file {dir}/ca.crt\ntls-auth-clients no\n",
                self.tls_port
            )
            .unwrap();
        }
        for (name, value) in &self.options.settings {
            writeln!(conf, "{name} {value}").unwrap();
        }
        fs::write(self.dir().join("redis.conf"), conf).unwrap();
    }

    fn spawn(&mut self) {
        let log = File::create(self.dir().join("log")).unwrap();
        let mut command = Command::new("redis-server");
        command.arg(self.dir().join("redis.conf"));
        if self.options.sentinel {
            command.arg("--sentinel");
        }
        command.stdin(Stdio::null()).stderr(log.try_clone().unwrap()).stdout(log);
        self.child = Some(command.spawn().expect("redis-server is installed: `apt-get install redis-server`"));
    }

    /// Whether it runs and answers.
    fn launch(&mut self) -> bool {
        self.spawn();
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until {
            if self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_some()) {
                self.child = None;
                return false;
            }
            if self.cli(&["PING"]) == "PONG" {
                return true;
            }
            sleep(Duration::from_millis(5));
        }
        self.kill();
        false
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// An authority, and certificates of it for the server and for a client.
fn make_certificates(dir: &Path) {
    let openssl = |args: &[&str]| {
        let output = Command::new("openssl").args(args).current_dir(dir).output().expect("openssl is installed");
        assert!(output.status.success(), "openssl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let with = |rest: &[&str]| openssl(&[&["req"], &key[..], rest].concat());
    with(&["-x509", "-days", "2", "-subj", "/CN=test authority", "-keyout", "ca.key", "-out", "ca.crt"]);
    fs::write(dir.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1").unwrap();
    for name in ["server", "client"] {
        let (own_key, request, certificate) = (format!("{name}.key"), format!("{name}.csr"), format!("{name}.crt"));
        with(&["-subj", &format!("/CN={name}"), "-keyout", &own_key, "-out", &request]);
        openssl(&[
            "x509",
            "-req",
            "-days",
            "2",
            "-in",
            &request,
            "-CA",
            "ca.crt",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-extfile",
            "names",
            "-out",
            &certificate,
        ]);
    }
}
