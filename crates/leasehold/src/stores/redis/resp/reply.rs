//! What a reply says.

use super::{
    Malformed,
    scan::{Head, head, number},
};

/// What a server answers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Nil,
    /// The most frequent status.
    Ok,
    Int(i64),
    Bool(bool),
    Double(f64),
    /// A string, or another status: bytes, not always text.
    Text(Box<[u8]>),
    /// A refusal, which begins with a word in capitals.
    Error(Box<str>),
    /// An array or a set.
    Array(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
}

impl Reply {
    /// The integer, or an integer that came as text, as scripts give them.
    pub(crate) fn int(&self) -> Option<i64> {
        match self {
            Self::Int(int) => Some(*int),
            Self::Bool(bool) => Some(i64::from(*bool)),
            Self::Text(text) => number(text).ok(),
            _ => None,
        }
    }

    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Text(bytes) => Some(bytes),
            Self::Ok => Some(b"OK"),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        self.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    pub(crate) fn items(&self) -> Option<&[Reply]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// What a map has under this key.
    pub(crate) fn get(&self, key: &str) -> Option<&Reply> {
        match self {
            Self::Map(pairs) => pairs.iter().find(|(name, _)| name.text() == Some(key)).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The word in capitals that a refusal begins with.
    pub(crate) fn error_code(&self) -> Option<&str> {
        match self {
            Self::Error(text) => Some(text.split(' ').next().unwrap_or_default()),
            _ => None,
        }
    }
}

/// What comes over the wire.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Frame {
    /// The answer to the oldest request that has none yet.
    Reply(Reply),
    /// Something that was not asked for: its kind, and what belongs to it.
    Push(Vec<Reply>),
}

/// Reads what [`Scanner`](super::scan::Scanner) found to be whole.
pub(super) fn decode(mut bytes: &[u8]) -> Result<Frame, Malformed> {
    if let Some((Head::Values(b'>', count), length)) = head(bytes)? {
        bytes = &bytes[length..];
        return (0..count).map(|_| value(&mut bytes)).collect::<Result<_, _>>().map(Frame::Push);
    }
    value(&mut bytes).map(Frame::Reply)
}

/// One value, which is taken off `bytes`. Not deeper than the scanner let pass.
fn value(bytes: &mut &[u8]) -> Result<Reply, Malformed> {
    let (head, length) = head(bytes)?.ok_or(Malformed::End)?;
    *bytes = &bytes[length..];
    Ok(match head {
        Head::Nil => Reply::Nil,
        Head::Line(b'+', b"OK") => Reply::Ok,
        Head::Line(b'-', line) => Reply::Error(lossy(line)),
        Head::Line(b':', line) => Reply::Int(number(line)?),
        Head::Line(b'#', b"t") => Reply::Bool(true),
        Head::Line(b'#', b"f") => Reply::Bool(false),
        Head::Line(b'#', _) => return Err(Malformed::Number),
        Head::Line(b',', line) => Reply::Double(number(line)?),
        // A status, or a number too big for us to count with.
        Head::Line(_, line) => Reply::Text(line.into()),
        Head::Blob(kind, length) => {
            let blob = bytes.get(..length).ok_or(Malformed::End)?;
            *bytes = bytes.get(length + 2..).ok_or(Malformed::End)?;
            match kind {
                b'!' => Reply::Error(lossy(blob)),
                // `txt:` or `mkd:` says how to show it.
                b'=' => Reply::Text(blob.get(4..).ok_or(Malformed::End)?.into()),
                _ => Reply::Text(blob.into()),
            }
        }
        Head::Values(b'%', values) => {
            Reply::Map((0..values / 2).map(|_| Ok((value(bytes)?, value(bytes)?))).collect::<Result<_, _>>()?)
        }
        Head::Values(b'|', values) => {
            for _ in 1..values {
                value(bytes)?;
            }
            value(bytes)?
        }
        Head::Values(_, count) => Reply::Array((0..count).map(|_| value(bytes)).collect::<Result<_, _>>()?),
    })
}

fn lossy(bytes: &[u8]) -> Box<str> {
    String::from_utf8_lossy(bytes).into()
}
