//! What the tests share.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Long enough for a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(30);

/// A store of its own, and a directory for what commands leave behind.
pub(crate) struct Store {
    dir: TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Store {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite:{}", self.path("leases.db").display())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `leasehold` with this store in its environment, in a directory of its own.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = bare(args);
        command.env("LEASEHOLD_STORE", self.url()).current_dir(self.dir.path());
        command
    }

    /// Runs it to its end.
    pub(crate) fn leasehold(&self, args: &[&str]) -> Done {
        done(&mut self.command(args))
    }

    /// Starts it, with its output kept for [`Running::end`].
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running::start(self.command(args))
    }

    /// Takes a lease and gives back its ticket.
    pub(crate) fn acquire(&self, args: &[&str]) -> String {
        let mut all = vec!["acquire"];
        all.extend(args);
        let done = self.leasehold(&all);
        assert_eq!(done.code, 0, "{done:?}");
        done.out.trim().to_owned()
    }

    pub(crate) fn status(&self, name: &str) -> Value {
        let done = self.leasehold(&["status", name, "--json"]);
        assert_eq!(done.code, 0, "{done:?}");
        done.json()
    }

    pub(crate) fn is_held(&self, name: &str) -> bool {
        self.status(name)["state"] == "held"
    }

    /// What a command wrote into a file, once it is there and ends with a line.
    pub(crate) fn wait_for_file(&self, name: &str) -> String {
        let path = self.path(name);
        let mut text = String::new();
        eventually(&format!("{name} is written"), || {
            text = fs::read_to_string(&path).unwrap_or_default();
            text.ends_with('\n')
        });
        text
    }
}

impl Done {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// `leasehold` without a store, and with nothing of the surroundings that could matter.
pub(crate) fn bare(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    command.args(args).stdin(Stdio::null());
    for variable in ["LEASEHOLD_STORE", "LEASEHOLD_TICKET", "LEASEHOLD_LOG", "NO_COLOR"] {
        command.env_remove(variable);
    }
    command
}

pub(crate) fn done(command: &mut Command) -> Done {
    Done::from(command.output().unwrap())
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        Self {
            code: output.status.code().unwrap_or_else(|| -output.status.signal().unwrap()),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A command under way. Killed when it is dropped.
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        Self(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(self.0.as_ref().unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits for its end. What it started may still have the pipes open: then only so much is read as is there.
    pub(crate) fn end(mut self) -> Done {
        let mut child = self.0.take().unwrap();
        let read = |mut pipe: Box<dyn Read + Send>| {
            thread::spawn(move || {
                let mut bytes = Vec::new();
                pipe.read_to_end(&mut bytes).unwrap();
                bytes
            })
        };
        let out = read(Box::new(child.stdout.take().unwrap()));
        let err = read(Box::new(child.stderr.take().unwrap()));
        let status = child.wait().unwrap();
        Done::from(Output { status, stdout: out.join().unwrap(), stderr: err.join().unwrap() })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until it is so, and fails if it never is.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "never came: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process is there and not only waiting to be reaped.
pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    test_kill_process(Pid::from_raw(pid).unwrap()).is_ok() && state.is_some_and(|state| state != 'Z')
}

/// A script in the store's directory that can be executed.
pub(crate) fn script(store: &Store, name: &str, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = store.path(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// The last complete line of a file that a command writes times of day to, in nanoseconds.
pub(crate) fn last_time(path: &Path) -> u128 {
    let text = fs::read_to_string(path).unwrap();
    let complete = &text[..=text.rfind('\n').unwrap()];
    complete.lines().last().unwrap().parse().unwrap()
}
