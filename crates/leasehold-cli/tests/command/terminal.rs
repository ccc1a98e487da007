//! `run` on a terminal, under a shell with job control: as without us.

use std::{
    fs::File,
    io::{Read, Write},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use rustix::{
    fs::{Mode, OFlags, open},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};

use crate::support::{Store, eventually, is_alive, script};

/// An interactive shell on a terminal of its own.
struct Shell {
    keyboard: File,
    screen: Arc<Mutex<String>>,
    seen: usize,
    child: Child,
}

impl Shell {
    fn new(store: &Store) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = open(&name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let stdio = || Stdio::from(slave.try_clone().unwrap());
        let child = Command::new("setsid")
            .args(["--ctty", "bash", "--norc", "--noprofile", "-i"])
            .stdin(stdio())
            .stdout(stdio())
            .stderr(stdio())
            .current_dir(store.path("."))
            .env("LEASEHOLD_STORE", store.url())
            .env("leasehold", env!("CARGO_BIN_EXE_leasehold"))
            .env("PS1", "ready> ")
            .env("TERM", "dumb")
            .env("HISTFILE", "")
            .spawn()
            .unwrap();
        let keyboard = File::from(master);
        let screen = Arc::new(Mutex::new(String::new()));
        let mut shell = Self { keyboard: keyboard.try_clone().unwrap(), screen: screen.clone(), seen: 0, child };
        let mut reader = keyboard;
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The read fails once the last one has closed the terminal.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                screen.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        shell.expect("ready> ");
        shell
    }

    fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Runs a line that does not come back to the prompt by itself.
    fn run(&mut self, line: &str) {
        self.type_in(&format!("{line}\n"));
        // What is typed shows, too.
        self.expect("\n");
    }

    /// Waits until this shows after what was seen before, and gives back what came before it.
    fn expect(&mut self, text: &str) -> String {
        let mut before = String::new();
        let (screen, seen) = (self.screen.clone(), self.seen);
        let mut found = 0;
        eventually(&format!("{text:?} shows, after {:?}", &screen.lock().unwrap()[seen..]), || {
            let screen = screen.lock().unwrap();
            let Some(at) = screen[seen..].find(text) else { return false };
            screen[seen..seen + at].clone_into(&mut before);
            found = seen + at + text.len();
            true
        });
        self.seen = found;
        before
    }

    /// The exit code of the last command.
    fn code(&mut self) -> i32 {
        self.type_in("echo code=$?=\n");
        self.expect("\ncode=");
        let code = self.expect("=").trim().parse().unwrap();
        self.expect("ready> ");
        code
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the terminal showed:\n{}", self.screen.lock().unwrap());
        }
    }
}

#[test]
fn the_command_can_read_from_the_terminal() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    shell.run("$leasehold run x -- sh -c 'read line; echo \"got <$line>\"'");
    shell.type_in("hello\n");
    shell.expect("got <hello>");
    shell.expect("ready> ");
    assert_eq!(shell.code(), 0);
}

#[test]
fn the_commands_group_is_in_the_foreground_and_the_shells_again_after() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    shell.run("$leasehold run x -- sh -c 'cut -d\" \" -f5,8 /proc/$$/stat > groups'");
    shell.expect("ready> ");
    let groups = store.wait_for_file("groups");
    let mut groups = groups.split_whitespace();
    assert_eq!(groups.next(), groups.next(), "foreground");
    shell.run("cat");
    shell.type_in("still here\n\x04");
    shell.expect("still here\r\nstill here");
    shell.expect("ready> ");
}

#[test]
fn a_command_that_is_ended_leaves_the_terminal_as_it_was() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    shell.run("$leasehold run x --max-hold 1s -- sh -c 'stty -echo; exec sleep 30'");
    shell.expect("ready> ");
    assert_eq!(shell.code(), 79);
    shell.run("stty -a");
    let modes = shell.expect("ready> ");
    assert!(modes.contains(" echo ") && !modes.contains(" -echo "), "{modes}");
}

#[test]
fn ctrl_c_is_the_commands() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    shell.run("$leasehold run x -- sh -c 'trap \"echo caught; exit 3\" INT; echo up; while :; do sleep 0.02; done'");
    shell.expect("up\r\n");
    shell.type_in("\x03");
    shell.expect("caught");
    shell.expect("ready> ");
    assert_eq!(shell.code(), 3);

    shell.run("$leasehold run x -- sh -c 'echo up; exec sleep 30'");
    shell.expect("up\r\n");
    shell.type_in("\x03");
    shell.expect("ready> ");
    assert_eq!(shell.code(), 130);
    assert!(!store.is_held("x"));
}

#[test]
fn ctrl_z_stops_us_too_and_fg_goes_on() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    shell.run("$leasehold run x -- sh -c 'echo up; read line; echo \"got <$line>\"; exit 4'");
    shell.expect("up\r\n");
    shell.type_in("\x1a");
    shell.expect("Stopped");
    shell.expect("ready> ");
    shell.run("echo the shell is back");
    shell.expect("the shell is back");
    shell.expect("ready> ");
    shell.run("fg");
    shell.type_in("again\n");
    shell.expect("got <again>");
    shell.expect("ready> ");
    assert_eq!(shell.code(), 4);
}

#[test]
fn fg_after_the_lease_ran_out_kills_the_command_and_it_makes_no_step_more() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    // Not sh: its vfork does not stop half-way, with or without us.
    let step = "trap \"> asked\" TERM; echo $$ > pid; echo up; while :; do date +%s%N >> steps; sleep 0.01; done";
    shell.run(&format!("$leasehold run x --ttl 1s -- bash -c '{step}'"));
    shell.expect("up\r\n");
    store.wait_for_file("steps");
    shell.type_in("\x1a");
    shell.expect("Stopped");
    shell.expect("ready> ");
    let taken = store.leasehold(&["run", "x", "--wait", "20s", "--", "date", "+%s%N"]);
    assert_eq!(taken.code, 0, "{taken:?}");
    shell.run("fg");
    let said = shell.expect("ready> ");
    assert!(said.contains("is lost"), "{said}");
    assert!(!store.path("asked").exists(), "it is too late to ask");
    assert_eq!(shell.code(), 79);
    let last = crate::support::last_time(&store.path("steps"));
    assert!(last < taken.out.trim().parse().unwrap());
    assert!(!is_alive(store.wait_for_file("pid").trim().parse().unwrap()));
}

#[test]
fn bg_goes_on_in_the_background_and_keeps_off_the_terminal() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    shell.run("$leasehold run x -- bash -c 'echo up; while ! [ -e go ]; do sleep 0.02; done; echo went on > went; read line; echo \"got <$line>\"'");
    shell.expect("up\r\n");
    shell.type_in("\x1a");
    shell.expect("Stopped");
    shell.expect("ready> ");
    shell.run("bg");
    shell.expect("ready> ");
    std::fs::write(store.path("go"), "").unwrap();
    store.wait_for_file("went");
    // It wants to read now, and is stopped for that as any job would be.
    eventually("the shell says that it is stopped", || {
        shell.type_in("jobs\n");
        thread::sleep(Duration::from_millis(50));
        let screen = shell.screen.lock().unwrap();
        screen[shell.seen..].contains("Stopped")
    });
    shell.run("fg");
    shell.type_in("now\n");
    shell.expect("got <now>");
}

#[test]
fn a_script_in_between_stops_and_goes_on_with_us() {
    let store = Store::new();
    let name = script(
        &store,
        "job",
        "#!/bin/sh\n$leasehold run x -- sh -c 'echo up; read line; echo \"got <$line>\"'\necho after\n",
    );
    let mut shell = Shell::new(&store);
    shell.run(&name);
    shell.expect("up\r\n");
    shell.type_in("\x1a");
    shell.expect("Stopped");
    shell.expect("ready> ");
    shell.run("fg");
    shell.type_in("again\n");
    shell.expect("got <again>");
    shell.expect("after");
    shell.expect("ready> ");
}

#[test]
fn in_a_pipeline_the_others_keep_the_terminal_until_the_command_asks() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    // The reader at the end asks for a line from the terminal, as a pager does.
    shell.run("$leasehold run x -- echo text | sh -c 'cat; echo asks; read line < /dev/tty; echo \"got <$line>\"'");
    shell.expect("asks\r\n");
    shell.type_in("one\n");
    shell.expect("got <one>");
    shell.expect("ready> ");
    // Here it is the command that asks.
    shell.run("echo text | $leasehold run x -- sh -c 'cat; echo asks; read line < /dev/tty; echo \"got <$line>\"'");
    shell.expect("asks\r\n");
    shell.type_in("two\n");
    shell.expect("got <two>");
    shell.expect("ready> ");
    // Ctrl-C and Ctrl-Z come to us there, and are passed on.
    shell.run("$leasehold run x -- sh -c 'echo up >&2; exec sleep 30' | cat");
    shell.expect("up\r\n");
    shell.type_in("\x1a");
    shell.expect("Stopped");
    shell.expect("ready> ");
    shell.run("fg");
    eventually("it goes on", || store.is_held("x"));
    shell.type_in("\x03");
    shell.expect("ready> ");
    eventually("it is over", || !store.is_held("x"));
}

#[test]
fn waiting_shows_live_and_leaves_no_trace() {
    let store = Store::new();
    let ticket = store.acquire(&["x", "--owner", "the other"]);
    let mut shell = Shell::new(&store);
    shell.run("stty cols 200; $leasehold run x -- echo mine");
    shell.expect("\r\u{1b}[Kleasehold: waiting for x, 5s so far: held by the other");
    shell.expect("waiting for x, 6s so far");
    store.leasehold(&["release", "--ticket", &ticket]);
    shell.expect("\r\u{1b}[Kmine");
    shell.expect("ready> ");
}

#[test]
fn ctrl_c_while_waiting_leaves_the_queue() {
    let store = Store::new();
    store.acquire(&["x"]);
    let mut shell = Shell::new(&store);
    shell.run("$leasehold run x -- echo mine");
    eventually("it waits", || store.status("x")["queue"].as_array().unwrap().len() == 1);
    shell.type_in("\x03");
    shell.expect("ready> ");
    assert_eq!(shell.code(), 130);
    assert_eq!(store.status("x")["queue"].as_array().unwrap().len(), 0);
}

#[test]
fn colours_show_on_a_terminal_and_not_with_no_color() {
    let store = Store::new();
    let mut shell = Shell::new(&store);
    shell.run("TERM=xterm $leasehold status x");
    shell.expect("\u{1b}[32mfree\u{1b}[0m");
    shell.run("NO_COLOR=1 TERM=xterm $leasehold status x");
    shell.expect("x is free\r\n");
}
