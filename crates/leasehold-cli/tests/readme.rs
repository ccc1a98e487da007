//! What README shows is typed here, word for word. (Its Rust examples run as the library's doctests.)

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

const README: &str = include_str!("../../../README.md");

/// The fenced blocks of a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let opening = format!("```{language}\n");
    README.split(opening.as_str()).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

fn shell(script: &str, state: &Path) -> std::process::Output {
    let binary = Path::new(env!("CARGO_BIN_EXE_leasehold")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    Command::new("bash")
        .args(["-euo", "pipefail", "-c", script])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env("PATH", path)
        .env("XDG_STATE_HOME", state)
        .env_remove("LEASEHOLD_STORE")
        .env_remove("LEASEHOLD_TICKET")
        .output()
        .unwrap()
}

#[track_caller]
fn succeeds(script: &str, state: &Path) -> String {
    let output = shell(script, state);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n→ {:?}\n{error}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_command_of_the_readme_works_as_typed() {
    let state = tempfile::tempdir().unwrap();
    let blocks = blocks("sh");
    assert!(blocks.len() > 6, "README has its examples");
    let typed: Vec<String> = blocks
        .into_iter()
        .filter(|block| block.trim() != "./test")
        .map(|block| succeeds(block, state.path()))
        .collect();
    let shown = typed.concat();
    for line in ["nobody else runs this now", "the second one left with 75", "deploying", "the holder is told: 79"] {
        assert!(shown.contains(line), "{line:?} in {shown}");
    }
    assert!(!shown.contains("never printed"), "{shown}");
}

#[test]
fn the_cron_line_leaves_at_once_while_another_run_is_at_work() {
    let state = tempfile::tempdir().unwrap();
    let [line] = blocks("crontab")[..] else { panic!("one cron line") };
    // Five fields of time, then the command.
    let command = line.split_whitespace().skip(5).collect::<Vec<_>>().join(" ");
    assert!(succeeds(&command, state.path()).contains("making the report"));
    let both = format!("leasehold run reports -- bash -c {}", shell_quote(&command));
    let output = shell(&both, state.path());
    assert_eq!(output.status.code(), Some(75), "{}", String::from_utf8_lossy(&output.stderr));
}

fn shell_quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Every `.rs` file of the repository.
fn sources(folder: &Path, found: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

/// The Markdown files of a folder, and of those below it.
fn manuals(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            manuals(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

#[test]
fn every_file_that_the_manuals_link_to_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md"), root.join("SECURITY.md")];
    manuals(&root.join("docs"), &mut pages);
    let mut links = 0;
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") || file.contains(char::is_whitespace) {
                continue;
            }
            links += 1;
            assert!(page.parent().unwrap().join(file).exists(), "{} links to {target}", page.display());
        }
    }
    assert!(links > 10, "{links}");
}

#[test]
fn every_test_that_the_guarantees_name_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut code = String::new();
    sources(&root.join("crates"), &mut code);
    let guarantees = std::fs::read_to_string(root.join("docs/guarantees.md")).unwrap();
    let named: Vec<&str> = guarantees
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| {
            word.matches('_').count() >= 3
                && word.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())
        })
        .collect();
    assert!(named.len() > 40, "{}", named.len());
    let mut missing = named;
    missing.retain(|name| !code.contains(&format!("fn {name}(")) && !code.contains(&format!(" {name}\n")));
    assert!(missing.is_empty(), "{missing:#?}");
}
