//! Help, completions, manual pages.

use std::process::Command;

use crate::support::{Store, bare, done};

const COMMANDS: [&str; 11] =
    ["run", "acquire", "renew", "release", "check", "keepalive", "status", "list", "break", "completions", "man"];

#[test]
fn help_teaches_every_command_with_examples() {
    let all = done(&mut bare(&["--help"]));
    assert_eq!((all.code, all.err.as_str()), (0, ""));
    for part in ["Exit codes:", "LEASEHOLD_STORE", "79", "Examples:"] {
        assert!(all.out.contains(part), "{part}");
    }
    for command in COMMANDS {
        assert!(all.out.contains(&format!("\n  {command} ")), "{command} is not listed");
        let help = done(&mut bare(&[command, "--help"]));
        assert_eq!((help.code, help.err.as_str()), (0, ""), "{command}");
        assert!(help.out.contains("Examples:\n"), "{command} has no example");
        assert!(help.out.contains(&format!("leasehold {command}")), "{command} is not in its example");
    }
    assert_eq!(done(&mut bare(&["--version"])).code, 0);
}

#[test]
fn completions_are_made_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = done(&mut bare(&["completions", shell]));
        assert_eq!((script.code, script.err.as_str()), (0, ""), "{shell}");
        for command in COMMANDS {
            assert!(script.out.contains(command), "{shell}: {command}");
        }
    }
    let script = done(&mut bare(&["completions", "bash"])).out;
    let checked = Command::new("bash").args(["-n", "-c", &script]).status().unwrap();
    assert!(checked.success(), "bash cannot read it");
}

#[test]
fn manual_pages_are_printed_or_written_one_for_each_command() {
    let all = done(&mut bare(&["man"]));
    assert_eq!((all.code, all.err.as_str()), (0, ""));
    assert_eq!(all.out.matches("\n.TH ").count(), 1 + COMMANDS.len());
    let store = Store::new();
    let dir = store.path("man/man1");
    let done = store.leasehold(&["man", "--dir", dir.to_str().unwrap()]);
    assert_eq!(done.code, 0, "{done:?}");
    for command in COMMANDS {
        let page = std::fs::read_to_string(dir.join(format!("leasehold-{command}.1"))).unwrap();
        assert!(page.contains(&format!("leasehold {command}")), "{page}");
    }
    assert!(dir.join("leasehold.1").exists());
    assert_eq!(store.leasehold(&["man", "--dir", "/proc/nowhere"]).code, 64);
}
