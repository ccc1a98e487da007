//! What is printed: the answer on stdout, everything else on stderr.

use std::{
    borrow::Cow,
    fmt,
    io::{self, IsTerminal, Write},
    time::Duration,
};

use serde::Serialize;

use crate::failure::Failure;

/// How to answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    /// As `--json` was given or not.
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether the answer is JSON.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Prints the answer: a JSON document, or text for a person.
    pub(crate) fn answer(self, document: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
        // A reader that has had enough (`leasehold list | head -1`) is no error.
        print(&self.line(document, text)?).or_else(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Ok(()),
            _ => Err(unwritten(&error)),
        })
    }

    /// Prints an answer that must arrive: a reader that is gone is an error too.
    pub(crate) fn deliver(self, document: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
        print(&self.line(document, text)?).map_err(|error| unwritten(&error))
    }

    fn line(self, document: &impl Serialize, text: impl FnOnce() -> String) -> Result<String, Failure> {
        if self.json {
            serde_json::to_string(document).map_err(|error| Failure::system("the answer is not JSON", error))
        } else {
            Ok(text())
        }
    }

    /// Tells what went wrong.
    pub(crate) fn failure(self, failure: &Failure) {
        let message = scrub(&failure.message);
        let hint = scrub(&failure.hint);
        if self.json {
            let error = Problem { kind: failure.kind, message: &message, hint: &hint };
            if serde_json::to_string(&ErrorDocument { error }).is_ok_and(|line| print(&line).is_ok()) {
                return;
            }
        }
        let paint = Paint::stderr();
        let hint = if hint.is_empty() { String::new() } else { format!("{} {}\n", paint.dim("hint:"), visible(&hint)) };
        let lines = format!("{} {}\n{hint}", paint.red("leasehold:"), visible(&message));
        let _ = io::stderr().write_all(lines.as_bytes());
    }
}

#[derive(Serialize)]
struct ErrorDocument<'a> {
    error: Problem<'a>,
}

#[derive(Serialize)]
struct Problem<'a> {
    kind: leasehold::ErrorKind,
    message: &'a str,
    hint: &'a str,
}

/// One line on stderr, for people.
pub(crate) fn say(line: impl fmt::Display) {
    let line = format!("leasehold: {}\n", visible(&scrub(&line.to_string())));
    let _ = io::stderr().write_all(line.as_bytes());
}

fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}

fn unwritten(error: &io::Error) -> Failure {
    Failure {
        exit: crate::exit::Exit::Unavailable,
        kind: leasehold::ErrorKind::Unavailable,
        message: format!("the answer could not be written: {error}"),
        hint: "what was asked for has been done; look at where stdout goes".into(),
    }
}

/// Colours, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint(bool);

impl Paint {
    /// For stdout: only on a terminal, and not where `NO_COLOR` is set.
    pub(crate) fn stdout() -> Self {
        Self(io::stdout().is_terminal() && wanted())
    }

    /// The same for stderr.
    pub(crate) fn stderr() -> Self {
        Self(io::stderr().is_terminal() && wanted())
    }

    pub(crate) fn red(self, text: &str) -> Cow<'_, str> {
        self.wrap("31;1", text)
    }

    pub(crate) fn green(self, text: &str) -> Cow<'_, str> {
        self.wrap("32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> Cow<'_, str> {
        self.wrap("33", text)
    }

    pub(crate) fn bold(self, text: &str) -> Cow<'_, str> {
        self.wrap("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> Cow<'_, str> {
        self.wrap("2", text)
    }

    fn wrap<'a>(self, code: &str, text: &'a str) -> Cow<'a, str> {
        if self.0 { Cow::Owned(format!("\x1b[{code}m{text}\x1b[0m")) } else { Cow::Borrowed(text) }
    }
}

fn wanted() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Escapes control characters: what others wrote into the store must not steer this terminal.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().fold(String::new(), |mut shown, c| {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
        shown
    });
    Cow::Owned(shown)
}

/// Takes passwords and tickets out of a message, wherever they came from: clap repeats an argument that it refuses.
pub(crate) fn scrub(text: &str) -> Cow<'_, str> {
    let mut shown = without_tickets(text);
    let mut from = 0;
    while let Some(at) = shown[from..].find("://") {
        let start = from + at + 3;
        let end = shown[start..].find(|c: char| c == '/' || c.is_whitespace()).map_or(shown.len(), |at| start + at);
        from = end;
        let Some(last) = shown[start..end].rfind('@') else { continue };
        let Some(colon) = shown[start..start + last].find(':') else { continue };
        shown.to_mut().replace_range(start + colon..start + last, "");
        from = end - (last - colon);
    }
    shown
}

fn without_tickets(text: &str) -> Cow<'_, str> {
    const START: &str = "lease1.";
    let mut shown = Cow::Borrowed(text);
    let mut from = 0;
    while let Some(at) = shown[from..].find(START) {
        let start = from + at + START.len();
        let ends = |c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`');
        let end = shown[start..].find(ends).map_or(shown.len(), |at| start + at);
        if start < end {
            shown.to_mut().replace_range(start..end, "…");
        }
        from = start;
    }
    shown
}

/// A duration as people read it: rounded to what matters at its size.
pub(crate) fn span(span: Duration) -> String {
    let step = match span.as_secs() {
        0 => Duration::from_millis(1),
        1..=9 => Duration::from_millis(100),
        10..=3599 => Duration::from_secs(1),
        3600..=86_399 => Duration::from_mins(1),
        _ => Duration::from_hours(1),
    };
    let steps = span.as_millis() / step.as_millis();
    let cut = Duration::from_millis(u64::try_from(steps * step.as_millis()).unwrap_or(u64::MAX));
    humantime::format_duration(cut).to_string()
}

/// Milliseconds, as the JSON documents give them.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_cut_to_what_people_read() {
        for (given, shown) in [
            (Duration::from_micros(1500), "1ms"),
            (Duration::from_millis(9_876), "9s 800ms"),
            (Duration::from_millis(29_999), "29s"),
            (Duration::from_secs(3725), "1h 2m"),
            (Duration::from_secs(90_061), "1day 1h"),
        ] {
            assert_eq!(span(given), shown);
        }
    }

    #[test]
    fn a_password_in_a_message_is_taken_out() {
        for (given, shown) in [
            ("unexpected 'redis://me:pw@host/0' found", "unexpected 'redis://me@host/0' found"),
            ("redis://:p@w@h and redis://:x@i", "redis://@h and redis://@i"),
            ("redis://host/a:b@c", "redis://host/a:b@c"),
            ("no url: at@all", "no url: at@all"),
        ] {
            assert_eq!(scrub(given), shown);
        }
    }

    #[test]
    fn a_ticket_in_a_message_is_taken_out() {
        for (given, shown) in [
            ("unexpected argument 'lease1.abc-_9' found", "unexpected argument 'lease1.…' found"),
            ("lease1.a=+/b, lease1.c", "lease1.… lease1.…"),
            ("begins with lease1. and so on", "begins with lease1. and so on"),
        ] {
            assert_eq!(scrub(given), shown);
        }
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(visible("a\x1b[2Jb\u{9b}1m"), "a\\u{1b}[2Jb\\u{9b}1m");
    }
}
