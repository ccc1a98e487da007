//! Where a reply ends, found as its bytes come in, without looking at those that were looked at before: a large reply
//! that comes in small pieces must not cost the square of its size.

use super::Malformed;

/// The largest reply that is accepted, and the deepest.
pub(super) const LARGEST: usize = 64 << 20;
const DEEPEST: usize = 16;
/// The longest line: a status, an error, a number.
const LONGEST_LINE: usize = 64 << 10;

/// Looks for the end of one reply.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    /// So much of the reply is understood.
    at: usize,
    /// How many values are still missing, on each level that is open.
    open: Vec<u64>,
}

/// A value's first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head<'a> {
    /// All of it: its type and what stands in the line.
    Line(u8, &'a [u8]),
    /// So many bytes follow, and a line end.
    Blob(u8, usize),
    /// So many values follow.
    Values(u8, u64),
    Nil,
}

impl Scanner {
    /// The length of the reply that `bytes` begins with, once it is all there. Until then, call again with more.
    pub(super) fn end(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        loop {
            let Some((head, length)) = head(&bytes[self.at..])? else { return Ok(None) };
            let mut end = self.at + length;
            let mut values = 0;
            match head {
                Head::Line(..) | Head::Nil => {}
                Head::Blob(_, length) => {
                    end = end.saturating_add(length + 2);
                    if end > LARGEST {
                        return Err(Malformed::Large);
                    }
                    if bytes.len() < end {
                        return Ok(None);
                    }
                    if &bytes[end - 2..end] != b"\r\n" {
                        return Err(Malformed::End);
                    }
                }
                Head::Values(kind, count) => {
                    if kind == b'>' && (self.at > 0 || count == 0) {
                        return Err(Malformed::Push);
                    }
                    values = count;
                }
            }
            self.at = end;
            if end > LARGEST {
                return Err(Malformed::Large);
            }
            if values > 0 {
                if self.open.len() == DEEPEST {
                    return Err(Malformed::Deep);
                }
                self.open.push(values);
                continue;
            }
            while let Some(missing) = self.open.last_mut() {
                *missing -= 1;
                if *missing > 0 {
                    break;
                }
                self.open.pop();
            }
            if self.open.is_empty() {
                self.at = 0;
                return Ok(Some(end));
            }
        }
    }
}

/// The first line of the value that `bytes` begins with, and its length.
pub(super) fn head(bytes: &[u8]) -> Result<Option<(Head<'_>, usize)>, Malformed> {
    let Some(&kind) = bytes.first() else { return Ok(None) };
    if !b"+-:_#,($=!*~>%|".contains(&kind) {
        return Err(Malformed::Type(kind));
    }
    let Some(end) = line_end(bytes)? else { return Ok(None) };
    let line = &bytes[1..end];
    let head = match kind {
        b'$' | b'=' | b'!' => match length(line)? {
            Some(length) => Head::Blob(kind, usize::try_from(length).map_err(|_| Malformed::Large)?),
            None => Head::Nil,
        },
        b'*' | b'~' | b'>' => length(line)?.map_or(Head::Nil, |count| Head::Values(kind, count)),
        b'%' | b'|' => match length(line)? {
            // An attribute is not a value: the one that it belongs to follows it.
            Some(pairs) => {
                let values = pairs.checked_mul(2).and_then(|values| values.checked_add(u64::from(kind == b'|')));
                Head::Values(kind, values.ok_or(Malformed::Large)?)
            }
            None => return Err(Malformed::Number),
        },
        b'_' => Head::Nil,
        _ => Head::Line(kind, line),
    };
    Ok(Some((head, end + 2)))
}

/// Where the first line's `\r\n` stands.
fn line_end(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let searched = &bytes[..bytes.len().min(LONGEST_LINE)];
    match searched.iter().position(|byte| *byte == b'\r') {
        Some(end) if end + 1 == bytes.len() => Ok(None),
        Some(end) if bytes[end + 1] == b'\n' => Ok(Some(end)),
        Some(_) => Err(Malformed::End),
        None if searched.len() == LONGEST_LINE => Err(Malformed::Large),
        None => Ok(None),
    }
}

/// A length; `-1` is none.
fn length(line: &[u8]) -> Result<Option<u64>, Malformed> {
    match line {
        b"-1" => Ok(None),
        [first, ..] if first.is_ascii_digit() => number(line).map(Some),
        _ => Err(Malformed::Number),
    }
}

pub(super) fn number<N: std::str::FromStr>(line: &[u8]) -> Result<N, Malformed> {
    std::str::from_utf8(line).ok().and_then(|text| text.parse().ok()).ok_or(Malformed::Number)
}
