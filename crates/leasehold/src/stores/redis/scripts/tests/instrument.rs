//! Scripts that note which branches were taken, and scripts with a mistake in them.
//!
//! Both rely on how the scripts are written: one statement on a line, and what opens a block at the end of it.

use super::super::TEXTS;

/// Scripts that note what they do.
pub(super) struct Branches {
    pub(super) texts: Vec<String>,
    /// Where each branch is.
    pub(super) places: Vec<String>,
}

impl Branches {
    pub(super) fn of(texts: &[String]) -> Self {
        let mut branches = Self { texts: Vec::new(), places: Vec::new() };
        // The shared rules count once, whichever script runs them.
        let shared = shared_lines();
        let mut numbers = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let mut out = String::new();
            // Whether the block needs an `else` to see that it was not entered.
            let mut open: Vec<bool> = Vec::new();
            for (at, line) in text.lines().enumerate() {
                let code = line.trim();
                let place = |what: &str| {
                    let file = if at < shared { "rules.lua" } else { TEXTS[index].1 };
                    format!("{file}:{} {what}: {code}", if at < shared { at + 1 } else { at + 1 - shared })
                };
                let mut note = |what: &str| {
                    let place = place(what);
                    let known = numbers.iter().position(|known| *known == place);
                    let number = known.unwrap_or_else(|| {
                        numbers.push(place);
                        numbers.len() - 1
                    });
                    format!(" redis.call('SADD', 'test:taken', {number})")
                };
                if code.starts_with("--") {
                    out.push_str(line);
                } else if code == "end" || code == "end)" || code.starts_with("until ") {
                    if open.pop() == Some(true) {
                        out.push_str("else");
                        out.push_str(&note("not taken"));
                        out.push(' ');
                    }
                    out.push_str(line);
                } else if code.starts_with("elseif ") {
                    out.push_str(line);
                    out.push_str(&note("taken"));
                } else if code == "else" {
                    *open.last_mut().expect("an else is in a block") = false;
                    out.push_str(line);
                    out.push_str(&note("taken"));
                } else if code.starts_with("if ") || code.ends_with(" do") || code == "repeat" || is_function(code) {
                    assert!(!code.starts_with("if ") || code.ends_with(" then"), "{code}");
                    open.push(code.starts_with("if "));
                    out.push_str(line);
                    if !is_function(code) || at >= shared {
                        out.push_str(&note("taken"));
                    } else {
                        // Not every script uses every rule, but some script does.
                        out.push_str(&note("called"));
                    }
                } else {
                    out.push_str(line);
                }
                out.push('\n');
            }
            assert!(open.is_empty(), "{}: blocks do not match", TEXTS[index].1);
            branches.texts.push(out);
        }
        branches.places = numbers;
        branches
    }
}

fn is_function(code: &str) -> bool {
    code.contains("function") && code.ends_with(')') && !code.starts_with("--")
}

fn shared_lines() -> usize {
    include_str!("../rules.lua").lines().count()
}

/// Each condition the other way round, one at a time.
pub(super) fn mutants(texts: &[String]) -> Vec<(String, Vec<String>)> {
    let shared = shared_lines();
    let mut mutants = Vec::new();
    let sources = std::iter::once(("rules.lua", 0, texts[0].lines().take(shared).collect::<Vec<_>>())).chain(
        TEXTS.iter().zip(texts).map(|((_, file, _), text)| (*file, shared, text.lines().skip(shared).collect())),
    );
    for (file, before, lines) in sources {
        for (at, line) in lines.iter().enumerate() {
            let code = line.trim();
            let Some(condition) =
                code.strip_prefix("if ").or(code.strip_prefix("elseif ")).and_then(|code| code.strip_suffix(" then"))
            else {
                continue;
            };
            let wrong = line.replacen(condition, &format!("not ({condition})"), 1);
            let changed = texts.iter().zip(TEXTS).map(|(text, (_, own, _))| {
                let mut lines: Vec<&str> = text.lines().collect();
                if before == 0 || *own == file {
                    lines[before + at] = &wrong;
                }
                lines.join("\n")
            });
            mutants.push((format!("{file}:{} {code}", at + 1), changed.collect()));
        }
    }
    mutants
}
